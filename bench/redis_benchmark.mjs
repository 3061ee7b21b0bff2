// Load on a server that speaks the Redis protocol, by redis-benchmark.

import { spawnSync } from 'node:child_process';

import { processorTime } from './servers.mjs';

const kSeconds = 120; // then it is ended

// `keys` is how many different ones __rand_int__ in `command` stands for. Rate per second, times
// in ms, and the processor time of the server in ns per request.
export function redisBenchmark(server, { pipeline, requests, keys, command }) {
  const before = processorTime(server.pids);
  const run = spawnSync('timeout', [kSeconds, 'redis-benchmark', '-p', server.port, '-c', 50, '-n', requests,
    '-P', pipeline, '-r', keys, '--csv', ...command].map(String), { encoding: 'utf8' });
  const line = run.stdout.split('\n').filter((text) => text.startsWith('"')).pop();
  if (run.status !== 0 || !line) throw new Error(`redis-benchmark failed: ${run.stderr}${run.stdout}`);
  // "command","rps","avg","min","p50","p95","p99","max"; the command may hold commas.
  const values = line.split('","').map((text) => text.replaceAll('"', '')).slice(-7).map(Number);
  return {
    rate: values[0], p50: values[3], p99: values[5],
    cpu: (processorTime(server.pids) - before) * 1e6 / requests,
  };
}
