// The interfaces: both directions on the scale of the link's rate, what is dropped, and by queue.

import { bits, byId, element } from './numbers.js';
import { summed } from './past.js';
import { keep, known, percent, rate, rows, say, why } from './tables.js';

// A link above this is full.
const FULL = 0.9;

function make() {
  const way = (name) => element('div', { class: 'way' }, element('span', {}, name),
    element('span', { class: 'bar', role: 'img' }, element('i', {})), element('b', {}), element('span', {}), element('span', { class: 'soft' }));
  const head = (names) => element('tr', {}, ...names.map(([name, kind]) => element('th', { scope: 'col', class: kind ?? '' }, name)));
  const queues = element('details', {}, element('summary', {}, 'By queue'), element('div', { class: 'scroll' }, element('table', {}, element('thead', {},
    head([['Queue'], ['Received', 'r'], ['packets/s', 'r'], ['Sent', 'r'], ['packets/s', 'r'], ['Drops/s', 'r'], ['Interrupts/s', 'r'], ['Core', 'r'], ['Told by']])), element('tbody', {}))));
  const driver = element('details', {}, element('summary', {}, 'What its driver counts'), element('div', { class: 'scroll' }, element('table', {}, element('thead', {},
    head([['Counter'], ['per second', 'r'], ['in all', 'r']])), element('tbody', {}))));
  return element('div', { class: 'nic' }, element('p', {}, element('b', {}), element('span', { class: 'soft small' }), element('span', { class: 'tag' })),
    way('Sent'), way('Received'), element('p', { class: 'problem' }), queues, driver);
}

function showWay(line, way, link, scale) {
  const [, bar, value, share, packets] = line.children;
  const of = way.share_of_link ?? (scale > 0 && way.bits_per_second !== null ? way.bits_per_second / scale : 0);
  bar.firstChild.style.width = `${Math.min(100, of * 100).toFixed(1)}%`;
  bar.classList.toggle('full', way.share_of_link !== null && of >= FULL);
  bar.classList.toggle('unscaled', link === null);
  say(value, way.bits_per_second === null ? '–' : bits(way.bits_per_second));
  say(share, way.share_of_link === null ? '' : percent(way.share_of_link));
  say(packets, way.packets_per_second === null ? '' : `${rate(way.packets_per_second)} packets/s`);
  bar.setAttribute('aria-label', `${value.textContent}${share.textContent ? `, ${share.textContent} of the link` : ''}`);
}

function problems(nic) {
  const all = [];
  for (const [way, word] of [[nic.receive, 'received'], [nic.send, 'sent']]) {
    if (way.drops_per_second > 0) all.push(`${rate(way.drops_per_second)} drops/s of what is ${word}`);
    if (way.errors_per_second > 0) all.push(`${rate(way.errors_per_second)} errors/s of what is ${word}`);
  }
  return all.join('; ');
}

function update(box, nic) {
  const [head, send, receive, problem, queues, driver] = box.children;
  const link = known(nic.link_bits_per_second);
  const [name, about, tag] = head.children;
  say(name, nic.name);
  const rated = link === null ? `link rate unknown (${why(nic.link_bits_per_second)}): ${nic.measured_bits_per_second ? 'bars on the scale of what was measured' : 'no bars, for nothing says what is full'}` : `link ${bits(link)}`;
  const built = nic.built_on.length ? `built on ${nic.built_on.join(', ')}: not in the sum` : null;
  say(about, ` ${[nic.driver, rated, built].filter(Boolean).join(', ')}`);
  say(tag, nic.carrier === false ? 'no carrier' : nic.up === false ? 'down' : '');
  showWay(send, nic.send, link, link ?? nic.measured_bits_per_second);
  showWay(receive, nic.receive, link, link ?? nic.measured_bits_per_second);
  say(problem, problems(nic));
  problem.hidden = !problem.textContent;
  queues.hidden = nic.queues.length === 0;
  driver.hidden = nic.ethtool.length === 0;
  // What is closed costs nothing.
  const body = (details) => details.querySelector('tbody');
  if (queues.open) {
    rows(body(queues), nic.queues, (queue) => queue.name, (queue) => [
      queue.name, [rate(queue.receive_bytes_per_second === null ? null : queue.receive_bytes_per_second * 8, 'b/s'), 'r'], [rate(queue.receive_packets_per_second), 'r'],
      [rate(queue.send_bytes_per_second === null ? null : queue.send_bytes_per_second * 8, 'b/s'), 'r'], [rate(queue.send_packets_per_second), 'r'],
      [rate(queue.drops_per_second), queue.drops_per_second > 0 ? 'r bad' : 'r'], [rate(queue.interrupts_per_second), 'r'], [queue.core ?? '–', 'r'], queue.source,
    ]);
  }
  if (driver.open) {
    rows(body(driver), nic.ethtool, (counter) => counter.name, (counter) => [counter.name, [rate(counter.per_second), counter.per_second > 0 ? 'r bad' : 'r'], [rate(counter.total), 'r']]);
  }
}

export function showNics(moment) {
  keep(byId('nic-list'), moment.nics, (nic) => nic.name, make, update);
  byId('no-nics').hidden = moment.nics.length > 0;
  for (const way of ['send', 'receive']) {
    const all = summed(moment.nics).map((nic) => nic[way].bits_per_second).filter((value) => value !== null);
    say(byId(`sum-${way}`), all.length ? bits(all.reduce((sum, value) => sum + value, 0)) : '–');
  }
}
