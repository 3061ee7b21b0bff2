// Tenants, keys, permissions, named limits, resets and the audit log, over HTTP and RESP.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createClient } from 'redis';

import { kRootKey, startServer, temporaryFolder } from './server.mjs';

const kHour = 3_600_000; // ms
const data = temporaryFolder();
let server;
before(async () => (server = await startServer({ data })));
after(() => server.stop());

async function call(path, body, key = kRootKey) {
  const response = await fetch(`${server.url}/v2/${path}`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${key}` },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  return { status: response.status, ...answer };
}

// A call that must succeed: its data.
async function ok(path, body, key) {
  const answer = await call(path, body, key);
  assert.equal(answer.status, 200, JSON.stringify(answer.error));
  return answer.data;
}

const createKey = (permissions, more) =>
  ok('keys.createKey', { name: 'a key', permissions, ...more });
const request = (more) => ({
  namespace: 'api',
  identifier: 'alice',
  limit: 3,
  duration: kHour,
  ...more,
});

// Waits until a check succeeds.
async function until(check) {
  for (let left = 200; ; --left) {
    if (await check()) return;
    assert.ok(left > 0, 'it did not happen');
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

test('a key works until it is revoked, also on open connections', async () => {
  const { key, keyId } = await createKey(['ratelimit.*.limit', 'ratelimit.*.create_namespace']);
  assert.match(key, /^weir_[A-Za-z0-9]{30}$/);
  assert.equal((await call('ratelimit.limit', request(), key)).status, 200);
  const client = createClient({
    url: `redis://127.0.0.1:${server.respPort}`,
    password: key,
    disableOfflineQueue: true,
  });
  client.on('error', () => {});
  await client.connect();
  await client.sendCommand(['WEIR.LIMIT', 'api', 'bob', '3', `${kHour}`]);
  await ok('keys.revokeKey', { keyId });
  assert.equal((await call('ratelimit.limit', request(), key)).status, 401);
  await assert.rejects(
    client.sendCommand(['WEIR.LIMIT', 'api', 'bob', '3', `${kHour}`]),
    /WRONGPASS this key was revoked/,
  );
  client.destroy();
});

test('a key ends at its expiry', async () => {
  const { key } = await createKey(['ratelimit.*.*'], { expires: Date.now() + 1500 });
  assert.equal((await call('ratelimit.limit', request(), key)).status, 200);
  await until(async () => (await call('ratelimit.limit', request(), key)).status === 401);
});

test('a rotated key has the same rights, and the old one ends', async () => {
  const old = await createKey(['ratelimit.*.*']);
  const fresh = await ok('keys.rotateKey', { keyId: old.keyId });
  assert.notEqual(fresh.key, old.key);
  assert.equal((await call('ratelimit.limit', request(), fresh.key)).status, 200);
  assert.equal((await call('ratelimit.limit', request(), old.key)).status, 401);
});

test('keys are listed without their secrets', async () => {
  const { keyId, key } = await createKey(['ratelimit.*.limit']);
  const listed = await call('keys.listKeys', { limit: 100 });
  const text = JSON.stringify(listed);
  assert.ok(text.includes(keyId));
  assert.ok(!text.includes(key) && !text.includes(key.slice(0, 16)));
  const { start, permissions } = await ok('keys.getKey', { keyId });
  assert.deepEqual([start, permissions], [key.slice(0, 12), ['ratelimit.*.limit']]);
});

test('a key cannot give rights that it does not have', async () => {
  const { key } = await createKey(['key.*.create_key', 'ratelimit.*.limit']);
  const more = { name: 'x', permissions: ['ratelimit.*.set_override'] };
  assert.equal((await call('keys.createKey', more, key)).status, 403);
  const same = { name: 'x', permissions: ['ratelimit.*.limit'] };
  assert.equal((await call('keys.createKey', same, key)).status, 200);
  const other = { ...same, workspaceId: 'ws_other' };
  assert.equal((await call('keys.createKey', other, key)).status, 404);
  assert.equal((await call('workspaces.listWorkspaces', {}, key)).status, 403);
});

test('a permission hides no other one', async () => {
  const { key } = await createKey(['key.*.create_key', 'ratelimit.*.limit']);
  for (const text of [
    'ratelimit.rlns_x ratelimit.*.* key.*.* ratelimit.rlns_y.limit',
    'ratelimit.rlns_x\nhash 00.limit',
  ]) {
    const made = await call('keys.createKey', { name: 'x', permissions: [text] }, key);
    assert.equal(made.status, 400, text);
  }
});

test('a key gives no more time and no more requests than it has', async () => {
  const expires = Date.now() + kHour;
  const parent = await createKey(['key.*.*'], { expires, perSecond: 50 });
  const { keyId } = await ok('keys.createKey', { name: 'child', permissions: [] }, parent.key);
  const child = await ok('keys.getKey', { keyId });
  assert.deepEqual([child.expires, child.perSecond], [expires, 50]);
});

test('a request cannot raise the limit of its namespace by a burst', async () => {
  await ok('ratelimit.createNamespace', { name: 'capped', limit: 5, duration: kHour });
  const body = {
    namespace: 'capped',
    identifier: 'x',
    algorithm: 'gcra',
    limit: 1,
    duration: 1000,
  };
  assert.equal((await ok('ratelimit.limit', { ...body, burst: 1_000_000 })).limit, 5);
});

test('names that look like ids are refused, and ids of others are not taken', async () => {
  const name = 'rlns_aaaaaaaaaaaaaaaaaaaaaaaa';
  assert.equal((await call('ratelimit.limit', request({ namespace: name }))).status, 404);
  const override = { namespace: name, identifier: 'x', limit: 1, duration: kHour };
  assert.equal((await call('ratelimit.setOverride', override)).status, 404);
  assert.equal((await call('ratelimit.createNamespace', { name })).status, 400);
});

test('commands about the whole server need the root key', async () => {
  const { key } = await createKey(['ratelimit.*.*']);
  const client = createClient({ url: `redis://127.0.0.1:${server.respPort}`, password: key });
  await client.connect();
  await assert.rejects(client.sendCommand(['INFO']), /NOPERM/);
  await assert.rejects(client.sendCommand(['SCRIPT', 'FLUSH']), /NOPERM/);
  assert.equal(await client.sendCommand(['PING']), 'PONG');
  client.destroy();
});

// What each verb needs; every other permission alone must not do.
test('every verb needs its permission and no other', async () => {
  const { namespaceId: id } = await ok('ratelimit.createNamespace', { name: 'matrix' });
  await ok('ratelimit.setOverride', {
    namespace: 'matrix',
    identifier: 'kept',
    limit: 1,
    duration: kHour,
  });
  const victim = await createKey([]); // weaker than each of the others
  const verbs = {
    limit: ['ratelimit.limit', request({ namespace: 'matrix' })],
    peek: ['ratelimit.peek', request({ namespace: 'matrix' })],
    reset: ['ratelimit.reset', { namespace: 'matrix', identifier: 'alice' }],
    read_namespace: ['ratelimit.getNamespace', { namespace: 'matrix' }],
    update_namespace: ['ratelimit.updateNamespace', { namespace: 'matrix' }],
    set_override: [
      'ratelimit.setOverride',
      { namespace: 'matrix', identifier: 'new', limit: 1, duration: kHour },
    ],
    read_override: ['ratelimit.getOverride', { namespace: 'matrix', identifier: 'kept' }],
    delete_override: ['ratelimit.deleteOverride', { namespace: 'matrix', identifier: 'new' }],
    read_key: ['keys.getKey', { keyId: victim.keyId }],
    create_key: ['keys.createKey', { name: 'x', permissions: [] }],
    read_audit: ['audit.listEntries', {}],
    create_namespace: ['ratelimit.createNamespace', { name: 'matrix 2' }],
    revoke_key: ['keys.revokeKey', { keyId: victim.keyId }],
    delete_namespace: ['ratelimit.deleteNamespace', { namespace: 'matrix' }],
  };
  const permissionOf = (verb, target) =>
    verb.endsWith('_key')
      ? `key.*.${verb}`
      : verb === 'read_audit'
        ? `audit.*.${verb}`
        : `ratelimit.${target}.${verb}`;
  const keys = {};
  for (const verb of Object.keys(verbs)) {
    keys[verb] = (await createKey([permissionOf(verb, '*')])).key;
  }
  for (const [verb, [path, body]] of Object.entries(verbs)) {
    for (const other of Object.keys(verbs)) {
      if (other === verb || (verb === 'peek' && other === 'limit')) continue;
      const answer = await call(path, body, keys[other]);
      assert.ok([403, 404].includes(answer.status), `${verb} with ${other}: ${answer.status}`);
      if (answer.status === 403) {
        assert.match(answer.error.detail, new RegExp(`lacks the permission \\S*\\.${verb}$`));
      }
    }
    const answer = await call(path, body, keys[verb]);
    assert.equal(answer.status, 200, `${verb}: ${JSON.stringify(answer.error)}`);
  }
  assert.equal((await call('ratelimit.limit', request({ namespace: 'matrix' }))).status, 410);
  assert.equal((await call('ratelimit.limit', request({ namespace: id }))).status, 410);
  await ok('ratelimit.createNamespace', { name: 'matrix' });
  assert.equal((await call('ratelimit.limit', request({ namespace: 'matrix' }))).status, 200);
});

test('a key of one namespace does not learn of others', async () => {
  const one = await ok('ratelimit.createNamespace', { name: 'one' });
  await ok('ratelimit.createNamespace', { name: 'two' });
  const { key } = await createKey([`ratelimit.${one.namespaceId}.limit`]);
  assert.equal((await call('ratelimit.limit', request({ namespace: 'one' }), key)).status, 200);
  const known = await call('ratelimit.limit', request({ namespace: 'two' }), key);
  const unknown = await call('ratelimit.limit', request({ namespace: 'six' }), key);
  assert.deepEqual([known.status, unknown.status], [404, 404]);
  assert.equal(known.error.detail.replace('two', 'six'), unknown.error.detail);
  const override = { namespace: 'one', identifier: 'x', limit: 1, duration: kHour };
  assert.equal((await call('ratelimit.setOverride', override, key)).status, 403);
  assert.equal((await call('ratelimit.listNamespaces', {}, key)).status, 403);
});

test('workspaces never meet', async () => {
  const keys = [];
  for (const name of ['red', 'blue']) {
    const { workspaceId } = await ok('workspaces.createWorkspace', { name });
    keys.push((await createKey(['ratelimit.*.*', 'key.*.*', 'audit.*.*'], { workspaceId })).key);
  }
  const [red, blue] = keys;
  const body = request({ namespace: 'shared name', limit: 1 });
  assert.equal((await ok('ratelimit.limit', body, red)).success, true);
  assert.equal((await ok('ratelimit.limit', body, red)).success, false);
  assert.equal((await ok('ratelimit.limit', body, blue)).success, true);
  assert.equal((await ok('ratelimit.limit', body)).success, true, 'the workspace of the root key');
  await ok(
    'ratelimit.setOverride',
    { namespace: 'shared name', identifier: 'alice', limit: 9, duration: kHour },
    red,
  );
  assert.equal((await ok('ratelimit.limit', body, red)).limit, 9);
  assert.equal((await ok('ratelimit.limit', body, blue)).limit, 1);
  const redKeys = await ok('keys.listKeys', {}, red);
  assert.equal(redKeys.length, 1);
  assert.equal((await call('keys.revokeKey', { keyId: redKeys[0].keyId }, blue)).status, 404);
  const audit = await ok('audit.listEntries', {}, blue);
  assert.ok(audit.every((entry) => entry.workspaceId !== redKeys[0].workspaceId));
  assert.ok(!audit.some((entry) => entry.action === 'override.set'));

  const clients = await Promise.all(
    keys.map(async (password) => {
      const client = createClient({ url: `redis://127.0.0.1:${server.respPort}`, password });
      await client.connect();
      return client;
    }),
  );
  const throttle = ['CL.THROTTLE', 'carol', '0', '1', '3600'];
  assert.equal((await clients[0].sendCommand(throttle))[0], 0);
  assert.equal((await clients[0].sendCommand(throttle))[0], 1);
  assert.equal((await clients[1].sendCommand(throttle))[0], 0);
  for (const client of clients) client.destroy();
});

test('a namespace has a limit, and requests may omit it', async () => {
  await ok('ratelimit.createNamespace', {
    name: 'named',
    limit: 2,
    duration: kHour,
    algorithm: 'gcra',
    burst: 4,
  });
  const bare = { namespace: 'named', identifier: 'alice' };
  assert.equal((await ok('ratelimit.limit', bare)).limit, 4);
  assert.equal((await ok('ratelimit.limit', { ...bare, limit: 100, duration: 1000 })).limit, 4);
  const missing = await call('ratelimit.limit', { namespace: 'other', identifier: 'alice' });
  assert.equal(missing.status, 400);
  assert.deepEqual(
    missing.error.errors.map((each) => each.location),
    ['body.limit', 'body.duration'],
  );
});

test('peek changes nothing', async () => {
  const body = request({ identifier: 'peeked', limit: 2 });
  for (let i = 0; i < 5; ++i) assert.equal((await ok('ratelimit.peek', body)).remaining, 2);
  await ok('ratelimit.limit', body);
  assert.equal((await ok('ratelimit.peek', body)).remaining, 1);
});

test('reset forgets what one identifier has consumed, again and again', async () => {
  for (const algorithm of [
    'sliding_window',
    'fixed_window',
    'sliding_window_strict',
    'sliding_log',
    'gcra',
    'token_bucket',
  ]) {
    const body = request({
      namespace: 'forgiving',
      identifier: `${algorithm} ü`,
      limit: 2,
      algorithm,
    });
    const { identifier, namespace } = body;
    for (let round = 0; round < 3; ++round) {
      assert.equal((await ok('ratelimit.limit', { ...body, cost: 2 })).success, true, algorithm);
      assert.equal((await ok('ratelimit.limit', body)).success, false, algorithm);
      await ok('ratelimit.reset', { namespace, identifier });
    }
    const other = { ...body, identifier: 'another', algorithm };
    await ok('ratelimit.limit', other);
  }
});

test('a key has a request rate of its own', async () => {
  const { key } = await createKey(['ratelimit.*.*'], { perSecond: 3 });
  const statuses = [];
  for (let i = 0; i < 30; ++i)
    statuses.push((await call('ratelimit.limit', request(), key)).status);
  assert.ok(statuses.includes(429), `${statuses}`);
  assert.equal(statuses[0], 200);
});

test('the audit log has every change with its author, and no secret', async () => {
  const admin = await createKey(['ratelimit.*.*', 'audit.*.*']);
  const named = { namespace: 'audited', identifier: 'x' };
  await ok('ratelimit.setOverride', { ...named, limit: 1, duration: kHour }, admin.key);
  await ok('ratelimit.deleteOverride', named, admin.key);
  const entries = [];
  for (let cursor; ;) {
    const page = await call('audit.listEntries', { limit: 7, cursor }, admin.key);
    entries.push(...page.data);
    ({ cursor } = page.pagination);
    if (!page.pagination.hasMore) break;
  }
  const mine = entries.filter((entry) => entry.actor === admin.keyId).map((entry) => entry.action);
  assert.deepEqual(mine, ['override.delete', 'override.set', 'namespace.create']);
  const revisions = entries.map((entry) => entry.revision);
  assert.deepEqual(
    [...revisions].sort((a, b) => b - a),
    revisions,
  );
  assert.ok(!JSON.stringify(entries).includes(admin.key));
});

test('no secret is in the log or in the database', async () => {
  const { key } = await createKey(['ratelimit.*.*']);
  await call('ratelimit.limit', request(), key);
  await call('ratelimit.limit', request(), `${key}x`);
  assert.ok(!server.output.includes(key));
  const { readdirSync, readFileSync } = await import('node:fs');
  for (const name of readdirSync(data)) {
    if (name.includes('sock')) continue;
    const bytes = readFileSync(`${data}/${name}`);
    assert.ok(!bytes.includes(key), name);
    assert.ok(!bytes.includes(kRootKey), name);
  }
});

test('keys, limits and overrides are there after a restart', async () => {
  const { key } = await createKey(['ratelimit.*.*']);
  const named = { namespace: 'kept', identifier: 'x' };
  await ok('ratelimit.setOverride', { ...named, limit: 42, duration: kHour }, key);
  await server.stop();
  server = await startServer({ data });
  await until(
    async () =>
      (await call('ratelimit.limit', { ...named, limit: 1, duration: kHour }, key)).status === 200,
  );
  assert.equal(
    (await ok('ratelimit.limit', { ...named, limit: 1, duration: kHour }, key)).limit,
    42,
  );
});
