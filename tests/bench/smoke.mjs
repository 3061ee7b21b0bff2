// smoke.mjs BENCHMARK BIN SECONDS: runs a benchmark with --smoke and the programs in the folder BIN.
//
// Fails unless the benchmark ends with exit code 0, prints all rows of its tables with numbers in
// them, and writes valid JSON with the results. The numbers themselves mean nothing.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '../..');
const kAlgorithms = ['fixed_window', 'sliding_window', 'sliding_window_strict', 'sliding_log', 'gcra', 'token_bucket'];
const kLimiters = ['naive', 'watch', 'fixed_window', 'bucket-client', 'bucket-server', 'gcra', 'sliding', 'weir-exact',
  'weir-converge'];
const times = (count, labels) => labels.flatMap((label) => Array(count).fill(label));
const isPositive = (value) => assert.ok(value > 0 && Number.isFinite(value), `${value} is not positive`);

// `rows`: how the rows of the tables begin, as often as they are printed. `check`: the results.
const kBenchmarks = {
  weir_bench: {
    rows: ['check, one thread', 'check, two threads in total', 'check, reading the system clock', 'check_each of 16',
      'check_all of 3 tuples', 'denied, one thread', 'denied, two threads', 'sliding_window ', 'sliding_window_strict',
      'fixed_window', 'sliding_log', 'gcra', 'token_bucket', 'memory access, one at a time', 'check, one at a time',
      'memory access, overlapping', 'check, overlapping', 'memory access, batches of 16', 'check_each, batches of 16',
      'check_each, two threads', 'in fresh memory', 'in place of expired tuples', 'weir, resident', 'weir, reserved',
      'map + mutex', 'keyed rate', 'one hot key, one thread', 'one hot key, two threads', '1 M keys, one at a time  ',
      '1 M keys, one at a time, two', '1 M keys, overlapping', '1 M keys, batches of 16 (1)',
      '1 M keys, batches of 16, two'],
    check: (results) => {
      const series = Object.values(results.nanoseconds_per_decision);
      assert.ok(series.length >= 30, `${series.length} benchmarks`);
      series.flat().forEach(isPositive);
      for (const { resident_bytes: bytes } of Object.values(results.memory)) isPositive(bytes);
    },
  },
  frontends: {
    rows: [...times(2, ['rate, pipeline 1 ', 'rate, pipeline 64']), ...times(3, ['rate, pipeline 16']), 'p99, pipeline 1',
      ...times(8, ['CPU time of the server per request']), 'rate  '],
    check: ({ results }) => {
      assert.equal(Object.keys(results).length, 22);
      Object.values(results).flat().forEach(({ rate }) => isPositive(rate));
    },
  },
  region: {
    rows: ['p50', 'p99', 'p99.9', 'CPU time per request', 'rate (shared', ...Object.values(kAlgorithms)],
    check: ({ commands, latency, throughput, exact }) => {
      assert.equal(commands.length, 2);
      commands.forEach(({ run }) => isPositive(run.admitted));
      [...latency.shared, ...latency.alone].forEach(({ answers }) => isPositive(answers));
      [...throughput.shared, ...throughput.alone].forEach(({ rate }) => isPositive(rate));
      assert.deepEqual(Object.keys(exact).sort(), [...kAlgorithms].sort());
      Object.values(exact).flatMap((sides) => Object.values(sides)).flat().forEach(({ rate }) => isPositive(rate));
    },
  },
  zoo: {
    rows: times(8, kLimiters), // one hot key and users, one node and three, rate and accuracy
    check: ({ limiters }) => {
      assert.deepEqual(Object.keys(limiters), kLimiters);
      const runs = Object.values(limiters).flatMap((nodes) => Object.values(nodes)).flatMap((shapes) => Object.values(shapes))
        .flatMap(({ rate, accuracy }) => [...rate, ...accuracy]);
      assert.equal(runs.length, 8 * kLimiters.length);
      for (const { calls, allowed } of runs) [calls, allowed].forEach(isPositive);
    },
  },
  regions: {
    rows: ['fresh', 'contended', 'mariadbd', 'redis-server, each region', 'weir, each region'],
    check: ({ figures, rows }) => {
      for (const { seconds } of Object.values(figures)) assert.equal(seconds.length, 4);
      [rows.written, rows.read].forEach(isPositive);
    },
  },
  catalog: {
    rows: ['exact', 'begin*  ', '*end', 'begin*end', '*middle*', 'all forms', ...times(2, ['root key, no override',
      'the same, longer answer', 'key, no override', 'root key, 1 override', 'key and overrides'])],
    check: ({ lookups, sessions, results }) => {
      assert.equal(lookups.length, 18);
      sessions.flatMap(({ ns }) => ns).forEach(isPositive);
      Object.values(results).flatMap(({ rates }) => rates).forEach(isPositive);
    },
  },
  ledger: {
    rows: ['inserted', 'updated', 'read'],
    check: ({ figures }) => [figures.inserted, figures.updated].forEach(isPositive),
  },
  simulation: {
    rows: ['| requests/s', '| peak memory', ...times(2, ['| hide, then run', '| hold back, then run', '| saturated',
      '| three limits, evenly']), '| burst in one delay', '| region hopping', ...times(3, ['| steady', '| lock-step']),
    '| admitted', ...times(2, ['| nodes', '| regions ', '| keys']), '| 2 × 2 × 100'],
    check: ({ runs }) => {
      assert.equal(runs.length, 35);
      runs.forEach(({ figures }) => isPositive(figures.offered_per_second));
    },
  },
};

const [, , name, bin, seconds] = process.argv;
const benchmark = kBenchmarks[name];
assert.ok(benchmark, `no benchmark '${name}'; there are ${Object.keys(kBenchmarks).join(', ')}`);
const out = mkdtempSync(join(tmpdir(), 'weir-smoke-'));
process.on('exit', () => rmSync(out, { recursive: true, force: true }));

const program = (file) => join(resolve(bin), file);
const script = [process.execPath, join(root, `bench/${name}/${name}.mjs`)];
const [command, ...args] = {
  weir_bench: [program('weir_bench')],
  frontends: [...script, '--weir', program('weir'), '--load', program('weir_load')],
}[name] ?? [...script, '--bin', resolve(bin)];

// The benchmark and what it starts are one process group, which ends with this test.
const child = spawn(command, [...args, '--smoke', '--out', out],
  { cwd: root, detached: true, stdio: ['ignore', 'pipe', 'inherit'] });
let printed = '';
child.stdout.setEncoding('utf8').on('data', (text) => {
  printed += text;
  process.stdout.write(text);
});
let late = false;
const stop = (signal) => {
  try {
    process.kill(-child.pid, signal);
  } catch {} // has ended
};
const timer = setTimeout(() => {
  late = true;
  stop('SIGTERM');
  setTimeout(() => stop('SIGKILL'), 5000).unref();
}, Number(seconds) * 1000);
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => {
    stop('SIGKILL');
    process.exit(1);
  });
}
const [code, signal] = await new Promise((done, failed) => {
  child.on('error', failed).on('close', (...how) => done(how));
});
clearTimeout(timer);

assert.ok(!late, `${name} did not end in ${seconds} s`);
assert.deepEqual({ code, signal }, { code: 0, signal: null }, `${name} failed`);
const lines = printed.split('\n').map((line) => line.trim());
for (const row of new Set(benchmark.rows)) {
  const expected = benchmark.rows.filter((each) => each === row).length;
  // A row has a number after its name.
  const found = lines.filter((line) => `${line} `.startsWith(row) && /\d/.test(line.slice(row.length)));
  assert.ok(found.length >= expected, `${expected} rows '${row}' with numbers expected, ${found.length} found`);
}
const strange = lines.filter((line) => /\b(NaN|nan|undefined|Infinity|inf)\b/.test(line));
assert.deepEqual(strange, [], 'values that are no numbers');
const files = readdirSync(out).filter((file) => file.endsWith('.json'));
assert.equal(files.length, 1, 'one file of results');
benchmark.check(JSON.parse(readFileSync(join(out, files[0]), 'utf8')));
for (const chart of readdirSync(out).filter((file) => file.endsWith('.svg'))) {
  assert.doesNotMatch(readFileSync(join(out, chart), 'utf8'), /NaN|undefined|Infinity/, chart);
}
