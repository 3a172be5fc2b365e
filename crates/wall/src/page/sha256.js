// SHA-256 (FIPS 180-4) and HMAC (RFC 2104): browsers offer their own only over HTTPS and to their own host.

const PRIMES = [];
for (let n = 2; PRIMES.length < 64; n++) {
  if (PRIMES.every((prime) => n % prime)) PRIMES.push(n);
}
// The first 32 bits of the fractions of roots of the first primes.
const fraction = (root) => ((root - Math.floor(root)) * 2 ** 32) >>> 0;
const START = PRIMES.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));
const ROUND = PRIMES.map((prime) => fraction(Math.cbrt(prime)));

const turned = (word, bits) => (word >>> bits) | (word << (32 - bits));

export function sha256(bytes) {
  const length = (((bytes.length + 8) >> 6) + 1) << 6;
  const padded = new Uint8Array(length);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(length - 4, (bytes.length << 3) >>> 0);
  const state = new Uint32Array(START);
  const words = new Uint32Array(64);
  for (let block = 0; block < length; block += 64) {
    for (let i = 0; i < 16; i++) words[i] = view.getUint32(block + 4 * i);
    for (let i = 16; i < 64; i++) {
      const [a, b] = [words[i - 15], words[i - 2]];
      const s0 = turned(a, 7) ^ turned(a, 18) ^ (a >>> 3);
      const s1 = turned(b, 17) ^ turned(b, 19) ^ (b >>> 10);
      words[i] = words[i - 16] + s0 + words[i - 7] + s1;
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i++) {
      const s1 = turned(e, 6) ^ turned(e, 11) ^ turned(e, 25);
      const t1 = (h + s1 + ((e & f) ^ (~e & g)) + ROUND[i] + words[i]) | 0;
      const s0 = turned(a, 2) ^ turned(a, 13) ^ turned(a, 22);
      const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) | 0, c, b, a, (t1 + t2) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => { state[i] += word; });
  }
  const digest = new DataView(new ArrayBuffer(32));
  state.forEach((word, i) => digest.setUint32(4 * i, word));
  return new Uint8Array(digest.buffer);
}

export function hmacHex(key, message) {
  const encoder = new TextEncoder();
  const text = encoder.encode(message);
  let secret = encoder.encode(key);
  if (secret.length > 64) secret = sha256(secret);
  const keyed = (pad, rest) => {
    const bytes = new Uint8Array(64 + rest.length).fill(pad, 0, 64);
    secret.forEach((byte, i) => { bytes[i] ^= byte; });
    bytes.set(rest, 64);
    return sha256(bytes);
  };
  const digest = keyed(0x5c, keyed(0x36, text));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
