// A raw byte connection, for tests of the protocols.

import { connect } from 'node:net';

import { withTimeout } from './server.mjs';

const kNone = Buffer.alloc(0);

export class Wire {
  #received = kNone;
  #ended = false;
  #wake = () => {};

  static open(port) {
    return Wire.over(connect({ port, host: '127.0.0.1', noDelay: true, allowHalfOpen: true }));
  }

  // Over a socket that connects; `event` says that it is ready.
  static async over(socket, event = 'connect') {
    const wire = new Wire();
    wire.socket = socket;
    wire.socket.on('data', (bytes) => {
      wire.#received = Buffer.concat([wire.#received, bytes]);
      wire.#wake();
    });
    const end = () => {
      wire.#ended = true;
      wire.#wake();
    };
    wire.socket.on('end', end);
    wire.socket.on('close', end);
    wire.socket.on('error', end);
    await withTimeout('a connection', new Promise((done) => wire.socket.once(event, done)));
    return wire;
  }

  // Resolves when the kernel has accepted the bytes.
  send(bytes) {
    return withTimeout('bytes to be sent', new Promise((done) => this.socket.write(bytes, done)));
  }

  // Each byte in its own packet, if the system allows it.
  async sendSlowly(bytes) {
    for (const byte of Buffer.from(bytes)) await this.send(Buffer.from([byte]));
  }

  // Shuts down the write side; replies can still be read.
  finish() {
    this.socket.end();
  }
  close() {
    this.socket.destroy();
  }

  // Applies `read` to the received bytes: {value, size}, or undefined if more bytes are needed.
  async take(what, read) {
    for (;;) {
      const found = read(this.#received);
      if (found !== undefined) {
        this.#received = this.#received.subarray(found.size);
        return found.value;
      }
      if (this.#ended) {
        throw new Error(`closed before ${what}; unread: ${JSON.stringify(`${this.#received}`)}`);
      }
      await withTimeout(what, new Promise((done) => (this.#wake = done)));
    }
  }

  // All bytes until the peer closes.
  async rest() {
    while (!this.#ended) {
      await withTimeout('the end', new Promise((done) => (this.#wake = done)));
    }
    this.close();
    const all = this.#received;
    this.#received = kNone;
    return all.toString('latin1');
  }

  reply() {
    return this.take('a reply', (bytes) => readReply(bytes, 0));
  }
  async replies(count) {
    const all = [];
    while (all.length < count) all.push(await this.reply());
    return all;
  }
  // `method` of the request: a response to HEAD has no body.
  answer(method = 'GET') {
    return this.take('an answer', (bytes) => readAnswer(bytes, method));
  }
}

export class RespError extends Error {}

// One reply of the Redis protocol: {value, size}, or undefined if it is incomplete.
function readReply(bytes, from) {
  const end = bytes.indexOf('\r\n', from);
  if (end < 0) return undefined;
  const kind = String.fromCharCode(bytes[from]);
  const line = bytes.toString('latin1', from + 1, end);
  const behind = end + 2;
  const simple = (value) => ({ value, size: behind });
  switch (kind) {
    case '+':
      return simple(line);
    case '-':
      return simple(new RespError(line));
    case ':':
      return simple(Number(line));
    case '_':
      return simple(null);
    case '#':
      return simple(line === 't');
    case '$': {
      const size = Number(line);
      if (size < 0) return simple(null);
      if (bytes.length < behind + size + 2) return undefined;
      return { value: bytes.toString('latin1', behind, behind + size), size: behind + size + 2 };
    }
    case '*':
    case '%': {
      const items = [];
      let at = behind;
      for (let left = Number(line) * (kind === '%' ? 2 : 1); left > 0; --left) {
        const item = readReply(bytes, at);
        if (item === undefined) return undefined;
        items.push(item.value);
        at = item.size;
      }
      return { value: kind === '%' ? paired(items) : items, size: at };
    }
    default:
      throw new Error(`not a reply: ${JSON.stringify(kind + line)}`);
  }
}

// A flat list of names and values as an object.
export function paired(items) {
  const object = {};
  for (let i = 0; i < items.length; i += 2) object[items[i]] = items[i + 1];
  return object;
}

// A request as an array of bulk strings.
export function command(...words) {
  const parts = [Buffer.from(`*${words.length}\r\n`)];
  for (const word of words) {
    const bytes = Buffer.isBuffer(word) ? word : Buffer.from(String(word));
    parts.push(Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from('\r\n'));
  }
  return Buffer.concat(parts);
}

// One answer of HTTP/1.1 with a Content-Length, or without a body.
function readAnswer(bytes, method) {
  const end = bytes.indexOf('\r\n\r\n');
  if (end < 0) return undefined;
  const [line, ...lines] = bytes.toString('latin1', 0, end).split('\r\n');
  const [, version, status, reason] = line.match(/^(HTTP\/1\.1) (\d{3}) (.*)$/);
  const fields = {};
  for (const field of lines) {
    const colon = field.indexOf(': ');
    fields[field.slice(0, colon).toLowerCase()] = field.slice(colon + 2);
  }
  const has = method !== 'HEAD' && fields['content-length'] !== undefined;
  const size = end + 4 + (has ? Number(fields['content-length']) : 0);
  if (bytes.length < size) return undefined;
  const text = bytes.toString('utf8', end + 4, size);
  const isJson = has && fields['content-type'] === 'application/json';
  const body = isJson ? JSON.parse(text) : text;
  return { value: { version, status: Number(status), reason, fields, body }, size };
}
