// The promise of README.md on batches, with two processes and a real redis-server: several limits in one
// call, all or nothing; a denied batch consumes nothing, whoever decides its items.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { isDegraded, Region } from './bursts.mjs';
import { kLongWindow, verdictOf } from './region.mjs';

const kMost = 100;
const algorithms = [
  'fixed_window',
  'sliding_window',
  'sliding_window_strict',
  'sliding_log',
  'gcra',
  'token_bucket',
];

let region;
before(async () => {
  region = await Region.start(2);
  await region.settle();
});
after(() => region.stop());

let keys = 0;
const newKey = (algorithm, consistency) => ({ identifier: `batch-${++keys}`, algorithm, consistency });
const wordsOf = ({ identifier, algorithm, consistency }, cost) => [
  ...['api', identifier, kMost, kLongWindow, 'ALGORITHM', algorithm, 'COST', cost],
  ...['CONSISTENCY', consistency],
];
const limit = async ({ client }, key, cost) =>
  verdictOf(await client.call('WEIR.LIMIT', ...wordsOf(key, cost)));
const exact = (node, key, cost) => limit(node, { ...key, consistency: 'exact' }, cost);

// A batch of [key, cost]; its own answer and those of its items.
async function multi({ client }, ...items) {
  const words = items.flatMap(([key, cost]) => ['ITEM', ...wordsOf(key, cost)]);
  const { success, limits } = verdictOf(await client.call('WEIR.MULTI', ...words));
  return [{ success }, ...limits.map(verdictOf)];
}

// The successes of what `send` sends, again with new keys if an answer of Redis was late.
async function successes(send) {
  for (;;) {
    const results = await send();
    if (!results.some(isDegraded)) return results.map(({ success }) => success);
  }
}

for (const algorithm of algorithms) {
  test(`an admitted batch with ${algorithm} consumes all its items`, async () => {
    const [a, b] = region.nodes;
    const results = await successes(async () => {
      const [one, other] = [newKey(algorithm, 'exact'), newKey('fixed_window', 'exact')];
      const batch = await multi(a, [one, 40], [other, 40]);
      const rest = [];
      for (const key of [one, other]) rest.push(await limit(b, key, 61), await limit(b, key, 60));
      return [...batch, ...rest];
    });
    assert.deepEqual(results, [1, 1, 1, 0, 1, 0, 1]);
  });
}

for (const consistency of ['converge', 'exact']) {
  for (const refusing of algorithms) {
    test(`${consistency}: a batch that Redis denies by ${refusing} consumes nothing`, async () => {
      const [a, b] = region.nodes;
      for (const algorithm of algorithms) {
        const results = await successes(async () => {
          const [used, other] = [newKey(refusing, consistency), newKey(algorithm, consistency)];
          const full = await exact(b, used, kMost);
          const batch = await multi(a, [other, 60], [used, 1]);
          return [full, ...batch, await exact(b, other, kMost)];
        });
        // Before the batch; the batch and its items; the whole limit of the other item after it.
        assert.deepEqual(results, [1, 0, 1, 0, 1], algorithm);
      }
    });

    test(`${consistency}: a batch that the process denies by ${refusing} consumes nothing`, async () => {
      const [a, b] = region.nodes;
      for (const algorithm of algorithms) {
        const results = await successes(async () => {
          const [used, other] = [newKey(refusing, 'relaxed'), newKey(algorithm, consistency)];
          const full = await limit(a, used, kMost);
          const batches = [];
          // Redis decides none of them, so an item may report what the process knows.
          for (let i = 0; i < 10; ++i) batches.push(...(await multi(a, [other, 10], [used, 1])));
          const basis = 'local';
          return [full, ...batches.map(({ success }) => ({ success, basis })), await exact(b, other, kMost)];
        });
        assert.deepEqual(results, [1, ...Array(10).fill([0, 1, 0]).flat(), 1], algorithm);
      }
    });
  }
}
