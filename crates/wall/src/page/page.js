// The page: one connection, and what shows each of its messages.

import { byId, element, showGauge, showNumbers, bits } from './figures.js';
import { Graphs } from './graphs.js';
import { Joystick } from './joystick.js';
import { Keys } from './keys.js';
import { Link } from './link.js';
import { Transport } from './transport.js';
import { Wall } from './wall.js';

const TOAST_MS = 6000;

function start(secret) {
  const link = new Link(secret);
  const transport = new Transport(link);
  const joystick = new Joystick(link, transport);
  new Keys(transport, joystick);
  const wall = new Wall();
  const nics = new Graphs(byId('nics').querySelector('.graphs'), { scale: (value) => value.link, need: (value) => value.need });
  const streams = new Graphs(byId('streams').querySelector('.graphs'), { scale: () => 0, need: (value) => value.need });

  link.addEventListener('state', ({ detail }) => showState(detail));
  link.addEventListener('preview', ({ detail }) => wall.preview(detail));
  link.addEventListener('refused', ({ detail }) => toast(detail.why));
  link.addEventListener('status', ({ detail: status }) => {
    byId('movie').textContent = status.movie;
    document.title = `${status.movie} – wall – linerate`;
    byId('about').textContent = `${status.tiles.length} tiles, ${status.wall_size.replace('x', ' × ')} pixels, ${status.frames_per_second} frames/s`;
    byId('key').hidden = true;
    document.querySelector('main').hidden = false;
    transport.show(status);
    joystick.show(status);
    wall.show(status);
    showGauge(status);
    showNumbers(status);
    showBanner(status);
    const need = (status.needed_bytes_per_second * 8) / Math.max(1, status.tiles.length);
    nics.show(status.nics.map((nic) => nicValue(nic, need)));
    streams.show(status.tiles.map((tile) => ({ name: tile.tile, bits: tile.bytes_per_second * 8, need, problem: tile.problem })));
  });
}

function nicValue(nic, need) {
  const link = nic.link_bits_per_second;
  const tiles = `${nic.tiles.length} ${nic.tiles.length === 1 ? 'tile' : 'tiles'}`;
  const note = link ? `${tiles}, link ${bits(link)}` : `${tiles}, link rate unknown`;
  const problem = nic.problem ?? (nic.carrier ? null : 'no carrier');
  return { name: nic.name, bits: nic.bytes_per_second * 8, link, need: need * nic.tiles.length, note, problem };
}

function showState({ state, why, again }) {
  const pill = byId('state');
  pill.dataset.state = state;
  pill.textContent = { live: 'live', connecting: again ? 'reconnecting' : 'connecting', refused: 'refused' }[state];
  document.body.dataset.live = state === 'live' ? 'yes' : 'no';
  if (state === 'refused') askForKey(why);
}

// Said once, however often the status comes.
let told = '';
function showBanner({ held_by: held, problems }) {
  const lines = problems.map((text) => ['', 'Problem', text]);
  if (held) lines.unshift(['held', 'Limited by', held]);
  const banner = byId('banner');
  const text = JSON.stringify(lines);
  if (text === told) return;
  told = text;
  banner.hidden = lines.length === 0;
  banner.classList.toggle('held', problems.length === 0);
  banner.replaceChildren(...lines.map(([kind, name, line]) => element('p', { class: kind, 'data-kind': name }, line)));
}

let toasting = 0;
function toast(text) {
  byId('toast').textContent = text;
  byId('toast').hidden = false;
  clearTimeout(toasting);
  toasting = setTimeout(() => { byId('toast').hidden = true; }, TOAST_MS);
}

function askForKey(why) {
  document.querySelector('main').hidden = true;
  byId('banner').hidden = true;
  byId('key').hidden = false;
  if (why) byId('key-why').textContent = `${why} Open the line that the server printed, with everything after the “#”.`;
  byId('key-text').focus();
}

const secretOf = (text) => /[0-9a-f]{64}\s*$/i.exec(text)?.[0].trim().toLowerCase();

// A new secret is a new page.
addEventListener('hashchange', () => location.reload());
byId('key-form').addEventListener('submit', (event) => {
  event.preventDefault();
  const secret = secretOf(byId('key-text').value);
  if (!secret) toast('That is no secret: it has 64 digits and letters from a to f.');
  else if (location.hash === `#${secret}`) location.reload();
  else location.hash = secret;
});

const secret = secretOf(location.hash);
if (secret) {
  start(secret);
} else {
  showState({ state: 'refused', why: location.hash.length > 1 ? 'What stands after the “#” is no secret.' : '' });
}
