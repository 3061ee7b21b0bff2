// A read-only ledger shows in verdicts and in the log; a locked row blocks nothing else; check-config
// runs the same calls as a server.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { MariaDb } from './mariadb.mjs';
import { clientOf, kLongWindow, rest, until, verdictOf } from './region.mjs';
import { startServer, temporaryFolder, weir } from './server.mjs';

const database = new MariaDb();
before(() => database.install());
after(() => database.stop());

// A region of one process.
async function start(ledger, region = 'eu') {
  const server = await startServer({ args: ['--region', region, '--ledger', ledger.url(), '--threads', '1'] });
  const client = clientOf(server);
  const limit = async (identifier, most, cost = 1) =>
    verdictOf(await client.call('WEIR.LIMIT', 'api', identifier, most, kLongWindow, 'COST', cost));
  await until('the ledger', async () => (await fetch(`${server.url}/readyz`)).status === 200);
  await until('the first import', async () => (await limit('first', 100, 0)).basis === 'local');
  const stop = async () => {
    client.disconnect();
    await server.stop('SIGTERM');
  };
  return { server, limit, stop };
}

for (const [name, begin, end, words] of [
  [
    'read_only',
    () => database.query('SET GLOBAL read_only = 1'),
    () => database.query('SET GLOBAL read_only = 0'),
    /accepts no writes: .*--read-only.*name a server that can be written to/,
  ],
  [
    'a global lock',
    async () => {
      database.holder = database.session('mysql');
      await database.holder.query('FLUSH TABLES WITH READ LOCK');
    },
    async () => {
      await database.holder.query('UNLOCK TABLES');
      await database.holder.end();
    },
    /accepts no writes/,
  ],
]) {
  test(`a ledger that accepts no writes (${name}) degrades verdicts and is named in the log`, async () => {
    const ledger = await database.ledger();
    const node = await start(ledger);
    await begin();
    try {
      const basis = async () => (await node.limit('alice', 100)).basis;
      await until('a degraded verdict', async () => (await basis()) === 'degraded');
      await until('the line', () => words.test(node.server.stderr));
      assert.equal(await node.server.metric('weir_ledger_writable'), 0);
    } finally {
      await end();
    }
    await until('the line', () => /the ledger \S+ accepts writes\n/.test(node.server.stderr));
    await until('a verdict', async () => (await node.limit('alice', 100, 0)).basis === 'local');
    await node.stop();
  });
}

test('a locked row blocks neither imports nor other rows nor the shutdown', async () => {
  const ledger = await database.ledger();
  const eu = await start(ledger, 'eu');
  const us = await start(ledger, 'us');
  await until('both', async () => (await eu.server.metric('weir_regions')) === 2);
  // Both have counts of it and have imported the other's.
  await eu.limit('held', 100, 40);
  await us.limit('held', 100, 30);
  for (const { limit } of [eu, us]) {
    await until('both rows', async () => (await limit('held', 100, 0)).remaining === 30);
  }
  const holder = database.session(ledger.name);
  await holder.query('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN');
  await holder.query("SELECT * FROM weir_cells WHERE identifier = 'held' AND region = 'eu' FOR UPDATE");
  await holder.query('SELECT * FROM weir_leases FOR UPDATE');
  await eu.limit('held', 100, 25);
  const locked = () => eu.server.metric('weir_ledger_errors_total', 'reason="locked"');
  await until('the lock to be met', async () => (await locked()) > 0);
  // Both directions continue: one publishes, the other imports.
  let longest = 0;
  for (let i = 0; i < 10; ++i) {
    const identifier = `free-${i}`;
    await eu.limit(identifier, 100, 60);
    await us.limit(identifier, 100, 1);
    await until(`${identifier} there`, async () => (await us.limit(identifier, 100, 0)).remaining === 39);
    longest = Math.max(longest, await eu.server.metric('weir_import_lag_seconds'));
    await rest(200);
  }
  console.log(`longest import lag ${longest} s`);
  const began = performance.now();
  await eu.stop();
  console.log(`ended after ${(performance.now() - began).toFixed(0)} ms`);
  assert.match(eu.server.stderr, /1 rows were not written to the ledger/);
  await holder.query('ROLLBACK');
  await holder.end();
  await us.stop();
});

test('check-config --connect runs the same calls as a server', async () => {
  const file = join(temporaryFolder(), 'weir.yaml');
  const check = async (address) => {
    writeFileSync(file, `region: eu\nledger: ${address}\n`);
    const { code, stdout, stderr } = await weir(['check-config', file, '--connect']);
    return { code, output: stdout + stderr };
  };
  const empty = await database.emptyDatabase();
  const none = await check(empty.url());
  assert.equal(none.code, 1, none.output);
  assert.match(none.output, /weir_\w+' doesn't exist \(1146\)\n  run: weir migrate --ledger/);
  await empty.migrate();
  const right = await check(empty.url());
  assert.equal(right.code, 0, right.output);
  assert.match(right.output, /its tables are there, reads and writes/);
  assert.deepEqual(await empty.query('SELECT COUNT(*) FROM weir_regions'), [['0']]);
  await database.query(
    `CREATE USER reader@'%' IDENTIFIED BY 'secret'; GRANT SELECT ON ${empty.name}.* TO reader@'%'`,
  );
  const reader = await check(empty.url().replace('weir:secret', 'reader:secret'));
  assert.equal(reader.code, 1, reader.output);
  assert.match(reader.output, /\(1142\)\n  grant the user SELECT, INSERT, UPDATE and DELETE/);
});
