// A real mariadbd for a test: its own folder, its own port on loopback, removed with the test.
//
// It does not sync to the disk: commits survive a kill of the process, and only a crash of the machine
// would lose them.

import { spawn } from 'node:child_process';
import { appendFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { freePort, freeze, until } from './region.mjs';
import { withTimeout, run, temporaryFolder, weir } from './server.mjs';

const kUser = 'weir';
const kPassword = 'secret';
const kSize = ['--innodb-log-file-size=8M', '--innodb-buffer-pool-size=16M'];
const kDisk = ['--innodb-flush-method=nosync', '--innodb-flush-log-at-trx-commit=2'];

export class MariaDb {
  #databases = 0;

  // `more` are further flags.
  constructor(more = []) {
    this.more = more;
    process.on('exit', () => this.child?.kill('SIGKILL'));
  }

  // Creates its folder and starts it.
  async install() {
    this.folder = temporaryFolder();
    this.port = await freePort();
    const made = await run('mariadb-install-db', [
      ...this.#common(),
      '--auth-root-authentication-method=normal',
      '--skip-test-db',
      ...kDisk,
    ]);
    if (made.code !== 0) throw new Error(`mariadb-install-db: ${made.stdout}${made.stderr}`);
    await this.start();
    // The default installation has anonymous users, which take precedence on this host.
    await this.query("DELETE FROM mysql.global_priv WHERE User = ''; FLUSH PRIVILEGES");
    return this;
  }

  #common() {
    const asRoot = process.getuid() === 0 ? ['--user=root'] : [];
    const data = `--datadir=${join(this.folder, 'data')}`;
    // Servers with a common folder remove each other's temporary tables.
    const temporary = `--tmpdir=${this.folder}`;
    const place = ['--no-defaults', data, temporary];
    return [...place, '--skip-name-resolve', ...kSize, ...asRoot, ...this.more];
  }

  get #socket() {
    return join(this.folder, 's');
  }
  get #log() {
    return join(this.folder, 'log');
  }

  // Restarts on its port, with its committed data.
  async start() {
    const place = [`--port=${this.port}`, '--bind-address=127.0.0.1', `--socket=${this.#socket}`];
    const few = ['--performance-schema=OFF', '--max-connections=200', '--thread-cache-size=0'];
    const file = `--pid-file=${join(this.folder, 'pid')}`;
    const args = [...this.#common(), ...place, ...few, ...kDisk, file];
    this.child = spawn('mariadbd', args, { stdio: ['ignore', 'ignore', 'pipe'] });
    this.child.stderr.on('data', (text) => appendFileSync(this.#log, text));
    const { child } = this;
    this.ended = new Promise((resolve) => child.once('close', resolve));
    let ended = false;
    void this.ended.then(() => (ended = true));
    await until('mariadbd', async () => {
      if (ended) throw new Error(`mariadbd ended: ${readFileSync(this.#log, 'utf8')}`);
      return this.#answers();
    });
  }
  async #answers() {
    return (await this.#run('SELECT 1', '')).code === 0;
  }

  // Like a crash.
  async kill() {
    this.child.kill('SIGCONT');
    this.child.kill('SIGKILL');
    await withTimeout('mariadbd to end', this.ended);
  }
  async stop() {
    this.child.kill('SIGCONT');
    this.child.kill('SIGTERM');
    await withTimeout('mariadbd to stop', this.ended);
  }
  // Suspends the process until resume().
  pause() {
    return freeze(this.child);
  }
  resume() {
    this.child.kill('SIGCONT');
  }
  get alive() {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  #client(database) {
    const how = ['--no-defaults', `--socket=${this.#socket}`, '--user=root', '--batch', '--raw'];
    return [...how, '--skip-column-names', ...(database ? [database] : [])];
  }
  #run(sql, database) {
    return run('mariadb', this.#client(database), { input: sql });
  }

  // Runs a query as root; returns rows of words. Use HEX() for columns that may not be text.
  async query(sql, database = '') {
    const { code, stdout, stderr } = await this.#run(sql, database);
    if (code !== 0) throw new Error(`${sql}: ${stderr}`);
    const lines = stdout.split('\n').slice(0, -1);
    return lines.map((line) => line.split('\t'));
  }

  // A connection that stays open, to hold the locks of a transaction.
  session(database) {
    const child = spawn('mariadb', [...this.#client(database), '--unbuffered'], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    process.on('exit', () => child.kill('SIGKILL'));
    let output = '';
    child.stdout.on('data', (text) => (output += text));
    const ended = new Promise((resolve) => child.once('close', resolve));
    let statements = 0;
    return {
      // Resolves when the statement has run.
      async query(sql) {
        const mark = `done-${++statements}`;
        child.stdin.write(`${sql};\nSELECT '${mark}';\n`);
        await until(sql, () => output.includes(`${mark}\n`));
      },
      async end() {
        child.stdin.end();
        await withTimeout('a session to end', ended);
      },
    };
  }

  // An empty database on which the ledger user has all privileges, and none elsewhere.
  async emptyDatabase() {
    const name = `weir${++this.#databases}`;
    await this.query(
      `CREATE DATABASE ${name}; GRANT ALL ON ${name}.* TO '${kUser}'@'%' IDENTIFIED BY '${kPassword}'`,
    );
    return new Database(this, name);
  }
  // A database with the tables of a ledger.
  async ledger() {
    const database = await this.emptyDatabase();
    await database.migrate();
    return database;
  }
}

// A database used as a ledger.
class Database {
  constructor(server, name) {
    Object.assign(this, { server, name });
  }

  // `port`: of a proxy.
  url(port = this.server.port) {
    return `mysql://${kUser}:${kPassword}@127.0.0.1:${port}/${this.name}`;
  }
  async migrate() {
    const made = await weir(['migrate', '--ledger', this.url()]);
    if (made.code !== 0) throw new Error(`weir migrate: ${made.stderr}`);
    return made.stdout;
  }
  query(sql) {
    return this.server.query(sql, this.name);
  }

  // The published counts of a key: {region: count}, of its newest window.
  async counts(identifier) {
    const rows = await this.rows(identifier);
    const newest = Math.max(...rows.map(({ sequence }) => sequence));
    const newestRows = rows.filter(({ sequence }) => sequence === newest);
    return Object.fromEntries(newestRows.map(({ region, count }) => [region, count]));
  }
  async rows(identifier) {
    const found = await this.query(
      'SELECT region, sequence, count, limit_seen, written_at_ms FROM weir_cells ' +
        `WHERE identifier = X'${Buffer.from(identifier).toString('hex')}' ORDER BY sequence, region`,
    );
    return found.map(([region, ...numbers]) => {
      const [sequence, count, limit, written] = numbers.map(Number);
      return { region, sequence, count, limit, written };
    });
  }
}
