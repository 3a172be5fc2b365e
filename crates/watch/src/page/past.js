// What the graphs show: times, and a list of values for each rate. It never holds more than its span.

import { plain } from './numbers.js';

export const SPANS = { minute: 60, hour: 3600, day: 86400 };
// Points of a minute at most: one in 50 ms.
const MOST = 1200;

// Those that a sum is of: an interface that is built on others of them (a bond, a bridge, a VLAN) has the same packets.
export const summed = (nics) => nics.filter((nic) => !(nic.built_on ?? []).some((name) => name !== nic.name && nics.some((other) => other.name === name)));

// The rates of a moment: kind, name, value. The same as the server keeps.
function rates(moment) {
  const all = [];
  const sum = (way) => {
    const known = summed(moment.nics).map((nic) => nic[way].bits_per_second).filter((value) => value !== null);
    return known.length ? known.reduce((total, value) => total + value, 0) : null;
  };
  for (const nic of moment.nics) {
    all.push([`nic-receive ${nic.name}`, nic.receive.bits_per_second], [`nic-send ${nic.name}`, nic.send.bits_per_second]);
  }
  all.push(['sum-receive ', sum('receive')], ['sum-send ', sum('send')]);
  for (const disk of moment.disks) {
    all.push([`disk-read ${disk.name}`, disk.read.bytes_per_second], [`disk-write ${disk.name}`, disk.write.bytes_per_second]);
  }
  all.push(['power ', moment.energy.watts]);
  return all.filter(([, value]) => value !== null);
}

export class Past {
  constructor() {
    this.span = 'minute';
    this.clear();
  }

  clear() {
    this.times = [];
    this.means = new Map();
    this.peaks = new Map();
  }

  // What the server has of a span.
  load(report) {
    this.clear();
    this.span = report.span;
    if (report.newest_ms === null) return;
    const length = report.series[0]?.mean.length ?? 0;
    // A slot is shown at its end.
    this.times = Array.from({ length }, (_, at) => (report.newest_ms - (length - 2 - at) * report.step_ms) / 1000);
    for (const { kind, name, mean, most } of report.series) {
      this.means.set(`${kind} ${plain(name)}`, mean);
      this.peaks.set(`${kind} ${plain(name)}`, most);
    }
  }

  // A moment of now; only a minute grows by moments.
  add(moment) {
    if (this.span !== 'minute' || !moment.interval_ms) return;
    const at = moment.at_ms / 1000;
    // Set back by more than the slot that the server has just begun.
    if (this.times.length && at < this.times[this.times.length - 1] - 2) this.clear();
    const lists = () => [...this.means.values(), ...this.peaks.values()];
    while (this.times.length && this.times[this.times.length - 1] >= at) {
      this.times.pop();
      lists().forEach((list) => list.pop());
    }
    const before = this.times.length;
    this.times.push(at);
    for (const [key, value] of rates(moment)) {
      for (const map of [this.means, this.peaks]) {
        if (!map.has(key)) map.set(key, new Array(before).fill(null));
        map.get(key).push(value);
      }
    }
    lists().forEach((list) => list.length <= before && list.push(null));
    let old = this.times.findIndex((time) => time >= at - SPANS.minute);
    old = Math.max(old, this.times.length - MOST);
    if (old > 0) {
      this.times.splice(0, old);
      lists().forEach((list) => list.splice(0, old));
    }
    for (const [key, list] of this.means) {
      if (list.some((value) => value !== null)) continue;
      this.means.delete(key);
      this.peaks.delete(key);
    }
  }

  names(kind) {
    return [...this.means.keys()].filter((key) => key.startsWith(`${kind} `)).map((key) => key.slice(kind.length + 1));
  }

  mean(kind, name) {
    return this.means.get(`${kind} ${name}`) ?? [];
  }

  peak(kind, name) {
    return this.peaks.get(`${kind} ${name}`) ?? [];
  }
}
