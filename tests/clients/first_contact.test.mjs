// What people try first, with the published clients: each gets an answer that names Weir and the
// remedy.

import { Unkey } from '@unkey/api';
import { Ratelimit } from '@upstash/ratelimit';
import { Redis as Upstash } from '@upstash/redis';
import { Queue } from 'bullmq';
import Redis from 'ioredis';
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { RateLimiterMemory, RateLimiterRedis } from 'rate-limiter-flexible';

import { until } from './region.mjs';
import { errorOf, kRootKey, startServer, temporaryFolder, weir } from './server.mjs';

let server, redis;
before(async () => {
  server = await startServer();
  redis = new Redis({ port: server.respPort, host: '127.0.0.1', maxRetriesPerRequest: null });
});
after(async () => {
  redis.disconnect();
  await server.stop();
});

test('calls of @unkey/api that Weir does not have name Weir and its own', async () => {
  const unkey = new Unkey({ serverURL: server.url, rootKey: kRootKey });
  const verified = await errorOf(unkey.keys.verifyKey({ key: 'k' }));
  assert.equal(verified.name, 'NotFoundErrorResponse');
  assert.match(verified.message + JSON.stringify(verified.error), /Weir has no call keys\.verifyKey/);
  const created = await errorOf(unkey.apis.createApi({ name: 'a' }));
  assert.match(created.message + JSON.stringify(created.error), /Weir has no call apis\.createApi/);
  // The same name, other fields.
  const key = await errorOf(unkey.keys.createKey({ apiId: 'api_1' }));
  assert.equal(key.name, 'BadRequestErrorResponse');
});

test('@upstash/ratelimit shows a text that names Weir and the remedy', async () => {
  const upstash = new Upstash({ url: server.url, token: kRootKey, retry: false });
  const limiter = new Ratelimit({ redis: upstash, limiter: Ratelimit.slidingWindow(10, '10 s') });
  const calls = [() => limiter.limit('x'), () => upstash.get('x'), () => upstash.multi().get('x').exec()];
  for (const call of calls) {
    const { message } = await errorOf(call());
    assert.match(message, /Weir is a rate limiter and not Upstash Redis: .*@unkey\/ratelimit/);
    assert.doesNotMatch(message, /\[object Object\]/);
  }
});

test('rate-limiter-flexible gets an error, and with an insurance limiter the log has it', async () => {
  const options = { storeClient: redis, points: 2, duration: 60 };
  const { message } = await errorOf(new RateLimiterRedis(options).consume('a'));
  assert.match(message, /Weir runs one kind of script: return redis\.call\('CL\.THROTTLE'/);
  const insured = new RateLimiterRedis({
    ...options,
    insuranceLimiter: new RateLimiterMemory({ points: 1, duration: 1 }), // a timer runs for so long
  });
  assert.equal((await insured.consume('b')).consumedPoints, 1); // counted by itself
  const line = /weir: resp: requests for what Weir does not do.*use CL\.THROTTLE, GCRA or WEIR\.LIMIT/;
  await until('a line in the log', () => line.test(server.stderr));
});

test('bullmq shows a text that names Weir', async () => {
  const options = { port: server.respPort, host: '127.0.0.1', maxRetriesPerRequest: null };
  const connection = new Redis({ ...options, retryStrategy: null });
  const queue = new Queue('q', { connection });
  queue.on('error', () => {});
  const { message } = await errorOf(queue.add('n', {}));
  connection.disconnect();
  assert.match(message, /this is Weir, a rate limiter that stores no data: use Redis for it/);
});

test('a key without create_namespace learns why a new namespace is 404', async () => {
  const call = async (path, body, key) => {
    const headers = { authorization: `Bearer ${key}` };
    const answer = await fetch(`${server.url}/v2/${path}`, {
      method: 'POST',
      body: JSON.stringify(body),
      headers,
    });
    return { status: answer.status, ...(await answer.json()) };
  };
  const created = await call('keys.createKey', { name: 'k', permissions: ['ratelimit.*.limit'] }, kRootKey);
  const { key } = created.data;
  const request = { namespace: 'fresh', identifier: 'x', limit: 5, duration: 60_000 };
  const refused = await call('ratelimit.limit', request, key);
  assert.equal(refused.status, 404);
  assert.match(refused.error.detail, /"fresh".*create_namespace.*run weir namespaces set/);
  const client = new Redis({ port: server.respPort, host: '127.0.0.1', password: key });
  try {
    await assert.rejects(client.call('WEIR.LIMIT', 'fresh', 'x', 5, 60_000), /run weir namespaces set/);
  } finally {
    client.disconnect();
  }
});

test('a server without a catalog says so, and so does a command that changes another one', async () => {
  const alone = await startServer({ args: ['--ledger', 'none'] });
  try {
    assert.match(alone.stdout, /catalog {3}none: weir keys, namespaces and overrides do not reach/);
    const answer = await fetch(`${alone.url}/v2/ratelimit.setOverride`, {
      method: 'POST',
      body: JSON.stringify({ namespace: 'a', identifier: 'b', limit: 1, duration: 60_000 }),
      headers: { authorization: `Bearer ${kRootKey}` },
    });
    assert.equal(answer.status, 503);
    assert.match((await answer.json()).error.detail, /this server has no catalog/);
  } finally {
    await alone.stop();
  }
  const data = temporaryFolder();
  const set = ['namespaces', 'set', 'a', '--limit', '1', '--duration', '60000', '--data', data];
  assert.match((await weir(set)).stderr, /no running server uses.*only with --ledger/);
});
