// weir lab: every shape, traces, advice, and the commands and figures in docs/lab.md.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { temporaryFolder, weir } from './server.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
const kAlgorithms = [
  'fixed_window',
  'sliding_window',
  'sliding_window_strict',
  'sliding_log',
  'gcra',
  'token_bucket',
];
const kShapes = [
  'steady-below',
  'steady-above',
  'poisson',
  'lock-step',
  'boundary-burst',
  'on-off',
  'skewed',
];

const lab = (args, options = {}) => weir(['lab', ...args], { cwd: root, ...options });

// The first table of a report: {algorithm: [admitted, denied, worst, ratio, allowed, refused, error]}.
function decisionsOf(stdout) {
  const table = stdout.split(/\n\n/)[1].split('\n').slice(1);
  return Object.fromEntries(
    table.map((line) => {
      const [name, ...cells] = line.split(/\s+/);
      return [name, cells.map((cell) => Number(cell.replaceAll(',', '')))];
    }),
  );
}

for (const shape of kShapes) {
  test(`${shape} prints both tables and the path of its plot`, async () => {
    const folder = join(temporaryFolder(), 'made', 'here');
    const { code, stdout, stderr } = await lab(['--shape', shape, '--out', folder]);
    assert.deepEqual([code, stderr], [0, '']);
    const decisions = decisionsOf(stdout);
    assert.deepEqual(Object.keys(decisions), kAlgorithms);
    for (const [name, [admitted, denied, worst, ratio, allowed, refused, error]] of Object.entries(decisions)) {
      assert.equal(admitted + denied, 20_000, name);
      assert.equal(ratio, worst / 100, name);
      assert.equal(error, Number(((allowed + refused) / 200).toFixed(3)), name);
    }
    assert.ok(decisions.sliding_log[2] <= 100);
    assert.ok(decisions.sliding_window_strict[2] <= 100);
    assert.deepEqual(decisions.sliding_log.slice(4), [0, 0, 0]);
    assert.deepEqual(decisions.gcra, decisions.token_bucket);
    const costs = stdout.split(/\n\n/)[3];
    for (const name of kAlgorithms) assert.match(costs, new RegExp(`^${name} +[\\d,]+ +\\d+ +\\d+$`, 'm'));
    const path = join(folder, `lab-${shape}.svg`);
    assert.ok(stdout.endsWith(`\nplot: ${path}\n`), stdout);
    const svg = readFileSync(path, 'utf8');
    assert.match(svg, /^<svg xmlns="http:\/\/www.w3.org\/2000\/svg"[^]*<\/svg>\n$/);
    assert.deepEqual(readdirSync(folder), [`lab-${shape}.svg`]);
  });
}

test('without --out no file is written', async () => {
  const folder = temporaryFolder();
  const { code, stdout } = await lab(['--requests', '100'], { cwd: folder });
  assert.equal(code, 0);
  assert.match(stdout, /^on-off: .*\n/);
  assert.match(stdout, /\nFor a plot, add --out DIR\.\n$/);
  assert.deepEqual(readdirSync(folder), []);
});

test('limit, duration, burst, requests and seed change the run', async () => {
  const options = ['--limit', '10', '--duration', '500', '--burst', '3', '--requests', '1000'];
  const { stdout } = await lab(['--shape', 'poisson', ...options]);
  assert.match(stdout, /^limit 10 per 500 ms, burst 3; 1,000 requests of 1 key in /m);
  const decisions = (text) => text.split(/\n\n/)[1];
  const same = await lab(['--shape', 'poisson', ...options, '--seed', '1']);
  assert.equal(decisions(same.stdout), decisions(stdout));
  const other = await lab(['--shape', 'poisson', ...options, '--seed', '2']);
  assert.notEqual(decisions(other.stdout), decisions(stdout));
});

function traceFile(text, name = 'trace.csv') {
  const file = join(temporaryFolder(), name);
  writeFileSync(file, text);
  return file;
}

test('a trace is compared', async () => {
  // 3 at the end of a window and 3 at the start of the next, by two keys; limit 3.
  const lines = ['time_ms,key,cost'];
  for (const [time, cost] of [[990, 3], [1010, 3]]) {
    for (const key of ['alice', 'bob']) lines.push(`${time},${key},${cost}`);
  }
  const file = traceFile(lines.join('\r\n'), 'my trace.csv');
  const folder = temporaryFolder();
  const { code, stdout, stderr } = await lab(['--trace', file, '--limit', '3', '--out', folder]);
  assert.deepEqual([code, stderr], [0, '']);
  assert.match(stdout, /^limit 3 per 1,000 ms, burst 3; 4 requests of 2 keys in 0\.0 s$/m);
  const decisions = decisionsOf(stdout);
  assert.deepEqual(decisions.fixed_window, [4, 0, 6, 2, 2, 0, 50]);
  assert.deepEqual(decisions.sliding_log, [2, 2, 3, 1, 0, 0, 0]);
  assert.ok(existsSync(join(folder, 'lab-my_trace.svg')));
  const plain = await lab(['--trace', traceFile('990,alice\n1010,bob\n'), '--limit', '3']);
  assert.equal(plain.code, 0, plain.stderr);
});

for (const [what, text, expected] of [
  ['a time that is no number', '0,a\nsoon,a\n', [/^:2: time_ms is 'soon': it must be a whole number of milliseconds from 0 to /]],
  ['an unsorted file', '5,a\n4,a\n', [/^:2: time_ms is '4', before 5 on an earlier line: sort the file by time/]],
  ['an empty key', '0,,1\n', [/^:1: key is '', of 0 bytes: it must have 1 to 512 bytes/]],
  ['a quoted key', '0,"a"\n', [/^:1: key is '"a"': quotes are not supported; remove them/]],
  ['a negative cost', 'time_ms,key,cost\n0,a,-1\n', [/^:2: cost is '-1': it must be a whole number from 0 to 1000000000000; leave it out for 1/]],
  ['one field', '7\n', [/^:1: '7' has 1 field; write time_ms,key or time_ms,key,cost/]],
  ['two bad lines', 'x,a\n0,a\n0,a,b\n', [/^:1: time_ms is 'x'/, /^:3: cost is 'b'/]],
  ['an empty file', '', [/^: has no requests; add lines such as 1000,alice,1/]],
]) {
  test(`${what} is reported with file, line, field, value and remedy, and nothing is printed`, async () => {
    const file = traceFile(text);
    const folder = temporaryFolder();
    const { code, stdout, stderr } = await lab(['--trace', file, '--out', folder]);
    assert.deepEqual([code, stdout], [1, '']);
    const problems = stderr.trimEnd().split('\n');
    assert.equal(problems.length, expected.length, stderr);
    problems.forEach((problem, i) => {
      assert.ok(problem.startsWith(file), problem);
      assert.match(problem.slice(file.length), expected[i]);
    });
    assert.deepEqual(readdirSync(folder), []);
  });
}

test('a file that cannot be read and a folder that cannot be created are reported', async () => {
  for (const path of [join(temporaryFolder(), 'missing.csv'), temporaryFolder()]) {
    const { code, stdout, stderr } = await lab(['--trace', path]);
    assert.deepEqual([code, stdout], [1, '']);
    assert.ok(stderr.startsWith(`${path}: cannot be read: `), stderr);
  }
  const { code, stdout, stderr } = await lab(['--out', '/dev/null/x']);
  assert.deepEqual([code, stdout], [1, '']);
  assert.match(stderr, /^\/dev\/null\/x: cannot be created: /);
});

const kFlags = (bursts, strict, bytes, limit, duration, keys) => [
  '--suggest', '--bursts', bursts, '--strict', strict, '--bytes-per-key', `${bytes}`,
  '--limit', `${limit}`, '--duration', `${duration}`, '--keys', `${keys}`,
];

for (const [answers, first, parts] of [
  [['yes', 'no', 1024, 100, 1000, 1_000_000], 'Use gcra with a burst of 100', [/245 bytes per key x 1,000,000 keys = 233\.7 MiB/]],
  [['no', 'no', 1024, 5, 3_600_000, 100], 'Use sliding_window', [/245 bytes per key x 100 keys = 23\.9 KiB/]],
  [['no', 'yes', 4096, 100, 86_400_000, 1000], 'Use sliding_log', [/The log is small: 100 units per window x 1,000 keys x 8 bytes = 781\.2 KiB/]],
  [['no', 'yes', 4096, 100, 86_400_000, 1_000_000], 'Use sliding_window_strict', [/sliding_log is out: the log would have .* = 762\.9 MiB, more than 64\.0 MiB/, /517 bytes per key/]],
  [['no', 'yes', 300, 100, 1000, 10], 'Use gcra with a burst of 1', [/sliding_window_strict is out/]],
  [['no', 'no', 100, 100, 1000, 10], 'Nothing fits; closest is sliding_window', [/the smallest state has 245/]],
]) {
  test(`--suggest answers ${answers.join(' ')} by flags and from a pipe`, async () => {
    const byFlags = await lab(kFlags(...answers));
    assert.deepEqual([byFlags.code, byFlags.stderr], [0, '']);
    assert.equal(byFlags.stdout.split('\n')[0], first);
    for (const part of parts) assert.match(byFlags.stdout.replace(/\s+/g, ' '), part);
    const byPipe = await lab(['--suggest'], { input: `${answers.join('\n')}\n` });
    assert.deepEqual(byPipe, byFlags);
  });
}

test('a bad or missing answer from a pipe is an error', async () => {
  for (const [input, problem] of [
    ['perhaps\n', /^weir lab: --bursts is 'perhaps': it must be yes or no; /],
    ['yes\nno\nlots\n', /^weir lab: --bytes-per-key is 'lots': it must be a whole number from 1 to /],
    ['yes\nno\n', /^weir lab: --bytes-per-key has no answer: the input has ended: .*give --bytes-per-key as a flag/],
    ['', /^weir lab: --bursts has no answer/],
  ]) {
    const { code, stdout, stderr } = await lab(['--suggest'], { input });
    assert.deepEqual([code, stdout], [2, '']);
    assert.match(stderr, problem);
  }
});

test('--tables prints the published figures', async () => {
  const { code, stdout, stderr } = await lab(['--tables']);
  assert.deepEqual([code, stderr], [0, '']);
  for (const line of [
    /^burst x T +>= +11 +41 +41$/m,
    /^burst x T +> +10 +40 +41$/m,
    /^\(burst - 1\) x T +> +9 +39 +39$/m,
    /^\(burst - 1\) x T +>= +10 +40 +40$/m,
    /^burst is 0: choose a burst from 1/m,
    /^token_bucket +40 +40 +40 /m,
    /^gcra +40 +40 +40 /m,
    /^two cells, with fraction +30 +29 +34 +\+13\.3 % +34$/m,
    /^sliding_window +30 +30 +36 /m,
    /^fixed_window +199 +199 +1\.99$/m,
    /^1\.33 +47 +12 +0\.0029 %$/m,
    /^lock-step +0\.00 % +33\.25 % /m,
  ]) {
    assert.match(stdout, line);
  }
});

test('--help lists all shapes, and an unknown shape is an error that lists them', async () => {
  const help = await lab(['--help']);
  assert.equal(help.code, 0);
  const wrong = await lab(['--shape', 'square']);
  assert.deepEqual([wrong.code, wrong.stdout], [2, '']);
  assert.match(wrong.stderr, /'square' is not a shape/);
  for (const shape of kShapes) {
    assert.match(help.stdout, new RegExp(`^  ${shape} +\\S`, 'm'));
    assert.ok(wrong.stderr.includes(shape));
  }
  const main = await weir(['--help']);
  assert.match(main.stdout, /^  lab +Compare/m);
});

test('every figure that docs/lab.md shows is printed', async () => {
  const page = readFileSync(join(root, 'docs/lab.md'), 'utf8');
  // The columns of decisions: times and memory of this machine are not compared.
  const { stdout } = await lab([]);
  for (const line of stdout.split(/\n\n/)[1].split('\n')) assert.ok(page.includes(line), line);
  const tables = await lab(['--tables']);
  for (const section of ['7. Worst', '8. Error']) {
    const from = tables.stdout.indexOf(section);
    const table = tables.stdout.slice(from).split(/\n\n/)[1];
    for (const line of table.split('\n').slice(1)) {
      const row = `| ${line.trim().split(/ {2,}/).join(' | ')} |`;
      assert.ok(page.includes(row), row);
    }
  }
});
