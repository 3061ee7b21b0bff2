// wrk, unchanged: one second of HTTP with keep-alive.

import assert from 'node:assert/strict';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { kRootKey, run, startServer } from './server.mjs';

const kScript = join(dirname(fileURLToPath(import.meta.url)), 'limit.lua');
let server;
before(async () => (server = await startServer()));
after(() => server.stop());

test('every request of wrk gets a verdict', async () => {
  const args = ['-t', '1', '-c', '2', '-d', '1s', '-s', kScript, server.url, '--', kRootKey];
  const { code, stdout, stderr } = await run('wrk', args);
  assert.equal(code, 0, stderr);
  assert.doesNotMatch(stdout, /Non-2xx|Socket errors/);
  const summary = stdout.match(/^requests=(\d+) (.*)$/m);
  assert.ok(summary, stdout);
  assert.ok(Number(summary[1]) > 0);
  assert.equal(summary[2], 'without_verdict=0 connect=0 read=0 write=0 status=0 timeout=0');
  const decided = await server.metric('weir_decisions_total', 'frontend="http"');
  assert.ok(decided >= Number(summary[1]), `${decided} decided, ${summary[1]} answered`);
});
