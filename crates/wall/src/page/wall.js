// The wall in miniature: a preview of each tile, bordered by its health; and the table of the screens.

import { byId, count, element } from './figures.js';

// What went wrong within this is what a person wants to see.
const RECENT_MS = 10000;
// A screen tells about twice a second.
const SILENT_SECONDS = 5;
const WORDS = { ok: 'ok', watch: 'attention', failed: 'failed', untold: 'no report' };
const MANY_COLUMNS = 12;

export class Wall {
  constructor() {
    this.tiles = new Map();
    this.shape = '';
  }

  show(status) {
    const shape = status.tiles.map((tile) => tile.tile).join();
    if (shape !== this.shape) this.build(status, shape);
    const skew = median(status.tiles.map((tile) => tile.report?.presented_p50_ms).filter(Number.isFinite));
    const counts = { ok: 0, watch: 0, failed: 0, untold: 0 };
    for (const tile of status.tiles) {
      const kept = this.tiles.get(tile.tile);
      const [health, why] = judge(tile, kept, status.playing);
      counts[health] += 1;
      kept.box.dataset.health = health;
      kept.word.textContent = why || WORDS[health];
      kept.box.title = tile.problem ?? '';
      kept.box.setAttribute('aria-label', `Tile ${tile.tile}, ${tile.screen}: ${WORDS[health]}${why ? `, ${why}` : ''}`);
      fill(kept, tile, health, why, skew);
    }
    for (const [health, span] of Object.entries(this.legend)) {
      span.hidden = counts[health] === 0;
      span.textContent = `${counts[health]} ${WORDS[health]}`;
    }
  }

  build(status, shape) {
    this.shape = shape;
    this.tiles.clear();
    const places = status.tiles.map((tile) => /^r(\d+)c(\d+)$/.exec(tile.tile).slice(1).map(Number));
    const columns = Math.max(...places.map((place) => place[1])) + 1;
    const rows = Math.max(...places.map((place) => place[0])) + 1;
    const [width, height] = status.wall_size.split('x').map(Number);
    const wall = byId('wall');
    wall.replaceChildren();
    wall.classList.toggle('many', columns > MANY_COLUMNS);
    wall.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
    const rowsOfTable = byId('screens').querySelector('tbody');
    rowsOfTable.replaceChildren();
    status.tiles.forEach((tile, i) => {
      const word = element('b', {});
      const canvas = element('canvas', { width: 1, height: 1, 'aria-hidden': 'true' });
      const box = element('div', { class: 'tile', role: 'listitem' }, canvas, element('p', {}, element('span', { class: 'name' }, tile.tile), word));
      box.style.gridArea = `${places[i][0] + 1} / ${places[i][1] + 1}`;
      box.style.aspectRatio = `${width / columns} / ${height / rows}`;
      wall.append(box);
      const row = element('tr', {});
      rowsOfTable.append(row);
      this.tiles.set(tile.tile, { box, canvas, word, row, past: [] });
    });
    const legend = byId('legend');
    this.legend = {};
    for (const health of Object.keys(WORDS)) this.legend[health] = element('span', { class: health });
    legend.replaceChildren(...Object.values(this.legend));
  }

  // Row, column, width, height as u16, big endian; then RGB.
  preview(data) {
    if (data.byteLength < 8) return;
    const head = new DataView(data);
    const [row, column, width, height] = [0, 2, 4, 6].map((at) => head.getUint16(at));
    const kept = this.tiles.get(`r${row}c${column}`);
    if (!kept || !width || !height || data.byteLength !== 8 + width * height * 3) return;
    const { canvas } = kept;
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    const pen = canvas.getContext('2d');
    const picture = pen.createImageData(width, height);
    const rgb = new Uint8Array(data, 8);
    const { data: rgba } = picture;
    for (let from = 0, to = 0; from < rgb.length; from += 3, to += 4) {
      rgba[to] = rgb[from];
      rgba[to + 1] = rgb[from + 1];
      rgba[to + 2] = rgb[from + 2];
      rgba[to + 3] = 255;
    }
    pen.putImageData(picture, 0, 0);
  }
}

function median(values) {
  const sorted = values.sort((a, b) => a - b);
  return sorted.length ? sorted[sorted.length >> 1] : NaN;
}

// What is wrong with a tile now: not what once was.
function judge(tile, kept, playing) {
  const report = tile.report ?? {};
  const sums = {
    loss: report.datagrams_lost ?? 0,
    torn: (report.frames_torn ?? 0) + (report.frames_missing ?? 0),
    wrong: report.frames_wrong ?? 0,
    late: report.frames_late ?? 0,
    window: report.frames_window_dropped ?? 0,
    dropped: tile.dropped_by_disk + tile.dropped_by_network + tile.dropped_by_cpu,
  };
  const now = performance.now();
  kept.past.push({ now, sums });
  while (kept.past.length > 1 && now - kept.past[0].now > RECENT_MS) kept.past.shift();
  const then = kept.past[0].sums;
  const grown = Object.keys(sums).find((name) => sums[name] > then[name]);
  if (tile.problem) return ['failed', grown ?? ''];
  if (tile.report && playing && tile.report_age_seconds > SILENT_SECONDS) return ['failed', 'silent'];
  if (grown === 'wrong') return ['failed', 'wrong'];
  if (grown) return ['watch', grown];
  return [tile.report ? 'ok' : 'untold', ''];
}

function fill(kept, tile, health, why, skew) {
  const report = tile.report;
  const number = (value) => element('td', { class: value > 0 ? 'r nonzero' : 'r' }, value === undefined ? '–' : count(value));
  const shift = report ? report.presented_p99_ms - skew : NaN;
  const share = (name, value) => {
    const part = element('i', { class: name });
    part.style.width = `${Math.max(0, Math.min(1, value)) * 100}%`;
    return part;
  };
  const shares = ['busy', 'starved', 'blocked'].map((name) => `${Math.round(tile[name] * 100)} %`).join(', ');
  kept.row.replaceChildren(
    element('th', { scope: 'row' }, tile.tile),
    element('td', { class: health }, element('span', { class: 'mark', 'aria-hidden': 'true' }), why ? `${WORDS[health]}: ${why}` : WORDS[health]),
    element('td', {}, tile.screen),
    element('td', {}, tile.nic ?? '–'),
    number(report?.datagrams_lost), number(report?.frames_late), number(report?.frames_torn),
    element('td', { class: 'r' }, Number.isFinite(shift) ? `${shift.toFixed(1)} ms` : '–'),
    number(tile.dropped_by_disk), number(tile.dropped_by_network), number(tile.dropped_by_cpu),
    element('td', {}, element('div', { class: 'shares', role: 'img', 'aria-label': shares, title: shares },
      share('busy', tile.busy), share('starved', tile.starved), share('blocked', tile.blocked))),
  );
}
