// The connection to the server: keeps itself up while the page is in sight, and hands out moments.

// Longer without a word than this, and than three intervals: the connection is dead. The server sends something every 5 s.
const SILENCE_MS = 16000;

export class Link extends EventTarget {
  constructor() {
    super();
    this.patience = 500;
    this.version = null;
    document.addEventListener('visibilitychange', () => (document.hidden ? this.close() : this.open()));
    setInterval(() => this.look(), 2000);
    this.open();
  }

  tell(kind, detail) {
    this.dispatchEvent(new CustomEvent(kind, { detail }));
  }

  // A tab out of sight takes nothing, and none of the six connections that a browser has for one server.
  close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  open() {
    this.close();
    if (document.hidden) return;
    this.tell('state', 'connecting');
    this.heard = performance.now();
    const source = new EventSource('/events');
    this.source = source;
    source.addEventListener('hello', (event) => this.hello(event.data));
    source.addEventListener('ended', () => {
      this.heard = performance.now();
      this.tell('state', 'ended');
    });
    source.onmessage = (event) => {
      this.heard = performance.now();
      this.tell('moment', JSON.parse(event.data));
    };
    source.onerror = () => this.again();
  }

  hello(version) {
    this.patience = 500;
    // Another program brings another page.
    if (this.version && this.version !== version) location.reload();
    this.version = version;
    this.tell('state', 'live');
  }

  async again() {
    this.close();
    this.tell('state', 'connecting');
    this.timer = setTimeout(() => this.open(), this.patience);
    this.patience = Math.min(this.patience * 1.6, 5000);
    // A server with another token shows the page that asks for it.
    const answer = await fetch('/history?span=minute').catch(() => null);
    if (answer?.status === 401) location.reload();
  }

  // A connection that died without a word.
  look() {
    if (this.source && this.interval && performance.now() - this.heard > Math.max(SILENCE_MS, 3 * this.interval)) this.again();
  }
}
