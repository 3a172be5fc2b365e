// Play, pause, seek, speed, loop, movies.

import { byId, element, duration, plain } from './figures.js';

const SPEEDS = [-4, -2, -1, -0.5, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 4, 8];
// While a person seeks, what the server says of the place is older than the hand.
const HAND_MS = 400;
const SEEKS_APART_MS = 80;

export class Transport {
  constructor(link) {
    this.link = link;
    this.status = null;
    this.seen = 0;
    this.handled = -Infinity;
    this.sought = -Infinity;
    this.seek = byId('seek');
    this.seek.addEventListener('input', () => this.drag());
    this.seek.addEventListener('change', () => this.to(Number(this.seek.value)));
    const on = (id, act) => byId(id).addEventListener('click', act);
    on('play', () => this.toggle());
    on('loop', () => this.toggleLoop());
    on('to-start', () => this.to(0));
    on('to-end', () => this.to(Infinity));
    on('step-back', () => this.step(-1));
    on('step-on', () => this.step(1));
    byId('speed').addEventListener('change', (event) => this.setSpeed(Number(event.target.value)));
    byId('movies').addEventListener('change', (event) => this.link.send({ do: 'open', movie: event.target.value }) && this.link.send({ do: 'movies' }));
    link.addEventListener('movies', (event) => this.showMovies(event.detail.movies));
    link.addEventListener('timeline', (event) => this.hear(event.detail));
    requestAnimationFrame(() => this.move());
  }

  hear(timeline) {
    this.intent = timeline.segments[timeline.segments.length - 1];
    if (this.status) this.show(this.status);
  }

  get last() {
    return this.status ? this.status.frames - 1 : 0;
  }

  get rate() {
    const [above, below] = this.status.frames_per_second.split('/').map(Number);
    return above / (below || 1);
  }

  toggle() {
    if (!this.status) return;
    this.link.send({ do: this.status.playing ? 'pause' : 'play' });
    this.status.playing = !this.status.playing;
  }

  toggleLoop() {
    if (this.status) this.link.send({ do: 'loop', on: !this.status.looping });
  }

  to(frame) {
    const place = Math.max(0, Math.min(this.last, Math.round(frame)));
    this.handled = performance.now();
    this.place = place;
    this.draw(place);
    this.link.send({ do: 'seek', frame: place });
  }

  // Single frames are for a wall that stands.
  step(frames) {
    if (!this.status) return;
    const from = this.now();
    if (this.status.playing) this.toggle();
    this.to(Math.floor(from) + frames);
  }

  setSpeed(speed) {
    this.link.send({ do: 'speed', speed });
  }

  faster(by) {
    if (!this.status) return;
    const near = SPEEDS.reduce((best, speed, i) => (Math.abs(speed - this.status.speed) < Math.abs(SPEEDS[best] - this.status.speed) ? i : best), 0);
    const next = SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, near + by))];
    this.status.speed = next;
    this.setSpeed(next);
  }

  drag() {
    const now = performance.now();
    this.handled = now;
    this.place = Number(this.seek.value);
    this.draw(this.place);
    if (now - this.sought > SEEKS_APART_MS) {
      this.sought = now;
      this.link.send({ do: 'seek', frame: this.place });
    }
  }

  show(status) {
    const first = !this.status || this.status.frames !== status.frames;
    const again = this.status === status;
    const hand = { ...this.status };
    // The timeline tells what was asked, the status what is so at this tick: a change is announced before it takes effect.
    if (this.intent) ({ playing: status.playing, speed: status.speed, looping: status.looping } = this.intent);
    // It intends to play, but there is nothing more.
    if (status.ended) status.playing = false;
    if (this.status && this.link.waits('speed')) status.speed = hand.speed;
    if (this.status && (this.link.waits('play') || this.link.waits('pause'))) status.playing = hand.playing;
    this.status = status;
    if (!again) this.seen = performance.now();
    if (first) this.seek.max = this.last;
    byId('length').textContent = duration(status.frames / this.rate);
    const play = byId('play');
    play.dataset.playing = status.playing ? 'yes' : 'no';
    play.setAttribute('aria-label', status.playing ? 'Pause' : 'Play');
    byId('loop').setAttribute('aria-pressed', String(status.looping));
    this.showSpeed(status.speed);
  }

  showSpeed(speed) {
    const select = byId('speed');
    const known = Array.from(select.options, (option) => Number(option.value));
    if (!known.includes(speed)) {
      const all = [...new Set([...SPEEDS, speed])].sort((a, b) => a - b);
      select.replaceChildren(...all.map((one) => element('option', { value: one }, `${String(one).replace('-', '−')} ×`)));
    }
    if (document.activeElement !== select || Number(select.value) !== speed) select.value = String(speed);
  }

  showMovies(movies) {
    const select = byId('movies');
    select.replaceChildren(...movies.map((movie) => element('option', { value: movie.name }, plain(movie.name))));
    const playing = movies.find((movie) => movie.playing);
    if (playing) select.value = playing.name;
  }

  // The place between two statuses, as it goes on from the last one.
  now() {
    const { frame, frames, playing, speed, looping } = this.status;
    if (performance.now() - this.handled < HAND_MS || this.link.waits('seek')) return this.place;
    if (!playing) return frame;
    const place = frame + (speed * this.rate * (performance.now() - this.seen)) / 1000;
    return looping ? ((place % frames) + frames) % frames : Math.max(0, Math.min(frames - 1, place));
  }

  draw(place) {
    const frame = Math.floor(place);
    this.seek.value = frame;
    const time = duration(frame / this.rate);
    byId('time').textContent = time;
    byId('frame').textContent = `frame ${frame} of ${this.status.frames}`;
    this.seek.setAttribute('aria-valuetext', `frame ${frame}, ${time}`);
  }

  move() {
    if (this.status && this.link.live) {
      const frame = Math.floor(this.now());
      if (frame !== this.drawn) {
        this.drawn = frame;
        this.draw(frame);
      }
    }
    requestAnimationFrame(() => this.move());
  }
}
