// HTTP/1.1 byte by byte: lengths, chunks, pipelines, and request smuggling.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { kRootKey, startServer } from './server.mjs';
import { Wire } from './wire.mjs';

const kMonth = 2_592_000_000; // ms
let server;
before(async () => (server = await startServer()));
after(() => server.stop());

async function connected(body) {
  const wire = await Wire.open(server.httpPort);
  try {
    return await body(wire);
  } finally {
    wire.close();
  }
}

// A request as bytes. `fields` are lines, besides Host and the key.
function request(method, path, { fields = [], body = '', version = 'HTTP/1.1' } = {}) {
  const lines = [`${method} ${path} ${version}`, 'Host: weir', `Authorization: Bearer ${kRootKey}`];
  return [...lines, ...fields].join('\r\n') + '\r\n\r\n' + body;
}

const requestBody = (more) =>
  JSON.stringify({ namespace: 'wire', identifier: 'x', limit: 100_000, duration: kMonth, ...more });

function post(more, fields = []) {
  const body = requestBody(more);
  return request('POST', '/v2/ratelimit.limit', {
    fields: [`Content-Length: ${body.length}`, ...fields],
    body,
  });
}

const health = (fields = [], version) => request('GET', '/healthz', { fields, version });

// One request on another connection, to check that others are served.
async function stillServes() {
  const answer = await connected(async (wire) => {
    await wire.send(health());
    return wire.answer();
  });
  assert.equal(answer.body, 'ok\n');
}

const chunk = (text) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
const kChunked = ['Transfer-Encoding: chunked'];
const postChunks = (chunks) =>
  request('POST', '/v2/ratelimit.limit', { fields: kChunked, body: chunks.join('') });

test('a connection is kept for many requests', async () => {
  await connected(async (wire) => {
    for (let i = 0; i < 50; ++i) {
      await wire.send(post({ identifier: 'kept' }));
      const { status, fields, body } = await wire.answer();
      assert.deepEqual([status, fields.connection], [200, undefined]);
      assert.equal(body.data.remaining, 99_999 - i);
    }
  });
});

test('2100 requests at once are answered in order', async () => {
  await connected(async (wire) => {
    const round = post({ identifier: 'order' }) + health() + request('GET', '/nowhere');
    const sent = wire.send(round.repeat(700));
    for (let i = 0; i < 700; ++i) {
      assert.equal((await wire.answer()).body.data.remaining, 99_999 - i);
      assert.equal((await wire.answer()).body, 'ok\n');
      assert.equal((await wire.answer()).status, 404);
    }
    await sent;
  });
});

test('a request split at every byte gets the same response', async () => {
  const bytes = post({ identifier: 'split', cost: 0 });
  await connected(async (wire) => {
    for (let at = 1; at < bytes.length; ++at) {
      await wire.send(bytes.slice(0, at));
      await wire.send(bytes.slice(at));
      const { status, body } = await wire.answer();
      assert.deepEqual([status, body.data.remaining], [200, 100_000], `split at ${at}`);
    }
  });
});

test('a chunked body is read with any chunks, extensions and trailers', async () => {
  const body = requestBody({ identifier: 'chunks', cost: 0 });
  for (const bytes of [
    postChunks([chunk(body), '0\r\n\r\n']),
    postChunks([...[...body].map(chunk), '0\r\n\r\n']),
    postChunks([
      `${body.length.toString(16).toUpperCase()};name=value\r\n${body}\r\n`,
      '0\r\nTrailer: x\r\n\r\n',
    ]),
    postChunks([`0000${body.length.toString(16)}\r\n${body}\r\n`, '000\r\n\r\n']),
  ]) {
    await connected(async (wire) => {
      await wire.send(bytes + health());
      const { status, body: answer } = await wire.answer();
      assert.equal(status, 200, JSON.stringify(answer));
      assert.equal(answer.data.remaining, 100_000);
      assert.equal((await wire.answer()).body, 'ok\n', 'the next request is found');
    });
  }
});

test('a chunked body split at every byte gets the same response', async () => {
  const body = requestBody({ identifier: 'chunks', cost: 0 });
  const bytes = postChunks([chunk(body.slice(0, 10)), chunk(body.slice(10)), '0\r\nA: b\r\n\r\n']);
  await connected(async (wire) => {
    for (let at = 1; at < bytes.length; ++at) {
      await wire.send(bytes.slice(0, at));
      await wire.send(bytes.slice(at));
      const answer = await wire.answer();
      assert.deepEqual(
        [answer.status, answer.body.data?.remaining],
        [200, 100_000],
        `split at ${at}`,
      );
    }
    await wire.sendSlowly(bytes);
    assert.equal((await wire.answer()).status, 200);
  });
});

test('Expect: 100-continue gets 100 Continue once, then the response', async () => {
  const body = requestBody({ identifier: 'expect', cost: 0 });
  const length = `Content-Length: ${body.length}`;
  const head = request('POST', '/v2/ratelimit.limit', { fields: [length, 'Expect: 100-continue'] });
  await connected(async (wire) => {
    for (let i = 0; i < 2; ++i) {
      await wire.send(head);
      assert.equal((await wire.answer()).status, 100);
      await wire.send(body.slice(0, 5));
      await wire.send(body.slice(5));
      assert.equal((await wire.answer()).status, 200);
    }
    await wire.send(head + body);
    assert.equal((await wire.answer()).status, 200, 'no 100 Continue if the body was sent');
    await wire.send(
      request('POST', '/v2/ratelimit.limit', { fields: [...kChunked, 'expect: 100-Continue'] }),
    );
    assert.equal((await wire.answer()).status, 100);
    await wire.send(chunk(body) + '0\r\n\r\n');
    assert.equal((await wire.answer()).status, 200);
  });
});

test('Expect: 100-continue with a too large body is refused before the body is sent', async () => {
  await connected(async (wire) => {
    const fields = [`Content-Length: ${(1 << 20) + 1}`, 'Expect: 100-continue'];
    await wire.send(request('POST', '/v2/ratelimit.limit', { fields }));
    assert.equal((await wire.answer()).status, 413);
    assert.equal(await wire.rest(), '');
  });
});

test('HEAD has the length of the body and no body', async () => {
  await connected(async (wire) => {
    await wire.send(request('HEAD', '/healthz') + request('HEAD', '/nowhere') + health());
    const found = await wire.answer('HEAD');
    assert.deepEqual([found.status, found.fields['content-length']], [200, '3']);
    assert.equal((await wire.answer('HEAD')).status, 404);
    assert.equal((await wire.answer()).body, 'ok\n');
  });
});

test('OPTIONS is answered for a path and for the server', async () => {
  await connected(async (wire) => {
    await wire.send(request('OPTIONS', '/metrics') + request('OPTIONS', '*') + health());
    const [path, all] = [await wire.answer(), await wire.answer()];
    assert.deepEqual([path.status, path.fields.allow], [204, 'GET, HEAD, OPTIONS']);
    assert.deepEqual([all.status, all.fields.allow], [204, 'GET, HEAD, POST, OPTIONS']);
    assert.equal((await wire.answer()).body, 'ok\n');
  });
});

test('Connection: close is confirmed and closes', async () => {
  await connected(async (wire) => {
    await wire.send(health(['Connection: close']) + health());
    const { status, fields } = await wire.answer();
    assert.deepEqual([status, fields.connection], [200, 'close']);
    assert.equal(await wire.rest(), '', 'what follows is not answered');
  });
});

test('HTTP/1.0 closes the connection unless it asks for keep-alive', async () => {
  await connected(async (wire) => {
    await wire.send('GET /healthz HTTP/1.0\r\n\r\n');
    assert.equal((await wire.answer()).body, 'ok\n');
    assert.equal(await wire.rest(), '');
  });
  await connected(async (wire) => {
    const kept = health(['Connection: Keep-Alive'], 'HTTP/1.0');
    await wire.send(kept);
    assert.equal((await wire.answer()).status, 200);
    await wire.send(kept);
    assert.equal((await wire.answer()).status, 200);
  });
});

test('empty lines before a request are skipped', async () => {
  await connected(async (wire) => {
    await wire.send('\r\n\r\n' + health() + '\r\n' + health());
    assert.equal((await wire.answer()).status, 200);
    assert.equal((await wire.answer()).status, 200);
  });
});

test('the path is found in a target with a host or a query', async () => {
  await connected(async (wire) => {
    await wire.send(request('GET', 'http://weir/healthz') + request('GET', '/healthz?a=b'));
    assert.equal((await wire.answer()).status, 200);
    assert.equal((await wire.answer()).status, 200);
  });
});

const kHello = 'GET /healthz HTTP/1.1\r\n';
const kPost = `POST /v2/ratelimit.limit HTTP/1.1\r\nHost: weir\r\nAuthorization: Bearer ${kRootKey}\r\n`;
const kBroken = [
  [
    'a length and chunks together',
    400,
    `${kPost}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  ],
  [
    'chunks and a length together',
    400,
    `${kPost}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n`,
  ],
  ['two lengths', 400, `${kPost}Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello`],
  ['two lengths in one', 400, `${kPost}Content-Length: 5, 5\r\n\r\nhello`],
  ['a negative length', 400, `${kPost}Content-Length: -5\r\n\r\n`],
  ['a length with a sign', 400, `${kPost}Content-Length: +5\r\n\r\nhello`],
  ['a length that is no number', 400, `${kPost}Content-Length: five\r\n\r\n`],
  ['a length of many digits', 400, `${kPost}Content-Length: ${'9'.repeat(30)}\r\n\r\n`],
  ['an empty length', 400, `${kPost}Content-Length:\r\n\r\n`],
  ['another encoding', 501, `${kPost}Transfer-Encoding: gzip, chunked\r\n\r\n`],
  [
    'two encodings',
    400,
    `${kPost}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n`,
  ],
  ['chunks in HTTP/1.0', 400, `POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
  ['a folded line', 400, `${kHello}Host: weir\r\nX: a\r\n b\r\n\r\n`],
  ['a folded line with a colon', 400, `${kHello}Host: weir\r\nX: a\r\n\tb: c\r\n\r\n`],
  ['lines that end in LF alone', 400, 'GET /healthz HTTP/1.1\nHost: weir\n\n'],
  ['one line that ends in LF alone', 400, `${kHello}Host: weir\nX: y\r\n\r\n`],
  ['a CR within a line', 400, `${kHello}Host: weir\r\nX: a\rb\r\n\r\n`],
  ['a zero in a value', 400, `${kHello}Host: weir\r\nX: a\0b\r\n\r\n`],
  ['a space before the colon', 400, `${kHello}Host : weir\r\n\r\n`],
  ['a name that is no token', 400, `${kHello}Host: weir\r\nX(y): z\r\n\r\n`],
  ['a line without a colon', 400, `${kHello}Host: weir\r\nnonsense\r\n\r\n`],
  ['no Host', 400, `${kHello}\r\n`],
  ['two Hosts', 400, `${kHello}Host: a\r\nHost: b\r\n\r\n`],
  ['two Authorizations', 400, `${kPost}Authorization: Bearer x\r\n\r\n`],
  ['a request line of one word', 400, 'GET\r\nHost: weir\r\n\r\n'],
  ['a request line of four words', 400, 'GET /healthz  HTTP/1.1\r\nHost: weir\r\n\r\n'],
  ['a request line without a version', 400, 'GET /healthz\r\nHost: weir\r\n\r\n'],
  ['a target without a slash', 400, 'GET healthz HTTP/1.1\r\nHost: weir\r\n\r\n'],
  ['a method that is no token', 400, 'G(T /healthz HTTP/1.1\r\nHost: weir\r\n\r\n'],
  ['HTTP/3.0', 505, 'GET /healthz HTTP/3.0\r\nHost: weir\r\n\r\n'],
  ['the preface of HTTP/2', 505, 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['another expectation', 417, `${kPost}Expect: money\r\n\r\n`],
  ['the first bytes of TLS', 400, Buffer.from('160301020001000200010a0a0d0a', 'hex')],
  ['a line too long', 431, `${kHello}Host: weir\r\nX: ${'y'.repeat(17_000)}\r\n\r\n`],
  [
    'a head too large',
    431,
    `${kHello}Host: weir\r\n${`X: ${'y'.repeat(1000)}\r\n`.repeat(20)}\r\n`,
  ],
  ['too many headers', 431, `${kHello}Host: weir\r\n${'X: y\r\n'.repeat(101)}\r\n`],
  ['a head that never ends', 431, 'GET /'.padEnd(20_000, 'x')],
  ['a chunk size that is none', 400, `${kPost}Transfer-Encoding: chunked\r\n\r\nxyz\r\n`],
  ['a chunk size with a sign', 400, `${kPost}Transfer-Encoding: chunked\r\n\r\n-1\r\n`],
  [
    'a chunk size of many digits',
    400,
    `${kPost}Transfer-Encoding: chunked\r\n\r\n${'1'.repeat(20)}\r\n`,
  ],
  [
    'a chunk longer than its size',
    400,
    `${kPost}Transfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n0\r\n\r\n`,
  ],
  ['chunks with LF alone', 400, `${kPost}Transfer-Encoding: chunked\r\n\r\n2\nab\n0\n\n`],
  [
    'a chunk extension without end',
    400,
    `${kPost}Transfer-Encoding: chunked\r\n\r\n2;${'x'.repeat(400)}`,
  ],
  ['a length above 1 MiB', 413, `${kPost}Content-Length: 1048577\r\n\r\n`],
  ['a chunk above 1 MiB', 413, `${kPost}Transfer-Encoding: chunked\r\n\r\n100001\r\n`],
];
for (const [what, status, bytes] of kBroken) {
  test(`${what} is a ${status}, and the connection closes`, async () => {
    await connected(async (wire) => {
      await wire.send(Buffer.concat([Buffer.from(bytes), Buffer.from(health())]));
      const answer = await wire.answer();
      assert.equal(answer.status, status, JSON.stringify(answer.body));
      assert.equal(answer.fields.connection, 'close');
      assert.equal(answer.body.error.status, status);
      assert.ok(answer.body.error.detail.length > 0);
      assert.equal(await wire.rest(), '', 'nothing after it is parsed as a request');
    });
    await stillServes();
  });
}

test('1 MiB is read by length and by chunks; one byte more by chunks is a 413', async () => {
  const padded = (size) => requestBody({ identifier: 'large', cost: 0 }).padEnd(size);
  const pieces = (text) => text.match(/[^]{1,65536}/g).map(chunk);
  await connected(async (wire) => {
    const body = padded(1 << 20);
    await wire.send(
      request('POST', '/v2/ratelimit.limit', { fields: [`Content-Length: ${1 << 20}`], body }),
    );
    assert.equal((await wire.answer()).status, 200);
    await wire.send(postChunks([...pieces(body), '0\r\n\r\n']) + health());
    assert.equal((await wire.answer()).status, 200);
    assert.equal((await wire.answer()).body, 'ok\n');
    await wire.send(postChunks([...pieces(padded((1 << 20) + 1)), '0\r\n\r\n']));
    assert.equal((await wire.answer()).status, 413);
    assert.equal(await wire.rest(), '');
  });
});

test('a client that continues to send after a refusal gets the reason', async () => {
  await connected(async (wire) => {
    const bytes = request('POST', '/v2/ratelimit.limit', { fields: ['Content-Length: 3000000'] });
    await wire.send(bytes + 'x'.repeat(3_000_000));
    assert.equal((await wire.answer()).status, 413);
  });
});

test('a request cut off by the end of input gets no response', async () => {
  const bytes = post({ identifier: 'cut' });
  for (const at of [3, 40, bytes.length - 1]) {
    await connected(async (wire) => {
      await wire.send(health() + bytes.slice(0, at));
      wire.finish();
      assert.equal((await wire.answer()).body, 'ok\n');
      assert.equal(await wire.rest(), '');
    });
  }
  await connected(async (wire) => {
    await wire.send(post({ identifier: 'cut', cost: 0 }));
    assert.equal((await wire.answer()).body.data.remaining, 100_000);
  });
});

test('a client that has shut down its write side is answered', async () => {
  await connected(async (wire) => {
    await wire.send(health().repeat(100));
    wire.finish();
    for (let i = 0; i < 100; ++i) assert.equal((await wire.answer()).body, 'ok\n');
    assert.equal(await wire.rest(), '');
  });
});

test('every request on a connection needs the key', async () => {
  await connected(async (wire) => {
    await wire.send(post({ cost: 0 }));
    assert.equal((await wire.answer()).status, 200);
    const body = requestBody({ cost: 0 });
    const start = `POST /v2/ratelimit.limit HTTP/1.1\r\nHost: weir\r\nContent-Length: ${body.length}\r\n`;
    await wire.send(`${start}\r\n${body}`);
    assert.equal((await wire.answer()).status, 400);
    await wire.send(`${start}Authorization: Bearer a_wrong_root_key_of_no_use\r\n\r\n${body}`);
    assert.equal((await wire.answer()).status, 401);
    await wire.send(post({ cost: 0 }));
    assert.equal((await wire.answer()).status, 200, 'the connection stays open');
  });
});
