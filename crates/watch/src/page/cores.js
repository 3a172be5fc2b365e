// The processors: a column for each core, stacked by class; interrupts and packets by core in tables that cost nothing while closed.

import { byId, element } from './numbers.js';
import { percent, rate, rows, say } from './tables.js';

// From the bottom up; the rest is idle.
const CLASSES = ['user', 'nice', 'system', 'softirq', 'irq', 'steal', 'iowait'];

export class Cores {
  constructor() {
    this.canvas = byId('cores');
    const mark = (name) => {
      const box = element('i', {});
      box.style.background = `var(--${name})`;
      return element('span', {}, box, name === 'iowait' ? 'waits for disks' : name);
    };
    byId('classes').append(...CLASSES.map(mark));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.draw());
  }

  show(moment) {
    const { cpus } = moment;
    this.cores = cpus.each;
    this.draw();
    const parts = [`${cpus.each.length} cores`];
    if (cpus.total) parts.push(`${percent(1 - cpus.total.idle - cpus.total.iowait)} busy`, `${percent(cpus.total.softirq)} softirq`);
    if (cpus.total?.steal > 0.005) parts.push(`${percent(cpus.total.steal)} stolen by the host`);
    if (cpus.interrupts_per_second !== null) parts.push(`${rate(cpus.interrupts_per_second)} interrupts/s`);
    if (cpus.context_switches_per_second !== null) parts.push(`${rate(cpus.context_switches_per_second)} context switches/s`);
    parts.push(`${cpus.running} run, ${cpus.blocked} wait for disks`);
    if (cpus.throttled_share > 0) parts.push(`quota held it in ${percent(cpus.throttled_share)} of the periods`);
    say(byId('cpu-text'), parts.join(', '));
    if (cpus.total) this.canvas.setAttribute('aria-label', `Share of each core’s time by class; all together: ${CLASSES.map((name) => `${name} ${percent(cpus.total[name])}`).join(', ')}`);
    if (byId('by-core').open) this.table(moment);
    if (byId('by-interrupt').open) {
      rows(byId('irq-list'), moment.irqs.slice(0, 64), (irq) => irq.number, (irq) => [
        irq.number, irq.name, irq.device ?? '', [rate(irq.per_second), 'r'],
        irq.by_core.slice(0, 6).map(([core, each]) => `${core}: ${rate(each)}`).join(', '),
      ]);
    }
  }

  table({ cpus, softnet }) {
    const soft = new Map(softnet.map((core) => [core.core, core]));
    rows(byId('core-list'), cpus.each, (core) => core.number, (core) => {
      const packets = soft.get(core.number);
      const right = (text, bad) => [text, bad ? 'r bad' : 'r'];
      const kind = (name) => right(rate(core.softirqs[name] ?? 0));
      return [
        core.node === null ? `${core.number}` : `${core.number} (node ${core.node})`,
        right(core.eight ? percent(1 - core.eight.idle - core.eight.iowait) : '–'), right(percent(core.eight?.softirq)), right(percent(core.eight?.steal), core.eight?.steal > 0.05),
        right(rate(core.interrupts_per_second)), kind('NET_RX'), kind('NET_TX'), kind('BLOCK'),
        right(rate(packets?.processed_per_second)), right(rate(packets?.dropped_per_second), packets?.dropped_per_second > 0), right(rate(packets?.squeezed_per_second), packets?.squeezed_per_second > 0),
      ];
    });
  }

  draw() {
    const { canvas, cores } = this;
    const ratio = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (!width || !cores?.length) return;
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const pen = canvas.getContext('2d');
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const floor = height - 16;
    const step = Math.min(64, width / cores.length);
    const column = Math.max(1, step - (step > 6 ? 3 : 0));
    const every = Math.ceil(26 / step);
    pen.font = '11px system-ui, sans-serif';
    pen.textAlign = 'center';
    cores.forEach((core, at) => {
      const left = at * step;
      pen.fillStyle = colour('faint');
      pen.fillRect(left, 0, column, floor);
      let top = floor;
      for (const name of core.eight ? CLASSES : []) {
        const tall = core.eight[name] * floor;
        pen.fillStyle = colour(name);
        pen.fillRect(left, top - tall, column, tall);
        top -= tall;
      }
      pen.fillStyle = colour('soft');
      if (at % every === 0) pen.fillText(core.number, left + column / 2, height - 4);
    });
  }
}
