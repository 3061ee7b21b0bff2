// Runs the simulator and makes the tables and charts of docs/simulation.md.
//
//   fleet     The traffic of the fleet in an RFC, with Weir's policy and with the policy of the RFC.
//   attacks   Admissions of an attacker who knows how regions share counts, for 2 to 30 regions.
//   gcra      The same attacks, and two more, on a rate and burst in place of a window.
//   shapes    Admissions of each algorithm for each shape of traffic.
//   growth    The cost of more nodes, regions and keys.
//   sizing    The formulas of docs/ledger.md beside simulated figures, for three sizes.
//
// Runs are sequential. All results but time and memory are the same on every machine: equal files and
// seeds give equal figures.

import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { readFlags } from '../flags.mjs';
import { describeMachine, printMachine, writeResults } from '../machine.mjs';
import { barPanel, chart, linePanel } from '../chart.mjs';

const kParts = ['fleet', 'attacks', 'gcra', 'shapes', 'growth', 'sizing'];
const usage = `simulation: measure the cost and accuracy of sharing limits in simulated fleets

  ./dev bench simulation [--quick | --smoke] [--only PART] [--out DIR] [--charts DIR] [--cache DIR]

  --quick         smaller and shorter
  --smoke         run everything for an instant: checks that the benchmark works, measures nothing
  --only PART     run one part: ${kParts.join(', ')}
  --out DIR       directory for <date>-<arch>-simulation.json and the charts
                  (default: build/bench/results)
  --charts DIR    directory for the charts, as simulation-PART.svg (default: as --out)
  --cache DIR     directory for the results of single runs; runs with a result there are skipped
`;

const flags = { quick: false, smoke: false, only: undefined, out: 'build/bench/results', bin: 'build/bin', charts: undefined, cache: undefined };
const { options, fail } = readFlags(usage, flags);
if (options.only && !kParts.includes(options.only)) {
  fail(`--only cannot be '${options.only}'; use ${kParts.join(', ')}`);
}
const binary = join(resolve(options.bin), 'weir');
const kPolicies = ['bounded', 'floor'];
const kPolicyNames = ['weir', 'floor'];
const kShort = { 'time.warm_up': '60s', 'time.measured': '60s' };
const kSmall = { ...kShort, 'world.regions': 3, 'world.nodes': 6 };
const runs = []; // for the JSON file

function progress(text) {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`);
}

// The peak memory of a running process in MiB.
function peakMemory(pid) {
  try {
    return Number(/VmHWM:\s*(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1] ?? 0) / 1024;
  } catch {
    return 0;
  }
}

async function simulate(scenario, sets) {
  const directory = mkdtempSync(join(tmpdir(), 'weir-simulation-'));
  const args = ['sim', join('scenarios', `${scenario}.yaml`), '--out', directory];
  for (const [path, value] of Object.entries(sets)) args.push('--set', `${path}=${value}`);
  const start = performance.now();
  const child = spawn(binary, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  let errors = '';
  child.stderr.on('data', (data) => (errors += data));
  let peak = 0;
  const poll = setInterval(() => (peak = Math.max(peak, peakMemory(child.pid))), 50);
  await new Promise((done, failed) => child.on('close', done).on('error', failed));
  clearInterval(poll);
  const wall = (performance.now() - start) / 1000;
  const file = join(directory, `${scenario}.json`);
  if (!existsSync(file)) throw new Error(`weir ${args.join(' ')}: ${errors.trim() || 'wrote no report'}`);
  const [run] = JSON.parse(readFileSync(file, 'utf8')).runs;
  rmSync(directory, { recursive: true });
  const command = ['weir sim', args[1], ...Object.entries(sets).map(([path, value]) => `--set '${path}=${value}'`)];
  return {
    command: command.join(' '),
    fingerprint: run.fingerprint,
    figures: Object.fromEntries(run.figures.map(({ key, value }) => [key, value])),
    not_met: run.expectations.filter(({ met }) => !met).map(({ expectation, actual }) => `${expectation} (actual ${actual})`),
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
  const file = options.cache && join(options.cache, `${name.replace(/[^a-z0-9]+/gi, '-')}.json`);
  let result = file && existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : null;
  if (!result) {
    result = await simulate(scenario, sets);
    if (file) {
      mkdirSync(options.cache, { recursive: true });
      writeFileSync(file, JSON.stringify(result));
    }
  }
  runs.push({ name, ...result });
  progress('');
  return result;
}

// Prints a Markdown table.
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
  ['batches written/s', 'batches', 1], ['rows read/s', 'rows_read', 0],
  ['origin commands/s', 'origin_commands', 0],
  ['mean of full windows, limits', 'mean_cell', 3], ['worst fixed window, limits', 'worst_cell', 2],
  ['worst interval of a window length, limits', 'worst_window', 2], ['worst without recent admissions, limits', 'unexcused', 2],
  ['denied below the limit, %', 'false_denials', 2],
  ['row sent to row used, p50, ms', 'travel_p50', 0], ['row sent to row used, p99, ms', 'travel_p99', 0],
  ['admission to use elsewhere, p50, ms', 'propagation_p50', 0], ['admission to use elsewhere, p99, ms', 'propagation_p99', 0],
];

async function fleet() {
  const results = [];
  const few = { ...kSmall, ...Object.fromEntries([0, 1, 2, 3].map((i) => [`traffic.${i}.keys`, 20])) };
  const fleets = options.quick ? kFleets.slice(0, options.smoke ? 1 : 2) : kFleets;
  for (const [name, scenario] of fleets) {
    for (const policy of kPolicies) {
      const sets = { ...(options.quick && kShort), ...(options.smoke && few), ...(policy === 'floor' && { 'settings.policy': 'floor' }) };
      results.push({ name, policy, ...(await run(`fleet ${name} ${policy}`, scenario, sets)) });
    }
  }
  const head = ['', ...results.map(({ name, policy }) => `${name}, ${policy === 'floor' ? 'floor' : 'weir'}`)];
  const rows = kFleetRows.map(([label, key, digits]) => [label, ...results.map(({ figures }) => fixed(figures[key], digits))]);
  rows.push(['simulated time, s', ...results.map((result) => fixed(result.simulated_seconds, 0))]);
  rows.push(['wall time, s', ...results.map((result) => fixed(result.took_seconds, 0))]);
  rows.push(['simulated ÷ wall time', ...results.map((result) => fixed(result.simulated_seconds / result.took_seconds, 1))]);
  rows.push(['peak memory, MiB', ...results.map((result) => fixed(result.peak_mib, 0))]);
  table('The RFC fleet', head, rows);
  const groups = (valueOf) => fleets.map(([name]) => ({
    name, values: kPolicies.map((policy) => valueOf(results.find((r) => r.name === name && r.policy === policy).figures)) }));
  await fleetSizes(results);
  const panel = (i, title, valueOf, more) => barPanel({
    x: 60 + (i % 2) * 410, y: 105 + (i >> 1) * 220, width: 340, height: 150, title, groups: groups(valueOf), ...more });
  return chart({
    width: 860, height: 545, title: 'The RFC fleet: cost and accuracy of sharing', series: kPolicyNames,
    note: '33 nodes, 10 regions, 24,000 keys; ×10: 330, 30 and 240,000. Windows of 60 s. Lower is better.',
    panels: [
      panel(0, 'rows written per second', (f) => f.rows),
      panel(1, 'admitted in the worst window, in limits', (f) => f.worst_cell),
      panel(2, 'rows read per second, by all bridges', (f) => f.rows_read),
      panel(3, 'from sending a row to its use, p99, s', (f) => f.travel_p99 / 1000),
    ],
  });
}

// Wall time and memory of large fleets.
async function fleetSizes(results) {
  if (options.quick) return;
  const ours = (fleet) => results.find(({ name, policy }) => name === fleet && policy !== 'floor');
  const worlds = [
    ['33 nodes, 10 regions, 24,000 keys', ours('normal')],
    ['330 nodes, 30 regions, 240,000 keys', ours('×10')],
    ['300 nodes, 30 regions, 1,000,000 keys', await run('size a million', 'scale-1m')],
  ];
  const rows = worlds.map(([label, result]) => [label, fixed(result.simulated_seconds, 0),
    fixed(result.figures.offered_per_second, 0), fixed(result.figures.rows, 0),
    fixed(result.figures.rows_read, 0), fixed(result.figures.worst_cell, 2), fixed(result.wall_seconds, 0),
    fixed(result.peak_mib, 0)]);
  table('Simulation time', ['fleet', 'simulated time, s', 'requests/s', 'rows/s', 'rows read/s',
    'worst window, limits', 'wall time, s', 'peak memory, MiB'], rows);
}

// ---------------------------------------------------------------- attacks

const kAttacks = [
  ['hide, then run', 'attack-hide-then-run'], ['hold back, then run', 'attack-hold-back-then-run'],
  // The demand per region is constant.
  ['saturated', 'attack-saturated', (regions) => ({ 'traffic.0.demand': 10 * regions })], ['three limits, evenly', 'attack-three-limits-evenly'],
];

const kRegions = options.smoke ? [2] : options.quick ? [2, 10] : [2, 3, 5, 10, 20, 30];

async function attacks() {
  const rows = [];
  const panels = [];
  for (const [i, [name, scenario, demand]] of kAttacks.entries()) {
    const drawn = [[], []];
    for (const regions of kRegions) {
      const row = [name, regions];
      for (const [p, policy] of kPolicies.entries()) {
        const sets = { 'world.regions': regions, ...demand?.(regions), ...(policy === 'floor' && { 'settings.policy': 'floor' }) };
        const { figures } = await run(`attack ${scenario} ${regions} ${policy}`, scenario, sets);
        row.push(fixed(figures.mean_cell, 2), fixed(figures.worst_cell, 2));
        // With the delay of the floor policy, nearly everything is recent.
        if (policy !== 'floor') row.push(fixed(figures.unexcused, 2));
        row.push(fixed(60 * figures.rows, 0));
        drawn[p].push([regions, figures.worst_cell]);
      }
      rows.push(row);
    }
    panels.push(linePanel({ x: 60 + (i % 2) * 410, y: 105 + (i >> 1) * 240, width: 340, height: 150, title: name,
      lines: drawn, below: 'regions', range: [0.8, 36], bound: { value: 1.35, name: '1.35' } }));
  }
  table('Attacks on one key of 1,000 per minute: admitted in a window, in limits',
    ['attack', 'regions', 'weir: mean', 'worst', 'without recent', 'rows per window', 'floor: mean', 'worst', 'rows per window'], rows);
  return chart({
    width: 860, height: 575, title: 'Attacks on one key: admitted in the worst window, in limits', series: kPolicyNames,
    note: 'One node a region; windows of 60 s. Both axes logarithmic. 1.35 bounds all but recent admissions.', panels });
}

// ---------------------------------------------------------------- gcra

const kBurstAttacks = [...kAttacks,
  // Each region gets 1.2 limits at one instant of every minute.
  ['burst in one delay', 'attack-burst-in-one-delay', (regions) => ({ 'traffic.0.clients': 1200 * regions, 'time.measured': '20m' })],
  ['region hopping', 'attack-region-hopping'],
];

async function gcra() {
  const rows = [];
  for (const [name, scenario, demand] of kBurstAttacks) {
    for (const regions of kRegions) {
      const sets = { 'world.regions': regions, ...demand?.(regions), 'limits.0.algorithm': 'gcra' };
      const { figures } = await run(`gcra ${scenario} ${regions}`, scenario, sets);
      rows.push([name, regions, fixed(figures.mean_cell, 2), fixed(figures.worst_cell, 2), fixed(figures.worst_window, 2),
        fixed(60 * figures.rows, 0)]);
    }
  }
  table('Attacks on a gcra of 1,000 per minute with a burst of 1,000: admitted, in limits',
    ['attack', 'regions', 'mean window', 'worst window', 'worst minute', 'rows per window'], rows);
}

// ---------------------------------------------------------------- shapes

const kAlgorithms = ['fixed_window', 'sliding_window', 'sliding_window_strict', 'sliding_log', 'gcra', 'token_bucket'];
const kShapes = options.smoke ? ['steady', 'lock-step'] : ['steady', 'poisson', 'on-off', 'edge-burst', 'lock-step', 'diurnal', 'hopping'];

async function shapes() {
  const results = new Map();
  for (const shape of kShapes) {
    for (const algorithm of kAlgorithms) {
      results.set(`${shape} ${algorithm}`, await run(`shape ${shape} ${algorithm}`, `shape-${shape}`, { 'limits.0.algorithm': algorithm }));
    }
  }
  const rows = (valueOf) => kShapes.map((shape) => [shape, ...kAlgorithms.map((algorithm) => valueOf(results.get(`${shape} ${algorithm}`)))]);
  const head = ['traffic', ...kAlgorithms];
  table('Most admitted in any interval of one window length, in limits', head, rows(({ figures }) => fixed(figures.worst_window, 2)));
  table('Most admitted in any fixed window, in limits', head, rows(({ figures }) => fixed(figures.worst_cell, 2)));
  table('Denied, %', head, rows(({ figures }) => fixed(figures.denied, 1)));
  const admitted = ({ figures, measured_seconds: seconds }) => Math.round(figures.offered_per_second * seconds * (1 - figures.denied / 100));
  table('Lock-step: admitted in three seconds, with a limit of ten per second', head,
    [['admitted', ...kAlgorithms.map((algorithm) => admitted(results.get(`lock-step ${algorithm}`)))]]);
  const groups = kShapes.map((shape) => ({
    name: shape, values: kAlgorithms.map((algorithm) => results.get(`${shape} ${algorithm}`).figures.worst_window) }));
  return chart({
    width: 860, height: 330, title: 'Most admitted in any interval of one window length, in limits', series: kAlgorithms,
    note: 'gcra and token_bucket allow a burst of one limit in addition to the rate: two limits in total. hopping: two regions.',
    panels: [barPanel({ x: 50, y: 95, width: 790, height: 175, title: '', groups, labels: false, bound: { value: 1, name: '' } })] });
}

// ---------------------------------------------------------------- growth

const kGrowth = options.smoke ? { nodes: [3, 6], regions: [2, 3], keys: [20, 40] } : { // includes the values of scenarios/growth.yaml
  nodes: [10, 30, 100],
  regions: [2, 5, 10, 20, 30],
  keys: [300, 1_000, 3_000, 10_000],
};

const kBase = { nodes: 30, regions: 10, keys: 3_000 };
const isBase = (parameter, value) => value === kBase[parameter];

function growthSets(parameter, value) {
  if (parameter !== 'keys') return { ...(options.smoke && growthSets('keys', 20)), [`world.${parameter}`]: value };
  return { ...(options.smoke && kSmall), 'traffic.0.keys': value * 0.9, 'traffic.1.keys': value * 0.05, 'traffic.2.keys': value * 0.05 };
}

async function growth() {
  const kMeasures = [
    ['rows/s', (r) => r.figures.rows],
    ['origin commands/s', (r) => r.figures.origin_commands],
    // Keys start one by one during the warm-up, which is ten times as long as the measured time: it has
    // half of that traffic.
    ['µs of wall time per request', (r) => (1e6 * r.took_seconds) / (6 * r.measured_seconds * r.figures.offered_per_second)],
  ];
  const rows = [];
  const panels = [];
  let base;
  for (const [column, [parameter, values]] of Object.entries(kGrowth).entries()) {
    const results = [];
    for (const value of options.quick ? values.slice(0, 3) : values) {
      const result = isBase(parameter, value)
        ? (base ??= await run('growth base', 'growth'))
        : await run(`growth ${parameter} ${value}`, 'growth', growthSets(parameter, value));
      results.push([value, result]);
    }
    for (const [value, result] of results) {
      rows.push([parameter, value.toLocaleString('en-US'), fixed(result.figures.offered_per_second, 0), ...kMeasures.map(([, valueOf]) => fixed(valueOf(result), 1)),
        fixed(result.figures.rows_read, 0), fixed(result.figures.worst_cell, 2), fixed(result.took_seconds, 1), fixed(result.peak_mib, 0)]);
    }
    for (const [i, [title, valueOf]] of kMeasures.entries()) {
      panels.push(linePanel({ x: 60 + column * 275, y: 105 + i * 205, width: 215, height: 120, title, below: parameter,
        lines: [results.map(([value, result]) => [value, valueOf(result)])] }));
    }
  }
  table('Cost of sharing around 30 nodes, 10 regions and 3,000 keys',
    ['parameter', 'value', 'requests/s', ...kMeasures.map(([title]) => title), 'rows read/s', 'worst window', 'wall time, s', 'MiB'], rows);
  return chart({
    width: 860, height: 720, title: 'Cost of sharing around 30 nodes, 10 regions and 3,000 keys', series: ['weir'],
    note: 'One parameter varies at a time; more keys bring more requests. Both axes logarithmic.', panels });
}

// ---------------------------------------------------------------- sizing

const kSizes = [[2, 2, options.smoke ? 100 : 2_000], [3, 3, 10_000], [10, 3, 24_000]]; // regions, processes of each, keys

// One key in a hundred is exhausted by up to three regions in every window of a minute.
async function sizing() {
  const rows = [];
  for (const [regions, processes, keys] of options.quick ? kSizes.slice(0, 1) : kSizes) {
    const exhausted = keys / 100;
    const spread = Math.min(3, regions);
    const { figures } = await run(`sizing ${regions} ${processes} ${keys}`, 'sizing', { ...(options.smoke && kShort),
      'world.regions': regions, 'world.nodes': regions * processes, 'traffic.0.keys': keys - exhausted,
      'traffic.1.keys': exhausted, 'traffic.1.spread': spread });
    const bound = keys / 600 + (14.4 * spread * exhausted) / 60;
    const both = (computed, simulated) => [fixed(computed, 0), fixed(simulated, 0)];
    // The other formulas are about the rows that were written.
    const written = figures.rows;
    rows.push([`${regions} × ${processes} × ${keys.toLocaleString('en-US')}`, ...both(bound, written),
      ...both(regions * written, figures.rows_read),
      ...both((written * (regions + 1)) / regions, figures.bridge_updates / regions),
      ...both((72 * written * processes * (regions + 1)) / regions + 530 * processes, figures.message_bytes / regions)]);
  }
  table('Formulas for the size of a deployment, and simulation', ['regions × processes × keys',
    'rows written/s: at most', 'simulated', 'rows read/s: formula', 'simulated', 'updates/s at a Redis: formula', 'simulated',
    'message bytes/s from a Redis: formula', 'simulated'], rows);
}

// ---------------------------------------------------------------- all

const machine = describeMachine([['weir', binary, '--version']]);
printMachine(machine);
const charts = {};
for (const [name, part] of Object.entries({ fleet, attacks, gcra, shapes, growth, sizing })) {
  if (options.only && options.only !== name) continue;
  const drawn = await part();
  if (drawn) charts[name] = drawn;
}
const failed = runs.filter(({ not_met: notMet, command }) => notMet.length && !command.includes('--set'));
for (const { name, not_met: notMet } of failed) console.log(`\nNOT MET in ${name}: ${notMet.join('; ')}`);
const broken = runs.filter((each) => each.broken);
for (const each of broken) console.log(`\nBROKEN in ${each.name}: ${each.broken}\n  ${each.command}`);
console.log();
writeResults(options.out, 'simulation', { json: `${JSON.stringify({ machine, quick: options.quick, runs }, null, 1)}\n` });
for (const [name, svg] of Object.entries(charts)) {
  if (!options.charts) {
    writeResults(options.out, `simulation-${name}`, { svg });
    continue;
  }
  mkdirSync(options.charts, { recursive: true });
  writeFileSync(join(options.charts, `simulation-${name}.svg`), svg);
}
process.exit(broken.length + failed.length > 0 ? 1 : 0);
