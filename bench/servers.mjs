// Servers that a benchmark starts: on loopback, on ports that were free, with one thread, and
// gone with it.

import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const rootKey = 'bench-root-key-0123456789';

export const rest = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export const freePort = () => new Promise((resolve) => {
  const server = createServer().listen(0, '127.0.0.1', () => {
    const { port } = server.address();
    server.close(() => resolve(port));
  });
});

const canConnect = (port) => new Promise((resolve) => {
  const socket = connect(port, '127.0.0.1', () => { socket.destroy(); resolve(true); });
  socket.on('error', () => resolve(false));
});

export async function untilOpen(port, name) {
  for (let i = 0; i < 100; ++i) {
    if (await canConnect(port)) return;
    await rest(50);
  }
  throw new Error(`${name} does not listen on port ${port}`);
}

// Milliseconds of processor time that a process or a thread with this file of /proc has used.
function timeIn(stat) {
  const fields = readFileSync(stat, 'latin1').split(') ')[1].split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

// Of all these processes together, with all their threads.
export function processorTime(pids) {
  return pids.reduce((sum, pid) => sum + timeIn(`/proc/${pid}/stat`), 0);
}

export class Servers {
  constructor(name) {
    this.folder = mkdtempSync(join(tmpdir(), `weir-${name}-`));
    this.processes = [];
    process.on('exit', () => this.stop());
    for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));
  }

  spawn(command, args, options = {}) {
    const words = args.map(String);
    const child = spawn(command, words, { stdio: 'ignore', cwd: this.folder, ...options });
    child.on('error', (error) => { throw error; });
    this.processes.push(child);
    return child;
  }
  start(command, args, options) {
    return this.spawn(command, args, options).pid;
  }

  async redis() {
    const port = await freePort();
    const pid = this.start('redis-server',
      ['--port', port, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', this.folder]);
    await untilOpen(port, 'redis-server');
    return { name: 'redis-server', port, pids: [pid] };
  }

  async weir(binary, ...args) {
    const [port, http] = [await freePort(), await freePort()];
    const pid = this.start(binary,
      ['serve', '--threads', 1, '--resp', `127.0.0.1:${port}`, '--http', `127.0.0.1:${http}`,
        '--data', join(this.folder, 'data'), ...args],
      { env: { ...process.env, WEIR_ROOT_KEY: rootKey } });
    await untilOpen(port, 'weir');
    return { name: `weir ${args.join(' ')}`, port, http, pids: [pid] };
  }

  // A mariadbd with its usual care for the disk, and the address of an empty database in it.
  async mariadb() {
    const [port, folder] = [await freePort(), join(this.folder, 'mariadb')];
    const socket = join(this.folder, 'mariadb.sock');
    const common = ['--no-defaults', `--datadir=${folder}`, '--skip-name-resolve',
      '--innodb-log-file-size=16M', ...(process.getuid() === 0 ? ['--user=root'] : [])];
    const must = (command, args) => {
      const run = spawnSync(command, args, { encoding: 'utf8' });
      if (run.status !== 0) throw new Error(`${command} failed: ${run.stdout}${run.stderr}`);
    };
    must('mariadb-install-db', [...common, '--auth-root-authentication-method=normal', '--skip-test-db']);
    const child = this.spawn('mariadbd', [...common, `--port=${port}`, '--bind-address=127.0.0.1',
      `--socket=${socket}`, `--pid-file=${folder}/pid`]);
    child.hard = true; // it would write on for a while
    await untilOpen(port, 'mariadbd');
    // Users without a name come with it, and on this host they go before all with one.
    must('mariadb', ['--no-defaults', `--socket=${socket}`, '--user=root', '-e',
      "DELETE FROM mysql.global_priv WHERE User = ''; FLUSH PRIVILEGES; CREATE DATABASE weir; " +
      "GRANT ALL ON weir.* TO 'weir'@'%' IDENTIFIED BY 'weir'"]);
    return { name: 'mariadbd', port, url: `mysql://weir:weir@127.0.0.1:${port}/weir`, pids: [child.pid] };
  }

  // Ends what was started here, and nothing else.
  stop() {
    for (const child of this.processes.splice(0)) child.kill(child.hard ? 'SIGKILL' : 'SIGTERM');
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 10 });
  }
}
