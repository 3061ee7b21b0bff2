// Cheap connections to nodes, which leave the CPU to the nodes: one write for all requests of a tick,
// and replies parsed by a regular expression.

import { connect } from 'node:net';

import { pick, until } from './region.mjs';
import { command } from './wire.mjs';

class LoadConnection {
  static kLimit =
    /\*12\r\n\$7\r\nsuccess\r\n:([01])\r\n[^*]*?reset\r\n:(\d+)\r\n[^*]*?basis\r\n\$\d+\r\n(\w+)\r\n/;
  static kThrottle = /\*5\r\n:([01])\r\n(?::-?\d+\r\n){4}/;
  static kAnswer = new RegExp(`${this.kLimit.source}|${this.kThrottle.source}`, 'gy');
  #unsent = '';
  #text = '';
  #open = []; // in order

  constructor(port) {
    this.socket = connect({ port, host: '127.0.0.1', noDelay: true }).setEncoding('latin1');
    this.socket.on('data', (text) => this.#take(text));
  }
  send(question, entry) {
    this.#unsent += question;
    this.#open.push(entry);
  }
  flush() {
    if (this.#unsent !== '') this.socket.write(this.#unsent);
    this.#unsent = '';
  }
  #take(text) {
    this.#text += text;
    let taken = 0;
    let answered = 0;
    const came = Date.now();
    for (const [answer, success, reset, basis, limited] of this.#text.matchAll(LoadConnection.kAnswer)) {
      const entry = this.#open[answered++];
      Object.assign(entry, { came, success: limited === undefined ? Number(success) : 1 - Number(limited) });
      if (limited === undefined) Object.assign(entry, { reset: Number(reset), basis });
      taken += answer.length;
    }
    this.#open.splice(0, answered);
    this.#text = this.#text.slice(taken);
  }
  get isQuiet() {
    return this.#open.length === 0;
  }
}

// A connection to each node; requests go to a random one.
export class LoadConnections {
  #questions = new Map();

  constructor(nodes) {
    this.lines = nodes.map((node) => Object.assign(new LoadConnection(node.server.respPort), { node }));
  }

  // Sends WEIR.LIMIT, or CL.THROTTLE if the words begin with it, to a node with the next flush():
  // {node, sent, came, success, reset, basis}, the last four after the reply, the last two of WEIR.LIMIT.
  send(words, line = pick(this.lines)) {
    const name = words.join(' ');
    if (!this.#questions.has(name)) {
      const whole = words[0] === 'CL.THROTTLE' ? words : ['WEIR.LIMIT', ...words];
      this.#questions.set(name, `${command(...whole.map(String))}`);
    }
    const entry = { node: line.node, sent: Date.now() };
    line.send(this.#questions.get(name), entry);
    return entry;
  }
  flush() {
    for (const line of this.lines) line.flush();
  }
  quiet() {
    return until('all answers', () => this.lines.every(({ isQuiet }) => isQuiet));
  }
  close() {
    for (const { socket } of this.lines) socket.destroy();
  }
}
