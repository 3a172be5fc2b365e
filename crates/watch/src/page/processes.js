// Which program moves the bytes; busiest first.

import { byId, bytes, element } from './numbers.js';
import { keep, known, rows, say, why } from './tables.js';

const shown = (value) => [value === null ? '–' : bytes(value), 'r'];

export function showProcesses({ processes, unknown }) {
  const { busiest, left_out: leftOut, count } = processes;
  const moving = busiest.length + leftOut;
  say(byId('processes-text'), count === null ? 'not looked at' : `${moving} of ${count} move bytes`);
  rows(byId('process-list'), busiest, (one) => `${one.pid} ${one.started_ticks}`, (one) => [
    one.name, [one.pid, 'r'], shown(one.read_bytes_per_second), shown(one.written_bytes_per_second), shown(one.tcp_send_bytes_per_second), shown(one.tcp_receive_bytes_per_second),
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
