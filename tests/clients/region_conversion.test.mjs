// Another algorithm for the same key takes over what was used: two nodes with one Redis, every ordered pair
// of algorithms that count in another form.
//
// The duration is so long that nothing expires or drains.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { admittedOf, cleanRun, Region, report } from './bursts.mjs';
import { kLongWindow, verdictOf } from './region.mjs';

const kLimit = 100;
const forms = {
  fixed_window: 'window',
  sliding_window: 'window',
  sliding_window_strict: 'ring',
  sliding_log: 'log',
  gcra: 'backlog',
  token_bucket: 'backlog',
};

let region;
before(async () => {
  region = await Region.start(2);
  await region.settle();
});
after(() => region.stop());

async function limit(node, identifier, algorithm, cost, consistency) {
  const words = ['api', identifier, kLimit, kLongWindow, 'ALGORITHM', algorithm, 'COST', cost];
  return verdictOf(await node.client.call('WEIR.LIMIT', ...words, 'CONSISTENCY', consistency));
}

let keys = 0;
// Uses `costs` by `from`, one on each node, then asks both nodes at once for `count` units by `to`.
async function change(from, to, costs, count, consistency) {
  const once = async () => {
    const identifier = `conversion-${++keys}`;
    const used = [];
    for (const [i, cost] of costs.entries()) {
      used.push(await limit(region.nodes[i], identifier, from, cost, consistency));
    }
    const results = await Promise.all(
      region.nodes.flatMap((node) =>
        Array.from({ length: count }, () => limit(node, identifier, to, 1, consistency)),
      ),
    );
    return { identifier, used, results };
  };
  const { identifier, used, results } = await cleanRun(once, (run) => [...run.used, ...run.results]);
  assert.ok(used.every(({ success }) => success === 1));
  return { admitted: admittedOf(results.map((each) => ({ ...each, cost: 1 }))), identifier };
}

for (const from of Object.keys(forms)) {
  test(`${from}: another algorithm takes over what was used`, async () => {
    const rows = [];
    for (const to of Object.keys(forms).filter((name) => forms[name] !== forms[from])) {
      const full = await change(from, to, [60, 40], 5, 'exact');
      assert.equal(full.admitted, 0, `${from} to ${to}, used up`);
      const half = await change(from, to, [30, 20], 40, 'exact');
      assert.equal(half.admitted, kLimit / 2, `${from} to ${to}, half used`);
      // Each node admits a quarter of its share of the rest by itself.
      const converge = await change(from, to, [30, 20], 40, 'converge');
      rows.push({ name: `to ${to}`, most: 50, admitted: [converge.admitted], largest: converge.admitted });
      assert.ok(converge.admitted >= kLimit / 2, `${converge.admitted}`);
      assert.ok(50 + converge.admitted <= 1.25 * kLimit, `${from} to ${to}: ${converge.admitted}`);
      // The other node knows as much.
      const later = await limit(region.nodes[0], half.identifier, to, 1, 'exact');
      assert.equal(later.success, 0);
      // The count that existed before is as it was.
      const back = await limit(region.nodes[1], half.identifier, from, 1, 'exact');
      assert.equal(back.remaining, kLimit / 2 - 1);
    }
    report(`${from}, changed with half of the limit used`, rows);
  });
}
