// DEL, UNLINK and WEIR.RESET of counts that servers share: two servers of one region with one Redis, one
// of another region, and a MariaDB with the ledger and the catalog.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { createClient } from 'redis';

import { MariaDb } from './mariadb.mjs';
import { clientOf, kLongWindow, Origin, startNode, until, verdictOf } from './region.mjs';
import { kRootKey } from './server.mjs';

const kMonth = 2_592_000; // s
const mariadb = new MariaDb();
const origins = { eu: new Origin(), us: new Origin() };
let database;
let nodes; // two of eu, one of us
before(async () => {
  await Promise.all([mariadb.install(), origins.eu.start(), origins.us.start()]);
  database = await mariadb.ledger();
  const start = (region) =>
    startNode(origins[region].url, { args: ['--ledger', database.url(), '--region', region] });
  nodes = await Promise.all([start('eu'), start('eu'), start('us')]);
  await Promise.all(nodes.map((node) => node.ready()));
});
after(async () => {
  await Promise.all(nodes.map((node) => node.stop('SIGTERM')));
  await Promise.all([mariadb.stop(), origins.eu.kill(), origins.us.kill()]);
});

// Of a reply of CL.THROTTLE: whether it was limited, the burst, and what would still be admitted.
const firstThree = (reply) => reply.slice(0, 3);

// What CL.THROTTLE would still admit.
async function left(client, key) {
  return (await client.call('CL.THROTTLE', key, 4, 5, kMonth, 0))[2];
}

test('DEL and UNLINK by ioredis reset a key on all servers of the region', async () => {
  const [here, there] = nodes.map(({ client }) => client);
  for (const remove of ['del', 'unlink']) {
    const key = `key of ${remove}`;
    assert.deepEqual(firstThree(await here.call('CL.THROTTLE', key, 4, 5, kMonth, 5)), [0, 5, 0]);
    await until('the other server', async () => (await left(there, key)) === 0);
    assert.equal(await here[remove](key), 1);
    assert.equal(await left(here, key), 5, 'at once where it was reset');
    await until('the reset', async () => (await left(there, key)) === 5);
    // The new count is shared again.
    await there.call('CL.THROTTLE', key, 4, 5, kMonth, 5);
    await until('the count', async () => (await left(here, key)) === 0);
  }
});

test('a pipeline sees its own reset', async () => {
  const [{ client }] = nodes;
  const throttle = ['cl.throttle', 'pipelined', 4, 5, kMonth];
  const replies = await client
    .pipeline([['call', ...throttle, 5], ['del', 'pipelined', 'another'], ['call', ...throttle]])
    .exec();
  assert.deepEqual(
    replies.map(([, reply]) => (Array.isArray(reply) ? firstThree(reply) : reply)),
    [[0, 5, 0], 2, [0, 5, 4]],
  );
  const [[, removed], [, after]] = await client.multi().del('pipelined').call(...throttle).exec();
  assert.equal(removed, 1);
  assert.deepEqual(firstThree(after), [0, 5, 4]);
});

test('WEIR.RESET by node-redis resets windows in all regions', async () => {
  const [first, second, abroad] = nodes;
  const client = createClient({
    RESP: 3,
    socket: { host: '127.0.0.1', port: second.server.respPort, reconnectStrategy: false },
  });
  await client.connect();
  try {
    assert.equal((await first.limit('window', 10, 10)).success, 1);
    for (const node of [second, abroad]) {
      await until('the count', async () => (await node.peek('window', 10)).remaining === 0);
    }
    assert.equal(await client.sendCommand(['WEIR.RESET', 'api', 'window', String(kLongWindow)]), 1);
    assert.equal((await second.peek('window', 10)).remaining, 10, 'at once where it was reset');
    for (const node of [first, abroad]) {
      await until('the reset', async () => (await node.peek('window', 10)).remaining === 10);
    }
  } finally {
    client.destroy();
  }
});

test('a reset needs its permission, and is in the audit log', async () => {
  const [{ server }] = nodes;
  const call = async (path, body) => {
    const response = await fetch(`${server.url}/v2/${path}`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${kRootKey}` },
      body: JSON.stringify(body),
    });
    return (await response.json()).data;
  };
  const limit = ['ratelimit.*.limit', 'ratelimit.*.create_namespace'];
  for (const permissions of [limit, [...limit, 'ratelimit.*.reset']]) {
    const { key, keyId } = await call('keys.createKey', { name: 'x', permissions });
    const client = clientOf(server);
    try {
      await client.call('AUTH', key);
      await client.call('CL.THROTTLE', 'guarded', 4, 5, kMonth, 5);
      if (permissions === limit) {
        await assert.rejects(client.del('guarded'), /^ReplyError: NOPERM .* ratelimit\.\S+\.reset/);
        assert.equal(await left(client, 'guarded'), 0);
      } else {
        assert.equal(await client.del('guarded'), 1);
        assert.equal(await left(client, 'guarded'), 5);
        const [entry] = await call('audit.listEntries', { limit: 1 });
        assert.deepEqual(
          [entry.actor, entry.action, entry.detail],
          [keyId, 'identifier.reset', 'identifier guarded'],
        );
      }
    } finally {
      client.disconnect();
    }
  }
});

test('a key of any bytes is reset, and answers about it are JSON', async () => {
  const [{ client, server }] = nodes;
  const key = Buffer.from([0xff, 0x00, 0x80]);
  await client.call('CL.THROTTLE', key, 4, 5, kMonth, 5);
  assert.equal(await client.del(key), 1);
  assert.equal(await left(client, key), 5);
  const response = await fetch(`${server.url}/v2/audit.listEntries`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${kRootKey}` },
    body: '{"limit": 2}',
  });
  const text = new TextDecoder('utf-8', { fatal: true }).decode(await response.arrayBuffer());
  assert.equal(JSON.parse(text).data[0].detail, 'identifier \ufffd\0\ufffd');
});

// Last: it stops the database.
test('while the database is down a reset is an error, and works again afterwards', async () => {
  const [{ client }] = nodes;
  await client.call('CL.THROTTLE', 'outage', 4, 5, kMonth, 5);
  await mariadb.kill();
  await assert.rejects(client.del('outage'), /^ReplyError: TRYAGAIN .*check that mysql:/);
  assert.equal(await left(client, 'outage'), 0);
  await mariadb.start();
  await until('the return', () => client.del('outage').catch(() => false));
  assert.equal(await left(client, 'outage'), 5);
  assert.equal(verdictOf(await client.call('WEIR.PEEK', 'api', 'window', 10, kLongWindow)).remaining, 10);
});
