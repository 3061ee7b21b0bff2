// Ledger faults do not affect requests: no request fails or waits, the metrics name the fault, and
// after recovery every region has imported the counts of the others.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Load } from './load.mjs';
import { MariaDb } from './mariadb.mjs';
import { kLongWindow, quantile, rest, until } from './region.mjs';
import { World } from './world.mjs';

const kMost = 1_000_000;
const kShown = 150_000; // more than a region may hide
// A wait for the ledger would delay all answers, a busy machine delays some.
const kTimeout = 250; // ms, for most answers

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

const errors = async (reason) => {
  const each = await Promise.all(
    world.nodes.map(({ server }) => server.metric('weir_ledger_errors_total', `reason="${reason}"`)),
  );
  return each.reduce((sum, count) => sum + count, 0);
};

let trials = 0;

// Runs a load on all regions with the fault `harm` in the middle, and checks the result. The metrics
// must name one of `reasons` during the fault.
async function trial(t, reasons, harm, restore) {
  const keys = ['p', 'q'].map((name) => ({
    identifier: `trial-${++trials}-${name}`,
    most: kMost,
    cost: () => 1 + Math.floor(Math.random() * 100),
  }));
  for (const node of world.nodes) node.killed = false;
  const load = new Load({ nodes: [...world.nodes], keys, duration: kLongWindow, perTick: 2 });
  for (const key of keys) {
    for (const { nodes } of world.regions) await load.send(nodes[0], key, kShown);
  }
  for (const { identifier } of keys) {
    await until('all rows', async () => Object.keys(await ledger.counts(identifier)).length === 3);
  }
  const sum = async () => (await Promise.all(reasons.map(errors))).reduce((a, b) => a + b, 0);
  const before = await sum();
  load.start();
  try {
    await rest(300);
    load.phase = 'fault';
    await harm({ load, keys });
    // Each region is above its publish threshold.
    for (const key of keys) {
      for (const { nodes } of world.regions) await load.send(nodes[0], key, kShown);
    }
    if (reasons.length > 0) await until('the reason to be named', async () => (await sum()) > before);
    await rest(1000);
  } finally {
    load.phase = 'after';
    await restore();
    await load.stop(); // fails if a question did
  }
  const began = performance.now();
  await converges(load, keys);
  const times = load.requests.filter(({ phase }) => phase === 'fault').map(({ took }) => took);
  const p50 = quantile(times, 0.5);
  console.log(
    `${t.name}: ${load.requests.length} requests; meanwhile p50 ${p50.toFixed(1)}, ` +
      `p99 ${quantile(times, 0.99).toFixed(1)}, most ${Math.max(...times).toFixed(1)} ms of ${times.length}; ` +
      `all knew after ${(performance.now() - began).toFixed(0)} ms`,
  );
  assert.ok(p50 < kTimeout, `p50 was ${p50} ms`);
}

// Every node has the exact counts of its region and of the rows of other regions. Each region has
// published enough: its unpublished count, times the number of regions, is below the remaining units
// plus a tenth of the limit.
async function converges(load, keys) {
  for (const { server } of world.nodes) {
    await until('the ledger', async () => (await server.metric('weir_ledger_ready')) === 1);
  }
  for (const { identifier, most } of keys) {
    let found;
    const isRight = async () => {
      const rows = await ledger.counts(identifier);
      found = [];
      for (const { name, nodes } of world.regions) {
        const mine = load.accepted((entry) => entry.identifier === identifier && entry.node.region.name === name);
        const abroad = world.regions.filter((region) => region.name !== name);
        const foreign = abroad.reduce((sum, region) => sum + (rows[region.name] ?? 0), 0);
        const wanted = Math.max(0, most - mine - foreign);
        const row = rows[name] ?? 0;
        assert.ok(row <= mine, `${identifier}: ${row} written of ${mine} in ${name}`);
        for (const node of nodes) {
          const { remaining, basis } = await node.peek(identifier, most);
          const hides = 3 * (mine - row) >= remaining + 0.1 * most;
          found.push({ name, mine, row, foreign, wanted, remaining, basis, hides });
        }
      }
      return found.every(
        ({ wanted, remaining, basis, hides }) => wanted === remaining && basis !== 'degraded' && !hides,
      );
    };
    await until(`all to know of ${identifier}`, isRight).catch((error) => {
      throw new Error(`${error.message}: ${JSON.stringify(found)}`);
    });
  }
}

const proxies = () => world.regions.map(({ proxy }) => proxy);

test('a slow ledger', (t) =>
  trial(
    t,
    [],
    async () => {
      for (const proxy of proxies()) proxy.delay = { up: 400, down: 400 };
      await rest(2000);
    },
    async () => {
      for (const proxy of proxies()) proxy.delay = { up: 0, down: 0 };
    },
  ));

test('a ledger that is slower than the timeout', (t) =>
  trial(
    t,
    ['timeout', 'unreachable'],
    async () => {
      for (const proxy of proxies()) proxy.delay = { up: 0, down: 4000 };
    },
    async () => {
      for (const proxy of proxies()) proxy.delay = { up: 0, down: 0 };
    },
  ));

test('a silent ledger', (t) =>
  trial(
    t,
    ['timeout', 'unreachable'],
    () => database.pause(),
    () => database.resume(),
  ));

test('a read-only ledger', (t) =>
  trial(
    t,
    ['read_only'],
    () => database.query('SET GLOBAL read_only = 1'),
    () => database.query('SET GLOBAL read_only = 0'),
  ));

test('rows that another transaction locks', async (t) => {
  const holder = database.session(ledger.name);
  await trial(
    t,
    ['locked'],
    async () => {
      await holder.query('BEGIN');
      await holder.query('SELECT COUNT(*) FROM weir_cells FOR UPDATE');
    },
    () => holder.query('ROLLBACK'),
  ).finally(() => holder.end());
});

test('a transaction that locks rows in another order', async (t) => {
  let ended = false;
  let rivals;
  await trial(
    t,
    [],
    async () => {
      // Locks are short, and a deadlock victim retries.
      const rival = async () => {
        const session = database.session(ledger.name);
        while (!ended) {
          await session.query('BEGIN; UPDATE weir_cells SET limit_seen = limit_seen ORDER BY key_hash DESC; COMMIT');
          await rest(20);
        }
        await session.end();
      };
      rivals = rival();
      await rest(1500);
    },
    async () => {
      ended = true;
      await rivals;
    },
  );
});

test('a ledger that closes connections', (t) =>
  trial(
    t,
    ['unreachable', 'timeout', 'other'],
    async () => {
      for (let i = 0; i < 5; ++i) {
        const ids = await database.query(
          "SELECT id FROM information_schema.processlist WHERE user = 'weir'",
        );
        await database.query(ids.map(([id]) => `KILL ${id};`).join(' ')).catch(() => {}); // some left
        await rest(300);
      }
    },
    async () => {},
  ));
