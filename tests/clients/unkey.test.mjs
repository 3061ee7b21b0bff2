// The published packages @unkey/api and @unkey/ratelimit, unchanged but for the address and the
// key.

import { Unkey } from '@unkey/api';
import { Overrides, Ratelimit } from '@unkey/ratelimit';
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { errorOf, kRootKey, startServer } from './server.mjs';

const kHour = 3_600_000; // ms
let server, unkey;
before(async () => {
  server = await startServer();
  unkey = new Unkey({ serverURL: server.url, rootKey: kRootKey });
});
after(() => server.stop());

test('limit admits, denies and counts costs', async () => {
  const request = { namespace: 'first', identifier: 'alice', limit: 5, duration: kHour };
  const { data } = await unkey.ratelimit.limit({ ...request, cost: 3 });
  assert.deepEqual([data.success, data.remaining, data.limit], [true, 2, 5]);
  assert.equal(data.overrideId, undefined);
  assert.equal((await unkey.ratelimit.limit({ ...request, cost: 3 })).data.success, false);
  assert.equal((await unkey.ratelimit.limit({ ...request, cost: 2 })).data.success, true);
});

test('Ratelimit admits and denies', async () => {
  const limiter = new Ratelimit({
    rootKey: kRootKey,
    baseUrl: server.url,
    namespace: 'second',
    limit: 2,
    duration: '1h',
  });
  assert.deepEqual(
    [
      (await limiter.limit('bob')).success,
      (await limiter.limit('bob')).success,
      (await limiter.limit('bob')).success,
    ],
    [true, true, false],
  );
});

test('an override is set, applied, read, listed, changed, deleted and set again', async () => {
  const overrides = new Overrides({ rootKey: kRootKey, baseUrl: server.url });
  const named = { namespace: 'third', identifier: 'customer-7' };
  const ask = async () =>
    (await unkey.ratelimit.limit({ ...named, limit: 2, duration: kHour })).data;
  assert.equal((await ask()).remaining, 1);

  const set = await overrides.setOverride({ ...named, limit: 10, duration: kHour });
  const { overrideId } = set.data;
  assert.match(overrideId, /^rlor_/);
  let data = await ask();
  assert.deepEqual([data.limit, data.remaining, data.overrideId], [10, 8, overrideId], 'no reset');

  const got = (await overrides.getOverride(named)).data;
  assert.deepEqual(
    [got.overrideId, got.identifier, got.limit, got.duration],
    [overrideId, 'customer-7', 10, kHour],
  );
  await overrides.setOverride({ ...named, limit: 1, duration: kHour });
  data = await ask();
  assert.deepEqual([data.success, data.limit], [false, 1], 'what was consumed still counts');

  await overrides.deleteOverride(named);
  data = await ask();
  assert.deepEqual([data.limit, data.overrideId, data.success], [2, undefined, false]);
  assert.equal((await errorOf(overrides.getOverride(named))).name, 'NotFoundErrorResponse');
  assert.equal((await errorOf(overrides.deleteOverride(named))).name, 'NotFoundErrorResponse');

  await overrides.setOverride({ ...named, limit: 7, duration: kHour });
  assert.equal((await ask()).limit, 7);
});

test('an override with limit 0 denies everything', async () => {
  const named = { namespace: 'zero', identifier: 'blocked' };
  await unkey.ratelimit.setOverride({ ...named, limit: 0, duration: kHour });
  const { data } = await unkey.ratelimit.limit({ ...named, limit: 100, duration: kHour });
  assert.deepEqual([data.success, data.limit, data.remaining], [false, 0, 0]);
  const batch = await unkey.ratelimit.multiLimit([
    { ...named, limit: 100, duration: kHour },
    { namespace: 'zero', identifier: 'other', limit: 5, duration: kHour },
  ]);
  assert.equal(batch.data.passed, false);
  assert.deepEqual(
    batch.data.limits.map((item) => [item.passed, item.limit, item.remaining]),
    [
      [false, 0, 0],
      [true, 5, 5],
    ],
  );
});

test('the most specific wildcard wins, and an exact identifier before it', async () => {
  const limits = { '*': 1, 'team-*': 2, 'team-*-admin': 3, 'team-7-admin': 4, '*ü\n*': 5 };
  for (const [identifier, limit] of Object.entries(limits)) {
    await unkey.ratelimit.setOverride({ namespace: 'wild', identifier, limit, duration: kHour });
  }
  const limitOf = async (identifier) =>
    (await unkey.ratelimit.limit({ namespace: 'wild', identifier, limit: 99, duration: kHour }))
      .data.limit;
  assert.equal(await limitOf('alice'), 1);
  assert.equal(await limitOf('team-8'), 2);
  assert.equal(await limitOf('team-8-admin'), 3);
  assert.equal(await limitOf('team-7-admin'), 4);
  assert.equal(await limitOf('fünf ü\n'), 5);
});

test('overrides are listed page by page', async () => {
  for (let i = 0; i < 25; ++i) {
    await unkey.ratelimit.setOverride({
      namespace: 'pages',
      identifier: `customer ${i}`,
      limit: i,
      duration: 1000,
    });
  }
  const seen = [];
  let pages = 0;
  for await (const page of await unkey.ratelimit.listOverrides({ namespace: 'pages', limit: 10 })) {
    ++pages;
    for (const each of page.result?.data ?? page.data) seen.push(each.identifier);
  }
  assert.equal(pages, 3);
  assert.equal(new Set(seen).size, 25);
});

test('multiLimit is all or nothing and reports overrides', async () => {
  await unkey.ratelimit.setOverride({
    namespace: 'batch',
    identifier: 'b',
    limit: 1,
    duration: kHour,
  });
  const items = ['a', 'b'].map((identifier) => ({
    namespace: 'batch',
    identifier,
    limit: 5,
    duration: kHour,
  }));
  const first = (await unkey.ratelimit.multiLimit(items)).data;
  assert.equal(first.passed, true);
  assert.deepEqual(
    first.limits.map((item) => typeof item.overrideId),
    ['undefined', 'string'],
  );
  const second = (await unkey.ratelimit.multiLimit(items)).data;
  assert.equal(second.passed, false);
  assert.equal(second.limits[0].remaining, 4, 'nothing was consumed');
});

test('a wrong key, a wrong body and an unknown namespace are errors of the client', async () => {
  const stranger = new Unkey({ serverURL: server.url, rootKey: 'nobody_knows_this_key_here' });
  const request = { namespace: 'first', identifier: 'alice', limit: 5, duration: kHour };
  assert.equal(
    (await errorOf(stranger.ratelimit.limit(request))).name,
    'UnauthorizedErrorResponse',
  );
  const bad = await errorOf(unkey.ratelimit.setOverride({ ...request, duration: 10 }));
  assert.equal(bad.name, 'BadRequestErrorResponse');
  assert.match(bad.error.detail, /duration is 10/);
  const missing = await errorOf(
    unkey.ratelimit.getOverride({ namespace: 'never used', identifier: 'x' }),
  );
  assert.equal(missing.name, 'NotFoundErrorResponse');
});
