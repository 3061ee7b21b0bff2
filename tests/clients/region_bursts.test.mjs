// Bursts on all nodes of a region: what the region admits in each window, with real processes and Redis.
//
// A verdict names the end of its window, so a burst that straddles a boundary is counted right. The
// bounds hold while Redis answers. A window with a degraded verdict proves nothing about them: the
// machine stalled. Such windows are printed with `*`, and bursts go on until enough others were seen.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { admittedOf, burst, isStrict, post, Region, report, windowsOf, windowStart } from './bursts.mjs';
import { kLongWindow, rest, verdictOf } from './region.mjs';
import { kRootKey } from './server.mjs';

const kDuration = 2000; // ms; nodes use their allowance in the first tenth
const kWindows = 6;
const kMostWindows = 90; // on a machine that stalls
const kConverge = 1.25;

const policies = ['local', 'share', 'deny'];
const regions = {};
before(async () => {
  const plans = {
    three: [3],
    four: [4],
    six: [6],
    far: [3, { delay: 25 }],
    exact: [3, { args: ['--consistency', 'exact'] }],
    growing: [1],
  };
  for (const policy of policies) plans[policy] = [3, { args: ['--on-origin-loss', policy] }];
  for (const [name, plan] of Object.entries(plans)) regions[name] = await Region.start(...plan);
  await Promise.all(Object.values(regions).map((region) => region.settle()));
});
after(() => Promise.all(Object.values(regions).map((region) => region.stop())));

let keys = 0;
const newKey = (most, more = {}) => ({
  identifier: `key-${++keys}`,
  most,
  duration: kDuration,
  ...more,
});

const shown = (windows) => windows.map(({ admitted, isClean }) => `${admitted}${isClean ? '' : '*'}`);
const details = (windows) => windows.map(({ detail }) => JSON.stringify(detail)).join('\n');
const largest = (windows) =>
  Math.max(0, ...windows.map(({ admitted, isClean }) => (isClean ? admitted : 0)));
const row = (name, key, windows) => ({
  name,
  most: key.most,
  admitted: shown(windows),
  largest: largest(windows),
});

// Sends one request to every node, so that each knows the key and uses its allowance in the first burst.
// Then sends more than the limit to every node at each window start, until enough windows could be
// checked.
async function burstEveryWindow(region, key, { send = burst, strict = kWindows - 1 } = {}) {
  const results = [];
  let windows = [];
  await windowStart(key.duration);
  await rest(key.duration / 2);
  for (const node of region.nodes) await send(node, key, 1);
  for (let i = 0; i < kMostWindows && windows.filter(isStrict(key.duration)).length < strict; ++i) {
    await windowStart(key.duration);
    const count = key.most + Math.max(3, Math.ceil(key.most / 5));
    results.push(...(await Promise.all(region.nodes.map((node) => send(node, key, count)))).flat());
    windows = windowsOf(region, key, results);
  }
  return windows;
}

// `first`: the largest part of the limit in a window that does not follow a refusal.
function assertBound(key, windows, { first = kConverge, strict = kWindows - 1 } = {}) {
  const text = `${JSON.stringify(key)}: ${shown(windows)}`;
  assert.ok(windows.filter(isStrict(key.duration)).length >= strict, `too few windows: ${text}`);
  for (const [i, window] of windows.entries()) {
    if (!window.isClean) continue;
    assert.ok(window.admitted <= first * key.most, text);
    if (!isStrict(key.duration)(window, i, windows)) continue;
    // A sliding window also counts the last one.
    if (key.algorithm === 'sliding_window') assert.ok(window.admitted <= key.most, text);
    else assert.equal(window.admitted, key.most, `${text}\n${details(windows.slice(i - 1, i + 1))}`);
  }
}

// The same through HTTP.
const limit = (node, body) =>
  post(node, '/v2/ratelimit.limit', kRootKey, { namespace: 'api', algorithm: 'fixed_window', ...body });
function burstByHttp(node, { identifier, most, duration, consistency }, count) {
  const body = { identifier, limit: most, duration, consistency };
  const send = async () => {
    const { data, error } = await limit(node, body);
    if (!data) return { node, error: JSON.stringify(error) };
    return { node, cost: 1, success: data.success, reset: data.reset, basis: data.basis };
  };
  return Promise.all(Array.from({ length: count }, send));
}

describe('in every window', { concurrency: true }, () => {
  const cases = [
    ['3 nodes', 'three', newKey(100)],
    ['3 nodes, sliding_window', 'three', newKey(100, { algorithm: 'sliding_window' })],
    ['6 nodes', 'six', newKey(100)],
    ['6 nodes, sliding_window', 'six', newKey(100, { algorithm: 'sliding_window' })],
    ['4 nodes', 'four', newKey(80)],
    ['4 nodes, a limit below 8 for each', 'four', newKey(2), 1],
    ['3 nodes, Redis 50 ms away', 'far', newKey(100)],
    ['3 nodes, exact by RESP', 'three', newKey(100, { consistency: 'exact' }), 1],
    ['3 nodes, exact by setting', 'exact', newKey(100), 1],
    ['6 nodes, exact by HTTP', 'six', newKey(60, { consistency: 'exact' }), 1, burstByHttp],
  ];
  for (const [name, place, key, first, send] of cases) {
    test(`a burst on all nodes keeps its bound: ${name}`, async () => {
      const windows = await burstEveryWindow(regions[place], key, { send });
      report('bursts', [row(name, key, windows)]);
      assertBound(key, windows, { first });
    });
  }

  // Each window has a new key, which the nodes know: a refusal in the last window would make it exact.
  test('a burst keeps its bound while nodes join one by one', async () => {
    const region = regions.growing;
    const windows = [];
    for (let i = 0; i < 2 * kWindows; ++i) {
      const key = newKey(100);
      const results = [];
      const send = async (nodes, count) =>
        results.push(...(await Promise.all(nodes.map((node) => burst(node, key, count)))).flat());
      const known = [...region.nodes];
      await send(known, 1);
      await windowStart(kDuration);
      const join = i % 2 === 1 && known.length < 5 ? region.add() : undefined;
      for (let part = 0; part < 3; ++part) await send(known, 40);
      await (await join)?.ready(); // as a load balancer does
      await send(region.nodes, 40);
      const all = windowsOf(region, key, results);
      windows.push(...all.slice(1));
    }
    report('joining nodes', [row(`1 to ${region.nodes.length} nodes`, { most: 100 }, windows)]);
    assert.equal(region.nodes.length, 5);
    for (const { admitted, isClean } of windows) {
      assert.ok(!isClean || admitted <= kConverge * 100, `${shown(windows)}`);
    }
  });

  const lossBound = { local: 3, share: kConverge + 1, deny: kConverge };
  for (const policy of policies) {
    test(`no request fails when Redis is killed in a burst; the bound of ${policy} holds`, async () => {
      const region = regions[policy];
      const { origin, nodes } = region;
      const key = newKey(100, { duration: 5000 });
      const results = [];
      const send = async () =>
        results.push(...(await Promise.all(nodes.map((node) => burst(node, key, 40)))).flat());
      await windowStart(key.duration);
      await send();
      await windowStart(key.duration);
      const first = send();
      const killed = origin.kill();
      await Promise.all([first, send(), send()]);
      await killed;
      for (let i = 0; i < 5; ++i) {
        await rest(100);
        await send();
      }
      await origin.start();
      await Promise.all(nodes.map((node) => node.ready()));
      const windows = windowsOf(region, key, results);
      const later = newKey(100);
      const exact = await burstEveryWindow(region, later, { strict: 2 });
      const admitted = windows.map((window) => window.admitted);
      report('Redis killed', [
        { name: `${policy}, Redis killed`, most: 100, admitted, largest: Math.max(...admitted) },
        row(`${policy}, after the restart`, later, exact),
      ]);
      assert.ok(Math.max(...admitted) <= lossBound[policy] * key.most, `${admitted}`);
      assertBound(later, exact, { strict: 2 });
    });
  }
});

test('a node that was stopped with an allowance does not exceed the bound', async () => {
  const { nodes } = regions.three;
  const rows = [];
  for (const used of [0, 40, 80]) {
    const key = newKey(1000, { duration: kLongWindow });
    const [a, b, stopped] = nodes;
    const results = [];
    const send = async (node, count) => results.push(...(await burst(node, key, count)));
    for (const node of nodes) await send(node, 1);
    await send(stopped, used);
    await stopped.freeze();
    await Promise.all([send(a, 1200), send(b, 1200)]);
    stopped.thaw();
    await send(stopped, 1200);
    const admitted = admittedOf(results);
    const name = `${used} used before the stop`;
    rows.push({ name, most: key.most, admitted: [admitted], largest: admitted });
    assert.ok(results.every(({ error }) => error === undefined));
    if (results.some(({ node, basis }) => node !== stopped && basis === 'degraded')) continue;
    assert.ok(admitted >= key.most && admitted <= kConverge * key.most, `${admitted} of ${key.most}`);
  }
  report('a stopped node', rows);
});

test('relaxed: a limit for each node, and a warm key does not wait for Redis', async () => {
  const { nodes, origin } = regions.three;
  const key = newKey(100, { consistency: 'relaxed' });
  const results = [];
  for (let i = 0; i < 3; ++i) {
    await windowStart(kDuration);
    results.push(...(await Promise.all(nodes.map((node) => burst(node, key, 120)))).flat());
  }
  const windows = windowsOf(regions.three, key, results);
  report('relaxed', [row('3 nodes', key, windows)]);
  for (const { admitted } of windows) assert.ok(admitted <= nodes.length * key.most, `${admitted}`);

  const warm = newKey(1_000_000, { duration: kLongWindow, consistency: 'relaxed' });
  const all = async (count) => (await Promise.all(nodes.map((node) => burst(node, warm, count)))).flat();
  await all(1);
  await origin.pause();
  try {
    for (const { success, basis } of await all(50)) {
      assert.deepEqual({ success, basis }, { success: 1, basis: 'local' });
    }
  } finally {
    origin.resume();
  }
});

test('an invalid consistency is an error, and nothing is charged', async () => {
  const [node] = regions.four.nodes;
  const key = ['api', 'invalid', 10, kLongWindow];
  for (const wrong of ['strong', 'EXACTLY', '', '1']) {
    await assert.rejects(
      node.client.call('WEIR.LIMIT', ...key, 'CONSISTENCY', wrong),
      /CONSISTENCY is .*: use converge, exact or relaxed/,
    );
  }
  await assert.rejects(node.client.call('WEIR.LIMIT', ...key, 'CONSISTENCY'));
  await assert.rejects(
    node.client.call('WEIR.LIMIT', ...key, 'CONSISTENCY', 'exact', 'CONSISTENCY', 'exact'),
    /CONSISTENCY/,
  );
  const body = { identifier: 'invalid', limit: 10, duration: kLongWindow, algorithm: 'sliding_window' };
  for (const consistency of ['strong', '', 1, null, ['exact']]) {
    const answer = await limit(node, { ...body, consistency });
    assert.equal(answer.status, 400, JSON.stringify(answer));
    assert.match(JSON.stringify(answer.error), /body.consistency.*choose converge, exact or relaxed/);
  }
  // A burst that Redis cannot drain exactly.
  const rare = { algorithm: 'gcra', limit: 1, burst: 2_000_000 };
  const gcra = await limit(node, { ...body, ...rare, consistency: 'exact' });
  assert.equal(gcra.status, 400, JSON.stringify(gcra));
  assert.match(JSON.stringify(gcra.error), /leave the consistency exact out/);
  assert.equal(verdictOf(await node.client.call('WEIR.PEEK', ...key)).remaining, 10);
});
