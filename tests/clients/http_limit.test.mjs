// HTTP responses to curl: verdicts, batches, and every invalid body.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { kRootKey, run, startServer } from './server.mjs';

const kMonth = 2_592_000_000; // ms; long enough that nothing comes back while a test runs
let server;
before(async () => (server = await startServer()));
after(() => server.stop());

// One request by curl: status, headers in lower case, and the body, parsed if it is JSON.
async function curl(path, { body, method, headers = [`Authorization: Bearer ${kRootKey}`] } = {}) {
  const args = ['-sS', '-i', '-H', 'Expect:', `${server.url}${path}`];
  if (method === 'HEAD') args.push('-I');
  else if (method !== undefined) args.push('-X', method);
  for (const header of headers) args.push('-H', header);
  const text = typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body);
  if (body !== undefined) args.push('--data-binary', '@-');
  const { code, stdout, stderr } = await run('curl', args, { input: body && text });
  assert.equal(code, 0, stderr);
  const end = stdout.indexOf('\r\n\r\n');
  const [line, ...lines] = stdout.slice(0, end).split('\r\n');
  const fields = Object.fromEntries(
    lines.map((field) => [
      field.split(': ')[0].toLowerCase(),
      field.slice(field.indexOf(': ') + 2),
    ]),
  );
  const rest = stdout.slice(end + 4);
  const isJson = fields['content-type'] === 'application/json' && rest !== '';
  return { status: Number(line.split(' ')[1]), fields, body: isJson ? JSON.parse(rest) : rest };
}

const limit = (body) => curl('/v2/ratelimit.limit', { body });
const multiLimit = (body) => curl('/v2/ratelimit.multiLimit', { body });
const requestBody = (more) => ({
  namespace: 'api',
  identifier: 'alice',
  limit: 3,
  duration: kMonth,
  ...more,
});

test('limit admits with 200, the remaining units, and the headers of the draft', async () => {
  const { status, fields, body } = await limit(requestBody({ identifier: 'admitted' }));
  assert.equal(status, 200);
  assert.match(body.meta.requestId, /^req_[0-9a-z]{24}$/);
  const { reset, ...data } = body.data;
  assert.deepEqual(data, { limit: 3, remaining: 2, success: true, basis: 'local' });
  assert.equal(reset % kMonth, 0, 'windows begin at multiples of the duration');
  assert.equal(fields['ratelimit-policy'], '"default";q=3;w=2592000');
  assert.match(fields.ratelimit, /^"default";r=2;t=\d+$/);
  assert.equal(fields['retry-after'], undefined);
  assert.equal(fields['content-type'], 'application/json');
  assert.match(fields.date, /^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/);
});

test('limit denies with 200 and the time to retry', async () => {
  const body = requestBody({ identifier: 'denied' });
  for (let left = 2; left >= 0; --left) assert.equal((await limit(body)).body.data.remaining, left);
  const answer = await limit(body);
  assert.equal(answer.status, 200);
  const { success, remaining, retryAfter } = answer.body.data;
  assert.deepEqual([success, remaining], [false, 0]);
  assert.ok(retryAfter > 0);
  const seconds = Number(answer.fields['retry-after']);
  assert.equal(seconds, Math.ceil(retryAfter / 1000));
});

test('every request has its own id', async () => {
  const names = new Set();
  for (let i = 0; i < 5; ++i) names.add((await limit(requestBody({ cost: 0 }))).body.meta.requestId);
  assert.equal(names.size, 5);
});

test('a cost of 0 peeks, before and after the first use', async () => {
  const peek = () => limit(requestBody({ identifier: 'peek', cost: 0 }));
  assert.deepEqual(
    [(await peek()).body.data.remaining, (await peek()).body.data.remaining],
    [3, 3],
  );
  assert.equal((await limit(requestBody({ identifier: 'peek', cost: 3 }))).body.data.success, true);
  assert.deepEqual((await peek()).body.data.success, true, 'exactly full');
  assert.equal((await peek()).body.data.remaining, 0);
});

test('a cost above the limit never passes, and has no retry time', async () => {
  const { body, fields } = await limit(requestBody({ identifier: 'never', cost: 4 }));
  assert.deepEqual([body.data.success, body.data.retryAfter], [false, undefined]);
  assert.equal(fields['retry-after'], undefined);
});

for (const algorithm of [
  'sliding_window',
  'sliding_window_strict',
  'fixed_window',
  'sliding_log',
  'gcra',
  'token_bucket',
]) {
  test(`${algorithm} admits the limit and no more`, async () => {
    const body = requestBody({ identifier: `by ${algorithm}`, algorithm });
    const outcomes = [];
    for (let i = 0; i < 4; ++i) outcomes.push((await limit(body)).body.data.success);
    assert.deepEqual(outcomes, [true, true, true, false]);
  });
}

test('gcra and token_bucket accept a burst, which is the limit in the response', async () => {
  for (const algorithm of ['gcra', 'token_bucket']) {
    const burst = await limit(
      requestBody({ identifier: `burst ${algorithm}`, algorithm, burst: 7, cost: 7 }),
    );
    const { success, limit: shown, remaining } = burst.body.data;
    assert.deepEqual([success, shown, remaining], [true, 7, 0]);
    assert.match(burst.fields['ratelimit-policy'], /;q=7;/);
  }
});

test('identifiers are Unicode text, and JSON escapes do not change them', async () => {
  const remaining = async (text) =>
    (await limit(`{"namespace":"x","identifier":${text},"limit":9,"duration":${kMonth}}`)).body.data
      .remaining;
  assert.equal(await remaining('"größe \u{1F600}"'), 8);
  assert.equal(await remaining('"gr\\u00f6\\u00dfe \\ud83d\\ude00"'), 7);
  assert.equal(await remaining('"a\\u0000b"'), 8);
  assert.equal(await remaining('"a\\u0000c"'), 8);
});

// --- multiLimit

test('multiLimit consumes all items if all pass, in order', async () => {
  const items = [
    requestBody({ namespace: 'm', identifier: 'first', limit: 5, cost: 2 }),
    requestBody({ namespace: 'm', identifier: 'second', limit: 9, algorithm: 'gcra' }),
    requestBody({ namespace: 'n', identifier: 'first', limit: 1 }),
  ];
  const { status, body, fields } = await multiLimit(items);
  assert.equal(status, 200);
  assert.equal(body.data.passed, true);
  assert.deepEqual(
    body.data.limits.map((item) => [
      item.namespace,
      item.identifier,
      item.limit,
      item.remaining,
      item.passed,
    ]),
    [
      ['m', 'first', 5, 3, true],
      ['m', 'second', 9, 8, true],
      ['n', 'first', 1, 0, true],
    ],
  );
  assert.match(fields['ratelimit-policy'], /;q=1;/, 'the tightest');
});

test('multiLimit consumes nothing if one item is denied, and reports the remaining units of the others', async () => {
  const open = requestBody({ namespace: 'all', identifier: 'open', limit: 10, cost: 4 });
  const full = requestBody({ namespace: 'all', identifier: 'full', limit: 2, cost: 2 });
  assert.equal((await multiLimit([open, full])).body.data.passed, true);
  for (const items of [
    [open, full],
    [full, open],
  ]) {
    const { status, body, fields } = await multiLimit(items);
    assert.equal(status, 200);
    assert.equal(body.data.passed, false);
    const found = Object.fromEntries(body.data.limits.map((item) => [item.identifier, item]));
    assert.deepEqual(
      body.data.limits.map((item) => item.identifier),
      items.map((item) => item.identifier),
    );
    assert.deepEqual([found.open.passed, found.open.remaining], [true, 6]);
    assert.deepEqual([found.full.passed, found.full.remaining], [false, 0]);
    assert.ok(Number(fields['retry-after']) > 0);
  }
  assert.equal((await limit({ ...open, cost: 0 })).body.data.remaining, 6);
});

test('multiLimit counts a repeated item twice', async () => {
  const item = requestBody({ namespace: 'twice', limit: 3, cost: 2 });
  assert.equal((await multiLimit([item, item])).body.data.passed, false);
  assert.equal((await limit({ ...item, cost: 0 })).body.data.remaining, 3);
});

test('multiLimit accepts 1 to 100 items', async () => {
  const items = (count) =>
    Array.from({ length: count }, (_, i) => requestBody({ identifier: `item ${i}`, namespace: 'many' }));
  assert.equal((await multiLimit(items(1))).body.data.limits.length, 1);
  const { body } = await multiLimit(items(100));
  assert.deepEqual(
    body.data.limits.map((item) => item.identifier),
    items(100).map((item) => item.identifier),
  );
  for (const count of [0, 101]) {
    const refused = await multiLimit(items(count));
    assert.equal(refused.status, 400);
    assert.equal(refused.body.error.errors[0].location, 'body');
    assert.match(refused.body.error.errors[0].fix, /1 to 100 items/);
  }
});

test('multiLimit names the invalid item and consumes nothing', async () => {
  const { status, body } = await multiLimit([
    requestBody({ namespace: 'w' }),
    requestBody({ namespace: 'w', cost: -1 }),
    7,
  ]);
  assert.equal(status, 400);
  assert.deepEqual(
    body.error.errors.map((error) => error.location),
    ['body[1].cost', 'body[2]'],
  );
  const late = await multiLimit([requestBody({ namespace: 'w' }), requestBody({ namespace: 'w', burst: 3 })]);
  assert.equal(late.body.error.errors[0].location, 'body[1].burst');
  assert.equal((await limit(requestBody({ namespace: 'w', cost: 0 }))).body.data.remaining, 3);
});

// --- invalid bodies

const without = (field) => {
  const { [field]: _, ...rest } = requestBody();
  return rest;
};
const kMistakes = [
  ...['namespace', 'identifier', 'limit', 'duration'].map((field) => [
    `no ${field}`,
    without(field),
    field,
  ]),
  ...['namespace', 'identifier', 'algorithm'].flatMap((field) =>
    [1, true, null, [], {}, 1.5].map((value) => [
      `${field} ${JSON.stringify(value)}`,
      requestBody({ [field]: value }),
      field,
    ]),
  ),
  ...['limit', 'duration', 'cost', 'burst'].flatMap((field) =>
    [
      '"5"',
      'true',
      'null',
      'three',
      '5x',
      '05',
      '[1]',
      '{"a":1}',
      '1.5',
      '1e3',
      '-1',
      '99999999999999',
      '99999999999999999999',
    ].map((value) => [
      `${field} ${value}`,
      JSON.stringify(requestBody({ [field]: 0, algorithm: 'gcra' })).replace(
        `"${field}":0`,
        `"${field}":${value}`,
      ),
      field,
    ]),
  ),
  ['limit 0', requestBody({ limit: 0 }), 'limit'],
  ['burst 0', requestBody({ burst: 0, algorithm: 'gcra' }), 'burst'],
  ['duration 99', requestBody({ duration: 99 }), 'duration'],
  ['duration of more than 30 days', requestBody({ duration: kMonth + 1 }), 'duration'],
  ['an empty namespace', requestBody({ namespace: '' }), 'namespace'],
  ['an empty identifier', requestBody({ identifier: '' }), 'identifier'],
  ['an identifier of 513 bytes', requestBody({ identifier: 'x'.repeat(513) }), 'identifier'],
  ['an identifier of 257 letters of two bytes', requestBody({ identifier: 'é'.repeat(257) }), 'identifier'],
  ['an unknown algorithm', requestBody({ algorithm: 'magic' }), 'algorithm'],
  ['an algorithm in capitals', requestBody({ algorithm: 'GCRA' }), 'algorithm'],
  ['a burst for an algorithm that has none', requestBody({ burst: 5 }), 'burst'],
  ['a limit too high for a log', requestBody({ algorithm: 'sliding_log', limit: 10_001 }), 'limit'],
  ['an unknown field', requestBody({ colour: 'red' }), 'colour'],
  ['a duplicate field', JSON.stringify(requestBody()).replace('{', '{"limit":3,'), 'limit'],
];
for (const [what, body, field] of kMistakes) {
  test(`${what} is a 400 that names ${field} and a fix`, async () => {
    const answer = await limit(body);
    assert.equal(answer.status, 400, JSON.stringify(answer.body));
    const { title, detail, status, type, errors } = answer.body.error;
    assert.deepEqual([title, status, type], ['Bad Request', 400, 'urn:weir:error:bad_request']);
    assert.match(answer.body.meta.requestId, /^req_/);
    assert.deepEqual(
      errors.map((error) => error.location),
      [`body.${field}`],
    );
    assert.ok(errors[0].message.includes(field), errors[0].message);
    assert.equal(detail, errors[0].message);
    assert.ok(errors[0].fix.length > 0);
  });
}

test('one response lists all problems of a body', async () => {
  const body =
    '{"namespace":7,"limit":1.5,"colour":{"a":[1]},"cost":-1,"duration":"x","algorithm":"no"}';
  const { errors } = (await limit(body)).body.error;
  const places = errors.map((error) => error.location).sort();
  const fields = ['algorithm', 'colour', 'cost', 'duration', 'identifier', 'limit', 'namespace'];
  assert.deepEqual(
    places,
    fields.map((field) => `body.${field}`),
  );
});

const kMalformed = {
  'an empty body': '',
  'spaces alone': '   ',
  'half an object': '{"namespace":"a","identifier":',
  'an object without its end': JSON.stringify(requestBody()).slice(0, -1),
  'text after the object': JSON.stringify(requestBody()) + '{}',
  'a bracket after the object': JSON.stringify(requestBody()) + ']',
  'a comma too many': JSON.stringify(requestBody()).replace('}', ',}'),
  'a comma too few': JSON.stringify(requestBody()).replace(',', ' '),
  'a name without quotes': JSON.stringify(requestBody()).replace('"limit"', 'limit'),
  'single quotes': JSON.stringify(requestBody()).replaceAll('"', "'"),
  'an array': [requestBody()],
  'a string': '"text"',
  'a number': '7',
  null: 'null',
  'text that is not UTF-8': Buffer.concat([
    Buffer.from('{"namespace":"a","identifier":"'),
    Buffer.from([0xff, 0xfe]),
    Buffer.from('","limit":1,"duration":1000}'),
  ]),
  'half a surrogate pair': JSON.stringify(requestBody()).replace('alice', '\\ud800'),
  'a control character in a string': JSON.stringify(requestBody()).replace('alice', 'a\nb'),
  'a value of nonsense in an unknown field': JSON.stringify(requestBody()).replace('{', '{"x":[1,2}],'),
  'deep nesting': '['.repeat(5000),
};
for (const [what, body] of Object.entries(kMalformed)) {
  test(`${what} for a body is a 400 at the body`, async () => {
    const answer = await limit(body);
    assert.equal(answer.status, 400, JSON.stringify(answer.body));
    assert.equal(answer.body.error.errors.length, 1);
    assert.equal(answer.body.error.errors[0].location, 'body');
    assert.ok(answer.body.error.errors[0].fix.length > 0);
  });
}

test('truncated names and values in errors are valid text', async () => {
  for (let length = 30; length < 70; ++length) {
    const long = 'x'.repeat(length) + 'é'.repeat(40);
    const { status, body } = await limit(requestBody({ [long]: 1, algorithm: long }));
    assert.equal(status, 400);
    assert.doesNotMatch(JSON.stringify(body), /\ufffd/);
  }
});

test('a refused request consumes nothing', async () => {
  await limit(requestBody({ identifier: 'spared', colour: 'red' }));
  await limit(JSON.stringify(requestBody({ identifier: 'spared' })) + 'x');
  assert.equal((await limit(requestBody({ identifier: 'spared', cost: 0 }))).body.data.remaining, 3);
});

// --- keys, paths and methods

test('a missing or malformed Authorization is a 400 with the remedy', async () => {
  for (const headers of [
    [],
    ['Authorization;'],
    ['Authorization: Bearer'],
    [`Authorization: ${kRootKey}`],
    ['Authorization: Basic YTpi'],
    [`Authorization: Bearer ${'x'.repeat(300)}`],
  ]) {
    const { status, body } = await curl('/v2/ratelimit.limit', { body: requestBody(), headers });
    assert.equal(status, 400, headers[0]);
    assert.match(body.error.detail, /Authorization: Bearer <root key>/);
  }
});

test('a wrong key is a 401 before the body is read', async () => {
  for (const key of ['a_wrong_root_key_of_no_use', kRootKey + 'x', kRootKey.slice(0, -1)]) {
    const headers = [`Authorization: Bearer ${key}`];
    const { status, fields, body } = await curl('/v2/ratelimit.limit', {
      body: 'nonsense',
      headers,
    });
    assert.equal(status, 401);
    assert.equal(fields['www-authenticate'], 'Bearer');
    assert.equal(body.error.type, 'urn:weir:error:unauthorized');
  }
});

test('an unknown path is a 404', async () => {
  // The path of Upstash Redis, in the form of its errors.
  const { status, body } = await curl('/', { body: requestBody() });
  assert.equal(status, 404);
  assert.match(body.error, /^there is nothing at this path: Weir is a rate limiter and not Upstash/);
  for (const path of ['/v2', '/v2/ratelimit.limit/', '/v2/ratelimit.Limit', '/metrics/x']) {
    const { status, body } = await curl(path, { body: requestBody() });
    assert.equal(status, 404, path);
    assert.equal(body.error.type, 'urn:weir:error:not_found');
  }
});

test('an unsupported method is a 405 with the Allow header', async () => {
  for (const [method, path, allow] of [
    ['GET', '/v2/ratelimit.limit', 'POST, OPTIONS'],
    ['HEAD', '/v2/ratelimit.limit', 'POST, OPTIONS'],
    ['DELETE', '/v2/ratelimit.multiLimit', 'POST, OPTIONS'],
    ['POST', '/healthz', 'GET, HEAD, OPTIONS'],
    ['PUT', '/metrics', 'GET, HEAD, OPTIONS'],
  ]) {
    const { status, fields } = await curl(path, { method });
    assert.deepEqual([status, fields.allow], [405, allow], `${method} ${path}`);
  }
});

test('OPTIONS lists the methods of a path; HEAD responds as GET without a body', async () => {
  const options = await curl('/v2/ratelimit.limit', { method: 'OPTIONS', headers: [] });
  assert.deepEqual([options.status, options.fields.allow], [204, 'POST, OPTIONS']);
  const head = await curl('/healthz', { method: 'HEAD' });
  assert.deepEqual([head.status, head.fields['content-length'], head.body], [200, '3', '']);
});

test('/healthz, /readyz and /metrics answer without a key', async () => {
  const plain = (path) => curl(path, { headers: [] });
  assert.equal((await plain('/healthz')).body, 'ok\n');
  assert.equal((await plain('/readyz')).body, 'ready\n');
  assert.equal((await plain('/healthz?verbose')).body, 'ok\n', 'a query does not matter');
  const { status, fields, body } = await plain('/metrics');
  assert.equal(status, 200);
  assert.match(fields['content-type'], /^text\/plain; version=0\.0\.4/);
  for (const line of body.trimEnd().split('\n')) {
    assert.match(line, /^# (HELP|TYPE) weir_\w+ .+$|^weir_\w+(\{(\w+="[^"]*",?)+\})? -?[0-9.]+$/);
  }
});

test('/metrics counts decisions and bad requests of HTTP', async () => {
  const denied = () => server.metric('weir_decisions_total', 'frontend="http"', 'outcome="denied"');
  const bad = () => server.metric('weir_bad_requests_total', 'frontend="http"');
  const before = [await denied(), await bad()];
  await limit(requestBody({ identifier: 'counted', cost: 3 }));
  await limit(requestBody({ identifier: 'counted' }));
  await limit('nonsense');
  assert.deepEqual([await denied(), await bad()], [before[0] + 1, before[1] + 1]);
});

test('curl posts up to 1 MiB and gets 413 above', async () => {
  const padded = (size) => JSON.stringify(requestBody({ cost: 0 })).padEnd(size);
  assert.equal((await limit(padded(1 << 20))).status, 200);
  const { status, body } = await limit(padded((1 << 20) + 1));
  assert.equal(status, 413);
  assert.equal(body.error.type, 'urn:weir:error:content_too_large');
});
