// The connection to the server: shows that it knows the secret, keeps itself up, and hands out what comes.

import { plain } from './figures.js';
import { hmacHex } from './sha256.js';

const PROTOCOL = 1;
const WRONG_SECRET = 4001;
// Statuses a second, in sight and out of sight.
const WATCHED = 5;
const UNWATCHED = 0.5;

export class Link extends EventTarget {
  constructor(secret) {
    super();
    this.secret = secret;
    this.patience = 500;
    // What was asked and is not answered yet, in its order.
    this.waiting = [];
    this.live = false;
    document.addEventListener('visibilitychange', () => this.watch());
    this.open();
  }

  // Sends a request; false: there is no connection.
  send(request) {
    if (!this.live) return false;
    this.waiting.push(request.do);
    this.socket.send(JSON.stringify(request));
    return true;
  }

  // For what is only worth something now: not while earlier ones are still on their way.
  sendIfIdle(request) {
    return this.waiting.length < 4 && this.send(request);
  }

  // A request of this kind is not answered yet: what the server says of it is older than what a person did.
  waits(kind) {
    return this.waiting.includes(kind);
  }

  tell(kind, detail) {
    this.dispatchEvent(new CustomEvent(kind, { detail }));
  }

  watch() {
    this.send({ do: 'watch', per_second: document.hidden ? UNWATCHED : WATCHED });
  }

  open() {
    this.live = false;
    this.tell('state', { state: 'connecting' });
    this.socket = new WebSocket(`ws://${location.host}/control`);
    this.socket.binaryType = 'arraybuffer';
    this.socket.onmessage = (event) => this.hear(event.data);
    this.socket.onclose = (event) => this.closed(event);
  }

  closed(event) {
    this.live = false;
    if (event.code === WRONG_SECRET) {
      this.tell('state', { state: 'refused', why: 'The server has another key: this secret is wrong, or older than the server’s key.' });
      return;
    }
    this.tell('state', { state: 'connecting', again: true });
    setTimeout(() => this.open(), this.patience);
    this.patience = Math.min(this.patience * 1.6, 5000);
  }

  hear(data) {
    if (typeof data !== 'string') {
      this.tell('preview', data);
      return;
    }
    // Marks that turn the direction of a line are text of no name. A movie is asked for by its name as it is.
    const message = JSON.parse(data.startsWith('{"is":"movies"') ? data : plain(data));
    if (message.is === 'challenge') {
      if (message.protocol !== PROTOCOL) location.reload();
      this.version = message.linerate;
      this.socket.send(JSON.stringify({ answer: hmacHex(this.secret, message.challenge) }));
    } else if (message.is === 'welcome') {
      this.live = true;
      this.waiting = [];
      this.patience = 500;
      this.watch();
      this.send({ do: 'movies' });
      this.tell('state', { state: 'live' });
    } else {
      // A watched status, the timeline and “show” answer nothing.
      if (['done', 'refused', 'movies'].includes(message.is)) this.waiting.shift();
      this.tell(message.is, message);
    }
  }
}
