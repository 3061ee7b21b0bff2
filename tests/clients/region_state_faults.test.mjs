// The faults of region_faults.test.mjs and more, for the algorithms whose state Redis keeps: gcra,
// token_bucket, sliding_window_strict, sliding_log, and CL.THROTTLE.
//
// Each test injects one fault under load on keys of all algorithms at once, and removes it. The log of
// the test has every answer with its times and its node. Three kinds of keys:
//
//   large    never used up. Afterwards the cost that counts at Redis is the cost in the log: nothing is
//            lost, and nothing is charged twice. One exception: what Redis grants to a request that no
//            longer waits stays charged, and is charged again if the process admits it then
//   small    nothing leaves or drains; all nodes get more than the limit during the fault. What they
//            admit stays within the bound of docs/origin.md, with converge and with exact; afterwards
//            they admit no more
//   short    a duration of 1 s, under more load than it admits: any second keeps the bound. When all nodes
//            are connected again, each one is admitted within a duration
//
// Every node reaches Redis through its own proxy. Worlds with one Redis and three nodes run at the same
// time.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { Region } from './bursts.mjs';
import { Proxy } from './proxy.mjs';
import { kLongWindow, kUsualDeadline, lossesOf, rest, until, untilConnected, verdictOf } from './region.mjs';
import { withTimeout } from './server.mjs';

const kNodes = 3;
const kLarge = 10_000;
const kSmall = 60; // above 8 for each node, so that nodes have allowances
const kShort = 40;
const kDuration = 1000; // ms, of short keys
const kTick = 30; // ms
const kMonth = 2_592_000; // s
// Besides the duration: nodes tell what they admitted alone, and the machine may be slow.
const kSlack = 2500; // ms

const algorithms = ['gcra', 'token_bucket', 'sliding_window_strict', 'sliding_log', 'CL.THROTTLE'];
const drains = (algorithm) => !algorithm.startsWith('sliding');

// --- keys and requests

let keys = 0;

// A key whose capacity is `most`. Without a duration nothing leaves or drains during a test.
function newKey(kind, algorithm, most, { duration, consistency } = {}) {
  const identifier = `${kind}-${algorithm}-${++keys}`;
  const limit = duration === undefined && drains(algorithm) ? 1 : most; // a rate of 1 in a month
  const words = (cost) => {
    if (algorithm === 'CL.THROTTLE') {
      const seconds = duration === undefined ? kMonth : duration / 1000;
      return ['CL.THROTTLE', identifier, most - 1, limit, seconds, cost];
    }
    const all = ['WEIR.LIMIT', 'api', identifier, limit, duration ?? kLongWindow, 'ALGORITHM', algorithm];
    if (drains(algorithm)) all.push('BURST', most);
    if (consistency) all.push('CONSISTENCY', consistency);
    return [...all, 'COST', cost];
  };
  return { kind, algorithm, most, identifier, consistency, words };
}

function answerOf({ algorithm }, reply) {
  return algorithm === 'CL.THROTTLE' ? { success: 1 - reply[0], remaining: reply[2] } : verdictOf(reply);
}

// The largest cost that was admitted within `span` ms, of requests that were sent and answered in it.
function mostWithin(entries, span) {
  let most = 0;
  for (const [i, first] of entries.entries()) {
    const end = first.sent + span;
    let sum = 0;
    for (let j = i; j < entries.length && entries[j].sent < end; ++j) {
      if (entries[j].received < end) sum += entries[j].cost;
    }
    most = Math.max(most, sum);
  }
  return most;
}

// --- a world

class World {
  static async start(args = []) {
    const world = new World();
    world.region = await Region.start(0, { args, readDeadline: kUsualDeadline });
    world.origin = world.region.origin;
    await Promise.all(Array.from({ length: kNodes }, () => world.add()));
    return world;
  }
  get nodes() {
    return this.region.nodes;
  }
  get proxies() {
    return this.nodes.map(({ proxy }) => proxy);
  }
  async add(proxy) {
    const way = proxy ?? (await Proxy.to(this.origin.port));
    const node = await this.region.add(way.url);
    return Object.assign(node, { proxy: way, killed: false });
  }
  // Ends a node; its proxy stays.
  async remove(node, signal = 'SIGTERM') {
    node.losses = await nodeLosses(node);
    this.nodes.splice(this.nodes.indexOf(node), 1);
    if (signal === 'SIGKILL') {
      node.killed = true;
      await node.kill();
      for (const client of [node.client, ...node.clients]) client.disconnect();
    } else {
      await node.stop(signal);
    }
  }
  async stop() {
    const all = this.proxies;
    await this.region.stop();
    for (const proxy of all) proxy.close();
  }
  async mend() {
    for (const proxy of this.proxies) {
      proxy.restore();
      proxy.releaseReplies();
      proxy.delay = { up: 0, down: 0 };
    }
    this.origin.resume();
    if (!this.origin.alive) await this.origin.start();
  }
  async ready() {
    await untilConnected(this.nodes);
    for (const { server } of this.nodes) {
      await until('the breaker', async () => (await server.metric('weir_origin_breaker_closed')) === 1);
      await until('writes', async () => (await server.metric('weir_origin_writable')) === 1);
    }
    // Redis answers in time again.
    const probe = newKey('probe', 'gcra', 1);
    for (const { client } of this.nodes) {
      const answers = async () => verdictOf(await client.call(...probe.words(0))).basis === 'refreshed';
      await until('an answer of Redis', answers);
    }
  }
}

// How often a node has lost Redis, or got no answer in time; of one that was removed, until then.
async function nodeLosses({ server, losses }) {
  return losses ?? lossesOf(server, 'timeout');
}

// What the nodes may admit of a small limit, and of a short one within a duration, in limits.
const kBounds = {
  prompt: { converge: 1.25, exact: 1 },
  killed: { converge: 1 + (kNodes + 1) / (4 * kNodes), exact: 1 }, // one more node had an allowance
  late: { converge: 1.25, exact: 1.25 },
  alone: { converge: 2.25, exact: 2 }, // one node is lost
  flushed: { converge: 2.25, exact: 2 }, // Redis begins again
  local: { converge: kNodes, exact: kNodes },
  share: { converge: 2.25, exact: 2 },
  deny: { converge: 1.25, exact: 1 },
  emptied: { converge: kNodes + 1, exact: kNodes + 1 }, // lost, and Redis begins again
};

// --- one fault

class Trial {
  log = []; // {key, node, cost, sent, received, phase, success, basis, error}
  phase = 'before';
  stalled = false;
  #ended = false;
  #loops = new Map(); // from a node to its loop

  constructor(world) {
    this.world = world;
    this.first = new Set(world.nodes);
    const each = (kind, most, more) => algorithms.map((algorithm) => newKey(kind, algorithm, most, more));
    this.large = each('large', kLarge);
    this.short = each('short', kShort, { duration: kDuration });
    const exact = each('small', kSmall, { consistency: 'exact' });
    // The consistency of CL.THROTTLE is a setting.
    this.small = [...each('small', kSmall), ...exact.filter(({ algorithm }) => algorithm !== 'CL.THROTTLE')];
  }

  // Sends one pipeline with requests on each key.
  async send(node, some, { count = 1, client = node.clients[0], cost = 1 } = {}) {
    const pipeline = client.pipeline();
    const entries = some.flatMap((key) => Array.from({ length: count }, () => ({ key, node, cost })));
    for (const { key } of entries) pipeline.call(...key.words(cost));
    const sent = performance.now();
    for (const entry of entries) Object.assign(entry, { phase: this.phase, sent });
    this.log.push(...entries);
    const replies = await withTimeout('the replies of a pipeline', pipeline.exec());
    const received = performance.now();
    for (const [i, [error, reply]] of replies.entries()) {
      Object.assign(entries[i], { received }, error ? { error } : answerOf(entries[i].key, reply));
    }
    return entries;
  }

  // The load on large and short keys.
  start(node) {
    const loop = async (client, some) => {
      while (!this.#ended && !node.leaves) {
        await this.send(node, some, { client }).catch((error) => {
          if (!node.killed) throw error;
        });
        await rest(kTick);
      }
    };
    const loops = [loop(node.clients[0], this.large), loop(node.clients[1], this.short)];
    this.#loops.set(node, Promise.all(loops));
  }
  // The node gets no more requests, and all are answered.
  async leave(node) {
    node.leaves = true;
    await this.#loops.get(node);
  }
  async stop() {
    this.#ended = true;
    await Promise.all(this.#loops.values());
  }

  // More than the small limits, at all nodes at once.
  exhaust(nodes = this.world.nodes) {
    const count = kSmall + 6;
    return Promise.all(nodes.map((node) => this.send(node, this.small, { count, client: node.clients[2] })));
  }
  async during(ms) {
    const end = performance.now() + ms;
    await this.exhaust();
    await rest(Math.max(0, end - performance.now()));
  }

  admissions(key, also = () => true) {
    return this.log.filter((entry) => entry.key === key && entry.success && also(entry));
  }
  admitted(key, also) {
    return this.admissions(key, also).reduce((sum, { cost }) => sum + cost, 0);
  }
  // The cost of requests that may be charged without an admission, or twice: they did not wait for
  // Redis. CL.THROTTLE does not say so.
  doubtful(key) {
    const late = ({ basis, phase, sent, received }) =>
      key.algorithm === 'CL.THROTTLE' ? phase !== 'before' || received - sent > 200 : basis === 'degraded';
    const entries = this.log.filter((entry) => entry.key === key && (entry.error || late(entry)));
    return entries.reduce((sum, { cost }) => sum + cost, 0);
  }

  // What counts at Redis. If Redis does not answer in time, less remains; CL.THROTTLE does not say so.
  async used(key) {
    const [node] = this.world.nodes;
    const answers = [];
    await until('an answer of Redis', async () => {
      const answer = answerOf(key, await node.client.call(...key.words(0)));
      if (answer.basis === undefined || answer.basis === 'refreshed') answers.push(answer.remaining);
      return answers.length >= (answer.basis === undefined ? 5 : 1);
    });
    return key.most - Math.max(...answers);
  }

  // Every short key is admitted again.
  async recovers(since) {
    const late = () =>
      this.short.filter((key) => this.admissions(key, ({ sent }) => sent >= since).length === 0);
    while (late().length > 0) {
      const names = late().map(({ algorithm }) => algorithm);
      assert.ok(performance.now() - since < kDuration + kSlack, `no admission after the fault: ${names}`);
      await rest(20);
    }
    return performance.now() - since;
  }

  noErrors() {
    const failed = this.log.filter(({ error, node }) => error && !node.killed);
    assert.deepEqual(failed.map(({ key, error }) => `${key.identifier}: ${error}`), []);
  }

  // `loses`: cost that Redis may not know.
  async keepsCounts(loses = () => 0) {
    for (const key of this.large) {
      const admitted = this.admitted(key);
      let used;
      const doubtful = this.doubtful(key);
      const text = () => `${key.identifier}: ${used} count of ${admitted}, ${doubtful} doubtful`;
      // A late answer to CL.THROTTLE reports less, and does not say so.
      await until('all to be told, and charged once', async () => {
        used = await this.used(key);
        return used >= admitted - loses(key) && used <= admitted + doubtful;
      }).catch((error) => assert.fail(`${error.message}: ${text()}`));
    }
  }

  // What late answers allow beyond that, in limits: a node that starts does not know the others until
  // Redis has answered it, so it takes a quarter, beside the one that the others share.
  #strangers() {
    const started = new Set(this.log.map(({ node }) => node).filter((node) => !this.first.has(node)));
    return started.size / 4;
  }
  // A machine that stalls delays answers, and each node admits a part; or the nodes lose Redis.
  bound(bounds, key) {
    const { kind, algorithm, consistency = 'converge' } = key;
    const late = this.log.some((entry) => entry.key === key && entry.basis === 'degraded');
    const nodes = new Set(this.log.map(({ node }) => node)).size;
    let limits = bounds[consistency];
    if (late) limits = Math.max(limits, bounds.exact + 0.25, bounds.converge) + this.#strangers();
    if (this.stalled) limits = Math.max(limits, nodes);
    // In any time, the rate of each process that decides alone comes on top.
    const rates = kind === 'short' && drains(algorithm) ? Math.max(1.25, Math.floor(limits)) : 0;
    return (limits + rates) * (kind === 'short' ? kShort : kSmall);
  }
  keepsBounds(bounds) {
    for (const key of this.short) {
      const most = mostWithin(this.admissions(key), kDuration);
      assert.ok(most <= this.bound(bounds, key), `${key.identifier}: ${most} within ${kDuration} ms`);
    }
    for (const key of this.small) {
      const admitted = this.admitted(key);
      const text = `${key.identifier}: ${admitted} of ${key.most}: ${this.parts(key)}`;
      assert.ok(admitted <= this.bound(bounds, key), text);
    }
  }
  // What each node admitted, by phase and basis.
  parts(key) {
    const parts = {};
    for (const { node, phase, basis } of this.admissions(key)) {
      const name = `${node.server.pid} ${phase} ${basis}`;
      parts[name] = (parts[name] ?? 0) + 1;
    }
    return JSON.stringify(parts);
  }
  // All small limits are used up, and stay so.
  async staysUsedUp() {
    await this.exhaust();
    const before = this.small.map((key) => this.admitted(key));
    for (const [i, key] of this.small.entries()) {
      assert.ok(before[i] >= key.most - this.doubtful(key), `${key.identifier}: ${before[i]} of ${key.most}`);
    }
    // An answer that was late because the machine stalled may be admitted within the bound.
    const late = ({ basis, sent, received }) => basis === 'degraded' || received - sent > 250;
    if ((await this.exhaust()).flat().some(late)) return;
    assert.deepEqual(this.small.map((key) => this.admitted(key)), before, 'more when all was well again');
  }

  report(t, took) {
    const ratio = (some, count) => some.map((key) => (count(key) / key.most).toFixed(2)).join(' ');
    console.log(
      `${t.name}: ${this.log.length} requests; ` +
        `small limits ${ratio(this.small, (key) => this.admitted(key))}; ` +
        `within a duration ${ratio(this.short, (key) => mostWithin(this.admissions(key), kDuration))}; ` +
        `admitted again after ${took.toFixed(0)} ms`,
    );
  }
}

// Runs a load with the fault `harm` in the middle, which begins and ends it. `redis`: what Redis is
// meanwhile; `keeps`: it keeps its data; `loses`: what it may not know; `alone`: the node that loses it.
async function trial(t, world, redis, harm, { keeps = true, loses, alone } = {}) {
  const run = new Trial(world);
  const before = new Map();
  for (const node of world.nodes) before.set(node, await nodeLosses(node));
  for (const node of world.nodes) await run.send(node, [...run.large, ...run.small]);
  for (const node of world.nodes) run.start(node);
  let took;
  try {
    await rest(200);
    run.phase = 'fault';
    await harm(run);
    run.phase = 'after';
    await world.mend();
    await world.ready();
    took = await run.recovers(performance.now());
  } finally {
    await world.mend();
    await run.stop();
  }
  run.noErrors();
  if (keeps) await run.keepsCounts(loses);
  await run.staysUsedUp();
  if (['prompt', 'killed', 'late', 'flushed', 'alone'].includes(redis)) {
    for (const node of new Set(run.log.map((entry) => entry.node))) {
      run.stalled ||= node !== alone && (await nodeLosses(node)) > (before.get(node) ?? 0);
    }
  }
  if (run.stalled) console.log(`${t.name}: the machine stalled`);
  run.keepsBounds(kBounds[redis]);
  run.noErrors();
  run.report(t, took);
}

const policies = ['share', 'deny'];
const worlds = {};
before(async () => {
  const plans = { redis: [], network: [], nodes: [] };
  for (const policy of policies) plans[policy] = ['--on-origin-loss', policy];
  await Promise.all(
    Object.entries(plans).map(async ([name, args]) => (worlds[name] = await World.start(args))),
  );
  await Promise.all(Object.values(worlds).map(({ region }) => region.settle()));
});
after(() => Promise.all(Object.values(worlds).map((world) => world.stop())));

describe('state at Redis', { concurrency: true }, () => {
  describe('faults of Redis', { concurrency: false }, () => {
    test('Redis is stopped for two seconds', (t) =>
      trial(t, worlds.redis, 'local', async (run) => {
        await worlds.redis.origin.pause();
        await run.during(2000);
        worlds.redis.origin.resume();
      }));

    test('Redis is killed and restarts empty', (t) =>
      trial(t, worlds.redis, 'emptied', async (run) => {
        await worlds.redis.origin.kill();
        await run.during(800);
        await worlds.redis.origin.start();
      }, { keeps: false }));

    test('Redis restarts with an old snapshot', (t) =>
      trial(t, worlds.redis, 'emptied', async (run) => {
        const { origin } = worlds.redis;
        const old = await origin.snapshot();
        await rest(300); // of load that is not in it
        await origin.kill();
        await run.during(500);
        await origin.start(old);
      }, { keeps: false }));

    test('Redis is flushed', (t) =>
      trial(t, worlds.redis, 'flushed', async (run) => {
        await run.during(400);
        await worlds.redis.origin.client.flushall();
      }, { keeps: false }));

    test('Redis loses its scripts again and again', (t) =>
      trial(t, worlds.redis, 'prompt', async (run) => {
        let ended = false;
        const flushes = (async () => {
          while (!ended) {
            await worlds.redis.origin.client.script('FLUSH');
            await rest(5);
          }
        })();
        await run.during(300);
        ended = true;
        await flushes;
      }));

    test('Redis ends all connections', (t) =>
      trial(t, worlds.redis, 'local', async (run) => {
        const exhausted = run.during(300);
        for (let i = 0; i < 3; ++i) {
          await rest(20);
          await worlds.redis.origin.client.client('KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
        }
        await exhausted;
      }));

    for (const [name, begin, end] of [
      ['is full', ['config', 'SET', 'maxmemory', '1'], ['config', 'SET', 'maxmemory', '0']],
      ['becomes a replica', ['replicaof', '127.0.0.1', '1'], ['replicaof', 'NO', 'ONE']],
    ]) {
      test(`Redis ${name}`, (t) =>
        trial(t, worlds.redis, 'local', async (run) => {
          const { origin, nodes } = worlds.redis;
          await origin.client.call(...begin);
          for (const { server } of nodes) {
            await until('the refusal', async () => (await server.metric('weir_origin_writable')) === 0);
          }
          await run.during(300);
          await origin.client.call(...end);
        }));
    }
  });

  describe('faults of the network', { concurrency: false }, () => {
    const delay = (ms) => {
      for (const proxy of worlds.network.proxies) proxy.delay = ms;
    };

    test('the network is cut for two seconds', (t) =>
      trial(t, worlds.network, 'local', async (run) => {
        for (const proxy of worlds.network.proxies) proxy.cut();
        await run.during(2000);
      }));

    test('one node is disconnected', (t) =>
      trial(t, worlds.network, 'alone', async (run) => {
        worlds.network.proxies[1].cut();
        await run.during(1500);
      }, { alone: worlds.network.nodes[1] }));

    test('the network takes 100 ms each way', (t) =>
      trial(t, worlds.network, 'late', async (run) => {
        delay({ up: 100, down: 100 });
        await run.during(1000);
      }));

    test('every reply comes after its deadline', (t) =>
      trial(t, worlds.network, 'late', async (run) => {
        delay({ up: 0, down: 400 });
        await run.during(1500);
      }));

    test('calls that timed out were decided, and the replies are late', (t) =>
      trial(t, worlds.network, 'late', async (run) => {
        for (const proxy of worlds.network.proxies) proxy.holdReplies();
        await run.during(1000);
      }));

    test('calls that timed out were decided, and the connection is closed', (t) =>
      trial(t, worlds.network, 'local', async (run) => {
        for (const proxy of worlds.network.proxies) proxy.holdReplies();
        await run.during(2500);
      }));

    // Redis gets old calls after newer ones of the same process.
    test('an abandoned connection delivers its calls after its successor', (t) => {
      let letGo;
      return trial(t, worlds.network, 'local', async (run) => {
        letGo = worlds.network.proxies.map((proxy) => proxy.hold());
        await run.exhaust();
        await rest(2300); // until the nodes have left these connections
        await worlds.network.ready();
        await run.exhaust();
        for (const go of letGo) go();
        await rest(200);
      });
    });
  });

  describe('faults of a node', { concurrency: false }, () => {
    // Another node takes the place of one that has ended.
    const replace = async (run, node, signal) => {
      const world = worlds.nodes;
      if (signal !== 'SIGKILL') await run.leave(node);
      await world.remove(node, signal);
      const next = await world.add(node.proxy);
      await next.ready();
      run.start(next);
    };

    test('a node is stopped while it has an allowance', (t) =>
      trial(t, worlds.nodes, 'prompt', async (run) => {
        const [stopped, ...others] = worlds.nodes.nodes;
        await stopped.freeze();
        await run.exhaust(others);
        stopped.thaw();
        await run.exhaust([stopped]);
      }));

    test('a node joins in a burst', (t) =>
      trial(t, worlds.nodes, 'prompt', async (run) => {
        const world = worlds.nodes;
        const known = [...world.nodes];
        const joins = world.add();
        await run.exhaust(known);
        const joining = await joins;
        await run.exhaust();
        await world.remove(joining);
        joining.proxy.close();
      }));

    test('a node ends by SIGTERM, and another one takes its place', (t) =>
      trial(t, worlds.nodes, 'prompt', async (run) => {
        for (const proxy of worlds.nodes.proxies) proxy.delay = { up: 50, down: 50 };
        await rest(200);
        await replace(run, worlds.nodes.nodes[2], 'SIGTERM');
        for (const proxy of worlds.nodes.proxies) proxy.delay = { up: 0, down: 0 };
        await run.during(100);
      }));

    // It has told Redis all but its last admissions.
    test('a node is killed, and another one takes its place', async (t) => {
      const kLast = 1000; // ms; a node tells within 250, but the machine may be busy
      let victim;
      let killed;
      let log;
      const loses = (key) =>
        log
          .filter((entry) => entry.key === key && entry.node === victim && entry.success)
          .filter(({ received }) => received > killed - kLast)
          .reduce((sum, { cost }) => sum + cost, 0);
      await trial(t, worlds.nodes, 'killed', async (run) => {
        log = run.log;
        victim = worlds.nodes.nodes[2];
        await run.exhaust();
        await rest(600);
        killed = performance.now();
        await replace(run, victim, 'SIGKILL');
        await run.during(100);
      }, { loses });
    });

    // Redis keeps the state. One of the nodes is killed after it has told all.
    test('all nodes restart', (t) =>
      trial(t, worlds.nodes, 'prompt', async (run) => {
        const world = worlds.nodes;
        await run.exhaust();
        const [killed, ...others] = [...world.nodes];
        for (const node of [killed, ...others]) await run.leave(node);
        await until('all to be told', async () => (await killed.server.metric('weir_dirty_cells')) === 0);
        await rest(500);
        await Promise.all([world.remove(killed, 'SIGKILL'), ...others.map((node) => world.remove(node))]);
        const proxies = [killed, ...others].map(({ proxy }) => proxy);
        for (const node of await Promise.all(proxies.map((proxy) => world.add(proxy)))) {
          await node.ready();
          run.start(node);
        }
        await run.during(100);
      }));
  });

  for (const policy of policies) {
    // For longer than the bound of the recovery.
    test(`${policy}: the network is cut for six seconds`, (t) =>
      trial(t, worlds[policy], policy, async (run) => {
        const world = worlds[policy];
        for (const proxy of world.proxies) proxy.cut();
        for (const { server } of world.nodes) {
          await until('the loss', async () => (await server.metric('weir_origin_ready')) === 0);
        }
        run.phase = 'lost';
        await run.during(6000);
        if (policy !== 'deny') return;
        const lost = run.log.filter(({ phase, success }) => phase === 'lost' && success);
        assert.deepEqual(lost.map(({ key }) => key.identifier), []);
      }));
  }
});
