// Measures a catalog of a million overrides and 100,000 namespaces: how long a server takes to read
// it and with how much memory, and how long a page, a change and an urgent command take then.

import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { median } from '../machine.mjs';
import { cpuTime, freePort, rootKey, Servers, sleep } from '../servers.mjs';

const kPages = 200;
const kChanges = 20;

const seconds = (since) => (performance.now() - since) / 1000;
const memoryOf = (pid, field) =>
  Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(readFileSync(`/proc/${pid}/status`, 'latin1'))[1]) / 1024;

// The user and system time of a command, in s.
function timed(command, args) {
  const began = performance.now();
  const ran = spawnSync(command, args, { encoding: 'utf8' });
  if (ran.status !== 0) throw new Error(`${args.join(' ')}: ${ran.stderr}`);
  return { took: seconds(began), text: ran.stdout };
}

export async function measureLarge({ bin, overrides, workspaces, namespaces }) {
  const servers = new Servers('large-catalog');
  const data = join(servers.directory, 'data');
  mkdirSync(data);
  const fill = timed(join(bin, 'weir_catalog_bench'), [
    ...['--fill', join(data, 'ledger.db'), '--overrides', `${overrides}`],
    ...['--workspaces', `${workspaces}`, '--namespaces', `${namespaces}`],
  ]);
  const filled = JSON.parse(fill.text);

  const empty = join(servers.directory, 'empty');
  const start = async (folder) => {
    const [resp, http] = [await freePort(), await freePort()];
    const began = performance.now();
    const child = servers.spawn(join(bin, 'weir'), ['serve', '--threads', 1, '--data', folder,
      '--resp', `127.0.0.1:${resp}`, '--http', `127.0.0.1:${http}`],
    { env: { ...process.env, WEIR_ROOT_KEY: rootKey } });
    const url = `http://127.0.0.1:${http}`;
    for (;; await sleep(5)) {
      const status = await fetch(`${url}/readyz`).then((answer) => answer.status, () => 0);
      if (status === 200) {
        return { url, pid: child.pid, child, took: seconds(began), cpu: cpuTime([child.pid]) / 1000 };
      }
      if (child.exitCode !== null) throw new Error('weir serve ended');
    }
  };
  const without = await start(empty);
  const base = memoryOf(without.pid, 'VmHWM');
  without.child.kill();
  const server = await start(data);
  const peak = memoryOf(server.pid, 'VmHWM');

  // The time of a call in ms.
  const call = async (path, body, key) => {
    const began = performance.now();
    const response = await fetch(`${server.url}/v2/${path}`, {
      method: 'POST', headers: { Authorization: `Bearer ${key}` }, body: JSON.stringify(body),
    });
    const answer = await response.json();
    if (response.status !== 200) throw new Error(JSON.stringify(answer));
    return { ms: performance.now() - began, ...answer };
  };
  const page = { namespace: filled.namespace, limit: 100 };
  const pages = [];
  for (let cursor; pages.length < kPages;) {
    const answer = await call('ratelimit.listOverrides', { ...page, cursor }, filled.key);
    pages.push(answer.ms);
    cursor = answer.pagination.cursor;
    if (!answer.pagination.hasMore) break;
  }
  const change = async (namespace) => {
    const times = [];
    for (let i = 0; i < kChanges; ++i) {
      const body = { namespace, identifier: `customer-${String(i).padStart(7, '0')}`, limit: 5 + i, duration: 60_000 };
      times.push((await call('ratelimit.setOverride', body, filled.key)).ms);
    }
    return median(times);
  };
  const largest = await change(filled.namespace);
  const small = await change(filled.small);
  const revoke = timed(join(bin, 'weir'), ['keys', 'revoke', filled.keyId, '--data', data]);
  const began = performance.now();
  for (;; await sleep(5)) {
    const body = { namespace: filled.small, identifier: 'x', limit: 1, duration: 60_000 };
    const { status } = await fetch(`${server.url}/v2/ratelimit.limit`, {
      method: 'POST', headers: { Authorization: `Bearer ${filled.key}` }, body: JSON.stringify(body),
    });
    if (status === 401) break;
  }
  const ended = seconds(began);
  server.child.kill();
  const figures = {
    overrides, namespaces: workspaces * namespaces, fill_s: fill.took, ready_s: server.took, ready_cpu_s: server.cpu, peak_mb: peak,
    base_mb: base, page_ms: median(pages), largest_page_ms: Math.max(...pages), of_largest: filled.of_largest,
    change_of_largest_ms: largest, change_ms: small, revoke_s: revoke.took, ended_s: ended,
  };
  console.log(`\n${overrides.toLocaleString('en-US')} overrides in ${figures.namespaces.toLocaleString('en-US')} namespaces\n`);
  for (const [name, value] of [
    ['from start to /readyz 200', `${server.took.toFixed(1)} s, of CPU ${server.cpu.toFixed(1)} s`],
    ['peak memory until then', `${peak.toFixed(0)} MiB (${base.toFixed(0)} without a catalog)`],
    ['page of 100 overrides', `${median(pages).toFixed(2)} ms (largest ${Math.max(...pages).toFixed(2)})`],
    [`change of one of ${filled.of_largest}`, `${largest.toFixed(0)} ms`],
    ['change in a small namespace', `${small.toFixed(1)} ms`],
    ['weir keys revoke', `${revoke.took.toFixed(2)} s, at the server after ${ended.toFixed(2)} s`],
  ]) {
    console.log(`  ${name.padEnd(32)}${value}`);
  }
  return figures;
}
