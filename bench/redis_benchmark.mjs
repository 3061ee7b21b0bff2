// Loads a server of the Redis protocol with redis-benchmark.

import { spawnSync } from 'node:child_process';

import { cpuTimeOfThreads } from './servers.mjs';

const kTimeoutSeconds = 120;

// `keys` is the number of values of __rand_int__ in `command`. Returns the rate per second, latencies
// in ms, and the CPU time of the server in ns per request.
export function redisBenchmark(server, { clients = 50, pipeline, requests, keys, command }) {
  const before = cpuTimeOfThreads(server.pids);
  const run = spawnSync('timeout', [kTimeoutSeconds, 'redis-benchmark', '-p', server.port, '-c', clients, '-n', requests,
    '-P', pipeline, '-r', keys, '--csv', ...command].map(String), { encoding: 'utf8' });
  const line = run.stdout.split('\n').filter((text) => text.startsWith('"')).pop();
  if (run.status !== 0 || !line) throw new Error(`redis-benchmark failed: ${run.stderr}${run.stdout}`);
  // "command","rps","avg","min","p50","p95","p99","max"; the command may contain commas.
  const values = line.split('","').map((text) => text.replaceAll('"', '')).slice(-7).map(Number);
  return {
    rate: values[0], p50: values[3], p99: values[5],
    cpu: (cpuTimeOfThreads(server.pids) - before) * 1e6 / requests,
  };
}
