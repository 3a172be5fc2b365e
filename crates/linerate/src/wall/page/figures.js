// Numbers for people, and elements without markup: whatever a name from the wall says, it is text.

export const byId = (id) => document.getElementById(id);

export function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Without the marks that reorder a line (Unicode Annex #9).
export const plain = (text) => text.replace(/[\u200e\u200f\u061c\u2028-\u202e\u2066-\u2069\ufeff]/g, '\ufffd');

// Three digits that count.
const digits = (value) => (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2));

function scaled(value, unit) {
  const steps = ['', 'k', 'M', 'G', 'T'];
  let step = 0;
  let left = Math.abs(value);
  while (left >= 999.5 && step < steps.length - 1) {
    left /= 1000;
    step += 1;
  }
  return `${step || left >= 1 ? digits(left) : '0'} ${steps[step]}${unit}`;
}

export const bits = (bitsPerSecond) => scaled(bitsPerSecond, 'b/s');
export const bytes = (bytesPerSecond) => scaled(bytesPerSecond, 'B/s');
export const count = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, '\u202f');

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
    ['Power', status.watts === null ? 'unknown' : `${status.watts.toFixed(0)} W`, status.watts === null ? status.watts_unknown ?? '' : ''],
    ['Frames sent', count(status.frames_sent)],
    ['Frames dropped', count(status.frames_dropped), `disk ${count(sum('dropped_by_disk'))}, network ${count(sum('dropped_by_network'))}, CPU ${count(sum('dropped_by_cpu'))}`],
  ];
  byId('numbers').replaceChildren(...rows.map(([name, value, note]) => {
    const cell = element('dd', {}, value);
    if (note) cell.append(element('small', {}, note));
    return element('div', {}, element('dt', {}, name), cell);
  }));
}
