// A TCP proxy between a node and its origin that injects faults: delay, disconnection, lost replies, or
// late delivery of the data of an abandoned connection.
//
// Bytes stay in order within a connection and a direction. It listens on loopback and ends with
// close().

import { connect, createServer } from 'node:net';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

// One direction of one connection.
class Lane {
  #waiting = []; // {bytes, due}
  #timer;
  #ending = false;
  held = false;

  constructor(to, delay) {
    this.to = to;
    this.delay = delay;
  }
  carry(bytes) {
    this.#waiting.push({ bytes, due: performance.now() + this.delay() });
    this.move();
  }
  // Delivers the bytes that are due, in order also when the delay falls.
  move() {
    clearTimeout(this.#timer);
    if (this.held) return;
    const now = performance.now();
    while (this.#waiting.length > 0 && this.#waiting[0].due <= now) {
      const { bytes } = this.#waiting.shift();
      if (this.to.writable) this.to.write(bytes);
    }
    if (this.#waiting.length > 0) {
      this.#timer = setTimeout(() => this.move(), Math.ceil(this.#waiting[0].due - now));
    } else if (this.#ending) {
      this.to.end();
    }
  }
  // End of input; bytes in flight are still delivered.
  end() {
    this.#ending = true;
    this.move();
  }
  drop() {
    clearTimeout(this.#timer);
    this.#waiting = [];
    this.to.destroy();
  }
}

export class Proxy {
  #links = new Set();
  #server;
  #cut = false;
  #silent = false;
  delay = { up: 0, down: 0 }; // ms, to the origin and back, for new bytes

  static async to(port) {
    const proxy = new Proxy();
    proxy.target = port;
    await new Promise((resolve) => {
      proxy.#server = createServer((node) => proxy.#join(node)).listen(0, '127.0.0.1', resolve);
    });
    return proxy;
  }

  get port() {
    return this.#server.address().port;
  }
  get url() {
    return `redis://127.0.0.1:${this.port}`;
  }

  #join(node) {
    if (this.#cut) return node.resetAndDestroy();
    const origin = connect({ port: this.target, host: '127.0.0.1', noDelay: true });
    const up = new Lane(origin, () => this.delay.up);
    const down = new Lane(node, () => this.delay.down);
    const link = { up, down };
    this.#links.add(link);
    down.held = this.#silent;
    node.setNoDelay(true);
    node.on('data', (bytes) => up.carry(bytes));
    origin.on('data', (bytes) => down.carry(bytes));
    node.on('close', () => up.end());
    origin.on('close', () => {
      down.end();
      this.#links.delete(link);
    });
    for (const socket of [node, origin]) socket.on('error', () => {}); // 'close' follows
  }

  // Closes every connection and refuses new ones until restore().
  cut() {
    this.#cut = true;
    for (const { up, down } of this.#links) {
      up.drop();
      down.drop();
    }
    this.#links.clear();
  }
  restore() {
    this.#cut = false;
  }

  // Requests reach the origin, but replies are held until releaseReplies().
  holdReplies() {
    this.#silent = true;
    for (const { down } of this.#links) down.held = true;
  }
  releaseReplies() {
    this.#silent = false;
    for (const { down } of this.#links) {
      down.held = false;
      down.move();
    }
  }

  // Holds the requests on the current connections, also after the node has closed them, until the
  // returned function is called. New connections work.
  hold() {
    const links = [...this.#links];
    for (const { up } of links) up.held = true;
    return () => {
      for (const { up } of links) {
        up.held = false;
        up.move();
      }
    };
  }

  close() {
    this.cut();
    this.#server.close();
  }
}

// A proxy with a constant delay in its own thread, so that a busy test does not lengthen the delay.
export class DelayingProxy {
  static async to(port, delay) {
    const proxy = new DelayingProxy();
    proxy.worker = new Worker(new URL(import.meta.url), { workerData: { delayingProxy: { port, delay } } });
    proxy.port = await new Promise((resolve) => proxy.worker.once('message', resolve));
    return proxy;
  }
  get url() {
    return `redis://127.0.0.1:${this.port}`;
  }
  close() {
    return this.worker.terminate();
  }
}

if (!isMainThread && workerData?.delayingProxy) {
  const { port, delay } = workerData.delayingProxy;
  const proxy = await Proxy.to(port);
  proxy.delay = delay;
  parentPort.postMessage(proxy.port);
}
