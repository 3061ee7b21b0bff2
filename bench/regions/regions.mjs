// How soon one region hears of what another admitted.
//
// Three regions of two processes each, a redis-server in every region and one mariadbd for all, on
// loopback. A process of one region is asked once for a key; from then on one process of each other
// region is asked, again and again, what it knows of the key, by WEIR.PEEK, which consumes nothing.
// The time is that from sending the request to having the first answer that takes it into account.
//
//   fresh       Keys that nobody asked for before, with so small a limit that the first unit must
//               be told.
//   contended   Keys that all regions count on, and a request so large that the others must hear of
//               it: it is more than its region may keep to itself.

import { spawnSync } from 'node:child_process';
import { connect } from 'node:net';
import { join, resolve } from 'node:path';

import { readFlags } from '../flags.mjs';
import { describeMachine, keep, printMachine } from '../machine.mjs';
import { rest, Servers } from '../servers.mjs';

const usage = `regions: how soon a region hears of others

  ./dev bench regions [--quick] [--keys N] [--out DIR]

  --quick      few keys: to see whether it works
  --keys N     how many of each kind (default: 200)
  --out DIR    where <date>-<arch>-regions.json goes (default: build/bench/results)
`;

const flags = { quick: false, keys: undefined, out: 'build/bench/results', bin: 'build/bin' };
const { options } = readFlags(usage, flags);
options.keys = Number(options.keys ?? (options.quick ? 20 : 200));
const binary = join(resolve(options.bin), 'weir');

const kRegions = ['ap', 'eu', 'us'];
const kNodes = 2; // of a region
const kPoll = 5; // ms
const kBetween = 100; // ms from one key to the next, a half more or less, lest it keep step with anything
const kDay = 86_400_000; // ms
// A window that does not end while this runs, whenever it is started.
const kWindow = [30, 29, 28, 27].map((days) => days * kDay)
  .find((duration) => duration - (Date.now() % duration) > kDay);
const kPatience = 30_000; // ms
const kBars = { p50: 0.5, p99: 1 }; // s

function progress(text) {
  process.stderr.write(`\r${text.padEnd(60)}${text ? '' : '\r'}`);
}
const pick = (some) => some[Math.floor(Math.random() * some.length)];

// A connection to a process; answers come in the order of the questions.
class Line {
  static kAnswer =
    /\*12\r\n\$7\r\nsuccess\r\n:([01])\r\n[^*]*?remaining\r\n:(\d+)\r\n[^*]*?basis\r\n\$\d+\r\n\w+\r\n/gy;
  #open = [];
  #text = '';

  constructor(region, { port, http }) {
    Object.assign(this, { region, http });
    this.socket = connect({ port, host: '127.0.0.1', noDelay: true }).setEncoding('latin1');
    this.socket.on('data', (text) => {
      this.#text += text;
      let taken = 0;
      for (const [answer, success, remaining] of this.#text.matchAll(Line.kAnswer)) {
        this.#open.shift()({ success: success === '1', remaining: Number(remaining) });
        taken += answer.length;
      }
      this.#text = this.#text.slice(taken);
    });
  }
  #ask(...words) {
    const parts = words.map((word) => `$${String(word).length}\r\n${word}\r\n`);
    this.socket.write(`*${words.length}\r\n${parts.join('')}`);
    return new Promise((done) => this.#open.push(done));
  }
  limit(who, most, cost) {
    return this.#ask('WEIR.LIMIT', 'api', who, most, kWindow, 'COST', cost);
  }
  peek(who, most) {
    return this.#ask('WEIR.PEEK', 'api', who, most, kWindow);
  }
}

async function until(what, condition) {
  const end = performance.now() + kPatience;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`waited in vain for ${what}`);
    await rest(kPoll);
  }
}

async function startRegion(servers, name, ledger) {
  const redis = await servers.redis();
  const lines = [];
  for (let i = 0; i < kNodes; ++i) {
    const origin = `redis://127.0.0.1:${redis.port}`;
    const words = ['--region', name, '--origin', origin, '--ledger', ledger.url];
    lines.push(new Line(name, await servers.weir(binary, ...words)));
  }
  return lines;
}

// All processes know of all others.
async function acquainted(lines) {
  const wanted = [/^weir_origin_ready 1$/m, new RegExp(`^weir_nodes ${kNodes}$`, 'm'),
    new RegExp(`^weir_regions ${kRegions.length}$`, 'm'), /^weir_full_reads_total [1-9]/m];
  for (const { http } of lines) {
    await until('all to know of each other', async () => {
      const metrics = await (await fetch(`http://127.0.0.1:${http}/metrics`)).text();
      return wanted.every((line) => line.test(metrics));
    });
  }
}

// Asks for a key in one region; when the others know it, in seconds.
async function sample(lines, { who, most, cost, left }) {
  const from = pick(lines);
  const others = kRegions.filter((region) => region !== from.region);
  const watchers = others.map((region) => pick(lines.filter((line) => line.region === region)));
  const began = performance.now();
  const { success } = await from.limit(who, most, cost);
  if (!success) throw new Error(`${who} was refused`);
  return Promise.all(watchers.map(async (watcher) => {
    await until(who, async () => (await watcher.peek(who, most)).remaining <= left);
    return Math.round(10 * (performance.now() - began)) / 10_000;
  }));
}

// One after the other begins, whether or not those before are known.
async function measure(name, lines, keys) {
  const samples = [];
  for (const [i, key] of keys.entries()) {
    progress(`${name} ${i + 1}/${keys.length}`);
    samples.push(sample(lines, key));
    await rest(kBetween * (0.5 + Math.random()));
  }
  const seconds = (await Promise.all(samples)).flat();
  progress('');
  return seconds;
}

const keysOf = (name, key) =>
  Array.from({ length: options.keys }, (_, i) => ({ who: `${name}-${i}`, ...key }));

function freshKeys() {
  return keysOf('fresh', { most: 4, cost: 1, left: 3 });
}

// Every region counts a bit more than it may hide: an eighth of the limit.
async function contendedKeys(lines) {
  const [most, each, cost] = [1000, 130, 300];
  const used = kRegions.length * each;
  const keys = keysOf('contended', { most, cost, left: most - used - cost });
  for (const { who } of keys) {
    for (const region of kRegions) {
      await pick(lines.filter((line) => line.region === region)).limit(who, most, each);
    }
  }
  for (const [i, { who }] of keys.entries()) {
    progress(`contended keys ${i + 1}/${keys.length}`);
    for (const line of lines) {
      await until(who, async () => (await line.peek(who, most)).remaining === most - used);
    }
  }
  return keys;
}

function summaryOf(seconds) {
  const sorted = [...seconds].sort((a, b) => a - b);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)];
  return { samples: sorted.length, p50: at(0.5), p90: at(0.9), p99: at(0.99), max: sorted.at(-1) };
}

function print(figures) {
  console.log(`\nFrom an accept in one region to its effect in another (${kRegions.length} regions of ` +
    `${kNodes} processes, loopback)\n`);
  const head = ['samples', 'p50', 'p90', 'p99', 'max'];
  console.log(`  ${'keys'.padEnd(12)}${head.map((name) => name.padStart(10)).join('')}   met`);
  for (const [name, { summary }] of Object.entries(figures)) {
    const { samples, ...times } = summary;
    const cells = [`${samples}`, ...Object.values(times).map((time) => `${time.toFixed(3)} s`)];
    const met = summary.p50 <= kBars.p50 && summary.p99 <= kBars.p99;
    console.log(`  ${name.padEnd(12)}${cells.map((cell) => cell.padStart(10)).join('')}   ${met ? 'yes' : 'NO'}`);
  }
  console.log(`  ${'bar'.padEnd(22)}${`≤ ${kBars.p50} s`.padStart(10)}${`≤ ${kBars.p99} s`.padStart(20)}`);
}

const machine = describeMachine([
  ['redis', 'redis-server', '--version'],
  ['mariadb', 'mariadbd', '--version'],
  ['weir', binary, '--version'],
]);
printMachine(machine);
const servers = new Servers('regions');
const ledger = await servers.mariadb();
const made = spawnSync(binary, ['migrate', '--ledger', ledger.url], { encoding: 'utf8' });
if (made.status !== 0) throw new Error(`weir migrate failed: ${made.stderr}`);
const lines = [];
for (const region of kRegions) lines.push(...(await startRegion(servers, region, ledger)));
await acquainted(lines);

const figures = {};
for (const [name, keys] of [['fresh', freshKeys()], ['contended', await contendedKeys(lines)]]) {
  const seconds = await measure(name, lines, keys);
  figures[name] = { summary: summaryOf(seconds), seconds };
}
print(figures);
keep(options.out, 'regions', { json: `${JSON.stringify({ machine, bars: kBars, figures })}\n` });
process.exit(0);
