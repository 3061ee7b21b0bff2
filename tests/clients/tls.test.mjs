// TLS on both front ends: real clients, certificates of clients, renewed and broken certificates, slow
// and hostile clients, and the drain.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import https from 'node:https';
import { connect as connectTcp, createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import tls from 'node:tls';
import { fileURLToPath } from 'node:url';

import Redis from 'ioredis';
import { createClient } from 'redis';

import { until } from './region.mjs';
import { kRootKey, run, startServer, temporaryFolder, weir, withTimeout } from './server.mjs';
import { command, paired, Wire } from './wire.mjs';

const kMonth = 2_592_000_000; // ms
const kScript = join(dirname(fileURLToPath(import.meta.url)), 'limit.lua');
const folder = temporaryFolder();
const at = (name) => join(folder, name);
const pem = (name) => readFileSync(at(`${name}.pem`));

// A certificate and its key, NAME.pem and NAME.key.pem: an authority, or signed by one.
function certify(name, { ca, subject = name } = {}) {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', at(`${name}.key.pem`)];
  const signed = ca ? ['-CA', at(`${ca}.pem`), '-CAkey', at(`${ca}.key.pem`)] : [];
  const names = ca ? ['-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'] : [];
  const made = ['req', '-x509', ...key, ...signed, ...names, '-days', '2', '-subj', `/CN=${subject}`];
  execFileSync('openssl', [...made, '-out', at(`${name}.pem`)], { stdio: 'pipe' });
}
for (const name of ['ca', 'stranger']) certify(name);
for (const name of ['server', 'client']) certify(name, { ca: 'ca' });
certify('impostor', { ca: 'stranger', subject: 'client' });

const kFiles = ['--tls-cert', at('server.pem'), '--tls-key', at('server.key.pem')];
const start = (args = [], files = kFiles) =>
  startServer({ args: ['--https', '127.0.0.1:0', '--resps', '127.0.0.1:0', ...files, ...args] });

let server;
let mutual; // requires a certificate of clients
before(async () => {
  server = await start();
  mutual = await start(['--tls-client-ca', at('ca.pem')]);
});
after(async () => {
  await mutual.stop();
  await server.stop();
});

const body = (more) =>
  JSON.stringify({ namespace: 'tls', identifier: 'x', limit: 1_000_000, duration: kMonth, ...more });

// One request to /v2/ratelimit.limit.
function limit(port, { agent, path = 'limit', text = body(), ...more } = {}) {
  return withTimeout('an answer', new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${kRootKey}` };
    const options = { port, host: '127.0.0.1', method: 'POST', path: `/v2/ratelimit.${path}`, headers };
    const request = https.request({ ca: pem('ca'), agent: agent ?? false, ...options, ...more }, (answer) => {
      let received = '';
      answer.on('data', (part) => (received += part));
      answer.on('error', reject);
      answer.on('end', () => resolve({ status: answer.statusCode, headers: answer.headers, json: JSON.parse(received) }));
    });
    request.on('error', reject);
    request.end(text);
  }));
}

// A connection with TLS.
const open = (port, more = {}) =>
  Wire.over(tls.connect({ port, host: '127.0.0.1', ca: pem('ca'), ...more }), 'secureConnect');
const ping = command('PING');
async function pings(port, more) {
  const wire = await open(port, more);
  await wire.send(ping);
  assert.equal(await wire.reply(), 'PONG');
  return wire;
}
const failures = (to, frontend, reason) =>
  to.metric('weir_tls_failures_total', `frontend="${frontend}"`, `reason="${reason}"`);

// --- clients

test('curl and wrk', async () => {
  const url = `https://localhost:${server.httpsPort}`;
  const args = ['-s', '--cacert', at('ca.pem'), '-H', `Authorization: Bearer ${kRootKey}`, '-d', body()];
  for (const version of [['--tls-max', '1.2'], ['--tlsv1.3']]) {
    const { code, stdout } = await run('curl', [...args, ...version, `${url}/v2/ratelimit.limit`]);
    assert.equal(code, 0);
    assert.equal(JSON.parse(stdout).data.success, true);
  }
  const untrusted = await run('curl', ['-s', `${url}/healthz`]);
  assert.equal(untrusted.code, 60);
  const load = await run('wrk', ['-t', '1', '-c', '4', '-d', '1s', '-s', kScript, url, '--', kRootKey]);
  assert.match(load.stdout, /^requests=[1-9]\d* without_verdict=0 connect=0 read=0 write=0 status=0 timeout=0$/m);
});

test('fetch of Node', async () => {
  const script = `const answer = await fetch(process.argv[1], { method: 'POST', body: process.argv[2],
    headers: { authorization: 'Bearer ${kRootKey}' } });
    console.log(answer.status, (await answer.json()).data.success);`;
  const url = `https://localhost:${server.httpsPort}/v2/ratelimit.limit`;
  const env = { ...process.env, NODE_EXTRA_CA_CERTS: at('ca.pem') };
  const { stdout, stderr } = await run('node', ['--input-type=module', '-e', script, url, body()], { env });
  assert.equal(stdout, '200 true\n', stderr);
});

test('https of Node with keep-alive', async () => {
  const agent = new https.Agent({ keepAlive: true, maxSockets: 4 });
  const answers = await Promise.all(Array.from({ length: 200 }, () => limit(server.httpsPort, { agent })));
  assert.ok(answers.every(({ status, json }) => status === 200 && json.data.success));
  agent.destroy();
});

test('redis-cli', async () => {
  const args = ['--tls', '--cacert', at('ca.pem'), '-p', String(server.respsPort), 'CL.THROTTLE', 'cli', '15', '30', '60'];
  const { stdout } = await run('redis-cli', args);
  assert.deepEqual(stdout.trim().split('\n').slice(0, 3), ['0', '16', '15']);
});

test('ioredis and node-redis', async () => {
  const io = new Redis({ host: '127.0.0.1', port: server.respsPort, tls: { ca: pem('ca') }, retryStrategy: null });
  const node = createClient({
    socket: { host: '127.0.0.1', port: server.respsPort, tls: true, ca: pem('ca'), reconnectStrategy: false },
  });
  await node.connect();
  for (let used = 1; used <= 20; ++used) {
    const words = ['WEIR.LIMIT', 'tls', 'both', '100', String(kMonth)];
    const reply = used % 2 === 0 ? await io.call(...words) : await node.sendCommand(words);
    assert.equal(paired(reply).remaining, 100 - used);
  }
  await io.quit();
  node.destroy();
});

test('a session is resumed in both versions', async () => {
  for (const version of ['TLSv1.2', 'TLSv1.3']) {
    const options = { minVersion: version, maxVersion: version };
    const first = await open(server.respsPort, options);
    const ticket = new Promise((done) => first.socket.once('session', done));
    await first.send(ping);
    assert.equal(await first.reply(), 'PONG');
    const session = version === 'TLSv1.2' ? first.socket.getSession() : await withTimeout('a ticket', ticket);
    first.close();
    const second = await pings(server.respsPort, { ...options, session });
    assert.equal(second.socket.isSessionReused(), true, version);
    second.close();
  }
});

// --- versions and certificates of clients

test('tls-min-version', async () => {
  const strict = await start(['--tls-min-version', '1.3']);
  await assert.rejects(limit(strict.httpsPort, { maxVersion: 'TLSv1.2' }), /protocol version|EPROTO/);
  assert.equal((await limit(strict.httpsPort)).status, 200);
  await until('the failures', async () => (await failures(strict, 'http', 'other')) === 1);
  await until('a log line', () => /TLS handshakes failed: 1, the last from 127.0.0.1 \(unsupported protocol\)/.test(strict.stderr));
  await strict.stop();
});

test('a client needs its certificate and, in addition, a key', async () => {
  const client = { cert: pem('client'), key: readFileSync(at('client.key.pem')) };
  const impostor = { cert: pem('impostor'), key: readFileSync(at('impostor.key.pem')) };
  assert.equal((await limit(mutual.httpsPort, client)).status, 200);
  assert.equal((await limit(mutual.httpsPort, { ...client, headers: {} })).status, 400);
  (await pings(mutual.respsPort, client)).close();
  for (const version of ['TLSv1.2', 'TLSv1.3']) {
    const options = { minVersion: version, maxVersion: version };
    await assert.rejects(limit(mutual.httpsPort, options), /alert|EPROTO|ECONNRESET|EPIPE/);
    await assert.rejects(limit(mutual.httpsPort, { ...options, ...impostor }), /alert|EPROTO|ECONNRESET|EPIPE/);
  }
  await until('the failures', async () => (await failures(mutual, 'http', 'certificate')) === 4);
  await until('a log line', () => /no client certificate that tls-client-ca has signed: \d/.test(mutual.stderr));
  const cli = ['--tls', '--cacert', at('ca.pem'), '-p', String(mutual.respsPort)];
  const shown = await run('redis-cli', [...cli, '--cert', at('client.pem'), '--key', at('client.key.pem'), 'PING']);
  assert.equal(shown.stdout, 'PONG\n');
  assert.notEqual((await run('redis-cli', [...cli, 'PING'])).stdout, 'PONG\n');
});

test('renegotiation is refused', async () => {
  const wire = await pings(server.respsPort, { maxVersion: 'TLSv1.2' });
  await withTimeout('the refusal', new Promise((done) => {
    wire.socket.on('error', done);
    wire.socket.on('close', done);
    wire.socket.renegotiate({}, (error) => error && done());
  }));
  wire.close();
  (await pings(server.respsPort)).close();
});

// --- sizes and speeds

test('1,000 requests in one write', async () => {
  const resp = await open(server.respsPort);
  await resp.send(Buffer.concat(Array.from({ length: 1000 }, (_, i) => command('ECHO', `${i}`))));
  assert.deepEqual(await resp.replies(1000), Array.from({ length: 1000 }, (_, i) => `${i}`));
  resp.close();
  const http = await open(server.httpsPort);
  const text = body();
  const head = `POST /v2/ratelimit.limit HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${kRootKey}\r\n`;
  await http.send(`${head}Content-Length: ${text.length}\r\n\r\n${text}`.repeat(1000));
  for (let i = 0; i < 1000; ++i) assert.equal((await http.answer('POST')).body.data.success, true);
  http.close();
});

test('a body of 1 MiB', async () => {
  const items = JSON.stringify(Array.from({ length: 100 }, (_, i) => JSON.parse(body({ identifier: `${i}` }))));
  const text = items.slice(0, -1) + ' '.repeat((1 << 20) - items.length) + ']';
  for (let i = 0; i < 3; ++i) {
    const { status, json } = await limit(server.httpsPort, { path: 'multiLimit', text });
    assert.equal(status, 200);
    assert.equal(json.data.limits.length, 100);
  }
  assert.equal((await limit(server.httpsPort, { path: 'multiLimit', text: text + ' ' })).status, 413);
});

// A proxy that forwards in pieces of `size` bytes; its port.
async function splitter(t, port, size) {
  const proxy = createServer((from) => {
    const to = connectTcp({ port, host: '127.0.0.1', noDelay: true });
    from.setNoDelay(true);
    for (const [source, target] of [[from, to], [to, from]]) {
      source.on('error', () => target.destroy());
      source.on('end', () => target.end());
      source.on('data', async (bytes) => {
        source.pause();
        for (let i = 0; i < bytes.length; i += size) {
          target.write(bytes.subarray(i, i + size));
          await new Promise(setImmediate);
        }
        source.resume();
      });
    }
  });
  await new Promise((done) => proxy.listen(0, '127.0.0.1', done));
  t.after(() => proxy.close());
  return proxy.address().port;
}

test('bytes one by one', async (t) => {
  for (const version of ['TLSv1.2', 'TLSv1.3']) {
    const port = await splitter(t, server.respsPort, 1);
    const wire = await open(port, { minVersion: version, maxVersion: version });
    await wire.send(Buffer.concat([command('ECHO', 'a'.repeat(500)), ping]));
    assert.equal((await wire.reply()).length, 500);
    assert.equal(await wire.reply(), 'PONG');
    await wire.sendSlowly(ping); // a record for each byte
    assert.equal(await wire.reply(), 'PONG');
    wire.close();
  }
});

test('records in odd pieces', async (t) => {
  const port = await splitter(t, server.respsPort, 7001);
  const wire = await open(port);
  const words = Array.from({ length: 50 }, (_, i) => randomBytes(20_000 + i).toString('hex').slice(0, 20_000 + i));
  await wire.send(Buffer.concat(words.map((word) => command('ECHO', word))));
  assert.deepEqual(await wire.replies(50), words);
  wire.close();
});

test('a client that reads late gets all answers', async () => {
  const wire = await open(server.respsPort);
  wire.socket.pause();
  const word = 'w'.repeat(60_000);
  const sent = wire.send(Buffer.concat(Array.from({ length: 120 }, () => command('ECHO', word))));
  (await pings(server.respsPort)).close(); // others are served meanwhile
  await new Promise((done) => setTimeout(done, 200));
  wire.socket.resume();
  await sent;
  for (const reply of await wire.replies(120)) assert.equal(reply.length, word.length);
  wire.close();
});

// --- other clients

test('plain text is closed, counted and logged', async () => {
  const counts = async () => [await failures(server, 'http', 'not_tls'), await failures(server, 'resp', 'not_tls')];
  const [http, resp] = await counts();
  const wire = await Wire.open(server.httpsPort);
  await wire.send('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
  assert.doesNotMatch(await wire.rest(), /HTTP/);
  const other = await Wire.open(server.respsPort);
  await other.send(ping);
  assert.doesNotMatch(await other.rest(), /PONG/);
  assert.deepEqual(await counts(), [http + 1, resp + 1]);
  await until('log lines', () =>
    ['http', 'resp'].every((name) => server.stderr.includes(`weir: ${name}: TLS handshakes failed: plain text on the TLS port: `)));
});

test('garbage of any kind harms no other client', async () => {
  const wire = await pings(server.respsPort);
  const hello = await clientHello();
  const cases = Array.from({ length: 150 }, (_, i) => {
    if (i % 3 === 0) return randomBytes(1 + i * 7);
    const bytes = Buffer.from(hello);
    for (let n = 0; n < 1 + (i % 8); ++n) bytes[Math.floor(Math.random() * bytes.length)] ^= 1 << i % 8;
    return i % 3 === 1 ? bytes : Buffer.concat([hello, randomBytes(i * 20)]);
  });
  await Promise.all(cases.map(async (bytes) => {
    const attacker = await Wire.open(server.respsPort);
    await attacker.send(bytes);
    attacker.finish();
    await attacker.rest();
  }));
  // Within a connection that has ended its handshake.
  for (let i = 0; i < 30; ++i) {
    const raw = connectTcp({ port: server.respsPort, host: '127.0.0.1' });
    const socket = tls.connect({ socket: raw, ca: pem('ca'), servername: 'localhost' });
    const attacker = await Wire.over(socket, 'secureConnect');
    await attacker.send(ping);
    assert.equal(await attacker.reply(), 'PONG');
    raw.write(Buffer.concat([Buffer.from([23, 3, 3, 0, 64]), randomBytes(64 + i)]));
    await new Promise((done) => raw.once('close', done).resume());
  }
  await wire.send(ping);
  assert.equal(await wire.reply(), 'PONG');
  wire.close();
});

// The first message of a client.
function clientHello() {
  return new Promise((done) => {
    const listener = createServer((socket) => {
      socket.once('data', (bytes) => {
        socket.destroy();
        listener.close();
        done(bytes);
      });
    });
    listener.listen(0, '127.0.0.1', () => {
      tls.connect({ port: listener.address().port, host: '127.0.0.1' }).on('error', () => {});
    });
  });
}

test('unfinished handshakes lock no one out', async () => {
  const hello = await clientHello();
  const small = await start(['--max-connections', '40', '--connection-memory', '16MiB', '--threads', '1']);
  const served = await pings(small.respsPort);
  const idle = [];
  for (let i = 0; i < 200; ++i) {
    const wire = await Wire.open(small.respsPort);
    idle.push(wire);
    if (i % 2 === 0) await wire.send(hello.subarray(0, i % 4 === 0 ? 1 : hello.length));
  }
  (await pings(small.respsPort)).close();
  await served.send(ping);
  assert.equal(await served.reply(), 'PONG');
  assert.ok((await small.metric('weir_connections_evicted_total', 'frontend="resp"')) >= 160);
  for (const wire of idle) wire.close();
  await small.stop();
});

test('memory for handshakes is bounded, and old ones make way', async () => {
  const hello = await clientHello();
  const small = await start(['--connection-memory', '16MiB', '--threads', '1']);
  const idle = [];
  for (let i = 0; i < 300; ++i) {
    const wire = await Wire.open(small.respsPort);
    await wire.send(hello);
    idle.push(wire);
  }
  (await pings(small.respsPort)).close();
  assert.ok((await small.metric('weir_connections_evicted_total', 'frontend="resp"')) > 0);
  assert.equal(await small.metric('weir_connections_refused_total'), 0);
  for (const wire of idle) wire.close();
  await small.stop();
});

const kMiB = 2 ** 20;
const kMargin = 32 * kMiB;
const kSanitized = process.env.ASAN_OPTIONS !== undefined || process.env.TSAN_OPTIONS !== undefined;

// 2,000 strangers of each kind at each front end took 380 MB, which were never returned.
test('strangers of all front ends together hold 64 MiB, which are returned', { skip: kSanitized }, async () => {
  const hello = await clientHello();
  const flooded = await start(['--resp-auth', 'required', '--max-connections-per-address', '10000', '--threads', '2']);
  const resident = () => {
    const status = readFileSync(`/proc/${flooded.pid}/status`, 'utf8');
    return 1024 * Number(status.match(/^VmRSS:\s+(\d+) kB$/m)[1]);
  };
  await limit(flooded.httpsPort);
  const before = resident();
  const strangers = [];
  let most = 0;
  const connected = (port, bytes) =>
    new Promise((done) => {
      const socket = connectTcp({ port, host: '127.0.0.1' }, () => socket.write(bytes, done));
      socket.on('error', done).on('close', done);
      strangers.push(socket);
    });
  const heads = {
    httpPort: 'GET / HTTP/1.1\r\nX: ' + 'x'.repeat(15_000),
    respPort: `*2\r\n$4\r\nECHO\r\n$15000\r\n` + 'x'.repeat(14_000),
  };
  for (const part of [0.5, 1]) {
    for (const port of ['httpsPort', 'respsPort', 'httpPort', 'respPort']) {
      const bytes = heads[port] ?? hello.subarray(0, part * hello.length);
      for (let i = 0; i < 20; ++i) {
        await Promise.all(Array.from({ length: 100 }, () => connected(flooded[port], bytes)));
        most = Math.max(most, resident());
      }
    }
  }
  // Clients with a key are served meanwhile.
  assert.equal((await limit(flooded.httpsPort)).status, 200);
  // The heap keeps what handshakes took for a second, while requests take their place.
  assert.ok(most - before <= 2 * 64 * kMiB + kMargin, `${(most - before) / kMiB} MiB`);
  for (const socket of strangers) socket.destroy();
  await until('the memory to be returned', () => resident() - before <= kMargin);
  await flooded.stop();
});

test('connections above the maximum, all of the root key, are closed', async () => {
  const small = await start(['--max-connections', '10', '--max-connections-per-address', '10', '--threads', '1']);
  const served = [];
  for (let i = 0; i < 10; ++i) {
    const wire = await pings(small.respsPort);
    await wire.send(command('AUTH', kRootKey));
    assert.equal(await wire.reply(), 'OK');
    served.push(wire);
  }
  await assert.rejects(new Promise((resolve, reject) => {
    tls.connect({ port: small.respsPort, host: '127.0.0.1', ca: pem('ca') }, resolve).on('error', reject);
  }));
  assert.equal(await small.metric('weir_connections_refused_total', 'reason="connections"'), 1);
  for (const wire of served) wire.close();
  await small.stop();
});

test('a wrong key gets its answer, and the connection goes on', async () => {
  const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
  const answers = await Promise.all(
    ['a wrong key', kRootKey].map((key) => limit(server.httpsPort, { agent, headers: { authorization: `Bearer ${key}` } })),
  );
  assert.deepEqual(answers.map(({ status }) => status), [401, 200]);
  agent.destroy();
});

// --- certificates that change

const subjectOf = (wire) => wire.socket.getPeerCertificate().subject.CN;

// Replaces the certificate of a server, like tools that renew it.
function install(name, { cert = name, key = name } = {}) {
  for (const [from, to] of [[`${cert}.pem`, 'live.pem'], [`${key}.key.pem`, 'live.key.pem']]) {
    writeFileSync(at(`${to}.new`), readFileSync(at(from)));
    renameSync(at(`${to}.new`), at(to));
  }
}

test('a changed certificate is loaded, a broken one is not, and open connections go on', async () => {
  certify('renewed', { ca: 'ca' });
  certify('third', { ca: 'ca' });
  install('server');
  const changing = await start([], ['--tls-cert', at('live.pem'), '--tls-key', at('live.key.pem')]);
  const wire = await pings(changing.respsPort);
  assert.equal(subjectOf(wire), 'server');

  install('renewed');
  await until('the new certificate', () => /new certificate loaded: CN = renewed, valid until 2/.test(changing.stderr));
  const second = await pings(changing.respsPort);
  assert.equal(subjectOf(second), 'renewed');

  install('third', { key: 'client' });
  await until('an error', () =>
    /tls-key is '\S+live.key.pem': the key does not belong to the certificate in tls-cert .* The old certificate stays in use: CN = renewed/
      .test(changing.stderr));
  assert.equal(subjectOf(await pings(changing.respsPort)), 'renewed');
  changing.child.kill('SIGHUP');
  await until('an error', () => /does not belong[^]*does not belong[^]*the settings did not change/.test(changing.stderr));
  assert.equal(subjectOf(await pings(changing.respsPort)), 'renewed');

  install('third');
  changing.child.kill('SIGHUP');
  await until('the third certificate', () => /new certificate loaded: CN = third/.test(changing.stderr));
  assert.equal(subjectOf(await pings(changing.respsPort)), 'third');
  assert.doesNotMatch(changing.output, /BEGIN|PRIVATE/);
  for (const each of [wire, second]) {
    await each.send(ping);
    assert.equal(await each.reply(), 'PONG');
    each.close();
  }
  await changing.stop();
});

test('SIGHUP applies changed tls settings', async () => {
  const file = at('weir.yaml');
  const settings = (more) =>
    writeFileSync(file, `https: 127.0.0.1:0\nresps: 127.0.0.1:0\ntls-cert: ${at('server.pem')}\ntls-key: ${at('server.key.pem')}\n${more}`);
  settings('');
  const changing = await startServer({ args: ['--config', file] });
  (await pings(changing.respsPort)).close();
  settings(`tls-client-ca: ${at('ca.pem')}\n`);
  changing.child.kill('SIGHUP');
  await until('the reload', () => /settings reloaded; changed: tls-client-ca\n/.test(changing.stderr));
  await assert.rejects(limit(changing.httpsPort));
  assert.equal((await limit(changing.httpsPort, { cert: pem('client'), key: readFileSync(at('client.key.pem')) })).status, 200);
  await changing.stop();
});

test('errors at the start name the setting, the file and the remedy', async () => {
  const serve = (...args) => weir(['serve', '--data', temporaryFolder(), '--http', 'off', '--resp', 'off', ...args], { key: kRootKey });
  for (const [args, wanted] of [
    [['--https', '127.0.0.1:0'], /tls-cert is missing, but https is '127.0.0.1:0': name the PEM files/],
    [['--resps', '127.0.0.1:0', '--tls-cert', '/no/such', '--tls-key', '/no/such'], /tls-cert is '\/no\/such': it cannot be read: No such file/],
    [['--https', '127.0.0.1:0', '--tls-cert', at('server.pem'), '--tls-key', at('client.key.pem')], /the key does not belong/],
    [['--https', '0.0.0.0:0', ...kFiles], /https is '0.0.0.0:0', which is not a loopback address: add --allow-public/],
    [['--resps', '127.0.0.1:0', ...kFiles, '--tls-min-version', '1.1'], /it must be 1.2 or 1.3/],
  ]) {
    const { code, stderr } = await serve(...args);
    assert.notEqual(code, 0);
    assert.match(stderr, wanted);
    assert.doesNotMatch(stderr, /PRIVATE/);
  }
});

// --- the drain

test('SIGTERM loses no request that was sent, and ends connections properly', async () => {
  const stopping = await start(['--drain-grace', '5s']);
  const piped = await pings(stopping.respsPort);
  const idle = await pings(stopping.respsPort);
  let ended = false;
  idle.socket.on('end', () => (ended = true)); // with a close_notify; an error otherwise
  await piped.send(Buffer.concat(Array.from({ length: 5000 }, (_, i) => command('ECHO', `${i}`))));
  assert.equal(await piped.reply(), '0');
  const silent = await Wire.open(stopping.respsPort); // never begins its handshake
  stopping.child.kill('SIGTERM');
  const rest = await piped.replies(4999);
  assert.equal(rest.at(-1), '4999');
  await idle.send(ping);
  assert.equal(await idle.reply(), 'PONG');
  assert.equal(await idle.rest(), '');
  assert.equal(ended, true);
  silent.close();
  await stopping.stop();
});

test('keep-alive clients lose nothing when a server with TLS stops', async () => {
  const stopping = await start(['--drain-grace', '2s']);
  let closing = 0;
  let answered = 0;
  const clients = Array.from({ length: 8 }, async () => {
    const own = new https.Agent({ keepAlive: true, maxSockets: 1 });
    for (;;) {
      const { status, headers } = await limit(stopping.httpsPort, { agent: own });
      assert.equal(status, 200);
      ++answered;
      if (headers.connection !== 'close') continue;
      ++closing;
      return own.destroy();
    }
  });
  await until('some answers', () => answered > 50);
  stopping.child.kill('SIGTERM');
  await Promise.all(clients);
  assert.equal(closing, 8);
  await stopping.stop();
});
