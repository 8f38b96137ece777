/** Databases as operators have them: poolers, fail-over, TLS, a database that is not there yet. */
import { readFile } from 'node:fs/promises';
import { sql } from 'kysely';
import { describe, expect, onTestFinished, test } from 'vitest';
import { lockDatabase } from '../../../src/store/db/database-lock.ts';
import { reachPostgres } from '../../../src/store/db/reach-postgres.ts';
import { openStore } from '../../../src/store/open.ts';
import type { Store } from '../../../src/store/store.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { freePort } from '../../fixtures/free-port.ts';
import { startPgbouncer } from '../../fixtures/pgbouncer.ts';
import { administer } from '../../fixtures/postgres-template.ts';
import { needsProgram } from '../../fixtures/programs.ts';
import { quietLog, recordingLog } from '../../fixtures/store.ts';
import { makeTlsAuthority, type TlsAuthority } from '../../fixtures/tls-authority.ts';
import { ownServer, tcpServer } from './own-server.ts';
import { accountRow } from './rows.ts';

const refusal = async (url: string): Promise<string> =>
  reachPostgres({ url }).then(
    () => 'reached',
    (error: unknown) => String(error instanceof Error ? error.message : error),
  );

const sessionsOf = async ({ read }: Store) =>
  sql<{ name: string; ssl: boolean }>`
    select distinct application_name as name, ssl from pg_stat_activity join pg_stat_ssl using (pid)
    where application_name like 'berth%' order by 1`.execute(read);

describe('PgBouncer', () => {
  test.for(['transaction', 'statement'] as const)('is refused in %s mode, in words', async (mode, context) => {
    needsProgram('pgbouncer', context);
    const server = await ownServer();
    // With one session of PostgreSQL, two clients would wait for each other.
    for (const default_pool_size of ['1', '20']) {
      const pooler = await startPgbouncer(server, { mode, settings: { default_pool_size } });
      onTestFinished(() => pooler.stop());
      expect(await refusal(pooler.urlOf('postgres'))).toMatch(
        /^BERTH_DATABASE_URL: 127.0.0.1:\d+ is a connection pooler, such as PgBouncer, .* pool_mode to session/,
      );
    }
  });

  test('serves in session mode: reads and writes, and one server alone', async (context) => {
    needsProgram('pgbouncer', context);
    const server = await ownServer();
    const pooler = await startPgbouncer(server, { mode: 'session' });
    onTestFinished(() => pooler.stop());
    const url = pooler.urlOf('postgres');
    expect(await refusal(url)).toBe('reached');
    const lock = () => lockDatabase({ url, log: quietLog, onLost: () => {} });
    const first = await lock();
    const store = await openStore({ url, log: quietLog });
    onTestFinished(() => store.stop());
    const ids = Array.from({ length: 30 }, (_, index) => `a${index}`);
    await Promise.all(
      ids.map((id) =>
        store.write((tx) =>
          tx
            .insertInto('account')
            .values(accountRow({ id, version: 3 }))
            .execute(),
        ),
      ),
    );
    const versions = await Promise.all(ids.map(async (id) => store.versionOf(id)));
    expect(new Set(versions)).toEqual(new Set([3]));
    await expect(lock()).rejects.toThrow(/in use by another Berth/);
    await first.release();
    await (await lock()).release();
  });

  test('is waited for in words while its pool is too small, which says the size', async (context) => {
    needsProgram('pgbouncer', context);
    const server = await ownServer();
    const listen_port = String(await freePort());
    const settings = { listen_port, query_wait_timeout: '1' };
    const small = await startPgbouncer(server, { mode: 'session', settings: { ...settings, default_pool_size: '3' } });
    const log = recordingLog();
    const reached = reachPostgres({ url: `postgres://berth@127.0.0.1:${listen_port}/postgres`, log });
    await eventually(() => log.lines.length > 0);
    expect(log.lines[0]?.text).toBe(
      `BERTH_DATABASE_URL: 127.0.0.1:${listen_port} is a connection pooler, such as PgBouncer, with sessions for ` +
        '3 clients at once, and Berth needs 17: raise its default_pool_size; Berth waits for it',
    );
    await small.stop();
    const large = await startPgbouncer(server, { mode: 'session', settings: { ...settings, default_pool_size: '17' } });
    onTestFinished(() => large.stop());
    await reached;
  });

  test('keeps no lock of a stopped server, even if it never resets sessions', async (context) => {
    needsProgram('pgbouncer', context);
    const server = await ownServer();
    const pooler = await startPgbouncer(server, { mode: 'session', settings: { server_reset_query: '' } });
    onTestFinished(() => pooler.stop());
    const url = pooler.urlOf('postgres');
    await (await lockDatabase({ url, log: quietLog, onLost: () => {} })).release();
    const direct = await lockDatabase({ url: server.urlOf('postgres'), log: quietLog, onLost: () => {} });
    expect(direct.isHeld()).toBe(true);
    await direct.release();
  });
});

test('names the setting and what is wrong with the URL, the account, the database or the rights', async () => {
  const { url, port, socket } = await tcpServer();
  const at = `127.0.0.1:${port}`;
  const begins = (text: string) => expect.stringMatching(`^BERTH_DATABASE_URL: ${text}`);
  expect(await refusal(url.replace('sesame', 'wrong'))).toEqual(
    begins(`${at}: password authentication failed for user "berth": correct user and password`),
  );
  expect(await refusal(url.replace(':sesame', ''))).toEqual(begins(`${at}: it asks for a password, and the URL has`));
  expect(await refusal(url.replace(/postgres$/, 'nowhere'))).toEqual(
    begins(`${at}: database "nowhere" does not exist: create it, or correct its name`),
  );
  expect(await refusal(`postgres://berth@127.0.0.1:1/x`)).toEqual(begins('127.0.0.1:1 does not answer .*ECONNREFUSED'));
  expect(await refusal(url.replace(String(port), '99999'))).toEqual(begins('its host must be HOST or HOST:PORT'));
  expect(await refusal(url.replace('sesame', 'se/same'))).toEqual(begins('its host must .*%XX'));
  expect(await refusal(`${url}?sslmode=allow`)).toEqual(begins('sslmode=allow is not supported: use disable, prefer'));
  expect(await refusal(`${url}?target_session_attrs=standby`)).toEqual(begins('target_session_attrs=standby is not'));
  expect(await refusal(`${url}?sslmode=verify-ca`)).toEqual(begins('sslmode=verify-ca needs sslrootcert=FILE'));
  expect(await refusal(`${url}?sslmode=require&sslrootcert=system`)).toEqual(begins('sslrootcert=system with sslmode'));
  expect(await refusal(`${url}?sslmode=verify-full&sslrootcert=/nowhere.pem`)).toEqual(
    begins(`${at}: a file of sslrootcert, sslcert or sslkey can't be read .*/nowhere.pem`),
  );
  await administer(socket, `create user guest password 'sesame'`);
  const guest = url.replace('berth', 'guest');
  await expect(openStore({ url: guest, log: quietLog })).rejects.toThrow(
    new RegExp(`^BERTH_DATABASE_URL: ${at}: permission denied for schema public: make the user the owner`),
  );
});

test('waits for a database that is away or a standby, says so once for each, and goes on', async () => {
  const server = await tcpServer();
  await server.halt();
  const log = recordingLog();
  const reached = reachPostgres({ url: server.url, log });
  const said = () => log.lines.map(({ text }) => text);
  await eventually(() => said().length === 1);
  expect(said()[0]).toMatch(/^BERTH_DATABASE_URL: .* does not answer .*ECONNREFUSED.*; Berth waits for it$/);
  const standby = await ownServer({
    copyOf: server.data,
    files: { 'standby.signal': '' },
    settings: { listen_addresses: '127.0.0.1', port: String(server.port) },
  });
  await eventually(() => said().some((text) => text.includes('is a standby, which takes no writes')));
  await administer(standby.urlOf('postgres').replace(':5432', `:${server.port}`), 'select pg_promote()');
  expect((await reached).name()).toBe(`127.0.0.1:${server.port}`);
  expect(new Set(said()).size).toBe(said().length);
});

const certificateFiles = async ({ server }: TlsAuthority) => ({
  'server.crt': await readFile(server.certFile, 'utf8'),
  'server.key': await readFile(server.keyFile, 'utf8'),
});

describe('sslmode', () => {
  const modes = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full'];

  test('means what it means to libpq, at a server with TLS and at one without', async () => {
    const authority = await makeTlsAuthority();
    onTestFinished(() => authority.stop());
    const other = await makeTlsAuthority();
    onTestFinished(() => other.stop());
    const files = {
      ...(await certificateFiles(authority)),
      'pg_hba.conf': 'local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n',
    };
    const secure = await tcpServer({ settings: { ssl: 'on' }, files });
    const plain = await tcpServer();
    const results = async (url: string, caFile: string) => {
      const found: Record<string, string> = {};
      for (const mode of modes) found[mode] = await refusal(`${url}?sslmode=${mode}&sslrootcert=${caFile}`);
      return found;
    };
    expect(await results(secure.url, authority.caFile)).toEqual({
      disable: expect.stringMatching(/^BERTH_DATABASE_URL: .* no encryption: add sslmode=require$/),
      prefer: 'reached',
      require: 'reached',
      'verify-ca': 'reached',
      'verify-full': 'reached',
    });
    const untrusted = expect.stringMatching(/^BERTH_DATABASE_URL: .* its certificate is refused .* by sslrootcert$/);
    expect(await results(secure.url, other.caFile)).toMatchObject({
      prefer: 'reached',
      // With an authority, as libpq has it, it verifies.
      require: untrusted,
      'verify-ca': untrusted,
      'verify-full': untrusted,
    });
    expect(await refusal(`${secure.url}?sslmode=require`)).toBe('reached');
    expect(await refusal(`${secure.url}?sslmode=verify-full`)).toEqual(untrusted);
    const byName = secure.url.replace('127.0.0.1', 'localhost');
    const ca = `sslrootcert=${authority.caFile}`;
    expect(await refusal(`${byName}?sslmode=verify-ca&${ca}`)).toBe('reached');
    expect(await refusal(`${byName}?sslmode=verify-full&${ca}`)).toMatch(/use a host name of the certificate/);
    const without = expect.stringMatching(/^BERTH_DATABASE_URL: .* it has no TLS, which sslmode asks for/);
    expect(await results(plain.url, authority.caFile)).toEqual({
      disable: 'reached',
      prefer: 'reached',
      require: without,
      'verify-ca': without,
      'verify-full': without,
    });
  });

  test('holds for the store and its lock, too', async () => {
    const authority = await makeTlsAuthority();
    onTestFinished(() => authority.stop());
    const secure = await tcpServer({ settings: { ssl: 'on' }, files: await certificateFiles(authority) });
    const plain = await tcpServer();
    for (const [server, isEncrypted] of [
      [secure, true],
      [plain, false],
    ] as const) {
      const url = `${server.url}?sslmode=prefer`;
      const lock = await lockDatabase({ url, log: quietLog, onLost: () => {} });
      onTestFinished(() => lock.release());
      const store = await openStore({ url, log: quietLog });
      onTestFinished(() => store.stop());
      const { rows } = await sessionsOf(store);
      expect(rows.map(({ name }) => name)).toEqual(['berth', 'berth lock']);
      expect(rows.every(({ ssl }) => ssl === isEncrypted)).toBe(true);
    }
  });
});
