// The numbers that docs state about tests, derived from the sources.
//
// A claim is a sentence or a row of a table with numbers in it, and what the numbers must be. A page that
// states such a number otherwise, or not any more, fails, so that no number is left untested.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const textOf = (path) => readFileSync(join(root, path), 'utf8');

// --- the sources ---

const withoutComments = (code) => code.replace(/\/\/.*$/gm, '');

// The text between `begin` and the next `end`.
function section(path, begin, end) {
  const text = withoutComments(textOf(path));
  const from = text.indexOf(begin);
  assert.ok(from >= 0, `${path} has no '${begin}'`);
  return text.slice(from + begin.length, text.indexOf(end, from));
}

// The enumerators of an enum, without kNone and kCount.
function enumerators(path, name) {
  const body = section(path, `enum class ${name} : uint8_t {`, '}');
  return body.match(/\bk\w+/g).filter((each) => !['kNone', 'kCount'].includes(each));
}

// A number that the code names, like `constexpr int kMany = 20'000;` or `seeds=2000`.
function number(path, before) {
  const [, digits] = textOf(path).match(new RegExp(`${before}(\\d[\\d']*)`)) ?? [];
  assert.ok(digits, `${path} has no ${before}`);
  return Number(digits.replaceAll("'", ''));
}

// Checkers by their names in docs: make_one_writer() is "one writer".
function checkers(kind) {
  const makers = textOf('sim/checkers/makers.h').matchAll(new RegExp(`<${kind}> make_(\\w+)\\(`, 'g'));
  return [...makers].map(([, name]) => name.replaceAll('_', ' '));
}

const kThreads = 'tests/schedule/threads_test.cc';
const kRun = 'tests/run.sh';
const kRules = 'src/origins/redis/redis_rules_test.cc';
const kWorlds = 'sim/worlds/world_test.cc';
const kExpectations = 'sim/fleets/expectations_test.cc';

const workloads = section(kThreads, 'kWorkloads = {', '};').match(/\bk(Many|Some)\}/g);
const drawn = [...textOf(kThreads).matchAll(/\.recipes = (\d+), \.schedules = (\d+)/g)];
const each = { 'kMany}': number(kThreads, 'kMany = '), 'kSome}': number(kThreads, 'kSome = ') };
const schedules =
  workloads.reduce((sum, most) => sum + each[most], 0) +
  drawn.reduce((sum, [, recipes, many]) => sum + recipes * many, 0);
const threadBugs = section(kThreads, 'kBugs = {', '};').match(/\{Mutation::/g).length;

const scenarios = readdirSync(join(root, 'scenarios')).map((name) => name.replace('.yaml', ''));
const large = [...textOf(kExpectations).matchAll(/starts_with\("([\w-]+)"\)/g)].map(([, prefix]) => prefix);
const small = scenarios.filter((name) => !large.some((prefix) => name.startsWith(prefix)));
const once = [...textOf(kExpectations).matchAll(/name == "([\w-]+)"/g)].map(([, name]) => name);

const cases = number(kRun, 'cases:-');
const fuzzers = readdirSync(join(root, 'fuzz/corpora'));
const parts = [...textOf(kRun).matchAll(/^ +part ([\w-]+) /gm)].map(([, name]) => name);

// --- the claims ---

const kTesting = 'docs/testing.md';
const kSimulation = 'docs/simulation.md';
const kNumber = '([\\d,]+|[a-z]+)';

// The numbers of `sentence`, each written N, must be `truth`. Words may be on the next line.
const claims = [
  [kTesting, '| fuzz | N libFuzzer programs from the asan build, N seconds each', [fuzzers.length, number(kRun, 'fuzz_seconds=')]],
  [kTesting, '| fuzzers, and seconds of each | N × N s', [fuzzers.length, number(kRun, 'fuzz_seconds=')]],
  [kTesting, 'N tests are written by hand', [workloads.length]],
  [kTesting, 'N more kinds are drawn: N sets', [drawn.length, Number(drawn[0][1])]],
  [kTesting, 'at a window boundary, N of requests, batches, replays', [Number(drawn[1][1])]],
  [kTesting, 'One run has N schedules', [schedules]],
  [kTesting, '| thread schedules | N |', [schedules]],
  [kTesting, 'N planted bugs show that the schedules still find them', [threadBugs]],
  [kTesting, '| planted bugs: around the engine, in it | N, N |',
    [enumerators('sim/faults/planted_bug.h', 'PlantedBug').length, enumerators('src/base/mutation.h', 'Mutation').length]],
  [kTesting, '| planted bugs in the Lua scripts | N |', [section(kRules, 'kScriptBugs[] = {', '};').match(/Case::k/g).length]],
  [kTesting, 'fails if N cases do not find one of them', [number(kRules, 'kMostCases = ')]],
  [kTesting, '| invariants: in a region, between regions | N, N |',
    [checkers('RegionChecker').length, checkers('GlobalChecker').length]],
  [kTesting, '| scenarios; run to their end; of those twice | N; N; N |',
    [scenarios.length, small.length, small.filter((name) => !once.includes(name)).length]],
  [kTesting, '| seeds of worlds; of those twice | N; N |',
    [number(kWorlds, 'kSeeds = '), number(kWorlds, 'kSeedsRunTwice = ')]],
  [kTesting, '| generated cases of a property: optimized; under a sanitizer | N; N |', [cases, cases / 10]],
  [kTesting, 'N seeds of worlds, N under sanitizers (N and none otherwise); N cases of each property (N otherwise)',
    [number(kRun, ' seeds='), number(kRun, ' seeds=\\d+ sanitized_seeds='), number(kWorlds, 'kSeeds = '),
      number(kRun, ' cases='), cases]],
  [kTesting, 'N minutes of fuzzing for each program', [number(kRun, 'cases=\\d+ fuzz_seconds=') / 60]],
  [kTesting, 'N times as many thread schedules', [number(kRun, 'WEIR_SCHEDULES:-')]],
  [kSimulation, '# N worlds, N of them twice', [number(kWorlds, 'kSeeds = '), number(kWorlds, 'kSeedsRunTwice = ')]],
  [kSimulation, 'From N worlds on the suite requires', [number(kWorlds, 'kSeeds = ')]],
  [kSimulation, 'for up to N runs or half a minute', [number('sim/command/swarm_command.cc', 'kMaxRuns = ')]],
  [kSimulation, 'The same for N algorithms and N traffic shapes',
    [enumerators('include/weir/request.h', 'Algorithm').length, scenarios.filter((name) => name.startsWith('shape-')).length]],
  ['docs/performance.md', 'compares N rate limiters on one redis-server', [textOf('bench/zoo/zoo.mjs').match(/^ +\{ name: '/gm).length]],
  ['README.md', '**N algorithms, one contract.**', [enumerators('include/weir/request.h', 'Algorithm').length]],
];

const kWords = ['zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten', 'eleven', 'twelve',
  'thirteen', 'fourteen', 'fifteen', 'sixteen', 'seventeen', 'eighteen', 'nineteen', 'twenty'];

function valueOf(word) {
  const at = kWords.indexOf(word.toLowerCase());
  return at >= 0 ? at : Number(word.replaceAll(',', ''));
}

for (const [page, sentence, truth] of claims) {
  test(`${page}: ${sentence}`, () => {
    const text = textOf(page);
    const pattern = sentence
      .replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
      .replace(/\bN\b/g, kNumber)
      .replace(/ /g, '\\s+');
    const found = text.match(new RegExp(pattern, 'i'));
    assert.ok(found, `${page} does not say '${sentence}' any more: remove or change the claim in this test`);
    const line = text.slice(0, found.index).split('\n').length;
    const stated = found.slice(1).map(valueOf);
    assert.deepEqual(stated, truth, `${page}:${line} says ${found.slice(1).join(', ')}; true is ${truth.join(', ')}`);
  });
}

// The first cells of the table below a line, and the line of its first row.
function firstCells(page, above) {
  const lines = textOf(page).split('\n');
  const from = lines.findIndex((line, i) => i > lines.findIndex((text) => text.startsWith(above)) && line.startsWith('|')) + 2;
  const rows = lines.slice(from);
  const cells = rows.slice(0, rows.findIndex((line) => !line.startsWith('|'))).map((line) => line.split('|')[1].trim());
  return { cells, where: `${page}:${from + 1}` };
}

function assertSameNames({ cells, where }, names) {
  const missing = names.filter((name) => !cells.includes(name));
  const unknown = cells.filter((cell) => !names.includes(cell));
  assert.deepEqual({ missing, unknown }, { missing: [], unknown: [] }, `the table at ${where} has ${cells.length} names of ${names.length}`);
}

test('docs/testing.md has a row for each part of ./dev test', () => {
  const { cells, where } = firstCells(kTesting, '## Parts');
  // Only in ./dev test --full, which has a section of its own.
  const ordinary = parts.filter((name) => name !== 'each-file-alone');
  assertSameNames({ cells: cells.flatMap((cell) => cell.split(', ')), where }, ordinary);
});

test('docs/simulation.md has a row for each checker', () => {
  assertSameNames(firstCells(kSimulation, 'Inside one region:'), checkers('RegionChecker'));
  assertSameNames(firstCells(kSimulation, 'Between regions:'), checkers('GlobalChecker'));
});

test('docs/scenarios.md names all scenarios', () => {
  const { cells, where } = firstCells('docs/scenarios.md', '`weir sim FILE` runs');
  const named = cells.flatMap((cell) => {
    const words = cell.match(/`[^`]+`/g).map((word) => word.slice(1, -1));
    // `rfc-fleet`, `-burst` is rfc-fleet-burst.
    return words.map((word) => (word.startsWith('-') ? words[0] + word : word));
  });
  const matches = (name) => (pattern) =>
    new RegExp(`^${pattern.replace('NN', '\\d+').replace('*', '.*')}$`).test(name);
  const missing = scenarios.filter((name) => !named.some(matches(name)));
  const unknown = named.filter((pattern) => !scenarios.some((name) => matches(name)(pattern)));
  assert.deepEqual({ missing, unknown }, { missing: [], unknown: [] }, where);
});
