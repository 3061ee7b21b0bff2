// A proxy that adds network latency: node delay_proxy.mjs PORT MS delays all bytes by MS each way and prints
// its port. It is a separate process, so that its work does not delay the measurement. It ends with
// its parent process.

import { Proxy } from '../../tests/clients/proxy.mjs';

const [port, ms] = process.argv.slice(2).map(Number);
const proxy = await Proxy.to(port);
proxy.delay = { up: ms, down: ms };
console.log(new URL(proxy.url).port);
process.stdin.on('end', () => process.exit(0)).resume();
