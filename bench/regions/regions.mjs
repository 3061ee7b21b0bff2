// Measures the propagation delay between regions, and what rows cost the servers.
//
// Three regions of two processes each, with one redis-server per region and one mariadbd for all, on
// loopback. One process receives a request for a key. Then one process of each other region is polled
// with WEIR.PEEK, which consumes nothing, until its reply includes that request. The delay runs from
// sending the request to receiving that reply.
//
//   fresh       New keys with a limit so small that the first unit must be published.
//   contended   Keys that all regions use, and a request larger than the part that a region may leave
//               unpublished.
//
// Then ten regions of one process each write new keys, each of which is a row, at a fixed rate. The CPU
// time of mariadbd, of each redis-server and of the processes is read from /proc at both ends of the
// measurement, and the rows from the metrics of the processes.

import { spawnSync } from 'node:child_process';
import { connect } from 'node:net';
import { join, resolve } from 'node:path';

import { readFlags } from '../flags.mjs';
import { describeMachine, printMachine, writeResults } from '../machine.mjs';
import { cpuTime, Servers, sleep } from '../servers.mjs';

const usage = `regions: measure the propagation delay between regions, and the CPU time of rows

  ./dev bench regions [--quick | --smoke] [--keys N] [--rows N] [--seconds N] [--out DIR]

  --quick      few keys and seconds
  --smoke      run everything for an instant: checks that the benchmark works, measures nothing
  --keys N     number of keys of each kind (default: 200)
  --rows N     rows a second that ten regions write together (default: 5000)
  --seconds N  duration of that (default: 20)
  --out DIR    directory for <date>-<arch>-regions.json (default: build/bench/results)
`;

const flags = { quick: false, smoke: false, keys: undefined, rows: undefined, seconds: undefined, out: 'build/bench/results', bin: 'build/bin' };
const { options } = readFlags(usage, flags);
options.keys = Number(options.keys ?? (options.smoke ? 2 : options.quick ? 20 : 200));
options.seconds = Number(options.seconds ?? (options.smoke ? 1 : options.quick ? 5 : 20));
options.rows = Number(options.rows ?? (options.smoke ? 50 : 5000));
const binary = join(resolve(options.bin), 'weir');

const kRegions = ['ap', 'eu', 'us'];
const kNodes = 2; // per region
const kPollInterval = 5; // ms
const kKeyInterval = 100; // ms; varies by one half, to avoid synchronisation with timers
const kDay = 86_400_000; // ms
// A window that does not end during the measurement.
const kWindow = [30, 29, 28, 27].map((days) => days * kDay)
  .find((duration) => duration - (Date.now() % duration) > kDay);
const kTimeout = 120_000; // ms
const kTargets = { p50: 0.2, p99: 0.4 }; // s
const kLoadedRegions = Array.from({ length: options.smoke ? 2 : 10 }, (_, i) => `region-${i}`);
const kLoadTick = 20; // ms
const kWarmUp = options.smoke ? 500 : 3000; // ms

function progress(text) {
  process.stderr.write(`\r${text.padEnd(60)}${text ? '' : '\r'}`);
}
const pick = (items) => items[Math.floor(Math.random() * items.length)];

// A connection to a process; replies have the order of the requests.
class Connection {
  static kReply =
    /\*12\r\n\$7\r\nsuccess\r\n:([01])\r\n[^*]*?remaining\r\n:(\d+)\r\n[^*]*?basis\r\n\$\d+\r\n\w+\r\n/gy;
  #pending = [];
  #text = '';

  constructor(region, { port, http, pids }) {
    Object.assign(this, { region, http, pids });
    this.socket = connect({ port, host: '127.0.0.1', noDelay: true }).setEncoding('latin1');
    this.socket.on('data', (text) => {
      this.#text += text;
      let parsed = 0;
      for (const [reply, success, remaining] of this.#text.matchAll(Connection.kReply)) {
        this.#pending.shift()({ success: success === '1', remaining: Number(remaining) });
        parsed += reply.length;
      }
      this.#text = this.#text.slice(parsed);
    });
  }
  #send(...words) {
    const parts = words.map((word) => `$${String(word).length}\r\n${word}\r\n`);
    this.socket.write(`*${words.length}\r\n${parts.join('')}`);
    return new Promise((done) => this.#pending.push(done));
  }
  limit(identifier, max, cost) {
    return this.#send('WEIR.LIMIT', 'api', identifier, max, kWindow, 'COST', cost);
  }
  peek(identifier, max) {
    return this.#send('WEIR.PEEK', 'api', identifier, max, kWindow);
  }
}

async function waitFor(description, condition) {
  const end = performance.now() + kTimeout;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`timeout while waiting for ${description}`);
    await sleep(kPollInterval);
  }
}

async function startRegion(servers, name, ledger, nodes = kNodes) {
  const redis = await servers.redis();
  const connections = [];
  for (let i = 0; i < nodes; ++i) {
    const origin = `redis://127.0.0.1:${redis.port}`;
    const args = ['--region', name, '--origin', origin, '--ledger', ledger.url];
    connections.push(new Connection(name, await servers.weir(binary, ...args)));
    Object.assign(connections.at(-1), { redis });
  }
  return connections;
}

async function startLedger(servers) {
  const ledger = await servers.mariadb();
  const migration = spawnSync(binary, ['migrate', '--ledger', ledger.url], { encoding: 'utf8' });
  if (migration.status !== 0) throw new Error(`weir migrate failed: ${migration.stderr}`);
  return ledger;
}

// Waits until all processes know all others and all rows.
async function waitForMembership(connections, regions = kRegions, nodes = kNodes) {
  const expected = [/^weir_origin_ready 1$/m, new RegExp(`^weir_nodes ${nodes}$`, 'm'),
    new RegExp(`^weir_regions ${regions.length}$`, 'm'), /^weir_bound_ratio [1-9]/m];
  for (const { http } of connections) {
    await waitFor('membership', async () => {
      const metrics = await (await fetch(`http://127.0.0.1:${http}/metrics`)).text();
      return expected.every((line) => line.test(metrics));
    });
  }
}

// Sends a request in one region; returns the delays to the others in seconds.
async function sample(connections, { identifier, max, cost, left }) {
  const from = pick(connections);
  const others = kRegions.filter((region) => region !== from.region);
  const watchers = others.map((region) => pick(connections.filter((each) => each.region === region)));
  const start = performance.now();
  const { success } = await from.limit(identifier, max, cost);
  if (!success) throw new Error(`${identifier} was denied`);
  return Promise.all(watchers.map(async (watcher) => {
    await waitFor(identifier, async () => (await watcher.peek(identifier, max)).remaining <= left);
    return Math.round(10 * (performance.now() - start)) / 10_000;
  }));
}

// Starts the samples at intervals, without waiting for earlier ones.
async function measure(name, connections, keys) {
  const samples = [];
  for (const [i, key] of keys.entries()) {
    progress(`${name} ${i + 1}/${keys.length}`);
    samples.push(sample(connections, key));
    await sleep(kKeyInterval * (0.5 + Math.random()));
  }
  const seconds = (await Promise.all(samples)).flat();
  progress('');
  return seconds;
}

const keysOf = (name, key) =>
  Array.from({ length: options.keys }, (_, i) => ({ identifier: `${name}-${i}`, ...key }));

function freshKeys() {
  return keysOf('fresh', { max: 4, cost: 1, left: 3 });
}

// Each region uses slightly more than it may leave unpublished, an eighth of the limit.
async function contendedKeys(connections) {
  const [max, each, cost] = [1000, 130, 300];
  const used = kRegions.length * each;
  const keys = keysOf('contended', { max, cost, left: max - used - cost });
  for (const { identifier } of keys) {
    for (const region of kRegions) {
      await pick(connections.filter((each) => each.region === region)).limit(identifier, max, each);
    }
  }
  for (const [i, { identifier }] of keys.entries()) {
    progress(`contended keys ${i + 1}/${keys.length}`);
    for (const connection of connections) {
      await waitFor(identifier, async () => (await connection.peek(identifier, max)).remaining === max - used);
    }
  }
  return keys;
}

// The sum of a counter's samples of all processes.
async function total(connections, name) {
  const pages = await Promise.all(
    connections.map(async ({ http }) => (await fetch(`http://127.0.0.1:${http}/metrics`)).text()));
  return pages.flatMap((page) => page.split('\n'))
    .filter((line) => new RegExp(`^${name}[{ ]`).test(line))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}

// New keys at a fixed rate, in all regions alike. The first unit of each must be published.
class RowLoad {
  #sent = 0;
  #ended = false;

  constructor(connections, rate) {
    Object.assign(this, { connections, rate });
  }
  async run() {
    const began = performance.now();
    while (!this.#ended) {
      const due = ((performance.now() - began) * this.rate) / 1000;
      for (; this.#sent < due; ++this.#sent) {
        void this.connections[this.#sent % this.connections.length].limit(`row-${this.#sent}`, 4, 1);
      }
      await sleep(kLoadTick);
    }
  }
  end() {
    this.#ended = true;
  }
}

// CPU cores that the servers use while the regions write rows.
async function measureRows() {
  const servers = new Servers('rows');
  const ledger = await startLedger(servers);
  const connections = [];
  for (const region of kLoadedRegions) {
    progress(`${region} of ${kLoadedRegions.length}`);
    connections.push(...(await startRegion(servers, region, ledger, 1)));
  }
  await waitForMembership(connections, kLoadedRegions, 1);
  const load = new RowLoad(connections, options.rows);
  const running = load.run();
  await sleep(kWarmUp);
  const read = async () => ({
    at: performance.now(),
    rows: await total(connections, 'weir_published_rows_total'),
    imported: await total(connections, 'weir_imported_rows_total'),
    mariadb: cpuTime(ledger.pids),
    redis: connections.map(({ redis }) => cpuTime(redis.pids)),
    weir: connections.map(({ pids }) => cpuTime(pids)),
  });
  const first = await read();
  for (let second = 0; second < options.seconds; ++second) {
    progress(`rows ${second + 1}/${options.seconds} s`);
    await sleep(1000);
  }
  const last = await read();
  const waiting = await total(connections, 'weir_publish_waiting');
  progress('');
  load.end();
  await running;
  for (const { socket } of connections) socket.destroy();
  servers.stop();
  const seconds = (last.at - first.at) / 1000;
  const cores = (name, i) => (i === undefined ? last[name] - first[name] : last[name][i] - first[name][i]) / 1000 / seconds;
  const each = (name) => connections.map((_, i) => cores(name, i));
  return {
    regions: kLoadedRegions.length,
    target: options.rows,
    seconds,
    written: (last.rows - first.rows) / seconds,
    read: (last.imported - first.imported) / seconds,
    waiting,
    cores: { mariadb: cores('mariadb'), redis: each('redis'), weir: each('weir') },
  };
}

// A row is one that any region writes: each Redis and each process gets all of them.
function printRows({ regions, target, seconds, written, read, waiting, cores }) {
  const mean = (values) => values.reduce((sum, each) => sum + each, 0) / values.length;
  console.log(`\n${regions} regions of one process write ${target} rows a second together, for ${seconds.toFixed(0)} s\n`);
  console.log(`  rows written ${written.toFixed(0)} a second, read ${read.toFixed(0)} a second; ${waiting} wait`);
  if (written < 0.95 * target) console.log('  The machine is too slow for that rate. Per row the figures are valid.');
  const columns = (name, values) => console.log(`  ${name.padEnd(28)}${values.map((value) => value.padStart(14)).join('')}`);
  columns('CPU cores', ['mean', 'max', 'µs per row']);
  const line = (name, values) => columns(name,
    [mean(values).toFixed(3), Math.max(...values).toFixed(3), ((mean(values) * 1e6) / written).toFixed(1)]);
  line('mariadbd', [cores.mariadb]);
  line('redis-server, each region', cores.redis);
  line('weir, each region', cores.weir);
}

function summaryOf(seconds) {
  const sorted = [...seconds].sort((a, b) => a - b);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)];
  return { samples: sorted.length, p50: at(0.5), p90: at(0.9), p99: at(0.99), max: sorted.at(-1) };
}

function print(figures) {
  console.log(`\nFrom an admission in one region to its effect in another (${kRegions.length} regions of ` +
    `${kNodes} processes, loopback)\n`);
  const head = ['samples', 'p50', 'p90', 'p99', 'max'];
  console.log(`  ${'keys'.padEnd(12)}${head.map((name) => name.padStart(10)).join('')}   met`);
  for (const [name, { summary }] of Object.entries(figures)) {
    const { samples, ...times } = summary;
    const cells = [`${samples}`, ...Object.values(times).map((time) => `${time.toFixed(3)} s`)];
    const met = summary.p50 <= kTargets.p50 && summary.p99 <= kTargets.p99;
    console.log(`  ${name.padEnd(12)}${cells.map((cell) => cell.padStart(10)).join('')}   ${met ? 'yes' : 'NO'}`);
  }
  console.log(`  ${'target'.padEnd(22)}${`≤ ${kTargets.p50} s`.padStart(10)}${`≤ ${kTargets.p99} s`.padStart(20)}`);
}

const machine = describeMachine([
  ['redis', 'redis-server', '--version'],
  ['mariadb', 'mariadbd', '--version'],
  ['weir', binary, '--version'],
]);
printMachine(machine);
const servers = new Servers('regions');
const ledger = await startLedger(servers);
const connections = [];
for (const region of kRegions) connections.push(...(await startRegion(servers, region, ledger)));
await waitForMembership(connections);

const figures = {};
for (const [name, keys] of [['fresh', freshKeys()], ['contended', await contendedKeys(connections)]]) {
  const seconds = await measure(name, connections, keys);
  figures[name] = { summary: summaryOf(seconds), seconds };
}
print(figures);
for (const { socket } of connections) socket.destroy();
servers.stop();
const rows = await measureRows();
printRows(rows);
writeResults(options.out, 'regions', { json: `${JSON.stringify({ machine, targets: kTargets, figures, rows })}\n` });
process.exit(0);
