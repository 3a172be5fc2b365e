// One graph over time: a line for each name, and their sum.

import { SPANS } from './past.js';

const COLOURS = ['--s1', '--s2', '--s3', '--s4', '--s5', '--s6', '--s7', '--s8'];
const DASHES = [[], [6, 3], [2, 3]];
// More lines than this nobody tells apart.
const LINES = 12;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export class Chart {
  // `each`, `sum`: kinds of rates, either may be missing; `show`: a value as text.
  constructor(place, { each, sum, show, label }) {
    Object.assign(this, { place, each, sum, show, label });
    this.shape = '';
    new ResizeObserver(() => this.plot?.setSize(this.size())).observe(place);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { this.shape = ''; this.draw(); });
    place.setAttribute('role', 'img');
  }

  size() {
    const legend = this.place.querySelector('.u-legend')?.offsetHeight ?? 26;
    return { width: Math.max(120, this.place.clientWidth), height: Math.max(80, this.place.clientHeight - legend) };
  }

  draw(past = this.past) {
    if (!past || !past.times.length) return;
    this.past = past;
    const lines = this.lines(past);
    const shape = JSON.stringify([past.span, lines.map((line) => line.name)]);
    if (shape !== this.shape) this.build(lines, shape);
    this.plot.setData([past.times, ...lines.map((line) => line.values)]);
    const newest = past.times[past.times.length - 1];
    this.plot.setScale('x', { min: newest - SPANS[past.span], max: newest });
    const last = lines[0]?.values.findLast((value) => value !== null);
    this.place.setAttribute('aria-label', `${this.label}, last ${past.span}: ${last === undefined ? 'nothing is known yet' : `${lines[0].name} now ${this.show(last)}`}`);
  }

  // Sum first, then the names that had most.
  lines(past) {
    const all = this.each ? past.names(this.each).map((name) => ({ name, values: past.mean(this.each, name) })) : [];
    let kept = all;
    if (all.length > LINES) {
      const total = (line) => line.values.reduce((sum, value) => sum + (value ?? 0), 0);
      const busiest = new Set([...all].sort((a, b) => total(b) - total(a)).slice(0, LINES));
      kept = all.filter((line) => busiest.has(line));
    }
    const sums = [];
    if (this.sum && all.length !== 1) sums.push({ name: this.each ? 'all' : this.label, sum: true, values: past.mean(this.sum, '') });
    if (this.sum && past.span !== 'minute') sums.push({ name: 'peak', peak: true, values: past.peak(this.sum, '') });
    return [...sums, ...kept].filter((line) => line.values.length === past.times.length);
  }

  build(lines, shape) {
    this.shape = shape;
    this.plot?.destroy();
    const [ink, soft, grid] = ['--ink', '--soft', '--line'].map(colour);
    let own = -1;
    const series = lines.map((line) => {
      if (!line.sum && !line.peak) own += 1;
      return {
        label: line.name,
        stroke: line.sum ? ink : line.peak ? soft : colour(COLOURS[own % COLOURS.length]),
        width: line.sum ? 2 : line.peak ? 1 : 1.5,
        dash: line.peak ? [4, 4] : DASHES[Math.floor(own / COLOURS.length)] ?? [],
        points: { show: false },
        spanGaps: false,
        value: (_, value) => (value === null || value === undefined ? '–' : this.show(value)),
      };
    });
    const axis = { stroke: soft, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: '11px system-ui, sans-serif' };
    const options = {
      ...this.size(),
      series: [{ label: 'at' }, ...series],
      axes: [
        { ...axis, space: 70, values: (_, times) => times.map((time) => clock(time, this.past?.span)) },
        { ...axis, size: 76, space: 34, values: (_, values) => values.map((value) => this.show(value)) },
      ],
      scales: { x: { time: true }, y: { range: (_, low, high) => [0, Math.max(high ?? 0, 1) * 1.08] } },
      cursor: { drag: { x: false, y: false }, points: { size: 6 } },
      legend: { live: true },
    };
    options.series[0].value = (_, time) => (time ? clock(time, this.past?.span) : '–');
    this.plot = new uPlot(options, [[], ...series.map(() => [])], this.place);
    requestAnimationFrame(() => this.plot.setSize(this.size()));
  }
}

function clock(time, span) {
  const date = new Date(time * 1000);
  const pad = (value) => String(value).padStart(2, '0');
  const minutes = `${pad(date.getHours())}:${pad(date.getMinutes())}`;
  return span === 'minute' ? `${minutes}:${pad(date.getSeconds())}` : minutes;
}
