// weir sim: its files and errors. docs_commands.test.mjs runs the commands of README and docs.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { temporaryFolder, weir } from './server.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));

function sim(args) {
  return weir(['sim', ...args], { cwd: root, timeout: 240_000 });
}

test('--out writes the results as a page and as JSON', async () => {
  const folder = temporaryFolder();
  const { code, stdout, stderr } = await sim(['scenarios/quickstart.yaml', '--out', folder]);
  assert.deepEqual([code, stderr], [0, ''], stdout);
  assert.equal(JSON.parse(readFileSync(join(folder, 'quickstart.json'), 'utf8')).runs.length, 1);
  assert.match(readFileSync(join(folder, 'quickstart.html'), 'utf8'), /<svg[^]*<\/html>\s*$/);
});

test('a failed expectation is reported with the command that reproduces it', async () => {
  const expectation = 'expect.0=denied >= 90%';
  const { code, stdout } = await sim(['scenarios/quickstart.yaml', '--set', expectation]);
  assert.equal(code, 1, stdout);
  assert.match(stdout, /^NOT MET  denied >= 90: actual \d/m);
  assert.ok(
    stdout.includes(`weir sim scenarios/quickstart.yaml --seed 1 --set '${expectation}'`),
    stdout,
  );
});

test('a folder that cannot be created is reported before the simulation starts', async () => {
  const { code, stdout, stderr } = await sim(['scenarios/quickstart.yaml', '--out', '/dev/null/x']);
  assert.deepEqual([code, stdout], [1, '']);
  assert.match(stderr, /^\/dev\/null\/x: cannot be created: /);
});
