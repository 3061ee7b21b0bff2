// An override, or a default of a namespace, with another duration changes nothing of what was
// consumed: two nodes with one MariaDB and one Redis, and two regions without Redis.
//
// The durations are so long that nothing expires or drains.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { cleanRun, isDegraded } from './bursts.mjs';
import { MariaDb } from './mariadb.mjs';
import { kLongWindow, Origin, startNode, until, untilConnected, verdictOf } from './region.mjs';
import { kRootKey, startServer } from './server.mjs';

const kHour = 3_600_000; // ms
const kLimit = 100;
// Its current window does not end during a test either.
const kShorter = [40, 37, 31].map((h) => h * kHour).find((ms) => ms - (Date.now() % ms) > kHour);
const algorithms = [
  'fixed_window',
  'sliding_window',
  'sliding_window_strict',
  'sliding_log',
  'gcra',
  'token_bucket',
];

const mariadb = new MariaDb();
const origin = new Origin();
let database;
let nodes;
before(async () => {
  await mariadb.install();
  database = await mariadb.ledger();
  await origin.start();
  const args = ['--ledger', database.url(), '--region', 'eu'];
  nodes = await Promise.all([startNode(origin.url, { args }), startNode(origin.url, { args })]);
  await untilConnected(nodes);
});
after(async () => {
  for (const node of nodes ?? []) await node.stop('SIGTERM');
  await origin.kill();
  await mariadb.stop();
});

async function call(node, path, body) {
  const response = await fetch(`${node.server.url}/v2/${path}`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${kRootKey}` },
    body: JSON.stringify(body),
  });
  return { status: response.status, ...(await response.json()) };
}
async function ok(node, path, body) {
  const answer = await call(node, path, body);
  assert.equal(answer.status, 200, JSON.stringify(answer.error));
  return answer.data;
}
// What a client sends does not count: the namespace has values.
const words = (ns, identifier) => [ns, identifier, 1, kHour];
async function limit(node, ns, identifier, cost = 1) {
  return verdictOf(await node.client.call('WEIR.LIMIT', ...words(ns, identifier), 'COST', cost));
}
async function peek(node, ns, identifier) {
  return verdictOf(await node.client.call('WEIR.PEEK', ...words(ns, identifier)));
}
// All nodes at once, `count` each.
async function admittedBy(ns, identifier, count) {
  const all = await Promise.all(
    nodes.flatMap((node) => Array.from({ length: count }, () => limit(node, ns, identifier))),
  );
  return { admitted: all.filter(({ success }) => success === 1).length, all };
}

class Degraded extends Error {}
function clean(...verdicts) {
  if (verdicts.flat().some(isDegraded)) throw new Degraded('a verdict is degraded');
}
let names = 0;
// Runs a test body with a new name until no verdict was degraded.
function inCleanRun(body) {
  return cleanRun(async () => {
    try {
      await body(`ns-${++names}`);
      return [];
    } catch (error) {
      if (!(error instanceof Degraded)) throw error;
      return [{ basis: 'degraded' }];
    }
  });
}
async function createNamespace(ns, values) {
  await ok(nodes[0], 'ratelimit.createNamespace', { name: ns, consistency: 'exact', ...values });
  await until('the namespace', async () => {
    const found = await call(nodes[1], 'ratelimit.getNamespace', { namespace: ns });
    return found.status === 200;
  });
}
const onAll = async (what, condition) => {
  for (const node of nodes) await until(what, () => condition(node));
};
async function setOverride(node, ns, identifier, duration) {
  await ok(node, 'ratelimit.setOverride', { namespace: ns, identifier, limit: kLimit, duration });
  await onAll('the override', async (each) => {
    const found = await call(each, 'ratelimit.getOverride', { namespace: ns, identifier });
    return found.status === 200 && found.data.duration === duration;
  });
}
async function deleteOverride(node, ns, identifier) {
  await ok(node, 'ratelimit.deleteOverride', { namespace: ns, identifier });
  await onAll('its end', async (each) =>
    (await call(each, 'ratelimit.getOverride', { namespace: ns, identifier })).status === 404,
  );
}
async function useHalf(ns, identifier) {
  const [first, second] = nodes;
  const used = [await limit(first, ns, identifier, 30), await limit(second, ns, identifier, 20)];
  clean(used);
  assert.ok(used.every(({ success }) => success === 1));
}
async function expectRemaining(ns, identifier, remaining) {
  const seen = await Promise.all(nodes.map((node) => peek(node, ns, identifier)));
  clean(seen);
  assert.deepEqual(seen.map((each) => each.remaining), [remaining, remaining]);
}
async function expectUsedUp(ns, identifier) {
  await expectRemaining(ns, identifier, 0);
  const { admitted, all } = await admittedBy(ns, identifier, 2);
  clean(all);
  assert.equal(admitted, 0);
}

for (const algorithm of algorithms) {
  for (const [from, to] of [[kLongWindow, kShorter], [kShorter, kLongWindow]]) {
    const shown = `${algorithm}, ${from / kHour} to ${to / kHour} hours`;

    test(`${shown}: an override neither resets nor gifts what was consumed`, async () => {
      await inCleanRun(async (ns) => {
        await createNamespace(ns, { limit: kLimit, duration: from, algorithm });
        await useHalf(ns, 'alice');
        await setOverride(nodes[0], ns, 'alice', to);
        await expectRemaining(ns, 'alice', kLimit / 2);
        const { admitted, all } = await admittedBy(ns, 'alice', 40);
        clean(all);
        assert.equal(admitted, kLimit / 2);
        await deleteOverride(nodes[1], ns, 'alice');
        await expectUsedUp(ns, 'alice');
        await setOverride(nodes[1], ns, 'alice', to);
        await expectUsedUp(ns, 'alice');
        await setOverride(nodes[0], ns, 'alice', 2 * kHour * 24);
        await expectUsedUp(ns, 'alice');
      });
    });

    test(`${shown}: nor does the default of a namespace`, async () => {
      await inCleanRun(async (ns) => {
        await createNamespace(ns, { limit: kLimit, duration: from, algorithm });
        await useHalf(ns, 'alice');
        const update = async (duration) => {
          await ok(nodes[1], 'ratelimit.updateNamespace', {
            namespace: ns,
            ...{ limit: kLimit, duration, algorithm, consistency: 'exact' },
          });
          await onAll('the default', async (each) =>
            (await ok(each, 'ratelimit.getNamespace', { namespace: ns })).duration === duration,
          );
        };
        await update(to);
        const batch = await ok(nodes[0], 'ratelimit.multiLimit', [
          { namespace: ns, identifier: 'alice', cost: kLimit / 2 + 1 },
          { namespace: ns, identifier: 'bob' },
        ]);
        assert.equal(batch.passed, false);
        const { admitted, all } = await admittedBy(ns, 'alice', 40);
        clean(all);
        assert.equal(admitted, kLimit / 2);
        await update(from);
        await expectUsedUp(ns, 'alice');
      });
    });
  }
}

test('a wildcard override takes over on a node that never saw the identifiers', async () => {
  await inCleanRun(async (ns) => {
    await createNamespace(ns, { limit: kLimit, duration: kLongWindow });
    const identifiers = Array.from({ length: 200 }, (_, i) => `trial-${i}`);
    clean(await Promise.all(identifiers.map((each) => limit(nodes[0], ns, each, 60))));
    await setOverride(nodes[0], ns, 'trial-*', kShorter);
    const seen = await Promise.all(identifiers.map((each) => limit(nodes[1], ns, each, 41)));
    clean(seen);
    assert.equal(seen.filter(({ success }) => success === 1).length, 0);
    const rest = await Promise.all(identifiers.map((each) => limit(nodes[1], ns, each, 40)));
    clean(rest);
    assert.equal(rest.filter(({ success }) => success === 1).length, identifiers.length);
    await setOverride(nodes[1], ns, 'trial-7', 3 * 24 * kHour); // more specific
    await expectUsedUp(ns, 'trial-7');
    await deleteOverride(nodes[1], ns, 'trial-7');
    await expectUsedUp(ns, 'trial-7');
    await deleteOverride(nodes[1], ns, 'trial-*');
    await expectUsedUp(ns, 'trial-7');
    await expectUsedUp(ns, 'trial-8');
  });
});

test('durations that change again and again gift nothing', async () => {
  await inCleanRun(async (ns) => {
    await createNamespace(ns, { limit: kLimit, duration: kLongWindow });
    let admitted = 0;
    for (let round = 0; round < 8; ++round) {
      const results = await admittedBy(ns, 'alice', 8);
      clean(results.all);
      admitted += results.admitted;
      await setOverride(nodes[round % 2], ns, 'alice', kShorter - round * kHour);
    }
    assert.ok(admitted <= kLimit, `${admitted}`);
    assert.ok(admitted >= kLimit - 8, `${admitted}`);
  });
});

test('each region without Redis takes over what it has admitted', async () => {
  const regions = await mariadb.ledger();
  const start = async (region) => {
    const server = await startServer({ args: ['--ledger', regions.url(), '--region', region] });
    return { server, stop: () => server.stop('SIGTERM') };
  };
  const [eu, us] = await Promise.all([start('eu'), start('us')]);
  try {
    const named = { namespace: 'api', identifier: 'alice' };
    const at = (node, cost) => ok(node, 'ratelimit.limit', { ...named, cost });
    const values = (duration) => ({ limit: kLimit, duration, algorithm: 'fixed_window' });
    await ok(eu, 'ratelimit.createNamespace', { name: 'api', ...values(kLongWindow) });
    await until('the namespace', async () => {
      const found = await call(us, 'ratelimit.getNamespace', { namespace: 'api' });
      return found.status === 200;
    });
    // A region learns of the other's usage through the database. The row is there, and a later change
    // has arrived, so the row has, too; until then the other region may admit requests.
    const usedUp = async (durations) => {
      assert.equal((await at(eu, 1)).success, false);
      const isFull = ({ region, count }) => region === 'eu' && count >= kLimit;
      await until('the row', async () => (await regions.rows('alice')).filter(isFull).length === durations);
      const later = { namespace: 'api', identifier: `later-${++names}` };
      assert.ok((await ok(eu, 'ratelimit.limit', { ...later, cost: kLimit })).success);
      await until('a later change', async () =>
        (await ok(us, 'ratelimit.limit', { ...later, cost: 0 })).remaining === 0,
      );
      assert.equal((await at(us, 1)).success, false);
    };
    assert.ok((await at(eu, kLimit)).success);
    await usedUp(1);
    await ok(us, 'ratelimit.setOverride', { ...named, limit: kLimit, duration: kShorter });
    await until('the override', async () => (await at(eu, 0)).overrideId !== undefined);
    for (const node of [eu, us]) assert.equal((await at(node, 0)).remaining, 0, 'a peek knows all');
    await usedUp(2);
    await ok(eu, 'ratelimit.deleteOverride', named);
    await until('its end', async () => (await at(us, 0)).overrideId === undefined);
    await usedUp(2);
  } finally {
    for (const node of [eu, us]) await node.stop();
  }
});
