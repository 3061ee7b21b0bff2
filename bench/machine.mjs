// The machine that ran a benchmark, the result files, and medians. Results are only comparable on
// the same machine.

import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { arch, cpus, loadavg, release, totalmem } from 'node:os';
import { join } from 'node:path';

function firstLine(path) {
  try {
    return readFileSync(path, 'latin1').split('\n')[0];
  } catch {
    return 'unknown';
  }
}

// `programs`: [name, command, ...arguments] of programs whose version is recorded.
export function describeMachine(programs) {
  const version = ([command, ...args]) => {
    const run = spawnSync(command, args, { encoding: 'utf8' });
    return (run.stdout + run.stderr).split('\n')[0].trim();
  };
  const named = spawnSync('lscpu', { encoding: 'utf8' }).stdout ?? '';
  return {
    date: new Date().toISOString().slice(0, 16).replace('T', ' ') + ' UTC',
    processor: /Model name:\s*(.*)/.exec(named)?.[1] ?? cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memory: `${(totalmem() / 2 ** 30).toFixed(1)} GiB`,
    kernel: `Linux ${release()} ${arch()}`,
    ...Object.fromEntries(programs.map(([name, ...command]) => [name, version(command)])),
    'load average': firstLine('/proc/loadavg'),
  };
}

export function printMachine(machine) {
  for (const [name, value] of Object.entries(machine)) console.log(`${name.padEnd(14)} ${value}`);
  if (loadavg()[0] > 0.5) console.log('\nThe machine is busy: rates may be too low.');
}

// Writes <date>-<arch>-<name>.<extension> into a directory, for each extension of `contents`.
export function writeResults(directory, name, contents) {
  mkdirSync(directory, { recursive: true });
  const stamp = new Date().toISOString().slice(0, 16).replace('T', '-').replace(':', '');
  const machine = arch() === 'arm64' ? 'aarch64' : arch();
  for (const [extension, text] of Object.entries(contents)) {
    const file = join(directory, `${stamp}-${machine}-${name}.${extension}`);
    writeFileSync(file, text);
    console.log(`wrote ${file}`);
  }
}

export const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};

// The ratio of medians, with the range of the ratios within repetitions in brackets.
export function ratioOf(numerators, denominators) {
  const each = numerators.map((value, i) => value / denominators[i]);
  const ofMedians = median(numerators) / median(denominators);
  const range = `${Math.min(...each).toFixed(2)}-${Math.max(...each).toFixed(2)}`;
  return { ofMedians, text: `${ofMedians.toFixed(2)}x (${range})` };
}
