// What the simulator says of sharing limits, as tables and plots: each figure of docs/simulation.md.
//
//   fleet     The traffic that an RFC tells of its own fleet, under our rule and under the RFC's.
//   attacks   What those get who know how regions share, for 2 to 30 regions.
//   shapes    What each algorithm admits of each kind of traffic.
//   growth    What more nodes, regions and keys cost.
//
// Runs are one after the other. All but seconds and memory are the same on every machine: the same file
// and seed come to the same figures.

import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { readFlags } from '../flags.mjs';
import { describeMachine, keep, printMachine } from '../machine.mjs';
import { bars, brief, lines, picture } from './chart.mjs';

const kParts = ['fleet', 'attacks', 'shapes', 'growth'];
const usage = `simulation: what sharing costs and how exact it is, in simulated fleets

  ./dev bench simulation [--quick] [--only PART] [--out DIR] [--pictures DIR] [--done DIR]

  --quick         smaller and shorter: to see whether it works
  --only PART     one of ${kParts.join(', ')}
  --out DIR       where <date>-<arch>-simulation.json goes, and the plots
                  (default: build/bench/results)
  --pictures DIR  where the plots go, as simulation-PART.svg, instead
  --done DIR      results of single runs are kept there, and those that are there are not run again
`;

const flags = { quick: false, only: undefined, out: 'build/bench/results', bin: 'build/bin', pictures: undefined, done: undefined };
const { options, complain } = readFlags(usage, flags);
if (options.only && !kParts.includes(options.only)) {
  complain(`no part '${options.only}'; there are ${kParts.join(', ')}`);
}
const binary = join(resolve(options.bin), 'weir');
const kPolicies = ['bounded', 'floor'];
const kPolicyNames = ['weir', 'floor'];
const runs = []; // all that was run, for the JSON

function progress(words) {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${words}`);
}

// The most memory that a process ever had, in MiB: asked while it lives, as nobody tells afterwards.
function peakOf(pid) {
  try {
    return Number(/VmHWM:\s*(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1] ?? 0) / 1024;
  } catch {
    return 0;
  }
}

async function live(scenario, sets) {
  const folder = mkdtempSync(join(tmpdir(), 'weir-simulation-'));
  const words = ['sim', join('scenarios', `${scenario}.yaml`), '--out', folder];
  for (const [path, value] of Object.entries(sets)) words.push('--set', `${path}=${value}`);
  const began = performance.now();
  const child = spawn(binary, words, { stdio: ['ignore', 'ignore', 'pipe'] });
  let complaint = '';
  child.stderr.on('data', (data) => (complaint += data));
  let peak = 0;
  const poll = setInterval(() => (peak = Math.max(peak, peakOf(child.pid))), 50);
  await new Promise((done, failed) => child.on('close', done).on('error', failed));
  clearInterval(poll);
  const wall = (performance.now() - began) / 1000;
  const file = join(folder, `${scenario}.json`);
  if (!existsSync(file)) throw new Error(`weir ${words.join(' ')}: ${complaint.trim() || 'wrote no report'}`);
  const [run] = JSON.parse(readFileSync(file, 'utf8')).runs;
  rmSync(folder, { recursive: true });
  const command = ['weir sim', words[1], ...Object.entries(sets).map(([path, value]) => `--set '${path}=${value}'`)];
  return {
    command: command.join(' '),
    fingerprint: run.fingerprint,
    figures: Object.fromEntries(run.figures.map(({ key, value }) => [key, value])),
    not_kept: run.promises.filter(({ kept }) => !kept).map(({ promise, was }) => `${promise} (was ${was})`),
    broken: run.broken,
    simulated_seconds: run.simulated_seconds,
    measured_seconds: run.measured_seconds,
    took_seconds: run.took_seconds,
    wall_seconds: wall,
    peak_mib: Math.round(peak),
    load_average: loadavg()[0],
  };
}

async function run(name, scenario, sets = {}) {
  progress(name);
  const file = options.done && join(options.done, `${name.replace(/[^a-z0-9]+/gi, '-')}.json`);
  let result = file && existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : null;
  if (!result) {
    result = await live(scenario, sets);
    if (file) {
      mkdirSync(options.done, { recursive: true });
      writeFileSync(file, JSON.stringify(result));
    }
  }
  runs.push({ name, ...result });
  progress('');
  return result;
}

// A table as Markdown has it, so that it can be pasted.
function table(title, head, rows) {
  const all = [head, ...rows].map((row) => row.map(String));
  const widths = head.map((_, column) => Math.max(...all.map((row) => row[column].length), 3));
  const line = (row) => `| ${row.map((cell, i) => (i ? cell.padStart(widths[i]) : cell.padEnd(widths[i]))).join(' | ')} |`;
  const rule = `|${widths.map((width, i) => (i ? `${'-'.repeat(width + 1)}:` : '-'.repeat(width + 2))).join('|')}|`;
  console.log(`\n${title}\n\n${[line(all[0]), rule, ...all.slice(1).map(line)].join('\n')}`);
}

const fixed = (value, digits) =>
  value === undefined ? '–' : value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });

// ---------------------------------------------------------------- fleet

const kFleets = [['normal', 'rfc-fleet'], ['burst', 'rfc-fleet-burst'], ['×10', 'rfc-fleet-x10']];
const kFleetRows = [
  ['requests/s', 'offered_per_second', 0], ['denied, %', 'denied', 2], ['rows written/s', 'rows', 1],
  ['presences written/s', 'presences', 1], ['rows read/s', 'rows_read', 0],
  ['origin commands/s', 'origin_commands', 0],
  ['mean of full windows, limits', 'mean_cell', 3], ['worst window of the clock, limits', 'worst_cell', 2],
  ['worst span, limits', 'worst_window', 2], ['worst but for what is recent, limits', 'unexcused', 2],
  ['denied although not full, %', 'false_denials', 2],
  ['row sent to used, p50, ms', 'travel_p50', 0], ['row sent to used, p99, ms', 'travel_p99', 0],
  ['admitted to used, p50, ms', 'propagation_p50', 0], ['admitted to used, p99, ms', 'propagation_p99', 0],
];

async function fleet() {
  const short = { 'time.warm_up': '60s', 'time.measured': '60s' };
  const results = [];
  const fleets = options.quick ? kFleets.slice(0, 2) : kFleets;
  for (const [name, scenario] of fleets) {
    for (const policy of kPolicies) {
      const sets = { ...(options.quick && short), ...(policy === 'floor' && { 'settings.policy': 'floor' }) };
      results.push({ name, policy, ...(await run(`fleet ${name} ${policy}`, scenario, sets)) });
    }
  }
  const head = ['', ...results.map(({ name, policy }) => `${name}, ${policy === 'floor' ? 'floor' : 'weir'}`)];
  const rows = kFleetRows.map(([label, key, digits]) => [label, ...results.map(({ figures }) => fixed(figures[key], digits))]);
  rows.push(['seconds simulated', ...results.map((result) => fixed(result.simulated_seconds, 0))]);
  rows.push(['seconds taken', ...results.map((result) => fixed(result.took_seconds, 0))]);
  rows.push(['simulated ÷ taken', ...results.map((result) => fixed(result.simulated_seconds / result.took_seconds, 1))]);
  rows.push(['most memory, MiB', ...results.map((result) => fixed(result.peak_mib, 0))]);
  table('The fleet of an RFC', head, rows);
  const groups = (of) => fleets.map(([name]) => ({
    name, values: kPolicies.map((policy) => of(results.find((r) => r.name === name && r.policy === policy).figures)) }));
  await size(results);
  const panel = (i, title, of, more) => bars({
    x: 60 + (i % 2) * 410, y: 105 + (i >> 1) * 220, width: 340, height: 150, title, groups: groups(of), ...more });
  return picture({
    width: 860, height: 545, title: 'The fleet of an RFC: what sharing costs, and how exact it is', series: kPolicyNames,
    note: '33 nodes, 10 regions, 24,000 keys; ×10: 330, 30 and 240,000. Windows of 60 s. Less is better.',
    parts: [
      panel(0, 'rows and presences written a second', (f) => f.rows + f.presences),
      panel(1, 'admitted in the worst window, in limits', (f) => f.worst_cell),
      panel(2, 'rows read a second, by all nodes', (f) => f.rows_read),
      panel(3, 'from sending a row to its use elsewhere, p99, s', (f) => f.travel_p99 / 1000),
    ],
  });
}

// How long large fleets take, and what memory.
async function size(results) {
  if (options.quick) return;
  const ours = (fleet) => results.find(({ name, policy }) => name === fleet && policy !== 'floor');
  const worlds = [
    ['33 nodes, 10 regions, 24,000 keys', ours('normal')],
    ['330 nodes, 30 regions, 240,000 keys', ours('×10')],
    ['300 nodes, 30 regions, 1,000,000 keys', await run('size a million', 'scale-1m')],
  ];
  const rows = worlds.map(([label, result]) => [label, fixed(result.simulated_seconds, 0),
    fixed(result.figures.offered_per_second, 0), fixed(result.figures.rows + result.figures.presences, 0),
    fixed(result.figures.rows_read, 0), fixed(result.figures.worst_cell, 2), fixed(result.wall_seconds, 0),
    fixed(result.peak_mib, 0)]);
  table('How long it takes', ['fleet', 'seconds simulated', 'requests/s', 'rows and presences/s', 'rows read/s',
    'worst window, limits', 'seconds of real time', 'most memory, MiB'], rows);
}

// ---------------------------------------------------------------- attacks

const kAttacks = [
  ['hide, then run', 'attack-hide-then-run'], ['hold back, then run', 'attack-hold-back-then-run'],
  // Of each region as much as of one of the ten.
  ['saturated', 'attack-saturated', (regions) => ({ 'traffic.0.demand': 10 * regions })], ['three limits, evenly', 'attack-three-limits-evenly'],
];

async function attacks() {
  const counts = options.quick ? [2, 10] : [2, 3, 5, 10, 20, 30];
  const rows = [];
  const parts = [];
  for (const [i, [name, scenario, demand]] of kAttacks.entries()) {
    const drawn = [[], []];
    for (const regions of counts) {
      const row = [name, regions];
      for (const [p, policy] of kPolicies.entries()) {
        const sets = { 'world.regions': regions, ...demand?.(regions), ...(policy === 'floor' && { 'settings.policy': 'floor' }) };
        const { figures } = await run(`attack ${scenario} ${regions} ${policy}`, scenario, sets);
        row.push(fixed(figures.mean_cell, 2), fixed(figures.worst_cell, 2));
        // The floor's delay is so long that it excuses nearly everything.
        if (policy !== 'floor') row.push(fixed(figures.unexcused, 2));
        row.push(fixed(60 * (figures.rows + figures.presences), 0));
        drawn[p].push([regions, figures.worst_cell]);
      }
      rows.push(row);
    }
    parts.push(lines({ x: 60 + (i % 2) * 410, y: 105 + (i >> 1) * 240, width: 340, height: 150, title: name,
      lines: drawn, below: 'regions', range: [0.8, 36], bound: { value: 1.35, name: '1.35' } }));
  }
  table('Attacks on one key of 1,000 a minute: admitted in a window, in limits',
    ['attack', 'regions', 'weir: mean', 'worst', 'not recent', 'rows a window', 'floor: mean', 'worst', 'rows a window'], rows);
  return picture({
    width: 860, height: 575, title: 'Attacks on one key: admitted in the worst window, in limits', series: kPolicyNames,
    note: 'One node a region; windows of 60 s. Both axes logarithmic. 1.35 bounds what is not recent.', parts });
}

// ---------------------------------------------------------------- shapes

const kAlgorithms = ['fixed_window', 'sliding_window', 'sliding_window_strict', 'sliding_log', 'gcra', 'token_bucket'];
const kShapes = ['steady', 'poisson', 'on-off', 'edge-burst', 'lock-step', 'diurnal', 'hopping'];

async function shapes() {
  const results = new Map();
  for (const shape of kShapes) {
    for (const algorithm of kAlgorithms) {
      results.set(`${shape} ${algorithm}`, await run(`shape ${shape} ${algorithm}`, `shape-${shape}`, { 'limits.0.algorithm': algorithm }));
    }
  }
  const rows = (of) => kShapes.map((shape) => [shape, ...kAlgorithms.map((algorithm) => of(results.get(`${shape} ${algorithm}`)))]);
  const head = ['traffic', ...kAlgorithms];
  table('Most admitted in any span as long as a window, in limits', head, rows(({ figures }) => fixed(figures.worst_window, 2)));
  table('Most admitted in a window of the clock, in limits', head, rows(({ figures }) => fixed(figures.worst_cell, 2)));
  table('Denied, %', head, rows(({ figures }) => fixed(figures.denied, 1)));
  const admitted = ({ figures, measured_seconds: seconds }) => Math.round(figures.offered_per_second * seconds * (1 - figures.denied / 100));
  table('Lock-step: admitted in three seconds, a limit of ten a second', head,
    [['admitted', ...kAlgorithms.map((algorithm) => admitted(results.get(`lock-step ${algorithm}`)))]]);
  const groups = kShapes.map((shape) => ({
    name: shape, values: kAlgorithms.map((algorithm) => results.get(`${shape} ${algorithm}`).figures.worst_window) }));
  return picture({
    width: 860, height: 330, title: 'Most admitted in any span as long as a window, in limits', series: kAlgorithms,
    note: 'gcra and token_bucket allow a burst of one limit beside the rate: two limits are their contract. hopping: two regions.',
    parts: [bars({ x: 50, y: 95, width: 790, height: 175, title: '', groups, labels: false, bound: { value: 1, name: '' } })] });
}

// ---------------------------------------------------------------- growth

const kGrowth = { // one of each is scenarios/growth.yaml as it is
  nodes: [10, 30, 100],
  regions: [2, 5, 10, 20, 30],
  keys: [300, 1_000, 3_000, 10_000],
};

const kMiddle = { nodes: 30, regions: 10, keys: 3_000 };
const isMiddle = (what, value) => value === kMiddle[what];

function growthSets(what, value) {
  if (what !== 'keys') return { [`world.${what}`]: value };
  return { 'traffic.0.keys': value * 0.9, 'traffic.1.keys': value * 0.05, 'traffic.2.keys': value * 0.05 };
}

async function growth() {
  const kMeasures = [
    ['rows and presences/s', (r) => r.figures.rows + r.figures.presences],
    ['origin commands/s', (r) => r.figures.origin_commands],
    // Keys come in one by one while it warms up, ten times as long as what is measured: half of that traffic.
    ['µs of real time a request', (r) => (1e6 * r.took_seconds) / (6 * r.measured_seconds * r.figures.offered_per_second)],
  ];
  const rows = [];
  const parts = [];
  let middle;
  for (const [column, [what, values]] of Object.entries(kGrowth).entries()) {
    const results = [];
    for (const value of options.quick ? values.slice(0, 3) : values) {
      const result = isMiddle(what, value)
        ? (middle ??= await run('growth middle', 'growth'))
        : await run(`growth ${what} ${value}`, 'growth', growthSets(what, value));
      results.push([value, result]);
    }
    for (const [value, result] of results) {
      rows.push([what, value.toLocaleString('en-US'), fixed(result.figures.offered_per_second, 0), ...kMeasures.map(([, of]) => fixed(of(result), 1)),
        fixed(result.figures.rows_read, 0), fixed(result.figures.worst_cell, 2), fixed(result.took_seconds, 1), fixed(result.peak_mib, 0)]);
    }
    for (const [i, [title, of]] of kMeasures.entries()) {
      parts.push(lines({ x: 60 + column * 275, y: 105 + i * 205, width: 215, height: 120, title, below: what,
        lines: [results.map(([value, result]) => [value, of(result)])] }));
    }
  }
  table('How cost grows around 30 nodes, 10 regions and 3,000 keys',
    ['what', 'so many', 'requests/s', ...kMeasures.map(([title]) => title), 'rows read/s', 'worst window', 'seconds taken', 'MiB'], rows);
  return picture({
    width: 860, height: 720, title: 'How cost grows around 30 nodes, 10 regions and 3,000 keys', series: ['weir'],
    note: 'One thing is changed at a time; more keys bring more requests. Both axes logarithmic.', parts });
}

// ---------------------------------------------------------------- all

const machine = describeMachine([['weir', binary, '--version']]);
printMachine(machine);
const pictures = {};
for (const [name, part] of Object.entries({ fleet, attacks, shapes, growth })) {
  if (!options.only || options.only === name) pictures[name] = await part();
}
const failed = runs.filter(({ not_kept: notKept, command }) => notKept.length && !command.includes('--set'));
for (const { name, not_kept: notKept } of failed) console.log(`\nNOT KEPT in ${name}: ${notKept.join('; ')}`);
const broken = runs.filter((each) => each.broken);
for (const each of broken) console.log(`\nBROKEN in ${each.name}: ${each.broken}\n  ${each.command}`);
console.log();
keep(options.out, 'simulation', { json: `${JSON.stringify({ machine, quick: options.quick, runs }, null, 1)}\n` });
for (const [name, svg] of Object.entries(pictures)) {
  if (!options.pictures) {
    keep(options.out, `simulation-${name}`, { svg });
    continue;
  }
  mkdirSync(options.pictures, { recursive: true });
  writeFileSync(join(options.pictures, `simulation-${name}.svg`), svg);
}
process.exit(broken.length + failed.length > 0 ? 1 : 0);
