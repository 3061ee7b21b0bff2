// A world: regions, each with its own redis-server and nodes, and one ledger. Every region reaches the
// ledger through its own proxy.

import { untilConnected, Origin, startNode, until } from './region.mjs';
import { Proxy } from './proxy.mjs';

class Region {
  nodes = [];

  constructor(name, ledger) {
    Object.assign(this, { name, ledger, origin: new Origin() });
  }
  async start(nodes) {
    this.proxy = await Proxy.to(this.ledger.server.port);
    await this.origin.start();
    await Promise.all(Array.from({ length: nodes }, () => this.startNode()));
    await untilConnected(this.nodes);
  }

  // One more node, named by its number in the order of starts.
  async startNode({ args = [], ...options } = {}) {
    const label = `${this.name}-${(this.labels = (this.labels ?? 0) + 1)}`;
    const ledger = this.ledger.url(this.proxy.port);
    const words = ['--region', this.name, '--node', label, '--ledger', ledger, ...args];
    const node = await startNode(this.origin.url, { args: words, ...options });
    Object.assign(node, { label, region: this });
    this.nodes.push(node);
    return node;
  }
  // Stops and removes nodes; by default all of the region.
  async stopNodes(nodes = this.nodes, signal = 'SIGTERM') {
    this.nodes = this.nodes.filter((node) => !nodes.includes(node));
    for (const node of nodes) await node.stop(signal);
  }
  async stop() {
    await Promise.all(this.nodes.map((node) => node.stop()));
    this.proxy.close();
    await this.origin.kill();
  }
}

export class World {
  // `ledger` is a database with tables.
  static async start({ ledger, regions = ['ap', 'eu', 'us'], nodes = 2 }) {
    const world = new World();
    world.ledger = ledger;
    world.regions = regions.map((name) => new Region(name, ledger));
    await Promise.all(world.regions.map((region) => region.start(nodes)));
    await world.untilReady();
    return world;
  }
  get nodes() {
    return this.regions.flatMap(({ nodes }) => nodes);
  }
  stop() {
    return Promise.all(this.regions.map((region) => region.stop()));
  }

  // Waits until all nodes have read the ledger and see all regions.
  async untilReady() {
    for (const { server } of this.nodes) {
      await until('a full import', async () => (await fetch(`${server.url}/readyz`)).status === 200);
      await until('all regions', async () => (await server.metric('weir_regions')) >= this.regions.length);
    }
  }
  // Waits for a condition at all nodes.
  async everywhere(what, condition, nodes = this.nodes) {
    await Promise.all(nodes.map((node) => until(`${node.label}: ${what}`, () => condition(node))));
  }
  // Waits until all nodes, or the given ones, report `left` remaining units of a key.
  remains(identifier, most, left, { nodes, duration } = {}) {
    const knows = async (node) => (await node.peek(identifier, most, duration)).remaining === left;
    return this.everywhere(`${left} of ${most} left of ${identifier}`, knows, nodes);
  }
  // Waits until all regions have imported a later change, and so all changes until now.
  async settle() {
    const identifier = `settle-${Math.random()}`;
    for (const region of this.regions) await region.nodes[0].limit(identifier, 100, 20);
    await this.remains(identifier, 100, 100 - 20 * this.regions.length);
  }
}
