// Measures what keys and overrides cost, in one run: the time of a look-up, and HTTP requests with a
// key of the catalog and 10,000 overrides beside requests with the root key and none; with sockets,
// and in a session alone.
//
// All requests have the same length. An answer with an override is longer; the other kinds show how
// much of the cost is that, the key, or the number of overrides.

import { spawnSync } from 'node:child_process';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { readFlags } from '../flags.mjs';
import { describeMachine, median, printMachine, writeResults } from '../machine.mjs';
import { cpuTimeOfThreads, rootKey, Servers } from '../servers.mjs';
import { wrk } from '../wrk.mjs';
import { measureLarge } from './large.mjs';

const usage = `catalog: measure what keys and overrides cost

  ./dev bench catalog [--quick | --smoke | --large] [--rounds N] [--seconds N] [--out DIR]

  --quick        one round and few overrides
  --smoke        run everything for an instant: checks that the benchmark works, measures nothing
  --large        only a million overrides in 100 and in 100,000 namespaces: read, listed, changed, revoked
  --rounds N     repetitions of each load, in turn (default: 20)
  --seconds N    of each load (default: 1)
  --out DIR      directory for <date>-<arch>-catalog.json (default: build/bench/results)
`;

const flags = {
  quick: false,
  smoke: false,
  large: false,
  rounds: undefined,
  seconds: undefined,
  out: 'build/bench/results',
  bin: 'build/bin',
};
const { options } = readFlags(usage, flags);
const rounds = Number(options.rounds ?? (options.quick ? 1 : 20));
const seconds = Number(options.seconds ?? 1);
const bin = resolve(options.bin);
const script = join(dirname(fileURLToPath(import.meta.url)), '../limit.lua');
const kOverrides = options.smoke ? 10 : options.quick ? 200 : 10_000;
const kIdentifiers = options.smoke ? 1000 : 1_000_000;
const kMaxLookup = 1000; // ns
const kMinRatio = 0.95;

const machine = describeMachine([
  ['wrk', 'wrk', '--version'],
  ['weir', join(bin, 'weir'), '--version'],
]);
printMachine(machine);

if (options.large) {
  const few = await measureLarge({ bin, overrides: 1_000_000, workspaces: 10, namespaces: 10 });
  const many = await measureLarge({ bin, overrides: 1_000_000, workspaces: 10, namespaces: 10_000 });
  writeResults(options.out, 'large-catalog', { json: `${JSON.stringify({ machine, few, many })}\n` });
  process.exit(0);
}

const measured = spawnSync(
  join(bin, 'weir_catalog_bench'),
  [
    ...['--repetitions', options.quick ? '1' : '5'],
    ...['--rounds', options.quick ? '2' : '60'],
    ...['--overrides', `${kOverrides}`],
    ...['--identifiers', `${kIdentifiers}`],
  ],
  { encoding: 'utf8' },
);
if (measured.status !== 0) throw new Error(`weir_catalog_bench failed: ${measured.stderr}`);
const { lookups, sessions } = JSON.parse(measured.stdout);
console.log(`\nns per look-up of an override, ${kIdentifiers.toLocaleString('en-US')} identifiers (bar: ${kMaxLookup})\n`);
console.log(`  ${'form'.padEnd(12)}${['10', '1000', '10000'].map((n) => n.padStart(8)).join('')}`);
for (const form of new Set(lookups.map((row) => row.form))) {
  const row = lookups.filter((each) => each.form === form).map(({ ns }) => `${ns}`.padStart(8));
  console.log(`  ${form.padEnd(12)}${row.join('')}`);
}

// The median of the ratios within rounds, with their range.
function ratio(numerators, denominators) {
  const each = numerators.map((value, i) => value / denominators[i]);
  const range = `${Math.min(...each).toFixed(2)}-${Math.max(...each).toFixed(2)}`;
  return `${median(each).toFixed(3)}x (${range})`;
}
const kWidth = 26;

console.log(`\nHTTP in a session, without sockets: ${kOverrides} overrides, ratios within rounds\n`);
for (const { kind, answer, ns } of sessions) {
  console.log(
    `  ${kind.padEnd(kWidth)}${answer} bytes${median(ns).toFixed(0).padStart(8)} ns of CPU each` +
      `   plain over this ${ratio(sessions[0].ns, ns)}`,
  );
}

const server = await new Servers('catalog').weir(join(bin, 'weir'));
async function call(path, body) {
  const response = await fetch(`http://127.0.0.1:${server.http}/v2/${path}`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${rootKey}` },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  if (response.status !== 200) throw new Error(JSON.stringify(answer));
  return answer.data;
}
const { key } = await call('keys.createKey', {
  name: 'bench',
  permissions: ['ratelimit.*.limit', 'ratelimit.*.create_namespace'],
});
const setOverride = (namespace, identifier) =>
  call('ratelimit.setOverride', { namespace, identifier, limit: 1_000_000, duration: 60_000 });
for (const namespace of ['plain_1', 'plain_2', 'plain_3', 'one_any', 'many_ny']) {
  await call('ratelimit.createNamespace', { name: namespace });
}
await setOverride('one_any', 'customer-*');
for (let i = 1; i <= kOverrides; i += 100) {
  const count = Math.min(100, kOverrides - i + 1);
  await Promise.all(
    Array.from({ length: count }, (_, k) => setOverride('many_ny', `customer-${i + k}-*`)),
  );
}

const kind = (key_, namespace, limit = '1000000') => ({
  BENCH_KEY: key_,
  BENCH_NAMESPACE: namespace,
  BENCH_IDENTIFIER: 'customer-%d-user-%d',
  BENCH_LIMIT: limit,
});
const kinds = {
  'root key, no override': kind(rootKey, 'plain_1'),
  'the same, longer answer': kind(rootKey, 'plain_2', '1000000000000'),
  'key, no override': kind(key, 'plain_3'),
  'root key, 1 override': kind(rootKey, 'one_any'),
  'key and overrides': kind(key, 'many_ny'),
};
const names = Object.keys(kinds);
const results = Object.fromEntries(names.map((name) => [name, { rates: [], cpu: [] }]));
// The first round creates the tuples.
for (let round = options.smoke ? 1 : 0; round <= rounds; ++round) {
  for (let i = 0; i < names.length; ++i) {
    const name = names[(2 * round + i) % names.length]; // no kind always follows the same one
    const before = cpuTimeOfThreads(server.pids);
    const { requests, rate } = wrk(`http://127.0.0.1:${server.http}/v2/ratelimit.limit`, {
      connections: 32,
      seconds,
      script,
      pauses: options.smoke,
      environment: kinds[name],
    });
    if (round === 0) continue;
    results[name].rates.push(rate);
    results[name].cpu.push((1000 * (cpuTimeOfThreads(server.pids) - before)) / requests);
  }
}
const plain = results[names[0]];
console.log(
  `\nHTTP, one thread, 32 connections: ${kOverrides} overrides, ${rounds} rounds of ${seconds} s, ` +
    `ratios within rounds (bar: ${kMinRatio})\n`,
);
for (const [name, { rates, cpu }] of Object.entries(results)) {
  console.log(
    `  ${name.padEnd(kWidth)}${Math.round(median(rates)).toString().padStart(8)} requests/s ` +
      `${ratio(rates, plain.rates)}${median(cpu).toFixed(2).padStart(8)} us of CPU each, ` +
      `plain over this ${ratio(plain.cpu, cpu)}`,
  );
}
writeResults(options.out, 'catalog', {
  json: `${JSON.stringify({ machine, lookups, sessions, overrides: kOverrides, results })}\n`,
});
process.exit(0);
