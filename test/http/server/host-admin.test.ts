/** `npm run admin` on the host, while the server runs and while it is stopped. */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { namesBefore } from '../../../src/store/db/convert.ts';
import { codeAt } from '../../db/control/totp-fixture.ts';
import { login, startServerProcess, PASSWORD, type ServerProcess } from '../../fixtures/server-process.ts';

const ROOT = join(import.meta.dirname, '../../..');

/** Sealed records of the audit log. */
async function recordedResets(folder: string): Promise<number> {
  const command = promisify(execFile)(process.execPath, ['src/main/audit-command.ts', 'export'], {
    cwd: ROOT,
    env: { PATH: process.env['PATH'] ?? '', BERTH_DATA: folder },
  });
  const { stdout } = await command;
  return stdout.split('\n').filter((line) => line.includes('"credential":"host"')).length;
}

async function admin(folder: string, ...args: string[]): Promise<{ code: number; text: string }> {
  const command = promisify(execFile)(process.execPath, ['scripts/host-admin.ts', ...args], {
    cwd: ROOT,
    env: { PATH: process.env['PATH'] ?? '', BERTH_DATA: folder },
  });
  return command.then(
    ({ stdout }) => ({ code: 0, text: stdout }),
    (error: { code: number; stderr: string }) => ({ code: error.code, text: error.stderr }),
  );
}

const passwordIn = ({ text }: { text: string }): string => /^New password of admin: (\S{20})$/m.exec(text)?.[1] ?? '';
const canLogIn = (server: ServerProcess, password: string): Promise<boolean> =>
  login(server, 'admin', password).then(
    () => true,
    () => false,
  );

test('replaces a lost password and ends its logins, with the server running and stopped', async () => {
  const server = await startServerProcess({ nodePorts: '32640-32649', settings: { BERTH_ENGINE: 'simulated' } });
  onTestFinished(() => server.stop());
  const { folder } = server;
  const { client } = await login(server, 'admin', PASSWORD);
  await client.inviteAccount({ username: 'anna' });
  expect((await stat(join(folder, 'admin.sock'))).mode & 0o777).toBe(0o600);
  const listed = { code: 0, text: 'anna\tuser\tactive\nadmin\tadmin\tactive\n' };
  expect(await admin(folder, 'list')).toEqual(listed);

  const running = passwordIn(await admin(folder, 'reset-password', 'ADMIN'));
  await expect(client.userInfo()).rejects.toMatchObject({ status: 401 });
  expect(await Promise.all([canLogIn(server, PASSWORD), canLogIn(server, running)])).toEqual([false, true]);
  expect(server.output()).not.toContain(running);
  const unknown = await admin(folder, 'reset-password', 'nobody');
  expect(unknown).toMatchObject({ code: 1, text: expect.stringContaining('npm run admin -- list') });

  await expect.poll(() => recordedResets(folder)).toBe(1);

  // A kill leaves the socket behind.
  await server.kill('SIGKILL');
  expect(await admin(folder, 'list')).toEqual(listed);
  const stopped = passwordIn(await admin(folder, 'reset-password', 'admin'));
  await server.start();
  expect(await Promise.all([canLogIn(server, running), canLogIn(server, stopped)])).toEqual([false, true]);
  await expect.poll(() => recordedResets(folder)).toBe(2);
});

test('resets a lost second factor, with the server running and stopped', async () => {
  const settings = { BERTH_ENGINE: 'simulated', BERTH_SECOND_FACTOR_ROLE: 'admin' };
  const server = await startServerProcess({ nodePorts: '32670-32674', settings });
  onTestFinished(() => server.stop());
  const { folder } = server;
  const setUp = async () => {
    const { client } = await login(server, 'admin', PASSWORD);
    const { secret } = await client.createTotp({ password: PASSWORD });
    await client.confirmTotp({ code: codeAt(secret, Date.now()) });
    return client;
  };
  const client = await setUp();
  expect(await canLogIn(server, PASSWORD)).toBe(false);
  const said = expect.stringMatching(/^admin has no second factor any more/);
  expect(await admin(folder, 'reset-second-factor', 'admin')).toMatchObject({ code: 0, text: said });
  await expect(client.userInfo()).rejects.toMatchObject({ status: 401 });
  expect(await canLogIn(server, PASSWORD)).toBe(true);
  await expect.poll(() => recordedResets(folder)).toBe(1);

  await setUp();
  await server.kill('SIGTERM');
  expect(await admin(folder, 'reset-second-factor', 'admin')).toMatchObject({ code: 0, text: said });
  await server.start();
  expect(await canLogIn(server, PASSWORD)).toBe(true);
  const unknown = await admin(folder, 'reset-second-factor', 'nobody');
  expect(unknown).toMatchObject({ code: 1, text: expect.stringContaining('npm run admin -- list') });
});

test('makes nothing in a folder without an installation, and refuses what it does not know', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'berth-no-data-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  expect(await admin(folder, 'list')).toMatchObject({ code: 1, text: expect.stringContaining('set BERTH_DATA') });
  expect(await admin(folder, 'convert')).toMatchObject({ code: 1, text: expect.stringContaining('set BERTH_DATA') });
  await writeFile(join(folder, 'secrets.key'), 'k');
  const text = expect.stringContaining('set BERTH_DATABASE_URL');
  expect(await admin(folder, 'convert')).toMatchObject({ code: 1, text });
  await expect(stat(join(folder, 'berth.db'))).rejects.toThrow(/ENOENT/);
});

/** The data of a stopped server in the schema that conversions end with. */
async function inFirstSchema(folder: string): Promise<DatabaseSync> {
  const [file, later] = [join(folder, 'berth.db'), join(folder, 'later.db')];
  await rename(file, later);
  const database = new DatabaseSync(file, { enableForeignKeyConstraints: false });
  database.exec(await readFile(join(ROOT, 'src/store/migrations/0001-schema.sqlite.sql'), 'utf8'));
  database.prepare('attach ? as later').run(later);
  database.exec('create table migration as select * from later.migration');
  const columnsOf = (table: unknown, schema: string): unknown[] =>
    database
      .prepare('select name from pragma_table_xinfo(?, ?)')
      .all(String(table), schema)
      .map(({ name }) => name);
  for (const { name } of database.prepare(`select name from sqlite_schema where type = 'table'`).all()) {
    const kept = columnsOf(name, 'later');
    const columns = columnsOf(name, 'main').filter((column) => kept.includes(column));
    const list = columns.map((column) => `"${String(column)}"`).join();
    if (name !== 'migration' && columns.length > 0)
      database.exec(`insert or replace into "${String(name)}" (${list}) select ${list} from later."${String(name)}"`);
  }
  database.exec('detach later');
  return database;
}

test('converts the data of a version before 0.2 while no server runs; a server names the command', async () => {
  const server = await startServerProcess({ nodePorts: '32650-32659', settings: { BERTH_ENGINE: 'simulated' } });
  onTestFinished(() => server.stop());
  const { folder } = server;
  expect(await admin(folder, 'convert')).toMatchObject({ code: 1, text: expect.stringContaining('is in use by') });
  await server.kill('SIGTERM');
  const database = await inFirstSchema(folder);
  database.exec('delete from migration; alter table account rename column usage to was');
  database.exec('alter table account add column usage text; update account set usage = was');
  database.exec('alter table account drop column was');
  database.exec(`insert into setting values ('billing.metered', '1')`);
  for (const name of namesBefore) database.prepare('insert into migration values (?, 1)').run(name);
  database.close();

  await expect(server.start()).rejects.toThrow();
  expect(server.output()).toContain('npm run admin -- convert');
  expect(await admin(folder, 'convert')).toEqual({
    code: 0,
    text: expect.stringMatching(/^the database is converted\n(the database was migrated\n)+$/),
  });
  expect(await admin(folder, 'convert')).toEqual({ code: 0, text: 'the database is already converted\n' });
  await server.start();
  await expect(login(server, 'admin', PASSWORD)).resolves.toBeDefined();
});

test('tries a login by the settings and a file of claims, without an installation', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'berth-host-admin-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const claims = join(folder, 'claims.json');
  const settings = {
    BERTH_OIDC_ISSUER: 'https://login.example.org',
    BERTH_OIDC_CLIENT_ID: 'berth',
    BERTH_OIDC_CLIENT_SECRET_FILE: '/etc/berth/oidc-secret',
    BERTH_OIDC_GROUPS: 'staff',
  };
  const check = async (
    given: object,
    env: Record<string, string>,
    more: string[] = [],
  ): Promise<{ code: number; text: string }> => {
    await writeFile(claims, JSON.stringify(given));
    const options = { cwd: ROOT, env: { PATH: process.env['PATH'] ?? '', BERTH_DATA: folder, ...env } };
    return promisify(execFile)(
      process.execPath,
      ['scripts/host-admin.ts', 'sign-on-check', claims, ...more],
      options,
    ).then(
      ({ stdout }) => ({ code: 0, text: stdout }),
      (error: { code: number; stdout: string; stderr: string }) => ({
        code: error.code,
        text: error.stdout + error.stderr,
      }),
    );
  };
  const [allowed, refused, unset, tooMany] = await Promise.all([
    check({ sub: 's', groups: ['staff'] }, settings),
    check({ sub: 's', groups: ['staff'] }, { ...settings, BERTH_OIDC_GROUPS: 'bosses' }),
    check({ sub: 's', groups: ['staff'] }, {}),
    check({ sub: 's', groups: ['staff'] }, settings, ['another']),
  ]);
  expect(allowed).toMatchObject({
    code: 0,
    text: expect.stringMatching(/^Allowed\.\nName of a new account: user-s\n/),
  });
  expect(refused).toMatchObject({ code: 1, text: expect.stringContaining('setting: "BERTH_OIDC_GROUPS"') });
  expect(tooMany).toMatchObject({ code: 1, text: expect.stringContaining('sign-on-check [FILE]') });
  expect(unset).toMatchObject({ code: 1, text: expect.stringContaining('Set the BERTH_OIDC_* variables') });
});
