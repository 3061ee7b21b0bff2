// Compares nine rate limiters on one Redis with the same keys.
//
// A node is a process with 64 callers (weir_zoo). Callers of limiters 1 and 3 to 7 share one connection and
// pipeline; WATCH belongs to a connection, so limiter 2 has one per caller. All use Weir's connection code.
// Everything is on loopback and uses the same clock.
//
//   rate      Each caller asks again when it has its answer. The limit is so high that all are admitted.
//   accuracy  Groups of 64 requests per node at once, at a fixed rate that is about twice the limit. The
//             nodes send their groups at the same times, and begin in the middle of a window.
//
// Limiters alternate for several rounds, so that a slow minute of the machine affects all of them. Each
// figure is the median of the rounds; some have their range in brackets.

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';

import { barPanel, chart } from '../chart.mjs';
import { readFlags } from '../flags.mjs';
import { luaLimits, tokenBucketOfClient } from '../lua_limits.mjs';
import { describeMachine, median, printMachine, writeResults } from '../machine.mjs';
import { cpuTime, Servers, sleep } from '../servers.mjs';
import { compareWithExact, rules } from './reference.mjs';

const kLimiters = [
  { name: 'naive', rule: 'fixed_window', clock: 'client', what: 'GET, then SET: two round trips' },
  { name: 'watch', rule: 'fixed_window', clock: 'client',
    what: 'the same with WATCH, MULTI and EXEC; an error after 10 attempts' },
  { name: 'fixed_window', rule: 'fixed_window', clock: 'client',
    what: 'INCR, and PEXPIRE by the first request of a window' },
  { name: 'bucket-client', rule: 'gcra', clock: 'client', what: 'Lua token bucket, time of the client',
    script: tokenBucketOfClient, args: ['--client-time'] },
  { name: 'bucket-server', rule: 'gcra', what: 'Lua token bucket, time of Redis', script: luaLimits.token_bucket },
  { name: 'gcra', rule: 'gcra', what: 'Lua GCRA', script: luaLimits.gcra },
  { name: 'sliding', rule: 'sliding_window', what: 'Lua sliding window', script: luaLimits.sliding_window },
  { name: 'weir-exact', rule: 'gcra', what: 'Weir: gcra, consistency exact' },
  { name: 'weir-converge', rule: 'gcra', what: 'Weir: gcra, consistency converge', joins: true },
];

const usage = `zoo: compare nine rate limiters on one Redis

  ./dev bench zoo [--quick | --smoke] [--only LIMITER] [--rounds N] [--cluster] [--out DIR]

  --quick         one short round
  --smoke         run everything for an instant: checks that the benchmark works, measures nothing
  --only LIMITER  run one limiter: ${kLimiters.map(({ name }) => name).join(', ')}
  --rounds N      repetitions (default: 5)
  --cluster       redis-server as a cluster of one node, which rejects commands on several slots
  --out DIR       directory for <date>-<arch>-zoo.json and .svg (default: build/bench/results)
`;

const flags = { quick: false, smoke: false, only: undefined, rounds: undefined, cluster: false, out: 'build/bench/results',
  bin: 'build/bin' };
const { options, fail } = readFlags(usage, flags);
const limiters = kLimiters.filter(({ name }) => !options.only || options.only === name);
if (limiters.length === 0) fail(`--only cannot be ${options.only}`);
const rounds = Number(options.rounds ?? (options.quick ? 1 : 5));
if (!Number.isInteger(rounds) || rounds < 1 || rounds > 100) fail('--rounds must be a number from 1 to 100');

const kNodes = [1, 3];
const kCallers = 64;
const kJoined = options.smoke ? 0 : 7_000; // ms; a process that has just joined has no allowance
// `limit` and `rate` are of the accuracy: the demand of all nodes together, in requests per second. Of the
// keys of users, with a Zipf distribution, a limit of 40 admits about half of that demand.
const kShapes = {
  hot: { title: 'one hot key', keys: 1, limit: 1_000, rate: 2_000 },
  users: { title: '1,000 users', keys: 1_000, limit: 40, rate: 20_000 },
};
const kDuration = options.smoke ? 100 : 1_000; // ms
const kUnlimited = { limit: 10_000_000, duration: 60_000 };
const seconds = options.smoke ? { warm: 0.01, rate: 0.02, accuracy: 0.2 } : options.quick ? { warm: 0.1, rate: 0.3, accuracy: 1.5 } : { warm: 0.3, rate: 1, accuracy: 3 };
const kSamples = 20; // keys whose size is read

function progress(text) {
  process.stderr.write(`\r${text.padEnd(60)}${text ? '' : '\r'}`);
}

// --- Redis ---

class Zoo extends Servers {
  async clusterRedis() {
    const redis = await this.redis('--cluster-enabled', 'yes');
    redisCli(redis, 'CLUSTER', 'ADDSLOTSRANGE', 0, 16383);
    for (let i = 0; i < 100; ++i) {
      if (redisCli(redis, 'CLUSTER', 'INFO').includes('cluster_state:ok')) return redis;
      await sleep(50);
    }
    throw new Error('the cluster does not become ready');
  }

  // A process with one limiter. `run` sends a line to it and returns its answer.
  async node(redis, { name, script, args = [] }) {
    const limiter = script ? ['script', '--script', script] : [name];
    const child = this.spawn(join(resolve(options.bin), 'weir_zoo'),
      ['--port', redis.port, '--callers', kCallers, '--limiter', ...limiter, ...args],
      { stdio: ['pipe', 'pipe', 'inherit'] });
    const ended = new Promise((done) => child.once('exit', done));
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const next = async () => {
      const { value, done } = await lines.next();
      if (done) throw new Error(`weir_zoo --limiter ${name} ended: ${await ended}`);
      return value;
    };
    await next(); // "ready"
    return {
      run: (line) => {
        child.stdin.write(`${line}\n`);
        return next();
      },
      stop: () => {
        child.stdin.end();
        return ended;
      },
    };
  }
}

// Without arguments it runs the commands of `input`, one per line.
function redisCliOn(redis, input, ...args) {
  const run = spawnSync('redis-cli', ['-p', redis.port, ...args].map(String), { encoding: 'utf8', input });
  if (run.status !== 0) throw new Error(`redis-cli ${args.join(' ')} failed: ${run.stderr}${run.stdout}`);
  return run.stdout;
}
const redisCli = (redis, ...args) => redisCliOn(redis, '', ...args);

// The calls of each command, except those of this script. Commands in scripts count, too.
function commandCalls(redis) {
  const stats = redisCli(redis, 'INFO', 'commandstats');
  const calls = [...stats.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)].map(([, name, count]) => [name, Number(count)]);
  return Object.fromEntries(calls.filter(([name]) => name !== 'info'));
}

const tagOf = (key) => /\{([^}]*)\}/.exec(key)?.[1];
const allKeys = (redis) => redisCli(redis, '--scan').split('\n').filter((key) => tagOf(key) !== undefined);

// The sizes of some tuples whose hash tags are not in `known`: each is the sum of all keys with one tag.
function tupleSizes(redis, known) {
  const keys = allKeys(redis);
  const tags = [...new Set(keys.map(tagOf))].filter((tag) => !known.has(tag)).slice(0, kSamples);
  const sampled = keys.filter((key) => tags.includes(tagOf(key)));
  const commands = sampled.map((key) => `MEMORY USAGE ${key} SAMPLES 0\n`).join('');
  const sizes = redisCliOn(redis, commands).split('\n').map(Number); // 0: has expired
  return tags.map((tag) => sampled.reduce((sum, key, i) => sum + (tagOf(key) === tag ? sizes[i] : 0), 0))
    .filter((size) => size > 0);
}

// --- measurements ---

const sumOf = (values, name) => values.reduce((sum, value) => sum + value[name], 0);

// Runs a load on all nodes at once, and counts the commands of Redis meanwhile.
async function measure(redis, nodes, { prefix, keys, limit, duration, span, begin, seed, rate = 0, traces = [] }) {
  const before = { calls: commandCalls(redis), cpu: cpuTime(redis.pids) };
  const at = begin ?? Date.now() + 50;
  const answers = await Promise.all(nodes.map((node, i) => node.run([prefix, keys, limit, duration, span, at,
    seed + i, rate / nodes.length, ...traces.slice(i, i + 1)].join(' '))));
  const cpu = cpuTime(redis.pids) - before.cpu;
  const commands = Object.fromEntries(Object.entries(commandCalls(redis))
    .map(([name, count]) => [name, count - (before.calls[name] ?? 0)]).filter(([, count]) => count > 0));
  const perNode = answers.map((answer) => JSON.parse(answer));
  const total = Object.fromEntries(['calls', 'allowed', 'rejected', 'errors', 'degraded', 'sent']
    .map((name) => [name, sumOf(perNode, name)]));
  return {
    ...total,
    seconds: Math.max(...perNode.map((node) => node.seconds)),
    sentPerCall: total.sent / total.calls,
    commandsPerCall: Object.values(commands).reduce((sum, count) => sum + count, 0) / total.calls,
    redisCpu: cpu * 1e3 / total.calls, // us
    commands,
    nodes: perNode,
  };
}

async function measureRate(redis, nodes, { name, keys }, seed) {
  const load = { prefix: `rate-${name}`, keys, ...kUnlimited, seed };
  await measure(redis, nodes, { ...load, span: seconds.warm });
  const run = await measure(redis, nodes, { ...load, span: seconds.rate });
  return { ...run, rate: run.calls / run.seconds, ns: run.seconds * 1e9 / run.calls };
}

async function measureAccuracy(redis, nodes, limiter, { name, keys, limit, rate }, directory, seed) {
  const known = new Set(allKeys(redis).map(tagOf));
  const traces = nodes.map((_, i) => join(directory, `trace-${i}`));
  const begin = (Math.floor((Date.now() + 100) / kDuration + 0.5) + 0.5) * kDuration; // the middle of a window
  const run = await measure(redis, nodes,
    { prefix: `accuracy-${name}`, keys, limit, duration: kDuration, span: seconds.accuracy, begin, seed, rate, traces });
  const sizes = tupleSizes(redis, known);
  const compared = compareWithExact(traces.map((file) => readFileSync(file, 'latin1')), limiter,
    { limit, duration: kDuration });
  return {
    ...run, exact: compared.exact, most: compared.most,
    // No samples: the machine was so slow that all keys have expired.
    bytes: sizes.length === 0 ? undefined
      : { samples: sizes.length, min: Math.min(...sizes), median: median(sizes), max: Math.max(...sizes) },
    demand: compared.requests / compared.exact,
    overGrant: compared.admitted / compared.exact,
    worst: compared.most / limit,
    p50: median(run.nodes.map((node) => node.p50)), p99: Math.max(...run.nodes.map((node) => node.p99)),
  };
}

async function measureLimiter(servers, redis, limiter, count, seed) {
  redisCli(redis, 'FLUSHALL');
  const nodes = [];
  for (let i = 0; i < count; ++i) nodes.push(await servers.node(redis, limiter));
  if (limiter.joins) await sleep(kJoined);
  const results = {};
  const shapes = Object.entries(kShapes).map(([name, shape]) => ({ name, ...shape }));
  for (const shape of shapes) results[shape.name] = { rate: await measureRate(redis, nodes, shape, seed) };
  for (const shape of shapes) {
    results[shape.name].accuracy = await measureAccuracy(redis, nodes, limiter, shape, servers.directory, seed);
  }
  for (const node of nodes) await node.stop();
  return results;
}

// results[limiter][nodes][shape].rate and .accuracy: one result per round.
async function measureAll(servers, redis) {
  const results = Object.fromEntries(limiters.map(({ name }) => [name, Object.fromEntries(kNodes.map((count) => [count,
    Object.fromEntries(Object.keys(kShapes).map((shape) => [shape, { rate: [], accuracy: [] }]))]))]));
  for (let round = 0; round < rounds; ++round) {
    const order = round % 2 ? [...limiters].reverse() : limiters;
    for (const count of kNodes) {
      for (const limiter of order) {
        progress(`round ${round + 1}/${rounds}: ${limiter.name}, ${count} ${count === 1 ? 'node' : 'nodes'}`);
        const run = await measureLimiter(servers, redis, limiter, count, 1_000 * round + 1);
        for (const shape of Object.keys(kShapes)) {
          results[limiter.name][count][shape].rate.push(run[shape].rate);
          results[limiter.name][count][shape].accuracy.push(run[shape].accuracy);
        }
      }
    }
  }
  progress('');
  return results;
}

// --- report ---

const valuesOf = (runs, name) => runs.map((run) => run[name]);
const nodesText = (count) => (count === 1 ? 'one node' : `${count} nodes`);

// The median, and the range in brackets.
function withRange(values, digits, scale = 1) {
  const shown = (value) => (value * scale).toFixed(digits);
  return `${shown(median(values))} (${shown(Math.min(...values))}-${shown(Math.max(...values))})`;
}

// Prints a table for each shape and number of nodes. Columns: [title, width, text of some runs].
function printTables(results, figure, columns) {
  for (const [shape, { title }] of Object.entries(kShapes)) {
    for (const count of kNodes) {
      console.log(`\n  ${`${title}, ${nodesText(count)}`.padEnd(22)}${columns.map(([name, width]) => name.padStart(width)).join('')}`);
      for (const { name } of limiters) {
        const runs = results[name][count][shape][figure];
        console.log(`    ${name.padEnd(20)}${columns.map(([, width, text]) => text(runs).padStart(width)).join('')}`);
      }
    }
  }
}

function printRates(results) {
  const figure = (name, digits) => (runs) => median(valuesOf(runs, name)).toFixed(digits);
  console.log(`\nRate: ${kCallers} callers per node, each waits for its answer; everything is admitted`);
  console.log('  ns/op: time / requests of all nodes. sent/op: commands that the nodes send, a script is one.');
  console.log('  commands/op: INFO commandstats, with those in scripts. Redis us: its CPU time per request.');
  printTables(results, 'rate', [
    ['ns/op', 9, figure('ns', 0)],
    ['k op/s (range)', 25, (runs) => withRange(valuesOf(runs, 'rate'), 1, 1e-3)],
    ['sent/op', 10, figure('sentPerCall', 3)],
    ['commands/op', 13, figure('commandsPerCall', 3)],
    ['Redis us', 10, figure('redisCpu', 2)],
    ['calls', 11, (runs) => `${sumOf(runs, 'calls')}`],
    ['allowed', 11, (runs) => `${sumOf(runs, 'allowed')}`],
    ['rejected', 10, (runs) => `${sumOf(runs, 'rejected')}`],
    ['errors', 9, (runs) => `${sumOf(runs, 'errors')}`],
    ['degraded', 10, (runs) => `${sumOf(runs, 'degraded')}`],
  ]);
}

function printAccuracy(results) {
  const demands = Object.values(kShapes).map(({ title, limit, rate }) => `${title} ${rate}/s at a limit of ${limit} each`);
  console.log(`\nAccuracy: ${demands.join(', ')} per ${kDuration / 1e3} s; groups of ${kCallers} requests per node at once`);
  console.log('  over-grant: admitted / what one exact limiter with the same rule admits of the same requests.');
  console.log('  worst: the most that was admitted of one key within one duration / limit.');
  console.log('  demand: requests / what the exact limiter admits. p50, p99: ms until the answer.');
  console.log('  bytes/key: MEMORY USAGE, the sum of all keys of a tuple.');
  for (const [name, { formula }] of Object.entries(rules)) {
    const users = limiters.filter(({ rule }) => rule === name).map((limiter) => limiter.name);
    if (users.length > 0) console.log(`  at most, ${name}: ${formula} (${users.join(', ')})`);
  }
  const figure = (name, digits) => (runs) => median(valuesOf(runs, name)).toFixed(digits);
  printTables(results, 'accuracy', [
    ['over-grant (range)', 22, (runs) => withRange(valuesOf(runs, 'overGrant'), 3)],
    ['worst', 7, figure('worst', 2)],
    ['demand', 8, figure('demand', 2)],
    ['sent/op', 9, figure('sentPerCall', 3)],
    ['commands/op', 13, figure('commandsPerCall', 3)],
    ['p50', 8, figure('p50', 2)],
    ['p99', 8, figure('p99', 2)],
    ['bytes/key', 11, (runs) => {
      const medians = runs.flatMap((run) => run.bytes?.median ?? []);
      return medians.length > 0 ? median(medians).toFixed(0) : '-';
    }],
    ['calls', 9, (runs) => `${sumOf(runs, 'calls')}`],
    ['allowed', 9, (runs) => `${sumOf(runs, 'allowed')}`],
    ['rejected', 10, (runs) => `${sumOf(runs, 'rejected')}`],
    ['errors', 8, (runs) => `${sumOf(runs, 'errors')}`],
    ['degraded', 10, (runs) => `${sumOf(runs, 'degraded')}`],
  ]);
}

function zooChart(results, { processor, cores, date }) {
  const panel = (i, title, figure, name, shape, bound) => barPanel({
    x: 60, y: 95 + 215 * i, width: 920, height: 145, title, bound,
    groups: limiters.map((limiter) => ({
      name: limiter.name, values: kNodes.map((count) => median(valuesOf(results[limiter.name][count][shape][figure], name))),
    })),
  });
  const exact = { value: 1, name: '' };
  return chart({
    width: 1010, height: 970, title: 'Nine rate limiters on one Redis', series: kNodes.map(nodesText),
    note: `${processor}, ${cores} cores, ${date}. Medians of ${rounds}. 64 callers per node; over-grant at twice the limit.`,
    panels: [
      panel(0, 'Requests per second, one hot key (higher is better)', 'rate', 'rate', 'hot'),
      panel(1, 'Requests per second, 1,000 users (higher is better)', 'rate', 'rate', 'users'),
      panel(2, 'Over-grant, one hot key (1: as one exact limiter)', 'accuracy', 'overGrant', 'hot', exact),
      panel(3, 'Over-grant, 1,000 users (1: as one exact limiter)', 'accuracy', 'overGrant', 'users', exact),
    ],
  });
}

// Six digits, and no spaces: there are hundreds of runs.
const toJson = (results) => `${JSON.stringify(results, (_, value) =>
  (typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value))}\n`;

const servers = new Zoo('zoo');
try {
  const machine = describeMachine([['redis', 'redis-server', '--version']]);
  printMachine(machine);
  if (!options.quick) console.log(`\n${rounds} rounds, interleaved.`);
  console.log();
  for (const { name, what } of limiters) console.log(`  ${name.padEnd(15)} ${what}`);
  const redis = options.cluster ? await servers.clusterRedis() : await servers.redis();
  const limits = await measureAll(servers, redis);
  console.log('\nCalls are allowed, rejected or errors; these counts are of all rounds. Weir decides degraded ones without');
  console.log('Redis, because an answer of Redis was late: many of them make a rate worthless. Errors of other limiters');
  console.log('than watch: a node had 4,096 requests without an answer, or the connection was lost.');
  printRates(limits);
  printAccuracy(limits);
  console.log();
  const results = { machine, rounds, quick: options.quick, cluster: options.cluster, callers: kCallers, duration: kDuration,
    shapes: kShapes, seconds, limiters: limits };
  writeResults(options.out, 'zoo', { json: toJson(results), svg: zooChart(limits, machine) });
} finally {
  servers.stop();
}
