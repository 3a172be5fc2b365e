// The loss ledger, power, memory, pressure, protocols, links.

import { byId, bytes, count, element, scaled } from './numbers.js';
import { keep, known, numbers, percent, rate, rows, say, why } from './tables.js';

const size = (value) => scaled(value, 'B');
const grows = (line) => line.per_second > 0;

export function showLedger({ drops }) {
  const lines = [...drops.filter(grows), ...drops.filter((line) => !grows(line))];
  const where = (line) => (line.interface ? `${line.layer}, ${line.interface}` : line.layer);
  rows(byId('drop-list'), lines, (line) => `${where(line)} ${line.counter}`, (line) => [
    where(line), line.counter, [line.per_second === null ? '–' : `${rate(line.per_second)} ${line.unit}`, grows(line) ? 'r bad' : 'r'], [count(line.total), 'r'], [line.cure, 'cure'],
  ], (row, line) => {
    row.className = grows(line) ? '' : 'still';
    row.title = line.meaning;
  });
  byId('no-drops').hidden = drops.length > 0;
}

export function showPower({ power, energy }) {
  say(byId('watts'), energy.watts === null ? 'unknown' : `${energy.watts.toFixed(0)} W`);
  const items = [];
  const by = known(energy.by);
  items.push(by === null ? ['Meter', 'none', why(energy.by)] : ['Meter', by]);
  if (energy.joules_per_gb !== null) items.push(['Energy per GB moved', `${rate(energy.joules_per_gb, 'J')}`, energy.joules_per_gb_above_idle === null ? '' : `${rate(energy.joules_per_gb_above_idle, 'J')} above idle`]);
  if (energy.moved_bytes_per_second !== null) items.push(['Moved', bytes(energy.moved_bytes_per_second)]);
  for (const meter of power) {
    const watts = known(meter.watts);
    const notes = [];
    if (watts === null) notes.push(why(meter.watts));
    if (meter.idle_watts !== null) notes.push(`idle ${meter.idle_watts.toFixed(0)} W`);
    if (meter.above_idle_watts !== null) notes.push(`${meter.above_idle_watts >= 0 ? '+' : ''}${meter.above_idle_watts.toFixed(0)} W above idle`);
    if (meter.joules !== null) notes.push(`${rate(meter.joules, 'J')} since the watch began`);
    items.push([meter.name, watts === null ? 'unknown' : `${watts.toFixed(1)} W`, notes.join(', ')]);
  }
  numbers(byId('power-numbers'), items);
  byId('chart-power').hidden = energy.watts === null;
}

export function showMemory({ memory, pressure }) {
  const items = [
    ['Available', size(memory.available), `of ${size(memory.total)}`],
    ['Page cache', size(memory.cached)],
    ['Dirty, being written', `${size(memory.dirty)}, ${size(memory.writeback)}`],
  ];
  if (memory.locked) items.push(['Locked', size(memory.locked)]);
  if (memory.huge_total) items.push(['Huge pages', `${size(memory.huge_free)} free`, `of ${size(memory.huge_total)}`]);
  if (memory.swap_total) items.push(['Swap free', size(memory.swap_free), `of ${size(memory.swap_total)}`]);
  for (const one of pressure) {
    const some = one.some_share ?? one.some_10s;
    const full = one.full_share ?? one.full_10s;
    items.push([`Pressure: ${one.resource}`, some === null ? percent(full) : percent(some), some === null ? 'of the time, all waited' : full === null ? 'of the time, some waited' : `of the time, some waited; all: ${percent(full)}`, (some ?? full) > 0.2]);
  }
  numbers(byId('memory-numbers'), items);
}

export function showProtocols({ tcp, udp }) {
  const bad = (value) => value > 0;
  const items = [
    ['TCP connections', tcp.established === null ? '–' : count(tcp.established)],
    ['TCP segments in, out', `${rate(tcp.segments_in_per_second)}/s, ${rate(tcp.segments_out_per_second)}/s`],
    ['TCP retransmits', `${rate(tcp.retransmits_per_second)}/s`, tcp.retransmit_share === null ? '' : `${(tcp.retransmit_share * 100).toFixed(3)} % of what is sent`, tcp.retransmit_share > 0.001],
    ['TCP time-outs', `${rate(tcp.timeouts_per_second)}/s`],
    ['TCP zero windows', `${rate(tcp.zero_windows_per_second)}/s`, 'programs here read too slowly', bad(tcp.zero_windows_per_second)],
    ['TCP queues pruned', `${rate(tcp.pruned_per_second)}/s`, '', bad(tcp.pruned_per_second)],
    ['TCP listen overflows', `${rate(tcp.listen_overflows_per_second)}/s`, '', bad(tcp.listen_overflows_per_second)],
    ['UDP datagrams in, out', `${rate(udp.datagrams_in_per_second)}/s, ${rate(udp.datagrams_out_per_second)}/s`],
  ];
  const causes = [['receive buffer full', 'receive_buffer_drops'], ['send buffer full', 'send_buffer_drops'], ['checksum', 'checksum_drops'], ['memory used up', 'memory_drops'], ['no program listened', 'no_port'], ['other', 'other_drops']];
  for (const [name, field] of causes) {
    const value = udp[`${field}_per_second`];
    // A scan of ports is no loss.
    items.push([`UDP drops: ${name}`, `${rate(value)}/s`, '', field !== 'no_port' && bad(value)]);
  }
  numbers(byId('protocol-numbers'), items);
}

export function showLinks({ links, slow, unknown }) {
  const link = (one) => {
    const now = `${one.gigatransfers_per_second} GT/s x${one.width}`;
    const best = `${one.best_gigatransfers_per_second} GT/s x${one.best_width}`;
    const was = one.was ? `; was ${one.was}` : '';
    return [one.address, `${one.device ? `${one.device} (${one.address})` : one.address}: ${now} of ${best}${was}`, one.changed_at_ms !== null];
  };
  const lines = links.map(link);
  for (const source of slow) lines.push([`slow ${source}`, source, true]);
  for (const [source, reason] of Object.entries(unknown)) lines.push([`unknown ${source}`, `${source}: ${reason}`, false]);
  if (!lines.length) lines.push(['none', 'All links run as well as both their ends can, and every source answers.', false]);
  keep(byId('link-list'), lines, ([key]) => key, () => element('li', {}), (item, [, text, bad]) => {
    say(item, text);
    item.className = bad ? 'problem' : '';
  });
}
