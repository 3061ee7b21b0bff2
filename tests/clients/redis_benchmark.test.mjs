// redis-benchmark, unchanged: nothing is lost or counted twice at any depth of pipeline.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { run, startServer } from './server.mjs';

let server;
before(async () => (server = await startServer()));
after(() => server.stop());

const decisions = () => server.metric('weir_decisions_total', 'frontend="resp"');

for (const { pipeline, requests } of [
  { pipeline: 1, requests: 2000 },
  { pipeline: 16, requests: 8000 },
  { pipeline: 64, requests: 16000 },
]) {
  test(`${requests} requests at -P ${pipeline} are all decided exactly once`, async () => {
    const before = await decisions();
    const { code, stdout, stderr } = await run(
      'redis-benchmark',
      [
        '-h',
        '127.0.0.1',
        '-p',
        server.respPort,
        '-c',
        4,
        '-P',
        pipeline,
        '-n',
        requests,
        '-r',
        1000,
        '-q',
        'CL.THROTTLE',
        'key:__rand_int__',
        15,
        30,
        60,
      ].map(String),
    );
    assert.equal(code, 0, stderr);
    assert.match(stdout, /requests per second/);
    assert.doesNotMatch(stdout + stderr, /error|warning/i);
    assert.equal((await decisions()) - before, requests);
  });
}

test('both outcomes are counted, and no request is bad', async () => {
  assert.ok((await server.metric('weir_decisions_total', 'frontend="resp"', 'outcome="admitted"')) > 0);
  assert.equal(await server.metric('weir_bad_requests_total', 'frontend="resp"'), 0);
});
