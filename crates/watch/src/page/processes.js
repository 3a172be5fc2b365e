// Which program moves the bytes and uses the CPUs; busiest first.

import { byId, bytes, element } from './numbers.js';
import { keep, known, rows, say, why } from './tables.js';

const shown = (value) => [value === null ? '–' : bytes(value), 'r'];
const percent = (cpus) => `${Math.round(100 * cpus)} %`;
// A tick of the kernel's clock in a second, as in the model.
const LEAST_CPUS = 0.01;
const BUSIEST = 5;

const busiestByCpu = (processes) => processes.filter(({ cpus }) => cpus >= LEAST_CPUS)
  .sort((a, b) => b.cpus - a.cpus).slice(0, BUSIEST);

export function showProcesses({ processes, unknown }) {
  const { busiest, left_out: leftOut, count } = processes;
  const moves = (one) => one.read_bytes_per_second + one.written_bytes_per_second + one.tcp_send_bytes_per_second + one.tcp_receive_bytes_per_second > 0;
  const moving = busiest.filter(moves).length + leftOut;
  const most = busiestByCpu(busiest);
  say(byId('cpu-programs'), most.length ? `Busiest: ${most.map((one) => `${one.name} (${one.pid}) ${percent(one.cpus)}`).join(', ')}` : '');
  say(byId('processes-text'), count === null ? 'not looked at' : `${moving} of ${count} move bytes`);
  rows(byId('process-list'), busiest, (one) => `${one.pid} ${one.started_ticks}`, (one) => [
    one.name, [one.pid, 'r'], [one.cpus === null ? '–' : percent(one.cpus), 'r'], shown(one.read_bytes_per_second), shown(one.written_bytes_per_second), shown(one.tcp_send_bytes_per_second), shown(one.tcp_receive_bytes_per_second),
  ]);
  const notes = [];
  if (leftOut > 0) notes.push(`${leftOut} more move less.`);
  const { unowned_send_bytes_per_second: sent, unowned_receive_bytes_per_second: received } = processes;
  if (sent > 0 || received > 0) notes.push(`TCP without a process that can be seen: ${bytes(sent)} sent, ${bytes(received)} received.`);
  if (count !== null && known(processes.udp_bytes_per_second) === null) notes.push(`UDP is unknown: ${why(processes.udp_bytes_per_second)}.`);
  for (const source of ['storage by process', 'processes of others', 'TCP by process']) {
    if (unknown[source]) notes.push(`${source}: ${unknown[source]}`);
  }
  keep(byId('process-notes'), notes, (note) => note, () => element('li', {}), say);
}
