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
// The exported bound holds for every key whose limit is reached: no more is admitted than the largest
// value that any process exported meanwhile, times the limit, plus what was in flight. A process that
// exports +Inf promises nothing: then a limit for each region is allowed, and the test says so. Without
// a fault it is 1.35 everywhere.
//
// WEIR_BRIDGE_ROUNDS=N runs all faults N times (default: 1), and kills the bridge every 5 s for a minute.

import assert from 'node:assert/strict';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { after, before, test } from 'node:test';

import { windowStart } from './bursts.mjs';
import { MariaDb } from './mariadb.mjs';
import { freeze, kLongWindow, pick, rest, until } from './region.mjs';
import { kRootKey, withTimeout } from './server.mjs';
import { World } from './world.mjs';

const kRounds = Number(process.env.WEIR_BRIDGE_ROUNDS ?? 1);
const kNodes = 3; // per region
const kTick = 20; // ms; one request per region each
const kLarge = 100_000; // a limit that is never reached
const kSmall = 120; // a limit that is reached at once under load
const kSlow = 150; // a limit that is reached after about 3 s
const kUnpublished = 0.25; // of a limit, by all other regions together
const kBound = 1.35; // without a fault
const kTransit = 500; // ms; replay to Redis, rounds, commit and message
const kMaxTransit = 2100; // ms; a process that imports or publishes later exports a wider bound
const kEndless = Number(process.env.WEIR_BRIDGE_ROUNDS) > 0; // not only a short run
const kCalmWindow = 30_000; // ms
const kHeaders = { authorization: `Bearer ${kRootKey}` };

const pauses = monitorEventLoopDelay();
pauses.enable();
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
async function ask(node, { identifier, most, duration }, cost) {
  const response = await fetch(`${node.server.url}/v2/ratelimit.limit`, {
    method: 'POST',
    headers: kHeaders,
    body: JSON.stringify({ namespace: 'api', identifier, limit: most, duration, cost }),
  });
  const text = await response.text();
  assert.equal(response.status, 200, text);
  return JSON.parse(text).data;
}

// The largest value of a metric, for bounds that of all namespaces.
function largest(page, name) {
  const samples = page.matchAll(new RegExp(`^${name}(?:{.*})? (\\S+)$`, 'gm'));
  return Math.max(...[...samples].map(([, text]) => Number(text.replace('+Inf', 'Infinity'))));
}

// A load on all regions that avoids the processes marked `away`, as a load balancer would.
class RegionLoad {
  admitted = []; // {key, region, cost, at}
  requests = 0;
  bound = 1; // the largest finite one that was exported
  lag = 0; // ms; the largest of an import and of a row that waits
  unbounded = new Map(); // by region: how often a process exported +Inf
  samples = 0;
  #open = new Map(); // a request and its node
  #failures = [];

  constructor(name, duration = kLongWindow) {
    const key = (kind, most, cost) => ({ identifier: `${name}-${kind}`, most, duration, cost });
    this.large = [1, 2, 3].map((i) => key(`large-${i}`, kLarge, () => 1 + Math.floor(Math.random() * 300)));
    this.small = key('small', kSmall, () => 1);
    this.slow = [1, 2].map((i) => key(`slow-${i}`, kSlow, () => 1 + (i - 1) * Math.floor(Math.random() * 9)));
    // As often as they are asked.
    this.keys = [...this.large, this.small, this.small, this.slow[0], this.slow[0], this.slow[0], this.slow[1]];
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
  async #watchBound() {
    while (!this.ended) {
      for (const node of world.nodes.filter(({ away }) => !away)) {
        const page = await node.server.metrics().catch(() => undefined); // it was killed
        if (page === undefined || node.away) continue;
        const value = (name) => largest(page, name);
        const bound = value('weir_bound_ratio');
        const { name } = node.region;
        ++this.samples;
        if (Number.isFinite(bound)) this.bound = Math.max(this.bound, bound);
        else this.unbounded.set(name, (this.unbounded.get(name) ?? 0) + 1);
        const lag = value('weir_import_lag_seconds') + value('weir_publish_lag_seconds');
        this.lag = Math.max(this.lag, lag * 1000);
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
    for (const key of [this.small, ...this.slow]) {
      // A region may not know what the others leave unpublished: more if the bound is wider.
      const answers = {};
      const knows = async (node) => {
        const bound = largest(await node.server.metrics(), 'weir_bound_ratio');
        const unknown = kUnpublished + Math.max(0, bound - kBound);
        answers[node.label] = (await ask(node, key, 0)).remaining;
        const most = Math.max(0, (1 + unknown) * key.most - this.used(key));
        return Number.isFinite(bound) && answers[node.label] <= most;
      };
      await world.everywhere(`the count of ${key.identifier}`, knows).catch(async (error) => {
        const used = Object.fromEntries(world.regions.map((region) => [region.name, this.used(key, region)]));
        const published = await ledger.counts(key.identifier);
        throw new Error(`${error.message}: ${JSON.stringify({ most: key.most, used, published, answers })}`);
      });
    }
  }
  // The largest bound that was exported; with +Inf, what each region admits alone.
  get promised() {
    return this.unbounded.size > 0 ? Math.max(this.bound, world.regions.length) : this.bound;
  }
  // At every admission: those of the last 2 D may have been in flight.
  keepsTheBound() {
    const inFlightFor = 2 * Math.min(kMaxTransit, kTransit + this.lag);
    const infinite = [...this.unbounded].map(([name, times]) => `${times} times in ${name}`).join(', ');
    const texts = [this.small, ...this.slow].map((key) => {
      const entries = this.admitted.filter((entry) => entry.key === key).sort((a, b) => a.at - b.at);
      let total = 0;
      let recent = 0;
      let first = 0;
      let worst = 0; // what was admitted without what was in flight
      for (const { cost, at } of entries) {
        total += cost;
        recent += cost;
        for (; entries[first].at < at - inFlightFor; ++first) recent -= entries[first].cost;
        worst = Math.max(worst, total - recent);
        assert.ok(total <= this.promised * key.most + recent, `${key.identifier}: ${total} of ${key.most}`);
      }
      return `${total} of ${key.most} admitted (${(worst / key.most).toFixed(2)} of it not in flight)`;
    });
    return `${texts.join('; ')}; bound ${this.bound.toFixed(2)}${infinite && `, and +Inf ${infinite}`} of ${
      this.samples} samples; 2 D ${(inFlightFor / 1000).toFixed(1)} s`;
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

// Runs a load without a fault, in short windows.
async function calmLoad(name, time) {
  const load = new RegionLoad(name, kCalmWindow);
  load.start();
  await rest(time);
  await load.stop();
  console.log(`${load.requests} requests; ${load.keepsTheBound()}`);
  return load;
}

// Before any fault: a killed process widens the bound for as long as its windows matter. So does a machine
// that stands still, if a process hears nothing of the others for two seconds: therefore windows are short,
// and a run counts if the bound was narrow in all of it. If no run counts, and the machine stood still as
// this process saw it, only runs so far show that the bound holds.
test('without a fault the bound is exported and holds', async (t) => {
  for (let run = 1; ; ++run) {
    await calmLoad(`first-${run}`, 1500); // the others read the first rows of a region whole
    const narrow = async ({ server }) => (await server.metric('weir_bound_ratio')) === kBound;
    const wide = await world.everywhere('the bound', narrow).catch((error) => error);
    if (!wide) {
      // Not over the end of a window: the next one counts less of this.
      if (kCalmWindow - (Date.now() % kCalmWindow) < kCalmWindow / 2) await windowStart(kCalmWindow);
      const load = await calmLoad(`calm-${run}`, 6000);
      if (load.unbounded.size === 0 && load.bound === kBound) return;
    }
    if (run < 3) continue;
    const longest = pauses.max / 1e9; // s
    if (longest < 0.5) throw wide ?? new Error('the bound was wider in each of three runs');
    t.skip(`this machine stood still for ${longest.toFixed(1)} s`);
    return;
  }
});

faultTest('another process becomes the bridge when the bridge is killed', async (load) => {
  const [region] = world.regions;
  const kills = kEndless ? 12 : 3;
  for (let killed = 0; killed < kills; ++killed) {
    const began = performance.now();
    const bridge = await bridgeOf(region);
    await load.leave(bridge);
    // A killed process loses what it has not sent to Redis.
    await until('replay', async () => (await bridge.server.metric('weir_dirty_cells')) === 0);
    region.nodes = region.nodes.filter((node) => node !== bridge);
    await bridge.kill();
    assert.notEqual(await bridgeOf(region), bridge);
    await (await region.startNode()).ready();
    if (kEndless) await rest(Math.max(0, 5000 - (performance.now() - began)));
  }
});

faultTest('another process becomes the bridge while the bridge is suspended', async (load) => {
  const [, region] = world.regions;
  const bridge = await bridgeOf(region);
  bridge.away = true; // its open requests wait until it continues
  await freeze(bridge.server.child);
  const others = region.nodes.filter((node) => node !== bridge);
  assert.notEqual(await bridgeOf(region, others), bridge);
  await rest(kEndless ? 10_000 : 3000);
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
      const answers = {};
      const knowsAll = async (node) => {
        answers[node.label] = (await ask(node, key, 0)).remaining;
        return answers[node.label] === Math.max(0, key.most - load.used(key));
      };
      await world.everywhere(`all of ${key.identifier}`, knowsAll, last.nodes).catch((error) => {
        const counts = JSON.stringify({ answers, published, left: key.most - load.used(key), here: load.used(key, last) });
        throw new Error(`${error.message}: ${counts}`);
      });
    }
  }
});
