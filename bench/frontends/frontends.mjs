// Measures the front ends of a server, compared with redis-server and nginx under the same load.
//
// Each server has one thread. Runs are interleaved and repeated, so that a slow minute of the machine
// affects all of them. A ratio is a ratio of medians, with the range of the ratios within repetitions.
// redis-benchmark and wrk generate the load, with one thread each. redis-benchmark can be slower than
// the server, so weir_load (load.cc), which does not parse replies, sends the same requests as well.
// Everything is on loopback.

import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { readFlags } from '../flags.mjs';
import { describeMachine, median, printMachine, ratioOf, writeResults } from '../machine.mjs';
import { redisBenchmark } from '../redis_benchmark.mjs';
import { cpuTimeOfThreads, freePort, rootKey, Servers } from '../servers.mjs';
import { wrk } from '../wrk.mjs';

const script = join(dirname(fileURLToPath(import.meta.url)), '../limit.lua');

const usage = `frontends: measure weir serve, compared with redis-server and nginx

  ./dev bench frontends [--quick | --smoke] [--repetitions N] [--out DIR]

  --quick           one repetition with a tenth of the requests
  --smoke           run everything for an instant: checks that the benchmark works, measures nothing
  --repetitions N   repetitions of each run (default: 5)
  --out DIR         directory for <date>-<arch>-frontends.json (default: build/bench/results)
`;

const flags = { quick: false, smoke: false, repetitions: undefined, out: 'build/bench/results', weir: 'build/bin/weir',
  load: 'build/bin/weir_load' };
const { options, fail } = readFlags(usage, flags);
options.repetitions = Number(options.repetitions ?? (options.quick ? 1 : 5));
if (!(options.repetitions >= 1)) fail('--repetitions must be 1 or more');

class BenchServers extends Servers {
  async nginx() {
    const port = await freePort();
    const config = join(this.directory, 'nginx.conf');
    writeFileSync(config, `
      daemon off; worker_processes 1; pid ${this.directory}/nginx.pid; error_log ${this.directory}/error.log;
      events { worker_connections 1024; }
      http {
        access_log off; keepalive_requests 100000000;
        client_body_temp_path ${this.directory}/b; proxy_temp_path ${this.directory}/p;
        fastcgi_temp_path ${this.directory}/f; uwsgi_temp_path ${this.directory}/u; scgi_temp_path ${this.directory}/s;
        limit_req_zone $binary_remote_addr zone=all:10m rate=1000000r/s;
        server {
          listen 127.0.0.1:${port};
          location / { limit_req zone=all burst=1000000 nodelay; empty_gif; }
        }
      }`);
    const { pid } = await this.start(port, 'nginx', ['-c', config, '-p', this.directory]);
    const workers = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim().split(' ').map(Number);
    return { name: 'nginx', port, pids: workers };
  }
}

// The GCRA of CL.THROTTLE, with the state in one key and the time of redis-server.
const gcraScript = `
local burst, emission, quantity = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local tat = tonumber(redis.call('GET', KEYS[1]) or now)
if tat < now then tat = now end
local after = tat + quantity * emission
local allow_at = after - burst * emission
if now < allow_at then
  return {1, burst, math.floor((burst * emission - (tat - now)) / emission), allow_at - now, tat - now}
end
redis.call('SET', KEYS[1], string.format('%.0f', after), 'PX', math.ceil((after - now) / 1000))
return {0, burst, math.floor((now - allow_at) / emission), -1, after - now}`;

const throttle = ['CL.THROTTLE', 'key:__rand_int__', '1000000', '1000000', '60'];
const incr = ['INCR', 'key:__rand_int__'];

// Returns the rate per second and the CPU time of the server in ns per request.
function weirLoad(server, { pipeline, requests, keys, command, lines }) {
  const before = cpuTimeOfThreads(server.pids);
  const run = spawnSync(resolve(options.load), ['--port', server.port, '--connections', 50, '--pipeline', pipeline,
    '--requests', requests, '--keys', keys, '--lines', lines, ...command].map(String),
  { encoding: 'utf8', timeout: 120_000 });
  if (run.status !== 0) throw new Error(`weir_load failed: ${run.error ?? run.stderr}`);
  return { rate: Number(run.stdout), cpu: (cpuTimeOfThreads(server.pids) - before) * 1e6 / requests };
}

function wrkLoad(server, port, script, path) {
  const before = cpuTimeOfThreads(server.pids);
  const { rate, p99, requests } = wrk(`http://127.0.0.1:${port}${path}`, { connections: 50,
    seconds: options.quick ? 1 : 3, script, pauses: options.smoke, environment: { BENCH_KEY: rootKey } });
  return { rate, p99, cpu: (cpuTimeOfThreads(server.pids) - before) * 1e6 / requests };
}

const scale = options.smoke ? 0.02 : options.quick ? 0.1 : 1;
const servers = new BenchServers('frontends');
const machine = describeMachine([
  ['redis', 'redis-server', '--version'], ['nginx', 'nginx', '-v'], ['wrk', 'wrk', '-v'],
]);
printMachine(machine);

try {
  const redis = await servers.redis();
  const weir = await servers.weir(resolve(options.weir), '--backend', 'limiter');
  const nullBackend = await servers.weir(resolve(options.weir), '--backend', 'null');
  const nginx = await servers.nginx();
  const loaded = spawnSync('redis-cli', ['-p', String(redis.port), 'SCRIPT', 'LOAD', gcraScript], { encoding: 'utf8' });
  const evalsha = ['EVALSHA', loaded.stdout.trim(), '1', 'gcra:__rand_int__', '1000001', '60', '1'];

  const requests = { 1: 200_000, 16: 1_000_000, 64: 2_000_000 };
  const load = (pipeline, command, share = 1) =>
    ({ pipeline, requests: Math.round(requests[pipeline] * scale * share), keys: 100_000, command });
  const redisBenchmarkRun = (server, ...args) => () => redisBenchmark(server, load(...args));
  const weirLoadRun = (server, pipeline, command, lines) =>
    () => weirLoad(server, { ...load(pipeline, command), lines });
  const runs = {};
  for (const pipeline of [1, 16, 64]) {
    runs[`incr ${pipeline}`] = redisBenchmarkRun(redis, pipeline, incr);
    runs[`throttle ${pipeline}`] = redisBenchmarkRun(weir, pipeline, throttle);
    runs[`null ${pipeline}`] = redisBenchmarkRun(nullBackend, pipeline, throttle);
    runs[`weir_load incr ${pipeline}`] = weirLoadRun(redis, pipeline, incr, 1);
    runs[`weir_load throttle ${pipeline}`] = weirLoadRun(weir, pipeline, throttle, 6);
    runs[`weir_load null ${pipeline}`] = weirLoadRun(nullBackend, pipeline, throttle, 6);
  }
  runs['script 16'] = redisBenchmarkRun(redis, 16, evalsha, 0.2);
  runs['http limit'] = () => wrkLoad(weir, weir.http, script, '/v2/ratelimit.limit');
  runs['http null'] = () => wrkLoad(nullBackend, nullBackend.http, script, '/v2/ratelimit.limit');
  runs['nginx limit_req'] = () => wrkLoad(nginx, nginx.port, undefined, '/');

  // Creates all keys before the measurement.
  redisBenchmarkRun(weir, 16, throttle)();
  redisBenchmarkRun(redis, 16, incr)();
  const results = Object.fromEntries(Object.keys(runs).map((name) => [name, []]));
  for (let repetition = 0; repetition < options.repetitions; ++repetition) {
    for (const name of Object.keys(runs)) {
      process.stderr.write(`\r${repetition + 1}/${options.repetitions} ${name.padEnd(24)}`);
      results[name].push(runs[name]());
    }
  }
  process.stderr.write(`\r${' '.repeat(34)}\r`);

  const valuesOf = (name, quantity) => results[name].map((result) => result[quantity]);
  const row = (label, weirRun, otherRun, quantity, target, better) => {
    const compared = ratioOf(valuesOf(weirRun, quantity), valuesOf(otherRun, quantity));
    const unit = { rate: 'k/s', cpu: 'ns', p99: 'ms' }[quantity];
    const shown = (name) => {
      const value = median(valuesOf(name, quantity));
      return quantity === 'rate' ? `${(value / 1000).toFixed(1)} ${unit}` : `${value.toFixed(quantity === 'cpu' ? 0 : 3)} ${unit}`;
    };
    const met = target === undefined ? '' : (better === 'higher' ? compared.ofMedians >= target : compared.ofMedians <= target) ? 'yes' : 'NO';
    const targetText = target === undefined ? '' : `${better === 'higher' ? '≥' : '≤'} ${target}x`;
    console.log(`  ${label.padEnd(44)} ${shown(weirRun).padStart(12)} ${shown(otherRun).padStart(12)}   ${compared.text.padEnd(22)} ${targetText.padEnd(8)} ${met}`);
  };
  console.log(`\n${options.repetitions} repetitions, interleaved; one server thread; 50 connections; 100,000 keys\n`);
  console.log(`${''.padEnd(46)} ${'weir'.padStart(12)} ${'other'.padStart(12)}   ${'ratio (min-max)'.padEnd(22)} ${'target'.padEnd(8)} met`);
  for (const [sender, prefix] of [['weir_load', 'weir_load '], ['redis-benchmark', '']]) {
    console.log(`CL.THROTTLE compared with redis-server INCR, load from ${sender}`);
    for (const [pipeline, target] of [[1, 0.9], [16, 1.4], [64, 2.4]]) {
      const [throttleRun, nullRun, incrRun] = ['throttle', 'null', 'incr'].map((command) => `${prefix}${command} ${pipeline}`);
      row(`rate, pipeline ${pipeline}`, throttleRun, incrRun, 'rate', target, 'higher');
      row('  of the front end alone (null backend)', nullRun, incrRun, 'rate');
      row('  CPU time of the server per request', throttleRun, incrRun, 'cpu', 1, 'lower');
      row('  of the front end alone', nullRun, incrRun, 'cpu');
    }
  }
  row('p99, pipeline 1', 'throttle 1', 'incr 1', 'p99', 1.1, 'lower');
  console.log('CL.THROTTLE compared with the same GCRA as a script in redis-server');
  row('rate, pipeline 16', 'throttle 16', 'script 16', 'rate', 10, 'higher');
  row('  CPU time of the server per request', 'throttle 16', 'script 16', 'cpu');
  console.log('HTTP ratelimit.limit compared with nginx limit_req on GET');
  row('rate', 'http limit', 'nginx limit_req', 'rate', 1, 'higher');
  row('  CPU time of the server per request', 'http limit', 'nginx limit_req', 'cpu');
  row('  of the front end alone (null backend)', 'http null', 'nginx limit_req', 'cpu');

  console.log();
  const output = { machine, repetitions: options.repetitions, quick: options.quick, results };
  writeResults(options.out, 'frontends', { json: `${JSON.stringify(output, null, 1)}\n` });
} finally {
  servers.stop();
}
