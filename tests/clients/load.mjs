// A load on the nodes of a region, split at random, and an exact log of the admissions.

import assert from 'node:assert/strict';

import { withTimeout } from './server.mjs';
import { pick, verdictOf } from './region.mjs';

const kTick = 5; // ms

export class Load {
  requests = []; // {node, identifier, cost, phase, sent, took, verdict or error}
  phase = 'before';
  #open = new Set();

  // `keys` are {identifier, most, cost, line}: the identifier, the limit, a function that draws a cost, and the
  // client of a node that sends: replies on one connection keep their order, so one that waits for Redis
  // delays the next ones.
  // `nodes` and `keys` are read at every request, so they may change during a load.
  constructor({ nodes, keys, duration, perTick }) {
    Object.assign(this, { nodes, keys, duration, perTick });
  }

  start() {
    this.timer = setInterval(() => {
      for (let i = 0; i < this.perTick; ++i) {
        const key = pick(this.keys);
        void this.send(pick(this.nodes), key, key.cost());
      }
    }, kTick);
  }

  // Every request in the log gets a reply, except those to killed nodes.
  async stop() {
    clearInterval(this.timer);
    while (this.#open.size > 0) await withTimeout('all answers', Promise.all(this.#open));
    const failed = this.requests.filter(({ error, node }) => error && !node.killed);
    assert.deepEqual(failed.map(({ error }) => `${error}`), []);
  }

  send(node, { identifier, most, line = 'client' }, cost = 1) {
    const entry = { node, identifier, cost, phase: this.phase, sent: performance.now() };
    this.requests.push(entry);
    const answer = node[line]
      .call('WEIR.LIMIT', 'api', identifier, most, this.duration, 'COST', cost)
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
    const yes = this.requests.filter((entry) => entry.verdict?.success && test(entry));
    return yes.reduce((sum, { cost }) => sum + cost, 0);
  }
}
