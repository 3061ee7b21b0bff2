// The accuracy of three nodes with one Redis against one exact limiter.
//
// Each limit gets a load below or above it, evenly over time and at random over the nodes, for some
// windows; all limits at the same time. The exact limiter gets the same requests in the same order at
// the same times. The test compares whole runs and prints the figures.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { LoadConnections } from './load_connections.mjs';
import { untilConnected, Origin, rest, startNode } from './region.mjs';

const kWindow = 5000; // ms
const kTick = 5; // ms
const kNodes = 3;
const kLimits = [10, 100, 1000, 10_000];
const kLoads = [0.9, 1.2, 2];

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

// A key with its limit and its load, and the result of every request.
class Run {
  requests = []; // {sent, success, reset}, in order
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

  admitted(questions = this.requests) {
    return questions.filter(({ success }) => success).length;
  }

  // The admissions of an exact limiter for the same requests (docs/algorithms.md). A node reads its clock
  // a little after the request was sent; the verdict names the window.
  exact() {
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
      const { identifier, most, load } = run;
      if (most >= 100) {
        const ratio = run.admitted() / run.exact();
        assert.ok(ratio >= 0.99 && ratio <= 1.1, `${identifier}: ${ratio}`);
        continue;
      }
      // For small limits a tenth is too little. A node may not have read admissions of other nodes while its
      // last refresh was fresh, a tenth of the window, and each node has one request in flight.
      const unheard = Math.ceil((most * load) / 10) + kNodes;
      for (const admitted of run.perWindow()) {
        assert.ok(admitted <= most + unheard, `${identifier}: ${admitted} in a window`);
      }
    }
  });
}
