// The disks.

import { byId, bytes, element } from './numbers.js';
import { fill, keep, milliseconds, rate } from './tables.js';

function make() {
  const row = element('tr', {});
  const cells = Array.from({ length: 10 }, () => element('td', {}));
  row.append(...cells);
  cells[9].append(element('div', { class: 'bar', role: 'img' }, element('i', {})));
  return row;
}

function update(row, disk) {
  const shown = (value) => [value === null ? '–' : bytes(value), 'r'];
  fill(row, [
    disk.is_virtual ? `${disk.name} (virtual)` : disk.name,
    shown(disk.read.bytes_per_second), [rate(disk.read.requests_per_second), 'r'], [milliseconds(disk.read.latency_ms), 'r'],
    shown(disk.write.bytes_per_second), [rate(disk.write.requests_per_second), 'r'], [milliseconds(disk.write.latency_ms), 'r'],
    [disk.queue_depth === null ? '–' : disk.queue_depth.toFixed(1), 'r'], [disk.in_flight, 'r'],
  ]);
  row.title = disk.model ?? '';
  const now = (disk.read.bytes_per_second ?? 0) + (disk.write.bytes_per_second ?? 0);
  const measured = disk.measured_bytes_per_second ?? 0;
  const scale = measured && Math.max(measured, disk.best_bytes_per_second ?? 0);
  const share = scale ? Math.min(1, now / scale) : disk.busy_share ?? 0;
  const bar = row.children[9].firstChild;
  bar.firstChild.style.width = `${(share * 100).toFixed(1)}%`;
  bar.setAttribute('aria-label', `${(share * 100).toFixed(0)} % ${scale ? `of ${bytes(scale)}` : 'of the time'}`);
}

export function showDisks(moment) {
  keep(byId('disk-list'), moment.disks, (disk) => disk.name, make, update);
}
