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

// What two nodes admit of 30 requests each at the same time.
async function admitted(namespace, algorithm, ...options) {
  const clients = nodes.map((node) => clientOf(node.server));
  try {
    const answers = await Promise.all(
      clients.flatMap((client) =>
        Array.from({ length: 30 }, () =>
          client.call('WEIR.LIMIT', namespace, 'all', 20, kLongWindow, 'ALGORITHM', algorithm, ...options),
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

  test(`${algorithm}: a request overrides the setting`, async () => {
    assert.equal(await admitted('orders', algorithm, 'CONSISTENCY', 'exact'), 20);
  });
}
