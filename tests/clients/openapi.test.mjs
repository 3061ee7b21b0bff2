// /openapi.json against real requests and answers: every call, successful and refused.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import Ajv2020 from 'ajv/dist/2020.js';

import { kRootKey, startServer } from './server.mjs';

const kHour = 3_600_000; // ms
let server, document, ajv;
before(async () => {
  server = await startServer();
  document = await (await fetch(`${server.url}/openapi.json`)).json();
  ajv = new Ajv2020({ strict: false, allErrors: true });
  ajv.addSchema(document, 'api');
});
after(() => server.stop());

// Validates a value with the schema at a path of the document.
function check(value, ...path) {
  const pointer = path.map((part) => part.replaceAll('~', '~0').replaceAll('/', '~1')).join('/');
  const validate = ajv.compile({ $ref: `api#/${pointer}` });
  assert.ok(
    validate(value),
    `${pointer}: ${JSON.stringify(validate.errors)} ${JSON.stringify(value)}`,
  );
}

const called = new Set();
async function call(name, body) {
  const path = `/v2/${name}`;
  called.add(path);
  check(body, 'paths', path, 'post', 'requestBody', 'content', 'application/json', 'schema');
  const response = await fetch(server.url + path, {
    method: 'POST',
    headers: { Authorization: `Bearer ${kRootKey}` },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  assert.equal(response.status, 200, JSON.stringify(answer));
  check(answer, 'paths', path, 'post', 'responses', '200', 'content', 'application/json', 'schema');
  return answer.data;
}

test('every call of the document is answered as it says', async () => {
  assert.equal(document.openapi, '3.1.0');
  const limit = { namespace: 'api', identifier: 'alice', limit: 1, duration: kHour };
  await call('ratelimit.limit', { ...limit, algorithm: 'gcra', burst: 1, consistency: 'exact' });
  await call('ratelimit.limit', limit);
  await call('ratelimit.limit', { ...limit, cost: 1 }); // denied
  await call('ratelimit.multiLimit', [limit, { ...limit, identifier: 'bob' }]);
  await call('ratelimit.peek', limit);
  await call('ratelimit.createNamespace', {
    name: 'named',
    limit: 5,
    duration: kHour,
    algorithm: 'token_bucket',
    burst: 2,
    consistency: 'relaxed',
  });
  await call('ratelimit.setOverride', {
    namespace: 'named',
    identifier: 'vip-*',
    limit: 0,
    duration: kHour,
    burst: 3,
  });
  await call('ratelimit.limit', { namespace: 'named', identifier: 'vip-1' }); // limit 0
  await call('ratelimit.getOverride', { namespace: 'named', identifier: 'vip-*' });
  await call('ratelimit.listOverrides', { namespace: 'named', limit: 1 });
  await call('ratelimit.reset', { namespace: 'named', identifier: 'x' });
  await call('ratelimit.deleteOverride', { namespace: 'named', identifier: 'vip-*' });
  await call('ratelimit.getNamespace', { namespace: 'named' });
  await call('ratelimit.listNamespaces', { limit: 1 });
  await call('ratelimit.updateNamespace', { namespace: 'named' });
  await call('ratelimit.deleteNamespace', { namespace: 'named' });
  const { workspaceId } = await call('workspaces.createWorkspace', { name: 'acme' });
  await call('workspaces.listWorkspaces', {});
  const { keyId } = await call('keys.createKey', {
    name: 'k',
    permissions: ['ratelimit.*.limit'],
    expires: Date.now() + kHour,
    perSecond: 5,
    workspaceId,
  });
  await call('keys.getKey', { keyId });
  await call('keys.listKeys', { workspaceId });
  const fresh = await call('keys.rotateKey', { keyId, grace: 1000 });
  await call('keys.revokeKey', { keyId: fresh.keyId });
  await call('audit.listEntries', { limit: 2 });
  await call('workspaces.deleteWorkspace', { workspaceId });
  assert.deepEqual([...called].sort(), Object.keys(document.paths).sort());
});

test('errors are answered as the document says, in both forms', async () => {
  const refused = async (path, body, headers) => {
    const response = await fetch(server.url + path, { method: 'POST', headers, body });
    const type = response.headers.get('content-type');
    const answer = await response.json();
    assert.equal(answer.status ?? answer.error.status, response.status);
    check(answer, 'components', 'responses', 'Error', 'content', type, 'schema');
    return { status: response.status, type, answer };
  };
  const key = { Authorization: `Bearer ${kRootKey}` };
  const problem = { Accept: 'application/problem+json' };
  for (const more of [{}, problem]) {
    const expected = more === problem ? 'application/problem+json' : 'application/json';
    for (const path of Object.keys(document.paths)) {
      const { status, type } = await refused(path, '{"colour":1}', { ...key, ...more });
      assert.deepEqual([status, type], [400, expected], path);
    }
    const missing = JSON.stringify({ namespace: 'never used', identifier: 'x' });
    const { status } = await refused('/v2/ratelimit.getOverride', missing, { ...key, ...more });
    assert.equal(status, 404);
  }
  const limit = JSON.stringify({
    namespace: 'p',
    identifier: 'x',
    limit: 1,
    duration: kHour,
    cost: 2,
  });
  const denied = await refused('/v2/ratelimit.limit', limit, {
    ...key,
    ...problem,
    Prefer: 'status=429',
  });
  assert.equal(denied.status, 429);
  assert.match(denied.answer.type, /#quota-exceeded$/);
  assert.deepEqual(denied.answer['violated-policies'], ['default']);
});
