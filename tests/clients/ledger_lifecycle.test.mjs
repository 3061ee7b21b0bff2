// A process and its ledger from start to shutdown: an unreachable ledger, one without tables, a file
// instead of a server, and the rows after shutdown.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { MariaDb } from './mariadb.mjs';
import { Proxy } from './proxy.mjs';
import { clientOf, kLongWindow, rest, until, verdictOf } from './region.mjs';
import { startServer, temporaryFolder, weir } from './server.mjs';

const database = new MariaDb();
before(() => database.install());
after(() => database.stop());

// A process without an origin, in a region.
async function start(region, ledger, { args = [], ...options } = {}) {
  const where = ledger === undefined ? [] : ['--region', region, '--ledger', ledger];
  const server = await startServer({ args: ['--threads', '1', ...where, ...args], ...options });
  const client = clientOf(server);
  const send = async (command, identifier, most, ...more) =>
    verdictOf(await client.call(command, 'api', identifier, most, kLongWindow, ...more));
  return {
    server,
    limit: (identifier, most, cost = 1) => send('WEIR.LIMIT', identifier, most, 'COST', cost),
    peek: (identifier, most) => send('WEIR.PEEK', identifier, most),
    readiness: () => fetch(`${server.url}/readyz`),
    isReady: async () => (await fetch(`${server.url}/readyz`)).status === 200,
    async stop(signal = 'SIGTERM') {
      await server.stop(signal);
      client.disconnect();
    },
    async kill() {
      server.child.kill('SIGKILL');
      await server.ended;
      client.disconnect();
    },
  };
}
const ready = (...nodes) =>
  Promise.all(nodes.map((node) => until('readiness', () => node.isReady())));
const left = (node, identifier, most, count) =>
  until(`${count} of ${most} left`, async () => (await node.peek(identifier, most)).remaining === count);

test('a process starts without its ledger and connects later', async () => {
  const ledger = await database.ledger();
  const proxy = await Proxy.to(database.port);
  proxy.cut();
  const [early, other] = [await start('eu', ledger.url(proxy.port)), await start('us', ledger.url())];
  assert.equal((await early.limit('early', 100, 40)).success, 1);
  await until('a report', async () => (await early.limit('early', 100, 0)).basis === 'degraded');
  await until('a line', () => /does not answer: .*; counts of other regions are not imported/.test(early.server.stderr));
  assert.equal((await other.limit('early', 100, 0)).remaining, 100);
  proxy.restore();
  await left(other, 'early', 100, 60);
  await until('recovery', async () => (await early.limit('early', 100, 0)).basis !== 'degraded');
  await until('a line', () => /the ledger mysql:\S+ answers\n/.test(early.server.stderr));
  assert.ok(!early.server.output.includes('secret'), 'a password was shown');
  await early.stop();
  await other.stop();
  proxy.close();
});

test('without tables the log names the command; after it runs, the ledger works', async () => {
  const ledger = await database.emptyDatabase();
  const node = await start('eu', ledger.url());
  assert.equal((await node.limit('tables', 100, 40)).success, 1);
  await until('a line', () => /weir migrate/.test(node.server.stderr));
  const missing = () => node.server.metric('weir_ledger_errors_total', 'reason="missing_tables"');
  assert.ok((await missing()) > 0);
  assert.match(await ledger.migrate(), /its tables are there/);
  await until('the row', async () => (await ledger.counts('tables')).eu === 40);
  await until('recovery', async () => (await node.limit('tables', 100, 0)).basis !== 'degraded');
  assert.match(await ledger.migrate(), /its tables are there/); // once more does no harm
  await node.stop();
});

// A node gives up after 3 s, because requests wait for it.
test('migrate waits for a server that needs longer than a node would wait', async () => {
  const ledger = await database.ledger();
  const session = database.session(ledger.name);
  await session.query('LOCK TABLES weir_cells WRITE');
  const migration = ledger.migrate();
  const waits = 'SELECT COALESCE(MAX(TIME), 0) FROM information_schema.PROCESSLIST ' +
    `WHERE DB = '${ledger.name}' AND STATE LIKE 'Waiting for table%'`;
  const seconds = async () => Number((await database.query(waits))[0][0]);
  await Promise.race([migration, until('a wait of 4 s', async () => (await seconds()) >= 4)]);
  await session.query('UNLOCK TABLES');
  assert.match(await migration, /its tables are there/);
  await session.end();
});

test('a process is not ready before the first full read', async () => {
  const ledger = await database.ledger();
  const proxy = await Proxy.to(database.port);
  const writer = await start('us', ledger.url());
  await ready(writer);
  await writer.limit('before', 10, 10);
  await until('the row', async () => (await ledger.counts('before')).us === 10);
  proxy.delay = { up: 200, down: 200 };
  const reader = await start('eu', ledger.url(proxy.port));
  const first = await reader.readiness();
  assert.deepEqual([first.status, await first.text()], [503, 'reading the ledger\n']);
  await ready(reader);
  assert.ok((await reader.server.metric('weir_full_reads_total')) > 0);
  assert.equal((await reader.limit('before', 10)).success, 0);
  await reader.stop();
  await writer.stop();
  proxy.close();
});

test('a process becomes ready after a timeout if the ledger is unreachable', async () => {
  const ledger = await database.ledger();
  const proxy = await Proxy.to(database.port);
  proxy.cut();
  const node = await start('eu', ledger.url(proxy.port));
  assert.equal((await node.readiness()).status, 503);
  await ready(node);
  assert.equal(await node.server.metric('weir_full_reads_total'), 0);
  await node.stop();
  proxy.close();
});

test('unpublished counts are written at shutdown', async () => {
  const ledger = await database.ledger();
  const node = await start('eu', ledger.url());
  await ready(node);
  assert.equal((await node.limit('end', 1000, 300)).success, 1);
  await until('the row', async () => (await ledger.counts('end')).eu === 300);
  // Alone on this key, so nothing is published.
  assert.equal((await node.limit('end', 1000, 50)).success, 1);
  await rest(500);
  assert.deepEqual(await ledger.counts('end'), { eu: 300 });
  await node.stop('SIGTERM');
  assert.deepEqual(await ledger.counts('end'), { eu: 350 });
  assert.match(node.server.stderr, /all counts were written to the ledger/);
});

test('a process that cannot write at shutdown logs how much is lost', async () => {
  const ledger = await database.ledger();
  const proxy = await Proxy.to(database.port);
  const node = await start('eu', ledger.url(proxy.port));
  await ready(node);
  proxy.cut();
  assert.equal((await node.limit('unacked', 10, 5)).success, 1);
  await node.stop('SIGTERM');
  assert.match(node.server.stderr, /1 rows were not written to the ledger/);
  proxy.close();
});

test('two regions on one machine share a file', async () => {
  const url = `sqlite:${join(temporaryFolder(), 'ledger.db')}`;
  const nodes = [await start('eu', url), await start('us', url)];
  await ready(...nodes);
  assert.equal((await nodes[0].limit('file', 10, 6)).success, 1);
  await left(nodes[1], 'file', 10, 4);
  assert.equal((await nodes[1].limit('file', 10, 4)).success, 1);
  await left(nodes[0], 'file', 10, 0);
  assert.equal((await nodes[0].limit('file', 10)).success, 0);
  for (const { server } of nodes) {
    await until('both regions', async () => (await server.metric('weir_regions')) === 2);
  }
  await nodes[0].kill();
  const again = await start('eu', url);
  await ready(again);
  assert.equal((await again.limit('file', 10)).success, 0);
  await again.stop();
  await nodes[1].stop();
});

for (const how of ['stopped', 'killed']) {
  test(`a single process keeps full counts after it was ${how}`, async () => {
    const data = temporaryFolder();
    const node = await start('', undefined, { data });
    await ready(node);
    assert.equal((await node.limit('lone', 10, 10)).success, 1);
    assert.equal((await node.limit('lone', 10)).success, 0);
    const written = () => node.server.metric('weir_published_rows_total');
    await until('the row', async () => (await written()) > 0);
    if (how === 'stopped') await node.stop();
    else await node.kill();
    const again = await start('', undefined, { data });
    await ready(again);
    const verdict = await again.limit('lone', 10);
    assert.deepEqual([verdict.success, verdict.remaining], [0, 0]);
    assert.equal((await again.limit('new', 10)).basis, 'local');
    await again.stop();
  });
}

test('the schema can be printed', async () => {
  const { code, stdout } = await weir(['migrate', '--ledger', 'mysql://u:p@h/d', '--print']);
  assert.equal(code, 0, stdout);
  const ledger = await database.emptyDatabase();
  await ledger.query(stdout);
  const node = await start('eu', ledger.url());
  await ready(node);
  assert.ok((await node.server.metric('weir_full_reads_total')) > 0);
  await node.stop();
});

test('a full ledger is reported, accepts what fits, and recovers when space is free', async () => {
  // All tables in one file that must not grow any more.
  const atMost = (size) => [
    '--innodb-file-per-table=0',
    `--innodb-data-file-path=ibdata1:12M:autoextend:max:${size}`,
  ];
  const small = new MariaDb(atMost('16M'));
  await small.install();
  const ledger = await small.ledger();
  const nodes = [await start('eu', ledger.url()), await start('us', ledger.url())];
  await ready(...nodes);
  assert.equal((await nodes[0].limit('before', 10, 5)).success, 1);
  await left(nodes[1], 'before', 10, 5);
  await ledger.query('CREATE TABLE ballast (bytes BLOB) ENGINE=InnoDB');
  for (const size of [60_000, 1000]) {
    const fill = `INSERT INTO ballast SELECT REPEAT('x', ${size}) FROM seq_1_to_10`;
    while (await ledger.query(fill).then(() => true, () => false));
  }
  const full = () => nodes[0].server.metric('weir_ledger_errors_total', 'reason="full"');
  let rows = 0;
  await until('it to be full', async () => {
    for (let i = 0; i < 20; ++i) {
      const identifier = `full-${rows++}-${'x'.repeat(400)}`;
      assert.equal((await nodes[0].limit(identifier, 4)).success, 1);
    }
    return (await full()) > 0;
  });
  await small.stop();
  small.more = atMost('32M');
  await small.start();
  const known = async (identifier) => (await nodes[1].peek(identifier, 4)).remaining === 3;
  for (let i = 0; i < rows; ++i) {
    await until('what did not fit', () => known(`full-${i}-${'x'.repeat(400)}`));
  }
  console.log(`full after ${rows} more rows`);
  for (const node of nodes) await node.stop();
  await small.stop();
});
