// Attacks on the bounds of a region: sequences of requests, chosen by the rules of the nodes, while
// Redis answers every call. region_bursts.test.mjs has the bursts that need no such knowledge.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { admittedOf, burst, byWindow, isStrict, Region, windowsOf, windowStart } from './bursts.mjs';
import { Proxy } from './proxy.mjs';
import { clientOf, kLongWindow, kUsualDeadline, lossesOf, rest, verdictOf } from './region.mjs';

const kMost = 100;
const kConverge = 1.25;

let near; // three nodes
let far; // Redis is 100 ms away
before(async () => {
  near = await Region.start(3, { readDeadline: kUsualDeadline });
  far = await Region.start(3, { delay: 50, readDeadline: kUsualDeadline });
  await Promise.all([near.settle(), far.settle()]);
});
after(() => Promise.all([near.stop(), far.stop()]));

let keys = 0;
const newKey = (duration, more = {}) => ({ identifier: `key-${++keys}`, most: kMost, duration, ...more });
const together = async (...bursts) => (await Promise.all(bursts)).flat();
const perWindow = (results) => [...byWindow(results).values()].map(admittedOf);

for (const [consistency, most] of [
  ['converge', kConverge * kMost],
  ['exact', kMost],
]) {
  // A request that waited too long is late, and Redis is not lost. On a machine that stalls it may be:
  // then each node admits a limit.
  test(`${consistency}: nodes keep the bound while Redis is half a second late`, async () => {
    const key = newKey(5000, { consistency });
    const results = [];
    const send = (count) => together(...near.nodes.map((node) => burst(node, key, count)));
    const losses = () => Promise.all(near.nodes.map(({ server }) => lossesOf(server)));
    const before = await losses();
    await windowStart(key.duration);
    results.push(...(await send(1)));
    await windowStart(key.duration);
    await near.origin.pause();
    const sent = [];
    for (const end = performance.now() + 500; performance.now() < end; ) {
      sent.push(send(20));
      await rest(20);
    }
    near.origin.resume();
    results.push(...(await Promise.all(sent)).flat());
    const lost = (await losses()).some((count, i) => count > before[i]);
    const bound = lost ? near.nodes.length * kMost : most;
    console.log(`${consistency}, Redis ${lost ? 'lost' : 'late'}: ${perWindow(results)} of ${kMost}`);
    for (const admitted of perWindow(results)) assert.ok(admitted <= bound, `${perWindow(results)}`);
  });

  // A batch whose first item is denied by the known counts waits for its second item. Meanwhile the next
  // window begins.
  test(`${consistency}: batches that wait over the end of a window keep the bound`, async () => {
    const key = newKey(2000, { consistency });
    const nodes = far.nodes.map((node) => ({
      node,
      clients: Array.from({ length: 60 }, () => clientOf(node.server)),
    }));
    for (const { clients } of nodes) await Promise.all(clients.map((client) => client.ping()));
    const item = (identifier) =>
      ['ITEM', 'api', identifier, kMost, key.duration, 'ALGORITHM', 'fixed_window'];
    const batch = async (node, client, i) => {
      const first = [...item(key.identifier), 'CONSISTENCY', consistency];
      const second = item(`${key.identifier}-${node.server.pid}-${i}-${Math.random()}`);
      const { success, limits } = verdictOf(await client.call('WEIR.MULTI', ...first, ...second));
      const { reset, basis } = verdictOf(limits[0]);
      return { node, cost: 1, success, reset, basis };
    };
    const results = [];
    const send = () => together(...far.nodes.map((node) => burst(node, key, kMost + 20)));
    let windows = [];
    const strict = () => windows.filter(isStrict(key.duration)).length;
    for (let i = 0; i < 15 && strict() < 2; ++i) {
      const start = await windowStart(key.duration);
      results.push(...(await send()));
      while (Date.now() < start + key.duration - 40) await rest(1);
      const batches = nodes.flatMap(({ node, clients }) =>
        clients.map((client, n) => batch(node, client, n)),
      );
      await windowStart(key.duration);
      results.push(...(await send()), ...(await Promise.all(batches)));
      windows = windowsOf(far, key, results);
    }
    for (const { clients } of nodes) for (const client of clients) client.disconnect();
    const shown = windows.map(({ admitted }) => admitted);
    console.log(`${consistency}, batches: ${shown} of ${kMost}`);
    assert.ok(strict() >= 2, `too few windows: ${JSON.stringify(windows)}`);
    for (const [i, window] of windows.entries()) {
      const bound = isStrict(key.duration)(window, i, windows) ? kMost : most;
      assert.ok(!window.isClean || window.admitted <= bound, `${shown}`);
    }
  });
}

test('a denied batch consumes nothing at other nodes', async () => {
  const [a, b] = near.nodes;
  const key = newKey(kLongWindow);
  const used = newKey(kLongWindow);
  const item = ({ identifier }, cost) =>
    ['api', identifier, kMost, kLongWindow, 'ALGORITHM', 'fixed_window', 'COST', cost];
  assert.equal(verdictOf(await b.client.call('WEIR.LIMIT', ...item(used, kMost))).success, 1);
  const batch = ['WEIR.MULTI', 'ITEM', ...item(key, kMost), 'ITEM', ...item(used, 1)];
  assert.equal(verdictOf(await a.client.call(...batch)).success, 0);
  assert.equal(verdictOf(await b.client.call('WEIR.LIMIT', ...item(key, 1))).success, 1);
});

// In the second window both nodes learn that the limit is used up without a refusal by Redis.
test('a window is exact if every node was refused in the one before', async () => {
  const [a, b] = near.nodes;
  const key = newKey(5000);
  const half = { ...key, cost: kMost / 2 };
  const results = [];
  const send = async (...bursts) => results.push(...(await together(...bursts)));
  await windowStart(key.duration);
  await send(burst(a, key, 120), burst(b, key, 120));
  await windowStart(key.duration);
  await send(burst(a, half, 1));
  await send(burst(b, half, 1));
  await rest(700); // until the counts are stale, and a peek reads them
  await send(burst(a, { ...key, cost: 0 }, 1));
  await send(burst(a, key, 120), burst(b, key, 120));
  await windowStart(key.duration);
  await send(burst(a, key, 1), burst(b, key, 1));
  await send(burst(a, key, 8), burst(b, key, 120));
  await send(burst(a, key, 120));
  console.log(`after local refusals: ${perWindow(results)} of ${kMost}`);
  assert.equal(perWindow(results).at(-1), kMost);
});

// A node that gets exactly the limit and wins all of it sees no refusal, unless it reads Redis later.
test('a window is exact if every node got the whole limit in the one before', async () => {
  const [a, b, c] = near.nodes;
  const results = [];
  for (let i = 0; i < 3; ++i) {
    const key = newKey(2000);
    const send = async (...bursts) => results.push(...(await together(...bursts)));
    await windowStart(key.duration);
    await send(burst(a, { ...key, cost: kMost }, 1));
    await send(burst(b, key, kMost), burst(c, key, kMost));
    await windowStart(key.duration);
    await send(burst(a, key, 8), burst(b, key, kMost), burst(c, key, kMost));
    await send(burst(a, key, kMost));
  }
  console.log(`a node that wins all: ${perWindow(results)} of ${kMost}`);
  for (const admitted of perWindow(results)) assert.equal(admitted, kMost);
});

// Redis answers one node promptly, and another one too late.
// An answer that is only late is decided by the allowance, also in exact mode.
test('exact: a node whose answers are late admits no more than its allowance', async () => {
  const proxy = await Proxy.to(near.origin.port);
  const late = await near.add(proxy.url);
  const prompt = near.nodes[0];
  try {
    await near.settle();
    const key = newKey(5000, { consistency: 'exact' });
    await windowStart(key.duration);
    await rest(key.duration / 2);
    const results = await together(burst(late, key, 1), burst(prompt, key, 1));
    await windowStart(key.duration);
    proxy.holdReplies();
    results.push(...(await together(burst(late, key, 30), burst(prompt, key, kMost + 20))));
    console.log(`exact, one node is late: ${perWindow(results)} of ${kMost}`);
    for (const admitted of perWindow(results)) assert.ok(admitted <= 1.25 * kMost, `${perWindow(results)}`);
  } finally {
    proxy.releaseReplies();
    near.nodes.splice(near.nodes.indexOf(late), 1);
    await late.stop();
    proxy.close();
  }
});

// It answers before it is connected to Redis, and /readyz says that it is ready.
test('a node that has just started keeps the bound of its region', async () => {
  const key = newKey(kLongWindow);
  const results = await together(...near.nodes.map((node) => burst(node, key, kMost + 20)));
  const joining = await near.add();
  assert.equal((await fetch(`${joining.server.url}/readyz`)).status, 200);
  results.push(...(await burst(joining, key, kMost + 20)));
  console.log(`a node that has just started: ${admittedOf(results)} of ${kMost}`);
  assert.ok(admittedOf(results) <= kConverge * kMost, `${admittedOf(results)}`);
});
