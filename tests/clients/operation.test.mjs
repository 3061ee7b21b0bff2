// Operation of a server: signals, environment variables, the lock of the data folder, full and damaged
// disks, and restarts.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { after, test } from 'node:test';

import { clientOf, kLongWindow, until, verdictOf } from './region.mjs';
import { kBinary, kRootKey, run, startServer, temporaryFolder, weir } from './server.mjs';
import { Wire } from './wire.mjs';

const kServe = ['serve', '--http', '127.0.0.1:0', '--resp', 'off'];

// A server with a client; `limit` and `peek` use one namespace.
async function start(options) {
  const server = await startServer(options);
  const client = clientOf(server);
  const send = async (command, identifier, most, ...more) =>
    verdictOf(await client.call(command, 'api', identifier, most, kLongWindow, ...more));
  return {
    server,
    client,
    limit: (identifier, most, ...more) => send('WEIR.LIMIT', identifier, most, ...more),
    peek: (identifier, most, ...more) => send('WEIR.PEEK', identifier, most, ...more),
    logged: (words) => until(`a log line ${words}`, () => words.test(server.stderr)),
    signal: (name) => server.child.kill(name),
    async stop() {
      client.disconnect();
      await server.stop('SIGTERM');
    },
    async kill() {
      client.disconnect();
      server.child.kill('SIGKILL');
      await server.ended;
    },
  };
}

async function statusWith(server, key) {
  const body = JSON.stringify({ namespace: 'n', identifier: 'i', limit: 1, duration: 1000, cost: 0 });
  const headers = { authorization: `Bearer ${key}` };
  const answer = await fetch(`${server.url}/v2/ratelimit.limit`, { method: 'POST', body, headers });
  await answer.arrayBuffer();
  return answer.status;
}

// One HTTP connection that sends this key with each request.
async function keptOpen(server, key) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const body = JSON.stringify({ namespace: 'n', identifier: 'i', limit: 1, duration: 1000, cost: 0 });
  const sockets = new Set();
  const status = () =>
    new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${key}` };
      const url = `${server.url}/v2/ratelimit.limit`;
      const sent = request(url, { method: 'POST', agent, headers }, (answer) => {
        sockets.add(answer.socket);
        assert.equal(sockets.size, 1, 'the connection stays open');
        answer.resume().on('end', () => resolve(answer.statusCode));
      });
      sent.on('error', reject).end(body);
    });
  return { status, close: () => agent.destroy() };
}

// --- signals

test('SIGHUP reloads the settings, logs changes and settings that need a restart, and continues', async () => {
  const folder = temporaryFolder();
  const file = join(folder, 'weir.yaml');
  const log = join(folder, 'weir.log');
  writeFileSync(file, 'on-origin-loss: local\nthreads: 1\n');
  const node = await start({ args: ['--config', file] });
  node.signal('SIGHUP');
  await node.logged(/settings reloaded; changed: nothing\n/);
  writeFileSync(file, `on-origin-loss: deny\nthreads: 2\nlog: ${log}\n`);
  node.signal('SIGHUP');
  await until('a log', () => existsSync(log) && /reloaded/.test(readFileSync(log, 'utf8')));
  assert.match(
    readFileSync(log, 'utf8'),
    /changed: on-origin-loss, log; restart to apply: threads\n/,
  );
  writeFileSync(file, 'threads: many\n');
  node.signal('SIGHUP');
  await until('an error', () => /did not change/.test(readFileSync(log, 'utf8')));
  assert.match(readFileSync(log, 'utf8'), /weir\.yaml:1:10: threads is 'many'/);
  writeFileSync(file, `threads: 1\nlog: /no/such/folder/log\n`);
  node.signal('SIGHUP');
  await until('an error', () => /'\/no\/such\/folder\/log': it is not writable/.test(readFileSync(log, 'utf8')));
  writeFileSync(file, `threads: 1\n`);
  node.signal('SIGHUP');
  await node.logged(/changed: on-origin-loss, log\n/); // on standard error again
  assert.equal((await node.limit('served on', 10)).success, 1);
  await node.stop();
});

test('SIGHUP loads a new root key from the data folder, and keeps the old one if it is damaged', async () => {
  const data = temporaryFolder();
  const node = await start({ key: null, data });
  const [, old] = node.server.stdout.match(/root key {2}(weir_root_\w{30})/);
  assert.equal(await statusWith(node.server, old), 200);
  const fresh = 'another_key_that_only_tests_know';
  const file = join(data, 'root_key.sha256');
  writeFileSync(file, createHash('sha256').update(fresh).digest('hex') + '\n');
  assert.equal(await statusWith(node.server, fresh), 401);
  await node.client.call('AUTH', old);
  const kept = await keptOpen(node.server, old);
  assert.equal(await kept.status(), 200);
  node.signal('SIGHUP');
  await node.logged(/reloaded/);
  assert.deepEqual([await statusWith(node.server, fresh), await statusWith(node.server, old)], [200, 401]);
  // On connections that have shown the old key, too.
  await assert.rejects(node.limit('x', 1), /^ReplyError: WRONGPASS .* replaced/);
  assert.equal(await kept.status(), 401);
  kept.close();
  await node.client.call('AUTH', fresh);
  assert.equal((await node.limit('x', 1)).success, 1);
  writeFileSync(file, 'nonsense\n');
  node.signal('SIGHUP');
  await node.logged(/does not contain the hash of a key/);
  assert.equal(await statusWith(node.server, fresh), 200);
  await node.stop();
});

test('SIGUSR1 reopens the log file, and does nothing without one', async () => {
  const log = join(temporaryFolder(), 'weir.log');
  const node = await start({ args: ['--log', log] });
  const lines = (path) => (existsSync(path) ? readFileSync(path, 'utf8').split('\n').length - 1 : 0);
  node.signal('SIGHUP');
  await until('a line', () => lines(log) === 1);
  renameSync(log, `${log}.1`);
  node.signal('SIGUSR1');
  await until('a new file', () => existsSync(log));
  node.signal('SIGHUP');
  await until('a line in it', () => lines(log) === 1);
  assert.equal(lines(`${log}.1`), 1);
  await node.stop();

  const plain = await start();
  plain.signal('SIGUSR1');
  plain.signal('SIGHUP');
  await plain.logged(/reloaded/);
  assert.equal((await plain.limit('still here', 10)).success, 1);
  await plain.stop();
});

test('a log file that is not writable is refused at startup', async () => {
  const { code, stderr } = await weir([...kServe, '--log', '/no/such/folder/weir.log'], { key: kRootKey });
  assert.equal(code, 1);
  assert.match(stderr, /log is '\/no\/such\/folder\/weir\.log': it is not writable: No such file/);
});

test('a second SIGTERM during the drain closes connections, but unacknowledged counts are flushed', async () => {
  const url = `sqlite:${join(temporaryFolder(), 'ledger.db')}`;
  const node = await start({ args: ['--region', 'eu', '--ledger', url] });
  const other = await start({ args: ['--region', 'us', '--ledger', url] });
  const left = (count) =>
    until(`${count} left`, async () => (await other.peek('flushed', 1000)).remaining === count);
  assert.equal((await node.limit('flushed', 1000, 'COST', 300)).success, 1);
  await left(700);
  assert.equal((await node.limit('flushed', 1000, 'COST', 50)).success, 1); // not published yet
  const wire = await Wire.open(node.server.httpPort);
  await wire.send('POST /v2/ratelimit.limit HTTP/1.1\r\nHost: we'); // holds the drain up
  node.client.disconnect();
  node.signal('SIGTERM');
  await node.logged(/draining/);
  node.signal('SIGTERM');
  await node.logged(/second signal: closing all connections/);
  assert.deepEqual(await node.server.ended, { code: 0, signal: null });
  assert.match(node.server.stderr, /all counts were written to the ledger/);
  await left(650);
  await other.stop();
});

// --- one server per data folder

test('a second server on one data folder is refused with the pid of the first', async () => {
  const data = temporaryFolder();
  const first = await start({ data });
  const second = await weir([...kServe, '--data', data], { key: kRootKey });
  assert.equal(second.code, 1);
  assert.ok(second.stderr.includes(`process ${first.server.pid} already uses it`), second.stderr);
  assert.match(second.stderr, /choose another folder with --data/);
  await first.kill();
  const third = await start({ data }); // the lock ends with its process
  await third.stop();
});

test('of several first starts on one folder, one shows the key, and all accept it', async () => {
  const data = join(temporaryFolder(), 'new');
  // None of them stores counts there.
  const options = { key: null, data, args: ['--ledger', 'none', '--threads', '1'] };
  const servers = await Promise.all(Array.from({ length: 8 }, () => startServer(options)));
  const keys = servers.map(({ stdout }) => stdout.match(/root key {2}(weir_root_\w{30})/)?.[1]);
  const shown = keys.filter((key) => key !== undefined);
  assert.equal(shown.length, 1, shown.join());
  for (const server of servers) assert.equal(await statusWith(server, shown[0]), 200);
  await Promise.all(servers.map((server) => server.stop()));
});

// --- settings from the environment, and the region

test('environment variables override the file, and flags override both', async () => {
  const file = join(temporaryFolder(), 'weir.yaml');
  writeFileSync(file, 'region: from-file\nnode: from-file\n');
  const env = { WEIR_REGION: 'from-environment', WEIR_NODE: 'from-environment', WEIR_RESP: 'off' };
  const server = await startServer({ args: ['--config', file, '--node', 'from-flag'], env });
  assert.match(server.stdout, /region from-environment {3}node from-flag$/m);
  await server.stop();
  for (const [name, value, wanted] of [
    ['WEIR_THREADS', '257', /WEIR_THREADS is '257': it must be a whole number from 0 to 256/],
    ['WEIR_ALLOW_PUBLIC', 'yes', /WEIR_ALLOW_PUBLIC is 'yes': it must be true or false/],
    ['WEIR_ORIGIN_PASSWORD_FILE', '/no/such', /origin-password-file is '\/no\/such'/],
  ]) {
    const more = name.includes('PASSWORD') ? ['--origin', 'redis://127.0.0.1:1'] : [];
    const data = ['--data', temporaryFolder()];
    const { code, stderr } = await weir([...kServe, ...data, ...more], { key: kRootKey, env: { [name]: value } });
    assert.equal(code, 1);
    assert.match(stderr, wanted);
  }
  const secret = await weir(kServe, { env: { WEIR_LEDGER: 'mysql://u:hidden@' } });
  assert.notEqual(secret.code, 0);
  assert.match(secret.stderr, /WEIR_LEDGER/);
  assert.doesNotMatch(secret.stderr, /hidden/);
});

test('a shared ledger requires a region, also a file', async () => {
  const url = `sqlite:${join(temporaryFolder(), 'ledger.db')}`;
  const { code, stderr } = await weir([...kServe, '--ledger', url], { key: kRootKey });
  assert.equal(code, 2);
  assert.match(stderr, /region is missing, but the ledger sqlite:\S+ can be shared/);
  const node = await start({ args: ['--ledger', url], env: { WEIR_REGION: 'eu' } });
  assert.equal((await node.limit('named', 10)).success, 1);
  await node.stop();
});

test('the second of two processes of one region without an origin is refused', async () => {
  const url = `sqlite:${join(temporaryFolder(), 'ledger.db')}`;
  const args = ['--region', 'eu', '--ledger', url];
  const first = await start({ args });
  const where = ['--data', temporaryFolder()];
  const second = await weir([...kServe, ...where, ...args], { key: kRootKey });
  assert.equal(second.code, 1);
  assert.match(second.stderr, /region is 'eu', but another process without a common origin already counts/);
  assert.match(second.stderr, /--region, or the same --origin for all processes of the region/);
  const mixed = await weir([...kServe, ...where, ...args, '--origin', 'redis://127.0.0.1:1'], { key: kRootKey });
  assert.equal(mixed.code, 1);
  assert.match(mixed.stderr, /another process without a common origin already counts/);
  assert.equal((await first.limit('goes on', 8, 'COST', 8)).success, 1);
  await until('the published row', async () =>
    (await first.server.metric('weir_published_rows_total', 'rule="presence"')) === 1);
  const other = await start({ args: ['--region', 'us', '--ledger', url] });
  await other.stop();
  await first.kill();
  const again = await start({ args }); // a holder that is silent is dead
  await until('the row', async () => (await again.peek('goes on', 8)).remaining === 0);
  await again.stop();
  const soon = await start({ args }); // one that was stopped has let go
  await soon.stop();
});

// --- disks

// A small tmpfs, if this machine allows to mount one.
const disks = new Set();
after(() => {
  for (const disk of disks) execFileSync('umount', ['-l', disk]);
});
async function smallDisk(t, size) {
  const disk = temporaryFolder();
  const { code, stderr } = await run('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', disk]);
  if (code !== 0) return t.skip(`no mounting here: ${stderr}`);
  disks.add(disk);
  return disk;
}

test('a full disk: a log line with the remedy, basis degraded, and recovery when space is free', async (t) => {
  const disk = await smallDisk(t, '1m');
  if (!disk) return;
  const node = await start({ data: join(disk, 'data') });
  await node.limit('before', 10, 'COST', 6);
  const ballast = join(disk, 'ballast');
  assert.throws(() => writeFileSync(ballast, Buffer.alloc(4 << 20)), /ENOSPC/);
  let requests = 0;
  await until('basis degraded', async () => {
    const { success, basis } = await node.limit(`during ${requests++}`, 10, 'COST', 6);
    assert.equal(success, 1);
    return basis === 'degraded';
  });
  await node.logged(/the ledger sqlite:\S+ accepts no writes: .*disk is full; free space on its disk;/);
  rmSync(ballast);
  await node.logged(/the ledger \S+ accepts writes/);
  await until('recovery', async () => (await node.limit('after', 1000)).basis === 'local');
  await node.stop();
});

test('a read-only disk: no local ledger, or a log line', async (t) => {
  const disk = await smallDisk(t, '1m');
  if (!disk) return;
  const file = join(disk, 'ledger.db');
  const args = ['--region', 'eu', '--ledger', `sqlite:${file}`];
  const before = await start({ args });
  await until('a file', () => existsSync(file));
  await before.stop();
  execFileSync('mount', ['-o', 'remount,ro', disk]);
  const node = await start({ args });
  await node.logged(/the ledger sqlite:\S+ does not answer: .*that its disk works and is not read-only;/);
  await until('basis degraded', async () => (await node.limit('x', 1000)).basis === 'degraded');
  await node.stop();
  const alone = await start({ data: join(disk, 'data') });
  assert.match(alone.server.stdout, /ledger +none: \S+ cannot be written to \(Read-only file system\)/);
  assert.equal((await alone.limit('x', 10)).success, 1);
  await alone.stop();
});

test('a damaged ledger: a log line with the remedy, basis degraded, and recovery after the file is moved', async () => {
  const data = temporaryFolder();
  const file = join(data, 'ledger.db');
  writeFileSync(file, 'no database at all'.repeat(500));
  const node = await start({ data });
  await node.logged(/does not answer: .*file is not a database; move the file away: a new one is made/);
  await until('basis degraded', async () => (await node.limit('x', 1000)).basis === 'degraded');
  assert.ok((await node.server.metric('weir_ledger_errors_total', 'reason="corrupt"')) > 0);
  assert.doesNotMatch(node.server.stderr, /password/);
  renameSync(file, `${file}.damaged`);
  await node.logged(/the ledger sqlite:\S+ answers/);
  await until('recovery', async () => (await node.limit('x', 1000)).basis === 'local');
  await node.stop();
});

test('the error names a data folder that is a file', async () => {
  const data = join(temporaryFolder(), 'a file');
  writeFileSync(data, '');
  for (const key of [kRootKey, undefined]) {
    const { code, stderr } = await weir([...kServe, '--data', data], { key });
    assert.equal(code, 1);
    assert.ok(stderr.includes(`data is '${data}': it is a file, not a folder`), stderr);
  }
});

test('a too low limit of open files: the error names the number and the remedy', async () => {
  const data = temporaryFolder();
  const env = { ...process.env, WEIR_ROOT_KEY: kRootKey };
  const limited = (count) =>
    run('bash', ['-c', `ulimit -n ${count}; exec '${kBinary}' "$@"`, 'weir', ...kServe, '--data', data], { env });
  const { code, stderr } = await limited(40);
  assert.equal(code, 1);
  assert.match(stderr, /limit of open files is 40, but \d+ are needed to start: raise it to \d+ with ulimit -n, or LimitNOFILE=/);
  assert.doesNotMatch(stderr, /choose another address/);
});

test('files of a server are accessible only for its owner', async () => {
  const data = temporaryFolder();
  const node = await start({ data });
  await node.limit('private', 10, 'COST', 9);
  const files = ['ledger.db', 'ledger.db-wal', 'state.log', 'weir.lock'];
  await until('the files', () => files.every((name) => existsSync(join(data, name))));
  for (const name of files) assert.equal(statSync(join(data, name)).mode & 0o777, 0o600, name);
  await node.stop();
});

// --- restarts

const lastWrite = (data) => statSync(join(data, 'state.log'), { throwIfNoEntry: false })?.mtimeMs ?? 0;
const kAlgorithms = ['gcra', 'token_bucket', 'sliding_window_strict', 'sliding_log'];

for (const how of ['stopped', 'killed']) {
  test(`counts of every algorithm survive after a single server was ${how}`, async () => {
    const data = temporaryFolder();
    const node = await start({ data });
    const throttle = (to, quantity) => to.client.call('CL.THROTTLE', 'alice', 99, 100, 2_592_000, quantity);
    for (const algorithm of kAlgorithms) {
      await node.limit(algorithm, 100, 'ALGORITHM', algorithm, 'COST', 60);
      const { remaining } = await node.limit(algorithm, 100, 'ALGORITHM', algorithm, 'COST', 7);
      assert.equal(remaining, 33, algorithm);
      const all = await node.limit(`${algorithm} used up`, 100, 'ALGORITHM', algorithm, 'COST', 100);
      assert.equal(all.success, 1, algorithm);
    }
    assert.equal((await throttle(node, 42))[2], 58);
    const useUp = (to) => to.client.call('CL.THROTTLE', 'bob', 99, 1, 2_592_000, 100);
    assert.equal((await useUp(node))[0], 0);
    // A write in progress may have read the tuple before the charge; the next write reads it after.
    for (let i = 0; i < 2; ++i) {
      const before = lastWrite(data);
      await node.limit(`another ${i}`, 100, 'ALGORITHM', 'gcra');
      await until('a write', () => lastWrite(data) > before);
    }
    if (how === 'stopped') await node.stop();
    else await node.kill();
    const again = await start({ data });
    for (const algorithm of kAlgorithms) {
      const { remaining } = await again.peek(algorithm, 100, 'ALGORITHM', algorithm);
      assert.equal(remaining, 33, algorithm);
      const denied = await again.limit(`${algorithm} used up`, 100, 'ALGORITHM', algorithm);
      assert.equal(denied.success, 0, algorithm);
      assert.ok(denied.retry_after > 0, algorithm);
    }
    assert.equal((await useUp(again))[0], 1);
    assert.equal((await throttle(again, 0))[2], 58);
    assert.equal((await throttle(again, 59))[0], 1, 'denied');
    assert.equal((await throttle(again, 58))[0], 0, 'what is left is there');
    await again.stop();
    const third = await start({ data }); // tuples without requests since the restart are still there
    assert.equal((await third.peek('gcra', 100, 'ALGORITHM', 'gcra')).remaining, 33);
    await third.stop();
  });
}

test('a server that is killed under load loses nothing that was written before', async () => {
  const data = temporaryFolder();
  const node = await start({ data });
  const most = 100_000;
  let accepted = 0;
  const rounds = [];
  await until('several writes', async () => {
    for (let i = 0; i < 50; ++i) accepted += (await node.limit('load', most, 'ALGORITHM', 'gcra')).success;
    rounds.push({ accepted, at: lastWrite(data) });
    return new Set(rounds.map(({ at }) => at)).size > 4;
  });
  await node.kill();
  // An admission before the end of a write is at the latest in the second write after it.
  const writes = [...new Set([...rounds.map(({ at }) => at), lastWrite(data)])].sort((a, b) => a - b);
  const kept = rounds.filter(({ at }) => at <= writes.at(-3));
  const before = Math.max(...kept.map((round) => round.accepted));
  const again = await start({ data });
  const used = most - (await again.peek('load', most, 'ALGORITHM', 'gcra')).remaining;
  // A month restores 100,000 units: one in 26 s.
  assert.ok(used >= before - 3, `${used} of ${before}`);
  assert.ok(used <= accepted, `${used} of ${accepted}`);
  await again.stop();
});

test('a damaged state file is logged, and the records before the damage are used', async () => {
  const data = temporaryFolder();
  mkdirSync(data, { recursive: true });
  const node = await start({ data });
  await node.limit('kept', 100, 'ALGORITHM', 'gcra', 'COST', 70);
  await node.stop();
  const file = join(data, 'state.log');
  writeFileSync(file, Buffer.concat([readFileSync(file), Buffer.from('torn')]));
  const again = await start({ data });
  await again.logged(/state\.log is damaged at byte \d+/);
  assert.equal((await again.peek('kept', 100, 'ALGORITHM', 'gcra')).remaining, 30);
  await again.stop();
  const third = await start({ data });
  assert.doesNotMatch(third.server.stderr, /damaged/);
  await third.stop();
});
