// The keyboard, and the help that lists it. A control that has the focus keeps the keys that it needs itself.

import { byId } from './figures.js';

// Right, down, zoom.
const MOVEMENTS = {
  ArrowLeft: [-1, 0, 0], ArrowRight: [1, 0, 0], ArrowUp: [0, -1, 0], ArrowDown: [0, 1, 0],
  '+': [0, 0, 1], '=': [0, 0, 1], '-': [0, 0, -1], '−': [0, 0, -1],
};

export class Keys {
  constructor(transport, joystick) {
    this.joystick = joystick;
    this.help = byId('help');
    this.actions = {
      ' ': () => transport.toggle(),
      '[': () => transport.faster(-1),
      ']': () => transport.faster(1),
      ',': () => transport.step(-1),
      '.': () => transport.step(1),
      Home: () => transport.to(0),
      End: () => transport.to(Infinity),
      0: () => joystick.reset(),
      l: () => transport.toggleLoop(),
      '?': () => this.help.showModal(),
    };
    byId('help-open').addEventListener('click', () => this.help.showModal());
    addEventListener('keydown', (event) => this.down(event));
    addEventListener('keyup', (event) => joystick.hold(event.code, null));
  }

  down(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || this.help.open || this.isTheirs(event)) return;
    const movement = MOVEMENTS[event.key];
    const action = this.actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (movement) this.joystick.hold(event.code, movement);
    else if (action && !(event.repeat && event.key !== ',' && event.key !== '.')) action();
    if (movement || action) event.preventDefault();
  }

  // Text is written into fields; a slider has its arrows, Home and End; a button has its space; a scrolled table has its arrows.
  isTheirs({ key, target }) {
    if (target.matches('input:not([type=range]), textarea, select')) return true;
    const moves = key.startsWith('Arrow') || key === 'Home' || key === 'End';
    if (target.matches('input[type=range], .scroll')) return moves;
    return target.matches('button') && key === ' ';
  }
}
