// The policies for a lost origin.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { untilConnected, kLongWindow, kUsualDeadline, Origin, startNode, until, verdictOf } from './region.mjs';

const kNodes = 3;
const kLimit = 100;
const origin = new Origin();

before(() => origin.start());
after(() => origin.kill());

// Nodes of one policy; each test has its own nodes, so that no others use the origin.
async function startRegion(policy) {
  const nodes = await Promise.all(
    Array.from({ length: kNodes }, () => startNode(origin.url, { args: ['--on-origin-loss', policy], readDeadline: kUsualDeadline })),
  );
  await untilConnected(nodes);
  for (const { server } of nodes) {
    await until('the others only', async () => (await server.metric('weir_nodes')) === kNodes);
  }
  // All nodes have sent a heartbeat since the last one started.
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

// The admissions of all nodes for a key when each gets requests above the limit.
async function admitted(nodes, identifier) {
  let sum = 0;
  for (const node of nodes) {
    for (let i = 0; i < kLimit + 20; ++i) sum += (await node.limit(identifier, kLimit)).success;
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
      const logLine = /the origin redis:\/\/\S+ does not answer: .*; decisions use the counts in memory/;
      await until('it to be logLine', () => logLine.test(server.stderr));
    }
    await origin.start();
    for (const { server } of nodes) {
      await until('it to be logLine', () => /the origin redis:\/\/\S+ answers\n/.test(server.stderr));
    }
    await Promise.all(nodes.map((node) => node.stop()));
  });
}

test('share: the remaining units of the origin are divided', async () => {
  const nodes = await startRegion('share');
  const identifier = 'half-used';
  // One node replays 40 units, and all nodes read them.
  assert.equal((await nodes[0].limit(identifier, kLimit, 40)).success, 1);
  const known = async (remaining) => {
    for (const node of nodes) {
      const left = async () => (await node.limit(identifier, kLimit, 0)).remaining;
      await until('all to know', async () => (await left()) === remaining);
    }
  };
  await known(60);
  for (const node of nodes) await node.limit(identifier, kLimit); // so that each has the key
  await known(57);
  await lose(nodes);
  for (const node of nodes) {
    const basis = async () => (await node.limit(identifier, kLimit, 0)).basis;
    await until('what is known to be too old', async () => (await basis()) === 'degraded');
  }
  assert.equal(await admitted(nodes, identifier), 57);
  await origin.start();
  await Promise.all(nodes.map((node) => node.stop()));
});

test('a request decided without the origin has a retry time', async () => {
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
