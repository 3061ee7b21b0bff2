// Many nodes and one Redis neither lose nor double what they accepted, whatever happens to
// Redis, to the network between them, and to a node, while they are under load.
//
// Each test breaks one thing under load, mends it, waits for calm, and compares three things
// for every key: what the nodes accepted by the log of the test, what the fields of the key's
// cell add up to at Redis, and what every node says remains. They must be equal. Every node
// reaches Redis through a network of its own. How fast answers come meanwhile is printed only.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Load } from './load.mjs';
import { Proxy } from './proxy.mjs';
import { acquainted, clientOf, kLongWindow, Origin, quantile } from './region.mjs';
import { rest, startNode, until } from './region.mjs';
import { temporaryFolder } from './server.mjs';

const kNodes = 3;
const kCalm = 20_000; // ms, for everyone to know everything
const kUnreached = 1_000_000_000;
const kSmall = 20;

const origin = new Origin();
let nodes;

async function startPlace(label, proxy, data = temporaryFolder()) {
  const node = await startNode(proxy.url, { args: ['--node', label], data });
  const lines = { warm: clientOf(node.server), cold: clientOf(node.server) };
  return Object.assign(node, { label, proxy, data, killed: false, ...lines });
}

before(async () => {
  await origin.start();
  nodes = await Promise.all(
    ['a', 'b', 'c'].map(async (label) => startPlace(label, await Proxy.to(origin.port))),
  );
  assert.equal(nodes.length, kNodes);
  await acquainted(nodes);
});
after(async () => {
  await Promise.all(nodes.map((node) => node.stop()));
  for (const { proxy } of nodes) proxy.close();
  await origin.kill();
});

// --- keys, and the cells they have at Redis

const known = new Map(); // from a cell's key at Redis to whose it is

// Charges each key once, each with another cost, and sees by it which cell is whose: how a
// cell is named is not the business of a test.
async function introduce(load, keys) {
  for (const cell of await origin.cells()) if (!known.has(cell)) known.set(cell, 'a test that failed');
  const costs = new Map();
  for (const key of keys) {
    costs.set(costs.size + 1, key.who);
    assert.ok((await load.ask(load.nodes[0], key, costs.size)).success);
  }
  await until('the cells of new keys', async () => {
    const cells = (await origin.cells()).filter((cell) => !known.has(cell));
    if (cells.length < keys.length) return false;
    for (const cell of cells) known.set(cell, costs.get(await origin.total(cell)));
    return true;
  });
}

// The one key that nobody knew before a fault is that of the one cell nobody knows.
async function cellOf(who) {
  for (const [cell, owner] of known) if (owner === who) return cell;
  const cells = (await origin.cells()).filter((cell) => !known.has(cell));
  if (cells.length !== 1) return undefined;
  known.set(cells[0], who);
  return cells[0];
}

// --- one fault

let trials = 0;

// Large keys of which every unit is followed; a small one that is known when the fault comes,
// and one that is not.
function keysOfTrial() {
  const trial = `trial-${++trials}`;
  const large = ['p', 'q', 'r', 's'].map((name) => ({
    who: `${trial}-${name}`,
    most: kUnreached,
    cost: () => 1 + Math.floor(Math.random() * 3),
    line: 'warm',
  }));
  const small = { who: `${trial}-small`, most: kSmall };
  const fresh = { who: `${trial}-fresh`, most: kSmall, line: 'cold' };
  return { large, small, fresh };
}

// Every node is asked for all there is of a small key.
async function exhaust(load, key) {
  for (let i = 0; i < kSmall; ++i) {
    await Promise.all(load.nodes.map((node) => load.ask(node, key)));
  }
}

// What all know of the keys, and what they should.
async function knowledge(keys) {
  const all = {};
  for (const { who, most } of keys) {
    const cell = await cellOf(who);
    all[who] = { redis: cell === undefined ? 0 : await origin.total(cell) };
    for (const node of nodes) all[who][node.label] = (await node.peek(who, most)).remaining;
  }
  return all;
}

function truth(load, keys) {
  const all = {};
  for (const { who, most } of keys) {
    const accepted = load.accepted((entry) => entry.who === who);
    const remaining = Math.max(0, most - accepted);
    all[who] = { redis: accepted };
    for (const node of nodes) all[who][node.label] = remaining;
  }
  return all;
}

async function mendAll() {
  for (const { proxy } of nodes) {
    proxy.mend();
    proxy.speak();
    proxy.delay = { up: 0, down: 0 };
  }
  origin.resume();
  if (!origin.alive) await origin.start();
}

// Nobody ever knows more than was accepted, and soon everybody knows all of it.
async function calm(load, keys) {
  for (const { server } of nodes) {
    await until('the breaker', async () => (await server.metric('weir_origin_breaker_closed')) === 1);
    await until('the origin', async () => (await server.metric('weir_origin_ready')) === 1);
  }
  const wanted = truth(load, keys);
  const began = performance.now();
  for (;;) {
    const found = await knowledge(keys);
    for (const { who } of keys) {
      const both = JSON.stringify({ found: found[who], wanted: wanted[who] });
      assert.ok(found[who].redis <= wanted[who].redis, `${who} was counted twice: ${both}`);
      for (const { label } of nodes) {
        assert.ok(found[who][label] >= wanted[who][label], `${who} counts twice: ${both}`);
      }
    }
    if (JSON.stringify(found) === JSON.stringify(wanted)) break;
    if (performance.now() - began > kCalm) assert.deepEqual(found, wanted);
    await rest(50);
  }
  for (const cell of await origin.cells()) {
    assert.ok((await origin.client.pttl(cell)) > 0, `${cell} would stay for ever`);
  }
  return performance.now() - began;
}

// While the fault lasted each node admitted the limit at most; now nobody admits more.
async function staysAtItsLimit(load, key) {
  const mine = ({ who }) => who === key.who;
  const accepted = load.accepted(mine);
  assert.ok(accepted >= kSmall, `${key.who}: ${accepted} of ${kSmall}`);
  assert.ok(accepted <= kNodes * kSmall, `${key.who}: ${accepted} of ${kSmall}`);
  await exhaust(load, key);
  await load.stop();
  assert.equal(load.accepted(mine), accepted, `${key.who} got more when all was well again`);
}

function report(t, load, { large, small, fresh }, took) {
  const warm = new Set(large.map(({ who }) => who));
  const during = load.asked.filter(
    ({ phase, who, verdict }) => phase === 'fault' && warm.has(who) && verdict,
  );
  const times = during.map((entry) => entry.took);
  const ms = (share) => quantile(times, share)?.toFixed(1);
  const of = (key) => load.accepted(({ who }) => who === key.who);
  const slowest = Math.max(...load.asked.filter(({ took }) => took).map(({ took }) => took));
  const degraded = during.filter(({ verdict }) => verdict.basis === 'degraded').length;
  console.log(
    `${t.name}: ${load.asked.length} asked, ${load.accepted()} accepted; ` +
      `meanwhile p50 ${ms(0.5)}, p99 ${ms(0.99)}, most ${ms(1)} ms of ${times.length} ` +
      `at warm keys, ${degraded} degraded, ${slowest.toFixed(0)} ms at any; ` +
      `${of(small)} and ${of(fresh)} of ${kSmall} at the small limits; calm after ${took.toFixed(0)} ms`,
  );
}

// A load, `harm` in the middle of it, and what must be true afterwards. `harm` begins the fault,
// stays as long as it likes, and ends it.
async function trial(t, harm, check = calm) {
  const keys = keysOfTrial();
  const all = [...keys.large, keys.small, keys.fresh];
  const load = new Load({ nodes: [...nodes], keys: keys.large, duration: kLongWindow, perTick: 6 });
  // While the fault lasts all nodes are asked for all there is of the small limits.
  const during = async (ms) => {
    const end = performance.now() + ms;
    await Promise.all([exhaust(load, keys.small), exhaust(load, keys.fresh)]);
    await rest(Math.max(0, end - performance.now()));
  };
  await introduce(load, [...keys.large, keys.small]);
  load.start();
  try {
    await rest(300);
    load.phase = 'fault';
    await harm({ load, keys, during });
    load.phase = 'after';
    await rest(300);
  } finally {
    await mendAll(); // also if it failed: the next one begins with all well
    await load.stop();
  }
  const took = await check(load, all);
  await staysAtItsLimit(load, keys.small);
  await staysAtItsLimit(load, keys.fresh);
  report(t, load, keys, took);
}

const proxies = () => nodes.map(({ proxy }) => proxy);

// --- Redis

test('nothing is lost or doubled while Redis is stopped for two seconds', (t) =>
  trial(t, async ({ during }) => {
    await origin.pause();
    await during(2000);
    origin.resume();
  }));

test('nothing is lost or doubled when Redis is killed and comes back empty', (t) =>
  trial(t, async ({ during }) => {
    await origin.kill();
    await during(800);
    await origin.start();
  }));

test('nothing is lost or doubled when Redis comes back with an old snapshot', (t) =>
  trial(t, async ({ during }) => {
    const old = await origin.snapshot();
    await rest(600); // of load that is not in it
    await origin.kill();
    await during(500);
    await origin.start(old);
  }));

test('nothing is lost when Redis forgets everything and no connection breaks', (t) =>
  trial(t, async ({ during }) => {
    await during(600); // the small limits are reached, and that is told
    await origin.client.flushall();
  }));

// --- the network

test('nothing is lost or doubled when the network is cut for two seconds', (t) =>
  trial(t, async ({ during }) => {
    for (const proxy of proxies()) proxy.cut();
    await during(2000);
    for (const proxy of proxies()) proxy.mend();
  }));

test('nothing is lost or doubled when one node alone is cut off', (t) =>
  trial(t, async ({ during }) => {
    nodes[1].proxy.cut();
    await during(2000);
    nodes[1].proxy.mend();
  }));

test('nothing is lost or doubled when the network takes 100 ms each way', (t) =>
  trial(t, async ({ during }) => {
    for (const proxy of proxies()) proxy.delay = { up: 100, down: 100 };
    await during(1500);
    for (const proxy of proxies()) proxy.delay = { up: 0, down: 0 };
  }));

test('nothing is lost or doubled when every reply comes after its deadline', (t) =>
  trial(t, async ({ during }) => {
    for (const proxy of proxies()) proxy.delay = { up: 0, down: 400 };
    await during(2000);
    for (const proxy of proxies()) proxy.delay = { up: 0, down: 0 };
  }));

test('nothing is doubled when what timed out was applied, and the replies come late', (t) =>
  trial(t, async ({ during }) => {
    for (const proxy of proxies()) proxy.silence();
    await during(1000);
    for (const proxy of proxies()) proxy.speak();
  }));

test('nothing is doubled when what timed out was applied, and the connection is given up', (t) =>
  trial(t, async ({ during }) => {
    for (const proxy of proxies()) proxy.silence();
    await during(3000);
    for (const proxy of proxies()) proxy.speak();
  }));

// What the dead connection says at last is less than what the living one said since, for keys
// that are idle by then, and for keys at their limit, which are refused without a look at Redis.
test('nothing is lost when a dead connection writes after a living one', async (t) => {
  let letGo;
  const harm = async ({ during, load, keys }) => {
    letGo = proxies().map((proxy) => proxy.hold());
    for (const key of [keys.small, keys.fresh]) {
      await Promise.all(nodes.map((node) => load.ask(node, key)));
    }
    await rest(2500); // until the nodes have left these connections
    for (const node of nodes) await node.ready();
    await during(100);
  };
  const lateWrite = async (load, all) => {
    const sum = async () => {
      let total = 0;
      for (const { who } of all) total += await origin.total(await cellOf(who));
      return total;
    };
    await until('Redis to know all', async () => (await sum()) === load.accepted());
    for (const go of letGo) go();
    await rest(200);
    console.log(`the late write took ${load.accepted() - (await sum())} of ${load.accepted()} back`);
    return calm(load, all);
  };
  await trial(t, harm, lateWrite);
});

// --- a node

// Ends a node, and starts another under its label once it is gone.
async function replace(load, end) {
  const leaver = nodes[2];
  load.nodes = nodes.slice(0, 2); // what it was asked before is still answered
  await end(leaver);
  nodes[2] = await startPlace(leaver.label, leaver.proxy, leaver.data);
  await nodes[2].ready();
  load.nodes = [...nodes];
  return leaver;
}

test('a node that is stopped tells all it accepted, and its label counts on', (t) =>
  trial(t, async ({ during, load }) => {
    for (const proxy of proxies()) proxy.delay = { up: 100, down: 100 }; // much is under way
    await rest(500);
    await replace(load, (node) => node.stop('SIGTERM'));
    for (const proxy of proxies()) proxy.delay = { up: 0, down: 0 };
    await during(300);
  }));

test('a node that is killed takes with it only what it accepted last', async (t) => {
  const kLast = 1000; // ms; it tells within 250, but the machine may be busy
  let victim;
  let killed;
  const harm = async ({ during, load }) => {
    await rest(1000); // of load most of which is told
    victim = await replace(load, async (node) => {
      node.killed = true;
      killed = performance.now();
      await node.kill();
    });
    await during(300);
  };
  // What remains at the nodes agrees with Redis, though not with the log.
  const agreed = async (all) => {
    const found = await knowledge(all);
    const agrees = ({ who, most }) =>
      nodes.every(({ label }) => found[who][label] === Math.max(0, most - found[who].redis));
    return all.every(agrees);
  };
  const bounded = async (load, all) => {
    const began = performance.now();
    await until('all nodes to agree', () => agreed(all));
    const ofVictim = ({ node }) => node === victim;
    const within = (ms) =>
      load.accepted((entry) => ofVictim(entry) && entry.sent + entry.took > killed - ms);
    let missing = load.accepted();
    for (const { who } of all) missing -= await origin.total(await cellOf(who));
    const unanswered = load.asked
      .filter((entry) => ofVictim(entry) && entry.error)
      .reduce((sum, { cost }) => sum + cost, 0);
    console.log(
      `missing after the kill: ${missing} of the ${load.accepted(ofVictim)} it accepted, ` +
        `${within(260)} of them in its last 260 ms; ${unanswered} were never answered`,
    );
    assert.ok(missing <= within(kLast), `${missing} are missing, ${within(kLast)} came last`);
    assert.ok(-missing <= unanswered, `${-missing} too many, ${unanswered} not answered`);
    return performance.now() - began;
  };
  await trial(t, harm, bounded);
});
