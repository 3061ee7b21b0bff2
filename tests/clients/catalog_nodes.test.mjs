// The catalog on several servers with one MariaDB, and the commands of `weir` that change it.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { MariaDb } from './mariadb.mjs';
import { clientOf, freePort, until } from './region.mjs';
import { kRootKey, startServer, weir } from './server.mjs';

const kHour = 3_600_000; // ms
const kDay = 86_400; // s
const mariadb = new MariaDb();
let database;
let nodes;
before(async () => {
  await mariadb.install();
  database = await mariadb.ledger();
  const start = (region) => startServer({ args: ['--ledger', database.url(), '--region', region] });
  nodes = await Promise.all([start('eu'), start('us')]);
});
after(async () => {
  for (const node of nodes) await node.stop('SIGTERM');
  await mariadb.stop();
});

async function call(node, path, body, key = kRootKey) {
  const response = await fetch(`${node.url}/v2/${path}`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${key}` },
    body: JSON.stringify(body),
  });
  return { status: response.status, ...(await response.json()) };
}
async function ok(node, path, body, key) {
  const answer = await call(node, path, body, key);
  assert.equal(answer.status, 200, JSON.stringify(answer.error));
  return answer.data;
}
// Runs a command on the database; returns what it prints.
async function command(...args) {
  const { code, stdout, stderr } = await weir([...args, '--ledger', database.url()]);
  assert.equal(code, 0, stderr);
  return stdout;
}
const request = (more) => ({
  namespace: 'api',
  identifier: 'alice',
  limit: 3,
  duration: kHour,
  ...more,
});

test('a change on one node applies on the other within seconds', async () => {
  const [eu, us] = nodes;
  const named = { namespace: 'shared', identifier: 'customer' };
  const limitAt = async (node) =>
    (await ok(node, 'ratelimit.limit', { ...request(), ...named, cost: 0 })).limit;
  assert.equal(await limitAt(us), 3);
  await ok(eu, 'ratelimit.setOverride', { ...named, limit: 9, duration: kHour });
  assert.equal(await limitAt(eu), 9, 'at once where it was set');
  await until('the override', async () => (await limitAt(us)) === 9);
  await ok(us, 'ratelimit.deleteOverride', named);
  await until('its end', async () => (await limitAt(eu)) === 3);
});

test('a key of one node works on the other until it is revoked', async () => {
  const [eu, us] = nodes;
  const { key, keyId } = await ok(eu, 'keys.createKey', {
    name: 'x',
    permissions: ['ratelimit.*.*'],
  });
  const statusAt = async (node) => (await call(node, 'ratelimit.limit', request(), key)).status;
  assert.equal(await statusAt(eu), 200);
  await until('the key', async () => (await statusAt(us)) === 200);
  await ok(us, 'keys.revokeKey', { keyId });
  await until('its end', async () => (await statusAt(eu)) === 401);
});

test('a key that another node has just revoked is not rotated', async () => {
  const [eu, us] = nodes;
  const names = async () => {
    const keys = await ok(eu, 'keys.listKeys', { limit: 100 });
    return keys.filter(({ name }) => name === 'contested');
  };
  for (let i = 0; i < 5; ++i) {
    const { keyId } = await ok(eu, 'keys.createKey', { name: 'contested', permissions: [] });
    await until('the key', async () => (await call(us, 'keys.getKey', { keyId })).status === 200);
    await ok(eu, 'keys.revokeKey', { keyId });
    // The other node has not polled yet, or it has.
    const rotated = await call(us, 'keys.rotateKey', { keyId });
    assert.ok([404, 409].includes(rotated.status), JSON.stringify(rotated));
    assert.deepEqual(await names(), []);
  }
});

test('a server notices that the database was replaced by an older backup', async () => {
  const [eu, us] = nodes;
  const named = { namespace: 'restored', identifier: 'x' };
  const limitAt = async (node) =>
    (await ok(node, 'ratelimit.limit', { ...request(), ...named, cost: 0 })).limit;
  const tables = ['weir_catalog', 'weir_catalog_head', 'weir_audit'];
  for (const table of tables) {
    await database.query(`CREATE TABLE backup_${table} AS SELECT * FROM ${table}`);
  }
  await ok(eu, 'ratelimit.setOverride', { ...named, limit: 9, duration: kHour });
  await until('the override', async () => (await limitAt(us)) === 9);
  // The restore, and more changes than were lost, are one transaction, so no server sees the smaller
  // revision.
  const restore = tables.flatMap((table) => [
    `DELETE FROM ${table}`,
    `INSERT INTO ${table} SELECT * FROM backup_${table}`,
  ]);
  const change =
    'UPDATE weir_catalog_head SET revision = revision + 1;' +
    'INSERT INTO weir_audit SELECT h.revision, 99, 0, 0x77, 0x61, 0x62, 0x63, 0x64 ' +
    'FROM weir_catalog_head h';
  await database.query(
    ['START TRANSACTION', ...restore, change, change, change, 'COMMIT'].join(';'),
  );
  for (const node of nodes) {
    await until('the end of the override', async () => (await limitAt(node)) === 3);
  }
  for (const table of tables) await database.query(`DROP TABLE backup_${table}`);
});

test('a reset applies on all nodes', async () => {
  const body = request({ namespace: 'forgiving', identifier: 'x', limit: 2, cost: 2 });
  const { namespace, identifier } = body;
  for (const node of nodes) {
    await until('the other region', async () => {
      await ok(node, 'ratelimit.limit', body);
      return !(await ok(node, 'ratelimit.limit', { ...body, cost: 1 })).success;
    });
  }
  await ok(nodes[0], 'ratelimit.reset', { namespace, identifier });
  for (const node of nodes) {
    await until('the reset', async () => {
      const { remaining } = await ok(node, 'ratelimit.peek', body);
      return remaining === 2;
    });
  }
});

// The regions have no Redis: each server is one.
test('DEL resets a key of CL.THROTTLE in all regions', async () => {
  const clients = nodes.map(clientOf);
  try {
    const throttle = (client, cost) => client.call('CL.THROTTLE', 'abroad', 4, 5, kDay, cost);
    const left = async (client) => (await throttle(client, 0))[2];
    const [eu, us] = clients;
    await throttle(us, 1);
    await throttle(eu, 4);
    await until('the other region', async () => (await left(us)) === 0 && (await left(eu)) === 0);
    assert.equal(await us.del('abroad'), 1);
    assert.equal(await left(us), 5, 'at once where it was reset');
    await until('the reset', async () => (await left(eu)) === 5);
  } finally {
    for (const client of clients) client.disconnect();
  }
});

test('of two changes at once one wins everywhere, and the audit log has both', async () => {
  const named = { namespace: 'contended', identifier: 'x' };
  await Promise.all(
    nodes.map((node, i) =>
      ok(node, 'ratelimit.setOverride', { ...named, limit: 10 + i, duration: kHour }),
    ),
  );
  const limits = async () =>
    Promise.all(nodes.map(async (node) => (await ok(node, 'ratelimit.getOverride', named)).limit));
  await until('agreement', async () => new Set(await limits()).size === 1);
  const entries = await ok(nodes[0], 'audit.listEntries', { limit: 20 });
  const details = entries
    .filter((entry) => entry.action === 'override.set' && entry.detail.endsWith('identifier x'))
    .map((entry) => entry.detail);
  assert.equal(details.length, 2);
  assert.ok(details[0].includes(`limit ${(await limits())[0]}`), 'the newest wins');
});

test('a namespace that two nodes create at once is one', async () => {
  await Promise.all(
    nodes.map((node) => ok(node, 'ratelimit.limit', request({ namespace: 'twins' }))),
  );
  const named = async (node) =>
    (await ok(node, 'ratelimit.listNamespaces', { limit: 100 })).filter(
      ({ name }) => name === 'twins',
    );
  for (const node of nodes) {
    await until('the namespace', async () => (await named(node)).length === 1);
  }
});

test('commands manage workspaces, keys, namespaces and overrides of running servers', async () => {
  const workspace = (await command('workspaces', 'create', 'acme')).trim();
  assert.match(workspace, /^ws_/);
  const made = await command(
    ...['keys', 'create', 'ci', '--workspace', 'acme', '--expires', '90d'],
    ...['--permission', 'ratelimit.*.limit', '--permission', 'ratelimit.*.create_namespace'],
  );
  const [, id, key] = made.match(/^id +(\S+)\nkey +(\S+)\n$/);
  const limit = (more) => call(nodes[0], 'ratelimit.limit', request(more), key);
  await until('the key', async () => (await limit()).status === 200);
  assert.ok(!(await command('keys', 'list', '--workspace', workspace)).includes(key));
  assert.match(
    await command('keys', 'list', '--workspace', 'acme'),
    new RegExp(`^${id} +ci `, 'm'),
  );

  await command(
    ...['namespaces', 'set', 'named', '--workspace', 'acme', '--limit', '5', '--duration', '1h'],
  );
  await until('its limit', async () => {
    const answer = await call(
      nodes[1],
      'ratelimit.limit',
      { namespace: 'named', identifier: 'x', cost: 0 },
      key,
    );
    return answer.status === 200 && answer.data.limit === 5;
  });
  await command(
    ...['overrides', 'set', 'named', 'vip-*', '--workspace', 'acme'],
    ...['--limit', '50', '--duration', '1h'],
  );
  await until('the override', async () => {
    const answer = await limit({ namespace: 'named', identifier: 'vip-1', cost: 0 });
    return answer.data?.limit === 50;
  });
  assert.match(await command('overrides', 'list', 'named', '--workspace', 'acme'), /^vip-\* /m);
  await command('overrides', 'delete', 'named', 'vip-*', '--workspace', 'acme');
  const rotated = await command('keys', 'rotate', id);
  const fresh = rotated.match(/^key +(\S+)$/m)[1];
  await until('the end of the old key', async () => (await limit()).status === 401);
  assert.equal((await call(nodes[0], 'ratelimit.limit', request(), fresh)).status, 200);
  await command('keys', 'revoke', rotated.match(/^id +(\S+)$/m)[1]);
  await until('its end', async () => {
    return (await call(nodes[0], 'ratelimit.limit', request(), fresh)).status === 401;
  });
  const audit = await command('audit', '--most', '3');
  assert.match(audit.split('\n')[0], / cli {2}key\.revoke /);
});

// It took a minute of CPU time with a million overrides.
test('the end of a key does not wait for the catalog to be read', async () => {
  const own = await mariadb.ledger();
  const run = async (...args) => {
    const { code, stdout, stderr } = await weir([...args, '--ledger', own.url()]);
    assert.equal(code, 0, stderr);
    return stdout;
  };
  const made = await run('keys', 'create', 'ci', '--permission', 'ratelimit.*.limit');
  const [, id] = made.match(/^id +(\S+)$/m);
  await run('namespaces', 'set', 'api', '--limit', '5', '--duration', '1h');
  const statements = async (...args) => {
    await mariadb.query("TRUNCATE mysql.general_log; SET GLOBAL log_output = 'TABLE', GLOBAL general_log = ON");
    await run(...args);
    await mariadb.query('SET GLOBAL general_log = OFF');
    const connected = `SELECT thread_id FROM mysql.general_log WHERE argument LIKE '% on ${own.name} %'`;
    const rows = await mariadb.query(
      `SELECT argument FROM mysql.general_log WHERE thread_id IN (${connected}) AND argument LIKE '%weir_catalog%'`,
    );
    return rows.map(([text]) => text).filter((text) => /ORDER BY revision/.test(text));
  };
  assert.ok((await statements('keys', 'list')).length > 0, 'a list reads the rows in their order');
  assert.deepEqual(await statements('keys', 'revoke', id), []);
  assert.doesNotMatch(await run('keys', 'list'), new RegExp(id));
});

test('commands make the checks of the API', async () => {
  const refused = async (part, ...args) => {
    const { code, stderr } = await weir([...args, '--ledger', database.url()]);
    assert.notEqual(code, 0, `${args}`);
    assert.match(stderr, part, `${args}`);
  };
  const permission = ['--permission', 'ratelimit.*.limit'];
  const long = 'x'.repeat(600);
  await refused(/has 0 bytes: it must have 1 to 512/, 'keys', 'create', '', ...permission);
  await refused(/has 600 bytes/, 'keys', 'create', long, ...permission);
  await refused(/a time above 0/, 'keys', 'create', 'x', '--expires', '0s', ...permission);
  await refused(/has 0 bytes/, 'namespaces', 'set', '');
  await refused(/has 600 bytes/, 'namespaces', 'set', long);
  await refused(/has 0 bytes/, 'workspaces', 'create', '');
  const million = ['--limit', '1000000', '--duration', '1m'];
  const log = ['--algorithm', 'sliding_log'];
  await refused(/at most 10000 for sliding_log/, 'namespaces', 'set', 'log', ...million, ...log);
  await command('namespaces', 'set', 'log', '--limit', '5', '--duration', '1m', ...log);
  await refused(/at most 10000: the namespace uses sliding_log/, 'overrides', 'set', 'log', 'vip', ...million);
  await refused(/has 0 bytes/, 'overrides', 'set', 'log', '', ...million);
});

test('a rotation with a grace period counts the old key', async () => {
  const own = await mariadb.ledger();
  const run = (...args) => weir([...args, '--ledger', own.url()]);
  const { stdout } = await run('keys', 'create', 'ci', '--permission', 'ratelimit.*.limit');
  const [, id] = stdout.match(/^id +(\S+)$/m);
  const columns = 'kind, workspace, parent, name, body, deleted, revision, changed_at_ms';
  await mariadb.query(
    `USE ${own.name};
     INSERT INTO weir_catalog (id, ${columns})
     SELECT CONCAT('key_', seq), ${columns} FROM weir_catalog, seq_1_to_9999 WHERE id = '${id}'`,
  );
  const refused = await run('keys', 'rotate', id, '--grace', '1h');
  assert.equal(refused.code, 1, refused.stdout);
  assert.match(refused.stderr, /has 10000 keys.*at most 10000 can be created; revoke some/);
  assert.equal((await run('keys', 'rotate', id)).code, 0, 'the old key ends at once');
});

test('commands name what is wrong', async () => {
  const refused = async (...args) => {
    const { code, stderr } = await weir([...args, '--ledger', database.url()]);
    assert.notEqual(code, 0);
    assert.ok(!stderr.includes('secret'), stderr);
    return stderr;
  };
  assert.match(await refused('keys', 'create', 'x', '--permission', 'fly'), /"fly".*no permission/);
  assert.match(await refused('keys', 'revoke', 'key_0'), /no key key_0.*weir keys list/);
  assert.match(await refused('overrides', 'list', 'nothing'), /no namespace nothing/);
  assert.match(
    await refused('overrides', 'set', 'api', 'x', '--limit', '1', '--duration', '1ms'),
    /1s to 30d/,
  );
  assert.match(await refused('workspaces', 'delete', 'default'), /cannot be deleted/);
  const closed = `mysql://weir:secret@127.0.0.1:${await freePort()}/weir`;
  const { code, stderr } = await weir(['keys', 'list', '--ledger', closed]);
  assert.equal(code, 1);
  assert.match(stderr, /check that mysql:\/\/127\.0\.0\.1:\d+\/weir\S* is up and reachable/);
});

// Last: it stops the database.
test('while the database is down known keys go on, and unknown ones get 503', async () => {
  const [eu] = nodes;
  const { key } = await ok(eu, 'keys.createKey', { name: 'x', permissions: ['ratelimit.*.*'] });
  await ok(eu, 'ratelimit.setOverride', {
    namespace: 'outage',
    identifier: 'x',
    limit: 77,
    duration: kHour,
  });
  await mariadb.kill();
  const unknown = 'weir_000000000000000000000000000000';
  await until('the loss', async () => {
    const { status } = await call(eu, 'ratelimit.limit', request(), unknown);
    assert.ok([401, 503].includes(status));
    return status === 503;
  });
  const body = request({ namespace: 'outage', identifier: 'x' });
  assert.equal((await ok(eu, 'ratelimit.limit', body, key)).limit, 77);
  await ok(eu, 'ratelimit.limit', request({ namespace: 'a new one' }), key);
  const change = { namespace: 'outage', identifier: 'x', limit: 1, duration: kHour };
  assert.equal((await call(eu, 'ratelimit.setOverride', change, key)).status, 503);
  await mariadb.start();
  await until('the return', async () => {
    return (await call(eu, 'ratelimit.limit', request(), unknown)).status === 401;
  });
  await ok(eu, 'ratelimit.setOverride', change, key);
  assert.equal((await ok(eu, 'ratelimit.limit', body, key)).limit, 1);
});
