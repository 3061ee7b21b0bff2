// Idempotency keys, on one server and on two that share a Redis; and a settings file that changes.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { Origin, until } from './region.mjs';
import { kRootKey, startServer, temporaryFolder } from './server.mjs';

const kHour = 3_600_000; // ms
const origin = new Origin();
const file = join(temporaryFolder(), 'weir.yaml');
let alone, nodes;
before(async () => {
  await origin.start();
  writeFileSync(file, 'namespaces:\n  named: {limit: 5, duration: 1h}\n');
  const node = () => startServer({ args: ['--origin', origin.url] });
  [alone, ...nodes] = await Promise.all([
    startServer({ args: ['--config', file] }),
    node(),
    node(),
  ]);
});
after(async () => {
  for (const server of [alone, ...nodes]) await server.stop();
  await origin.kill();
});

async function call(server, body, key, path = 'limit') {
  const response = await fetch(`${server.url}/v2/ratelimit.${path}`, {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${kRootKey}`,
      ...(key === undefined ? {} : { 'Idempotency-Key': key }),
    },
    body: JSON.stringify(body),
  });
  const replayed = response.headers.get('idempotency-replayed') === 'true';
  return { status: response.status, replayed, ...(await response.json()) };
}
const request = (more) => ({
  namespace: 'once',
  identifier: 'alice',
  limit: 3,
  duration: kHour,
  ...more,
});

test('a repeated request is admitted and not charged again', async () => {
  const body = request({ identifier: 'repeated' });
  for (let i = 0; i < 5; ++i) {
    const { data, replayed } = await call(alone, body, 'key 1');
    assert.deepEqual([data.success, data.remaining, replayed], [true, 2, i > 0]);
  }
  assert.equal((await call(alone, body, 'key 2')).data.remaining, 1);
  assert.equal((await call(alone, body)).data.remaining, 0);
  assert.equal((await call(alone, body, 'key 1')).data.success, true, 'it was charged before');
});

test('a denied request is decided again', async () => {
  const body = request({ identifier: 'denied', limit: 1 });
  await call(alone, body);
  for (let i = 0; i < 2; ++i) {
    const { data, replayed } = await call(alone, body, 'key 3');
    assert.deepEqual([data.success, replayed], [false, false]);
  }
});

test('the same key with another body is another request', async () => {
  const body = request({ identifier: 'other body' });
  await call(alone, body, 'key 4');
  assert.equal((await call(alone, { ...body, cost: 2 }, 'key 4')).data.remaining, 0);
});

test('a batch is charged once, too', async () => {
  const items = ['a', 'b'].map((identifier) => request({ identifier: `batch ${identifier}` }));
  for (let i = 0; i < 3; ++i) {
    const { data, replayed } = await call(alone, items, 'key 5', 'multiLimit');
    assert.equal(data.passed, true);
    assert.deepEqual(
      data.limits.map((item) => item.remaining),
      [2, 2],
    );
    assert.equal(replayed, i > 0);
  }
});

test('a key counts on all processes of a region', async () => {
  for (const algorithm of ['sliding_window', 'gcra']) {
    const body = request({ identifier: `shared ${algorithm}`, limit: 100, algorithm });
    for (let i = 0; i < 6; ++i) {
      const { data, replayed } = await call(nodes[i % 2], body, `key ${algorithm}`);
      assert.deepEqual([data.success, replayed], [true, i > 0]);
    }
    const { data } = await call(nodes[0], { ...body, consistency: 'exact' });
    assert.equal(data.remaining, 98, algorithm);
  }
});

// Each key wrote a row that no other region uses.
test('a key is not published to other regions', async () => {
  const ledger = `sqlite:${join(temporaryFolder(), 'ledger.db')}`;
  const args = ['--origin', origin.url, '--region', 'eu', '--ledger', ledger];
  const server = await startServer({ args });
  try {
    for (let i = 0; i < 300; ++i) {
      const { data } = await call(server, request({ identifier: 'published', limit: 1e6 }), `key ${i}`);
      assert.equal(data.success, true);
    }
    for (let i = 0; i < 3; ++i) await call(server, request({ identifier: 'used up', limit: 2 }));
    await until('a row', async () => (await server.metric('weir_published_rows_total')) > 0);
    await until('all rows', async () => (await server.metric('weir_publish_waiting')) === 0);
    const rows = await server.metric('weir_published_rows_total');
    assert.ok(rows <= 2, `${rows} rows of one identifier`);
  } finally {
    await server.stop();
  }
});

test('a malformed key is refused', async () => {
  assert.equal((await call(alone, request(), 'x'.repeat(257))).status, 400);
});

test('a changed settings file is read without a signal, and a broken one is not', async () => {
  const limit = async () =>
    (await call(alone, { namespace: 'named', identifier: 'x', cost: 0 })).data?.limit;
  assert.equal(await limit(), 5);
  writeFileSync(file, 'namespaces:\n  named: {limit: 7, duration: 1h}\n');
  await until('the new limit', async () => (await limit()) === 7);
  writeFileSync(file, 'namespaces:\n  named: {limit: many, duration: 1h}\n');
  await until('the error', () => alone.stderr.includes(":2:18: limit is 'many'"));
  assert.equal(await limit(), 7);
  writeFileSync(file, 'namespaces:\n  named: {limit: 8, duration: 1h}\n');
  await until('the next limit', async () => (await limit()) === 8);
});
