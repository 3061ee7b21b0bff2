// The consistency of single namespaces, with two processes and a real redis-server.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { clientOf, kLongWindow, Origin, startNode, untilConnected, verdictOf } from './region.mjs';

const origin = new Origin();
let nodes;
before(async () => {
  await origin.start();
  const args = ['--consistency', 'relaxed,payments=exact'];
  nodes = await Promise.all([1, 2].map(() => startNode(origin.url, { args })));
  await untilConnected(nodes);
});
after(async () => {
  await Promise.all(nodes.map((node) => node.stop()));
  await origin.kill();
});

// What two nodes admit of 30 requests each at the same time, on a key of this algorithm.
async function admitted(namespace, algorithm, ...options) {
  const clients = nodes.map((node) => clientOf(node.server));
  try {
    const answers = await Promise.all(
      clients.flatMap((client) =>
        Array.from({ length: 30 }, () =>
          client.call('WEIR.LIMIT', namespace, algorithm, 20, kLongWindow, 'ALGORITHM', algorithm, ...options),
        ),
      ),
    );
    return answers.filter((answer) => verdictOf(answer).success).length;
  } finally {
    for (const client of clients) client.disconnect();
  }
}

for (const algorithm of ['fixed_window', 'gcra']) {
  test(`${algorithm}: a namespace is exact although the others are relaxed`, async () => {
    assert.equal(await admitted('payments', algorithm), 20);
  });

  test(`${algorithm}: the other namespaces stay relaxed`, async () => {
    // Nothing is exact: the nodes may admit up to 20 each, and none of the requests waits.
    const steps = async () => {
      const each = nodes.map((node) => node.server.metric('weir_refreshes_total', 'kind="step"'));
      return (await Promise.all(each)).reduce((sum, value) => sum + value, 0);
    };
    const before = await steps();
    assert.ok((await admitted('others', algorithm)) >= 20);
    assert.equal(await steps(), before);
  });

  test(`${algorithm}: a request overrides the setting`, async () => {
    assert.equal(await admitted('orders', algorithm, 'CONSISTENCY', 'exact'), 20);
  });
}

test('the count of an exact namespace is not reset', async () => {
  const client = clientOf(nodes[0].server);
  try {
    const reset = (namespace) => client.call('WEIR.RESET', namespace, 'gcra', kLongWindow, 'ALGORITHM', 'gcra');
    await assert.rejects(reset('payments'), /consistency is exact/);
    assert.equal(await reset('others'), 1);
  } finally {
    client.disconnect();
  }
});
