// The bridge of a region under faults: three regions of three processes, each region with its own
// redis-server, and one mariadbd for all.
//
// Every fault runs under load, with its own keys and an exact log of the admissions. No request may
// fail. Afterwards all processes agree with the log, as far as regions may keep counts unpublished. Then
// regions shut down, which publishes everything, and the ledger must equal the log.
//
// Redis keeps the counts of a killed process, so the region whose Redis loses its data is another one
// than that whose processes are killed.
//
// WEIR_BRIDGE_ROUNDS=N runs all faults N times (default: 1).

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { MariaDb } from './mariadb.mjs';
import { freeze, kLongWindow, pick, rest, until } from './region.mjs';
import { kRootKey, withTimeout } from './server.mjs';
import { World } from './world.mjs';

const kRounds = Number(process.env.WEIR_BRIDGE_ROUNDS ?? 1);
const kNodes = 3; // per region
const kTick = 20; // ms; one request per region each
const kLarge = 100_000; // a limit that is never reached
const kSmall = 120; // a limit that is reached under load
const kUnpublished = 0.25; // of a limit, by all other regions together
const kInFlight = 2000; // ms
const kHeaders = { authorization: `Bearer ${kRootKey}` };

const database = new MariaDb();
let ledger;
let world;
before(async () => {
  await database.install();
  ledger = await database.ledger();
  world = await World.start({ ledger, nodes: kNodes });
});
after(async () => {
  await world.stop();
  await database.stop();
});

// The answer of POST /v2/ratelimit.limit, which must have status 200.
async function ask(node, { identifier, most }, cost) {
  const response = await fetch(`${node.server.url}/v2/ratelimit.limit`, {
    method: 'POST',
    headers: kHeaders,
    body: JSON.stringify({ namespace: 'api', identifier, limit: most, duration: kLongWindow, cost }),
  });
  const text = await response.text();
  assert.equal(response.status, 200, text);
  return JSON.parse(text).data;
}

// A load on all regions that avoids the processes marked `away`, as a load balancer would.
class RegionLoad {
  admitted = []; // {key, region, cost, at}
  requests = 0;
  bound = 1; // the largest exported one
  #open = new Map(); // a request and its node
  #failures = [];

  constructor(name) {
    const key = (kind, most, cost) => ({ identifier: `${name}-${kind}`, most, cost });
    this.large = [1, 2, 3].map((i) => key(`large-${i}`, kLarge, () => 1 + Math.floor(Math.random() * 300)));
    this.small = key('small', kSmall, () => 1);
    this.keys = [...this.large, this.small, this.small, this.small]; // as often as they are asked
  }

  start() {
    this.timer = setInterval(() => {
      for (const { nodes } of world.regions) this.#send(pick(nodes.filter(({ away }) => !away)));
    }, kTick);
    this.watching = this.#watchBound();
  }
  #send(node) {
    const key = pick(this.keys);
    const cost = key.cost();
    ++this.requests;
    const answer = ask(node, key, cost)
      .then(({ success }) => {
        if (success) this.admitted.push({ key, region: node.region, cost, at: performance.now() });
      })
      .catch((error) => this.#failures.push(`${node.label}: ${error.cause ?? error}`))
      .finally(() => this.#open.delete(answer));
    this.#open.set(answer, node);
  }
  // A process that does not know all rows exports no finite bound.
  async #watchBound() {
    while (!this.ended) {
      for (const { away, server } of world.nodes) {
        const bound = away ? 1 : await server.metric('weir_bound_ratio').catch(() => 1);
        if (Number.isFinite(bound)) this.bound = Math.max(this.bound, bound);
      }
      await rest(100);
    }
  }
  // Sends nothing more to the node, and waits for its answers.
  async leave(node) {
    node.away = true;
    const open = [...this.#open].filter(([, to]) => to === node).map(([answer]) => answer);
    await withTimeout('the answers of a node', Promise.all(open));
  }
  async stop() {
    clearInterval(this.timer);
    this.ended = true;
    await this.watching;
    await withTimeout('all answers', Promise.all(this.#open.keys()));
    assert.deepEqual(this.#failures, []);
  }

  used(key, region) {
    const counted = this.admitted.filter((entry) => entry.key === key && (!region || entry.region === region));
    return counted.reduce((sum, { cost }) => sum + cost, 0);
  }

  // Waits until all processes agree with the log.
  async agrees() {
    for (const key of this.large) {
      const left = key.most - this.used(key);
      await world.everywhere(`the count of ${key.identifier}`, async (node) => {
        const { remaining } = await ask(node, key, 0);
        assert.ok(remaining >= left, `${node.label} counts more than was admitted: ${remaining} < ${left}`);
        const others = this.used(key) - this.used(key, node.region);
        return remaining - left <= Math.min(others, kUnpublished * key.most);
      });
      for (const { nodes } of world.regions) {
        await until('the processes of a region to agree', async () => {
          const all = await Promise.all(nodes.map((node) => ask(node, key, 0)));
          return all.every(({ remaining }) => remaining === all[0].remaining);
        });
      }
    }
    await world.everywhere('a full key', async (node) => (await ask(node, this.small, 0)).remaining === 0);
  }
  // The admissions of the last two seconds may have been in flight.
  keepsTheBound() {
    const times = this.admitted.filter(({ key }) => key === this.small).map(({ at }) => at);
    const last = Math.max(...times);
    const inFlight = times.filter((at) => at > last - kInFlight).length;
    const text = `${times.length} of ${kSmall} admitted, ${inFlight} in the last 2 s, bound ${this.bound}`;
    assert.ok(times.length <= this.bound * kSmall + inFlight, text);
    return text;
  }
}

const loads = [];
const isBridge = async ({ server }) => (await server.metric('weir_bridge')) === 1;

// The only bridge of a region; waits until there is one.
async function bridgeOf({ name, nodes }, candidates = nodes) {
  let found;
  await until(`one bridge of ${name}`, async () => {
    const bridges = await Promise.all(candidates.map(isBridge));
    found = candidates[bridges.indexOf(true)];
    return bridges.filter(Boolean).length === 1;
  });
  return found;
}

// Runs a fault under load.
function faultTest(name, body) {
  for (let round = 1; round <= kRounds; ++round) {
    test(kRounds > 1 ? `${name}, round ${round}` : name, async () => {
      const load = new RegionLoad(`key-${loads.length}`);
      loads.push(load);
      load.start();
      await rest(500);
      await body(load);
      await rest(1500);
      await load.stop();
      console.log(`${load.requests} requests; ${load.keepsTheBound()}`);
    });
  }
}

faultTest('another process becomes the bridge when the bridge is killed', async (load) => {
  const [region] = world.regions;
  for (let kills = 0; kills < 3; ++kills) {
    const bridge = await bridgeOf(region);
    await load.leave(bridge);
    // A killed process loses what it has not sent to Redis.
    await until('replay', async () => (await bridge.server.metric('weir_dirty_cells')) === 0);
    region.nodes = region.nodes.filter((node) => node !== bridge);
    await bridge.kill();
    assert.notEqual(await bridgeOf(region), bridge);
    await (await region.startNode()).ready();
  }
});

faultTest('another process becomes the bridge while the bridge is suspended', async (load) => {
  const [, region] = world.regions;
  const bridge = await bridgeOf(region);
  bridge.away = true; // its open requests wait until it continues
  await freeze(bridge.server.child);
  const others = region.nodes.filter((node) => node !== bridge);
  assert.notEqual(await bridgeOf(region, others), bridge);
  await rest(3000);
  bridge.server.child.kill('SIGCONT');
  bridge.away = false;
  await bridgeOf(region);
});

faultTest('the bridge fills a Redis that was restarted empty', async () => {
  const [, , region] = world.regions;
  await bridgeOf(region);
  await region.origin.kill();
  await rest(1000);
  await region.origin.start();
  await Promise.all(region.nodes.map((node) => node.ready()));
  await bridgeOf(region);
});

faultTest('the bridges continue when the database was killed and when it was read-only', async () => {
  await database.kill();
  await rest(2000);
  await database.start();
  for (const { server } of world.nodes) {
    await until('the ledger', async () => (await server.metric('weir_import_lag_seconds')) < 1);
  }
  await database.query('SET GLOBAL read_only = 1');
  await rest(2000);
  await database.query('SET GLOBAL read_only = 0');
});

// Also the counts of the first faults, which a Redis has lost since.
test('all processes agree with the log', async () => {
  for (const load of loads) await load.agrees();
});

test('after the shutdown of regions the ledger equals the log', async () => {
  const [last, ...others] = world.regions;
  for (const region of others) await region.stopNodes();
  for (const load of loads) {
    for (const key of load.large) {
      const published = await ledger.counts(key.identifier);
      for (const region of others) {
        assert.equal(published[region.name], load.used(key, region), `${key.identifier} in ${region.name}`);
      }
      assert.ok((published[last.name] ?? 0) <= load.used(key, last));
      await world.everywhere(`all of ${key.identifier}`, async (node) => {
        return (await ask(node, key, 0)).remaining === key.most - load.used(key);
      }, last.nodes);
    }
  }
});
