// Counts the instructions per request of each front end and each fast decision, and compares them
// with the figures kept for this architecture. Fails if a case needs over 2 % more than its figure,
// and names the functions that grew.
//
//   node tests/instructions/instructions.mjs [PROGRAM] [--renew]
//
// PROGRAM is weir_instructions, by default that of build/. --renew writes the figures anew.

import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const slack = 0.02;
const kept = 0.01;      // functions with a smaller part of their case are not kept
const skipped = 77;     // the exit status that ctest takes for a skipped test
const folder = dirname(fileURLToPath(import.meta.url));
const root = join(folder, '../..');
const renew = process.argv.includes('--renew');
const program = process.argv.slice(2).find((each) => !each.startsWith('--')) ??
  join(root, 'build/tests/instructions_test');
const renewCommand = './dev test --only instructions; node tests/instructions/instructions.mjs --renew';

function skip(why) {
  console.log(why);
  process.exit(skipped);
}

// "weir::decide::Engine::check" of a whole signature; functions that differ in arguments only are one.
function shortName(signature) {
  let name = signature.replaceAll('(anonymous namespace)', '{}').replaceAll('operator()', 'operator[]')
    .replace(/ \[clone [^\]]*\]/g, '').replace(/'\d+$/, '');
  let depth = 0;
  let short = '';
  for (const c of name) {
    if (c === '<') ++depth;
    if (depth === 0) {
      if (c === '(' && short !== '') break;
      short += c;
    }
    if (c === '>' && depth > 0) --depth;
  }
  short = short.replaceAll('operator[]', 'operator()').replaceAll('{}::', '').trim();
  return short.includes(' ') && !short.includes('operator') ? short.slice(short.lastIndexOf(' ') + 1) : short;
}

// The instructions of each function in a file of Callgrind, without those of the functions it calls.
function functionsOf(text) {
  const functions = new Map();
  let name = '';
  let isCall = false;  // the next line has the cost of a call
  for (const line of text.split('\n')) {
    if (line.startsWith('fn=')) {
      name = shortName(line.slice(3));
    } else if (line.startsWith('calls=')) {
      isCall = true;
    } else if (/^[+*\-\d]/.test(line)) {
      if (!isCall) functions.set(name, (functions.get(name) ?? 0) + Number(line.split(' ')[1]));
      isCall = false;
    }
  }
  return functions;
}

const sum = (numbers) => [...numbers].reduce((a, b) => a + b, 0);

// Runs all cases: their names, the instructions per request, and those of each function.
function count(requests) {
  const out = mkdtempSync(join(tmpdir(), 'weir-instructions-'));
  try {
    const run = spawnSync('valgrind', ['--tool=callgrind', '--collect-atstart=no', '--compress-strings=no',
      '--compress-pos=no', `--callgrind-out-file=${out}/case`, program],
      // The C library chooses its functions by the processor.
      { env: { PATH: process.env.PATH, GLIBC_TUNABLES: 'glibc.cpu.name=generic' }, encoding: 'utf8' });
    if (run.error) throw run.error;
    if (run.status !== 0) throw new Error(`${program} failed under valgrind:\n${run.stderr}`);
    const files = readdirSync(out).filter((name) => name.startsWith('case.'));
    files.sort((a, b) => Number(a.slice(5)) - Number(b.slice(5)));
    return files.map((file) => {
      const text = readFileSync(join(out, file), 'utf8');
      const functions = functionsOf(text);
      for (const [name, all] of functions) functions.set(name, all / requests);
      return {
        name: /^desc: Trigger: Client Request: (.*)$/m.exec(text)?.[1],
        total: sum(functions.values()),
        functions,
      };
    }).filter((each) => each.name);
  } finally {
    rmSync(out, { recursive: true });
  }
}

function textOf(cases, build) {
  let text = `# Instructions per request, and those of each function with at least ${kept * 100} % of them.\n` +
    `# To renew: ${renewCommand}\nbuild: ${build}\n`;
  for (const { name, total, functions } of cases) {
    text += `\n${name} ${total.toFixed(1)}\n`;
    const most = [...functions].filter(([, each]) => each >= kept * total);
    most.sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
    for (const [function_, each] of most) text += `  ${each.toFixed(1)} ${function_}\n`;
  }
  return text;
}

function readFigures(text) {
  const cases = new Map();
  let functions;
  for (const line of text.split('\n').slice(1)) {
    if (line === '' || line.startsWith('#') || line.startsWith('build:')) continue;
    if (line.startsWith('  ')) {
      const at = line.indexOf(' ', 2);
      functions.set(line.slice(at + 1), Number(line.slice(2, at)));
    } else {
      const [name, total] = line.split(' ');
      functions = new Map();
      cases.set(name, { total: Number(total), functions });
    }
  }
  return { cases, build: /^build: (.*)$/m.exec(text)[1] };
}

const percent = (now, before) => {
  const tenths = Math.round(1000 * (now / before - 1));
  return `${tenths > 0 ? '+' : ''}${(tenths / 10).toFixed(1)} %`;
};

// What became of the functions of a case, the largest growth first.
function grown(now, before) {
  const names = new Set([...now.functions.keys(), ...before.functions.keys()]);
  const changes = [...names].map((name) => {
    const is = now.functions.get(name) ?? 0;
    const was = before.functions.get(name);
    // One that is not kept had less than the smallest that is.
    return { name, is, was, growth: is - (was ?? Math.min(is, kept * before.total)) };
  });
  return changes.filter((each) => each.growth > 0.002 * before.total).sort((a, b) => b.growth - a.growth).slice(0, 8);
}

const [architecture, requests, ...build] = execFileSync(program, ['--build'], { encoding: 'utf8' }).trim().split(' ');
const file = join(folder, `${architecture}.txt`);
const name = relative(root, file);
if (!renew && !existsSync(file)) skip(`no figures are kept for ${architecture}; make them with: ${renewCommand}`);
const figures = existsSync(file) ? readFigures(readFileSync(file, 'utf8')) : undefined;
if (!renew && figures.build !== build.join(' ')) {
  skip(`the figures in ${name} are of another build: ${figures.build}; this one is ${build.join(' ')}`);
}
const cases = count(Number(requests));
if (cases.length === 0) throw new Error('valgrind counted no case');
if (renew) {
  writeFileSync(file, textOf(cases, build.join(' ')));
  console.log(`wrote ${name}`);
}
const problems = [];
let less = 0;
for (const now of cases) {
  const before = figures?.cases.get(now.name);
  const was = before ? `${before.total.toFixed(1).padStart(9)} ${percent(now.total, before.total).padStart(8)}` : '';
  console.log(`${now.name.padEnd(44)}${now.total.toFixed(1).padStart(9)}${was}`);
  if (!before) {
    problems.push(`${now.name}: no figure is kept`);
  } else if (now.total > before.total * (1 + slack)) {
    problems.push(`${now.name}: ${now.total.toFixed(1)} instructions per request, kept are ` +
      `${before.total.toFixed(1)} (${percent(now.total, before.total)})`,
      ...grown(now, before).map(({ name: of, is, was: had }) =>
        `    ${of}: ${is.toFixed(1)}, before ${had === undefined ? `under ${(kept * before.total).toFixed(1)}` : had.toFixed(1)}`));
  } else if (now.total < before.total * (1 - slack)) {
    ++less;
  }
}
for (const each of figures?.cases.keys() ?? []) {
  if (!cases.some((now) => now.name === each)) problems.push(`${each}: a figure is kept, but there is no such case`);
}
if (renew) process.exit(0);
if (problems.length > 0) {
  console.log(`\nMore instructions than ${name} keeps:\n${problems.join('\n')}`);
  console.log(`\nTake the growth back, or say in the commit what it pays for and renew the figures:\n  ${renewCommand}`);
  process.exit(1);
}
if (less > 0) console.log(`\n${less} cases need over 2 % less than ${name} keeps. Renew the figures, so that it stays so:\n  ${renewCommand}`);
