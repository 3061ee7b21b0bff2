// Several processes of one region with a real redis-server.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { untilConnected, kUsualDeadline, Origin, pick, rest, startNode, until } from './region.mjs';
import { temporaryFolder } from './server.mjs';

const origin = new Origin();
let nodes;
before(async () => {
  await origin.start();
  nodes = await Promise.all([1, 2, 3].map(() => startNode(origin.url, { readDeadline: kUsualDeadline })));
  await untilConnected(nodes);
});
after(async () => {
  await Promise.all(nodes.map((node) => node.stop()));
  await origin.kill();
});

for (const most of [10, 100, 1000]) {
  test(`three nodes admit ${most} together`, async () => {
    let admitted = 0;
    for (let i = 0; i < 2 * most; ++i) {
      await rest(1000 / most);
      admitted += (await pick(nodes).limit(`all-${most}`, most)).success;
    }
    console.log(`limit ${most}: ${admitted} admitted, ${(admitted / most).toFixed(3)} of it`);
    assert.ok(admitted >= most, `${admitted} of ${most}`);
    assert.ok(admitted <= 1.02 * most, `${admitted} of ${most}`);
  });
}

test('admissions of one node are read by another node without traffic', async () => {
  assert.equal((await nodes[0].limit('moved', 10, 10)).success, 1);
  await until('the other nodes to read it', async () => {
    const verdict = await nodes[1].limit('moved', 10, 0);
    return verdict.remaining === 0;
  });
  const verdict = await nodes[2].limit('moved', 10);
  assert.equal(verdict.success, 0);
});

test('counts survive an origin that restarts empty', async () => {
  assert.equal((await nodes[0].limit('kept', 10, 10)).success, 1);
  await until('the origin to have it', async () => (await nodes[1].limit('kept', 10, 0)).remaining === 0);
  await origin.kill();
  assert.equal((await nodes[0].limit('kept', 10)).success, 0);
  await origin.start();
  await Promise.all(nodes.map((node) => node.ready()));
  assert.equal((await nodes[0].limit('kept', 10)).success, 0);
  await until('replay to the origin', async () => {
    const verdict = await nodes[1].limit('kept', 10, 0);
    return verdict.remaining === 0;
  });
  assert.equal((await nodes[2].limit('kept', 10)).success, 0);
});

test('a node answers while the origin is stopped, reports degraded, and recovers', async () => {
  await origin.pause();
  try {
    // The allowance of one of three nodes is a twelfth of the limit.
    const verdict = await nodes[0].limit('alone', 100);
    assert.equal(verdict.success, 1);
    assert.equal(verdict.basis, 'degraded');
  } finally {
    origin.resume();
  }
  await until('a refreshed answer', async () => (await nodes[0].limit(`back-${Math.random()}`, 10)).basis === 'refreshed');
  await until('the other nodes to read it', async () => (await nodes[1].limit('alone', 100, 0)).remaining === 99);
});

test('a node flushes its counts at shutdown, and a new node reads them', async () => {
  const stopping = await startNode(origin.url);
  await stopping.ready();
  assert.equal((await stopping.limit('left', 100, 7)).success, 1);
  await stopping.stop('SIGTERM');
  assert.match(stopping.server.stderr, /all counts were written to the origin/);
  const cells = await Promise.all((await origin.cells()).map((cell) => origin.client.hgetall(cell)));
  const left = cells.filter((fields) => 'departed' in fields);
  assert.deepEqual(left, [{ departed: '7' }]); // and no field of the node remains
  const comer = await startNode(origin.url);
  await comer.ready();
  const verdict = await comer.limit('left', 100, 0);
  assert.equal(verdict.remaining, 93);
  await comer.stop();
});

test('a node starts without its origin and connects later', async () => {
  await origin.kill();
  const early = await startNode(origin.url);
  assert.equal((await early.limit('early', 10)).basis, 'degraded');
  await origin.start();
  await early.ready();
  await until('a refreshed answer', async () => (await early.limit(`early-${Math.random()}`, 10)).basis === 'refreshed');
  await early.stop();
});

test('a node that cannot flush its counts logs how much is lost', async () => {
  const stopping = await startNode(origin.url);
  await stopping.ready();
  await origin.kill();
  await until('the loss', async () => (await stopping.server.metric('weir_origin_ready')) === 0);
  assert.equal((await stopping.limit('unacknowledged', 100)).success, 1);
  await stopping.stop();
  assert.match(stopping.server.stderr, /the counts of 1 tuples were not written to the origin/);
  await origin.start();
});

test('metrics cover the connection to the origin', async () => {
  const [{ server }] = nodes;
  await until('an answer', async () => (await server.metric('weir_origin_seconds_count')) > 0);
  for (const kind of ['write', 'expire', 'read', 'step', 'nodes']) {
    const count = await server.metric('weir_origin_commands_total', `kind="${kind}"`);
    assert.ok(count > 0, `${kind}: ${count}`);
  }
  assert.ok((await server.metric('weir_refreshes_total', 'kind="step"', 'result="answered"')) > 0);
  assert.ok((await server.metric('weir_strict_activations_total')) > 0);
  assert.ok((await server.metric('weir_origin_errors_total', 'reason="unreachable"')) > 0);
  await until('all counts to be acknowledged', async () => (await server.metric('weir_dirty_cells')) === 0);
  assert.ok((await server.metric('weir_replay_lag_seconds')) < 5);
  assert.ok(Math.abs(await server.metric('weir_origin_clock_ahead_seconds')) < 1);
});

test('a password is used from every source and never printed', async () => {
  const password = 'very:secret@/%';
  await origin.client.config('SET', 'requirepass', password);
  const file = join(temporaryFolder(), 'password');
  writeFileSync(file, `${password}\n`);
  const written = encodeURIComponent(password);
  for (const [url, args] of [
    [`redis://:${written}@127.0.0.1:${origin.port}`, []],
    [`redis://default:${written}@127.0.0.1:${origin.port}/0`, []],
    [origin.url, ['--origin-password-file', file]],
  ]) {
    const node = await startNode(url, { args });
    await node.ready();
    await node.stop();
    assert.ok(!node.server.output.includes(password) && !node.server.output.includes(written));
  }
  await origin.client.auth(password);
  await origin.client.config('SET', 'requirepass', '');
});
