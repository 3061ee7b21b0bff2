// The lifecycle of a server: first start, restart, front ends, shutdown.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';

import { Origin, until } from './region.mjs';
import { environment, kRootKey, run, startServer, temporaryFolder, weir } from './server.mjs';
import { command, Wire } from './wire.mjs';

const kMonth = 2_592_000; // s
const kKeyLine = /^ {2}root key {2}(weir_root_\w{30}) /m;

// Runs `body` with a server, which must exit with code 0.
async function served(options, body) {
  const server = await startServer(options);
  try {
    await body(server);
  } finally {
    await server.stop();
  }
}

async function statusWith(server, key) {
  const body = JSON.stringify({
    namespace: 'n',
    identifier: 'i',
    limit: 1,
    duration: 1000,
    cost: 0,
  });
  const headers = { authorization: `Bearer ${key}` };
  const answer = await fetch(`${server.url}/v2/ratelimit.limit`, { method: 'POST', body, headers });
  await answer.arrayBuffer();
  return answer.status;
}

async function sendCommand(port, ...words) {
  const wire = await Wire.open(port);
  await wire.send(command(...words));
  const reply = await wire.reply();
  wire.close();
  return reply;
}

// The commands that the welcome message shows.
function pasteable(server) {
  const lines = server.stdout.slice(server.stdout.indexOf('Try it:\n') + 8);
  const [, curl] = lines.match(/^( {2}curl [^]*?[^\\])\n/m);
  const [, cli] = lines.match(/^( {2}redis-cli .*)\n/m);
  return { curl, cli };
}

// --- keys

test('the first start shows a root key and stores only its hash; the next start accepts the key', async () => {
  const data = join(temporaryFolder(), 'made', 'by the server');
  let key;
  await served({ key: null, data }, async (server) => {
    key = server.stdout.match(kKeyLine)?.[1];
    assert.ok(key, server.stdout);
    assert.equal(await statusWith(server, key), 200);
    assert.equal(await statusWith(server, kRootKey), 401);
  });
  const file = join(data, 'root_key.sha256');
  assert.equal(readFileSync(file, 'utf8'), createHash('sha256').update(key).digest('hex') + '\n');
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.equal(statSync(data).mode & 0o777, 0o700);
  for (const name of readdirSync(data)) {
    assert.ok(!readFileSync(join(data, name), 'utf8').includes(key), `the key is in ${name}`);
  }
  await served({ key: null, data }, async (server) => {
    assert.ok(!server.output.includes(key));
    assert.doesNotMatch(server.stdout, kKeyLine);
    assert.equal(await statusWith(server, key), 200);
  });
});

test('every folder has its own key', async () => {
  const keys = new Set();
  for (let i = 0; i < 2; ++i) {
    await served({ key: null }, async (server) => keys.add(server.stdout.match(kKeyLine)[1]));
  }
  assert.equal(keys.size, 2);
});

test('a failed start creates no key, and the next start shows one', async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const data = temporaryFolder();
  const address = `127.0.0.1:${taken.address().port}`;
  const failed = await weir(['serve', '--http', address, '--resp', 'off', '--data', data]);
  taken.close();
  assert.equal(failed.code, 1);
  await served({ key: null, data }, async (server) => assert.match(server.stdout, kKeyLine));
});

test('WEIR_ROOT_KEY is the key, and is neither shown nor stored', async () => {
  const data = join(temporaryFolder(), 'untouched');
  await served({ data }, async (server) => {
    assert.ok(!server.output.includes(kRootKey));
    assert.match(server.stdout, /root key {2}from WEIR_ROOT_KEY/);
    assert.equal(await statusWith(server, kRootKey), 200);
    assert.equal(await statusWith(server, 'weir_root_of_another_server'), 401);
  });
  for (const name of readdirSync(data)) {
    assert.match(name, /^(ledger\.db|state\.log$|weir\.lock$)/);
    assert.ok(!readFileSync(join(data, name), 'utf8').includes(kRootKey), `the key is in ${name}`);
  }
});

test('a too short WEIR_ROOT_KEY is refused and not printed', async () => {
  const { code, stdout, stderr } = await weir(['serve', '--http', '127.0.0.1:0', '--resp', 'off'], {
    key: 'short',
  });
  assert.equal(code, 1);
  assert.match(stderr, /WEIR_ROOT_KEY has 5 characters/);
  assert.ok(!(stdout + stderr).includes('short'));
});

test('the error names a damaged hash or a folder that cannot be created', async () => {
  const data = temporaryFolder();
  writeFileSync(join(data, 'root_key.sha256'), 'nonsense\n');
  const serve = ['serve', '--http', '127.0.0.1:0', '--resp', 'off', '--data'];
  const damaged = await weir([...serve, data]);
  assert.equal(damaged.code, 1);
  assert.match(damaged.stderr, /root_key\.sha256 does not contain the hash of a key/);
  const unmade = await weir([...serve, join(data, 'root_key.sha256', 'below')]);
  assert.equal(unmade.code, 1);
  assert.match(unmade.stderr, /cannot create the folder .*below.*--data/);
});

test('the lines of the welcome work when pasted', async () => {
  const allowed = '--allow-public'; // wants a key in both lines
  for (const [key, ...args] of [[null], [kRootKey], [null, allowed], [kRootKey, allowed]]) {
    await served({ key, args }, async (server) => {
      const { curl, cli } = pasteable(server);
      const env = environment(key ?? undefined);
      const limited = await run('bash', ['-c', curl], { env });
      assert.equal(limited.code, 0, limited.stderr);
      const { data } = JSON.parse(limited.stdout);
      assert.deepEqual([data.success, data.limit, data.remaining], [true, 10, 9]);
      const throttled = await run('bash', ['-c', cli], { env });
      assert.deepEqual(throttled.stdout.split('\n').slice(0, 4), ['0', '16', '15', '-1']);
    });
  }
});

// --- front ends

test('the error names a used port, and the exit code is 1', async () => {
  await served({}, async (server) => {
    for (const [flag, port, other] of [
      ['--http', server.respPort, '--resp'],
      ['--resp', server.httpPort, '--http'],
    ]) {
      const { code, stderr } = await weir(['serve', flag, `127.0.0.1:${port}`, other, 'off'], {
        key: kRootKey,
      });
      assert.equal(code, 1);
      assert.match(
        stderr,
        new RegExp(`cannot listen at 127\\.0\\.0\\.1:${port}: Address already in use; `),
      );
    }
    assert.equal(await sendCommand(server.respPort, 'PING'), 'PONG');
  });
});

test('a public address is refused without --allow-public', async () => {
  for (const flag of ['--http', '--resp']) {
    const { code, stderr } = await weir(['serve', flag, '0.0.0.0:0'], { key: kRootKey });
    assert.equal(code, 2);
    assert.match(stderr, new RegExp(`${flag.slice(2)} is '0\\.0\\.0\\.0:0'.*--allow-public`));
  }
});

test('at a public address the Redis protocol requires a key', async () => {
  const args = ['--allow-public', '--http', '0.0.0.0:0', '--resp', '0.0.0.0:0'];
  await served({ args }, async (server) => {
    const throttle = ['CL.THROTTLE', 'public', 9, 10, kMonth];
    for (const words of [
      ['PING'],
      throttle,
      ['INFO'],
      ['COMMAND'],
      ['WEIR.MULTI'],
      ['HELLO', 3],
      ['RESET'],
    ]) {
      assert.match((await sendCommand(server.respPort, ...words)).message, /^NOAUTH/, words[0]);
    }
    const wire = await Wire.open(server.respPort);
    const sendOn = async (...words) => {
      await wire.send(command(...words));
      return wire.reply();
    };
    assert.match((await sendOn('AUTH', 'a_wrong_root_key_of_no_use')).message, /^WRONGPASS/);
    assert.match((await sendOn(...throttle)).message, /^NOAUTH/);
    assert.equal(await sendOn('AUTH', kRootKey), 'OK');
    assert.deepEqual((await sendOn(...throttle)).slice(0, 3), [0, 10, 9]);
    await wire.send(Buffer.concat([command('RESET'), command(...throttle)]));
    assert.equal(await wire.reply(), 'RESET');
    assert.match((await wire.reply()).message, /^NOAUTH/, 'RESET takes the key back');
    assert.equal((await sendOn('HELLO', 3, 'AUTH', 'default', kRootKey)).proto, 3);
    assert.equal((await sendOn(...throttle, 0))[2], 9, 'a refused request consumed nothing');
    wire.close();
    assert.equal(await statusWith(server, kRootKey), 200);
    assert.equal(await statusWith(server, 'a_wrong_root_key_of_no_use'), 401);
  });
});

test('with --allow-public the Redis protocol requires a key on loopback too, unless resp-auth is off', async () => {
  const args = ['--allow-public', '--http', '0.0.0.0:0'];
  await served({ args }, async (server) => {
    assert.match((await sendCommand(server.respPort, 'PING')).message, /^NOAUTH/);
  });
  await served({ args: [...args, '--resp-auth', 'off'] }, async (server) => {
    assert.equal(await sendCommand(server.respPort, 'PING'), 'PONG');
  });
  await served({ args: ['--resp-auth', 'required'] }, async (server) => {
    assert.match((await sendCommand(server.respPort, 'PING')).message, /^NOAUTH/);
  });
  const unsafe = ['--allow-public', '--resp', '0.0.0.0:0', '--resp-auth', 'off'];
  const { code, stderr } = await weir(['serve', ...unsafe], { key: kRootKey });
  assert.equal(code, 2);
  assert.match(stderr, /resp-auth is off, but resp is '0\.0\.0\.0:0'/);
});

test('a front end can be off, but not both', async () => {
  await served({ args: ['--http', 'off'] }, async (server) => {
    assert.equal(server.httpPort, undefined);
    assert.doesNotMatch(server.stdout, /http:|curl/);
    assert.equal(await sendCommand(server.respPort, 'PING'), 'PONG');
  });
  await served({ args: ['--resp', 'off'] }, async (server) => {
    assert.equal(server.respPort, undefined);
    assert.doesNotMatch(server.stdout, /redis/);
    assert.equal(await statusWith(server, kRootKey), 200);
  });
  const { code, stderr } = await weir(['serve', '--http', 'off', '--resp', 'off']);
  assert.equal(code, 2);
  assert.match(stderr, /http and resp are both off/);
});

test('IPv6 loopback works', async (t) => {
  const probe = createServer().listen(0, '::1');
  const works = await Promise.race([
    once(probe, 'listening').then(() => true),
    once(probe, 'error').then(() => false),
  ]).catch(() => false);
  probe.close();
  if (!works) return t.skip('no IPv6 here');
  await served({ args: ['--http', '[::1]:0'] }, async (server) => {
    const answer = await fetch(`http://[::1]:${server.httpPort}/healthz`);
    assert.equal(await answer.text(), 'ok\n');
  });
});

test('one thread and many threads count together', async () => {
  for (const threads of ['1', '4']) {
    await served({ args: ['--threads', threads] }, async (server) => {
      const remaining = [];
      for (let i = 0; i < 20; ++i) {
        remaining.push((await sendCommand(server.respPort, 'CL.THROTTLE', 'shared', 99, 100, kMonth))[2]);
      }
      assert.deepEqual(
        remaining,
        Array.from({ length: 20 }, (_, i) => 99 - i),
      );
    });
  }
});

test('both front ends count the same tuple', async () => {
  await served({}, async (server) => {
    const body = JSON.stringify({
      namespace: 'both',
      identifier: 'x',
      limit: 10,
      duration: kMonth * 1000,
      cost: 4,
    });
    const headers = { authorization: `Bearer ${kRootKey}` };
    await fetch(`${server.url}/v2/ratelimit.limit`, { method: 'POST', body, headers });
    const peek = await sendCommand(server.respPort, 'WEIR.PEEK', 'both', 'x', 10, kMonth * 1000);
    assert.equal(peek[peek.indexOf('remaining') + 1], 6);
  });
});

test('the null backend admits everything', async () => {
  await served({ args: ['--backend', 'null'] }, async (server) => {
    for (let i = 0; i < 5; ++i) {
      assert.equal((await sendCommand(server.respPort, 'CL.THROTTLE', 'null', 0, 1, kMonth))[0], 0);
    }
  });
});

// --- flags

for (const [flag, value] of [
  ['--http', 'here'],
  ['--http', '127.0.0.1'],
  ['--http', '127.0.0.1:65536'],
  ['--http', 'example.org:80'],
  ['--resp', '::1:0'],
  ['--resp', '127.0.0.1:-1'],
  ['--threads', '257'],
  ['--threads', 'many'],
  ['--capacity', '63'],
  ['--capacity', '1e6'],
  ['--region', 'a b'],
  ['--region', ''],
  ['--node', 'x'.repeat(65)],
  ['--backend', 'magic'],
  ['--data', ''],
  ['--allow-public', 'maybe'],
]) {
  test(`${flag} '${value.slice(0, 20)}' is refused with flag and value, and exit code 2`, async () => {
    // A flag alone means true, so its value is joined with "=".
    const words = flag === '--allow-public' ? [`${flag}=${value}`] : [flag, value];
    const { code, stdout, stderr } = await weir(['serve', ...words]);
    assert.equal(code, 2);
    assert.equal(stdout, '');
    assert.ok(stderr.includes(`${flag}: is '${value}': it must `), stderr);
  });
}

test('the error names an unknown flag and a flag without a value', async () => {
  const unknown = await weir(['serve', '--colour', 'red']);
  assert.equal(unknown.code, 2);
  assert.match(unknown.stderr, /--colour/);
  const lonely = await weir(['serve', '--http']);
  assert.equal(lonely.code, 2);
  assert.match(lonely.stderr, /--http/);
});

test('a settings file is read, and a flag overrides it', async () => {
  const file = join(temporaryFolder(), 'weir.yaml');
  writeFileSync(file, 'region: from-file\nnode: from-file\nhttp: off\nthreads: 1\n');
  await served(
    { args: ['--config', file, '--node', 'from-flag', '--http', '127.0.0.1:0'] },
    async (server) => {
      assert.match(server.stdout, /^weir \S+ {3}region from-file {3}node from-flag$/m);
      assert.equal(await (await fetch(`${server.url}/healthz`)).text(), 'ok\n');
      assert.match(await sendCommand(server.respPort, 'INFO'), /region:from-file\r\nnode:from-flag\r\n/);
    },
  );
});

test('a server does not start with an invalid settings file', async () => {
  const file = join(temporaryFolder(), 'weir.yaml');
  writeFileSync(file, 'region: here\nthread: 1\n');
  const { code, stderr } = await weir(['serve', '--config', file]);
  assert.equal(code, 1);
  assert.ok(stderr.startsWith(`${file}:2:1: 'thread' is not a setting`), stderr);
});

// --- shutdown

for (const signal of ['SIGINT', 'SIGTERM']) {
  test(`${signal} stops it with exit code 0, and idle connections are closed`, async () => {
    const server = await startServer();
    const idle = [await Wire.open(server.respPort), await Wire.open(server.httpPort)];
    await idle[0].send(command('PING'));
    assert.equal(await idle[0].reply(), 'PONG');
    await server.stop(signal);
    for (const wire of idle) assert.equal(await wire.rest(), '');
    assert.match(server.stderr, /draining/);
  });
}

test('Ctrl-C under load: every sent request is answered before the end', async () => {
  const server = await startServer();
  const count = 20_000;
  const wires = [await Wire.open(server.respPort), await Wire.open(server.respPort)];
  const request = command('CL.THROTTLE', 'load', 49_999, 1, kMonth);
  // A thread that read its clock before another one created the key would report one unit less.
  await wires[0].send(request);
  assert.equal((await wires[0].reply())[2], 49_999);
  const sent = wires.map((wire) => wire.send(Buffer.concat(Array(count).fill(request))));
  const first = await Promise.all(wires.map((wire) => wire.reply()));
  await Promise.all(sent);
  const stopped = server.stop('SIGINT');
  const remaining = first.map((reply) => reply[2]);
  for (const wire of wires) {
    for (const reply of await wire.replies(count - 1)) {
      assert.equal(reply[0], 0);
      remaining.push(reply[2]);
    }
    assert.equal(await wire.rest(), '');
  }
  assert.deepEqual(
    remaining.sort((a, b) => b - a),
    Array.from({ length: 2 * count }, (_, i) => 49_998 - i),
    'each was counted once',
  );
  await stopped;
});

test('Ctrl-C under load: HTTP announces the last response', async () => {
  const server = await startServer();
  const wire = await Wire.open(server.httpPort);
  await wire.send('GET /metrics HTTP/1.1\r\nHost: weir\r\n\r\n'.repeat(2000));
  let answer = await wire.answer();
  const stopped = server.stop('SIGINT');
  let answers = 1;
  for (; answers < 2000 && answer.fields.connection !== 'close'; ++answers) {
    answer = await wire.answer();
    assert.equal(answer.status, 200);
  }
  assert.equal(await wire.rest(), '', 'nothing behind the last answer');
  await stopped;
});

test('an incomplete request does not block the shutdown forever', async () => {
  const server = await startServer();
  const wires = [await Wire.open(server.respPort), await Wire.open(server.httpPort)];
  await wires[0].send('*2\r\n$4\r\nECHO\r\n$5\r\nhel');
  await wires[1].send('POST /v2/ratelimit.limit HTTP/1.1\r\nHost: we');
  await sendCommand(server.respPort, 'PING');
  await server.stop();
  for (const wire of wires) assert.equal(await wire.rest(), '');
});

// --- a log that nobody reads


// Closes the other end of stdout and stderr, as a parent process that was killed does.
async function startWithoutReader(options) {
  const server = await startServer(options);
  const exit = once(server.child, 'exit').then(([code, signal]) => ({ code, signal }));
  server.child.stdout.destroy();
  server.child.stderr.destroy();
  return { server, exit };
}
async function within(ms, exit, server) {
  const end = await Promise.race([exit, new Promise((late) => setTimeout(late, ms, 'still runs'))]);
  server.child.kill('SIGKILL');
  return end;
}

test('SIGTERM ends a server whose log has no reader', async () => {
  const { server, exit } = await startWithoutReader();
  server.child.kill('SIGTERM');
  assert.deepEqual(await within(8000, exit, server), { code: 0, signal: null });
});

test('a server whose log has no reader survives the loss of its origin', async () => {
  const origin = new Origin();
  await origin.start();
  const { server, exit } = await startWithoutReader({ args: ['--origin', origin.url] });
  const ready = async () => (await server.metric('weir_origin_ready')) === 1;
  await until('the origin', ready);
  await origin.kill();
  assert.equal(await within(3000, exit, server), 'still runs'); // it has logged the loss
});

test('server output contains nothing that a client sent', async () => {
  const server = await startServer();
  const secret = 'Zebra7Quagga';
  await sendCommand(server.respPort, 'CL.THROTTLE', secret, 1, 1, 1);
  await sendCommand(server.respPort, 'CL.THROTTLE', 'k', secret, 1, 1);
  await sendCommand(server.respPort, 'AUTH', secret);
  await sendCommand(server.respPort, secret, secret);
  for (const bytes of [`*${secret}\r\n`, `ECHO "${secret}\r\n`]) {
    const wire = await Wire.open(server.respPort);
    await wire.send(bytes);
    await wire.rest();
  }
  await statusWith(server, secret);
  await statusWith(server, kRootKey);
  await (await fetch(`${server.url}/${secret}`)).text();
  const wire = await Wire.open(server.httpPort);
  await wire.send(`${secret}\r\n${secret}: ${secret}\r\n\r\n`);
  await wire.rest();
  const body = JSON.stringify({ namespace: secret, identifier: secret, [secret]: secret });
  const headers = { authorization: `Bearer ${kRootKey}` };
  await (await fetch(`${server.url}/v2/ratelimit.limit`, { method: 'POST', body, headers })).text();
  await server.stop();
  for (const word of [secret, kRootKey]) assert.ok(!server.output.includes(word), server.output);
});
