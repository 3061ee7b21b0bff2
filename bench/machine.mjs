// On what figures were measured, and where they are kept: a figure without its machine is
// worth little.

import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { arch, cpus, loadavg, release, totalmem } from 'node:os';
import { join } from 'node:path';

function firstLine(path) {
  try {
    return readFileSync(path, 'latin1').split('\n')[0];
  } catch {
    return 'not readable';
  }
}

// `programs` are those whose versions matter: a name, and the command line that tells.
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
  if (loadavg()[0] > 0.5) console.log('\nOther work is running: rates may be low.');
}

// Writes <date>-<arch>-<name> with each extension of `contents` into a folder.
export function keep(folder, name, contents) {
  mkdirSync(folder, { recursive: true });
  const stamp = new Date().toISOString().slice(0, 16).replace('T', '-').replace(':', '');
  const machine = arch() === 'arm64' ? 'aarch64' : arch();
  for (const [extension, text] of Object.entries(contents)) {
    const file = join(folder, `${stamp}-${machine}-${name}.${extension}`);
    writeFileSync(file, text);
    console.log(`kept ${file}`);
  }
}

export const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};

// Of medians, and in brackets the least and the greatest within repetitions.
export function ratioOf(mine, theirs) {
  const each = mine.map((value, i) => value / theirs[i]);
  const middle = median(mine) / median(theirs);
  const range = `${Math.min(...each).toFixed(2)}-${Math.max(...each).toFixed(2)}`;
  return { middle, text: `${middle.toFixed(2)}x (${range})` };
}
