// The Redis protocol with redis-cli, in both versions.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { run, startServer } from './server.mjs';

const kMonth = 2_592_000; // s; long enough that nothing comes back while a test runs
let server;
before(async () => (server = await startServer()));
after(() => server.stop());

// The output of redis-cli in lines.
async function cli(...words) {
  const version = words[0] === '-3' ? ['-3'] : [];
  const rest = words.slice(version.length).map(String);
  const args = ['-h', '127.0.0.1', '-p', String(server.respPort), ...version, ...rest];
  const { stdout, code } = await run('redis-cli', args);
  assert.ok(code === 0 || code === 1, `redis-cli ended with ${code}`);
  return stdout.replace(/\n+$/, '').split('\n');
}

// Several commands on one connection, as typed into redis-cli.
async function session(lines, ...args) {
  const all = ['-h', '127.0.0.1', '-p', String(server.respPort), ...args];
  const { stdout } = await run('redis-cli', all, { input: lines.join('\n') + '\n' });
  return stdout.split('\n').filter((line) => line !== '');
}

async function throttle(...words) {
  const lines = await cli('CL.THROTTLE', ...words);
  assert.equal(lines.length, 5, lines.join('\n'));
  return lines.map(Number);
}

test('CL.THROTTLE replies with five integers, and its burst is max_burst + 1', async () => {
  assert.deepEqual(await throttle('five', 15, 30, kMonth), [0, 16, 15, -1, kMonth / 30]);
});

test('CL.THROTTLE denies above the burst and replies with the time to retry', async () => {
  for (let left = 2; left >= 0; --left) {
    assert.deepEqual((await throttle('burst', 2, 10, kMonth)).slice(0, 4), [0, 3, left, -1]);
  }
  const [denied, limit, remaining, retry, reset] = await throttle('burst', 2, 10, kMonth);
  assert.deepEqual([denied, limit, remaining], [1, 3, 0]);
  assert.ok(retry > 0 && retry <= kMonth / 10, `retry after ${retry}`);
  assert.ok(reset > retry && reset <= (3 * kMonth) / 10, `reset after ${reset}`);
});

test('CL.THROTTLE accepts a quantity, and 0 peeks', async () => {
  assert.equal((await throttle('quantity', 9, 10, kMonth, 0))[2], 10);
  assert.equal((await throttle('quantity', 9, 10, kMonth, 4))[2], 6);
  assert.equal((await throttle('quantity', 9, 10, kMonth, 0))[2], 6);
  assert.deepEqual((await throttle('quantity', 9, 10, kMonth, 7)).slice(0, 3), [1, 10, 6]);
  assert.equal((await throttle('quantity', 9, 10, kMonth, 0))[2], 6);
});

test('CL.THROTTLE never admits a quantity above the burst, and has no retry time', async () => {
  assert.deepEqual((await throttle('never', 2, 10, kMonth, 4)).slice(0, 4), [1, 3, 3, -1]);
});

test('CL.THROTTLE keeps one state per key for all parameters', async () => {
  assert.equal((await throttle('one', 9, 10, kMonth, 10))[0], 0);
  assert.equal((await throttle('one', 9, 10, kMonth / 2))[0], 1, 'another period');
  assert.equal((await throttle('one', 9, 20, kMonth))[0], 1, 'another count');
  assert.equal((await throttle('another', 9, 20, kMonth))[0], 0, 'another key');
});

for (const [name, args] of [
  ['max_burst', ['k', -1, 10, 60]],
  ['max_burst', ['k', 'x', 10, 60]],
  ['count', ['k', 5, 0, 60]],
  ['count', ['k', 5, '1.5', 60]],
  ['period', ['k', 5, 10, 0]],
  ['period', ['k', 5, 10, 315_619_201]],
  ['quantity', ['k', 5, 10, 60, -1]],
  ['quantity', ['k', 5, 10, 60, '1e3']],
  ['key', ['', 5, 10, 60]],
]) {
  const shown = args.map((word) => `'${word}'`).join(' ');
  test(`CL.THROTTLE ${shown} is an error that names ${name}`, async () => {
    assert.match((await cli('CL.THROTTLE', ...args))[0], new RegExp(`^ERR ${name} (is|has) `));
  });
}

test('CL.THROTTLE with a wrong number of arguments shows its usage', async () => {
  for (const args of [['k'], ['k', 1, 2], ['k', 1, 2, 3, 4, 5]]) {
    const [line] = await cli('CL.THROTTLE', ...args);
    assert.match(line, /^ERR wrong number of arguments .* key max_burst count period/);
  }
});

const kVerdict = ['success', 'limit', 'remaining', 'reset', 'retry_after', 'basis'];

test('WEIR.LIMIT replies with names and values in version 2', async () => {
  const lines = await cli('WEIR.LIMIT', 'ns', 'two', 10, kMonth * 1000);
  assert.deepEqual(
    lines.filter((_, i) => i % 2 === 0),
    kVerdict,
  );
  assert.deepEqual([lines[1], lines[3], lines[5]], ['1', '10', '9']);
  assert.ok(Number(lines[7]) > 0);
  assert.deepEqual([lines[9], lines[11]], ['-1', 'local']);
});

test('WEIR.LIMIT replies with a map and a boolean in version 3', async () => {
  const lines = await cli('-3', 'WEIR.LIMIT', 'ns', 'three', 10, kMonth * 1000, 'COST', 3);
  assert.deepEqual(
    lines.map((line) => line.split(' ')[0]),
    kVerdict,
  );
  assert.match(lines[0], /^success \(?true\)?$/);
  assert.equal(lines[2], 'remaining 7');
});

test('WEIR.PEEK consumes nothing in either version', async () => {
  const words = ['WEIR.PEEK', 'ns', 'peeked', 5, kMonth * 1000];
  for (let i = 0; i < 3; ++i) {
    assert.equal((await cli(...words))[5], '5');
    assert.equal((await cli('-3', ...words))[2], 'remaining 5');
  }
});

test('WEIR.LIMIT accepts every algorithm in any case', async () => {
  const windows = ['sliding_window', 'sliding_window_strict', 'fixed_window', 'sliding_log'];
  for (const algorithm of windows) {
    const words = ['weir.limit', 'all', algorithm, 2, kMonth * 1000, 'algorithm', algorithm];
    const outcomes = [];
    for (let i = 0; i < 3; ++i) outcomes.push((await cli(...words))[1]);
    assert.deepEqual(outcomes, ['1', '1', '0'], algorithm);
  }
  for (const algorithm of ['gcra', 'token_bucket']) {
    const options = ['ALGORITHM', algorithm, 'BURST', 3, 'COST', 3];
    const words = ['Weir.Limit', 'all', algorithm, 10, kMonth * 1000, ...options];
    assert.deepEqual((await cli(...words)).slice(1, 6), ['1', 'limit', '3', 'remaining', '0']);
    assert.equal((await cli(...words))[1], '0');
  }
});

test('WEIR.LIMIT names the invalid argument', async () => {
  const good = ['WEIR.LIMIT', 'ns', 'id', 10, 60000];
  const cases = [
    [['WEIR.LIMIT', 'ns', 'id', 10], /^ERR an item needs namespace identifier limit duration_ms/],
    [['WEIR.LIMIT', '', 'id', 10, 60000], /^ERR namespace has 0 bytes/],
    [['WEIR.LIMIT', 'ns', '', 10, 60000], /^ERR identifier has 0 bytes/],
    [['WEIR.LIMIT', 'ns', 'id', 0, 60000], /^ERR limit is '0'/],
    [['WEIR.LIMIT', 'ns', 'id', 10, 99], /^ERR duration_ms is '99'/],
    [[...good, 'COST', -1], /^ERR COST is '-1'/],
    [[...good, 'COST'], /^ERR 'COST' needs a value/],
    [[...good, 'BURST', 0], /^ERR BURST is '0'/],
    [[...good, 'BURST', 5], /^ERR burst is 5, but sliding_window has none/],
    [[...good, 'ALGORITHM', 'magic'], /^ERR ALGORITHM is 'magic'/],
    [[...good, 'PRICE', 1], /^ERR 'PRICE' is not an option/],
    [['WEIR.PEEK', 'ns', 'id', 10, 60000, 'COST', 2], /^ERR WEIR.PEEK consumes nothing/],
  ];
  for (const [words, expected] of cases) assert.match((await cli(...words))[0], expected);
});

test('WEIR.MULTI is all or nothing and keeps the order, in both versions', async () => {
  const item = (id, limit, cost) => ['ITEM', 'm', id, limit, kMonth * 1000, 'COST', cost];
  const first = await cli('WEIR.MULTI', ...item('a', 5, 2), ...item('b', 3, 3));
  assert.deepEqual([first[0], first[1], first[2]], ['success', '1', 'limits']);
  assert.deepEqual([first[8], first[20]], ['3', '0']);
  const refused = await cli('-3', 'WEIR.MULTI', ...item('a', 5, 2), ...item('b', 3, 1));
  assert.match(refused[0], /^success \(?false/);
  assert.match(
    refused.join('\n'),
    /success \(?true[^]*remaining 3[^]*success \(?false[^]*remaining 0/,
  );
  assert.equal((await cli('WEIR.PEEK', 'm', 'a', 5, kMonth * 1000))[5], '3');
});

test('WEIR.MULTI accepts 1 to 100 items, and names the invalid one', async () => {
  const items = (count) => {
    const all = [];
    for (let i = 0; i < count; ++i) all.push('ITEM', 'many', `id${i}`, 10, kMonth * 1000);
    return all;
  };
  assert.equal((await cli('WEIR.MULTI', ...items(100)))[1], '1');
  assert.match((await cli('WEIR.MULTI', ...items(101)))[0], /^ERR more than 100 items/);
  assert.match((await cli('WEIR.MULTI'))[0], /^ERR wrong number of arguments/);
  assert.match((await cli('WEIR.MULTI', ...items(2), 'COST', -1))[0], /COST is '-1'.*item 2/);
  assert.match((await cli('WEIR.MULTI', 'ns', 'id', 1, 1000))[0], /^ERR expected ITEM, got 'ns'/);
});

test('PING and ECHO reply', async () => {
  assert.deepEqual(await cli('PING'), ['PONG']);
  assert.deepEqual(await cli('PING', 'hello there'), ['hello there']);
  assert.deepEqual(await cli('ECHO', 'again'), ['again']);
  assert.match((await cli('ECHO'))[0], /^ERR wrong number of arguments for 'echo'/);
});

test('HELLO replies with the server, and refuses unknown versions', async () => {
  const lines = await cli('HELLO', 2);
  assert.deepEqual(lines.slice(0, 2), ['server', 'weir']);
  assert.equal(lines[lines.indexOf('proto') + 1], '2');
  assert.ok((await cli('-3', 'HELLO', 3)).includes('proto 3'));
  assert.match((await cli('HELLO', 4))[0], /^NOPROTO/);
});

test('SELECT accepts only database 0', async () => {
  assert.deepEqual(await cli('SELECT', 0), ['OK']);
  assert.match((await cli('SELECT', 1))[0], /^ERR DB index is out of range/);
});

test('CLIENT stores a name, and every connection has its own id', async () => {
  const lines = await session([
    'CLIENT GETNAME',
    'CLIENT SETNAME tester',
    'CLIENT GETNAME',
    'CLIENT SETINFO LIB-NAME x',
    'CLIENT ID',
    'CLIENT ID',
  ]);
  assert.deepEqual(lines.slice(0, 3), ['OK', 'tester', 'OK'], 'a name not given is an empty line');
  assert.equal(lines[3], lines[4]);
  const [other] = await cli('CLIENT', 'ID');
  assert.notEqual(other, lines[3]);
  assert.match((await cli('CLIENT', 'KILL', 'x'))[0], /^ERR unknown subcommand of CLIENT/);
});

test('COMMAND lists the commands in all its forms', async () => {
  const names = (await cli('COMMAND')).join('\n');
  for (const name of ['cl.throttle', 'gcra', 'weir.limit', 'weir.peek', 'weir.multi', 'ping']) {
    assert.ok(names.includes(name), name);
  }
  assert.deepEqual(await cli('COMMAND', 'COUNT'), ['28']);
  assert.equal((await cli('COMMAND', 'INFO', 'CL.THROTTLE'))[0], 'cl.throttle');
  assert.deepEqual(await cli('COMMAND', 'DOCS'), ['']);
  assert.deepEqual(await cli('-3', 'COMMAND', 'DOCS'), ['']);
});

test('INFO has the version and counts of decisions', async () => {
  const text = (await cli('INFO')).join('\n');
  assert.match(text, /weir_version:\d+\.\d+\.\d+/);
  assert.match(text, /redis_mode:standalone/);
  assert.match(text, /admitted:[1-9]/);
  assert.match(text, /region:local/);
});

test('CONFIG GET supports only what redis-benchmark reads', async () => {
  assert.deepEqual(await cli('CONFIG', 'GET', 'appendonly'), ['appendonly', 'no']);
  assert.deepEqual(await cli('CONFIG', 'GET', 'save'), ['save']);
  assert.deepEqual(await cli('CONFIG', 'GET', 'maxmemory'), ['']);
  assert.match((await cli('CONFIG', 'SET', 'save', ''))[0], /^ERR Weir is configured by flags/);
});

test('the error names an unknown command and lists the supported ones', async () => {
  assert.match((await cli('SET', 'a', 'b'))[0], /^ERR unknown command 'SET'.*CL\.THROTTLE/);
});

test('QUIT gets a reply', async () => {
  assert.deepEqual(await cli('QUIT'), ['OK']);
});
