// What holds while the origin is lost is a choice.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { acquainted, kLongWindow, Origin, startNode, until, verdictOf } from './region.mjs';

const kNodes = 3;
const kLimit = 100;
const origin = new Origin();

before(() => origin.start());
after(() => origin.kill());

// Nodes of one policy; each test has its own, so that they are alone at the origin.
async function startRegion(policy) {
  const nodes = await Promise.all(
    Array.from({ length: kNodes }, () => startNode(origin.url, { args: ['--on-origin-loss', policy] })),
  );
  await acquainted(nodes);
  for (const { server } of nodes) {
    await until('the others only', async () => (await server.metric('weir_nodes')) === kNodes);
  }
  // All names were asked for since the last one came.
  await until('their places', async () => {
    const beats = nodes.map(({ server }) => server.metric('weir_origin_commands_total', 'nodes'));
    return (await Promise.all(beats)).every((count) => count > 12);
  });
  return nodes;
}

async function lose(nodes) {
  await origin.kill();
  for (const { server } of nodes) {
    await until('the loss', async () => (await server.metric('weir_origin_ready')) === 0);
  }
}

// How much all nodes together admit of a key when each is asked for more than the limit.
async function admitted(nodes, who) {
  let sum = 0;
  for (const node of nodes) {
    for (let i = 0; i < kLimit + 20; ++i) sum += (await node.limit(who, kLimit)).success;
  }
  return sum;
}

for (const [policy, most] of [
  ['local', kNodes * kLimit],
  ['deny', 0],
  ['share', kLimit],
]) {
  test(`${policy}: ${kNodes} nodes without their origin admit ${most} of ${kLimit}`, async () => {
    const nodes = await startRegion(policy);
    await lose(nodes);
    assert.equal(await admitted(nodes, `lost-${policy}`), most);
    const verdict = await nodes[0].limit(`lost-${policy}`, kLimit);
    assert.equal(verdict.success, 0);
    for (const { server } of nodes) {
      const said = /the origin redis:\/\/\S+ does not answer: .*; decisions use the counts in memory/;
      await until('it to be said', () => said.test(server.stderr));
    }
    await origin.start();
    for (const { server } of nodes) {
      await until('it to be said', () => /the origin redis:\/\/\S+ answers\n/.test(server.stderr));
    }
    await Promise.all(nodes.map((node) => node.stop()));
  });
}

test('share: what the origin had left is divided', async () => {
  const nodes = await startRegion('share');
  const who = 'half-used';
  // 40 are told by one node and known to all.
  assert.equal((await nodes[0].limit(who, kLimit, 40)).success, 1);
  const known = async (remaining) => {
    for (const node of nodes) {
      const left = async () => (await node.limit(who, kLimit, 0)).remaining;
      await until('all to know', async () => (await left()) === remaining);
    }
  };
  await known(60);
  for (const node of nodes) await node.limit(who, kLimit); // so that each has the key
  await known(57);
  await lose(nodes);
  for (const node of nodes) {
    const basis = async () => (await node.limit(who, kLimit, 0)).basis;
    await until('what is known to be too old', async () => (await basis()) === 'degraded');
  }
  assert.equal(await admitted(nodes, who), 57);
  await origin.start();
  await Promise.all(nodes.map((node) => node.stop()));
});

test('a request decided without the origin says when to ask again', async () => {
  const [node, ...others] = await startRegion('deny');
  await lose([node]);
  const verdict = verdictOf(await node.client.call('WEIR.LIMIT', 'api', 'again', kLimit, kLongWindow));
  assert.equal(verdict.success, 0);
  assert.equal(verdict.basis, 'degraded');
  assert.equal(verdict.remaining, 0);
  assert.ok(verdict.retry_after > 0 && verdict.retry_after <= 300, JSON.stringify(verdict));
  await origin.start();
  await Promise.all([node, ...others].map((each) => each.stop()));
});
