// The memory limit of a server holds for any number of keys.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';

import { kRootKey, startServer, weir } from './server.mjs';
import { command, Wire } from './wire.mjs';

const kMiB = 1 << 20;
const kMemory = 64 * kMiB;
const kKeys = 3000; // logs of 10,000 units, 131 KB each if there were memory for them
const kBesides = 64 * kMiB; // code, stacks, buffers of connections
let server;
before(async () => (server = await startServer({ args: ['--memory', '64MiB'] })));
after(() => server.stop());

function residentBytes() {
  const status = readFileSync(`/proc/${server.pid}/status`, 'utf8');
  return 1024 * Number(status.match(/^VmRSS:\s+(\d+) kB$/m)[1]);
}

async function expectBounded(grown) {
  assert.ok(grown < kMemory + kBesides, `grew by ${grown} bytes`);
  assert.equal(await server.metric('weir_memory_limit_bytes'), kMemory);
  const used = await server.metric('weir_memory_bytes');
  assert.ok(used <= kMemory, `${used} bytes are reserved`);
  assert.ok((await server.metric('weir_memory_bytes', 'part="rings_and_logs"')) > 10 * kMiB);
}

test('large logs over the Redis protocol, without a key', async () => {
  const before = residentBytes();
  const wire = await Wire.open(server.respPort);
  const log = (i) =>
    command('WEIR.LIMIT', 'api', `resp-${i}`, 10_000, 60_000, 'ALGORITHM', 'sliding_log');
  await wire.send(Buffer.concat(Array.from({ length: kKeys }, (_, i) => log(i))));
  const replies = await wire.replies(kKeys);
  wire.close();
  const fields = replies.map((reply) =>
    Object.fromEntries(reply.flatMap((word, i) => (i % 2 === 0 ? [[word, reply[i + 1]]] : []))),
  );
  assert.ok(fields.every(({ success }) => success === 1));
  const degraded = fields.filter(({ basis }) => basis === 'degraded').length;
  assert.ok(degraded > kKeys / 2, `${degraded} were degraded`);
  assert.ok((await server.metric('weir_no_memory_total')) >= degraded);
  await expectBounded(residentBytes() - before);
});

test('large logs over HTTP', async () => {
  const before = residentBytes();
  const log = (i) => ({
    namespace: 'api',
    identifier: `http-${i}`,
    limit: 10_000,
    duration: 60_000,
    algorithm: 'sliding_log',
  });
  const size = 100;
  for (let from = 0; from < kKeys; from += size) {
    const batch = Array.from({ length: size }, (_, i) => log(from + i));
    const answer = await fetch(`${server.url}/v2/ratelimit.multiLimit`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${kRootKey}` },
      body: JSON.stringify(batch),
    });
    assert.equal(answer.status, 200, await answer.text());
  }
  await expectBounded(residentBytes() - before);
});

test('too little memory for the capacity is refused with the remedy', async () => {
  const args = ['serve', '--memory', '64MiB', '--capacity', '1048576'];
  const { code, stderr } = await weir(args);
  assert.equal(code, 2);
  assert.match(stderr, /memory is 67108864 bytes, too little for a capacity of 1048576: give it/);
});
