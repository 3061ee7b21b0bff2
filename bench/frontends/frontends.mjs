// What the doors of a server cost, beside redis-server and nginx on the same load.
//
// Every server has one thread. Runs are interleaved and repeated, so that a slow minute of
// the machine hits all of them; a ratio is one of medians, with the least and greatest of
// the ratios within repetitions beside it. The load comes from redis-benchmark and wrk,
// which have one thread too. Where redis-benchmark is slower than the server the rate is its own;
// so the same requests are also sent by weir_pump (pump.cc), which does not look at what it is
// answered. Everything is on loopback.

import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { readFlags } from '../flags.mjs';
import { describeMachine, keep, median, printMachine, ratioOf } from '../machine.mjs';
import { redisBenchmark } from '../redis_benchmark.mjs';
import { Servers, freePort, processorTime, rootKey, untilOpen } from '../servers.mjs';

const here = dirname(fileURLToPath(import.meta.url));

const usage = `doors: what weir serve costs, beside redis-server and nginx

  ./dev bench doors [--quick] [--repetitions N] [--out DIR]

  --quick           one repetition with a tenth of the requests: to see whether it works
  --repetitions N   how often each run is repeated (default 5)
  --out DIR         where <date>-<arch>-doors.json goes (default: build/bench/results)
`;

const flags = { quick: false, repetitions: undefined, out: 'build/bench/results', weir: 'build/bin/weir',
  pump: 'build/bin/weir_pump' };
const { options, complain } = readFlags(usage, flags);
options.repetitions = Number(options.repetitions ?? (options.quick ? 1 : 5));
if (!(options.repetitions >= 1)) complain('--repetitions must be 1 or more');

class Doors extends Servers {
  async nginx() {
    const port = await freePort();
    const config = join(this.folder, 'nginx.conf');
    writeFileSync(config, `
      daemon off; worker_processes 1; pid ${this.folder}/nginx.pid; error_log ${this.folder}/error.log;
      events { worker_connections 1024; }
      http {
        access_log off; keepalive_requests 100000000;
        client_body_temp_path ${this.folder}/b; proxy_temp_path ${this.folder}/p;
        fastcgi_temp_path ${this.folder}/f; uwsgi_temp_path ${this.folder}/u; scgi_temp_path ${this.folder}/s;
        limit_req_zone $binary_remote_addr zone=all:10m rate=1000000r/s;
        server {
          listen 127.0.0.1:${port};
          location / { limit_req zone=all burst=1000000 nodelay; empty_gif; }
        }
      }`);
    const pid = this.start('nginx', ['-c', config, '-p', this.folder]);
    await untilOpen(port, 'nginx');
    const workers = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim().split(' ').map(Number);
    return { name: 'nginx', port, pids: workers };
  }
}

// The same GCRA as CL.THROTTLE, with the state in one key and time from the server.
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

// The rate per second, and the processor time of the server in ns per request.
function pump(server, { pipeline, requests, keys, command, lines }) {
  const before = processorTime(server.pids);
  const run = spawnSync(resolve(options.pump), ['--port', server.port, '--connections', 50, '--pipeline', pipeline,
    '--requests', requests, '--keys', keys, '--lines', lines, ...command].map(String),
  { encoding: 'utf8', timeout: 120_000 });
  if (run.status !== 0) throw new Error(`weir_pump failed: ${run.error ?? run.stderr}`);
  return { rate: Number(run.stdout), cpu: (processorTime(server.pids) - before) * 1e6 / requests };
}

function wrk(server, port, seconds, script, path) {
  const before = processorTime(server.pids);
  const run = spawnSync('wrk', ['-t1', '-c50', `-d${seconds}s`, '--latency', ...(script ? ['-s', script] : []),
    `http://127.0.0.1:${port}${path}`], { encoding: 'utf8', timeout: 120_000, env: { ...process.env, WEIR_ROOT_KEY: rootKey } });
  const rate = Number(/Requests\/sec:\s+([\d.]+)/.exec(run.stdout)?.[1]);
  const total = Number(/(\d+) requests in/.exec(run.stdout)?.[1]);
  if (!rate || /Non-2xx/.test(run.stdout)) throw new Error(`wrk failed: ${run.stderr}${run.stdout}`);
  const [, p99, unit] = /99%\s+([\d.]+)(us|ms|s)/.exec(run.stdout);
  return { rate, p99: Number(p99) * { us: 1e-3, ms: 1, s: 1e3 }[unit],
    cpu: (processorTime(server.pids) - before) * 1e6 / total };
}

const scale = options.quick ? 0.1 : 1;
const servers = new Doors('doors');
const machine = describeMachine([
  ['redis', 'redis-server', '--version'], ['nginx', 'nginx', '-v'], ['wrk', 'wrk', '-v'],
]);
printMachine(machine);

try {
  const redis = await servers.redis();
  const weir = await servers.weir(resolve(options.weir), '--backend', 'limiter');
  const empty = await servers.weir(resolve(options.weir), '--backend', 'null');
  const nginx = await servers.nginx();
  const loaded = spawnSync('redis-cli', ['-p', String(redis.port), 'SCRIPT', 'LOAD', gcraScript], { encoding: 'utf8' });
  const evalsha = ['EVALSHA', loaded.stdout.trim(), '1', 'gcra:__rand_int__', '1000001', '60', '1'];

  const requests = { 1: 200_000, 16: 1_000_000, 64: 2_000_000 };
  const load = (pipeline, command, share = 1) =>
    ({ pipeline, requests: Math.round(requests[pipeline] * scale * share), keys: 100_000, command });
  const respRun = (server, ...what) => () => redisBenchmark(server, load(...what));
  const pumpRun = (server, pipeline, command, lines) =>
    () => pump(server, { ...load(pipeline, command), lines });
  const seconds = options.quick ? 1 : 3;
  const runs = {};
  for (const pipeline of [1, 16, 64]) {
    runs[`incr ${pipeline}`] = respRun(redis, pipeline, incr);
    runs[`throttle ${pipeline}`] = respRun(weir, pipeline, throttle);
    runs[`null ${pipeline}`] = respRun(empty, pipeline, throttle);
    runs[`pumped incr ${pipeline}`] = pumpRun(redis, pipeline, incr, 1);
    runs[`pumped throttle ${pipeline}`] = pumpRun(weir, pipeline, throttle, 6);
    runs[`pumped null ${pipeline}`] = pumpRun(empty, pipeline, throttle, 6);
  }
  runs['script 16'] = respRun(redis, 16, evalsha, 0.2);
  runs['http limit'] = () => wrk(weir, weir.http, seconds, join(here, 'limit.lua'), '/v2/ratelimit.limit');
  runs['http null'] = () => wrk(empty, empty.http, seconds, join(here, 'limit.lua'), '/v2/ratelimit.limit');
  runs['nginx limit_req'] = () => wrk(nginx, nginx.port, seconds, null, '/');

  // Every key is there before anything is measured.
  respRun(weir, 16, throttle)();
  respRun(redis, 16, incr)();
  const results = Object.fromEntries(Object.keys(runs).map((name) => [name, []]));
  for (let repetition = 0; repetition < options.repetitions; ++repetition) {
    for (const name of Object.keys(runs)) {
      process.stderr.write(`\r${repetition + 1}/${options.repetitions} ${name.padEnd(24)}`);
      results[name].push(runs[name]());
    }
  }
  process.stderr.write(`\r${' '.repeat(34)}\r`);

  const of = (name, what) => results[name].map((result) => result[what]);
  const row = (label, mine, theirs, what, bar, better) => {
    const compared = ratioOf(of(mine, what), of(theirs, what));
    const unit = { rate: 'k/s', cpu: 'ns', p99: 'ms' }[what];
    const shown = (name) => {
      const value = median(of(name, what));
      return what === 'rate' ? `${(value / 1000).toFixed(1)} ${unit}` : `${value.toFixed(what === 'cpu' ? 0 : 3)} ${unit}`;
    };
    const met = bar === undefined ? '' : (better === 'more' ? compared.middle >= bar : compared.middle <= bar) ? 'yes' : 'NO';
    const told = bar === undefined ? '' : `${better === 'more' ? '≥' : '≤'} ${bar}x`;
    console.log(`  ${label.padEnd(44)} ${shown(mine).padStart(12)} ${shown(theirs).padStart(12)}   ${compared.text.padEnd(22)} ${told.padEnd(8)} ${met}`);
  };
  console.log(`\n${options.repetitions} repetitions, interleaved; one server thread; 50 connections; 100,000 keys\n`);
  console.log(`${''.padEnd(46)} ${'weir'.padStart(12)} ${'other'.padStart(12)}   ${'ratio (min-max)'.padEnd(22)} ${'bar'.padEnd(8)} met`);
  for (const [sender, prefix] of [['weir_pump', 'pumped '], ['redis-benchmark', '']]) {
    console.log(`CL.THROTTLE against redis-server INCR, asked by ${sender}`);
    for (const [pipeline, bar] of [[1, 0.9], [16, 1.4], [64, 2.4]]) {
      const [mine, door, theirs] = ['throttle', 'null', 'incr'].map((what) => `${prefix}${what} ${pipeline}`);
      row(`rate, pipeline ${pipeline}`, mine, theirs, 'rate', bar, 'more');
      row('  of the door alone (null backend)', door, theirs, 'rate');
      row('  processor time of the server per request', mine, theirs, 'cpu', 1, 'less');
      row('  of it the door alone', door, theirs, 'cpu');
    }
  }
  row('p99, pipeline 1', 'throttle 1', 'incr 1', 'p99', 1.1, 'less');
  console.log('CL.THROTTLE against the same GCRA as a script in redis-server');
  row('rate, pipeline 16', 'throttle 16', 'script 16', 'rate', 10, 'more');
  row('  processor time of the server per request', 'throttle 16', 'script 16', 'cpu');
  console.log('HTTP ratelimit.limit against nginx limit_req on GET');
  row('rate', 'http limit', 'nginx limit_req', 'rate', 1, 'more');
  row('  processor time of the server per request', 'http limit', 'nginx limit_req', 'cpu');
  row('  of it the door alone (null backend)', 'http null', 'nginx limit_req', 'cpu');

  console.log();
  const kept = { machine, repetitions: options.repetitions, quick: options.quick, results };
  keep(options.out, 'doors', { json: `${JSON.stringify(kept, null, 1)}\n` });
} finally {
  servers.stop();
}
