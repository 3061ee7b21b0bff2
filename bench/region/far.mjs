// A Redis that is far away: node far.mjs PORT MS passes on all bytes after so many ms, each
// way, and says on which port. A process of its own, so that what it does delays nobody who
// measures. Ends with whoever started it.

import { Proxy } from '../../tests/clients/proxy.mjs';

const [port, ms] = process.argv.slice(2).map(Number);
const proxy = await Proxy.to(port);
proxy.delay = { up: ms, down: ms };
console.log(new URL(proxy.url).port);
process.stdin.on('end', () => process.exit(0)).resume();
