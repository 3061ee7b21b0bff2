// Three regions of one process each, without Redis, on one mariadbd: what one region admits of an
// algorithm whose state is in its memory counts in the others.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { MariaDb } from './mariadb.mjs';
import { clientOf, kLongWindow, rest, until, verdictOf } from './region.mjs';
import { startServer } from './server.mjs';

const database = new MariaDb();
const regions = [];

async function start(region, ledger) {
  const args = ['--threads', '1', '--region', region, '--ledger', ledger.url()];
  const server = await startServer({ args });
  const client = clientOf(server);
  const call = async (algorithm, identifier, cost) =>
    verdictOf(
      await client.call(
        'WEIR.LIMIT', 'api', identifier, 100, kLongWindow, 'ALGORITHM', algorithm, 'COST', cost,
      ),
    );
  return {
    server,
    client,
    call,
    left: async (algorithm, identifier) => (await call(algorithm, identifier, 0)).remaining,
    async stop() {
      await server.stop('SIGTERM');
      client.disconnect();
    },
  };
}

before(async () => {
  await database.install();
  const ledger = await database.ledger();
  for (const name of ['ap', 'eu', 'us']) regions.push(await start(name, ledger));
  await until('all regions', async () => {
    const known = await Promise.all(regions.map(({ server }) => server.metric('weir_regions')));
    return known.every((count) => count === regions.length);
  });
});
after(async () => {
  await Promise.all(regions.map((region) => region.stop()));
  await database.stop();
});

for (const algorithm of ['gcra', 'token_bucket', 'sliding_window_strict', 'sliding_log']) {
  test(`${algorithm}: what one region admits counts in the others, once`, async () => {
    const [here, there, third] = regions;
    const identifier = `once-${algorithm}`;
    assert.equal((await here.call(algorithm, identifier, 60)).success, 1);
    // One region has never asked, and only peeks.
    for (const region of [there, third]) {
      await until('the counts of the other region', async () => {
        await rest(50);
        return (await region.left(algorithm, identifier)) <= 41;
      });
    }
    assert.equal((await there.call(algorithm, identifier, 45)).success, 0);
    assert.equal((await there.call(algorithm, identifier, 30)).success, 1);
    await until('what the second region admitted', async () => {
      await rest(50);
      const all = await Promise.all([here, third].map((region) => region.left(algorithm, identifier)));
      return all.every((remaining) => remaining <= 12);
    });
    await rest(1000);
    for (const region of regions) {
      const remaining = await region.left(algorithm, identifier);
      assert.ok(remaining >= 9 && remaining <= 12, `${remaining} left`);
    }
  });
}

test('CL.THROTTLE: a burst that one region has used up is denied in the others', async () => {
  const throttle = ({ client }, quantity) => client.call('CL.THROTTLE', 'burst', 99, 1, 600, quantity);
  assert.equal((await throttle(regions[0], 100))[0], 0);
  for (const region of regions.slice(1)) {
    let admitted = 0;
    await until('a denial', async () => {
      const [limited] = await throttle(region, 1);
      admitted += 1 - limited;
      await rest(100);
      return limited === 1;
    });
    assert.ok(admitted < 20, `${admitted} admitted before`);
  }
});

test('three regions together admit little more than a limit of each algorithm', async () => {
  for (const algorithm of ['gcra', 'token_bucket', 'sliding_window_strict', 'sliding_log']) {
    let admitted = 0;
    for (let round = 0; round < 60; ++round) {
      const verdicts = await Promise.all(
        regions.map((region) => region.call(algorithm, `together-${algorithm}`, 1)),
      );
      admitted += verdicts.filter(({ success }) => success === 1).length;
      await rest(50);
    }
    assert.ok(admitted >= 95 && admitted <= 140, `${algorithm}: ${admitted} admitted`);
  }
});
