// ioredis, unchanged, with version 2 of the protocol.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import Redis from 'ioredis';

import { withTimeout, startServer } from './server.mjs';
import { paired } from './wire.mjs';

const kMonth = 2_592_000; // s
let server;
let client;

before(async () => {
  server = await startServer();
  client = new Redis({ host: '127.0.0.1', port: server.respPort, retryStrategy: null });
  await withTimeout('ioredis to be ready', new Promise((done) => client.once('ready', done)));
});
after(async () => {
  await client.quit();
  await server.stop();
});

test('ioredis throttles by call()', async () => {
  const first = await client.call('CL.THROTTLE', 'io', '1', '10', String(kMonth));
  assert.deepEqual(first, [0, 2, 1, -1, kMonth / 10]);
  assert.equal((await client.call('CL.THROTTLE', 'io', 1, 10, kMonth))[0], 0);
  const denied = await client.call('CL.THROTTLE', 'io', 1, 10, kMonth);
  assert.deepEqual(denied.slice(0, 3), [1, 2, 0]);
  assert.ok(denied[3] > 0);
});

test('ioredis sends GCRA of Redis, with a decimal period', async () => {
  // A month, so that nothing recovers during the test.
  const period = `${kMonth}.0`;
  assert.deepEqual(await client.call('GCRA', 'gcra', 1, 10, period), [0, 2, 1, -1, kMonth / 10]);
  const denied = await client.call('gcra', 'gcra', 1, 10, period, 'TOKENS', 2);
  assert.deepEqual(denied.slice(0, 3), [1, 2, 1]);
  assert.ok(denied[3] > 0 && denied[3] <= kMonth / 10);
  // CL.THROTTLE has the same count, and DEL clears it.
  assert.equal((await client.call('CL.THROTTLE', 'gcra', 1, 10, kMonth))[2], 0);
  assert.equal(await client.del('gcra'), 1);
  assert.equal((await client.call('GCRA', 'gcra', 1, 10, period))[2], 1);
  // A fraction of a second: 1 token per half a second, used up.
  assert.equal((await client.call('GCRA', 'half', 0, 1, 0.5))[4], 1);
  await assert.rejects(client.call('GCRA', 'gcra', 1, 10, 'x'), /ERR period is 'x'.*0\.000001/);
});

test('ioredis reads a verdict', async () => {
  const verdict = paired(await client.call('WEIR.LIMIT', 'ns', 'io', 10, kMonth * 1000, 'COST', 4));
  assert.deepEqual([verdict.success, verdict.limit, verdict.remaining], [1, 10, 6]);
});

test('ioredis reports an error reply as an error', async () => {
  await assert.rejects(client.call('CL.THROTTLE', 'k', 'x', 10, 60), /ERR max_burst is 'x'/);
});

test('a pipeline of 1000 is answered in order', async () => {
  const pipeline = client.pipeline();
  for (let i = 0; i < 1000; ++i) pipeline.call('CL.THROTTLE', 'line', 999, 1000, kMonth);
  const replies = await pipeline.exec();
  assert.deepEqual(
    replies.map(([error]) => error),
    Array(1000).fill(null),
  );
  assert.deepEqual(
    replies.map(([, reply]) => reply[2]),
    Array.from({ length: 1000 }, (_, i) => 999 - i),
  );
});

test('a pipeline of different commands is answered in order, errors among them', async () => {
  const pipeline = client.pipeline();
  for (let i = 0; i < 300; ++i) {
    pipeline.echo(`e${i}`).call('CL.THROTTLE', 'mixed', 999, 1000, kMonth).call('NOPE');
  }
  const replies = await pipeline.exec();
  for (let i = 0; i < 300; ++i) {
    const [[, echo], [, throttle], [error]] = replies.slice(3 * i, 3 * i + 3);
    assert.equal(echo, `e${i}`);
    assert.equal(throttle[2], 999 - i);
    assert.match(error.message, /unknown command 'NOPE'/);
  }
});

test('keys are bytes: a zero byte does not end a key', async () => {
  const remaining = async (key) => (await client.call('CL.THROTTLE', key, 9, 10, kMonth))[2];
  assert.equal(await remaining(Buffer.from([0, 1, 0, 255, 13, 10])), 9);
  assert.equal(await remaining(Buffer.from([0, 1, 0, 255, 13, 11])), 9);
  assert.equal(await remaining(Buffer.from([0, 1, 0, 255, 13, 10])), 8);
  assert.equal(await remaining(Buffer.from([0])), 9);
});

test('ioredis sends a required or an optional key', async () => {
  const wrong = new Redis({
    host: '127.0.0.1',
    port: server.respPort,
    password: 'a_wrong_root_key_of_no_use',
    retryStrategy: null,
    lazyConnect: true,
  });
  const errors = [];
  wrong.on('error', (error) => errors.push(error.message));
  await wrong.connect().catch((error) => errors.push(error.message));
  wrong.disconnect();
  assert.match(errors.join('\n'), /WRONGPASS/);
});
