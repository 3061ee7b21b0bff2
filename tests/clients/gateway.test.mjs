// Real gateways that ask /v1/check: nginx, HAProxy and Caddy with the files in examples/gateways. Then the
// requests that other gateways send, without these gateways.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { connect } from 'node:net';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { freePort, freeze, kLongWindow, Origin, startNode, until, untilConnected } from './region.mjs';
import { kRootKey, run, startServer, temporaryFolder, withTimeout } from './server.mjs';

const kExamples = fileURLToPath(new URL('../../examples/gateways/', import.meta.url));
const kPolicy = `"login";q=5;w=${kLongWindow / 1000}`;
const kKeyOfExamples = 'replace-this-with-a-long-secret';
const kHasIpv6 = Object.values(networkInterfaces()).flat().some(({ address }) => address === '::1');
const example = (name) => readFileSync(join(kExamples, name), 'utf8');

const children = new Set();
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL');
});

// One request on a connection of its own, from any loopback address.
function ask(port, { host = '127.0.0.1', from, method = 'GET', path = '/', headers = {}, socketPath } = {}) {
  const answer = new Promise((resolve, reject) => {
    const target = socketPath ? { socketPath } : { host, port, localAddress: from };
    const sent = request({ ...target, method, path, headers, agent: false }, (response) => {
      let body = '';
      response.on('data', (text) => (body += text));
      response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, body }));
      response.on('error', reject);
    });
    sent.on('error', reject);
    sent.end();
  });
  return withTimeout(`an answer to ${method} ${path}`, answer);
}

// The status of a request whose line is sent as it stands, which the HTTP client of this process would refuse.
async function sendRaw(port, { from, method, path }) {
  const socket = connect({ port, host: '127.0.0.1', localAddress: from });
  let received = '';
  socket.on('data', (text) => (received += text));
  socket.on('error', () => {});
  const closed = new Promise((done) => socket.on('close', done));
  socket.write(`${method} ${path} HTTP/1.1\r\nHost: app\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
  await withTimeout(`an answer to ${method} ${path}`, closed);
  return Number(received.match(/^HTTP\/1\.1 (\d{3}) /)?.[1]);
}

// The statuses of equal requests, one after the other.
async function statuses(count, port, options) {
  const all = [];
  for (let i = 0; i < count; ++i) all.push((await ask(port, options)).status);
  return all;
}

// The application behind a gateway: counts requests by path.
class Application {
  hits = new Map();

  async start() {
    this.server = createServer((asked, answer) => {
      const path = asked.url.split('?')[0];
      this.hits.set(path, (this.hits.get(path) ?? 0) + 1);
      answer.statusCode = path === '/forbidden' ? 403 : 200;
      answer.end(`for ${asked.headers['x-forwarded-for']}\n`);
    });
    await new Promise((done) => this.server.listen(0, '127.0.0.1', done));
    this.port = this.server.address().port;
    return this;
  }
  count(path) {
    return this.hits.get(path) ?? 0;
  }
  stop() {
    this.server.closeAllConnections();
    return new Promise((done) => this.server.close(done));
  }
}

// A gateway of examples/gateways, on free ports.
class Gateway {
  constructor(name) {
    this.name = name;
  }

  // `ready`: the status of an answer once it listens; null: any.
  async start(weirPort, applicationPort, { key = kRootKey, ready = 200 } = {}) {
    this.port = await freePort();
    const lua = await freePort();
    const folder = temporaryFolder();
    const edit = (text) =>
      text
        .replaceAll('127.0.0.1:7070', `127.0.0.1:${weirPort}`)
        .replaceAll('127.0.0.1:9000', `127.0.0.1:${applicationPort}`)
        .replaceAll(/:808[013]\b/g, `:${this.port}`)
        .replaceAll(':8082', `:${lua}`)
        .replaceAll(kKeyOfExamples, key)
        // For a busy machine; less than the delay of a wrong key.
        .replaceAll(/(timeout[ a-z]* )[15]00ms/g, '$1900ms')
        .replaceAll(kHasIpv6 ? /^$/g : /^.*\[::1\].*$/gm, '');
    if (this.name === 'nginx') {
      writeFileSync(join(folder, 'nginx.conf'), edit(example('nginx.conf')));
      // One process, so that it ends with its id.
      const options = `master_process off;${process.getuid() === 0 ? ' user root;' : ''}`;
      this.#spawn('nginx', ['-p', folder, '-c', join(folder, 'nginx.conf'), '-g', options]);
    } else if (this.name === 'caddy') {
      const file = join(folder, 'Caddyfile');
      writeFileSync(file, edit(example('Caddyfile').replace(kHasIpv6 ? '' : ' [::1]', '')));
      // It keeps files in its home.
      const env = { WEIR_KEY: key, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder };
      this.#spawn('caddy', ['run', '--config', file], env);
    } else {
      writeFileSync(join(folder, 'haproxy.cfg'), edit(example('haproxy.cfg')));
      writeFileSync(join(folder, 'weir.lua'), edit(example('weir.lua')));
      this.#spawn('haproxy', ['-f', join(folder, 'haproxy.cfg')], { WEIR_KEY: key });
    }
    await until(`${this.name} to listen`, async () => {
      assert.equal(this.child.exitCode, null, this.log);
      return ask(this.port, { path: '/ready' }).then((answer) => ready === null || answer.status === ready, () => false);
    });
    return this;
  }

  #spawn(program, args, env = {}) {
    this.log = '';
    this.child = spawn(program, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
    children.add(this.child);
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream.on('data', (text) => (this.log = (this.log + text).slice(-10_000)));
    }
    this.ended = new Promise((done) => this.child.on('close', done));
  }

  async stop() {
    this.child.kill('SIGTERM');
    await withTimeout(`${this.name} to end`, this.ended);
    children.delete(this.child);
  }
}

// The rules of the examples, with windows that no test outlives.
function rulesFile(folder) {
  const file = join(folder, 'weir.yaml');
  writeFileSync(file, example('weir.yaml').replaceAll('duration: 60s', `duration: ${kLongWindow}ms`));
  return file;
}

// What the client gets while Weir is down, while it is slow, and while it refuses the gateway.
for (const [name, whileDown, whileSlow, refused] of [
  ['nginx', 200, 200, 500],
  ['haproxy', 503, 503, 503],
  ['caddy', 502, 504, 503],
]) {
  describe(`${name} with the file in examples/`, () => {
    const folder = temporaryFolder();
    const file = rulesFile(folder);
    let weirPort, weir, application, gateway;
    const startWeir = async () => {
      weir = await startServer({ data: folder, args: ['--config', file, '--http', `127.0.0.1:${weirPort}`] });
    };
    before(async () => {
      weirPort = await freePort();
      application = await new Application().start();
      await startWeir();
      gateway = await new Gateway(name).start(weirPort, application.port);
    });
    after(async () => {
      await gateway.stop();
      await weir.stop();
      await application.stop();
    });
    const login = (options) => ({ method: 'POST', path: '/login', ...options });

    test('requests within the limit pass, with headers', async () => {
      const answer = await ask(gateway.port, login({ from: '127.0.0.2' }));
      assert.deepEqual([answer.status, answer.body], [200, 'for 127.0.0.2\n']);
      assert.equal(answer.headers['ratelimit-policy'], kPolicy);
      assert.match(answer.headers.ratelimit, /^"login";r=4;t=\d+$/);
      assert.equal(answer.headers['retry-after'], undefined);
    });

    test('requests beyond the limit get 429 and Retry-After, and do not reach the application', async () => {
      const before = application.count('/login');
      assert.deepEqual(await statuses(7, gateway.port, login({ from: '127.0.0.3' })), [
        200, 200, 200, 200, 200, 429, 429,
      ]);
      assert.equal(application.count('/login') - before, 5);
      const { status, headers, body } = await ask(gateway.port, login({ from: '127.0.0.3' }));
      assert.equal(status, 429);
      assert.match(headers['retry-after'], /^[1-9]\d*$/);
      assert.match(headers.ratelimit, /^"login";r=0;t=\d+$/);
      assert.equal(headers['ratelimit-policy'], kPolicy);
      assert.equal(body.trim(), 'rate limit exceeded');
    });

    test('curl gets the same', async () => {
      const args = ['-s', '-w', '\n%{http_code}\n', '-X', 'POST', '-d', 'user=x', '--interface', '127.0.0.4'];
      const url = `http://127.0.0.1:${gateway.port}/login`;
      const { stdout } = await run('curl', [...args, ...Array(6).fill(url)]);
      assert.deepEqual(stdout.match(/^\d{3}$/gm), ['200', '200', '200', '200', '200', '429']);
    });

    test('requests without a rule pass, without headers', async () => {
      const answer = await ask(gateway.port, { path: '/other' });
      assert.deepEqual([answer.status, answer.headers.ratelimit], [200, undefined]);
      assert.deepEqual(await statuses(8, gateway.port, { path: '/login' }), Array(8).fill(200)); // GET
    });

    test('a status 403 of the application stays as it is', async () => {
      assert.equal((await ask(gateway.port, { path: '/forbidden' })).status, 403);
    });

    test('a client cannot choose its address, its path or the answer', async () => {
      const from = '127.0.0.5';
      const all = [];
      for (let i = 0; i < 8; ++i) {
        const spoofed = {
          'X-Forwarded-For': `203.0.113.${i}`,
          Forwarded: `for=203.0.113.${i}`,
          'X-Real-IP': `203.0.113.${i}`,
          'X-Forwarded-Uri': '/free',
          'X-Original-URI': '/free',
          'X-Forwarded-Method': 'GET',
          'X-Original-Method': 'GET',
          'X-Forwarded-Host': 'free.example',
          'X-Weir-Key': 'the_key_of_an_attacker',
          Authorization: 'Basic abc',
          'Content-Encoding': 'gzip',
        };
        const path = ['/login', '/%6cogin', '//login', '/./login?a=b', '/x/../login'][i % 5];
        all.push((await ask(gateway.port, { ...login({ from, headers: spoofed }), path })).status);
      }
      assert.deepEqual(all, [200, 200, 200, 200, 200, 429, 429, 429]);
    });

    test('an IPv6 client is counted by its prefix', { skip: !kHasIpv6 }, async () => {
      const answer = await ask(gateway.port, login({ host: '::1' }));
      assert.deepEqual([answer.status, answer.body], [200, 'for ::1\n']);
      assert.deepEqual(await statuses(5, gateway.port, login({ host: '::1' })), [200, 200, 200, 200, 429]);
    });

    test('a request without a Host, and an absolute URL, are limited too', async () => {
      const args = ['-s', '-w', '\n%{http_code}\n', '-X', 'POST', '--http1.0', '-H', 'Host:', '--interface', '127.0.0.6'];
      const url = `http://127.0.0.1:${gateway.port}/login`;
      const direct = await run('curl', [...args, ...Array(3).fill(url)]);
      assert.deepEqual(direct.stdout.match(/^\d{3}$/gm), ['200', '200', '200'], direct.stdout);
      const headers = { Host: 'app.example' };
      const options = { ...login({ from: '127.0.0.6', headers }), path: 'http://app.example/login' };
      assert.deepEqual(await statuses(3, gateway.port, options), [200, 200, 429]);
    });

    test('a rule may identify a client by a header', async () => {
      const keyed = (key) => ({ path: '/api/x', headers: { 'X-Api-Key': key } });
      const { headers } = await ask(gateway.port, keyed('alice'));
      assert.match(headers.ratelimit, /^"api";r=99;/);
      assert.match((await ask(gateway.port, keyed('bob'))).headers.ratelimit, /^"api";r=99;/);
      assert.match((await ask(gateway.port, keyed('alice'))).headers.ratelimit, /^"api";r=98;/);
      assert.match((await ask(gateway.port, { path: '/api/x' })).headers.ratelimit, /^"anonymous";r=9;/);
    });

    test('of the requests of wrk, exactly the limit passes', async () => {
      const url = `http://127.0.0.1:${gateway.port}/api/wrk`;
      const args = ['-t', '1', '-c', '4', '-d', '1s', '-H', 'X-Api-Key: wrk', url];
      const { code, stdout, stderr } = await run('wrk', args);
      assert.equal(code, 0, stderr);
      assert.doesNotMatch(stdout, /Socket errors/);
      const answered = Number(stdout.match(/(\d+) requests in/)[1]);
      assert.ok(answered > 100, stdout);
      assert.equal(Number(stdout.match(/Non-2xx or 3xx responses: (\d+)/)[1]), answered - 100);
      assert.equal(application.count('/api/wrk'), 100);
    });

    const call = async (operation, body) => {
      const answer = await fetch(`http://127.0.0.1:${weirPort}/v2/${operation}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${kRootKey}` },
        body: JSON.stringify(body),
      });
      return { status: answer.status, data: (await answer.json()).data };
    };
    const createKey = async (expires) => {
      const permissions = ['ratelimit.*.limit', 'ratelimit.*.create_namespace'];
      const { status, data } = await call('keys.createKey', { name: 'gateway', permissions, expires });
      assert.equal(status, 200);
      return data;
    };
    const started = (options) => new Gateway(name).start(weirPort, application.port, options);
    // Requests that must not reach the application, among them such without a limit.
    const assertRefused = async (port) => {
      const before = application.count('/login') + application.count('/other');
      const logins = await statuses(8, port, login({ from: '127.0.0.7' }));
      const others = await statuses(4, port, { path: '/other' });
      assert.deepEqual([...logins, ...others], Array(12).fill(refused));
      assert.equal(application.count('/login') + application.count('/other'), before);
    };

    test(`with a wrong key requests get ${refused}, the first one too`, async () => {
      const other = await started({ key: 'weir_root_of_another_server', ready: null });
      await assertRefused(other.port);
      await other.stop();
    });

    test(`with a key that was rotated or has expired requests get ${refused}`, async () => {
      const old = await createKey();
      const other = await started({ key: old.key });
      assert.equal((await ask(other.port, login({ from: '127.0.0.8' }))).status, 200);
      const rotated = await call('keys.rotateKey', { keyId: old.keyId });
      assert.equal(rotated.status, 200);
      await assertRefused(other.port);
      await other.stop();
      const next = await started({ key: rotated.data.key });
      assert.equal((await ask(next.port, login({ from: '127.0.0.8' }))).status, 200);
      await next.stop();
      const short = await createKey(Date.now() + 3000);
      const last = await started({ key: short.key, ready: refused });
      await assertRefused(last.port);
      await last.stop();
    });

    test('a key without the permission, and a rule in error, are no denial and no failure of Weir', async () => {
      const { data } = await call('keys.createKey', { name: 'peeks', permissions: ['ratelimit.*.peek'] });
      const other = await started({ key: data.key });
      const from = '127.0.0.9';
      const before = application.count('/login');
      assert.deepEqual(await statuses(4, other.port, login({ from })), Array(4).fill(refused));
      await other.stop();
      await until('the namespace of the rule', async () => {
        return (await call('ratelimit.deleteNamespace', { namespace: 'login' })).status === 200;
      });
      assert.deepEqual(await statuses(4, gateway.port, login({ from })), Array(4).fill(refused));
      assert.equal(application.count('/login'), before);
      assert.equal((await call('ratelimit.createNamespace', { name: 'login' })).status, 200);
      assert.equal((await ask(gateway.port, login({ from }))).status, 200);
    });

    test(`while Weir is slow requests get ${whileSlow}`, async () => {
      const from = '127.0.0.10';
      try {
        await freeze(weir.child);
        assert.deepEqual(await statuses(3, gateway.port, login({ from })), Array(3).fill(whileSlow));
      } finally {
        process.kill(weir.pid, 'SIGCONT');
      }
      await until('a limit', async () => (await ask(gateway.port, login({ from }))).status === 429);
    });

    test('no spelling of a method or a path leaves its rule', async () => {
      const from = '127.0.0.11';
      const spellings = ['/login;a=b', '/\\login', '/%2flogin', '/%5clogin', '/x/..;/login', '/x%2f..%2flogin'];
      for (const path of [...spellings, ...spellings, ...spellings]) {
        await sendRaw(gateway.port, { from, method: 'POST', path });
      }
      const answers = await Promise.all(
        [...spellings, '/login'].map((path) => sendRaw(gateway.port, { from, method: 'POST', path })),
      );
      // A gateway may refuse a spelling itself.
      for (const status of answers) assert.ok([400, 429].includes(status), answers.join());
      assert.equal(answers.at(-1), 429);
      const other = { from: '127.0.0.12', method: 'post', path: '/login' };
      for (let i = 0; i < 5; ++i) await sendRaw(gateway.port, other);
      // nginx refuses such a method itself.
      assert.equal(await sendRaw(gateway.port, other), name === 'nginx' ? 400 : 429);
    });

    test(`while Weir is down requests get ${whileDown}, and limits apply again afterwards`, async () => {
      const denied = login({ from: '127.0.0.3' });
      await weir.stop();
      assert.deepEqual(await statuses(3, gateway.port, denied), Array(3).fill(whileDown));
      await startWeir();
      // A gateway may leave out a server that failed, for some seconds.
      const expected = (status) => [200, 429, whileDown].includes(status);
      await until('a limit', async () => {
        const { status } = await ask(gateway.port, denied);
        assert.ok(expected(status), `${status}`);
        return status === 429;
      });
    });
  });
}

describe('/v1/check', () => {
  const folder = temporaryFolder();
  const socketPath = join(folder, 'http.sock');
  const file = join(folder, 'weir.yaml');
  const rules = (limit, more = '') => `
http-socket: ${socketPath}
check:
  trusted-proxies: [127.0.0.1, unix]
  ${more}
  rules:
    - {name: login, match: {method: POST, path: /login}, identifier: "{address}", limit: ${limit}, duration: ${kLongWindow}ms}
    - {name: user, identifier: "{header:authorization}", limit: ${limit}, duration: ${kLongWindow}ms}
`;
  let weir;
  before(async () => {
    writeFileSync(file, rules(2));
    weir = await startServer({ args: ['--config', file] });
  });
  after(() => weir.stop());

  const key = { 'X-Weir-Key': kRootKey };
  const original = (address) => ({
    ...key,
    'X-Forwarded-Method': 'POST',
    'X-Forwarded-Uri': '/login?next=/',
    'X-Forwarded-Proto': 'https',
    'X-Forwarded-Host': 'app.example.com',
    'X-Forwarded-For': address,
  });
  const check = (headers, options = {}) => ask(weir.httpPort, { path: '/v1/check', headers, ...options });
  const reload = async (yaml, logged) => {
    const before = weir.stderr.length;
    writeFileSync(file, yaml);
    process.kill(weir.pid, 'SIGHUP');
    await until('a reload', () => logged.test(weir.stderr.slice(before)));
  };

  test('X-Forwarded-For is believed from a trusted proxy only', async () => {
    for (let i = 0; i < 3; ++i) {
      assert.equal((await check(original(`203.0.113.${i}`))).status, 200);
      const direct = await check(original(`203.0.113.${100 + i}`), { from: '127.0.0.2' });
      assert.equal(direct.status, i < 2 ? 200 : 429);
      const local = await check(original(`203.0.113.${200 + i}`), { socketPath });
      assert.equal(local.status, 200);
    }
    // The right-most address counts, in any spelling; garbage leaves the proxy's.
    for (const [address, status] of [
      ['198.51.100.1, 203.0.113.50', 200],
      ['198.51.100.2, ::ffff:203.0.113.50', 200],
      ['198.51.100.3, 203.0.113.50:1234', 429],
      ['2001:db8::1', 200],
      ['[2001:db8::ffff:0:0:2]:443', 200],
      ['2001:db8:0:0:ffff::3', 429],
      ['2001:db8:0:1::1', 200],
      ['203.0.113.60, <script>', 200],
      ['203.0.113.61, unknown', 200],
      ['203.0.113.62, 1.2.3', 429],
    ]) {
      assert.equal((await check(original(address))).status, status, address);
    }
  });

  test('the key is in X-Weir-Key or in Authorization', async () => {
    assert.equal((await check({ Authorization: `Bearer ${kRootKey}` })).status, 200);
    assert.equal((await check({ ...key, Authorization: 'Bearer of-the-client' })).status, 200);
    assert.equal((await check({})).status, 400);
    assert.equal((await check({ 'X-Weir-Key': 'not_the_key_of_this_server' })).status, 401);
  });

  // As Traefik sends them: GET, with the headers of the client.
  test('the Authorization of the client may identify it', async () => {
    const of = (user) => check({ ...original('203.0.113.70'), 'X-Forwarded-Uri': '/', Authorization: user });
    assert.deepEqual([(await of('Basic a')).status, (await of('Basic a')).status], [200, 200]);
    const denied = await of('Basic a');
    assert.deepEqual([denied.status, denied.body], [429, 'rate limit exceeded\n']);
    assert.match(denied.headers['retry-after'], /^\d+$/);
    assert.equal((await of('Basic b')).status, 200);
  });

  // As Envoy sends them: the original method, path and query behind a prefix.
  test('/v1/check/PATH is the original request itself', async () => {
    const headers = { ...key, 'X-Forwarded-For': '203.0.113.80' };
    const envoy = { method: 'POST', path: '/v1/check/login?denied=nothing' };
    assert.deepEqual(await statuses(3, weir.httpPort, { ...envoy, headers }), [200, 200, 429]);
    const options = await check(headers, { method: 'OPTIONS', path: '/v1/check/login' });
    assert.deepEqual([options.status, options.headers.ratelimit], [200, undefined]);
  });

  test('?denied=403 chooses the status of a denial', async () => {
    const headers = original('203.0.113.90');
    const statusOf = async (path) => (await check(headers, { path })).status;
    assert.deepEqual([await statusOf('/v1/check'), await statusOf('/v1/check')], [200, 200]);
    assert.equal(await statusOf('/v1/check?denied=403'), 403);
    assert.equal(await statusOf('/v1/check?denied=429'), 429);
    assert.equal(await statusOf('/v1/check?denied=200'), 400);
  });

  test('SIGHUP replaces the rules, and a broken file keeps them', async () => {
    const headers = original('203.0.113.110');
    const limitOf = async () => (await check(headers)).headers['ratelimit-policy'].match(/q=(\d+)/)[1];
    assert.equal(await limitOf(), '2');
    await reload(rules(7, 'denied-status: 403'), /settings reloaded; changed: check\n/);
    assert.equal(await limitOf(), '7');
    await reload(rules(0), /weir\.yaml:7:\d+: limit is '0': it must be[^]*the settings did not change\n/);
    assert.equal(await limitOf(), '7');
    await reload('', /weir\.yaml: is empty: [^]*the settings did not change\n/);
    assert.equal(await limitOf(), '7');
    await reload(rules(7, 'denied-status: 403'), /settings reloaded; changed: nothing\n/);
    await reload(rules(1, 'denied-status: 403'), /settings reloaded; changed: check\n/);
    assert.equal((await check(headers)).status, 403);
    await reload(`http-socket: ${socketPath}\n`, /settings reloaded; changed: check\n/);
    assert.equal((await check(headers)).headers.ratelimit, undefined);
    await reload(rules(2), /settings reloaded; changed: check\n/);
  });

  test('Prefer: status=429 makes a denial a status', async () => {
    const limit = async (headers) => {
      const answer = await fetch(`${weir.url}/v2/ratelimit.limit`, {
        method: 'POST',
        headers: { authorization: `Bearer ${kRootKey}`, ...headers },
        body: JSON.stringify({ namespace: 'n', identifier: 'prefer', limit: 1, duration: kLongWindow }),
      });
      const applied = answer.headers.get('preference-applied');
      return [answer.status, (await answer.json()).data.success, applied];
    };
    const prefer = { Prefer: 'status=429' };
    assert.deepEqual(await limit(prefer), [200, true, null]);
    assert.deepEqual(await limit(prefer), [429, false, 'status=429']);
    assert.deepEqual(await limit({}), [200, false, null]);
  });
});

test('processes with an origin share the limits of rules', async () => {
  const origin = new Origin();
  await origin.start();
  const file = join(temporaryFolder(), 'weir.yaml');
  const rule = (name, consistency) =>
    `{name: ${name}, identifier: all, limit: 10, duration: ${kLongWindow}ms, consistency: ${consistency}}`;
  writeFileSync(file, `check: {rules: [${rule('a', 'exact')}, ${rule('b', 'converge')}]}`);
  const nodes = [];
  for (let i = 0; i < 2; ++i) nodes.push(await startNode(origin.url, { args: ['--config', file] }));
  await untilConnected(nodes);
  let admitted = 0;
  for (let i = 0; i < 24; ++i) {
    const headers = { 'X-Weir-Key': kRootKey };
    const { status } = await ask(nodes[i % 2].server.httpPort, { path: '/v1/check', headers });
    if (status === 200) ++admitted;
  }
  assert.equal(admitted, 10);
  for (const node of nodes) await node.stop();
  await origin.kill();
});
