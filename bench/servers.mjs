// The servers of a benchmark: on loopback, on free ports, with one thread each. They stop with the
// benchmark.

import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

// As long as a key of the catalog.
export const rootKey = 'bench-root-key-0123456789-012345678';

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

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

const kStartTimeout = 60_000; // ms; a busy machine starts mariadbd slowly

async function untilOpen(port, child) {
  const end = performance.now() + kStartTimeout;
  while (!(await canConnect(port))) {
    const hasEnded = child.exitCode !== null || child.signalCode !== null;
    if (hasEnded || performance.now() > end) {
      throw new Error(`${child.spawnfile} ${hasEnded ? 'ended and' : ''} does not listen on port ${port}`);
    }
    await sleep(50);
  }
}

// The CPU time in ms of a process or thread, from its stat file in /proc.
function cpuTimeOf(stat) {
  const fields = readFileSync(stat, 'latin1').split(') ')[1].split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

// The total CPU time in ms of processes with all their threads.
export function cpuTime(pids) {
  return pids.reduce((sum, pid) => sum + cpuTimeOf(`/proc/${pid}/stat`), 0);
}

// The same without the threads that have ended, but exact to the nanosecond instead of 10 ms.
export function cpuTimeOfThreads(pids) {
  const threads = pids.flatMap((pid) => readdirSync(`/proc/${pid}/task`).map((thread) => `/proc/${pid}/task/${thread}`));
  return threads.reduce((sum, thread) => {
    const nanoseconds = readFileSync(`${thread}/schedstat`, 'latin1').split(' ')[0];
    return sum + Number(nanoseconds) / 1e6;
  }, 0);
}

export class Servers {
  constructor(name) {
    this.directory = mkdtempSync(join(tmpdir(), `weir-${name}-`));
    this.processes = [];
    process.on('exit', () => this.stop());
    for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));
  }

  spawn(command, args, options = {}) {
    const child = spawn(command, args.map(String), { stdio: 'ignore', cwd: this.directory, ...options });
    child.on('error', (error) => { throw error; });
    this.processes.push(child);
    return child;
  }
  // Returns the process once it listens on this port.
  async start(port, command, args, options) {
    const child = this.spawn(command, args, options);
    await untilOpen(port, child);
    return child;
  }

  async redis(...args) {
    const port = await freePort();
    const { pid } = await this.start(port, 'redis-server',
      ['--port', port, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', this.directory, ...args]);
    return { name: 'redis-server', port, pids: [pid] };
  }

  async weir(binary, ...args) {
    const [port, http] = [await freePort(), await freePort()];
    const { pid } = await this.start(port, binary,
      ['serve', '--threads', 1, '--resp', `127.0.0.1:${port}`, '--http', `127.0.0.1:${http}`,
        '--data', join(this.directory, `data-${port}`), ...args],
      { env: { ...process.env, WEIR_ROOT_KEY: rootKey } });
    return { name: `weir ${args.join(' ')}`, port, http, pids: [pid] };
  }

  // A mariadbd with default durability, and the URL of an empty database in it.
  async mariadb() {
    const [port, data] = [await freePort(), join(this.directory, 'mariadb')];
    const socket = join(this.directory, 'mariadb.sock');
    const common = ['--no-defaults', `--datadir=${data}`, '--skip-name-resolve',
      '--innodb-log-file-size=16M', ...(process.getuid() === 0 ? ['--user=root'] : [])];
    const runOrThrow = (command, args) => {
      const run = spawnSync(command, args, { encoding: 'utf8' });
      if (run.status !== 0) throw new Error(`${command} failed: ${run.stdout}${run.stderr}`);
    };
    runOrThrow('mariadb-install-db', [...common, '--auth-root-authentication-method=normal', '--skip-test-db']);
    const child = this.spawn('mariadbd', [...common, `--port=${port}`, '--bind-address=127.0.0.1',
      `--socket=${socket}`, `--pid-file=${data}/pid`]);
    child.killSignal = 'SIGKILL'; // a regular shutdown takes long
    await untilOpen(port, child);
    // Anonymous users would take precedence on this host.
    runOrThrow('mariadb', ['--no-defaults', `--socket=${socket}`, '--user=root', '-e',
      "DELETE FROM mysql.global_priv WHERE User = ''; FLUSH PRIVILEGES; CREATE DATABASE weir; " +
      "GRANT ALL ON weir.* TO 'weir'@'%' IDENTIFIED BY 'weir'"]);
    return { name: 'mariadbd', port, url: `mysql://weir:weir@127.0.0.1:${port}/weir`, pids: [child.pid] };
  }

  // Stops all servers of this object.
  stop() {
    for (const child of this.processes.splice(0)) child.kill(child.killSignal ?? 'SIGTERM');
    rmSync(this.directory, { recursive: true, force: true, maxRetries: 10 });
  }
}
