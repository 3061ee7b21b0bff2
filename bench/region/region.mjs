// What it costs to share a limit through Redis, in three figures.
//
//   commands    How many commands an embedded limiter sends to Redis per request it accepts,
//               from one accept per key and second to as many as the machine can do.
//   latency     How long a client waits for WEIR.LIMIT on warm keys when Redis is 50 ms away
//               (25 ms each way), beside a server that is alone.
//   throughput  What WEIR.LIMIT costs a server whose Redis is near, beside a server that is alone.
//
// Limits are so high that all is accepted. Servers have one thread for requests; what talks to
// Redis is another, and counts. Servers that are compared take turns, several times, so that a
// slow minute of the machine hits both; a ratio is one of medians, with the least and greatest
// of the ratios within rounds beside it. Everything is on loopback. For the latency, Redis and the
// way to it are kept on one core, as they would be on another machine; servers and clients run
// on any.

import { spawnSync } from 'node:child_process';
import { cpus } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { readFlags } from '../flags.mjs';
import { describeMachine, keep, median, printMachine, ratioOf } from '../machine.mjs';
import { redisBenchmark } from '../redis_benchmark.mjs';
import { Servers, rest } from '../servers.mjs';
import { drawCurve } from './curve.mjs';

const usage = `region: what it costs to share a limit through Redis

  ./dev bench region [--quick] [--only FIGURE] [--out DIR]

  --quick         few rates, one short round: to see whether it works
  --only FIGURE   commands, latency or throughput
  --out DIR       where <date>-<arch>-region.json and .svg go (default: build/bench/results)
`;

const flags = { quick: false, only: undefined, out: 'build/bench/results', bin: 'build/bin' };
const { options, complain } = readFlags(usage, flags);
const kFigures = ['commands', 'latency', 'throughput'];
if (options.only && !kFigures.includes(options.only)) complain(`--only cannot be ${options.only}`);
const wants = (figure) => !options.only || options.only === figure;
const binary = (name) => join(resolve(options.bin), name);
const rounds = options.quick ? 1 : 7;

const kKeys = 10_000;
const kAway = 25; // ms, each way
const kBars = { commands: { bar: 0.05, from: 200 }, p99: 1.2, cpu: 0.9 };

function progress(text) {
  process.stderr.write(`\r${text.padEnd(60)}${text ? '' : '\r'}`);
}

// Runs the program that measures; its one line.
function measured(args) {
  const words = [60, binary('weir_region_bench'), ...args];
  const run = spawnSync('timeout', words.map(String), { encoding: 'utf8' });
  if (run.status !== 0) throw new Error(`weir_region_bench ${args.join(' ')} failed: ${run.stderr}`);
  return JSON.parse(run.stdout);
}

const kFarCore = 1;

class Region extends Servers {
  // Where there are two cores, those of a far place share one.
  spawn(command, args, options) {
    if (!this.isFar || cpus().length < 2) return super.spawn(command, args, options);
    return super.spawn('taskset', ['-c', kFarCore, command, ...args], options);
  }

  // The port of a Redis so many ms away, each way.
  async redisAway(ms) {
    this.isFar = true;
    try {
      return await this.far(await this.redis(), ms);
    } finally {
      this.isFar = false;
    }
  }
  async far(redis, ms) {
    const script = join(dirname(fileURLToPath(import.meta.url)), 'far.mjs');
    const child = this.spawn(process.execPath, [script, redis.port, ms], { stdio: ['pipe', 'pipe', 'ignore'] });
    return new Promise((done) => child.stdout.once('data', (text) => done(Number(text))));
  }

  // A server that shares its counts through the Redis on this port, once it does.
  async sharing(port) {
    const server = await this.weir(binary('weir'), '--origin', `redis://127.0.0.1:${port}`);
    for (let i = 0; i < 100; ++i) {
      const metrics = await (await fetch(`http://127.0.0.1:${server.http}/metrics`)).text();
      if (/^weir_origin_ready 1$/m.test(metrics)) return server;
      await rest(50);
    }
    throw new Error('the server does not find its origin');
  }
}

// --- commands ---

const reached = (run) => run.accepted / run.seconds;

// As wanted, or with as many keys as the machine can hold at this rate.
function commandsAt(redis, rate, seconds) {
  const measure = (keys) => {
    spawnSync('redis-cli', ['-p', String(redis.port), 'FLUSHALL']);
    return measured(['commands', '--port', redis.port, '--process', redis.pids[0], '--keys', keys,
      '--rate', rate, '--seconds', seconds]);
  };
  const run = measure(kKeys);
  const share = rate === 0 ? 1 : reached(run) / (rate * kKeys);
  return share > 0.97 ? run : measure(Math.max(1, Math.floor(share * kKeys / 125)) * 100);
}

async function measureCommands(servers) {
  const redis = await servers.redis();
  const rates = options.quick ? [1, 20, 200] : [1, 2, 5, 10, 20, 50, 100, 200, 0];
  const seconds = options.quick ? 1 : 5;
  const points = rates.map((wanted, i) => {
    progress(`commands ${i + 1}/${rates.length}: ${wanted || 'all'} accepts per key and second`);
    const run = commandsAt(redis, wanted, seconds);
    const each = (count) => count / run.seconds;
    return {
      wanted,
      keys: run.keys,
      accepts: reached(run) / run.keys,
      rate: reached(run),
      told: each((run.kinds.write ?? run.kinds.tell)),
      read: each(run.kinds.read),
      other: each(run.commands - (run.kinds.write ?? run.kinds.tell) - run.kinds.read),
      commands: run.commands / run.accepted,
      busy: each(run.redis_seconds),
      degraded: run.degraded / run.accepted,
      run,
    };
  });
  progress('');
  return points;
}

function printCommands(points) {
  const { bar, from } = kBars.commands;
  console.log('\nCommands to Redis per accepted request (one embedded limiter, windows of 60 s)\n');
  console.log('  accepts per     keys   accepts     HSET  HGETALL   other  commands    Redis  bar       met');
  console.log('  key and second         per s      per s    per s   per s  per accept   busy');
  for (const point of points) {
    // A rate that was held counts as held.
    const judged = point.accepts >= 0.97 * from;
    const met = judged ? (point.commands <= bar ? 'yes' : 'NO') : '';
    console.log([
      `  ${point.accepts.toFixed(point.accepts < 9.95 ? 1 : 0).padStart(8)} ${point.wanted ? '    ' : 'most'}`,
      `${point.keys}`.padStart(8), `${Math.round(point.rate)}`.padStart(9),
      `${Math.round(point.told)}`.padStart(8), `${Math.round(point.read)}`.padStart(8),
      `${Math.round(point.other)}`.padStart(7), point.commands.toFixed(3).padStart(11),
      `${(100 * point.busy).toFixed(0)} %`.padStart(7), ` ${judged ? `≤ ${bar}` : ''}`.padEnd(9), met,
    ].join(' ').trimEnd());
    if (point.degraded > 0) {
      console.log(`      of them decided without Redis: ${(100 * point.degraded).toFixed(2)} %`);
    }
  }
}

// --- two servers that take turns ---

function takeTurns(name, contestants) {
  const results = Object.fromEntries(Object.keys(contestants).map((who) => [who, []]));
  for (let round = 0; round < rounds; ++round) {
    const order = Object.keys(contestants);
    if (round % 2) order.reverse();
    for (const who of order) {
      progress(`${name} ${round + 1}/${rounds}: ${who}`);
      results[who].push(contestants[who]());
    }
  }
  progress('');
  return results;
}

async function measureLatency(servers) {
  const seconds = options.quick ? 1 : 3;
  const port = await servers.redisAway(kAway);
  const ask = (server) => () => measured(['latency', '--port', server.port, '--seconds', seconds]);
  return takeTurns('latency', {
    shared: ask(await servers.sharing(port)),
    alone: ask(await servers.weir(binary('weir'), '--origin', 'memory')),
  });
}

async function measureThroughput(servers) {
  const redis = await servers.redis();
  const command = ['WEIR.LIMIT', 'api', 'key:__rand_int__', '1000000000', '60000'];
  const requests = options.quick ? 100_000 : 1_500_000;
  const load = (server) => () => redisBenchmark(server, { pipeline: 16, requests, keys: 1000, command });
  const contestants = {
    shared: load(await servers.sharing(redis.port)),
    alone: load(await servers.weir(binary('weir'), '--origin', 'memory')),
  };
  for (const [who, run] of Object.entries(contestants)) { // every key is there before it counts
    progress(`throughput: ${who}, warming`);
    run();
  }
  return takeTurns('throughput', contestants);
}

// `wanted` is a bar and its direction, if there is one; `ratio` says which over which.
function printRow(label, { mine, theirs, unit, digits, ratio, wanted }) {
  const shown = (values) => `${median(values).toFixed(digits)} ${unit}`.padStart(12);
  const [direction, bar] = wanted ?? [];
  const holds = direction === '≥' ? ratio.middle >= bar : ratio.middle <= bar;
  const verdict = wanted ? `${direction} ${bar}x`.padEnd(9) + (holds ? 'yes' : 'NO') : '';
  const figures = `${shown(mine)} ${shown(theirs)}   ${ratio.text.padEnd(22)} ${verdict}`;
  console.log(`  ${label.padEnd(48)} ${figures}`.trimEnd());
}

function printPair(title, what) {
  console.log(`\n${title}\n`);
  console.log(`  ${''.padEnd(48)} ${'shared'.padStart(12)} ${'alone'.padStart(12)}   ${what.padEnd(22)} bar      met`);
}

function printLatency(results) {
  printPair('Latency of WEIR.LIMIT, Redis 50 ms away (25 ms each way); 200 warm keys, 2,000/s on 4 connections',
    'shared over alone');
  const of = (who, name) => results[who].map((run) => run[name]);
  for (const name of ['p50', 'p99', 'p999']) {
    const [mine, theirs] = [of('shared', name), of('alone', name)];
    printRow(name === 'p999' ? 'p99.9' : name, {
      mine, theirs, unit: 'ms', digits: 3, ratio: ratioOf(mine, theirs),
      wanted: name === 'p99' ? ['≤', kBars.p99] : undefined,
    });
  }
  const sum = (name) => of('shared', name).reduce((a, b) => a + b, 0);
  console.log(`  answers that waited for Redis: ${sum('waited')} of ${sum('answers')}`);
}

function printThroughput(results) {
  printPair('Throughput of WEIR.LIMIT, Redis near; redis-benchmark, 50 connections, pipeline 16, 1,000 keys',
    'ratio');
  const of = (who, name) => results[who].map((run) => run[name]);
  const row = (label, name, unit, digits, scale, ratio, wanted) =>
    printRow(label, {
      mine: of('shared', name).map((value) => value * scale),
      theirs: of('alone', name).map((value) => value * scale),
      unit, digits, ratio, wanted,
    });
  row('processor time per request (alone over shared)', 'cpu', 'ns', 0, 1,
    ratioOf(of('alone', 'cpu'), of('shared', 'cpu')), ['≥', kBars.cpu]);
  row('rate (shared over alone)', 'rate', 'k/s', 1, 1e-3, ratioOf(of('shared', 'rate'), of('alone', 'rate')));
}

const servers = new Region('region');
try {
  const machine = describeMachine([['redis', 'redis-server', '--version']]);
  printMachine(machine);
  if (!options.quick) console.log(`\n${rounds} rounds, interleaved.`);
  const kept = { machine, rounds, quick: options.quick };
  const pictures = {};
  if (wants('commands')) {
    kept.commands = await measureCommands(servers);
    printCommands(kept.commands);
    pictures.svg = drawCurve(kept.commands, { ...kBars.commands, machine });
  }
  if (wants('latency')) printLatency(kept.latency = await measureLatency(servers));
  if (wants('throughput')) printThroughput(kept.throughput = await measureThroughput(servers));
  console.log();
  keep(options.out, 'region', { json: `${JSON.stringify(kept, null, 1)}\n`, ...pictures });
} finally {
  servers.stop();
}
