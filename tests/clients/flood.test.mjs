// The README promises: a flood of new keys does not release a client that has reached its limit, and does
// not affect other namespaces. Three nodes with small tables share one Redis; the flood fills the tables
// with keys at their limits, which no node evicts.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { kLongWindow, Origin, startNode, untilConnected, verdictOf } from './region.mjs';

const kNodes = 3;
const kCapacity = 1024;
const kFlood = 8 * kCapacity; // keys on each node
const kMost = 100;
const kAllowances = 1.25; // `converge` in a burst

const cases = ['fixed_window', 'sliding_window'].flatMap((algorithm) =>
  ['exact', 'converge'].map((consistency) => ({ algorithm, consistency })),
);
const nameOf = ({ algorithm, consistency }) => `${algorithm}, ${consistency}`;

const origin = new Origin();
let nodes;

// Sends requests in one pipeline; returns the verdicts.
async function send(node, requests) {
  const pipeline = node.client.pipeline();
  for (const { ns = 'api', identifier, most = kMost, algorithm, consistency, cost = 1 } of requests) {
    const words = [ns, identifier, most, kLongWindow, 'ALGORITHM', algorithm, 'COST', cost];
    pipeline.call('WEIR.LIMIT', ...words, 'CONSISTENCY', consistency);
  }
  const replies = await pipeline.exec();
  return replies.map(([error, reply]) => {
    assert.equal(error, null);
    return verdictOf(reply);
  });
}
const times = (count, request) => Array(count).fill(request);
const admitted = (verdicts) => verdicts.filter(({ success }) => success === 1).length;

before(async () => {
  await origin.start();
  const args = ['--capacity', String(kCapacity)];
  nodes = await Promise.all(Array.from({ length: kNodes }, () => startNode(origin.url, { args })));
  await untilConnected(nodes);
  // Some clients reach their limits, on one node.
  for (const each of cases) {
    const client = { identifier: `at-its-limit-${nameOf(each)}`, ...each, cost: kMost };
    assert.equal(admitted(await send(nodes[0], [client])), 1);
  }
  for (const [i, node] of nodes.entries()) {
    for (let from = 0; from < kFlood; from += kCapacity) {
      const keys = Array.from({ length: kCapacity }, (_, key) => ({
        ns: 'flooded',
        identifier: `${i}-${from + key}`,
        most: 1,
        algorithm: 'fixed_window',
        consistency: 'converge',
      }));
      await send(node, keys);
    }
    const held = await node.server.metric('weir_cells');
    assert.ok(held >= kCapacity, `the table has ${held} tuples`);
  }
});
after(async () => {
  await Promise.all(nodes.map((node) => node.stop()));
  await origin.kill();
});

for (const each of cases) {
  test(`a flood of new keys does not release a client that has reached its limit: ${nameOf(each)}`, async () => {
    const client = { identifier: `at-its-limit-${nameOf(each)}`, ...each };
    const verdicts = await Promise.all(nodes.map((node) => send(node, times(kMost, client))));
    assert.deepEqual(verdicts.map(admitted), times(kNodes, 0));
    for (const verdict of verdicts.flat()) assert.equal(verdict.remaining, 0);
  });

  test(`a flood of new keys does not affect a new client of another namespace: ${nameOf(each)}`, async () => {
    const client = { identifier: `new-${nameOf(each)}`, ...each };
    const one = await send(nodes[0], times(20, client));
    assert.equal(admitted(one), 20);
    const rest = await Promise.all(nodes.map((node) => send(node, times(kMost, client))));
    const sum = 20 + admitted(rest.flat());
    const most = each.consistency === 'exact' ? kMost : kAllowances * kMost;
    assert.ok(sum >= kMost && sum <= most, `${sum} of ${kMost}`);
    for (const node of nodes) assert.equal(admitted(await send(node, [client])), 0);
  });
}
