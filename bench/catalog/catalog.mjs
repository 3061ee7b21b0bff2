// Measures what keys and overrides cost: the time of a look-up, and HTTP requests with a key of the
// catalog and 10,000 overrides beside requests with the root key and none, in one run.

import { spawnSync } from 'node:child_process';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { readFlags } from '../flags.mjs';
import { describeMachine, median, printMachine, ratioOf, writeResults } from '../machine.mjs';
import { cpuTime, rootKey, Servers } from '../servers.mjs';

const usage = `catalog: measure what keys and overrides cost

  ./dev bench catalog [--quick] [--rounds N] [--seconds N] [--out DIR]

  --quick        a smoke test
  --rounds N     repetitions of each load, in turn (default: 10)
  --seconds N    of each load (default: 4)
  --out DIR      directory for <date>-<arch>-catalog.json (default: build/bench/results)
`;

const flags = {
  quick: false,
  rounds: undefined,
  seconds: undefined,
  out: 'build/bench/results',
  bin: 'build/bin',
};
const { options } = readFlags(usage, flags);
const rounds = Number(options.rounds ?? (options.quick ? 1 : 10));
const seconds = Number(options.seconds ?? (options.quick ? 1 : 4));
const bin = resolve(options.bin);
const script = join(dirname(fileURLToPath(import.meta.url)), 'limit.lua');
const kOverrides = options.quick ? 200 : 10_000;
const kMaxLookup = 1000; // ns
const kMinRatio = 0.95;

const machine = describeMachine([
  ['wrk', 'wrk', '--version'],
  ['weir', join(bin, 'weir'), '--version'],
]);
printMachine(machine);

const measured = spawnSync(
  join(bin, 'weir_catalog_bench'),
  ['--repetitions', options.quick ? '1' : '5'],
  { encoding: 'utf8' },
);
if (measured.status !== 0) throw new Error(`weir_catalog_bench failed: ${measured.stderr}`);
const lookups = JSON.parse(measured.stdout);
console.log(`\nns per look-up of an override, 1,000,000 identifiers (bar: ${kMaxLookup})\n`);
console.log(`  ${'form'.padEnd(12)}${['10', '1000', '10000'].map((n) => n.padStart(8)).join('')}`);
for (const form of new Set(lookups.map((row) => row.form))) {
  const row = lookups.filter((each) => each.form === form).map(({ ns }) => `${ns}`.padStart(8));
  console.log(`  ${form.padEnd(12)}${row.join('')}`);
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
await call('ratelimit.createNamespace', { name: 'plain' });
await call('ratelimit.createNamespace', { name: 'overridden' });
for (let i = 1; i <= kOverrides; i += 100) {
  await Promise.all(
    Array.from({ length: Math.min(100, kOverrides - i + 1) }, (_, k) =>
      call('ratelimit.setOverride', {
        namespace: 'overridden',
        identifier: `customer-${i + k}-*`,
        limit: 1_000_000,
        duration: 60_000,
      }),
    ),
  );
}

const kinds = {
  'root key, no override': { BENCH_KEY: rootKey, BENCH_NAMESPACE: 'plain' },
  'key and overrides': { BENCH_KEY: key, BENCH_NAMESPACE: 'overridden' },
};
const results = Object.fromEntries(Object.keys(kinds).map((kind) => [kind, { rates: [], cpu: [] }]));
for (let round = 0; round < rounds; ++round) {
  for (const [kind, env] of Object.entries(kinds)) {
    const before = cpuTime(server.pids);
    const load = spawnSync(
      'wrk',
      ['-t', '1', '-c', '32', '-d', `${seconds}s`, '-s', script, `http://127.0.0.1:${server.http}/v2/ratelimit.limit`],
      { encoding: 'utf8', env: { ...process.env, ...env } },
    );
    const requests = Number(/(\d+) requests in/.exec(load.stdout)?.[1]);
    const rate = Number(/Requests\/sec:\s+([\d.]+)/.exec(load.stdout)?.[1]);
    if (!(rate > 0) || /Non-2xx/.test(load.stdout)) throw new Error(load.stdout + load.stderr);
    results[kind].rates.push(rate);
    results[kind].cpu.push((1000 * (cpuTime(server.pids) - before)) / requests);
  }
}
const [plain, keyed] = Object.values(results);
console.log(`\nHTTP, one thread, 32 connections, ${kOverrides} overrides, ${rounds} rounds in turn\n`);
for (const [kind, { rates, cpu }] of Object.entries(results)) {
  console.log(
    `  ${kind.padEnd(24)}${Math.round(median(rates)).toString().padStart(8)} requests/s` +
      `${median(cpu).toFixed(2).padStart(8)} us of CPU each`,
  );
}
console.log(`  throughput ${ratioOf(keyed.rates, plain.rates).text}, bar ${kMinRatio}`);
console.log(`  CPU of plain over keyed ${ratioOf(plain.cpu, keyed.cpu).text}, bar ${kMinRatio}`);
writeResults(options.out, 'catalog', {
  json: `${JSON.stringify({ machine, lookups, overrides: kOverrides, results })}\n`,
});
process.exit(0);
