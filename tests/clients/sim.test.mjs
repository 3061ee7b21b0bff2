// weir sim with the commands in README and docs.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { temporaryFolder, weir } from './server.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
const kLarge = /scenarios\/(rfc|scale|growth)/; // minutes of work

function sim(args) {
  return weir(['sim', ...args], { cwd: root, timeout: 240_000 });
}

// The arguments of `weir sim` in the lines of a page; no argument has a space.
function commandsIn(page) {
  const text = readFileSync(join(root, page), 'utf8');
  const lines = [...text.matchAll(/^(?:build\/bin\/)?weir sim ([^#\n]*)/gm)];
  assert.ok(lines.length > 0, `${page} shows no command`);
  return lines.map(([, args]) => args.trim().split(/\s+/));
}

// The same arguments with this output folder and a short duration.
function adapted(args, folder) {
  const words = args.map((word, i) => (args[i - 1] === '--out' ? folder : word));
  return words.includes('--swarm') ? [...words, '--worlds', '3'] : words;
}

for (const page of ['README.md', 'docs/simulation.md', 'docs/scenarios.md']) {
  test(`every command of ${page} names an existing scenario, and the small ones run`, async () => {
    for (const args of commandsIn(page)) {
      const command = `weir sim ${args.join(' ')}`;
      for (const file of args.filter((arg) => arg.endsWith('.yaml'))) {
        assert.ok(existsSync(join(root, file)), command);
      }
      if (kLarge.test(command)) continue;
      const folder = args.includes('--out') ? temporaryFolder() : undefined;
      const { code, stdout, stderr } = await sim(adapted(args, folder));
      assert.deepEqual([code, stderr], [0, ''], `${command}\n${stdout}`);
      if (folder === undefined) continue;
      const written = join(folder, basename(args[0], '.yaml'));
      assert.equal(JSON.parse(readFileSync(`${written}.json`, 'utf8')).runs.length, 1);
      assert.match(readFileSync(`${written}.html`, 'utf8'), /<svg[^]*<\/html>\s*$/);
    }
  });
}

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
