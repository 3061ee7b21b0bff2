// Measures the cost of sharing a limit through Redis.
//
//   commands    The commands that an embedded limiter sends to Redis per admission, from one admission
//               per key and second up to the maximum rate of the machine.
//   latency     The latency of WEIR.LIMIT on warm keys with a round trip of 50 ms to Redis, compared with
//               a server without Redis.
//   throughput  The CPU time and rate of WEIR.LIMIT with a local Redis, compared with a server without
//               Redis.
//   exact       Exact decisions on one key by 64 callers, of the library and of a server, compared with the
//               same algorithm as a Lua script that every request calls.
//
// Limits are high enough that everything is admitted. Measurements begin when the allowances of a process
// do: see docs/origin.md. A server has one thread for requests; the CPU time
// includes its thread for Redis. Compared servers alternate for several rounds, so that a slow minute of
// the machine affects both. A ratio is a ratio of medians, with the range of the ratios within rounds.
// Everything is on loopback. For the latency, Redis and its proxy share one core, as if they were on
// another machine; servers and clients run on all cores.

import { spawnSync } from 'node:child_process';
import { cpus } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { chart, linePanel } from '../chart.mjs';
import { readFlags } from '../flags.mjs';
import { luaLimits } from '../lua_limits.mjs';
import { describeMachine, median, printMachine, ratioOf, writeResults } from '../machine.mjs';
import { redisBenchmark } from '../redis_benchmark.mjs';
import { cpuTime, Servers, sleep } from '../servers.mjs';

const usage = `region: measure the cost of sharing a limit through Redis

  ./dev bench region [--quick | --smoke] [--only FIGURE] [--out DIR]

  --quick         few rates and one short round
  --smoke         run everything for an instant: checks that the benchmark works, measures nothing
  --only FIGURE   run one measurement: commands, latency, throughput or exact
  --out DIR       directory for <date>-<arch>-region.json and .svg (default: build/bench/results)
`;

const flags = { quick: false, smoke: false, only: undefined, out: 'build/bench/results', bin: 'build/bin' };
const { options, fail } = readFlags(usage, flags);
const kFigures = ['commands', 'latency', 'throughput', 'exact'];
if (options.only && !kFigures.includes(options.only)) fail(`--only cannot be ${options.only}`);
const wants = (figure) => !options.only || options.only === figure;
const binary = (name) => join(resolve(options.bin), name);
const rounds = options.quick ? 1 : 7;

const kKeys = options.smoke ? 100 : 10_000;
const kDelay = 25; // ms, each way
const kJoined = options.smoke ? 0 : 7_000; // ms; a server that has just joined asks Redis about every request
const kTargets = { commands: { target: 0.05, from: 200 }, p99: 1.2, cpu: 0.9, exact: 1.3 };

function progress(text) {
  process.stderr.write(`\r${text.padEnd(60)}${text ? '' : '\r'}`);
}

// Runs weir_region_bench and parses its line of JSON.
function measure(args) {
  const command = [60, binary('weir_region_bench'), ...args];
  const run = spawnSync('timeout', command.map(String), { encoding: 'utf8' });
  if (run.status !== 0) throw new Error(`weir_region_bench ${args.join(' ')} failed: ${run.stderr}`);
  return JSON.parse(run.stdout);
}

const kRemoteCore = 1;

class Region extends Servers {
  // With at least two cores, remote processes share one core.
  spawn(command, args, options) {
    if (!this.isRemote || cpus().length < 2) return super.spawn(command, args, options);
    return super.spawn('taskset', ['-c', kRemoteCore, command, ...args], options);
  }

  // The port of a Redis with a delay of `ms` each way.
  async remoteRedis(ms) {
    this.isRemote = true;
    try {
      return await this.delayed(await this.redis(), ms);
    } finally {
      this.isRemote = false;
    }
  }
  async delayed(redis, ms) {
    const script = join(dirname(fileURLToPath(import.meta.url)), 'delay_proxy.mjs');
    const child = this.spawn(process.execPath, [script, redis.port, ms], { stdio: ['pipe', 'pipe', 'ignore'] });
    return new Promise((done) => child.stdout.once('data', (text) => done(Number(text))));
  }

  // A server that shares its counts through the Redis on this port; waits until it is connected. Its
  // requests wait for Redis also while the machine is busy with other work.
  async sharedServer(port) {
    const origin = `redis://127.0.0.1:${port}`;
    const server = await this.weir(binary('weir'), '--origin', origin, '--read-deadline', '10s');
    for (let i = 0; i < 1000; ++i) {
      if (await this.metric(server, /^weir_origin_ready (1)$/gm) === 1) {
        await sleep(kJoined);
        return server;
      }
      await sleep(50);
    }
    throw new Error('the server does not connect to its origin');
  }

  // The sum of all samples of a server that match; their value is the first group.
  async metric(server, pattern) {
    const metrics = await (await fetch(`http://127.0.0.1:${server.http}/metrics`)).text();
    return [...metrics.matchAll(pattern)].reduce((sum, [, value]) => sum + Number(value), 0);
  }
}

// --- commands ---

const admissionRate = (run) => run.admitted / run.seconds;

// With fewer keys if the machine cannot sustain the rate for all of them.
function commandsAt(redis, rate, seconds) {
  const measureKeys = (keys) => {
    spawnSync('redis-cli', ['-p', String(redis.port), 'FLUSHALL']);
    return measure(['commands', '--port', redis.port, '--process', redis.pids[0], '--keys', keys,
      '--rate', rate, '--seconds', seconds, ...(options.smoke ? ['--smoke'] : [])]);
  };
  const run = measureKeys(kKeys);
  const share = rate === 0 ? 1 : admissionRate(run) / (rate * kKeys);
  return share > 0.97 ? run : measureKeys(Math.max(1, Math.floor(share * kKeys / 125)) * 100);
}

async function measureCommands(servers) {
  const redis = await servers.redis();
  const rates = options.smoke ? [20, 200] : options.quick ? [1, 20, 200] : [1, 2, 5, 10, 20, 50, 100, 200, 0];
  const seconds = options.smoke ? 0.5 : options.quick ? 1 : 5;
  const points = rates.map((requested, i) => {
    progress(`commands ${i + 1}/${rates.length}: ${requested || 'max'} admissions per key and second`);
    const run = commandsAt(redis, requested, seconds);
    const each = (count) => count / run.seconds;
    return {
      requested,
      keys: run.keys,
      admissions: admissionRate(run) / run.keys,
      rate: admissionRate(run),
      hset: each(run.hset),
      hgetall: each(run.hgetall),
      other: each(run.commands - run.hset - run.hgetall),
      commands: run.commands / run.admitted,
      busy: each(run.redis_seconds),
      degraded: run.degraded / run.admitted,
      run,
    };
  });
  progress('');
  return points;
}

function printCommands(points) {
  const { target, from } = kTargets.commands;
  console.log('\nCommands to Redis per admission (one embedded limiter, windows of 60 s)\n');
  console.log('  admissions        keys  admitted     HSET  HGETALL   other    commands   Redis  target   met');
  console.log('  per key & s                per s    per s    per s   per s / admission    busy');
  for (const point of points) {
    // Within 3 % of the requested rate counts as reached.
    const hasTarget = point.admissions >= 0.97 * from;
    const met = hasTarget ? (point.commands <= target ? 'yes' : 'NO') : '';
    console.log([
      `  ${point.admissions.toFixed(point.admissions < 9.95 ? 1 : 0).padStart(8)} ${point.requested ? '    ' : 'max '}`,
      `${point.keys}`.padStart(8), `${Math.round(point.rate)}`.padStart(9),
      `${Math.round(point.hset)}`.padStart(8), `${Math.round(point.hgetall)}`.padStart(8),
      `${Math.round(point.other)}`.padStart(7), point.commands.toFixed(3).padStart(11),
      `${(100 * point.busy).toFixed(0)} %`.padStart(7), ` ${hasTarget ? `≤ ${target}` : ''}`.padEnd(9), met,
    ].join(' ').trimEnd());
    if (point.degraded > 0) {
      console.log(`      of these decided without Redis: ${(100 * point.degraded).toFixed(2)} %`);
    }
  }
}

function commandsChart(points, { processor, cores, date }) {
  const { target, from } = kTargets.commands;
  return chart({
    width: 860, height: 500, title: 'Commands to Redis per admission (lower is better)', series: ['weir'],
    note: `${processor}, ${cores} cores, ${date}. Both axes are logarithmic.`,
    panels: [linePanel({ x: 60, y: 95, width: 770, height: 325, title: '', below: 'admissions per key and second', labels: true,
      lines: [points.map(({ admissions, commands }) => [admissions, commands])],
      bound: { value: target, name: `target: ≤ ${target}`, from } })] });
}

// --- two servers that alternate ---

async function alternate(name, measurements) {
  const results = Object.fromEntries(Object.keys(measurements).map((server) => [server, []]));
  for (let round = 0; round < rounds; ++round) {
    const order = Object.keys(measurements);
    if (round % 2) order.reverse();
    for (const server of order) {
      progress(`${name} ${round + 1}/${rounds}: ${server}`);
      results[server].push(await measurements[server]());
    }
  }
  progress('');
  return results;
}

async function measureLatency(servers) {
  const seconds = options.smoke ? 0.1 : options.quick ? 1 : 3;
  const port = await servers.remoteRedis(kDelay);
  const latencyOf = (server) => () => measure(['latency', '--port', server.port, '--seconds', seconds,
    ...(options.smoke ? ['--warm-seconds', 0.1] : [])]);
  return alternate('latency', {
    shared: latencyOf(await servers.sharedServer(port)),
    alone: latencyOf(await servers.weir(binary('weir'), '--origin', 'memory')),
  });
}

async function measureThroughput(servers) {
  const redis = await servers.redis();
  const command = ['WEIR.LIMIT', 'api', 'key:__rand_int__', '1000000000', '60000'];
  const requests = options.smoke ? 20_000 : options.quick ? 100_000 : 1_500_000;
  const load = (server) => () => redisBenchmark(server, { pipeline: 16, requests, keys: 1000, command });
  const measurements = {
    shared: load(await servers.sharedServer(redis.port)),
    alone: load(await servers.weir(binary('weir'), '--origin', 'memory')),
  };
  for (const [server, run] of Object.entries(measurements)) { // creates all keys
    progress(`throughput: ${server}, warm-up`);
    run();
  }
  return alternate('throughput', measurements);
}

// `target`: [direction, ratio], if there is one.
function printRow(label, { shared, alone, unit, digits, ratio, target }) {
  const shown = (values) => `${median(values).toFixed(digits)} ${unit}`.padStart(12);
  const [direction, limit] = target ?? [];
  const holds = direction === '≥' ? ratio.ofMedians >= limit : ratio.ofMedians <= limit;
  const verdict = target ? `${direction} ${limit}x`.padEnd(9) + (holds ? 'yes' : 'NO') : '';
  const figures = `${shown(shared)} ${shown(alone)}   ${ratio.text.padEnd(22)} ${verdict}`;
  console.log(`  ${label.padEnd(48)} ${figures}`.trimEnd());
}

function printHead(title, ratio) {
  console.log(`\n${title}\n`);
  console.log(`  ${''.padEnd(48)} ${'shared'.padStart(12)} ${'alone'.padStart(12)}   ${ratio.padEnd(22)} target   met`);
}

function printLatency(results) {
  printHead('Latency of WEIR.LIMIT, round trip to Redis 50 ms; 200 warm keys, 2,000/s on 4 connections',
    'shared ÷ alone');
  const valuesOf = (server, name) => results[server].map((run) => run[name]);
  for (const name of ['p50', 'p99', 'p999']) {
    const [shared, alone] = [valuesOf('shared', name), valuesOf('alone', name)];
    printRow(name === 'p999' ? 'p99.9' : name, {
      shared, alone, unit: 'ms', digits: 3, ratio: ratioOf(shared, alone),
      target: name === 'p99' ? ['≤', kTargets.p99] : undefined,
    });
  }
  const sum = (name) => valuesOf('shared', name).reduce((a, b) => a + b, 0);
  console.log(`  replies that waited for Redis: ${sum('waited')} of ${sum('answers')}`);
}

function printThroughput(results) {
  printHead('Throughput of WEIR.LIMIT, local Redis; redis-benchmark, 50 connections, pipeline 16, 1,000 keys',
    'ratio');
  const valuesOf = (server, name) => results[server].map((run) => run[name]);
  const row = (label, name, unit, digits, scale, ratio, target) =>
    printRow(label, {
      shared: valuesOf('shared', name).map((value) => value * scale),
      alone: valuesOf('alone', name).map((value) => value * scale),
      unit, digits, ratio, target,
    });
  row('CPU time per request (alone ÷ shared)', 'cpu', 'ns', 0, 1,
    ratioOf(valuesOf('alone', 'cpu'), valuesOf('shared', 'cpu')), ['≥', kTargets.cpu]);
  row('rate (shared ÷ alone)', 'rate', 'k/s', 1, 1e-3, ratioOf(valuesOf('shared', 'rate'), valuesOf('alone', 'rate')));
}

// --- exact ---

// Adds the CPU time of redis-server in ns per admission to the result of a run; everything is admitted.
async function withRedisCpu(redis, requests, run) {
  const before = cpuTime(redis.pids);
  const result = await run();
  return { ...result, redisCpu: (cpuTime(redis.pids) - before) * 1e6 / requests };
}

async function measureExact(servers) {
  const redis = await servers.redis();
  const weir = await servers.sharedServer(redis.port);
  const load = (requests, command) => ({ clients: 64, pipeline: 1, requests, keys: 1, command });
  const results = {};
  for (const [algorithm, script] of Object.entries(luaLimits)) {
    // A log keeps every admission, 10,000 at most.
    const isLog = algorithm === 'sliding_log';
    const requests = options.smoke ? 2_000 : isLog ? 8_000 : options.quick ? 10_000 : 200_000;
    const [limit, duration] = [isLog ? 10_000 : 10_000_000, 60_000];
    const loaded = spawnSync('redis-cli', ['-p', String(redis.port), 'SCRIPT', 'LOAD', script], { encoding: 'utf8' });
    let keys = 0;
    const admitted = () => servers.metric(weir, /^weir_decisions_total{.*outcome="admitted".*} (\d+)$/gm);
    const command = (key, consistency) =>
      ['WEIR.LIMIT', algorithm, key, limit, duration, 'ALGORITHM', algorithm, 'CONSISTENCY', consistency];
    const counted = (run) => async () => {
      const before = await admitted();
      const result = await withRedisCpu(redis, requests, run);
      if (await admitted() - before < requests) throw new Error(`${algorithm}: a request was denied`);
      return result;
    };
    results[algorithm] = await alternate(algorithm, {
      script: () => withRedisCpu(redis, requests, () => redisBenchmark(redis,
        load(requests, ['EVALSHA', loaded.stdout.trim(), 1, `lua:${algorithm}:${++keys}`, limit, duration, 1]))),
      embedded: () => withRedisCpu(redis, requests, () => measure(['exact', '--port', redis.port, '--key', `hot-${++keys}`,
        '--algorithm', algorithm, '--limit', limit, '--requests', requests])),
      server: counted(() => redisBenchmark(weir, load(requests, command(`hot-${++keys}`, 'exact')))),
      relaxed: counted(() => redisBenchmark(weir, load(requests, command(`hot-${++keys}`, 'relaxed')))),
    });
  }
  return results;
}

function printExact(results) {
  console.log('\nExact decisions on one key by 64 callers, each waits for its answer; local Redis');
  console.log('  script:   redis-benchmark, 64 connections, each request calls a Lua script');
  console.log('  embedded: 64 callers of the library in one process, consistency exact');
  console.log('  server:   redis-benchmark, 64 connections, WEIR.LIMIT ... CONSISTENCY exact');
  console.log('  floor:    the same, CONSISTENCY relaxed: the server without calls to Redis\n');
  console.log(`${''.padEnd(24)}${'requests per s'.padStart(38)}${'embedded ÷ script'.padStart(24)}` +
    `${'server ÷ script'.padStart(22)}${'Redis CPU per admission'.padStart(34)}`);
  console.log(`  ${'algorithm'.padEnd(22)}${['script', 'embedded', 'server', 'floor'].map((name) => name.padStart(10)).join('')}` +
    `   (target ≥ ${kTargets.exact}x)   met ${''.padEnd(20)}${['script', 'embedded', 'server'].map((name) => name.padStart(12)).join('')}`);
  for (const [algorithm, runs] of Object.entries(results)) {
    const values = (side, name) => runs[side].map((run) => run[name]);
    const rates = ['script', 'embedded', 'server', 'relaxed'].map((side) =>
      `${(median(values(side, 'rate')) / 1e3).toFixed(1)} k`.padStart(10));
    const cpu = ['script', 'embedded', 'server'].map((side) =>
      `${(median(values(side, 'redisCpu')) / 1e3).toFixed(2)} us`.padStart(12));
    const [embedded, server] = ['embedded', 'server'].map((side) => ratioOf(values(side, 'rate'), values('script', 'rate')));
    console.log(`  ${algorithm.padEnd(22)}${rates.join('')}   ${embedded.text.padEnd(18)}` +
      `${(embedded.ofMedians >= kTargets.exact ? 'yes' : 'NO').padEnd(5)} ${server.text.padEnd(18)}${cpu.join('')}`);
  }
}

const servers = new Region('region');
try {
  const machine = describeMachine([['redis', 'redis-server', '--version']]);
  printMachine(machine);
  if (!options.quick) console.log(`\n${rounds} rounds, interleaved.`);
  const results = { machine, rounds, quick: options.quick };
  const files = {};
  if (wants('commands')) {
    results.commands = await measureCommands(servers);
    printCommands(results.commands);
    files.svg = commandsChart(results.commands, machine);
  }
  if (wants('latency')) printLatency(results.latency = await measureLatency(servers));
  if (wants('throughput')) printThroughput(results.throughput = await measureThroughput(servers));
  if (wants('exact')) printExact(results.exact = await measureExact(servers));
  console.log();
  writeResults(options.out, 'region', { json: `${JSON.stringify(results, null, 1)}\n`, ...files });
} finally {
  servers.stop();
}
