// weir check-config: problems of a settings file and their positions.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { Origin, until } from './region.mjs';
import { startServer, temporaryFolder, weir } from './server.mjs';

const file = join(temporaryFolder(), 'weir.yaml');

async function check(yaml) {
  writeFileSync(file, yaml);
  const { code, stdout, stderr } = await weir(['check-config', file]);
  const problems = stderr.split('\n').filter((line) => line !== '');
  for (const problem of problems) assert.ok(problem.startsWith(file), problem);
  return { code, stdout, problems: problems.map((problem) => problem.slice(file.length)) };
}

const kGood = `# all of them
http: 127.0.0.1:7070
resp: "[::1]:7071"
allow-public: false
region: eu-1
node: node_1.a
data: weir-data
threads: 2
capacity: 65536
backend: limiter
origin: redis://user:pass@example.invalid:6379/1
origin-password-file: password
on-origin-loss: share
`;

test('a valid file is reported as valid', async () => {
  for (const yaml of [kGood, '# nothing\n', 'http: off\n']) {
    const { code, stdout, problems } = await check(yaml);
    assert.deepEqual([code, problems], [0, []]);
    assert.equal(stdout, `${file}: valid\n`);
  }
});

test('an empty file, as a failed save leaves it, is no valid file', async () => {
  for (const yaml of ['', '\n\n']) {
    const { code, problems } = await check(yaml);
    assert.equal(code, 1);
    assert.match(problems.join(), /: is empty: restore its settings/);
  }
});

for (const [what, yaml, expected] of [
  [
    'a name that is misspelt',
    'region: a\nthread: 1\n',
    [/^:2:1: 'thread' is not a setting; the settings are http, resp, /],
  ],
  ['a name in capitals', 'Region: a\n', [/^:1:1: 'Region' is not a setting/]],
  [
    'a number too large',
    'region: a\n\nthreads:   300\n',
    [/^:3:12: threads is '300': it must be a whole number from 0 to 256/],
  ],
  [
    'a number that is none',
    'capacity: lots\n',
    [/^:1:11: capacity is 'lots': it must be a whole number/],
  ],
  [
    'an address that is none',
    'http: here\n',
    [/^:1:7: http is 'here': it must be an IP address and a port/],
  ],
  [
    'a truth that is none',
    'allow-public: perhaps\n',
    [/^:1:15: allow-public is 'perhaps': it must be true or false/],
  ],
  ['a name twice', 'region: a\nnode: b\nregion: c\n', [/^:3:1: region is given twice/]],
  ['a list for a value', 'http:\n  - 127.0.0.1:0\n', [/^:2:3: http must be a single value/]],
  ['no value', 'region: a\nhttp:\n\nnode: b\n', [/^:2:1: http must be a single value/]],
  [
    'a list for a file',
    '- http\n- resp\n',
    [/^:1:1: must be settings, one 'name: value' per line/],
  ],
  ['a word for a file', 'http\n', [/^:1:1: must be settings/]],
  ['YAML that is broken', 'region: a\nnode: {open\n', [/^:\d+:\d+: not valid YAML: /]],
  ['YAML with a tab', 'region:\n\tname: a\n', [/^:2:\d+: not valid YAML: /]],
  ['a colon too many', 'region: a: b\n', [/^:1:\d+: not valid YAML: /]],
  ['an alias of nothing', 'region: *nowhere\n', [/^:1:\d+: not valid YAML: /]],
  [
    'several problems',
    'thread: 1\nthreads: x\nregion: a b\n',
    [/^:1:1: 'thread' /, /^:2:10: threads is 'x'/, /^:3:9: region is 'a b'/],
  ],
  ['both front ends off', 'http: off\nresp: off\n', [/^: http and resp are both off/]],
  [
    'both front ends at one port',
    'http: 127.0.0.1:80\nresp: 127.0.0.1:80\n',
    [/^: http and resp are both '127\.0\.0\.1:80'/],
  ],
  [
    'a public address without allow-public',
    'http: 0.0.0.0:80\n',
    [/^: http is '0\.0\.0\.0:80', which is not a loopback address/],
  ],
]) {
  test(`${what} is reported with its position, and the exit code is 1`, async () => {
    const { code, stdout, problems } = await check(yaml);
    assert.equal(code, 1);
    assert.equal(stdout, '');
    assert.equal(problems.length, expected.length, problems.join('\n'));
    problems.forEach((problem, i) => assert.match(problem, expected[i]));
  });
}

test('a public address with allow-public is valid', async () => {
  assert.equal((await check('http: 0.0.0.0:80\nallow-public: true\n')).code, 0);
});

test('a missing file and a folder cannot be read', async () => {
  for (const path of [file + '.not', temporaryFolder()]) {
    const { code, stderr } = await weir(['check-config', path]);
    assert.equal(code, 1);
    assert.ok(stderr.startsWith(`${path}: cannot be read`), stderr);
  }
});

test('a missing FILE argument is wrong usage', async () => {
  const { code, stderr } = await weir(['check-config']);
  assert.equal(code, 2);
  assert.match(stderr, /FILE/);
});

// check-config --connect with this origin, and its output.
async function connect(yaml) {
  writeFileSync(file, yaml);
  const { code, stdout, stderr } = await weir(['check-config', file, '--connect']);
  return { code, output: stdout.replace(`${file}: valid\n`, '') + stderr };
}

test('--connect connects to the origin and explains its problem', async () => {
  assert.deepEqual(await connect('ledger: none'), {
    code: 0,
    output: 'origin memory: nothing to connect to\nledger none: nothing to connect to\n',
  });
  const unmade = join(temporaryFolder(), 'not made yet');
  assert.match((await connect(`data: ${unmade}`)).output, /will be made by the first start/);
  assert.ok(!existsSync(unmade));
  const origin = new Origin();
  await origin.start();
  const { code, output } = await connect(`origin: ${origin.url}`);
  assert.equal(code, 0, output);
  assert.match(output, /^origin redis:\/\/127.0.0.1:\d+\/0: connected, reads and writes\n  Redis \d/);
  assert.deepEqual(await origin.client.keys('*'), []); // it leaves nothing behind

  for (const [settings, problem, remedy] of [
    [['replica-read-only', 'yes'], /READONLY/, /it is a replica: use the address of the master/],
    [['requirepass', 'secret'], /NOAUTH/, /WEIR_ORIGIN_PASSWORD/],
  ]) {
    if (settings[0] === 'replica-read-only') await origin.client.replicaof('127.0.0.1', '1');
    await origin.client.config('SET', ...settings);
    const wrong = await connect(`origin: ${origin.url}`);
    assert.equal(wrong.code, 1);
    assert.match(wrong.output, problem);
    assert.match(wrong.output, remedy);
    if (settings[0] === 'replica-read-only') await origin.client.replicaof('NO', 'ONE');
  }
  // The user that docs/origin.md describes, and one with fewer permissions.
  const page = readFileSync(new URL('../../docs/origin.md', import.meta.url), 'utf8');
  const [, allowed] = page.match(/`(~weir:\* [^`]*)`/);
  await origin.client.auth('secret');
  await origin.client.call('ACL', 'SETUSER', 'weir', 'on', '>pw', ...allowed.split(/\s+/));
  const named = `origin: redis://weir:pw@127.0.0.1:${origin.port}`;
  const enough = await connect(named);
  assert.equal(enough.code, 0, enough.output);
  // The message names each permission that is missing.
  const withLedger = `${named}\nregion: east\nledger: sqlite:${join(temporaryFolder(), 'ledger.db')}`;
  for (const permission of allowed.split(/\s+/)) {
    if (['+select', '+client|info', '+client|kill'].includes(permission)) continue; // optional, or for a database
    await origin.client.call('ACL', 'SETUSER', 'weir', 'reset', 'on', '>pw',
      ...allowed.split(/\s+/).filter((each) => each !== permission));
    const little = await connect(withLedger);
    assert.equal(little.code, 1, permission + little.output);
    const name = { '~': /keys/, '&': /channels/ }[permission[0]] ?? new RegExp(`'${permission.slice(1).replace('|', '\\|')}'`);
    assert.match(little.output, name, permission);
    assert.match(little.output, /docs\/origin.md lists the permissions that the user needs/);
  }
  await origin.client.call('ACL', 'SETUSER', 'weir', 'reset', 'on', '>pw', ...allowed.split(/\s+/));
  assert.equal((await connect(withLedger)).code, 0);
  const guess = await connect(`origin: redis://:guess@127.0.0.1:${origin.port}`);
  assert.match(guess.output, /WRONGPASS/);
  assert.ok(!guess.output.includes('guess'));
  await origin.kill();
  const down = await connect(`origin: ${origin.url}`);
  assert.equal(down.code, 1);
  assert.match(down.output, /cannot connect: Connection refused\n  check that it runs/);
  const nowhere = await connect('origin: redis://no-such-host.invalid');
  assert.match(nowhere.output, /cannot resolve no-such-host.invalid/);
  const missing = await connect(`origin: ${origin.url}\norigin-password-file: /no/such/file`);
  assert.equal(missing.code, 1);
  assert.match(missing.output, /origin-password-file is '\/no\/such\/file': it must be a readable file/);
});

test('the file is reported as valid only after all checks', async () => {
  const data = temporaryFolder();
  writeFileSync(join(data, 'ledger.db'), 'no database at all'.repeat(500));
  for (const yaml of ['origin: redis://127.0.0.1:1', `data: ${data}`]) {
    writeFileSync(file, yaml);
    const { code, stdout, stderr } = await weir(['check-config', file, '--connect']);
    assert.equal(code, 1, stdout);
    assert.doesNotMatch(stdout + stderr, /: valid/);
  }
  writeFileSync(file, 'ledger: none');
  const { code, stdout } = await weir(['check-config', file, '--connect']);
  assert.equal(code, 0);
  assert.ok(stdout.endsWith(`${file}: valid\n`), stdout);
});

test('a damaged ledger file is reported as damaged', async () => {
  const data = temporaryFolder();
  writeFileSync(join(data, 'ledger.db'), 'no database at all'.repeat(500));
  const { code, output } = await connect(`data: ${data}`);
  assert.equal(code, 1);
  assert.match(output, /file is not a database\n  move the file away/);
  assert.doesNotMatch(output, /password/);
});

test('environment variables are read as by a server', async () => {
  const url = 'ledger: sqlite:/tmp/some.db\n';
  writeFileSync(file, url);
  const without = await weir(['check-config', file]);
  assert.equal(without.code, 1);
  assert.match(without.stderr, /region is missing.*--region, WEIR_REGION or region in the file/);
  assert.equal((await weir(['check-config', file], { env: { WEIR_REGION: 'eu' } })).code, 0);
  const wrong = await weir(['check-config', file], { env: { WEIR_THREADS: 'many' } });
  assert.equal(wrong.code, 1);
  assert.match(wrong.stderr, /WEIR_THREADS is 'many': it must be a whole number from 0 to 256/);
});

// It would count its own rows as those of another region, and deny all requests of the window.
test('a renamed region does not start on the Redis of the former name', async () => {
  const ledger = `sqlite:${join(temporaryFolder(), 'ledger.db')}`;
  const origin = new Origin();
  await origin.start();
  const args = (region) => ['--origin', origin.url, '--ledger', ledger, '--region', region];
  const former = await startServer({ args: args('eu-west') });
  await until('its name', async () => (await origin.client.get('weir:region')) === 'eu-west');
  await former.stop();
  const { code, stderr } = await weir(['serve', '--data', temporaryFolder(), ...args('eu-1')]);
  assert.equal(code, 1);
  assert.match(stderr, /region is 'eu-1', and it has the counts of region 'eu-west': choose that region/);
  assert.match(stderr, /to rename the region, stop all its processes and delete the keys weir:\*/);
  const checked = await connect(`origin: ${origin.url}\nledger: ${ledger}\nregion: eu-1\n`);
  assert.equal(checked.code, 1);
  assert.match(checked.output, /region is 'eu-1'/);
  await origin.client.flushall();
  await (await startServer({ args: args('eu-1') })).stop();
  await origin.kill();
});
