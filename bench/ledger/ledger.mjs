// How many rows a ledger takes, and how soon it gives all of them back: the production store on one
// connection to a mariadbd on loopback, which writes to the disk as it usually does.

import { spawnSync } from 'node:child_process';
import { join, resolve } from 'node:path';

import { readFlags } from '../flags.mjs';
import { describeMachine, keep, printMachine } from '../machine.mjs';
import { Servers } from '../servers.mjs';

const usage = `ledger: how many rows a second MariaDB takes

  ./dev bench ledger [--quick] [--rows N] [--out DIR]

  --quick      few rows: to see whether it works
  --rows N     how many (default: 100000)
  --out DIR    where <date>-<arch>-ledger.json goes (default: build/bench/results)
`;

const flags = { quick: false, rows: undefined, out: 'build/bench/results', bin: 'build/bin' };
const { options } = readFlags(usage, flags);
const rows = Number(options.rows ?? (options.quick ? 5000 : 100_000));
const kBar = 20_000; // rows a second

function run(program, ...words) {
  const done = spawnSync(join(resolve(options.bin), program), words, { encoding: 'utf8' });
  if (done.status !== 0) throw new Error(`${program} ${words[0]} failed: ${done.stderr}`);
  return done.stdout;
}

const machine = describeMachine([
  ['mariadb', 'mariadbd', '--version'],
  ['weir', join(resolve(options.bin), 'weir'), '--version'],
]);
printMachine(machine);
const { url } = await new Servers('ledger').mariadb();
run('weir', 'migrate', '--ledger', url);
const figures = JSON.parse(run('weir_ledger_bench', '--ledger', url, '--rows', `${rows}`));

const met = (rate) => (rate >= kBar ? 'yes' : 'NO');
console.log(`\n${rows} rows through one connection, 500 to a transaction\n`);
for (const name of ['inserted', 'raised']) {
  console.log(`  ${name.padEnd(12)}${`${figures[name]}`.padStart(8)} a second   bar ${kBar}   ${met(figures[name])}`);
}
console.log(`  ${'read'.padEnd(12)}${figures.read.toFixed(3).padStart(8)} s, page by page`);
keep(options.out, 'ledger', { json: `${JSON.stringify({ machine, bar: kBar, figures })}\n` });
process.exit(0);
