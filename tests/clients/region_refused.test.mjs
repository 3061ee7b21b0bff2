// A Redis that refuses writes counts as lost: no node reads the admissions of others. The policies
// apply, and verdicts and log report it.

import assert from 'node:assert/strict';
import { mkdirSync, rmSync } from 'node:fs';
import { test } from 'node:test';

import { Proxy } from './proxy.mjs';
import { untilConnected, kUsualDeadline, Origin, startNode, until } from './region.mjs';

const kNodes = 3;
const kLimit = 600;

// Each fault, its end, and its log line.
const faults = [
  {
    name: 'OOM',
    begin: (origin) => origin.client.config('SET', 'maxmemory', '1'),
    end: (origin) => origin.client.config('SET', 'maxmemory', '0'),
    remedy: /refuses writes: OOM .*raise maxmemory/,
  },
  {
    name: 'READONLY',
    begin: (origin) => origin.client.replicaof('127.0.0.1', '1'),
    end: (origin) => origin.client.replicaof('NO', 'ONE'),
    remedy: /refuses writes: READONLY .*give the address of the master/,
  },
  {
    name: 'NOREPLICAS',
    begin: (origin) => origin.client.config('SET', 'min-replicas-to-write', '1'),
    end: (origin) => origin.client.config('SET', 'min-replicas-to-write', '0'),
    remedy: /refuses writes: NOREPLICAS .*min-replicas-to-write/,
  },
  {
    name: 'MISCONF',
    begin: async (origin) => {
      await origin.client.config('SET', 'save', '3600 1');
      rmSync(origin.folder, { recursive: true });
      await origin.client.bgsave();
      const failed = async () => /last_bgsave_status:err/.test(await origin.client.info('persistence'));
      await until('a save that fails', failed);
    },
    end: (origin) => {
      mkdirSync(origin.folder);
      return origin.client.config('SET', 'stop-writes-on-bgsave-error', 'no');
    },
    remedy: /refuses writes: MISCONF .*stop-writes-on-bgsave-error/,
  },
];

// The admissions of all nodes when each gets requests above the limit.
async function admitted(nodes, identifier, seen) {
  let sum = 0;
  for (const node of nodes) {
    const verdicts = await Promise.all(
      Array.from({ length: kLimit + 20 }, () => node.limit(identifier, kLimit)),
    );
    for (const { success, basis } of verdicts) {
      sum += success;
      seen.add(basis);
    }
  }
  return sum;
}

for (const [policy, most] of [
  ['deny', 0],
  ['share', kLimit],
]) {
  test(`${policy}: ${kNodes} nodes with an origin that refuses writes admit ${most} of ${kLimit}`, async (t) => {
    const origin = new Origin();
    await origin.start();
    const nodes = await Promise.all(
      Array.from({ length: kNodes }, () => startNode(origin.url, { args: ['--on-origin-loss', policy], readDeadline: kUsualDeadline })),
    );
    await untilConnected(nodes);
    const beats = async ({ server }) => server.metric('weir_origin_commands_total', 'nodes');
    for (const node of nodes) await until('their places', async () => (await beats(node)) > 14);

    const known = new Set();
    for (const { name, begin, end, remedy } of faults) {
      await t.test(name, async () => {
        try {
          await begin(origin);
          for (const node of nodes) {
            const writable = () => node.server.metric('weir_origin_writable');
            await until('the refusal', async () => (await writable()) === 0);
            await until('the line', () => remedy.test(node.server.stderr));
          }
          // Longer than the heartbeat timeout of a node.
          const since = await beats(nodes[0]);
          await until('more heartbeats', async () => (await beats(nodes[0])) > since + 20);
          for (const { server } of nodes) assert.equal(await server.metric('weir_nodes'), kNodes);

          const seen = new Set();
          assert.equal(await admitted(nodes, `${policy}-${name}`, seen), most);
          assert.deepEqual([...seen], ['degraded']);
        } finally {
          for (const { server } of nodes) server.read = server.stderr.length;
          await end(origin);
        }
        for (const { server } of nodes) {
          await until('writes', async () => (await server.metric('weir_origin_writable')) === 1);
          await until('the line', () => / answers\n/.test(server.stderr.slice(server.read)));
        }
        // The admissions of the meantime are replayed, and every key expires.
        const added = async () => {
          const cells = (await origin.cells()).filter((cell) => !known.has(cell));
          const totals = await Promise.all(cells.map((cell) => origin.total(cell)));
          return totals.reduce((sum, total) => sum + total, 0);
        };
        await until('all counts to be acknowledged', async () => (await added()) === most);
        for (const cell of await origin.cells()) {
          known.add(cell);
          assert.ok((await origin.client.pttl(cell)) > 0, `${cell} never expires`);
        }
      });
    }
    await Promise.all(nodes.map((node) => node.stop()));
    await origin.kill();
  });
}

// The remedy is another one. A busy node may first miss the answers of Redis, and then its writes.
test('a refusal is logged also if Redis did not answer before', async () => {
  const origin = new Origin();
  await origin.start();
  const proxy = await Proxy.to(origin.port);
  const node = await startNode(proxy.url, { readDeadline: kUsualDeadline });
  await node.ready();
  const { server } = node;
  proxy.cut();
  await until('the loss', () => / does not answer/.test(server.stderr));
  await origin.client.config('SET', 'maxmemory', '1');
  proxy.restore();
  await until('the refusal', () => /refuses writes: OOM .*raise maxmemory/.test(server.stderr));
  await origin.client.config('SET', 'maxmemory', '0');
  await until('the end', () => / answers\n/.test(server.stderr));
  await node.stop();
  proxy.close();
  await origin.kill();
});

test('counts of a departed node are replayed when Redis loses its memory', async () => {
  const origin = new Origin();
  await origin.start();
  const [stopping, remaining] = await Promise.all([startNode(origin.url), startNode(origin.url)]);
  await untilConnected([stopping, remaining]);
  const most = 100;
  assert.equal((await stopping.limit('folded', most, 90)).success, 1);
  await stopping.stop('SIGTERM');
  assert.equal((await remaining.limit('folded', most, 1)).remaining, 9);
  await origin.client.flushall();
  const [cell] = await (async () => {
    let cells;
    await until('the counts of both', async () => {
      cells = await origin.cells();
      return cells.length === 1 && (await origin.total(cells[0])) === 91;
    });
    return cells;
  })();
  assert.ok((await origin.client.pttl(cell)) > 0);
  const comes = await startNode(origin.url);
  await comes.ready();
  let sum = 91;
  for (let i = 0; i < most; ++i) sum += (await comes.limit('folded', most)).success;
  assert.equal(sum, most);
  await Promise.all([remaining.stop(), comes.stop()]);
  await origin.kill();
});
