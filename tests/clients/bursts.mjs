// Bursts on all nodes of a region, and what the region admits in each window.

import assert from 'node:assert/strict';
import { Agent, request } from 'node:http';

import { DelayingProxy } from './proxy.mjs';
import { clientOf, freeze, kLongWindow, Origin, rest, startNode } from './region.mjs';
import { until, untilConnected, verdictOf } from './region.mjs';

const kConnections = 3; // to each node

// A node with some more connections to it.
async function startBurstNode(url, options) {
  const node = await startNode(url, options);
  node.clients = Array.from({ length: kConnections }, () => clientOf(node.server));
  node.freeze = () => freeze(node.server.child);
  node.thaw = () => node.server.child.kill('SIGCONT');
  const stop = node.stop;
  node.stop = async () => {
    await stop();
    for (const client of node.clients) client.disconnect();
  };
  return node;
}

// A region with its own redis-server, which is `delay` ms away each way.
export class Region {
  static async start(count, { delay, ...options } = {}) {
    const region = new Region();
    region.options = options; // of startNode()
    region.origin = new Origin();
    await region.origin.start();
    if (delay !== undefined) {
      region.proxy = await DelayingProxy.to(region.origin.port, { up: delay, down: delay });
    }
    region.nodes = [];
    await Promise.all(Array.from({ length: count }, () => region.add()));
    return region;
  }
  async add(url = (this.proxy ?? this.origin).url) {
    const node = await startBurstNode(url, this.options);
    this.nodes.push(node);
    return node;
  }
  // Waits until every node knows the others and admits by its allowance.
  async settle() {
    await untilConnected(this.nodes);
    await Promise.all(
      this.nodes.map((node, i) =>
        until('an allowance', async () => {
          await rest(100);
          const key = { identifier: `settle-${i}`, most: 1_000_000_000, duration: kLongWindow };
          const [{ basis }] = await burst(node, { ...key, consistency: 'converge' }, 1);
          return basis === 'local';
        }),
      ),
    );
  }
  async stop() {
    await Promise.all(this.nodes.map((node) => node.stop()));
    this.proxy?.close();
    await this.origin.kill();
  }
}

// Sends `count` requests of a key to a node at once: {node, success, reset, basis}, or {node, error}.
export function burst(node, key, count) {
  const { identifier, most, duration, algorithm = 'fixed_window', cost = 1, consistency } = key;
  const words = ['api', identifier, most, duration, 'ALGORITHM', algorithm, 'COST', cost];
  if (consistency) words.push('CONSISTENCY', consistency);
  const send = async (i) => {
    try {
      const { success, reset, basis } = verdictOf(
        await node.clients[i % kConnections].call('WEIR.LIMIT', ...words),
      );
      return { node, cost, success, reset, basis };
    } catch (error) {
      return { node, error };
    }
  };
  return Promise.all(Array.from({ length: count }, (_, i) => send(i)));
}

// fetch opens a connection for each request of a burst, and gives up those that take 10 s, which they
// may on a busy machine. These requests share connections, and wait.
const agent = new Agent({ keepAlive: true, maxSockets: 16 }); // for each node

// Posts JSON with the key to a node; returns the status and the fields of the answer.
export function post({ server }, path, key, body) {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  return new Promise((resolve, reject) => {
    const call = request(`${server.url}${path}`, { method: 'POST', agent, headers }, (answer) => {
      let text = '';
      answer.setEncoding('utf8');
      answer.on('data', (part) => (text += part));
      answer.on('error', reject);
      answer.on('end', () => resolve({ status: answer.statusCode, ...JSON.parse(text) }));
    });
    // The server may have closed a connection that waited in the pool: then it has not read the call.
    call.on('error', (error) =>
      call.reusedSocket && error.code === 'ECONNRESET' ? resolve(post({ server }, path, key, body)) : reject(error),
    );
    call.end(JSON.stringify(body));
  });
}

// Waits for the start of the next window, and a little longer than a clock's tick.
export async function windowStart(duration) {
  const start = Date.now() - (Date.now() % duration) + duration;
  while (Date.now() < start + 2) await rest(Math.max(1, start + 2 - Date.now()));
  return start;
}

export function admittedOf(results) {
  return results.reduce((sum, { success, cost }) => sum + (success ? cost : 0), 0);
}

// The results by the end of the window that each was decided in.
export function byWindow(results) {
  const windows = new Map();
  for (const result of results) {
    assert.equal(result.error, undefined);
    if (!windows.has(result.reset)) windows.set(result.reset, []);
    windows.get(result.reset).push(result);
  }
  return new Map([...windows].sort(([a], [b]) => a - b));
}

export const isDegraded = ({ basis }) => basis === 'degraded';

// The windows of a key, in order: what each admitted, whether no verdict of it is degraded, and whether
// every node got more requests than the limit.
export function windowsOf(region, key, results) {
  return [...byWindow(results).values()].map((window) => {
    const requests = (node) => window.filter((result) => result.node === node).length;
    // How each node decided, for the message of a failed assertion.
    const detail = region.nodes.map((node) => {
      const counts = {};
      for (const result of window.filter((each) => each.node === node)) {
        const name = `${result.basis} ${result.success ? 'admitted' : 'denied'}`;
        counts[name] = (counts[name] ?? 0) + 1;
      }
      return counts;
    });
    return {
      detail,
      end: window[0].reset,
      admitted: admittedOf(window),
      isClean: !window.some(isDegraded),
      isFull: region.nodes.every((node) => requests(node) > key.most),
    };
  });
}

// Windows right after one in which every node saw a refusal: Redis decides every request. On a slow
// machine a burst may miss a window.
export const isStrict = (duration) => (window, i, windows) =>
  i > 0 &&
  [windows[i - 1], window].every(({ isClean, isFull }) => isClean && isFull) &&
  window.end - windows[i - 1].end === duration;

// A verdict is degraded if Redis answered later than the 300 ms that a request waits: the machine
// stalled. Such a run proves nothing about the limit. It is counted, and repeated with a new key, but
// not until it passes: that would hide nodes that degrade without a reason.
const kMostRepetitions = 2;
let repetitions = 0;
process.on('exit', () => repetitions > 0 && console.log(`${repetitions} runs were repeated`));

// Runs `once` until no verdict in its result is degraded, and returns the result.
export async function cleanRun(once, verdictsOf = (result) => result) {
  const seen = [];
  for (;;) {
    const result = await once();
    const verdicts = verdictsOf(result);
    const degraded = verdicts.filter(isDegraded).length;
    if (degraded === 0) return result;
    seen.push(`${degraded} of ${verdicts.length}`);
    assert.ok(seen.length <= kMostRepetitions, `degraded in every run: ${seen.join(', ')}`);
    ++repetitions;
  }
}

// Prints what was admitted, as a table: {name, most, admitted, largest}, `largest` of the windows that
// count.
export function report(title, rows) {
  const cells = [['', 'limit', 'admitted / limit', 'admitted in each window']];
  for (const { name, most, admitted, largest } of rows) {
    cells.push([name, String(most), (largest / most).toFixed(3), admitted.join(' ')]);
  }
  const widths = cells[0].map((_, i) => Math.max(...cells.map((each) => each[i].length)));
  const lines = cells.map((each) => each.map((cell, i) => cell.padEnd(widths[i])).join('  ').trimEnd());
  console.log([title, ...lines].join('\n'));
}
