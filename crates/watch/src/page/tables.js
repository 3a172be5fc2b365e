// Lists that are updated in place: what stays keeps its element (and its focus, and whether it is open), what left is removed.

import { element, plain, scaled } from './numbers.js';

// `make(key)` gives an element, `update(element, item)` fills it.
export function keep(place, items, keyOf, make, update) {
  const old = new Map([...place.children].map((child) => [child.dataset.key, child]));
  let before = place.firstElementChild;
  for (const item of items) {
    const key = plain(String(keyOf(item)));
    let child = old.get(key);
    old.delete(key);
    if (!child) {
      child = make(item);
      child.dataset.key = key;
    }
    if (child === before) before = before.nextElementSibling;
    else place.insertBefore(child, before);
    update(child, item);
  }
  old.forEach((child) => child.remove());
}

// Cells of a row: text, or [text, class].
export function fill(row, cells) {
  while (row.children.length < cells.length) row.append(element('td', {}));
  cells.forEach((cell, at) => {
    const [text, kind] = Array.isArray(cell) ? cell : [cell, ''];
    const place = row.children[at];
    say(place, text);
    if (place.className !== kind) place.className = kind;
  });
}

export const rows = (place, items, keyOf, cellsOf, look) => keep(place, items, keyOf, () => element('tr', {}), (row, item) => {
  fill(row, cellsOf(item));
  look?.(row, item);
});

// Sets a text only where it is another: what a reader has marked stays marked.
export function say(place, text) {
  const shown = plain(String(text));
  if (place.textContent !== shown) place.textContent = shown;
}

// Names and values: [name, value, note, is bad].
export function numbers(place, items) {
  keep(place, items, (item) => item[0], ([name]) => element('div', {}, element('dt', {}, plain(name)), element('dd', {}, element('span', {}), element('small', {}))), (box, [, value, note, bad]) => {
    const [text, small] = box.lastChild.children;
    say(text, value);
    say(small, note ?? '');
    box.lastChild.className = bad ? 'bad' : '';
  });
}

// Below a thousand as many decimals as count; whole numbers stay whole.
const few = (value) => (Number.isInteger(value) || value >= 99.95 ? value.toFixed(0) : value < 0.05 ? '<0.1' : value.toFixed(1));
export const rate = (value, unit = '') => {
  if (value === null || value === undefined) return '–';
  return (value < 999.5 ? `${few(value)} ${unit}` : scaled(value, unit)).trim();
};
export const percent = (share) => (share === null || share === undefined ? '–' : `${(share * 100).toFixed(share < 0.0995 ? 1 : 0)} %`);
export const milliseconds = (value) => (value === null || value === undefined ? '–' : value < 0.1 ? `${(value * 1000).toFixed(0)} µs` : `${value.toFixed(value < 10 ? 2 : 0)} ms`);
// A fact is its value, or an object that says why it is unknown.
export const known = (fact) => (fact !== null && typeof fact === 'object' ? null : fact);
export const why = (fact) => (fact !== null && typeof fact === 'object' ? fact.unknown : '');
