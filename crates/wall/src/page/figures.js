// The wall's figures.

import { bits, byId, bytes, count, element } from './numbers.js';

export * from './numbers.js';

export function duration(seconds) {
  const whole = Math.floor(seconds);
  const pad = (value) => String(value).padStart(2, '0');
  const hours = Math.floor(whole / 3600);
  const rest = `${pad(whole % 60)}.${pad(Math.floor((seconds - whole) * 100))}`;
  return hours ? `${hours}:${pad(Math.floor(whole / 60) % 60)}:${rest}` : `${Math.floor(whole / 60)}:${rest}`;
}

// Achieved against needed and predicted.
export function showGauge(status) {
  const place = byId('gauge');
  if (!place.firstChild) {
    place.append(
      element('p', { class: 'big' }),
      element('div', { class: 'gauge-bar', role: 'img' }, element('div', { class: 'gauge-fill' }),
        element('div', { class: 'gauge-mark' }), element('div', { class: 'gauge-mark predicted' })),
    );
  }
  const [big, bar] = place.children;
  const [fill, need, predicted] = bar.children;
  const achieved = status.bytes_per_second * 8;
  const needed = status.needed_bytes_per_second * 8;
  const known = status.predicted_bytes_per_second !== null;
  const possible = known ? status.predicted_bytes_per_second * 8 : 0;
  const top = Math.max(achieved, needed, possible) * 1.04 || 1;
  const at = (value) => `${(100 * value) / top}%`;
  big.textContent = bits(achieved);
  fill.style.width = at(achieved);
  need.style.left = at(needed);
  predicted.style.left = at(possible);
  predicted.hidden = !known;
  bar.setAttribute('aria-label', `${bits(achieved)} of ${bits(needed)} that the wall needs${known ? `; predicted ${bits(possible)}` : ''}`);
}

export function showNumbers(status) {
  const sum = (name) => status.tiles.reduce((total, tile) => total + tile[name], 0);
  const share = status.needed_bytes_per_second > 0 ? status.bytes_per_second / status.needed_bytes_per_second : NaN;
  const rows = [
    ['Needed (line)', bits(status.needed_bytes_per_second * 8), status.playing && Number.isFinite(share) ? `${(share * 100).toFixed(1)} % achieved` : ''],
    ['Predicted (dots)', status.predicted_bytes_per_second === null ? 'unknown' : bits(status.predicted_bytes_per_second * 8)],
    ['Disks', bytes(status.disk_bytes_per_second), status.disks.length > 1 ? `${status.disks.length} disks` : ''],
    ['CPU', `${status.cpu_cores.toFixed(2)} cores`, status.cpu_seconds_per_gb === null ? '' : `${status.cpu_seconds_per_gb.toFixed(2)} s per GB`],
    ['Power', status.watts === null ? 'unknown' : `${status.watts.toFixed(0)} W`, status.watts === null ? status.watts_unknown ?? '' : typeof status.above_idle_watts === 'number' ? `${status.above_idle_watts.toFixed(0)} above idle` : ''],
    ['Frames sent', count(status.frames_sent)],
    ['Frames dropped', count(status.frames_dropped), `disk ${count(sum('dropped_by_disk'))}, network ${count(sum('dropped_by_network'))}, CPU ${count(sum('dropped_by_cpu'))}`],
  ];
  byId('numbers').replaceChildren(...rows.map(([name, value, note]) => {
    const cell = element('dd', {}, value);
    if (note) cell.append(element('small', {}, note));
    return element('div', {}, element('dt', {}, name), cell);
  }));
}
