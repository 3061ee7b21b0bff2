// The npm package "redis", unchanged, in both versions of the protocol.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { createClient } from 'redis';

import { kRootKey, startServer } from './server.mjs';
import { paired } from './wire.mjs';

const kMonth = 2_592_000; // s
let server;
before(async () => (server = await startServer()));
after(() => server.stop());

async function connect(RESP, more = {}) {
  const socket = { host: '127.0.0.1', port: server.respPort, reconnectStrategy: false };
  const client = createClient({ RESP, socket, ...more });
  client.on('error', () => {}); // the awaited call reports it
  await client.connect();
  return client;
}

const send = (client, ...words) =>
  client.sendCommand(words.map((word) => (Buffer.isBuffer(word) ? word : String(word))));

for (const version of [2, 3]) {
  // Runs `body` with a client and closes it.
  const with_client = (name, body) =>
    test(`${name}, in version ${version}`, async () => {
      const client = await connect(version);
      try {
        await body(client);
      } finally {
        await client.close();
      }
    });

  with_client('redis throttles by sendCommand()', async (client) => {
    const key = `throttle${version}`;
    assert.deepEqual(await send(client, 'CL.THROTTLE', key, 0, 10, kMonth), [
      0,
      1,
      0,
      -1,
      kMonth / 10,
    ]);
    assert.equal((await send(client, 'CL.THROTTLE', key, 0, 10, kMonth))[0], 1);
    assert.equal(await client.ping(), 'PONG');
  });

  with_client('redis reads a verdict', async (client) => {
    const reply = await send(client, 'WEIR.LIMIT', 'ns', `v${version}`, 10, kMonth * 1000);
    const verdict = Array.isArray(reply) ? paired(reply) : reply;
    assert.equal(Array.isArray(reply), version === 2);
    assert.equal(verdict.success, version === 2 ? 1 : true);
    assert.deepEqual([verdict.limit, verdict.remaining, verdict.basis], [10, 9, 'local']);
  });

  with_client('redis reports an error reply as an error', async (client) => {
    await assert.rejects(send(client, 'WEIR.LIMIT', 'ns', 'id', 0, 1000), /limit is '0'/);
    await assert.rejects(client.get('a'), /unknown command 'GET'/);
  });

  with_client('1000 pipelined commands are answered in order', async (client) => {
    const all = [];
    for (let i = 0; i < 1000; ++i) {
      all.push(send(client, 'CL.THROTTLE', `line${version}`, 999, 1000, kMonth));
    }
    const remaining = (await Promise.all(all)).map((reply) => reply[2]);
    assert.deepEqual(
      remaining,
      Array.from({ length: 1000 }, (_, i) => 999 - i),
    );
  });

  with_client('keys are bytes', async (client) => {
    const remaining = async (...bytes) =>
      (await send(client, 'CL.THROTTLE', Buffer.from([version, ...bytes]), 9, 10, kMonth))[2];
    assert.equal(await remaining(0, 255, 13, 10, 0), 9);
    assert.equal(await remaining(0, 255, 13, 10, 1), 9);
    assert.equal(await remaining(0, 255, 13, 10, 0), 8);
  });

  with_client('redis may be named, and remembers it', async (client) => {
    await client.clientSetName('tester');
    assert.equal(await client.clientGetName(), 'tester');
    assert.equal(typeof (await client.clientId()), 'number');
  });

  test(`redis authenticates with a valid key, in version ${version}`, async () => {
    const client = await connect(version, { password: kRootKey });
    assert.equal(await client.ping(), 'PONG');
    await client.close();
  });

  test(`redis gets an error for a wrong key, in version ${version}`, async () => {
    await assert.rejects(connect(version, { password: 'a_wrong_root_key_of_no_use' }), /WRONGPASS/);
  });
}
