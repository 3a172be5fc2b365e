// Numbers for people, and elements without markup: whatever a name from outside says, it is text.

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

export function scaled(value, unit) {
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
