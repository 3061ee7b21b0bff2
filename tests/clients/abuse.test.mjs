// Attacks by unauthenticated clients, and shutdown under load. Prints memory per unauthenticated
// client, used connections, and requests lost in a drain.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { test } from 'node:test';

import Redis from 'ioredis';

import { kRootKey, withTimeout, run, startServer } from './server.mjs';
import { command, Wire } from './wire.mjs';

const kQuietTime = 100; // ms; of the server
const kKiB = 1024;
const kMiB = 1024 * kKiB;
const kSanitized = process.env.ASAN_OPTIONS !== undefined || process.env.TSAN_OPTIONS !== undefined;

// A server that gets a signal exits with code 0.
async function endOf(server) {
  const end = await withTimeout('the server to stop', server.ended);
  assert.deepEqual(end, { code: 0, signal: null }, server.stderr);
}

const report = (text) => console.log(`# ${text}`);

async function served(args, body) {
  const server = await startServer({ args });
  try {
    return await body(server);
  } finally {
    await server.stop();
  }
}

function residentBytes(server) {
  const status = readFileSync(`/proc/${server.pid}/status`, 'utf8');
  return kKiB * Number(status.match(/^VmRSS:\s+(\d+) kB$/m)[1]);
}

async function until(what, holds) {
  const wait = async () => {
    while (!(await holds())) await new Promise((done) => setTimeout(done, 10));
  };
  await withTimeout(what, wait());
}

const authorization = { authorization: `Bearer ${kRootKey}` };

async function metric(server, name, ...labels) {
  const text = await (await fetch(`${server.url}/metrics`, { headers: authorization })).text();
  const lines = text
    .split('\n')
    .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
    .filter((line) => labels.every((label) => line.includes(label)));
  assert.ok(lines.length > 0, `no sample of ${name}`);
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}

// Connections that never read; counts received bytes and closed connections.
class Flood {
  open = 0;
  received = '';
  sockets = [];

  async join(count, port, { bytes, from = '127.0.0.1' } = {}) {
    const joining = Array.from({ length: count }, () => {
      const socket = connect({ port, host: '127.0.0.1', localAddress: from });
      this.sockets.push(socket);
      ++this.open;
      socket.on('data', (text) => (this.received += text));
      socket.on('error', () => {});
      socket.on('close', () => --this.open);
      const begun = new Promise((done) => {
        socket.on('connect', () => (bytes ? socket.write(bytes, done) : done()));
        socket.on('close', done);
      });
      return begun;
    });
    await withTimeout('a flood to connect', Promise.all(joining));
  }
  get answers() {
    return this.received.split('\n').length - 1;
  }
  leave() {
    for (const socket of this.sockets) socket.destroy();
  }
}

const sendCommand = async (port, ...words) => {
  const wire = await Wire.open(port);
  await wire.send(command(...words));
  const reply = await wire.reply();
  wire.close();
  return reply;
};

// --- memory before authentication

const kPublic = ['--allow-public', '--threads', '2'];
const kClients = 1500;
const kBody = kMiB - 1;
for (const [name, port, bytes] of [
  [
    'HTTP bodies without a key',
    'httpPort',
    `POST /v2/ratelimit.limit HTTP/1.1\r\nHost: h\r\nContent-Length: ${kBody}\r\n\r\n` +
      'x'.repeat(kBody - 1),
  ],
  [
    'HTTP bodies in chunks without a key',
    'httpPort',
    `POST /v2/ratelimit.limit HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n` +
      'x'.repeat(kBody - 1),
  ],
  [
    'HTTP bodies for a path that needs no key',
    'httpPort',
    `GET /healthz HTTP/1.1\r\nHost: h\r\nContent-Length: ${kBody}\r\n\r\n` + 'x'.repeat(kBody - 1),
  ],
  [
    'HTTP heads that do not end',
    'httpPort',
    'GET /healthz HTTP/1.1\r\nHost: h\r\nX: ' + 'x'.repeat(16_000),
  ],
  [
    'Redis requests before AUTH that do not end',
    'respPort',
    `*2\r\n$4\r\nAUTH\r\n$16000\r\n${'x'.repeat(15_900)}`,
  ],
  [
    'Redis requests before AUTH',
    'respPort',
    '*5\r\n' + `$60000\r\n${'x'.repeat(60_000)}\r\n`.repeat(4) + '$60000\r\n',
  ],
]) {
  test(`${name}: an unauthenticated client holds 16 KiB, and all of it is freed`, async () => {
    await served(kPublic, async (server) => {
      await fetch(`${server.url}/healthz`);
      const before = residentBytes(server);
      const flood = new Flood();
      let most = 0;
      const look = setInterval(() => (most = Math.max(most, residentBytes(server))), 5);
      await flood.join(kClients, server[port], { bytes });
      most = Math.max(most, residentBytes(server));
      clearInterval(look);
      flood.leave();
      await until('all connections to close', async () => {
        return (await metric(server, 'weir_connections')) <= 2;
      });
      const each = (most - before) / kClients;
      const kept = residentBytes(server) - before;
      report(
        `${name}: ${(each / kKiB).toFixed(1)} KiB per unauthenticated client, ` +
          `${(kept / kMiB).toFixed(1)} MiB kept after ${kClients} left`,
      );
      if (kSanitized) return; // sanitizers change the memory use
      assert.ok(each < 24 * kKiB, `${each} bytes per unauthenticated client`);
      assert.ok(kept < 16 * kMiB, `${kept} bytes kept`);
    });
  });
}

test('connection-memory limits authenticated clients, and the response names the reason', async () => {
  await served(['--connection-memory', '16MiB', '--threads', '1'], async (server) => {
    const before = residentBytes(server);
    const head =
      'POST /v2/ratelimit.limit HTTP/1.1\r\nHost: h\r\n' +
      `Authorization: Bearer ${kRootKey}\r\nContent-Length: ${kBody}\r\n\r\n`;
    const flood = new Flood();
    await flood.join(100, server.httpPort, { bytes: head + 'x'.repeat(kBody - 1) });
    await until('refusals', () => flood.received.includes('HTTP/1.1 503 '));
    assert.match(flood.received, /no memory for this request: send it again later/);
    const grown = residentBytes(server) - before;
    report(`100 bodies of 1 MiB with a key: ${(grown / kMiB).toFixed(1)} MiB of 16 MiB`);
    if (!kSanitized) assert.ok(grown < 24 * kMiB, `${grown} bytes`);
    assert.equal(await sendCommand(server.respPort, 'PING'), 'PONG', 'the other front end has its own');
    flood.leave();
    await until('memory for others', async () => {
      return (await fetch(`${server.url}/healthz`)).status === 200;
    });
    assert.ok((await metric(server, 'weir_connections_refused_total', 'memory')) > 0);
  });
});

// --- idle connections

test('idle connections use only unauthenticated places, and new clients are served', async () => {
  const most = 1000;
  const args = ['--max-connections', String(most), '--threads', '2'];
  await served(args, async (server) => {
    for (const [name, port] of [
      ['http', server.httpPort],
      ['resp', server.respPort],
    ]) {
      const flood = new Flood();
      await flood.join(most, port, { from: '127.0.0.2' });
      await flood.join(most, port, { from: '127.0.0.3' });
      let answered = 0;
      for (let i = 0; i < 50; ++i) {
        if (name === 'resp') {
          answered += (await sendCommand(port, 'PING')) === 'PONG' ? 1 : 0;
        } else {
          const wire = await Wire.open(port);
          await wire.send('GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n');
          answered += (await wire.answer()).status === 200 ? 1 : 0;
          wire.close();
        }
      }
      const held = await metric(server, 'weir_connections', `frontend="${name}"`);
      report(`${name}: ${2 * most} silent connections hold ${held} of ${most} places`);
      assert.equal(answered, 50, 'newcomers are answered');
      assert.ok(held <= 0.8 * most + 1, `${held} are held`); // plus the request for the metric
      assert.ok((await metric(server, 'weir_connections_evicted_total', `frontend="${name}"`)) >= most);
      flood.leave();
    }
  });
});

test('a connection without a byte is closed after ten seconds', async () => {
  await served([], async (server) => {
    const wires = [await Wire.open(server.respPort), await Wire.open(server.httpPort)];
    const spoken = await Wire.open(server.respPort);
    await spoken.send(command('PING'));
    assert.equal(await spoken.reply(), 'PONG');
    for (const wire of wires) assert.equal(await wire.rest(), '');
    await spoken.send(command('PING'));
    assert.equal(await spoken.reply(), 'PONG', 'a connection that sent a request may be idle for longer');
    spoken.close();
    for (const frontend of ['http', 'resp']) {
      const cut = await metric(server, 'weir_connections_timed_out_total', `frontend="${frontend}"`);
      assert.ok(cut >= 1);
    }
  });
});

test('one address cannot use all connections, and the refusal names the reason', async () => {
  const limits = ['--max-connections', '100', '--max-connections-per-address', '10'];
  const args = [...limits, '--threads', '1'];
  await served(args, async (server) => {
    const flood = new Flood();
    for (let i = 0; i < 60; ++i) {
      await flood.join(1, server.respPort, { bytes: command('PING'), from: '127.0.0.9' });
      await until('an answer', () => flood.answers > i);
    }
    await until('refusals', () => flood.open === 10);
    assert.match(flood.received, /-ERR max number of clients reached for this address\r\n/);
    assert.equal(flood.received.match(/\+PONG/g).length, 10);
    report(`one address without a key has ${flood.open} of 60 connections`);
    assert.equal(await sendCommand(server.respPort, 'PING'), 'PONG', 'another address is served');
    flood.leave();
    await until('a line in the log', () => server.stderr.includes('max-connections-per-address'));
    assert.match(server.stderr, /weir: resp: connections refused: .*, the last from 127\.0\.0\.9/);
  });
});

// A key that may do nothing, of the server's catalog.
async function powerlessKey(server) {
  await until('a ready server', async () => (await fetch(`${server.url}/readyz`)).status === 200);
  const answer = await fetch(`${server.url}/v2/keys.createKey`, {
    method: 'POST',
    headers: authorization,
    body: JSON.stringify({ name: 'k', permissions: [] }),
  });
  assert.equal(answer.status, 200);
  return (await answer.json()).data.key;
}

// Requests on connections of their own, as a health check, a balancer and the operator send them.
async function assertOthersAreServed(server) {
  for (let i = 0; i < 10; ++i) {
    for (const [method, path, status] of [
      ['GET', '/healthz', 200],
      ['GET', '/readyz', 200],
      ['POST', '/v2/ratelimit.limit', 200],
    ]) {
      const body = method === 'GET' ? '' : JSON.stringify({ namespace: 'n', identifier: 'i', limit: 99, duration: 1000 });
      const wire = await Wire.open(server.httpPort);
      await wire.send(
        `${method} ${path} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer ${kRootKey}\r\n` +
          `Connection: close\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      );
      assert.equal((await wire.answer()).status, status, `${path}, ${i}`);
      wire.close();
    }
  }
}

test('bodies of one key that never end leave memory for everybody else', async () => {
  await served(['--connection-memory', '16MiB', '--threads', '1'], async (server) => {
    const key = await powerlessKey(server);
    const head =
      'POST /v2/ratelimit.limit HTTP/1.1\r\nHost: h\r\n' +
      `Authorization: Bearer ${key}\r\nContent-Length: ${kBody}\r\n\r\n`;
    const flood = new Flood();
    await flood.join(60, server.httpPort, { bytes: head + 'x'.repeat(kBody - 1) });
    await until('refusals', () => flood.received.includes('HTTP/1.1 503 '));
    await assertOthersAreServed(server);
    flood.leave();
  });
});

test('idle connections of one key leave places for everybody else', async () => {
  const most = 100;
  await served(['--max-connections', String(most), '--threads', '1'], async (server) => {
    const key = await powerlessKey(server);
    const limit = JSON.stringify({ namespace: 'n', identifier: 'i', limit: 9, duration: 1000 });
    const asked =
      `POST /v2/ratelimit.limit HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer ${key}\r\n` +
      `Content-Length: ${limit.length}\r\n\r\n${limit}`;
    const flood = new Flood();
    for (let i = 0; i < 2 * most; ++i) {
      await flood.join(1, server.httpPort, { bytes: asked });
      await until('an answer', () => flood.received.split('HTTP/1.1 ').length > i + 1);
    }
    await assertOthersAreServed(server);
    report(`one key holds ${flood.open} of ${most} places, after ${2 * most} connections`);
    assert.ok((await metric(server, 'weir_connections_evicted_total', 'http')) > 0);
    flood.leave();
  });
});

test('when the root key uses all connections, a new client gets the reason of its refusal', async () => {
  const args = ['--max-connections', '10', '--max-connections-per-address', '99', '--threads', '1'];
  await served(args, async (server) => {
    const flood = new Flood();
    for (let i = 0; i < 20; ++i) {
      await flood.join(1, server.respPort, { bytes: command('PING') });
      await until('an answer', () => flood.answers > i);
    }
    assert.equal(flood.received.match(/\+PONG/g).length, 20, 'clients without a key cannot use all');
    const agents = new Flood();
    const limit = JSON.stringify({ namespace: 'n', identifier: 'i', limit: 9, duration: 1000 });
    const bytes =
      `POST /v2/ratelimit.limit HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer ${kRootKey}\r\n` +
      `Content-Length: ${limit.length}\r\n\r\n${limit}`;
    for (let i = 0; i < 20; ++i) {
      await agents.join(1, server.httpPort, { bytes });
      await until('an answer', () => agents.received.split('HTTP/1.1 ').length > i + 1);
    }
    assert.match(agents.received, /HTTP\/1\.1 503 Service Unavailable\r\n.*max number of clients/s);
    flood.leave();
    agents.leave();
  });
});

test('idle connections cannot exhaust the file descriptors', async () => {
  await served(['--threads', '1'], async (server) => {
    const open = readdirSync(`/proc/${server.pid}/fd`).length;
    const most = 50;
    const limit = ['--pid', String(server.pid), `--nofile=${open + most}`];
    const { code, stderr } = await run('prlimit', limit);
    assert.equal(code, 0, stderr);
    const flood = new Flood();
    await flood.join(100, server.httpPort);
    await flood.join(100, server.respPort);
    // Connections that the server has not accepted yet close earlier ones.
    await until('the flood to be accepted', () => flood.open <= most);
    for (let i = 0; i < 20; ++i) {
      assert.equal(await sendCommand(server.respPort, 'PING'), 'PONG');
      const wire = await Wire.open(server.httpPort);
      await wire.send('GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n');
      assert.equal((await wire.answer()).status, 200);
      wire.close();
    }
    flood.leave();
  });
});

// --- other protocols and wrong keys

test('a web page cannot make a browser send commands to the Redis port', async () => {
  await served([], async (server) => {
    const body = 'CL.THROTTLE victim 1 1 60\r\nCL.THROTTLE victim 1 1 60\r\n';
    for (const method of ['POST', 'PUT']) {
      const answer = await new Promise((done) => {
        const outgoing = request({ port: server.respPort, method, path: '/' });
        outgoing.on('response', () => done('an answer'));
        outgoing.on('error', ({ code }) => done(code));
        outgoing.end(body);
      });
      assert.notEqual(answer, 'an answer');
    }
    const throttled = await sendCommand(server.respPort, 'CL.THROTTLE', 'victim', 1, 1, 60);
    assert.equal(throttled[2], 1, 'untouched');
    assert.equal(await metric(server, 'weir_cross_protocol_total', 'resp'), 2);
    const logged = () => server.stderr.includes('HTTP on the Redis protocol port');
    await until('a line in the log', logged);
  });
});

test('wrong keys are counted by reason and logged in few lines', async () => {
  await served(['--allow-public'], async (server) => {
    const url = `${server.url}/v2/ratelimit.limit`;
    const post = (headers) => fetch(url, { method: 'POST', body: '{}', headers });
    const keys = Array.from({ length: 20 }, (_, i) => `Bearer a_wrong_root_key_${i}`);
    const statuses = await Promise.all(
      keys.map(async (key) => (await post({ authorization: key })).status),
    );
    assert.deepEqual(new Set(statuses), new Set([401]));
    assert.equal((await post({})).status, 400);
    assert.equal((await post({ authorization: 'Basic eA==' })).status, 400);
    assert.match((await sendCommand(server.respPort, 'AUTH', 'a_wrong_root_key')).message, /^WRONGPASS/);
    assert.match((await sendCommand(server.respPort, 'PING')).message, /^NOAUTH/);
    const failures = (frontend, reason) =>
      metric(server, 'weir_auth_failures_total', `frontend="${frontend}"`, `reason="${reason}"`);
    assert.equal(await failures('http', 'wrong'), 20);
    assert.equal(await failures('http', 'missing'), 1);
    assert.equal(await failures('http', 'malformed'), 1);
    assert.equal(await failures('resp', 'wrong'), 1);
    assert.equal(await failures('resp', 'missing'), 1);
    const kLine = /weir: (http|resp): requests with a wrong key: \d+, the last from 127\.0\.0\.1/g;
    const lines = () => server.stderr.match(kLine) ?? [];
    await until('lines in the log', () => lines().some((line) => line.includes('resp')));
    assert.ok(lines().length <= 4, server.stderr);
    assert.ok(!server.stderr.includes('a_wrong_root_key'));
  });
});

test('/metrics requires a key at a public address, unless public-metrics is set', async () => {
  const args = ['--allow-public', '--http', '0.0.0.0:0'];
  await served(args, async (server) => {
    assert.equal((await fetch(`${server.url}/metrics`)).status, 400);
    assert.equal((await fetch(`${server.url}/metrics`, { headers: authorization })).status, 200);
    assert.equal((await fetch(`${server.url}/healthz`)).status, 200);
  });
  await served([...args, '--public-metrics'], async (server) => {
    assert.equal((await fetch(`${server.url}/metrics`)).status, 200);
  });
});

// --- drain

const kLimit = JSON.stringify({ namespace: 'n', identifier: 'i', limit: 1e9, duration: 60_000 });

function askOver(agent, port) {
  return new Promise((resolve, reject) => {
    const outgoing = request(
      { agent, port, method: 'POST', path: '/v2/ratelimit.limit', headers: authorization },
      (answer) => {
        answer.resume();
        answer.on('end', () => resolve(answer));
        answer.on('error', reject);
      },
    );
    outgoing.on('error', reject);
    outgoing.end(kLimit);
  });
}

const isRefused = ({ code }) => code === 'ECONNREFUSED';

test('SIGTERM loses no request of idle keep-alive and Redis connections', async (t) => {
  const server = await startServer({ args: ['--drain-grace', '5s'] });
  t.after(() => server.child.kill('SIGKILL'));
  const count = 16;
  const agents = Array.from({ length: count }, () => new Agent({ keepAlive: true, maxSockets: 1 }));
  await Promise.all(agents.map((agent) => askOver(agent, server.httpPort)));
  const wires = await Promise.all(Array.from({ length: count }, () => Wire.open(server.respPort)));
  for (const wire of wires) {
    await wire.send(command('PING'));
    assert.equal(await wire.reply(), 'PONG');
  }
  server.child.kill('SIGTERM');
  await until('the drain', () => server.stderr.includes('draining'));
  // The listeners are closed: responses now come on connections that were idle.
  await until('closed listeners', async () => {
    const probe = connect({ port: server.respPort, host: '127.0.0.1' });
    const refused = await new Promise((done) => {
      probe.on('connect', () => done(false));
      probe.on('error', () => done(true));
    });
    probe.destroy();
    return refused;
  });
  let lost = 0;
  const answers = agents.map(async (agent) => {
    try {
      const answer = await askOver(agent, server.httpPort);
      assert.equal(answer.statusCode, 200);
      assert.equal(answer.headers.connection, 'close');
    } catch {
      ++lost;
    }
  });
  await Promise.all(answers);
  for (const wire of wires) {
    try {
      await wire.send(command('PING'));
      assert.equal(await wire.reply(), 'PONG');
      assert.equal(await wire.rest(), '', 'closed behind the answer');
    } catch {
      ++lost;
    }
  }
  report(`idle connections in a drain: ${lost} of ${2 * count} requests lost`);
  assert.equal(lost, 0);
  for (const agent of agents) agent.destroy();
  await endOf(server);
});

// In a drain a client is closed after it was quiet for kQuietTime. If this process stood still for longer,
// all its clients were quiet.
test('SIGTERM loses no request of busy clients', async (t) => {
  const pauses = monitorEventLoopDelay();
  pauses.enable();
  const server = await startServer({ args: ['--drain-grace', '5s'] });
  t.after(() => server.child.kill('SIGKILL'));
  let sent = 0;
  let lost = 0;
  // One request after the other until connecting fails.
  const busy = async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    for (;;) {
      try {
        ++sent;
        await askOver(agent, server.httpPort);
      } catch (error) {
        --sent;
        if (!isRefused(error)) ++lost;
        return agent.destroy();
      }
    }
  };
  // A published client that pauses between its requests, as most do.
  const paused = async () => {
    const client = new Redis({
      port: server.respPort,
      retryStrategy: null,
      autoResendUnfulfilledCommands: false,
    });
    client.on('error', () => {});
    let open = true;
    client.on('close', () => (open = false));
    while (open) {
      ++sent;
      await client.call('CL.THROTTLE', 'busy', 1e9, 1e9, 60).catch(() => ++lost);
      for (let i = 0; open && i < 30; ++i) await new Promise((done) => setTimeout(done, 10));
    }
    client.disconnect();
  };
  // A client that never pauses is served for a second of the drain; this one stops sooner, also on a
  // slow machine.
  let stopping = false;
  const restless = async () => {
    const wire = await Wire.open(server.respPort);
    for (let left = 20; left > 0; left -= stopping ? 1 : 0) {
      ++sent;
      await wire.send(command('CL.THROTTLE', 'busy', 1e9, 1e9, 60));
      const reply = await wire.reply().catch(() => undefined);
      if (reply === undefined) return ++lost;
    }
    wire.close();
  };
  const kinds = [busy, paused, restless];
  const clients = kinds.flatMap((kind) => Array.from({ length: 8 }, kind));
  await until('traffic', () => sent > 500);
  server.child.kill('SIGTERM');
  await until('the drain', () => server.stderr.includes('draining'));
  stopping = true;
  await Promise.all(clients);
  await endOf(server);
  report(`busy clients in a drain: ${lost} of ${sent} requests lost`);
  const longest = pauses.max / 1e6; // ms
  if (lost > 0 && longest > kQuietTime) {
    return t.skip(`this process stood still for ${Math.round(longest)} ms`);
  }
  assert.equal(lost, 0);
});

test('with --drain-delay connections are accepted while /readyz returns 503', async (t) => {
  const server = await startServer({ args: ['--drain-delay', '2s', '--drain-grace', '1s'] });
  t.after(() => server.child.kill('SIGKILL'));
  const ready = () => fetch(`${server.url}/readyz`);
  await until('200', async () => (await ready()).status === 200);
  server.child.kill('SIGTERM');
  await until('503', async () => (await ready()).status === 503);
  const answer = await ready(); // on a new connection: the last response had Connection: close
  assert.equal(answer.headers.get('connection'), 'close');
  const agent = new Agent({ keepAlive: false });
  assert.equal((await askOver(agent, server.httpPort)).statusCode, 200);
  assert.equal(await sendCommand(server.respPort, 'PING'), 'PONG');
  await endOf(server);
});
