// Measures the write rate of a ledger and the time to read it whole: the production store with one
// connection to a mariadbd on loopback, with default durability.

import { spawnSync } from 'node:child_process';
import { join, resolve } from 'node:path';

import { readFlags } from '../flags.mjs';
import { describeMachine, printMachine, writeResults } from '../machine.mjs';
import { Servers } from '../servers.mjs';

const usage = `ledger: measure how many rows per second MariaDB writes

  ./dev bench ledger [--quick | --smoke] [--rows N] [--out DIR]

  --quick      few rows
  --smoke      run everything for an instant: checks that the benchmark works, measures nothing
  --rows N     number of rows (default: 100000)
  --out DIR    directory for <date>-<arch>-ledger.json (default: build/bench/results)
`;

const flags = { quick: false, smoke: false, rows: undefined, out: 'build/bench/results', bin: 'build/bin' };
const { options } = readFlags(usage, flags);
const rows = Number(options.rows ?? (options.smoke ? 600 : options.quick ? 5000 : 100_000));
const kTarget = 20_000; // rows per second

function run(program, ...args) {
  const result = spawnSync(join(resolve(options.bin), program), args, { encoding: 'utf8' });
  if (result.status !== 0) throw new Error(`${program} ${args[0]} failed: ${result.stderr}`);
  return result.stdout;
}

const machine = describeMachine([
  ['mariadb', 'mariadbd', '--version'],
  ['weir', join(resolve(options.bin), 'weir'), '--version'],
]);
printMachine(machine);
const { url } = await new Servers('ledger').mariadb();
run('weir', 'migrate', '--ledger', url);
const figures = JSON.parse(run('weir_ledger_bench', '--ledger', url, '--rows', `${rows}`));

const met = (rate) => (rate >= kTarget ? 'yes' : 'NO');
console.log(`\n${rows} rows through one connection, 500 per transaction\n`);
for (const name of ['inserted', 'updated']) {
  console.log(`  ${name.padEnd(12)}${`${figures[name]}`.padStart(8)} per second   target ${kTarget}   ${met(figures[name])}`);
}
console.log(`  ${'read'.padEnd(12)}${figures.read.toFixed(3).padStart(8)} s, page by page`);
writeResults(options.out, 'ledger', { json: `${JSON.stringify({ machine, target: kTarget, figures })}\n` });
process.exit(0);
