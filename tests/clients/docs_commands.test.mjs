// Every command line of README and docs, run as a person types it.
//
// A block is a fence with the language sh. The blocks of a page run one after the other in one folder,
// each in a shell of its own, as in another terminal. `build/bin`, `scenarios` and `examples` are those of
// this tree. Servers stay up for the later blocks of the page; one that needs the address of an earlier one
// stops that first, as a person has to.
//
// Ports are replaced: each port of a page is another free one, the same everywhere on the page.
//
// A block that cannot run says why: ```sh not-run: REASON, a reason of kReasons, which must hold for each of
// its commands. The subcommands and options of all commands must exist, also of those, and of commands in
// the text.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join, resolve } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { until } from './region.mjs';
import { environment, kBinary, run, temporaryFolder, weir } from './server.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
// The one that takes longest first.
const kPages = [...new Set(['docs/simulation.md', 'README.md', 'CONTRIBUTING.md', ...markdownIn('docs')])];

// Why a block is not run, and what each of its commands must look like.
const kReasons = {
  builds: /^(\w+=\S* )*(\.\/dev (run|build|test|fuzz|bench|format|clean)\b|cmake |build\/tests\/)/,
  hosts: /:\/\/([^/@ ]*@)?(?!127\.0\.0\.1|localhost)[a-z]/, // they do not exist
  slow: /^(build\/bin\/)?weir sim .*(scenarios\/(rfc|scale|growth)|--worlds \d{4})/, // minutes of work
};

const kServes = /^(?:\w+=\S* )*(?:\.\/dev run|(?:\.?\/?build\/bin\/)?weir serve)\b(?!.* --help\b)/;
const kCatalogCommand = /\bweir (workspaces|keys|namespaces|overrides|audit)\b/;
// After which a number is a port.
const kPort = /((?:127\.0\.0\.1|0\.0\.0\.0|localhost|\[::1\]):|-p |--port |http\.server )(\d{4,5})\b/g;
// A comment that is the output of its command.
const kWords = /^\d+( \d+)+$/;
// Commands that ask, and the answers.
const kAnswers = [[/weir lab --suggest$/, 'yes\nno\n1000\n100\n60000\n50\n']];

function markdownIn(folder) {
  const names = readdirSync(join(root, folder), { recursive: true }).map(String);
  return names.filter((name) => name.endsWith('.md')).sort().map((name) => join(folder, name));
}

// --- reading a page ---

// The fences of a page: {language, info, line, body: lines}. `line` is that of the first line of the body.
function fencesOf(page) {
  const fences = [];
  let open = null;
  readFileSync(join(root, page), 'utf8').split('\n').forEach((text, i) => {
    const fence = text.match(/^\s*```(.*)$/);
    if (open) {
      if (fence) open = null;
      else open.body.push(text);
    } else if (fence) {
      const [language, ...info] = fence[1].trim().split(/\s+/);
      open = { language, info: info.join(' '), line: i + 2, body: [] };
      fences.push(open);
    }
  });
  assert.equal(open, null, `${page}: a fence has no end`);
  return fences;
}

// Where the comment of a line begins, or its length.
function commentAt(text) {
  let quote = '';
  for (let i = 0; i < text.length; ++i) {
    const c = text[i];
    if (quote) {
      if (c === '\\' && quote === '"') ++i;
      else if (c === quote) quote = '';
    } else if (c === '\\') ++i;
    else if (c === "'" || c === '"') quote = c;
    else if (c === '#' && (i === 0 || /\s/.test(text[i - 1]))) return i;
  }
  return text.length;
}

const isComplete = (text) =>
  !text.endsWith('\\') && spawnSync('bash', ['-n', '-c', text], { stdio: 'ignore' }).status === 0;

// The commands of a block: {text, comment, line}. A command may have several lines.
function commandsOf({ line, body }) {
  const commands = [];
  let text = '';
  body.forEach((added, i) => {
    text += (text && '\n') + added;
    if (!isComplete(text)) return;
    const end = commentAt(text);
    const command = { text: text.slice(0, end).trim(), comment: text.slice(end + 1).trim(), line: line + i };
    if (command.text) commands.push(command);
    // The output, in a line of its own.
    else if (commands.length > 0 && kWords.test(command.comment)) commands.at(-1).comment = command.comment;
    text = '';
  });
  assert.equal(text, '', `line ${line}: the block ends within a command`);
  return commands;
}

// The blocks of a page: {line, reason: empty if it is run, commands}.
function blocksOf(page) {
  return fencesOf(page)
    .filter(({ language }) => /^(sh|bash|shell|console)$/.test(language))
    .map((fence) => {
      const where = `${page}:${fence.line - 1}`;
      assert.equal(fence.language, 'sh', `${where}: write \`\`\`sh`);
      const [, reason] = fence.info.match(/^not-run: (\S+)$/) ?? [];
      const known = Object.keys(kReasons).join(', ');
      assert.ok(fence.info === '' || reason in kReasons, `${where}: '${fence.info}' is not 'not-run: REASON' of ${known}`);
      const commands = commandsOf(fence);
      assert.ok(commands.length > 0, `${where}: the block is empty`);
      for (const command of commands) {
        const needed = reason === undefined || kReasons[reason].test(command.text);
        assert.ok(needed, `${page}:${command.line}: the marker '${reason}' does not hold for this command`);
      }
      return { line: fence.line, reason, commands };
    });
}

// Commands within the text of a page: {text, line}.
function inlineCommandsOf(page) {
  let inside = false;
  return readFileSync(join(root, page), 'utf8').split('\n').flatMap((text, i) => {
    if (/^\s*```/.test(text)) inside = !inside;
    if (inside) return [];
    const found = text.matchAll(/`((?:build\/bin\/)?weir [a-z][^`]*|\.\/dev [^`]*)`/g);
    return [...found].map(([, command]) => ({ text: command, line: i + 1 }));
  });
}

// --- subcommands and options ---

const helps = new Map(); // by the words before --help
function helpOf(words) {
  const name = words.join(' ');
  if (!helps.has(name)) helps.set(name, weir([...words, '--help']));
  return helps.get(name).then(({ stdout }) => ({
    options: new Set([...stdout.matchAll(/^ +(?:-\w, ?)?(--[\w-]+)/gm)].map(([, option]) => option)),
    commands: new Set([...(stdout.split(/^Commands:$/m)[1] ?? '').matchAll(/^ {2}([a-z-]+) /gm)].map(([, c]) => c)),
  }));
}

const optionsIn = (words) => words.filter((word) => /^--[a-z]/.test(word)).map((word) => word.replace(/=.*/, ''));

async function checkWeir(words, where) {
  const path = [];
  let help = await helpOf(path);
  while (help.commands.has(words[path.length])) {
    path.push(words[path.length]);
    help = await helpOf(path);
  }
  const next = words[path.length];
  const named = path.length > 0 || next?.startsWith('-');
  assert.ok(named, `${where}: weir has no command '${next}'`);
  const group = help.commands.size > 0 && /^[a-z]/.test(next ?? '');
  assert.ok(!group, `${where}: weir ${path.join(' ')} has no command '${next}'`);
  for (const option of optionsIn(words)) {
    assert.ok(help.options.has(option), `${where}: weir ${path.join(' ')} has no option ${option}`);
  }
}

const usage = spawnSync(join(root, 'dev'), ['help'], { encoding: 'utf8' }).stdout;
const modules = spawnSync(join(root, 'dev'), ['test', '--list'], { encoding: 'utf8' }).stdout;

async function checkDev([command, ...words], where) {
  // The paragraphs of the command.
  const texts = usage.split(/\n(?= {2}[a-z])/).filter((text) => new RegExp(`^ *${command}\\b`).test(text));
  assert.ok(texts.length > 0, `${where}: ./dev has no command '${command}'`);
  if (command === 'run') return checkWeir(['serve', ...words], where);
  let known = texts.join('\n');
  const [what] = words;
  if (command === 'bench' && /^[a-z]/.test(what ?? '')) {
    assert.match(known, new RegExp(`^ *bench ${what}\\b`, 'm'), `${where}: there is no benchmark '${what}'`);
    known += readFileSync(join(root, `bench/${what}/${what}.mjs`), 'utf8');
  } else if (command === 'bench') {
    known += readFileSync(join(root, 'bench/arguments.cc'), 'utf8');
  }
  if (command === 'fuzz' && /^[a-z]/.test(what ?? '')) assert.ok(existsSync(join(root, 'fuzz/corpora', what)), where);
  for (const option of optionsIn(words)) {
    assert.match(known, new RegExp(`${option}\\b`), `${where}: ./dev ${command} has no option ${option}`);
  }
  const module = words[words.indexOf('--only') + 1];
  if (command === 'test' && words.includes('--only') && module !== 'MODULE') {
    assert.match(modules, new RegExp(`^ +${module} `, 'm'), `${where}: there is no module '${module}'`);
  }
}

// Checks each call of weir and ./dev in a command; options that are values in quotes are not looked at.
async function checkNames({ text, line }, page) {
  const where = `${page}:${line}`;
  const plain = text.replace(/\\\n/g, ' ').replace(/'[^']*'|"[^"]*"/g, 'QUOTED');
  for (const part of plain.split(/[|&;()]+/)) {
    const words = part.trim().split(/\s+/).filter((word) => !/^\w+=/.test(word));
    const [program, ...rest] = words;
    if (/^(\.?\/?build\/bin\/)?weir$/.test(program)) await checkWeir(rest, where);
    if (program === './dev') await checkDev(rest, where);
    for (const file of words.filter((word) => /^(scenarios|examples)\/[^*]*\.\w+$/.test(word))) {
      assert.ok(existsSync(join(root, file)), `${where}: there is no ${file}`);
    }
  }
}

// --- running a page ---

// Below the ports that the system gives to others, so that nobody takes it meanwhile.
const taken = new Set();
async function quietPort() {
  const range = readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8');
  for (;;) {
    const port = randomInt(10_000, Number(range.split(/\s+/)[0]));
    const isFree = await new Promise((answer) => {
      const probe = createServer().once('error', () => answer(false));
      probe.listen(port, () => probe.close(() => answer(true)));
    });
    if (!isFree || taken.has(port)) continue;
    taken.add(port);
    return port;
  }
}

// Functions for all blocks. `gone` also holds for an ended process whose parent does not wait for it.
const kPrelude = `
sleep() { :; }  # a server that was started is ready
# An error of the server is a failure, unless the command asks for the status.
redis-cli() { command redis-cli -e "$@"; }
curl() { case " $* " in *" -w "*) command curl "$@" ;; *) command curl -sS --fail-with-body "$@" ;; esac; }
gone() { [ ! -e /proc/$1 ] || grep -qs '^State:.Z' /proc/$1/status; }
pause() { command sleep 0.02; }
stop() { kill -INT "$1" 2>/dev/null || :; until gone "$1"; do pause; done; }
# make_way ADDRESSES...: stops the servers that have one of them.
make_way() {
  local pid address
  [ ! -e "$DOCS/servers" ] || while read -r pid address; do
    case " $* " in *" $address "*) stop "$pid" ;; esac
  done <"$DOCS/servers"
}
# served PID LOG ADDRESSES...: waits until the server is ready.
served() {
  local pid=$1 log=$2 address
  echo "$pid" >>"$DOCS/pids"
  for address in "\${@:3}"; do echo "$pid $address" >>"$DOCS/servers"; done
  until grep -q 'Ctrl-C stops it' "$log"; do
    if gone "$pid"; then cat "$log" >&2; exit 1; fi
    pause
  done
}
# listens PID LOG PORTS...: waits until another program accepts connections.
listens() {
  local pid=$1 log=$2 port
  echo "$pid" >>"$DOCS/pids"
  for port in "\${@:3}"; do
    until (exec 3<>/dev/tcp/127.0.0.1/$port) 2>/dev/null; do
      if gone "$pid"; then cat "$log" >&2; exit 1; fi
      pause
    done
  done
}
# last_key: the id of the key that was created last in this block.
last_key() { grep -o 'key_[a-z0-9]*' "$DOCS/output" | tail -n 1; }
`;

// Stands in for apt-get: the packages must be installed already.
const kAptGet = `#!/bin/bash
[ "$1 $2" = 'install -y' ] || { echo "apt-get $*: only install -y is known" >&2; exit 1; }
dpkg-query -W "\${@:3}" >/dev/null
`;

// Ends with this test, keeps no files, and is ready when it returns.
const kRedisServer = `#!/bin/bash
port=6379
args=("$@")
for ((i = 0; i < $#; ++i)); do [ "\${args[i]}" != --port ] || port=\${args[i + 1]}; done
/usr/bin/env PATH="$DOCS_PATH" redis-server "$@" --bind 127.0.0.1 --save '' --dir "$DOCS" --pidfile "$DOCS/redis-$port.pid"
until redis-cli -p $port ping 2>/dev/null | grep -q PONG; do sleep 0.02; done
cat "$DOCS/redis-$port.pid" >>"$DOCS/pids"
`;

const kDev = `#!/bin/bash
case $1 in
  run) exec build/bin/weir serve "\${@:2}" ;;
  help) exec "$DOCS_ROOT/dev" help ;;
  *) echo "./dev $1 builds: mark the block" >&2; exit 1 ;;
esac
`;

const pages = new Set();
// First, because the folders with the process ids are removed then, too.
process.prependListener('exit', () => pages.forEach((page) => page.signal('SIGKILL')));

// For a busy machine: no window ends meanwhile, and a gateway waits for its answer.
const patient = (text) =>
  text.replace(/ 60000\b/g, ' 86400000').replace(/duration: 60s/g, 'duration: 24h').replace(/_timeout \d+ms/g, '_timeout 60s');

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

class Page {
  ports = new Map(); // by the port in the text

  constructor(name) {
    this.name = name;
    this.folder = temporaryFolder();
    this.docs = join(this.folder, 'tools'); // what belongs to the test
    pages.add(this);
  }

  async prepare(text) {
    for (const [, , port] of [...text.matchAll(kPort), [0, 0, '7070'], [0, 0, '7071']]) {
      if (!this.ports.has(port)) this.ports.set(port, await quietPort());
    }
    mkdirSync(join(this.docs, 'bin'), { recursive: true });
    mkdirSync(join(this.folder, 'build'));
    symlinkSync(dirname(resolve(kBinary)), join(this.folder, 'build/bin'));
    symlinkSync(join(root, 'scenarios'), join(this.folder, 'scenarios'));
    cpSync(join(root, 'examples'), join(this.folder, 'examples'), { recursive: true });
    for (const file of readdirSync(join(this.folder, 'examples/gateways'))) {
      const path = join(this.folder, 'examples/gateways', file);
      const example = readFileSync(path, 'utf8');
      for (const [, , port] of example.matchAll(kPort)) {
        if (!this.ports.has(port)) this.ports.set(port, await quietPort());
      }
      writeFileSync(path, patient(this.replaced(example)));
    }
    writeFileSync(join(this.docs, 'prelude'), kPrelude);
    this.#tool('bin/apt-get', kAptGet);
    this.#tool('bin/redis-server', kRedisServer);
    this.#tool('../dev', kDev);
  }

  #tool(name, text) {
    writeFileSync(join(this.docs, name), text);
    chmodSync(join(this.docs, name), 0o755);
  }

  // Files that the commands of the page read and that the page shows.
  provide(fences) {
    const write = (name, shows) => {
      const fence = fences.find(shows);
      if (fence) writeFileSync(join(this.folder, name), `${this.replaced(fence.body.join('\n'))}\n`);
    };
    write('weir.yaml', ({ language }) => language === 'yaml');
    write('requests.csv', ({ body }) => body[0].startsWith('time_ms,key'));
  }

  replaced(text) {
    return text
      .replace(kPort, (whole, before, port) => before + (this.ports.get(port) ?? port))
      .replaceAll('0.0.0.0:', '127.0.0.1:')
      .replaceAll('/tmp/', `${this.folder}/`);
  }

  // The addresses of a server, or what it would share with another one.
  #addresses(text) {
    const value = (name) => text.match(new RegExp(`--${name} (\\S+)`))?.[1];
    const usual = { http: this.ports.get('7070'), resp: this.ports.get('7071') };
    const listeners = ['http', 'resp', 'https', 'resps'].map((name) => value(name) ?? usual[name] ?? 'off');
    const ports = listeners.filter((at) => at !== 'off').map((at) => `port:${String(at).split(':').pop()}`);
    return value('origin') ? ports : [...ports, `data:${value('data') ?? 'weir-data'}`];
  }

  // The ports of another program in the background.
  #portsOf(text, where) {
    const [, port] = text.match(/http\.server (\d+)/) ?? [];
    if (port) return [port];
    const [, file] = text.match(/\bnginx .*-c (?:\$PWD\/)?(\S+)/) ?? [];
    assert.ok(file, `${where}: when is '${text}' ready? Add it to portsOf()`);
    const config = readFileSync(join(this.folder, file), 'utf8');
    return [...config.matchAll(/listen 127\.0\.0\.1:(\d+)/g)].map(([, at]) => at);
  }

  // A command as this test runs it.
  #script({ text, comment, line }) {
    let command = this.replaced(text).replaceAll('KEY_ID', '$(last_key)');
    if (comment.startsWith('remaining ')) command = patient(command);
    const background = command.endsWith('&') && !command.endsWith('&&');
    if (background) command = command.slice(0, -1).trim();
    const log = quoted(join(this.docs, `line-${line}.log`));
    const start = [`printf '\\n@@ ${line}\\n'`];
    if (kServes.test(command)) {
      const addresses = this.#addresses(command).join(' ');
      // The file has the addresses.
      if (/--config /.test(command)) command = `env -u WEIR_HTTP -u WEIR_RESP ${command}`;
      return [...start, `make_way ${addresses}`, `${command} >${log} 2>&1 &`, `served $! ${log} ${addresses}`];
    }
    if (background) {
      const ports = this.#portsOf(command, `${this.name}:${line}`);
      // What comes before the program ends at once.
      const [before, program] = command.match(/^(.* && )?(.*)$/s).slice(1);
      return [...start, (before ?? '').replace(/ && $/, ''), `${program} >${log} 2>&1 &`, `listens $! ${log} ${ports.join(' ')}`];
    }
    // Not for minutes, and the same worlds each time: other tests look for one that breaks.
    if (/weir sim --swarm\b/.test(command)) command += ' --worlds 3 --seed 1';
    const answers = kAnswers.find(([asks]) => asks.test(command))?.[1];
    return [...start, answers ? `${command} <<<${quoted(answers)}` : command];
  }

  async run(block) {
    // To files: servers in the background would keep a pipe open.
    const files = ['output', 'errors'].map((name) => join(this.docs, name));
    for (const file of files) writeFileSync(file, '');
    const begin = ['set -e', `exec >${quoted(files[0])} 2>${quoted(files[1])}`, `. ${quoted(join(this.docs, 'prelude'))}`];
    const script = [...begin, ...block.commands.flatMap((each) => this.#script(each))].join('\n');
    const env = {
      ...environment(),
      DOCS: this.docs,
      DOCS_ROOT: root,
      DOCS_PATH: process.env.PATH,
      PATH: `${join(this.docs, 'bin')}:${join(this.folder, 'build/bin')}:${process.env.PATH}`,
      WEIR_HTTP: `127.0.0.1:${this.ports.get('7070')}`,
      WEIR_RESP: `127.0.0.1:${this.ports.get('7071')}`,
      WEIR_DRAIN_GRACE: '0s',
      WEIR_READ_DEADLINE: '10s', // Redis answers late on a busy machine
    };
    const { code } = await run('bash', ['-c', script], { cwd: this.folder, env, timeout: 240_000 });
    const [stdout, stderr] = files.map((file) => readFileSync(file, 'utf8'));
    const outputs = stdout.split(/^@@ (\d+)\n/m);
    const last = outputs.length > 1 ? outputs.at(-2) : block.line;
    assert.equal(code, 0, `${this.name}:${last}: the command fails\n${outputs.at(-1)}${stderr}`);
    for (const command of block.commands) {
      const at = outputs.indexOf(String(command.line));
      this.#compare(command, outputs[at + 1].trim());
    }
  }

  // What the comment of a command says about its result.
  #compare({ comment, line }, output) {
    const where = `${this.name}:${line}`;
    const [, remaining] = comment.match(/^remaining (\d+)/) ?? [];
    if (remaining) assert.match(output, new RegExp(`^remaining\\n${remaining}$`, 'm'), where);
    const [, file] = comment.match(/\b(out\/[\w.-]+)/) ?? [];
    if (file) assert.ok(existsSync(join(this.folder, file)), `${where}: it did not write ${file}`);
    if (kWords.test(comment)) assert.equal(output.split(/\s+/).join(' '), comment, where);
  }

  #pids() {
    const file = join(this.docs, 'pids');
    return existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean).map(Number) : [];
  }
  signal(signal) {
    for (const pid of this.#pids()) {
      try {
        process.kill(pid, signal);
      } catch {
        // it has ended
      }
    }
  }
  async end() {
    this.signal('SIGTERM');
    const ended = (pid) => {
      try {
        return /^State:\tZ/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
      } catch {
        return true;
      }
    };
    await until('the programs of a page to end', () => this.#pids().every(ended));
  }
}

describe('the commands of', { concurrency: 4 }, () => {
  for (const name of kPages) {
    test(`${name} name existing subcommands, options and files`, async () => {
      const commands = blocksOf(name).flatMap(({ commands }) => commands);
      for (const command of [...commands, ...inlineCommandsOf(name)]) await checkNames(command, name);
    });
    if (!fencesOf(name).some(({ language, info }) => language === 'sh' && info === '')) continue;
    test(`${name} run`, async () => {
      const blocks = blocksOf(name).filter(({ reason }) => reason === undefined);
      const page = new Page(name);
      const texts = blocks.flatMap(({ commands }) => commands).map(({ text }) => text);
      await page.prepare(texts.join('\n'));
      page.provide(fencesOf(name));
      try {
        // A page that does not say how to start a server or Redis needs those of another page.
        const needsRedis = texts.some((text) => /redis:\/\/127\.0\.0\.1:6379/.test(text));
        if (needsRedis) await page.run({ line: 0, commands: [{ text: 'redis-server --port 6379 --daemonize yes', comment: '', line: 0 }] });
        const needsServer = texts.some((text) => /:707[01]\b|-p 7071\b/.test(text) || kCatalogCommand.test(text));
        if (needsServer && !texts.some((text) => kServes.test(text))) {
          await page.run({ line: 0, commands: [{ text: 'weir serve', comment: '', line: 0 }] });
        }
        for (const block of blocks) await page.run(block);
      } finally {
        await page.end();
      }
    });
  }
});
