// The consistency exact: three nodes with one Redis admit together exactly what one node alone admits, by
// every algorithm. With converge they admit at most 1.25 times as much in a burst.
//
// The long tests use a duration in which nothing expires or drains, so that the expected number does
// not depend on time: a node without an origin gets the same requests and tells it.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { admittedOf, cleanRun, isDegraded, post, Region, report } from './bursts.mjs';
import { clientOf, kLongWindow, rest, startNode, until, verdictOf } from './region.mjs';
import { kRootKey, startServer } from './server.mjs';

const kNodes = 3;
const kConverge = 1.25;
const kMonth = 2_592_000; // s

const algorithms = [
  'fixed_window',
  'sliding_window',
  'sliding_window_strict',
  'sliding_log',
  'gcra',
  'token_bucket',
];
const isWindow = (algorithm) => algorithm === 'fixed_window' || algorithm === 'sliding_window';

let alone; // a node without an origin
let byRequest; // a region whose setting is converge
let bySetting;

before(async () => {
  const server = await startServer({ args: ['--threads', '1'] });
  alone = { server, client: clientOf(server) };
  byRequest = await Region.start(kNodes);
  bySetting = await Region.start(kNodes, { args: ['--consistency', 'exact'] });
  await Promise.all([byRequest.settle(), bySetting.settle()]);
});
after(async () => {
  alone.client.disconnect();
  await alone.server.stop();
  await Promise.all([byRequest.stop(), bySetting.stop()]);
});

let keys = 0;
const newKey = (algorithm, more = {}) => ({
  identifier: `exact-${++keys}`,
  algorithm,
  most: 100,
  duration: kLongWindow,
  consistency: 'exact',
  ...more,
});

function wordsOf({ identifier, algorithm, most, duration, burst, consistency }, cost) {
  const words = ['api', identifier, most, duration, 'ALGORITHM', algorithm, 'COST', cost];
  if (burst !== undefined) words.push('BURST', burst);
  if (consistency !== undefined) words.push('CONSISTENCY', consistency);
  return words;
}

// Sends one pipeline of ioredis with a request for each cost: {cost, success, basis, sent, received, ...}.
async function send(node, key, costs) {
  const pipeline = node.client.pipeline();
  for (const cost of costs) pipeline.call('WEIR.LIMIT', ...wordsOf(key, cost));
  const sent = Date.now();
  const replies = await pipeline.exec();
  const received = Date.now();
  return replies.map(([error, reply], i) => {
    assert.equal(error, null);
    return { ...verdictOf(reply), node, cost: costs[i], sent, received };
  });
}

const times = (count, cost = 1) => Array(count).fill(cost);
const sendAll = async (nodes, key, costs) =>
  (await Promise.all(nodes.map((node) => send(node, key, costs)))).flat();

// What a node without an origin admits of the same requests.
async function admittedAlone(key, costs, count = kNodes) {
  const results = [];
  const { consistency: _, ...same } = key;
  for (let i = 0; i < count; ++i) results.push(...(await send(alone, same, costs)));
  return admittedOf(results);
}

// Cells of windows and the state of the others expire.
async function assertExpiries({ client }) {
  for (const name of await client.keys('weir:{*')) {
    if (/^weir:\{[0-9a-f]+\}:(\d+|x|g)$/.test(name)) {
      assert.ok((await client.pttl(name)) > 0, `${name} never expires`);
    }
  }
}

for (const algorithm of algorithms) {
  test(`${algorithm}: a burst on ${kNodes} nodes admits what one node alone admits`, async () => {
    const rows = [];
    const cases = [
      ['by request', byRequest, {}, times(120)],
      ['by setting', bySetting, { consistency: undefined }, times(120)],
      ['a limit of 1', byRequest, { most: 1 }, times(20)],
      ['a limit of 2', bySetting, { most: 2, consistency: undefined }, times(20)],
      ['more than one call', byRequest, { most: 900 }, times(1000)],
      ['a cost of 7', byRequest, {}, times(40, 7)],
      ['costs from 0 to 5', byRequest, {}, [...Array(60).keys()].map((i) => i % 6).concat(times(10))],
      ['a cost above the limit', byRequest, {}, [101, ...times(60), 101]],
    ];
    if (!isWindow(algorithm)) {
      cases.push(['converge', byRequest, { consistency: undefined }, times(120)]);
      cases.push(['converge, a limit of 2', byRequest, { most: 2, consistency: undefined }, times(20)]);
    }
    if (algorithm === 'gcra' || algorithm === 'token_bucket') {
      cases.push(['a burst of 30', byRequest, { burst: 30 }, times(40)]);
      cases.push(['a burst of 130', bySetting, { burst: 130, consistency: undefined }, times(60)]);
    }
    for (const [name, region, more, costs] of cases) {
      const expected = await admittedAlone(newKey(algorithm, more), costs);
      let key;
      const results = await cleanRun(() => {
        key = newKey(algorithm, more);
        return sendAll(region.nodes, key, costs);
      });
      const admitted = admittedOf(results);
      rows.push({ name, most: expected, admitted: [admitted], largest: admitted });
      const bound = name === 'converge' ? kConverge : 1;
      assert.ok(admitted >= expected && admitted <= bound * expected, `${name}: ${admitted} of ${expected}`);
      // Later, one after the other: nothing is left, and every node says so.
      const later = await cleanRun(async () => {
        const all = [];
        for (const node of region.nodes) all.push(...(await send(node, key, [1])));
        return all;
      });
      const left = (key.burst ?? key.most) - expected;
      const successes = later.map(({ success }) => success);
      assert.deepEqual(successes, later.map((_, i) => (i < left ? 1 : 0)), name);
    }
    report(algorithm, rows);
    await assertExpiries(byRequest.origin);
  });

  // A step whose script is missing fails instead of loading it (RedisOrigin::Worker::step).
  test(`${algorithm}: scripts that Redis loses in a burst change nothing`, async () => {
    const { origin, nodes } = byRequest;
    const expected = await admittedAlone(newKey(algorithm), times(120));
    const results = await cleanRun(async () => {
      const key = newKey(algorithm);
      await origin.client.script('FLUSH'); // the first call of each node gets NOSCRIPT
      const parts = nodes.map(async (node) => {
        const all = [];
        for (let i = 0; i < 12; ++i) all.push(...(await send(node, key, times(10))));
        return all;
      });
      const flushes = (async () => {
        for (let i = 0; i < 10; ++i) {
          await origin.client.script('FLUSH');
          await rest(3);
        }
      })();
      const all = (await Promise.all(parts)).flat();
      await flushes;
      return all;
    });
    assert.equal(admittedOf(results), expected);
  });

  // A node without a connection decides alone; those verdicts are degraded. What Redis grants to a
  // request that no longer waits stays charged until the next request of that node.
  test(`${algorithm}: connections that end in a burst double no unit`, async () => {
    const { origin, nodes } = byRequest;
    for (let run = 0; run < 4; ++run) {
      const key = newKey(algorithm);
      const bursts = sendAll(nodes, key, times(120));
      await rest(run);
      await origin.client.client('KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
      const results = await bursts;
      for (const node of nodes) await node.ready();
      results.push(...(await sendAll(nodes, key, times(120))));
      const alone = results.filter(isDegraded).length;
      const exact = admittedOf(results.filter((each) => !isDegraded(each)));
      assert.ok(exact <= key.most, `Redis granted ${exact}`);
      assert.ok(exact >= key.most - alone, `Redis granted ${exact}, ${alone} did not wait`);
    }
  });
}

// Peeks and denials charge nothing.
test('peeks report what is left to all nodes', async () => {
  for (const algorithm of algorithms) {
    const results = await cleanRun(async () => {
      const key = newKey(algorithm);
      const all = await send(byRequest.nodes[0], key, times(60));
      // A peek at a window decides on what the node knows: a charge of 0 does not ask Redis.
      for (const node of byRequest.nodes) {
        if (!isWindow(algorithm)) all.push(...(await send(node, key, [0])));
      }
      all.push(...(await send(byRequest.nodes[1], key, [50, 40, 1])));
      return all;
    });
    const remaining = results.slice(60).map((each) => [each.cost, each.success, each.remaining]);
    const peeks = isWindow(algorithm) ? [] : times(kNodes).map(() => [0, 1, 40]);
    assert.deepEqual(remaining, [...peeks, [50, 0, 40], [40, 1, 0], [1, 0, 0]], algorithm);
  }
});

for (const setting of ['converge', 'exact']) {
  test(`CL.THROTTLE by ioredis, ${setting}: a burst on all nodes is max_burst + 1`, async () => {
    const region = setting === 'exact' ? bySetting : byRequest;
    for (const most of [1, 15, 100]) {
      const results = await cleanRun(async () => {
        const name = `throttle-${++keys}`;
        const before = await Promise.all(
          region.nodes.map(({ server }) => server.metric('weir_decisions_total', 'degraded')),
        );
        const parts = region.nodes.map(async ({ client }) => {
          const pipeline = client.pipeline();
          for (let i = 0; i < 120; ++i) pipeline.call('CL.THROTTLE', name, most - 1, 1, kMonth);
          return (await pipeline.exec()).map(([error, [limited]]) => {
            assert.equal(error, null);
            return { success: 1 - limited, cost: 1 };
          });
        });
        const all = (await Promise.all(parts)).flat();
        const now = await Promise.all(
          region.nodes.map(({ server }) => server.metric('weir_decisions_total', 'degraded')),
        );
        const stalled = now.some((count, i) => count !== before[i]);
        return stalled ? all.map((each) => ({ ...each, basis: 'degraded' })) : all;
      });
      const admitted = admittedOf(results);
      const bound = setting === 'exact' ? 1 : kConverge;
      assert.ok(admitted >= most && admitted <= bound * most, `${admitted} of ${most}`);
    }
  });
}

test('HTTP: a burst on all nodes admits the limit, by every algorithm', async () => {
  for (const algorithm of algorithms) {
    const results = await cleanRun(async () => {
      const { identifier, most, duration } = newKey(algorithm, { most: 40 });
      const body = { namespace: 'api', identifier, limit: most, duration, algorithm, consistency: 'exact' };
      const limit = async (node) => {
        const { data, error } = await post(node, '/v2/ratelimit.limit', kRootKey, body);
        assert.equal(error, undefined);
        return { ...data, cost: 1 };
      };
      return Promise.all(byRequest.nodes.flatMap((node) => times(25).map(() => limit(node))));
    });
    assert.equal(admittedOf(results), 40, algorithm);
  }
});

// More requests wait for a tuple than its calls decide within the deadline. The rest is late: a
// process decides it by a quarter of its share of the limit.
for (const algorithm of algorithms) {
  test(`${algorithm}: a flood through many connections keeps the bound`, async () => {
    const most = 300;
    const clients = byRequest.nodes.flatMap(({ server }) => times(200).map(() => clientOf(server)));
    try {
      await Promise.all(clients.map((client) => client.ping()));
      const key = newKey(algorithm, { most });
      const [first] = byRequest.nodes;
      const results = await cleanRun(() => {
        key.identifier = `flood-${++keys}`;
        return send(first, key, times(most + 10)); // the others know nothing of it
      });
      assert.equal(admittedOf(results), most);
      let excess = 0;
      for (let round = 0; round < 3; ++round) {
        const more = await Promise.all(clients.map((client) => send({ client }, key, times(40))));
        excess += admittedOf(more.flat());
      }
      console.log(`${algorithm}: ${most + excess} of ${most} in a flood`);
      assert.ok(excess <= (isWindow(algorithm) ? 0 : most / 4), `${most + excess} of ${most}`);
    } finally {
      for (const client of clients) client.disconnect();
    }
  });
}

// All admissions whose requests were sent and answered within less than `span` ms.
function mostWithin(results, span) {
  const admitted = results.filter(({ success }) => success).sort((a, b) => a.sent - b.sent);
  let most = 0;
  for (const [i, first] of admitted.entries()) {
    let sum = 0;
    for (let j = i; j < admitted.length && admitted[j].sent < first.sent + span; ++j) {
      if (admitted[j].received < first.sent + span) sum += admitted[j].cost;
    }
    most = Math.max(most, sum);
  }
  return most;
}

for (const algorithm of ['sliding_window_strict', 'sliding_log', 'gcra', 'token_bucket']) {
  test(`${algorithm}: no trailing window has more than the limit under a steady load`, async () => {
    const rate = algorithm === 'gcra' || algorithm === 'token_bucket';
    const duration = 1000;
    const key = newKey(algorithm, { most: 50, duration, ...(rate ? { burst: 10 } : {}) });
    const results = await cleanRun(async () => {
      key.identifier = `steady-${++keys}`;
      const end = Date.now() + 4 * duration;
      const loops = byRequest.nodes.map(async (node) => {
        const all = [];
        while (Date.now() < end) {
          all.push(...(await send(node, key, times(4))));
          await rest(2);
        }
        return all;
      });
      return (await Promise.all(loops)).flat();
    });
    const span = rate ? 400 : duration;
    const bound = rate ? 10 + (50 * span) / duration : 50;
    const most = mostWithin(results, span);
    const sum = admittedOf(results);
    console.log(`${algorithm}: ${most} of ${bound} within ${span} ms, ${sum} in all`);
    assert.ok(most <= bound, `${most} of ${bound}`);
    // Saturated: at least sixteen seventeenths of the limit, if the load does not stall.
    const sent = results.map((each) => each.sent).sort((a, b) => a - b);
    const pause = Math.max(...sent.map((at, i) => at - (sent[i - 1] ?? at)));
    const slowest = Math.max(...results.map((each) => each.received - each.sent));
    assert.ok(sum >= 3 * 47 || Math.max(pause, slowest) > duration / 17, `${sum}`);
  });

  test(`${algorithm}: another node admits a denied request at its retry time and not before`, async () => {
    const key = newKey(algorithm, { most: 4, duration: 2000 });
    const results = await cleanRun(async () => {
      key.identifier = `retry-${++keys}`;
      const [a, b, c] = byRequest.nodes;
      const all = await send(a, key, times(5));
      const denied = all.at(-1);
      assert.equal(denied.success, 0);
      assert.ok(denied.retry_after > 0);
      // Redis decided between these instants.
      const earliest = denied.sent + denied.retry_after;
      const latest = denied.received + denied.retry_after;
      for (let admitted = false; !admitted; await rest(1)) {
        for (const node of [b, c]) {
          const [peek] = await send(node, key, [0]);
          all.push(peek);
          const now = Date.now();
          assert.ok(now < latest + 1000, 'it was not admitted');
          if (peek.basis === 'degraded') return all;
          if (peek.received < earliest) assert.equal(peek.remaining, 0);
          if (peek.sent > latest) assert.ok(peek.remaining >= 1, JSON.stringify(peek));
          admitted ||= peek.remaining >= 1;
        }
      }
      all.push(...(await send(b, key, [1])));
      assert.equal(all.at(-1).success, 1);
      return all;
    });
    assert.ok(results.length > 6);
  });
}

// One limiter of each algorithm, from the formulas of docs/algorithms.md: (time in ms) -> whether it
// admits a cost of 1.
function backlog({ most, burst, duration }) {
  const interval = duration / most;
  let tat = 0;
  return (now) => {
    const after = Math.max(tat, now) + interval;
    if (after > now + burst * interval) return false;
    tat = after;
    return true;
  };
}
function trailing({ most }, stampOf, hasLeft) {
  let stamps = [];
  return (now) => {
    stamps = stamps.filter((stamp) => !hasLeft(stamp, now));
    if (stamps.length >= most) return false;
    stamps.push(stampOf(now));
    return true;
  };
}
const limiters = {
  gcra: backlog,
  token_bucket: backlog,
  'CL.THROTTLE': backlog,
  sliding_window_strict: (key) => {
    const part = (now) => Math.floor(now / Math.ceil(key.duration / 16));
    return trailing(key, part, (stamp, now) => stamp < part(now) - 16);
  },
  sliding_log: (key) => trailing(key, (now) => now, (stamp, now) => stamp <= now - key.duration),
};

// Redis remembers each call of a node that changed a tuple: its number, the time, what the node had
// admitted by itself and how much of it was charged, and a digit for each request. MONITOR shows these
// writes in the order of the calls.
test('one limiter with the clock of Redis decides every call in the same way', async () => {
  const { origin, nodes } = bySetting;
  const calls = []; // {state, time, charged, granted}
  const monitor = await origin.client.monitor();
  monitor.on('monitor', (_, [command, state, field, value]) => {
    if (command.toUpperCase() !== 'HSET' || !/^weir:\{.*\}:x$/.test(state) || field[0] !== 'w') return;
    const [, time, , charged, granted] = value.split(' ');
    // A log has a comma after each, and more after a denial.
    const digits = granted.replaceAll(/([01])[^,]*,/g, '$1');
    calls.push({ state, time: Number(time), charged: Number(charged), granted: [...digits].map(Number) });
  });
  const tested = Object.keys(limiters).map((algorithm) => {
    const drains = limiters[algorithm] === backlog;
    const more = { most: 50, duration: 1000, consistency: undefined };
    return newKey(algorithm, drains ? { ...more, burst: 10 } : more);
  });
  const commandOf = (key) =>
    key.algorithm === 'CL.THROTTLE'
      ? ['CL.THROTTLE', key.identifier, key.burst - 1, key.most, key.duration / 1000]
      : ['WEIR.LIMIT', ...wordsOf(key, 1)];
  const sendTo = async ({ client }, key, count) => {
    const pipeline = client.pipeline();
    for (let i = 0; i < count; ++i) pipeline.call(...commandOf(key));
    for (const [error, reply] of await pipeline.exec()) {
      assert.equal(error, null);
      const verdict = key.algorithm === 'CL.THROTTLE' ? { success: 1 - reply[0] } : verdictOf(reply);
      key.log.push(verdict);
    }
  };
  for (const key of tested) {
    key.log = [];
    await sendTo(nodes[0], key, 1);
    await until('the key', () => calls.some(({ state }) => tested.every((other) => other.state !== state)));
    key.state = calls.find(({ state }) => tested.every((other) => other.state !== state)).state;
  }
  const end = Date.now() + 2500;
  await Promise.all(
    tested.flatMap((key) =>
      nodes.map(async (node) => {
        while (Date.now() < end) {
          await sendTo(node, key, 1 + Math.floor(Math.random() * 6));
          await rest(Math.random() * 30);
        }
      }),
    ),
  );
  const admitted = (key) => key.log.filter(({ success }) => success).length;
  const mine = (key) => calls.filter(({ state }) => state === key.state);
  const grants = (key) => mine(key).flatMap(({ granted }) => granted).reduce((a, b) => a + b, 0);
  // What a request that no longer waits was granted is charged, but not admitted by Redis.
  const late = (key) => key.log.some(isDegraded) || mine(key).some(({ charged }) => charged > 0);
  await until('all calls', () => tested.every((key) => late(key) || grants(key) >= admitted(key)));
  monitor.disconnect();
  for (const key of tested) {
    const admits = limiters[key.algorithm](key);
    let last = 0;
    for (const { time, charged, granted } of mine(key)) {
      last = Math.max(last, time);
      if (charged > 0) break; // the machine stalled
      const expected = granted.map(() => Number(admits(last)));
      assert.deepEqual(granted, expected, `${key.algorithm} at ${last}`);
    }
    const { algorithm, log } = key;
    console.log(`${algorithm}: ${mine(key).length} calls, ${admitted(key)} of ${log.length} admitted`);
    assert.ok(admitted(key) >= 50, `${admitted(key)}`);
    if (!late(key)) assert.equal(grants(key), admitted(key), key.algorithm);
  }
});

test('Redis restarts with its data: all nodes continue, by every algorithm', async () => {
  for (const algorithm of algorithms) {
    const expected = await admittedAlone(newKey(algorithm), times(120));
    const results = await cleanRun(async () => {
      const { origin, nodes } = bySetting;
      const key = newKey(algorithm);
      const all = await sendAll(nodes, key, times(20));
      const snapshot = await origin.snapshot();
      await origin.kill();
      await origin.start(snapshot); // it has no scripts
      for (const node of nodes) await node.ready();
      all.push(...(await sendAll(nodes, key, times(100))));
      return all;
    });
    assert.equal(admittedOf(results), expected, algorithm);
  }
});

test('Redis restarts without data: windows continue, the others start again', async () => {
  for (const algorithm of algorithms) {
    const results = await cleanRun(async () => {
      const { origin, nodes } = bySetting;
      const key = newKey(algorithm);
      const all = await sendAll(nodes, key, times(120));
      await origin.kill();
      await origin.start();
      for (const node of nodes) await node.ready();
      all.push(...(await sendAll(nodes, key, times(120))));
      return all;
    });
    assert.equal(admittedOf(results), isWindow(algorithm) ? 100 : 200, algorithm);
  }
});

test('a node that starts, one that stops and one that is killed change nothing', async () => {
  for (const algorithm of algorithms) {
    const results = await cleanRun(async () => {
      const { origin, nodes } = byRequest;
      const key = newKey(algorithm);
      const [stopped, killed] = await Promise.all([startNode(origin.url), startNode(origin.url)]);
      await Promise.all([stopped.ready(), killed.ready()]);
      const all = await sendAll([stopped, killed], key, times(20));
      await Promise.all([stopped.stop('SIGTERM'), killed.kill()]);
      killed.client.disconnect();
      all.push(...(await sendAll(nodes, key, times(10))));
      const last = await startNode(origin.url);
      await last.ready();
      all.push(...(await sendAll([...nodes, last], key, times(120))));
      await last.stop();
      return all;
    });
    assert.equal(admittedOf(results), 100, algorithm);
  }
});
