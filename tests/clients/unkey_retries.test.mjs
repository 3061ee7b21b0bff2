// How @unkey/api and @unkey/ratelimit repeat calls that failed: behind a proxy that answers 5xx or
// loses requests and answers, and while the catalog does not answer.

import { Unkey } from '@unkey/api';
import { Overrides, Ratelimit } from '@unkey/ratelimit';
import assert from 'node:assert/strict';
import { createServer, request as httpRequest } from 'node:http';
import { after, before, test } from 'node:test';

import { MariaDb } from './mariadb.mjs';
import { until } from './region.mjs';
import { errorOf, kRootKey, startServer } from './server.mjs';

const kHour = 3_600_000; // ms

// An HTTP proxy with faults: each of the next calls takes the next one. A number is the status of
// an answer that the server never saw; 'lost request' closes the connection before the server saw
// it, 'lost answer' afterwards. Calls after the last fault pass.
class FaultyProxy {
  faults = [];
  calls = 0;

  async to(port) {
    this.server = createServer((asked, answer) => this.#pass(port, asked, answer));
    await new Promise((done) => this.server.listen(0, '127.0.0.1', done));
    this.url = `http://127.0.0.1:${this.server.address().port}`;
    return this;
  }

  #pass(port, asked, answer) {
    const fault = this.faults[this.calls++];
    if (typeof fault === 'number') {
      // Else the client would wait for up to a second.
      answer.writeHead(fault, { 'Content-Type': 'text/html', 'Retry-After-Ms': 1 });
      return answer.end('<h1>not available</h1>');
    }
    if (fault === 'lost request') return asked.socket.destroy();
    const options = { port, host: '127.0.0.1', method: asked.method, path: asked.url };
    const passed = httpRequest({ ...options, headers: asked.headers, agent: false }, (got) => {
      if (fault === 'lost answer') {
        got.resume().on('end', () => asked.socket.destroy());
        return;
      }
      answer.writeHead(got.statusCode, got.headers);
      got.pipe(answer);
    });
    passed.on('error', () => asked.socket.destroy());
    asked.pipe(passed);
  }

  // The faults of the next calls.
  next(...faults) {
    this.calls = 0;
    this.faults = faults;
  }
  close() {
    this.server.closeAllConnections();
    return new Promise((done) => this.server.close(done));
  }
}

const mariadb = new MariaDb();
const proxy = new FaultyProxy();
let server, unkey, database, installed;
before(async () => {
  installed = mariadb.install().then(async () => (database = await mariadb.ledger()));
  server = await startServer();
  await proxy.to(server.httpPort);
  unkey = new Unkey({ serverURL: proxy.url, rootKey: kRootKey });
});
after(async () => {
  await proxy.close();
  await server.stop();
  await installed;
  await mariadb.stop();
});

const asks = (identifier) => ({ namespace: 'retries', identifier, limit: 10, duration: kHour });
// What is left, without a charge.
async function remainingOf(identifier) {
  const direct = new Unkey({ serverURL: server.url, rootKey: kRootKey });
  return (await direct.ratelimit.limit({ ...asks(identifier), cost: 0 })).data.remaining;
}
for (const faults of [[500, 502, 503], ['lost request']]) {
  test(`@unkey/api repeats a call after ${faults.join(', ')}; it is charged once`, async () => {
    const identifier = `api ${faults}`;
    proxy.next(...faults);
    const { data } = await unkey.ratelimit.limit(asks(identifier));
    assert.deepEqual([data.success, data.remaining], [true, 9]);
    assert.equal(proxy.calls, faults.length + 1);
    assert.equal(await remainingOf(identifier), 9);
  });

  test(`@unkey/ratelimit does after ${faults.join(', ')}`, async () => {
    const identifier = `ratelimit ${faults}`;
    const limiter = new Ratelimit({
      rootKey: kRootKey,
      baseUrl: proxy.url,
      namespace: 'retries',
      limit: 10,
      duration: '1h',
    });
    proxy.next(...faults);
    const answer = await limiter.limit(identifier);
    assert.deepEqual([answer.success, answer.remaining], [true, 9]);
    assert.equal(proxy.calls, faults.length + 1);
    assert.equal(await remainingOf(identifier), 9);
  });
}

test('after a lost answer the repeated call is charged again, except with a key', async () => {
  proxy.next('lost answer');
  const twice = await unkey.ratelimit.limit(asks('without a key'));
  assert.equal(twice.data.remaining, 8);

  const once = { headers: { 'Idempotency-Key': 'one call' } };
  proxy.next('lost answer', 503, 'lost answer');
  const { data } = await unkey.ratelimit.limit(asks('with a key'), once);
  assert.deepEqual([data.success, data.remaining], [true, 9]);
  assert.equal(proxy.calls, 4);
  assert.equal(await remainingOf('with a key'), 9);
});

test('a batch with a key is charged once', async () => {
  const items = ['first of batch', 'second of batch'].map(asks);
  proxy.next('lost answer', 500);
  const once = { headers: { 'Idempotency-Key': 'one batch' } };
  const { data } = await unkey.ratelimit.multiLimit(items, once);
  assert.equal(data.passed, true);
  assert.deepEqual(
    data.limits.map((item) => item.remaining),
    [9, 9],
  );
  for (const { identifier } of items) assert.equal(await remainingOf(identifier), 9);
});

test('with a key the last unit is granted to the repeated call, and to no other', async () => {
  const last = { ...asks('last unit'), limit: 1 };
  proxy.next('lost answer');
  const granted = await unkey.ratelimit.limit(last, { headers: { 'Idempotency-Key': 'a' } });
  assert.equal(granted.data.success, true);
  const denied = await unkey.ratelimit.limit(last, { headers: { 'Idempotency-Key': 'b' } });
  assert.equal(denied.data.success, false);
});

test('an override that is set again after a lost answer is the same', async () => {
  const overrides = new Overrides({ rootKey: kRootKey, baseUrl: proxy.url });
  const named = { namespace: 'retries', identifier: 'overridden' };
  proxy.next('lost answer');
  const { data } = await overrides.setOverride({ ...named, limit: 3, duration: kHour });
  assert.equal(proxy.calls, 2);
  const got = (await overrides.getOverride(named)).data;
  assert.deepEqual([got.overrideId, got.limit], [data.overrideId, 3]);
});

test('a denial and an error of the client are not repeated', async () => {
  proxy.next();
  const denied = await unkey.ratelimit.limit({ ...asks('denied'), cost: 11 });
  assert.deepEqual([denied.data.success, proxy.calls], [false, 1]);
  proxy.next();
  const stranger = new Unkey({ serverURL: proxy.url, rootKey: 'nobody_knows_this_key_here' });
  const error = await errorOf(stranger.ratelimit.limit(asks('stranger')));
  assert.deepEqual([error.name, proxy.calls], ['UnauthorizedErrorResponse', 1]);
});

test('a client gives up when its time is over, and has the last status', async () => {
  proxy.next(...Array(1000).fill(502));
  const retries = {
    strategy: 'backoff',
    backoff: { initialInterval: 20, maxInterval: 50, exponent: 1, maxElapsedTime: 1000 },
  };
  const error = await errorOf(unkey.ratelimit.limit(asks('given up'), { retries }));
  assert.equal(error.statusCode, 502);
  assert.ok(proxy.calls > 1);
});

// A key of the catalog cannot be checked while a server that has not read it gets no answer from
// the database: 503 with Retry-After, which the clients wait for.
test('a call with a key of the catalog succeeds when the database is back', async () => {
  await installed;
  const start = () => startServer({ args: ['--ledger', database.url(), '--region', 'eu'] });
  const first = await start();
  const root = { Authorization: `Bearer ${kRootKey}` };
  const created = await fetch(`${first.url}/v2/keys.createKey`, {
    method: 'POST',
    headers: root,
    body: JSON.stringify({ name: 'a client', permissions: ['ratelimit.*.*'] }),
  });
  const { key } = (await created.json()).data;
  await first.stop();
  await mariadb.kill();
  const node = await start();
  const direct = { serverURL: node.url, rootKey: key };

  const hurried = new Unkey({ ...direct, retryConfig: { strategy: 'none' } });
  const error = await errorOf(hurried.ratelimit.limit(asks('a client')));
  assert.equal(error.statusCode, 503);
  assert.equal(error.headers.get('retry-after'), '1');
  assert.match(error.body, /the catalog does not answer/);

  const fallback = { success: true, limit: 0, remaining: 0, reset: 0 };
  const limiter = new Ratelimit({
    rootKey: key,
    baseUrl: node.url,
    namespace: 'retries',
    limit: 10,
    duration: '1h',
    timeout: { ms: 100, fallback },
  });
  assert.deepEqual(await limiter.limit('a client'), fallback);

  const patient = new Unkey({
    ...direct,
    retryConfig: {
      strategy: 'backoff',
      backoff: { initialInterval: 50, maxInterval: 1000, exponent: 1, maxElapsedTime: 60_000 },
      retryConnectionErrors: true,
    },
  });
  const answer = patient.ratelimit.limit(asks('a client'));
  await mariadb.start();
  const { data } = await answer;
  assert.equal(data.success, true);
  // The call of `limiter` went on after its timeout.
  await until('both calls', async () => {
    const { remaining } = (await patient.ratelimit.limit({ ...asks('a client'), cost: 0 })).data;
    return remaining === 8;
  });
  await node.stop();
});
