// Three regions of two processes each, a redis-server in every region, and one mariadbd for all:
// which counts regions publish, and that all of them are correct.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Load } from './load.mjs';
import { MariaDb } from './mariadb.mjs';
import { untilConnected, kLongWindow, pick, quantile, rest, until, verdictOf } from './region.mjs';
import { kRootKey } from './server.mjs';
import { World } from './world.mjs';

const database = new MariaDb();
let ledger;
let world;
before(async () => {
  await database.install();
  ledger = await database.ledger();
  world = await World.start({ ledger });
});
after(async () => {
  await world.stop();
  await database.stop();
});

const regionsExcept = (region) => world.regions.filter((each) => each !== region);
const sumOf = async (nodes, ...sample) => {
  const all = await Promise.all(nodes.map(({ server }) => server.metric(...sample)));
  return all.reduce((sum, value) => sum + value, 0);
};

// Counts that a restarted process would not find in Redis.
async function restartWithoutMemory(region) {
  const count = region.nodes.length;
  await region.stopNodes();
  await region.origin.client.flushall();
  for (let i = 0; i < count; ++i) await region.startNode();
  await untilConnected(region.nodes);
  await world.untilReady();
}

test('all regions import the admissions of one region', async () => {
  const [here] = world.regions;
  assert.equal((await here.nodes[0].limit('shared', 4)).success, 1);
  await world.remains('shared', 4, 3);
  assert.deepEqual(await ledger.counts('shared'), { [here.name]: 1 });
});

test('all regions add up the admissions of several regions', async () => {
  const costs = { ap: 200, eu: 300, us: 400 };
  for (const { name, nodes } of world.regions) {
    assert.equal((await pick(nodes).limit('sum', 1000, costs[name])).success, 1);
  }
  await world.remains('sum', 1000, 100);
  assert.deepEqual(await ledger.counts('sum'), costs);
});

test('a key that is full in one region is denied in another region without traffic', async () => {
  const [here, there] = world.regions;
  assert.equal((await here.nodes[0].limit('full', 10, 10)).success, 1);
  await world.remains('full', 10, 0);
  assert.equal((await there.nodes[1].limit('full', 10)).success, 0);
});

test('a request larger than its limit publishes nothing', async () => {
  const [here, there] = world.regions;
  const strict = () => sumOf(there.nodes, 'weir_strict_activations_total');
  const before = await strict();
  for (const node of here.nodes) assert.equal((await node.limit('too-large', 10, 11)).success, 0);
  await world.settle();
  assert.deepEqual(await ledger.rows('too-large'), []);
  assert.equal((await there.nodes[0].limit('too-large', 10, 10)).success, 1);
  assert.equal(await strict(), before);
});

// Redis keeps the state of these algorithms in each region. A region learns of the others with its first
// request.
for (const algorithm of ['gcra', 'token_bucket', 'sliding_window_strict', 'sliding_log']) {
  test(`${algorithm}: what one region admits counts in the others, once`, async () => {
    const [here, there, third] = world.regions;
    const send = async (node, cost) =>
      verdictOf(
        await node.client.call(
          'WEIR.LIMIT', 'api', `unmerged-${algorithm}`, 100, kLongWindow, 'ALGORITHM', algorithm, 'COST', cost,
        ),
      );
    assert.equal((await send(here.nodes[0], 60)).success, 1);
    for (const { nodes } of [there, third]) {
      for (const node of nodes) {
        await send(node, 1);
        await until('the counts of the other region', async () => {
          await rest(50);
          return (await send(node, 0)).remaining <= 40;
        });
      }
    }
    await world.settle();
    // 64 were admitted. What others admitted after the last publication is unknown.
    for (const node of world.nodes) {
      const { remaining } = await send(node, 0);
      assert.ok(remaining >= 35 && remaining <= 40, `${remaining} left`);
    }
    assert.equal((await send(there.nodes[0], 41)).success, 0);
  });
}

test('CL.THROTTLE: a burst that one region has used up is denied in the others', async () => {
  const [here, there] = world.regions;
  const throttle = ({ client }, quantity) => client.call('CL.THROTTLE', 'global', 99, 1, 600, quantity);
  assert.equal((await throttle(here.nodes[0], 100))[0], 0);
  let admitted = 0;
  await until('a denial', async () => {
    const [limited] = await throttle(there.nodes[1], 1);
    admitted += 1 - limited;
    await rest(100);
    return limited === 1;
  });
  assert.ok(admitted < 50, `${admitted} admitted before`);
});

// In the first half of a window the previous one weighs so much that a request is denied, though this
// window is empty. Other regions must import counts, not that denial.
test('a denial because of the previous window does not affect other regions', async () => {
  const kWindow = 8000; // ms
  const [here, there] = world.regions;
  const into = () => Date.now() % kWindow;
  const begin = () => until('a window to begin', () => into() < 500);
  const send = async (node, command, ...more) =>
    verdictOf(await node.client.call(command, 'api', 'last', 100, kWindow, ...more));

  await begin();
  assert.equal((await send(here.nodes[0], 'WEIR.LIMIT', 'COST', 100)).success, 1);
  await world.remains('last', 100, 0, { duration: kWindow });
  const sequence = Math.floor(Date.now() / kWindow);
  await until('it to end', () => Math.floor(Date.now() / kWindow) > sequence);
  const refused = await send(here.nodes[0], 'WEIR.LIMIT', 'COST', 60);
  if (into() < kWindow / 2) assert.equal(refused.success, 0); // but for a machine that stood still
  const fixed = ['ALGORITHM', 'fixed_window'];
  await world.settle();
  const rows = await ledger.rows('last');
  assert.deepEqual(rows.filter((row) => row.sequence > sequence), []);
  const verdict = await send(there.nodes[0], 'WEIR.PEEK', ...fixed);
  if (Math.floor(Date.now() / kWindow) === sequence + 1) assert.equal(verdict.remaining, 100);
  assert.equal((await send(there.nodes[0], 'WEIR.LIMIT', 'COST', 100, ...fixed)).success, 1);
});

// A process that lost its Redis and its own memory finds its region's row in the ledger. That is no
// change of another region, and the process must still ask Redis.
test('rows that a region wrote itself are imported as its own and refresh nothing', async () => {
  const [here] = world.regions;
  assert.equal((await here.nodes[0].limit('own', 100, 60)).success, 1);
  await world.remains('own', 100, 40);
  await restartWithoutMemory(here);
  const [node] = here.nodes;
  const steps = () => node.server.metric('weir_origin_commands_total', 'kind="step"');
  const before = await steps();
  const verdict = await node.limit('own', 100, 5);
  assert.deepEqual([verdict.success, verdict.remaining, verdict.basis], [1, 35, 'refreshed']);
  assert.ok((await steps()) > before, 'Redis was not asked');
  await until('Redis to have it', async () => (await here.origin.cells()).length > 0);
  const totals = await Promise.all((await here.origin.cells()).map((cell) => here.origin.total(cell)));
  // Without imported counts; later also with those that Redis lost.
  assert.ok(totals.includes(5) || totals.includes(65), `${totals}`);
  assert.equal((await node.limit('own', 100, 36)).success, 0);
  await until('the ledger to have it', async () => (await ledger.counts('own'))[here.name] === 65);
  await world.remains('own', 100, 35);
});

test('a cell without traffic is written once', async () => {
  const [here] = world.regions;
  await here.nodes[0].limit('quiet', 10, 5);
  await world.remains('quiet', 10, 5);
  await world.settle();
  const rows = await ledger.rows('quiet');
  const written = await sumOf(world.nodes, 'weir_published_rows_total');
  for (let i = 0; i < 30; ++i) {
    await rest(100);
    await Promise.all(world.nodes.map((node) => node.peek('quiet', 10)));
  }
  assert.deepEqual(await ledger.rows('quiet'), rows);
  assert.equal(await sumOf(world.nodes, 'weir_published_rows_total'), written);
});

// The bridge writes each key once, whichever processes have its traffic.
test('one process of a region publishes for all', async () => {
  const kKeys = 100;
  const [here] = world.regions;
  const writtenBy = () =>
    Promise.all(here.nodes.map(({ server }) => server.metric('weir_published_rows_total')));
  const bridges = () => Promise.all(here.nodes.map(({ server }) => server.metric('weir_bridge')));
  const write = async (name, askersOf) => {
    await world.settle();
    await until('nothing to wait', async () => (await sumOf(here.nodes, 'weir_publish_waiting')) === 0);
    const before = await writtenBy();
    const bridge = await bridges();
    const keys = Array.from({ length: kKeys }, (_, i) => `${name}-${i}`);
    for (const [i, identifier] of keys.entries()) {
      await Promise.all(askersOf(i).map((node) => node.limit(identifier, 4)));
    }
    // A region that is alone on a key need not publish the second unit.
    const known = async (node, identifier) => (await node.peek(identifier, 4)).remaining <= 3;
    const elsewhere = regionsExcept(here).flatMap(({ nodes }) => nodes);
    for (const identifier of keys) await world.everywhere(identifier, (node) => known(node, identifier), elsewhere);
    await rest(1000); // for writes that change nothing
    const [[rows]] = await ledger.query(
      `SELECT COUNT(*) FROM weir_cells WHERE identifier LIKE '${name}-%'`,
    );
    const each = (await writtenBy()).map((count, i) => count - before[i]);
    console.log(`${name}: ${rows} rows, written ${each.join(' and ')} times`);
    assert.equal(Number(rows), kKeys);
    // A process that stands still for a second loses the lease.
    const replaced = String(await bridges()) !== String(bridge);
    if (!replaced) assert.deepEqual(each.map((count) => (count > 0 ? 1 : 0)), bridge);
    return each[0] + each[1];
  };
  assert.equal(await write('by-one', (i) => [here.nodes[i % 2]]), kKeys);
  assert.ok((await write('by-both', () => here.nodes)) < 1.8 * kKeys);
});

test('identifiers are preserved byte for byte', async () => {
  const [here, there] = world.regions;
  const names = {
    'of many scripts': 'naïve-用户-🚀-Ω',
    'as long as can be': 'x'.repeat(511) + '!',
    'that look binary': Array.from({ length: 32 }, (_, i) => String.fromCharCode(i)).join('') + '\u007f\\\'"%_;--',
  };
  const send = async ({ server }, identifier, cost) => {
    const answer = await fetch(`${server.url}/v2/ratelimit.limit`, {
      method: 'POST',
      headers: { authorization: `Bearer ${kRootKey}` },
      body: JSON.stringify({ namespace: 'bytes', identifier, limit: 10, duration: kLongWindow, cost }),
    });
    assert.equal(answer.status, 200, await answer.clone().text());
    return (await answer.json()).data;
  };
  for (const [kind, name] of Object.entries(names)) {
    assert.equal((await send(here.nodes[0], name, 7)).success, true, kind);
    await until(kind, async () => (await send(there.nodes[0], name, 0)).remaining === 3);
  }
  const rows = await ledger.query("SELECT HEX(identifier), count FROM weir_cells WHERE namespace = 'bytes'");
  const wanted = Object.values(names).map((name) => [Buffer.from(name).toString('hex').toUpperCase(), '7']);
  assert.deepEqual(rows.sort(), wanted.sort());
});

test('a disconnected region continues to limit, reports degraded, and catches up', async () => {
  const [here, there] = world.regions;
  const [node] = here.nodes;
  assert.equal((await there.nodes[0].limit('cut', 100, 30)).success, 1);
  await world.remains('cut', 100, 70);
  let admitted = 0;
  const degraded = async () => (await node.limit('cut', 100)).basis === 'degraded';
  here.proxy.cut();
  try {
    for (let i = 0; i < 100; ++i) {
      await rest(10);
      admitted += (await pick(here.nodes).limit('cut', 100)).success;
    }
    assert.ok(admitted >= 70 && admitted <= 1.1 * 70, `${admitted}`); // two processes, one Redis
    await until('a report', degraded);
    await until('a line', () => /the ledger mysql:\S+ does not answer/.test(node.server.stderr));
    assert.ok((await node.server.metric('weir_ledger_errors_total', 'reason="unreachable"')) > 0);
    assert.notEqual((await there.nodes[0].limit('cut', 100, 0)).basis, 'degraded');
  } finally {
    here.proxy.restore();
  }
  await until('recovery', async () => !(await degraded()));
  await world.remains('cut', 100, 0);
  // The last units of a full key are not published.
  const row = (await ledger.counts('cut'))[here.name];
  assert.ok(row >= 70 && row <= admitted, `${row} of ${admitted}`);
  await until('a line', () => /the ledger mysql:\S+ answers\n/.test(node.server.stderr));
});

// Regions write all counts at shutdown; then the rows equal the log, and the remaining region has
// imported them.
test('no count is lost when the ledger is killed and restarted under load', async () => {
  const kMost = 1_400_000;
  const keys = ['p', 'q', 'r', 's'].map((name) => ({
    identifier: `killed-${name}`,
    most: kMost,
    cost: () => 1 + Math.floor(Math.random() * 500),
  }));
  for (const node of world.nodes) node.killed = false;
  const load = new Load({ nodes: [...world.nodes], keys, duration: kLongWindow, perTick: 3 });
  // A region does not write counts below its publish threshold, not even at shutdown: each starts above.
  for (const key of keys) {
    for (const { nodes } of world.regions) await load.send(nodes[0], key, kMost / 7);
  }
  load.start();
  await rest(2000);
  load.phase = 'killed';
  await database.kill();
  await rest(3000);
  await database.start();
  load.phase = 'after';
  await rest(2000);
  await load.stop(); // no question failed

  const accepted = (identifier, region) =>
    load.accepted((entry) => entry.identifier === identifier && (!region || entry.node.region === region));
  for (const { server } of world.nodes) {
    await until('the ledger', async () => (await server.metric('weir_ledger_ready')) === 1);
    await until('replay to Redis', async () => (await server.metric('weir_dirty_cells')) === 0);
  }
  await rest(500);
  const [last, ...others] = world.regions;
  for (const region of others) {
    const count = region.nodes.length;
    await region.stopNodes();
    for (let i = 0; i < count; ++i) await region.startNode();
  }
  for (const { identifier } of keys) {
    const published = await ledger.counts(identifier);
    for (const region of others) {
      assert.equal(published[region.name], accepted(identifier, region), `${identifier} in ${region.name}`);
    }
    assert.ok((published[last.name] ?? 0) <= accepted(identifier, last));
    const left = Math.max(0, kMost - accepted(identifier));
    await world.remains(identifier, kMost, left, { nodes: last.nodes });
  }
  const times = load.requests.filter(({ phase }) => phase === 'killed').map(({ took }) => took);
  console.log(
    `${load.requests.length} requests, ${load.accepted()} admitted; while it was down ` +
      `p99 ${quantile(times, 0.99).toFixed(1)}, most ${Math.max(...times).toFixed(1)} ms`,
  );
});
