// Loads an HTTP server with wrk, with one thread.

import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const paused = join(dirname(fileURLToPath(import.meta.url)), 'paused.lua');

// `script` is a Lua file, or undefined. With `pauses` each connection waits before each request, so
// that the least duration, one second, takes little CPU time; if a busy machine answers none in it, wrk
// runs once more for ten. Returns the number of requests, their rate per second, and a latency in ms.
// Throws unless all answers are 2xx.
export function wrk(url, { connections, seconds, script, pauses, environment }) {
  const used = pauses ? paused : script;
  const run = spawnSync('wrk', ['-t1', `-c${connections}`, `-d${seconds}s`, '--latency', ...(used ? ['-s', used] : []), url],
    { encoding: 'utf8', timeout: 120_000, env: { ...process.env, ...environment, ...(script && { BENCH_SCRIPT: script }) } });
  const rate = Number(/Requests\/sec:\s+([\d.]+)/.exec(run.stdout)?.[1]);
  const requests = Number(/(\d+) requests in/.exec(run.stdout)?.[1]);
  if (pauses && requests === 0 && seconds === 1) return wrk(url, { connections, seconds: 10, script, pauses, environment });
  if (!(rate > 0) || /Non-2xx/.test(run.stdout)) throw new Error(`wrk failed: ${run.error ?? ''}${run.stderr}${run.stdout}`);
  const [, p99, unit] = /99%\s+([\d.]+)(us|ms|s)/.exec(run.stdout);
  return { requests, rate, p99: Number(p99) * { us: 1e-3, ms: 1, s: 1e3 }[unit] };
}
