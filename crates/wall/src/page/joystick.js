// The joystick: a knob to drag, a gamepad, and the keys that are held. All of them add up to one movement, told at most 30 times a second.

import { byId } from './figures.js';

const TOLD_EVERY_MS = 34;
// At full deflection the view crosses the wall in so many seconds, and doubles its zoom in so many.
const CROSS_SECONDS = 2;
const DOUBLE_SECONDS = 1;
// Sticks that rest are never quite at zero.
const DEAD = 0.12;
const BUTTON = { play: 0, reset: 1, slower: 4, faster: 5, out: 6, in: 7, loop: 9, up: 12, down: 13, left: 14, right: 15 };

const bent = (value) => Math.sign(value) * value * value;

export class Joystick {
  constructor(link, transport) {
    this.link = link;
    this.transport = transport;
    this.status = null;
    this.drag = [0, 0];
    this.held = new Map();
    this.pressed = [];
    this.stick = byId('stick');
    this.knob = byId('knob');
    this.stick.addEventListener('pointerdown', (event) => this.grab(event));
    this.stick.addEventListener('pointermove', (event) => this.pull(event));
    for (const kind of ['pointerup', 'pointercancel', 'lostpointercapture']) this.stick.addEventListener(kind, () => this.release());
    this.stick.addEventListener('dragstart', (event) => event.preventDefault());
    byId('reset').addEventListener('click', () => this.reset());
    byId('zoom').addEventListener('input', (event) => this.zoomTo(2 ** Number(event.target.value)));
    byId('zoom-in').addEventListener('click', () => this.pan(0, 0, 1.25));
    byId('zoom-out').addEventListener('click', () => this.pan(0, 0, 0.8));
    addEventListener('gamepadconnected', () => this.showPad());
    addEventListener('gamepaddisconnected', () => this.showPad());
    addEventListener('blur', () => this.held.clear());
    setInterval(() => this.tick(), TOLD_EVERY_MS);
  }

  // Else the browser may take the drag for one of its own (of text that is selected), and cancel ours.
  grab(event) {
    event.preventDefault();
    this.stick.focus({ preventScroll: true });
    this.stick.setPointerCapture(event.pointerId);
    this.dragging = true;
    this.stick.classList.remove('home');
    this.pull(event);
  }

  pull(event) {
    if (!this.dragging) return;
    const box = this.stick.getBoundingClientRect();
    const radius = box.width * 0.31;
    let right = (event.clientX - box.left - box.width / 2) / radius;
    let down = (event.clientY - box.top - box.height / 2) / radius;
    const length = Math.hypot(right, down);
    if (length > 1) [right, down] = [right / length, down / length];
    this.drag = [right, down];
    this.place(right * radius, down * radius);
  }

  release() {
    this.dragging = false;
    this.drag = [0, 0];
    this.stick.classList.add('home');
    this.place(0, 0);
  }

  place(x, y) {
    this.knob.style.transform = `translate(${x}px, ${y}px)`;
  }

  // A key goes down or up: right, down, zoom.
  hold(key, movement) {
    if (movement) this.held.set(key, movement);
    else this.held.delete(key);
  }

  pan(right, down, zoom) {
    this.link.sendIfIdle({ do: 'pan', right, down, zoom });
  }

  reset() {
    this.link.send({ do: 'view', left: 0, top: 0, zoom: 1 });
  }

  // The middle of the wall stays where it is: that is what the server does with a pan.
  zoomTo(zoom) {
    if (this.status) this.pan(0, 0, zoom / this.status.view.zoom);
  }

  tick() {
    if (!this.status || !this.link.live) return;
    let [right, down] = this.drag.map(bent);
    let zoom = 0;
    for (const movement of this.held.values()) {
      right += movement[0];
      down += movement[1];
      zoom += movement[2];
    }
    const pad = this.pad();
    right += pad[0];
    down += pad[1];
    zoom += pad[2];
    if (!right && !down && !zoom) return;
    const limit = (value) => Math.max(-1, Math.min(1, value));
    const seconds = TOLD_EVERY_MS / 1000;
    const step = (this.size.width / CROSS_SECONDS) * seconds;
    this.pan(limit(right) * step, limit(down) * step, 2 ** ((limit(zoom) * seconds) / DOUBLE_SECONDS));
  }

  // The first gamepad that is there: what its sticks say, and its buttons as they go down.
  pad() {
    const pad = Array.from(navigator.getGamepads?.() ?? []).find((one) => one && one.connected);
    if (!pad) return [0, 0, 0];
    const axis = (i) => (Math.abs(pad.axes[i] ?? 0) > DEAD ? bent(pad.axes[i]) : 0);
    const down = (i) => Boolean(pad.buttons[i]?.pressed);
    const went = (i) => down(i) && !this.pressed[i];
    if (went(BUTTON.play)) this.transport.toggle();
    if (went(BUTTON.reset)) this.reset();
    if (went(BUTTON.slower)) this.transport.faster(-1);
    if (went(BUTTON.faster)) this.transport.faster(1);
    if (went(BUTTON.loop)) this.transport.toggleLoop();
    this.pressed = pad.buttons.map((button) => button.pressed);
    const cross = (less, more) => Number(down(more)) - Number(down(less));
    const trigger = (i) => pad.buttons[i]?.value ?? 0;
    return [
      axis(0) + cross(BUTTON.left, BUTTON.right),
      axis(1) + cross(BUTTON.up, BUTTON.down),
      trigger(BUTTON.in) - trigger(BUTTON.out) - axis(3),
    ];
  }

  showPad() {
    const pads = Array.from(navigator.getGamepads?.() ?? []).filter(Boolean);
    byId('pad').textContent = pads.length ? `Gamepad: ${pads[0].id.slice(0, 30)}` : 'No gamepad';
  }

  show(status) {
    this.status = status;
    const [movie, wall] = [status.movie_size, status.wall_size].map((text) => text.split('x').map(Number));
    this.size = { width: wall[0], height: wall[1] };
    const { left, top, zoom } = status.view;
    const slider = byId('zoom');
    if (document.activeElement !== slider) slider.value = String(Math.log2(zoom));
    slider.setAttribute('aria-valuetext', `${zoom.toFixed(2)} times`);
    byId('view-text').textContent = `${zoom.toFixed(2)} × at ${Math.round(left)}, ${Math.round(top)} of ${movie[0]} × ${movie[1]} pixels`;
    const map = byId('map-movie');
    map.style.aspectRatio = `${movie[0]} / ${movie[1]}`;
    const share = (value, of) => `${(100 * value) / of}%`;
    const view = byId('map-view').style;
    [view.left, view.top] = [share(left, movie[0]), share(top, movie[1])];
    [view.width, view.height] = [share(wall[0] / zoom, movie[0]), share(wall[1] / zoom, movie[1])];
  }
}
