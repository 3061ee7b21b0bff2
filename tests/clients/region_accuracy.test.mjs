// The accuracy of three nodes with one Redis against one exact limiter.
//
// Each limit gets a load below or above it, evenly over time and at random over the nodes, for some
// windows; all limits at the same time. The exact limiter gets the same requests in the same order at
// the same times. The test compares whole runs and prints the figures.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { LoadConnections } from './load_connections.mjs';
import { untilConnected, Origin, rest, startNode, until } from './region.mjs';

const kWindow = 5000; // ms
const kTick = 5; // ms
const kNodes = 3;
const kLimits = [10, 100, 1000, 10_000];
const kLoads = [0.9, 1.2, 2];
const kPrompt = 100; // ms
const kBound = 1.25; // of a limit, whatever the machine does: docs/origin.md

const origin = new Origin();
let nodes;
let lines;
before(async () => {
  await origin.start();
  nodes = await Promise.all(Array.from({ length: kNodes }, () => startNode(origin.url)));
  await untilConnected(nodes);
  lines = new LoadConnections(nodes);
});
after(async () => {
  lines.close();
  await Promise.all(nodes.map((node) => node.stop()));
  await origin.kill();
});

// One exact limiter of each algorithm whose state Redis keeps: limit -> (time -> whether it admits).
function backlog(most) {
  const interval = kWindow / most;
  let tat = 0;
  return (now) => {
    const after = Math.max(tat, now) + interval;
    if (after - now > kWindow) return false;
    tat = after;
    return true;
  };
}
// Admits while fewer than `most` admissions have a stamp after `outside(now)`.
function trailing(most, stampOf, outside) {
  const stamps = [];
  return (now) => {
    while (stamps.length > 0 && stamps[0] <= outside(now)) stamps.shift();
    if (stamps.length >= most) return false;
    stamps.push(stampOf(now));
    return true;
  };
}
const kSubWindow = Math.ceil(kWindow / 16);
const partOf = (now) => Math.floor(now / kSubWindow);
const unmerged = {
  gcra: backlog,
  token_bucket: backlog,
  'CL.THROTTLE': backlog,
  sliding_window_strict: (most) => trailing(most, partOf, (now) => partOf(now) - 17),
  sliding_log: (most) => trailing(most, (now) => now, (now) => now - kWindow),
};

// Whether a node may have decided many requests long after they were sent, on a busy machine. Then it
// admits less than a limiter that decides them when they are sent; and if it reads what the others
// admitted as late, more, within the bound.
function isSlow(requests) {
  const late = requests.filter(({ sent, came }) => came - sent > kPrompt).length;
  return late > requests.length / 100;
}

// A key with its limit and its load, and the result of every request.
class Run {
  requests = []; // {sent, success, reset}, in order
  #due = 0;

  constructor(algorithm, most, load) {
    Object.assign(this, { algorithm, most, load, identifier: `${algorithm}-${most}-${load}` });
    this.words =
      algorithm === 'CL.THROTTLE'
        ? [algorithm, this.identifier, most - 1, most, kWindow / 1000]
        : ['api', this.identifier, most, kWindow, 'ALGORITHM', algorithm];
  }

  // Sends the requests that are due after `ms` more.
  send(ms) {
    this.#due += (this.most * this.load * ms) / kWindow;
    for (; this.#due >= 1; --this.#due) this.requests.push(lines.send(this.words));
  }

  isSlow() {
    return isSlow(this.requests);
  }

  admitted(questions = this.requests) {
    return questions.filter(({ success }) => success).length;
  }

  // The admissions of an exact limiter for the same requests (docs/algorithms.md). A node reads its clock
  // a little after the request was sent; the verdict names the window.
  exact() {
    if (this.algorithm in unmerged) return this.exactAt('sent');
    let reset = 0;
    let counts = { current: 0, previous: 0 };
    let total = 0;
    const inOrder = [...this.requests].sort((a, b) => a.reset - b.reset || a.sent - b.sent);
    for (const question of inOrder) {
      if (question.reset !== reset) {
        counts = { current: 0, previous: question.reset - reset === kWindow ? counts.current : 0 };
        reset = question.reset;
      }
      const left = Math.min(kWindow, Math.max(0, reset - question.sent));
      const sliding = this.algorithm === 'sliding_window';
      const carried = sliding ? Math.floor((counts.previous * left) / kWindow) : 0;
      if (counts.current + carried + 1 > this.most) continue;
      ++counts.current;
      ++total;
    }
    return total;
  }

  // The same of an algorithm without windows, if every request is decided at that time.
  exactAt(time) {
    const limiter = unmerged[this.algorithm](this.most);
    const times = this.requests.map((request) => request[time]).sort((a, b) => a - b);
    return times.filter((at) => limiter(at)).length;
  }

  // Admissions per window.
  perWindow() {
    const windows = new Map();
    for (const question of this.requests) {
      windows.set(question.reset, [...(windows.get(question.reset) ?? []), question]);
    }
    return [...windows.values()].map((questions) => this.admitted(questions));
  }
}

// Requests that a stalled machine missed are not sent later in a burst: the load stays even.
async function play(runs, length) {
  const end = performance.now() + length;
  for (let last = performance.now(); last < end; ) {
    await rest(kTick);
    const now = performance.now();
    for (const run of runs) run.send(Math.min(now - last, 4 * kTick));
    lines.flush();
    last = now;
  }
  await lines.quiet();
}

function table(runs) {
  const rows = runs.map((run) => {
    const { algorithm, most, load, requests } = run;
    const [admitted, exact] = [run.admitted(), run.exact()];
    return [algorithm, most, load, requests.length, admitted, exact, (admitted / exact).toFixed(4)];
  });
  const all = [['algorithm', 'limit', 'load', 'requests', 'admitted', 'exact', 'ratio'], ...rows];
  return all.map((row) => row.map((cell) => String(cell).padStart(15)).join('')).join('\n');
}

for (const [algorithm, windows] of [['fixed_window', 4], ['sliding_window', 5]]) {
  test(`with ${algorithm}, three nodes admit about as much as one exact limiter`, async () => {
    const runs = kLimits.flatMap((most) => kLoads.map((load) => new Run(algorithm, most, load)));
    await play(runs, windows * kWindow);
    console.log(table(runs));
    for (const run of runs) {
      const { identifier, most } = run;
      // A stalled machine: Redis did not answer in time.
      if (run.requests.some(({ basis }) => basis === 'degraded')) continue;
      const ratio = run.admitted() / run.exact();
      if (most >= 100) {
        assert.ok(run.isSlow() || ratio >= 0.99, `${identifier}: ${ratio}`);
        assert.ok(ratio <= (run.isSlow() ? kBound : 1.03), `${identifier}: ${ratio}`);
      }
      // Redis decides every request of a limit below 8 for each node.
      if (most >= 8 * kNodes) continue;
      for (const admitted of run.perWindow()) {
        assert.ok(admitted <= most, `${identifier}: ${admitted} in a window`);
      }
    }
  });
}

// Each of some keys gets one and a half times its limit within a second, at random over the nodes. The
// nodes know the keys, so they use their allowances.
test('three nodes that use up a limit within a second admit at most 1.02 of it', async () => {
  const kKeys = 10;
  const kMost = 200;
  const kRounds = Number(process.env.WEIR_ACCURACY_ROUNDS ?? 2);
  const kLength = 1000; // ms
  const kRequests = 1.5 * kMost;
  const send = (identifier, line) =>
    lines.send(['api', identifier, kMost, kWindow, 'ALGORITHM', 'fixed_window'], line);
  const start = async () => {
    const end = Date.now() - (Date.now() % kWindow) + kWindow;
    while (Date.now() < end + 2) await rest(1);
  };
  await until('allowances', async () => {
    const probes = lines.lines.map((line) => lines.send(['api', 'probe', 1_000_000, 600_000], line));
    lines.flush();
    await lines.quiet();
    await rest(100);
    return probes.every(({ basis }) => basis === 'local');
  });
  const found = [];
  let local = 0;
  // More rounds on a machine that stalls.
  for (let round = 0; round < kRounds || (found.length < kKeys && round < 10); ++round) {
    const keys = Array.from({ length: kKeys }, (_, i) => ({
      identifier: `second-${round}-${i}`,
      requests: [],
    }));
    for (const { identifier } of keys) for (const line of lines.lines) send(identifier, line);
    lines.flush();
    await lines.quiet();
    await start();
    const began = performance.now();
    for (let sent = 0; sent < kRequests; await rest(kTick)) {
      const due = Math.min(kRequests, ((performance.now() - began) / kLength) * kRequests);
      for (; sent < due; ++sent) {
        for (const { identifier, requests } of keys) requests.push(send(identifier));
      }
      lines.flush();
    }
    await lines.quiet();
    for (const { requests } of keys) {
      // The machine stalled if a request missed its deadline or the next window.
      const { reset } = requests[0];
      const stalled = requests.some((each) => each.basis === 'degraded' || each.reset !== reset);
      if (stalled) continue;
      const admitted = requests.filter(({ success }) => success).length;
      found.push(admitted);
      const most = (isSlow(requests) ? kBound : 1.02) * kMost;
      assert.ok(admitted >= kMost && admitted <= most, `${admitted} of ${kMost}`);
      local += requests.filter(({ success, basis }) => success && basis === 'local').length;
    }
  }
  found.sort((a, b) => a - b);
  const counts = new Map();
  for (const admitted of found) counts.set(admitted, (counts.get(admitted) ?? 0) + 1);
  const list = [...counts].map(([admitted, times]) => `${admitted} admitted ${times} times`);
  console.log(`limit ${kMost}: ${list.join(', ')}; by allowance ${local}`);
  assert.ok(found.length >= kKeys, `${found.length} keys without a stall`);
});

// A node admits by its allowance and tells Redis later; Redis decides what is near the limit.
test('with the other algorithms, three nodes admit about as much as one exact limiter', async () => {
  const runs = Object.keys(unmerged).flatMap((algorithm) =>
    [10, 100, 1000].flatMap((most) => kLoads.map((load) => new Run(algorithm, most, load))),
  );
  await play(runs, 4 * kWindow);
  console.log(table(runs));
  const late = (run) => run.requests.some(({ basis }) => basis === 'degraded');
  const stalled = runs.some(late); // CL.THROTTLE does not say so
  for (const run of runs) {
    if (late(run) || (stalled && run.algorithm === 'CL.THROTTLE')) continue;
    const ratio = run.admitted() / run.exact();
    const rounding = run.most >= 100 ? 0 : 0.1;
    if (!run.isSlow()) {
      assert.ok(Math.abs(ratio - 1) <= 0.02 + rounding, `${run.identifier}: ${ratio}`);
      continue;
    }
    // Decided at any time until the answer, when more has drained.
    const most = run.admitted() / Math.max(run.exact(), run.exactAt('came'));
    assert.ok(most <= kBound + rounding, `${run.identifier}: ${most}`);
  }
});
