// How much three regions of two processes admit of one limit when all are flooded at once: at the
// instant of every admission at most 1.35 x the limit, plus the admissions of the last two seconds.
//
// Two seconds are twice the expected propagation time. The test measures the actual time: on a busy
// machine twice the measured time is used instead.
//
// Every key gets requests in all regions at the same rate. Other regions cannot know admissions that
// are still propagating, so at a rate that uses up a limit within a second only the number of regions
// bounds the excess; the lower the rate, the smaller the excess. The table shows the measurements.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { LoadConnections } from './load_connections.mjs';
import { MariaDb } from './mariadb.mjs';
import { rest, until } from './region.mjs';
import { World } from './world.mjs';

const kWindow = 10_000; // ms
const kWindows = 2;
const kTick = 10; // ms
const kUnderWay = 2000; // ms, at least
const kBound = 1.35;
const kLimits = [20, 100, 1000];
const kLoads = [1.5, 3, 10]; // of a limit, per window, from all regions together

const database = new MariaDb();
let world;
let lines;
before(async () => {
  await database.install();
  world = await World.start({ ledger: await database.ledger() });
  lines = new LoadConnections(world.nodes);
});
after(async () => {
  lines.close();
  await world.stop();
  await database.stop();
});

// A key with its limit and its load, and the result of every request.
class Attack {
  requests = []; // {sent, success, reset}
  #due = 0;

  constructor(algorithm, most, load) {
    Object.assign(this, { algorithm, most, load, identifier: `${algorithm}-${most}-${load}` });
    this.words = ['api', this.identifier, most, kWindow, 'ALGORITHM', algorithm];
  }
  // Sends the requests that are due after `ms` more.
  send(ms) {
    this.#due += (this.most * this.load * ms) / kWindow;
    for (; this.#due >= 1; --this.#due) this.requests.push(lines.send(this.words));
  }

  // Per window: all admissions, and their maximum without those in flight.
  windows(inFlight) {
    const found = new Map();
    for (const { reset, success, sent } of this.requests) {
      if (!found.has(reset)) found.set(reset, []);
      if (success) found.get(reset).push(sent);
    }
    return [...found.values()].map((times) => {
      let first = 0; // in flight
      let most = 0;
      times.forEach((time, i) => {
        while (times[first] < time - inFlight) ++first;
        most = Math.max(most, i + 1 - (i + 1 - first));
      });
      return { admitted: times.length, settled: most };
    });
  }
}

// Samples the propagation time: the longest, in ms.
function watchNews() {
  let longest = 0;
  let ended = false;
  const watch = async () => {
    for (let turn = 0; !ended; ++turn) {
      const identifier = `change-${Math.random()}`;
      const from = world.nodes[turn % world.nodes.length];
      const began = performance.now();
      // A late answer may deny it.
      await until('an admission', async () => (await from.limit(identifier, 4)).success === 1);
      const there = world.nodes.filter(({ region }) => region !== from.region);
      const knows = async (node) => (await node.peek(identifier, 4)).remaining < 4;
      for (const node of there) await until('propagation', () => knows(node));
      longest = Math.max(longest, performance.now() - began);
      await rest(200);
    }
  };
  const watching = watch();
  return async () => {
    ended = true;
    await watching;
    return longest;
  };
}

// Returns how long an admission counts as in flight.
async function play(attacks) {
  const newsTook = watchNews();
  // Starts with a window, so that every window but the last is complete.
  while (Date.now() % kWindow > kWindow / 20) await rest(kTick);
  const end = Date.now() + kWindows * kWindow - kWindow / 10;
  for (let last = Date.now(); last < end; ) {
    await rest(kTick);
    const now = Date.now();
    for (const attack of attacks) attack.send(Math.min(now - last, 100));
    lines.flush();
    last = now;
  }
  await lines.quiet();
  const longest = await newsTook();
  console.log(`propagation took ${longest.toFixed(0)} ms at most`);
  return Math.max(kUnderWay, 2 * longest);
}

function table(attacks, inFlight) {
  const rows = attacks.flatMap((attack) =>
    attack.windows(inFlight).map(({ admitted, settled }, i) => {
      const ratio = (count) => (count / attack.most).toFixed(3);
      return [attack.algorithm, attack.most, attack.load, i + 1, ratio(admitted), ratio(settled)];
    }),
  );
  const head = ['algorithm', 'limit', 'load', 'window', 'admitted', `but the last ${(inFlight / 1000).toFixed(1)} s`];
  return [head, ...rows].map((row) => row.map((cell) => `${cell}`.padStart(20)).join('')).join('\n');
}

for (const algorithm of ['fixed_window', 'sliding_window']) {
  test(`with ${algorithm}, regions that are flooded at once admit at most the bound`, async () => {
    const attacks = kLimits.flatMap((most) => kLoads.map((load) => new Attack(algorithm, most, load)));
    const inFlight = await play(attacks);
    console.log(table(attacks, inFlight));
    for (const attack of attacks) {
      for (const { admitted, settled } of attack.windows(inFlight)) {
        const what = `${attack.identifier}: ${settled} of ${attack.most} without requests in flight`;
        assert.ok(settled <= Math.max(kBound * attack.most, attack.most + 1), what);
        assert.ok(admitted <= 3 * attack.most * 1.1, `${attack.identifier}: ${admitted}`);
      }
    }
  });
}
