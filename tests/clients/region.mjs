// A region: a real redis-server and nodes that share counts through it.

import { spawn } from 'node:child_process';
import { copyFileSync, readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';

import Redis from 'ioredis';

import { withTimeout, startServer, temporaryFolder } from './server.mjs';

const kDay = 86_400_000;

// A duration whose current window does not end during a test.
export const kLongWindow = [30, 29, 28, 27]
  .map((days) => days * kDay)
  .find((duration) => duration - (Date.now() % duration) > kDay);

export const rest = (ms) => new Promise((go) => setTimeout(go, ms));

// Waits until the condition is true.
export async function until(what, condition) {
  let ended = false;
  const loop = async () => {
    while (!ended && !(await condition())) await rest(10);
  };
  await withTimeout(what, loop()).finally(() => (ended = true));
}

export function freePort() {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

// Suspends a process until SIGCONT, and waits until all its threads are stopped.
export function freeze(child) {
  const threads = `/proc/${child.pid}/task`;
  const stands = (thread) => {
    try {
      return / T /.test(readFileSync(join(threads, thread, 'stat'), 'utf8'));
    } catch {
      return false; // it has just ended
    }
  };
  child.kill('SIGSTOP');
  return until('a process to stand still', () => readdirSync(threads).every(stands));
}

// How often a server has lost Redis. It replaces a connection without an answer for 2 s; a call may find
// that, or none. `also` are further reasons of failed calls that count.
export async function lossesOf(server, ...also) {
  const failed = (reason) => server.metric('weir_origin_errors_total', `reason="${reason}"`);
  const reconnects = Math.max(0, (await server.metric('weir_origin_connections_total')) - 1);
  const reasons = await Promise.all(['unreachable', 'circuit_open', ...also].map(failed));
  return reasons.reduce((sum, each) => sum + each, reconnects);
}

// A redis-server that can be suspended, killed, and restarted on its port.
export class Origin {
  constructor() {
    process.on('exit', () => this.child?.kill('SIGKILL'));
  }

  // Empty, or with the data of `snapshot`.
  async start(snapshot) {
    this.port ??= await freePort();
    this.folder = temporaryFolder();
    if (snapshot) copyFileSync(snapshot, join(this.folder, 'dump.rdb'));
    const args = ['--port', this.port, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'];
    this.child = spawn('redis-server', [...args.map(String), '--dir', this.folder], {
      stdio: 'ignore',
    });
    this.client = new Redis(this.port, '127.0.0.1', { retryStrategy: () => 50 });
    this.client.on('error', () => {}); // while it is down
    await withTimeout('redis-server', this.client.ping());
  }
  async kill() {
    const ended = new Promise((resolve) => this.child.once('close', resolve));
    this.client.disconnect();
    this.child.kill('SIGCONT');
    this.child.kill('SIGKILL');
    await ended;
  }
  get alive() {
    return this.child.exitCode === null && this.child.signalCode === null;
  }
  // Suspends the process until resume().
  pause() {
    return freeze(this.child);
  }
  resume() {
    this.child.kill('SIGCONT');
  }

  // A file with its current data.
  async snapshot() {
    await this.client.save();
    const file = join(temporaryFolder(), 'snapshot.rdb');
    copyFileSync(join(this.folder, 'dump.rdb'), file);
    return file;
  }

  get url() {
    return `redis://127.0.0.1:${this.port}`;
  }

  // The keys of all cells.
  async cells() {
    const keys = await this.client.keys('weir:{*');
    return keys.filter((key) => /^weir:\{[0-9a-f]+\}:\d+$/.test(key));
  }
  // The count of a cell from all nodes.
  async total(cell) {
    const fields = Object.entries(await this.client.hgetall(cell));
    // `l...` is a limit; `refused` says that a step refused a request.
    const counts = fields.filter(([name]) => !name.startsWith('l') && name !== 'refused');
    return counts.reduce((sum, [, count]) => sum + Number(count), 0);
  }
}

export function verdictOf(flat) {
  return Object.fromEntries(flat.flatMap((x, i) => (i % 2 ? [] : [[x, flat[i + 1]]])));
}

// A client that never retries: a missing reply is an error.
export function clientOf(server) {
  const client = new Redis(server.respPort, '127.0.0.1', { retryStrategy: null });
  client.on('error', () => {}); // each command reports it as well
  return client;
}

// The default read deadline, for tests whose Redis is late or dead.
export const kUsualDeadline = '300ms';

// A node and a client of it. By default it waits long for Redis: on a busy machine an answer may take
// more than 300 ms, and a verdict without it shows nothing about the counts of the region.
export async function startNode(origin, { args = [], readDeadline = '5s', ...options } = {}) {
  const server = await startServer({
    args: ['--origin', origin, '--threads', '1', '--read-deadline', readDeadline, ...args],
    ...options,
  });
  const client = clientOf(server);
  // The server closes a connection that was idle for five minutes, which is a few cases on a busy machine.
  const ping = setInterval(() => client.ping().catch(() => {}), 60_000).unref();
  client.once('end', () => clearInterval(ping));
  const limit = async (identifier, most, cost = 1, duration = kLongWindow) =>
    verdictOf(await client.call('WEIR.LIMIT', 'api', identifier, most, duration, 'COST', cost));
  const peek = async (identifier, most, duration = kLongWindow) =>
    verdictOf(await client.call('WEIR.PEEK', 'api', identifier, most, duration));
  const ready = () => until('the origin', async () => (await server.metric('weir_origin_ready')) === 1);
  const stop = async (signal) => {
    await server.stop(signal);
    client.disconnect();
  };
  const kill = async () => {
    server.child.kill('SIGKILL');
    await withTimeout('a killed node to end', server.ended);
  };
  return { server, client, limit, peek, ready, stop, kill };
}

// Waits until the nodes see each other.
export async function untilConnected(nodes) {
  await Promise.all(nodes.map((node) => node.ready()));
  for (const { server } of nodes) {
    await until('all nodes', async () => (await server.metric('weir_nodes')) >= nodes.length);
  }
}

export function pick(some) {
  return some[Math.floor(Math.random() * some.length)];
}

// The quantile of the values.
export function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}

