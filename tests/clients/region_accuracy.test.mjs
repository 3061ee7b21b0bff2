// How near three nodes with one Redis come to what one exact limiter would admit.
//
// Each limit is loaded with a part of it or a multiple, evenly over time and at random over
// the nodes, for some windows; all of them at the same time. The exact limiter is asked the
// same questions in the same order at the same times. Whole runs are compared; the figures
// are printed.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Lines } from './lines.mjs';
import { acquainted, Origin, rest, startNode } from './region.mjs';

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
  await acquainted(nodes);
  lines = new Lines(nodes);
});
after(async () => {
  lines.close();
  await Promise.all(nodes.map((node) => node.stop()));
  await origin.kill();
});

// A key with its limit and its load, and what became of every question.
class Run {
  asked = []; // {sent, success, reset}, in the order asked
  #due = 0;

  constructor(algorithm, most, load) {
    Object.assign(this, { algorithm, most, load, who: `${algorithm}-${most}-${load}` });
    this.words = ['api', this.who, most, kWindow, 'ALGORITHM', algorithm];
  }

  // Asks for what is due after so many ms more.
  ask(ms) {
    this.#due += (this.most * this.load * ms) / kWindow;
    for (; this.#due >= 1; --this.#due) this.asked.push(lines.ask(this.words));
  }

  admitted(questions = this.asked) {
    return questions.filter(({ success }) => success).length;
  }

  // What an exact limiter admits of the same questions, as docs/algorithms.md has it. A node
  // reads the time a little after the question was sent; it says in which window.
  exact() {
    let reset = 0;
    let counts = { current: 0, previous: 0 };
    let total = 0;
    const inOrder = [...this.asked].sort((a, b) => a.reset - b.reset || a.sent - b.sent);
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

  // What was admitted in each window.
  perWindow() {
    const windows = new Map();
    for (const question of this.asked) {
      windows.set(question.reset, [...(windows.get(question.reset) ?? []), question]);
    }
    return [...windows.values()].map((questions) => this.admitted(questions));
  }
}

// What a machine that stood still did not ask is not asked later, all at once: the load is even.
async function play(runs, length) {
  const end = performance.now() + length;
  for (let last = performance.now(); last < end; ) {
    await rest(kTick);
    const now = performance.now();
    for (const run of runs) run.ask(Math.min(now - last, 4 * kTick));
    lines.flush();
    last = now;
  }
  await lines.quiet();
}

function table(runs) {
  const rows = runs.map((run) => {
    const { algorithm, most, load, asked } = run;
    const [admitted, exact] = [run.admitted(), run.exact()];
    return [algorithm, most, load, asked.length, admitted, exact, (admitted / exact).toFixed(4)];
  });
  const all = [['algorithm', 'limit', 'load', 'asked', 'admitted', 'exact', 'ratio'], ...rows];
  return all.map((row) => row.map((cell) => String(cell).padStart(15)).join('')).join('\n');
}

for (const [algorithm, windows] of [['fixed_window', 4], ['sliding_window', 5]]) {
  test(`three nodes admit by ${algorithm} what one exact limiter would`, async () => {
    const runs = kLimits.flatMap((most) => kLoads.map((load) => new Run(algorithm, most, load)));
    await play(runs, windows * kWindow);
    console.log(table(runs));
    for (const run of runs) {
      const { who, most, load } = run;
      if (most >= 100) {
        const ratio = run.admitted() / run.exact();
        assert.ok(ratio >= 0.99 && ratio <= 1.1, `${who}: ${ratio}`);
        continue;
      }
      // A tenth of so few is nothing. A node may not have heard of what was asked elsewhere while
      // its last look was fresh, a tenth of the window, and each has one of its own under way.
      const unheard = Math.ceil((most * load) / 10) + kNodes;
      for (const admitted of run.perWindow()) {
        assert.ok(admitted <= most + unheard, `${who}: ${admitted} in a window`);
      }
    }
  });
}
