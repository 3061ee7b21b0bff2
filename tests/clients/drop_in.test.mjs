// Programs written for Redis with redis-cell, unchanged: the commands that their clients send besides
// CL.THROTTLE. docs/protocols/resp.md has the table of the tested versions.

import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import IoRedis from 'ioredis';
import IoValkey from 'iovalkey';
import { createClient, createCluster } from 'redis';

import { kRootKey, run, startServer, temporaryFolder } from './server.mjs';
import { Wire } from './wire.mjs';

const kMonth = 2_592_000; // s
const kTenYears = 315_619_200; // s
const kScript = "return redis.call('CL.THROTTLE', KEYS[1], ARGV[1], ARGV[2], ARGV[3])";
const kThrottled = [0, 10, 9, -1, kMonth / 10];
const host = '127.0.0.1';
const folder = temporaryFolder();
const sockets = { http: join(folder, 'http.sock'), resp: join(folder, 'resp.sock') };
let server;

before(async () => {
  const args = ['--http-socket', sockets.http, '--resp-socket', sockets.resp];
  server = await startServer({ args });
});
after(() => server.stop());

// --- ioredis and iovalkey, which have the same calls ---

for (const [name, Redis] of [
  ['ioredis', IoRedis],
  ['iovalkey', IoValkey],
]) {
  const key = (what) => `${name}:${what}`;
  const with_client = (what, body, options = {}) =>
    test(`${name} ${what}`, async () => {
      const client = new Redis({ host, port: server.respPort, retryStrategy: null, ...options });
      try {
        await body(client);
      } finally {
        client.disconnect();
      }
    });

  with_client('runs multi() as a transaction with one answer', async (client) => {
    const replies = await client
      .multi()
      .call('CL.THROTTLE', key('multi'), 9, 10, kMonth)
      .call('CL.THROTTLE', key('multi'), 9, 10, kMonth)
      .ping()
      .exec();
    assert.deepEqual(
      replies.map(([error]) => error),
      [null, null, null],
    );
    assert.deepEqual([replies[0][1][2], replies[1][1][2], replies[2][1]], [9, 8, 'PONG']);
  });

  with_client('runs multi() without a pipeline, and discards it', async (client) => {
    await client.multi({ pipeline: false });
    assert.equal(await client.call('CL.THROTTLE', key('separate'), 9, 10, kMonth), 'QUEUED');
    assert.deepEqual((await client.exec()).length, 1);
    await client.multi({ pipeline: false });
    assert.equal(await client.call('CL.THROTTLE', key('separate'), 9, 10, kMonth), 'QUEUED');
    assert.equal(await client.discard(), 'OK');
    assert.equal((await client.call('CL.THROTTLE', key('separate'), 9, 10, kMonth, 0))[2], 9);
  });

  with_client('gets an error for a refused transaction', async (client) => {
    const line = client.multi().call('CL.THROTTLE', key('no'), 9, 10, kMonth).call('NOPE');
    await assert.rejects(line.exec(), /EXECABORT/);
    assert.equal((await client.call('CL.THROTTLE', key('no'), 9, 10, kMonth, 0))[2], 10);
  });

  with_client('defines a command by a script, which goes by EVALSHA and EVAL', async (client) => {
    client.defineCommand('throttle', { numberOfKeys: 1, lua: kScript });
    assert.deepEqual(await client.throttle(key('script'), 9, 10, kMonth), kThrottled);
    assert.equal((await client.throttle(key('script'), 9, 10, kMonth))[2], 8);
    const sha = await client.script('LOAD', kScript);
    assert.equal((await client.evalsha(sha, 1, key('script'), 9, 10, kMonth))[2], 7);
    assert.deepEqual(await client.script('EXISTS', sha, 'f'.repeat(40)), [1, 0]);
    await assert.rejects(client.eval('return 1', 0), /Weir runs one kind of script/);
  });

  with_client('forgets a key by del() and unlink()', async (client) => {
    await client.call('CL.THROTTLE', key('del'), 9, 10, kMonth, 5);
    assert.equal(await client.del(key('del'), key('none')), 1);
    assert.deepEqual(await client.call('CL.THROTTLE', key('del'), 9, 10, kMonth), kThrottled);
    assert.equal(await client.unlink(key('del')), 1);
  });

  with_client('finds redis-cell by COMMAND INFO', async (client) => {
    const [known, unknown] = await client.command('INFO', 'CL.THROTTLE', 'GET');
    assert.deepEqual(known.slice(0, 6), ['cl.throttle', -5, ['write', 'fast'], 1, 1, 1]);
    assert.equal(unknown, null);
  });

  with_client(
    'that selects another database gets an error',
    async (client) => {
      const failed = new Promise((done) => client.once('error', done));
      assert.match((await failed).message, /DB index is out of range/);
    },
    { db: 1 },
  );

  with_client(
    'connects to the Unix socket',
    async (client) => {
      assert.deepEqual(await client.call('CL.THROTTLE', key('unix'), 9, 10, kMonth), kThrottled);
    },
    { host: undefined, port: undefined, path: sockets.resp },
  );

  test(`${name} Cluster connects, throttles, pipelines and runs multi()`, async () => {
    const cluster = new Redis.Cluster([{ host, port: server.respPort }], {
      clusterRetryStrategy: null,
    });
    try {
      assert.deepEqual(await cluster.call('CL.THROTTLE', key('cluster'), 9, 10, kMonth), kThrottled);
      assert.equal(cluster.nodes('master').length, 1);
      const pipeline = cluster.pipeline();
      for (let i = 0; i < 3; ++i) pipeline.call('CL.THROTTLE', key('cluster'), 9, 10, kMonth);
      assert.deepEqual(
        (await pipeline.exec()).map(([, reply]) => reply[2]),
        [8, 7, 6],
      );
      const multi = await cluster.multi().call('CL.THROTTLE', key('cluster'), 9, 10, kMonth).exec();
      assert.equal(multi[0][1][2], 5);
      assert.equal(await cluster.del(key('cluster')), 1);
      assert.equal(await cluster.cluster('KEYSLOT', 'foo'), 12182);
    } finally {
      cluster.disconnect();
    }
  });
}

// --- the npm package "redis" ---

for (const RESP of [2, 3]) {
  const key = (what) => `redis${RESP}:${what}`;
  const throttle = (what, ...more) =>
    ['CL.THROTTLE', key(what), 9, 10, kMonth, ...more].map(String);
  const with_client = (what, body, more = {}) =>
    test(`redis ${what}, in version ${RESP}`, async () => {
      const socket = { host, port: server.respPort, reconnectStrategy: false };
      const client = createClient({ RESP, socket, ...more });
      client.on('error', () => {}); // the awaited call reports it
      await client.connect();
      try {
        await body(client);
      } finally {
        await client.close();
      }
    });

  with_client('runs multi() as a transaction with one answer', async (client) => {
    const replies = await client
      .multi()
      .addCommand(throttle('multi'))
      .addCommand(throttle('multi'))
      .ping()
      .exec();
    assert.deepEqual(replies, [kThrottled, [0, 10, 8, -1, kMonth / 5], 'PONG']);
  });

  with_client('gets an error for a refused transaction', async (client) => {
    const multi = client.multi().addCommand(throttle('no')).addCommand(['NOPE']);
    await assert.rejects(multi.exec(), /EXECABORT|unknown command/);
    assert.equal((await client.sendCommand(throttle('no', 0)))[2], 10);
  });

  with_client('runs the script by its text and by its name', async (client) => {
    const how = { keys: [key('script')], arguments: ['9', '10', String(kMonth)] };
    assert.deepEqual(await client.eval(kScript, how), kThrottled);
    const sha = await client.scriptLoad(kScript);
    assert.equal((await client.evalSha(sha, how))[2], 8);
    assert.deepEqual(await client.scriptExists(sha), [1]);
  });

  with_client('deletes a key, and reads COMMAND INFO and CLUSTER', async (client) => {
    await client.sendCommand(throttle('del', 5));
    assert.equal(await client.del(key('del')), 1);
    assert.deepEqual(await client.sendCommand(throttle('del')), kThrottled);
    const [info] = await client.commandInfo(['CL.THROTTLE']);
    assert.deepEqual([info.name, info.arity, info.firstKeyIndex], ['cl.throttle', -5, 1]);
    const [slots] = await client.clusterSlots();
    assert.deepEqual(
      [slots.from, slots.to, slots.master.host, slots.master.port],
      [0, 16383, host, server.respPort],
    );
    assert.equal(await client.clusterKeySlot('foo'), 12182);
    assert.match(await client.clusterNodes(), / myself,master .* connected 0-16383\n$/);
    const [shard] = await client.sendCommand(['CLUSTER', 'SHARDS']);
    assert.equal(Array.isArray(shard), RESP === 2);
  });

  with_client('resets a tuple by WEIR.RESET', async (client) => {
    const name = key('reset');
    const limit = ['WEIR.LIMIT', 'ns', name, '5', '60000', 'ALGORITHM', 'gcra'];
    const reset = ['WEIR.RESET', 'ns', name, '60000', 'ALGORITHM', 'gcra'];
    await client.sendCommand([...limit, 'COST', '5']);
    assert.equal(await client.sendCommand(reset), 1);
    assert.equal(await client.sendCommand(reset), 0);
    // A server has a ledger, where windows only grow: they are reset through the catalog.
    const window = ['WEIR.LIMIT', 'ns', name, '5', '2592000000', 'COST', '5'];
    const admitted = async () => {
      const reply = await client.sendCommand(window);
      return Boolean(Array.isArray(reply) ? reply[1] : reply.success);
    };
    assert.equal(await admitted(), true);
    assert.equal(await admitted(), false);
    assert.equal(await client.sendCommand(['WEIR.RESET', 'ns', name, '2592000000']), 1);
    assert.equal(await admitted(), true);
  });

  with_client('counts keys of 64 KiB separately, for ten years', async (client) => {
    const long = (last) => `${key('long')}${'x'.repeat(65_000)}${last}`;
    const throttle = (last, period) =>
      client.sendCommand(['CL.THROTTLE', long(last), '9', '10', String(period)]);
    assert.deepEqual(await throttle('a', kTenYears), [0, 10, 9, -1, kTenYears / 10]);
    assert.equal((await throttle('a', kTenYears))[2], 8);
    assert.equal((await throttle('b', kTenYears))[2], 9);
    await assert.rejects(throttle('c', kTenYears + 1), /period is '315619201': it must be/);
    assert.equal(await client.del(long('a')), 1);
  });

  test(`redis that selects another database gets an error, in version ${RESP}`, async () => {
    const socket = { host, port: server.respPort, reconnectStrategy: false };
    const client = createClient({ RESP, database: 1, socket });
    client.on('error', () => {});
    await assert.rejects(client.connect(), /DB index is out of range/);
    if (client.isOpen) client.destroy();
  });

  with_client(
    'connects to the Unix socket',
    async (client) => {
      assert.deepEqual(await client.sendCommand(throttle('unix')), kThrottled);
    },
    { socket: { path: sockets.resp, reconnectStrategy: false } },
  );

  test(`redis createCluster() connects, throttles and runs multi(), in version ${RESP}`, async () => {
    const cluster = createCluster({
      rootNodes: [{ url: `redis://${host}:${server.respPort}` }],
      defaults: { RESP },
      RESP,
    });
    cluster.on('error', () => {});
    await cluster.connect();
    try {
      const name = key('cluster');
      assert.deepEqual(await cluster.sendCommand(name, false, throttle('cluster')), kThrottled);
      const multi = await cluster.multi(name).addCommand(name, false, throttle('cluster')).exec();
      assert.equal(multi[0][2], 8);
      assert.equal(await cluster.del(name), 1);
    } finally {
      await cluster.close();
    }
  });
}

// --- Python, of Debian ---

test('python3-redis: pipelines, scripts, databases, the Unix socket and RedisCluster', async () => {
  const script = fileURLToPath(new URL('drop_in.py', import.meta.url));
  const { code, stdout, stderr } = await run('/usr/bin/python3', [
    script,
    String(server.respPort),
    sockets.resp,
  ]);
  assert.equal(code, 0, stderr);
  const result = JSON.parse(stdout);
  assert.match(result.version, /^4\.3\./);
  assert.deepEqual(result.pipeline, [kThrottled, [0, 10, 8, -1, kMonth / 5]]);
  assert.deepEqual(result.pipeline_without_transaction, [[0, 10, 7, -1, (3 * kMonth) / 10]]);
  assert.match(result.refused, /unknown command 'NOPE'/);
  assert.equal(result.after_refused, 10);
  assert.deepEqual(result.script, kThrottled);
  assert.match(result.database, /DB index is out of range/);
  assert.equal(result.deleted, 1);
  assert.deepEqual(result.unix, kThrottled);
  assert.deepEqual(result.cluster, kThrottled);
  assert.deepEqual(result.cluster_pipeline, [
    [0, 10, 8, -1, kMonth / 5],
    [0, 10, 7, -1, (3 * kMonth) / 10],
  ]);
  assert.equal(result.cluster_deleted, 1);
});

// --- others ---

test('redis-cli works with -c and -s', async () => {
  const port = String(server.respPort);
  const cluster = await run('redis-cli', ['-c', '-p', port, 'CL.THROTTLE', 'cli', '9', '10', '60']);
  assert.equal(cluster.stdout, '0\n10\n9\n-1\n6\n');
  const unix = await run('redis-cli', ['-s', sockets.resp, 'CL.THROTTLE', 'cli', '9', '10', '60']);
  assert.equal(unix.stdout.split('\n')[2], '8');
});

test('the slot of a key equals that of redis-server', async () => {
  const redis = await Wire.open(server.respPort);
  // Computed by redis-server 7.0.
  const slots = { foo: 12182, bar: 5061, hello: 866, '{user}.a': 5474, 'foo{}{bar}': 8363 };
  for (const [key, slot] of Object.entries(slots)) {
    await redis.send(`CLUSTER KEYSLOT ${key}\r\n`);
    assert.equal(await redis.reply(), slot, key);
  }
  redis.close();
});

test('HTTP is served at its Unix socket, for the owner and the group', async () => {
  assert.equal(statSync(sockets.http).mode & 0o777, 0o660);
  assert.equal(statSync(sockets.resp).mode & 0o777, 0o660);
  const body = { namespace: 'ns', identifier: 'unix', limit: 5, duration: 60000 };
  const answer = await new Promise((done, failed) => {
    const outgoing = request(
      {
        socketPath: sockets.http,
        path: '/v2/ratelimit.limit',
        method: 'POST',
        headers: { Authorization: `Bearer ${kRootKey}` },
      },
      (response) => {
        let text = '';
        response.on('data', (bytes) => (text += bytes));
        response.on('end', () => done({ status: response.statusCode, body: JSON.parse(text) }));
      },
    );
    outgoing.on('error', failed);
    outgoing.end(JSON.stringify(body));
  });
  assert.equal(answer.status, 200);
  assert.equal(answer.body.data.remaining, 4);
});

test('a Unix socket is removed with its server, and a stale one is replaced', async () => {
  const path = join(folder, 'killed.sock');
  const args = ['--resp-socket', path];
  const first = await startServer({ args });
  await assert.rejects(startServer({ args }), /another process listens there/);
  first.child.kill('SIGKILL');
  await first.ended;
  assert.ok(statSync(path).isSocket());
  const second = await startServer({ args });
  const ping = await run('redis-cli', ['-s', path, 'PING']);
  assert.equal(ping.stdout, 'PONG\n');
  await second.stop();
  assert.throws(() => statSync(path), /ENOENT/);
});

test('the table in resp.md lists the tested versions', () => {
  const page = readFileSync(new URL('../../docs/protocols/resp.md', import.meta.url), 'utf8');
  const lock = JSON.parse(readFileSync(new URL('package-lock.json', import.meta.url), 'utf8'));
  for (const name of ['ioredis', 'iovalkey', 'redis']) {
    const { version } = lock.packages[`node_modules/${name}`];
    assert.match(page, new RegExp(`^\\| ${name} ${version.replaceAll('.', '\\.')} `, 'm'));
  }
});
