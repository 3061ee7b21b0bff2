// What a region without traffic asks of the database, however many processes it has.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { MariaDb } from './mariadb.mjs';
import { rest, until } from './region.mjs';
import { World } from './world.mjs';

const kMost = 15; // statements a second, of the region
const kMostOfProcess = 3; // of each process, which polls the catalog
const kMeasured = 10_000; // ms
const kCommands = [
  'begin',
  'commit',
  'delete',
  'insert',
  'insert_select',
  'replace',
  'rollback',
  'select',
  'set_option',
  'update',
];

const database = new MariaDb();
before(() => database.install());
after(() => database.stop());

// Statements by the counters of the server: `Questions` counts messages, the others each statement.
async function statements() {
  const rows = await database.query('SHOW GLOBAL STATUS');
  const status = Object.fromEntries(rows);
  const commands = kCommands.reduce((sum, name) => sum + Number(status[`Com_${name}`] ?? 0), 0);
  return Math.max(Number(status.Questions), commands);
}

// The time includes the questions of the test itself: a slow machine makes the rate smaller, not larger.
async function rate() {
  const began = performance.now();
  const first = await statements();
  await rest(kMeasured);
  const last = await statements();
  return ((last - first) * 1000) / (performance.now() - began);
}

for (const nodes of [1, 3]) {
  test(`an idle region of ${nodes} processes asks at most ${kMost + nodes * kMostOfProcess} statements a second`, async () => {
    const world = await World.start({ ledger: await database.ledger(), regions: ['idle'], nodes });
    await until('one bridge', async () => {
      const bridges = await Promise.all(
        world.nodes.map(({ server }) => server.metric('weir_bridge')),
      );
      return bridges.reduce((sum, each) => sum + each, 0) === 1;
    });
    try {
      // At its start, and once an hour, a process cleans the catalog. The audit log it trims only if there
      // are changes.
      let measured = Infinity;
      for (let i = 0; i < 3 && measured > kMost + nodes * kMostOfProcess; ++i) {
        await rest(1000);
        measured = await rate();
        console.log(`${nodes} processes: ${measured.toFixed(1)} statements a second`);
      }
      assert.ok(measured <= kMost + nodes * kMostOfProcess, `${measured}`);
      assert.ok(measured >= 1, 'the bridge imports'); // the counters are those of this region
    } finally {
      await world.stop();
    }
  });
}
