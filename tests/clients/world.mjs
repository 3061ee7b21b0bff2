// A world: regions, each with a redis-server and nodes of its own, and one ledger for all. Every
// region reaches the ledger through a network of its own.

import { acquainted, Origin, startNode, until } from './region.mjs';
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
    await acquainted(this.nodes);
  }

  // One more node. Named by the order in which they came, so that a log can be read.
  async startNode({ args = [], ...options } = {}) {
    const label = `${this.name}-${(this.labels = (this.labels ?? 0) + 1)}`;
    const ledger = this.ledger.url(this.proxy.port);
    const words = ['--region', this.name, '--node', label, '--ledger', ledger, ...args];
    const node = await startNode(this.origin.url, { args: words, ...options });
    Object.assign(node, { label, region: this });
    this.nodes.push(node);
    return node;
  }
  // Ends nodes and forgets them; all of the region, if none is named.
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
    await world.knowsItself();
    return world;
  }
  get nodes() {
    return this.regions.flatMap(({ nodes }) => nodes);
  }
  stop() {
    return Promise.all(this.regions.map((region) => region.stop()));
  }

  // All nodes have read everything and know of all regions.
  async knowsItself() {
    for (const { server } of this.nodes) {
      await until('a full import', async () => (await fetch(`${server.url}/readyz`)).status === 200);
      await until('all regions', async () => (await server.metric('weir_regions')) >= this.regions.length);
    }
  }
  // Something is known everywhere.
  async everywhere(what, condition, nodes = this.nodes) {
    await Promise.all(nodes.map((node) => until(`${node.label}: ${what}`, () => condition(node))));
  }
  // All nodes of all regions, or those given, see so much left of a key.
  remains(who, most, left, { nodes, duration } = {}) {
    const knows = async (node) => (await node.peek(who, most, duration)).remaining === left;
    return this.everywhere(`${left} of ${most} left of ${who}`, knows, nodes);
  }
  // What happened until now has reached everybody: news that came later has.
  async settle() {
    const who = `settle-${Math.random()}`;
    for (const region of this.regions) await region.nodes[0].limit(who, 100, 20);
    await this.remains(who, 100, 100 - 20 * this.regions.length);
  }
}
