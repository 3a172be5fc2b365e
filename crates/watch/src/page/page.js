// The page: one stream of moments, and what shows each part of them.

import { Chart } from './chart.js';
import { Cores } from './cores.js';
import { showDisks } from './disks.js';
import { showLedger, showLinks, showMemory, showPower, showProtocols } from './host.js';
import { Link } from './link.js';
import { showNics } from './nics.js';
import { bits, byId, bytes, plain } from './numbers.js';
import { Past } from './past.js';
import { showProcesses } from './processes.js';
import { say } from './tables.js';

// An hour grows by one step in 10 s, a day by one a minute.
const STEPS_MS = { hour: 10000, day: 60000 };

const past = new Past();
const charts = [
  new Chart(byId('chart-send'), { each: 'nic-send', sum: 'sum-send', show: bits, label: 'Sent' }),
  new Chart(byId('chart-receive'), { each: 'nic-receive', sum: 'sum-receive', show: bits, label: 'Received' }),
  new Chart(byId('chart-read'), { each: 'disk-read', show: bytes, label: 'Read from disks' }),
  new Chart(byId('chart-write'), { each: 'disk-write', show: bytes, label: 'Written to disks' }),
  new Chart(byId('chart-power'), { sum: 'power', show: (watts) => `${watts.toFixed(0)} W`, label: 'Power' }),
];
const cores = new Cores();
let paused = false;
let span = 'minute';
let loaded = 0;

async function load() {
  const asked = span;
  const answer = await fetch(`/history?span=${asked}`).catch(() => null);
  if (!answer?.ok || asked !== span) return;
  past.load(await answer.json());
  loaded = performance.now();
  draw();
}

function draw() {
  if (paused) return;
  byId('peak-note').hidden = past.span === 'minute';
  charts.forEach((chart) => chart.draw(past));
}

function show(moment) {
  if (paused) return;
  document.querySelector('main').hidden = false;
  say(byId('host'), moment.host || 'this host');
  const time = new Date(moment.at_ms);
  say(byId('about'), `${time.toLocaleTimeString()}${moment.interval_ms ? `, over ${(moment.interval_ms / 1000).toFixed(1)} s` : ', the first look: rates come with the next'}`);
  showBottleneck(moment);
  showNics(moment);
  showDisks(moment);
  showProcesses(moment);
  cores.show(moment);
  showLedger(moment);
  showPower(moment);
  showMemory(moment);
  showProtocols(moment);
  showLinks(moment);
  document.title = `${byId('sum-send').textContent} – ${plain(moment.host)} – watch – linerate`;
  past.add(moment);
  if (span === 'minute') draw();
  else if (performance.now() - loaded > STEPS_MS[span]) load();
}

function showBottleneck({ bottleneck, bottleneck_by: by, interval_ms: interval }) {
  const box = byId('bottleneck');
  box.hidden = !interval;
  box.classList.toggle('none', !bottleneck);
  say(byId('bottleneck-text'), bottleneck ?? 'Nothing is near its limit.');
  say(byId('bottleneck-by'), by);
}

function choose(word) {
  span = word;
  document.querySelectorAll('[data-span]').forEach((button) => button.setAttribute('aria-pressed', String(button.dataset.span === word)));
  load();
}

function pause() {
  paused = !paused;
  byId('pause').setAttribute('aria-pressed', String(paused));
  showState(state);
  if (!paused) load();
}

let state = 'connecting';
function showState(now) {
  state = now;
  byId('state').dataset.state = paused ? 'connecting' : now;
  const words = { connecting: past.times.length ? 'reconnecting' : 'connecting', ended: 'the recording has ended' };
  byId('state').textContent = paused ? 'paused' : words[now] ?? now;
  document.body.dataset.live = now === 'live' ? 'yes' : 'no';
}

const link = new Link();
link.addEventListener('state', ({ detail }) => {
  showState(detail);
  if (detail === 'live') load();
});
link.addEventListener('moment', ({ detail }) => {
  link.interval = detail.interval_ms;
  show(detail);
});

document.querySelectorAll('[data-span]').forEach((button) => button.addEventListener('click', () => choose(button.dataset.span)));
byId('pause').addEventListener('click', pause);
byId('help-open').addEventListener('click', () => byId('help').showModal());
addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId('help').open || event.target.closest?.('input, select, textarea')) return;
  const keys = { m: () => choose('minute'), h: () => choose('hour'), d: () => choose('day'), p: pause, '?': () => byId('help').showModal() };
  const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!act) return;
  event.preventDefault();
  act();
});
