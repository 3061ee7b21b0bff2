// A load on the nodes of a region, split at random, and an exact log of what they accepted.

import assert from 'node:assert/strict';

import { patiently } from './server.mjs';
import { pick, verdictOf } from './region.mjs';

const kTick = 5; // ms

export class Load {
  asked = []; // {node, who, cost, phase, sent, took, verdict or error}
  phase = 'before';
  #open = new Set();

  // `keys` are {who, most, cost, line}: whom to ask for, the limit, a function that draws a cost,
  // and which client of a node asks: answers of one connection come in order, so one that waits
  // for Redis delays those behind it.
  // `nodes` and `keys` are read at every request, so they may change under way.
  constructor({ nodes, keys, duration, perTick }) {
    Object.assign(this, { nodes, keys, duration, perTick });
  }

  start() {
    this.timer = setInterval(() => {
      for (let i = 0; i < this.perTick; ++i) {
        const key = pick(this.keys);
        void this.ask(pick(this.nodes), key, key.cost());
      }
    }, kTick);
  }

  // Every question of the log is answered, but those to nodes that were killed.
  async stop() {
    clearInterval(this.timer);
    while (this.#open.size > 0) await patiently('all answers', Promise.all(this.#open));
    const failed = this.asked.filter(({ error, node }) => error && !node.killed);
    assert.deepEqual(failed.map(({ error }) => `${error}`), []);
  }

  ask(node, { who, most, line = 'client' }, cost = 1) {
    const entry = { node, who, cost, phase: this.phase, sent: performance.now() };
    this.asked.push(entry);
    const answer = node[line]
      .call('WEIR.LIMIT', 'api', who, most, this.duration, 'COST', cost)
      .then((flat) => (entry.verdict = verdictOf(flat)))
      .catch((error) => (entry.error = error))
      .finally(() => {
        entry.took = performance.now() - entry.sent;
        this.#open.delete(answer);
      });
    this.#open.add(answer);
    return answer;
  }

  accepted(test = () => true) {
    const yes = this.asked.filter((entry) => entry.verdict?.success && test(entry));
    return yes.reduce((sum, { cost }) => sum + cost, 0);
  }
}
