// Rates over the last minute, one small graph each.

import { bits, element } from './figures.js';

const MINUTE_MS = 60000;

export class Graphs {
  // `scale` gives the upper end, bits per second (none: what was reached), and `need` a dashed line.
  constructor(place, { scale, need }) {
    this.place = place;
    this.scale = scale;
    this.need = need;
    this.all = new Map();
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.all.forEach((graph) => this.draw(graph)));
    addEventListener('resize', () => this.all.forEach((graph) => this.draw(graph)));
  }

  // Values of this moment: name, bits per second, note, problem.
  show(values) {
    const now = performance.now();
    for (const value of values) {
      const graph = this.all.get(value.name) ?? this.add(value.name);
      graph.value = value;
      graph.past.push([now, value.bits]);
      while (graph.past[0][0] < now - MINUTE_MS - 1000) graph.past.shift();
      graph.rate.textContent = bits(value.bits);
      graph.note.textContent = value.note ?? '';
      graph.note.hidden = !value.note;
      graph.problem.textContent = value.problem ?? '';
      graph.problem.hidden = !value.problem;
      graph.box.classList.toggle('bad', Boolean(value.problem));
      this.draw(graph);
    }
    for (const [name, graph] of this.all) {
      if (values.some((value) => value.name === name)) continue;
      graph.box.remove();
      this.all.delete(name);
    }
  }

  add(name) {
    const graph = {
      past: [],
      canvas: element('canvas', { role: 'img', 'aria-label': `Rate of ${name}, last minute` }),
      rate: element('span', {}),
      note: element('p', { class: 'soft small' }),
      problem: element('p', { class: 'problem' }),
    };
    graph.box = element('div', { class: 'graph' }, element('p', {}, element('b', {}, name), graph.rate), graph.canvas, graph.note, graph.problem);
    this.place.append(graph.box);
    this.all.set(name, graph);
    return graph;
  }

  draw({ canvas, past, value }) {
    const ratio = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (!width || !value) return;
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const pen = canvas.getContext('2d');
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const need = this.need(value);
    const reached = past.reduce((most, [, rate]) => Math.max(most, rate), need ?? 0) * 1.15;
    const top = this.scale(value) || reached || 1;
    const now = past[past.length - 1][0];
    const x = (time) => width - ((now - time) / MINUTE_MS) * width;
    const y = (rate) => height - 1 - Math.min(1, Math.max(0, rate / top)) * (height - 3);
    pen.strokeStyle = colour('--line');
    pen.lineWidth = 1;
    pen.strokeRect(0.5, 0.5, width - 1, height - 1);
    pen.beginPath();
    pen.moveTo(x(past[0][0]), height);
    past.forEach(([time, rate]) => pen.lineTo(x(time), y(rate)));
    pen.lineTo(x(now), height);
    pen.fillStyle = colour(value.problem ? '--bad' : '--fill');
    pen.globalAlpha = 0.28;
    pen.fill();
    pen.globalAlpha = 1;
    pen.beginPath();
    past.forEach(([time, rate]) => pen.lineTo(x(time), y(rate)));
    pen.strokeStyle = pen.fillStyle;
    pen.lineWidth = 1.6;
    pen.stroke();
    if (need) {
      pen.beginPath();
      pen.setLineDash([4, 3]);
      pen.moveTo(0, y(need));
      pen.lineTo(width, y(need));
      pen.strokeStyle = colour('--soft');
      pen.lineWidth = 1;
      pen.stroke();
      pen.setLineDash([]);
    }
  }
}
