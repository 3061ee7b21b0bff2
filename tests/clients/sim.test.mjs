// weir sim, asked what README and docs tell a reader to type.

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

// What follows `weir sim` in lines of the page that begin with it: no word of theirs has a space.
function commandsIn(page) {
  const text = readFileSync(join(root, page), 'utf8');
  const lines = [...text.matchAll(/^(?:build\/bin\/)?weir sim ([^#\n]*)/gm)];
  assert.ok(lines.length > 0, `${page} shows no command`);
  return lines.map(([, args]) => args.trim().split(/\s+/));
}

// The same, but written to this folder, and soon at its end.
function adapted(args, folder) {
  const words = args.map((word, i) => (args[i - 1] === '--out' ? folder : word));
  return words.includes('--swarm') ? [...words, '--worlds', '3'] : words;
}

for (const page of ['README.md', 'docs/simulation.md', 'docs/scenarios.md']) {
  test(`every command of ${page} names a scenario there is, and the small ones run`, async () => {
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

test('a promise that is not kept is told, with the command to see it again', async () => {
  const promise = 'expect.0=denied >= 90%';
  const { code, stdout } = await sim(['scenarios/quickstart.yaml', '--set', promise]);
  assert.equal(code, 1, stdout);
  assert.match(stdout, /^NOT MET  denied >= 90: actual \d/m);
  assert.ok(
    stdout.includes(`weir sim scenarios/quickstart.yaml --seed 1 --set '${promise}'`),
    stdout,
  );
});

test('a folder that cannot be made is said before anything is lived', async () => {
  const { code, stdout, stderr } = await sim(['scenarios/quickstart.yaml', '--out', '/dev/null/x']);
  assert.deepEqual([code, stdout], [1, '']);
  assert.match(stderr, /^\/dev\/null\/x: cannot be created: /);
});
