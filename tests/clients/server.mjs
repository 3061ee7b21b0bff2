// A server of this build, started and stopped like by a user.
//
// Everything is on loopback and on ports that the system chooses. All child processes end with this
// process, and this process ends after kDeadline.

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const kBinary = process.env.WEIR_BINARY ?? 'build/bin/weir';
export const kRootKey = 'a_root_key_that_only_tests_know';
const kDeadline = 1000 * Number(process.env.WEIR_TEST_SECONDS ?? 870); // ms, for a file of tests
const kTimeout = 180_000; // ms, for one thing waited for; a busy machine may need a minute

setTimeout(() => {
  console.error(`no end after ${kDeadline} ms`);
  process.exit(1);
}, kDeadline).unref();

const alive = new Set();
const folders = new Set();
process.on('exit', () => {
  for (const child of alive) child.kill('SIGKILL');
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

// `promise`, or an error after a timeout that names `what`.
export function withTimeout(what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`timeout waiting for ${what}`)), kTimeout);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// A call that must fail: its error.
export async function errorOf(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error('the call succeeded');
}

// A folder that is removed with this process.
export function temporaryFolder() {
  const folder = mkdtempSync(join(tmpdir(), 'weir-clients-'));
  folders.add(folder);
  return folder;
}

// Runs a program to its end; returns its exit code and output. Fails if it does not end.
export function run(program, args, { input, env, cwd, timeout = 60_000 } = {}) {
  return new Promise((resolve, reject) => {
    const options = {
      cwd,
      env: env ?? process.env,
      timeout,
      killSignal: 'SIGKILL',
      maxBuffer: 64 << 20,
    };
    const child = execFile(program, args, options, (error, stdout, stderr) => {
      alive.delete(child);
      if (error && typeof error.code !== 'number') return reject(error);
      resolve({ code: error ? error.code : 0, stdout, stderr });
    });
    alive.add(child);
    child.stdin.on('error', () => {}); // it may end without reading
    child.stdin.end(input ?? '');
  });
}

// The environment with this root key, or without one.
export function environment(key) {
  const { WEIR_ROOT_KEY: _, ...env } = process.env;
  return key === undefined ? env : { ...env, WEIR_ROOT_KEY: key };
}

class Server {
  stdout = '';
  stderr = '';

  constructor(child) {
    this.child = child;
    alive.add(child);
    child.stdout.on('data', (text) => (this.stdout += text));
    child.stderr.on('data', (text) => (this.stderr += text));
    this.ended = new Promise((resolve) => {
      child.on('close', (code, signal) => {
        alive.delete(child);
        resolve({ code, signal });
      });
    });
  }

  // Waits for the last line of the welcome message.
  async welcomed() {
    const welcome = new Promise((resolve) => {
      const look = () => this.stdout.includes('Ctrl-C stops it.') && resolve(true);
      this.child.stdout.on('data', look);
    });
    const came = await withTimeout('the welcome', Promise.race([welcome, this.ended]));
    assert.equal(came, true, `the server ended: ${this.stderr}`);
    this.httpPort = this.port('http');
    this.respPort = this.port('redis');
    this.httpsPort = this.port('https');
    this.respsPort = this.port('rediss');
    return this;
  }

  port(scheme) {
    const found = this.stdout.match(new RegExp(`^  \\S+ +${scheme}://\\S+:(\\d+)$`, 'm'));
    return found ? Number(found[1]) : undefined;
  }

  get pid() {
    return this.child.pid;
  }
  get output() {
    return this.stdout + this.stderr;
  }
  get url() {
    return `http://127.0.0.1:${this.httpPort}`;
  }

  // Like Ctrl-C; the exit code must be 0.
  async stop(signal = 'SIGINT') {
    if (this.child.exitCode === null) this.child.kill(signal);
    const end = await withTimeout('the server to stop', this.ended);
    assert.deepEqual(end, { code: 0, signal: null }, this.stderr);
  }

  // The page with all metrics.
  async metrics() {
    return (await fetch(`${this.url}/metrics`)).text();
  }
  // The sum of a counter's samples whose labels contain all of `labels`.
  async metric(name, ...labels) {
    const text = await this.metrics();
    const samples = text
      .split('\n')
      .filter((line) => new RegExp(`^${name}[{ ]`).test(line))
      .filter((line) => labels.every((label) => line.includes(label)));
    assert.ok(samples.length > 0, `no sample of ${name}`);
    return samples.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
  }
}

// Starts a server; `args` override its default ports and folder. The drain is short, so that tests do
// not wait for idle connections.
export function startServer({ args = [], key = kRootKey, data = temporaryFolder(), cwd, env = {} } = {}) {
  const usual = ['--http', '127.0.0.1:0', '--resp', '127.0.0.1:0', '--drain-grace', '500ms'];
  const given = (name) => args.includes(name);
  const kept = [0, 2, 4].filter((at) => !given(usual[at])).flatMap((at) => usual.slice(at, at + 2));
  const child = spawn(kBinary, ['serve', ...kept, '--data', data, ...args], {
    cwd,
    env: { ...environment(key ?? undefined), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  return new Server(child).welcomed();
}

// Runs a weir command to its end. Leak detection takes seconds, so only servers run with it.
export function weir(args, { key, env = {}, ...options } = {}) {
  const sanitizer = `${process.env.ASAN_OPTIONS ?? ''}:detect_leaks=0`;
  const all = { ...environment(key), ASAN_OPTIONS: sanitizer, ...env };
  return run(kBinary, args, { ...options, env: all });
}
