/** Waits at a start until PostgreSQL answers, and refuses an unusable one. */
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { makeBackOff } from '../../async/retry.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { errorCode, errorText } from '../../domain/kernel/unknown-error.ts';
import type { StoreLog } from '../store.ts';
import { isLostConnection, sqlstateOf } from './errors.ts';
import { hasNoTls, parseDatabaseUrl, type PostgresServers } from './postgres-servers.ts';

const SETTING = 'BERTH_DATABASE_URL';
const TIMEOUT_MS = 15_000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5_000;
const LEAST_VERSION = 13;
const POOLER_CHECKS = 3;
export const POOL_SESSIONS = 16;
/** One for the lock. */
const SESSIONS = POOL_SESSIONS + 1;

/** Finds a dead server in seconds. The kernel's default is two hours. */
export const keepAlive = { keepAlive: true, keepAliveInitialDelayMillis: 10_000 };

class UnusableDatabase extends Error {}

class Standby extends Error {}

class FewSessions extends Error {}

export async function refuseStandby(client: pg.ClientBase): Promise<void> {
  const { rows } = await client.query<{ isStandby: boolean }>('select pg_is_in_recovery() as "isStandby"');
  if (rows[0]?.isStandby !== false) throw new Standby('a standby takes no writes');
}

export async function connectToPrimary(servers: PostgresServers, name: string): Promise<pg.Client> {
  const errors = new Map<string, unknown>();
  for (let attempt = 1; attempt <= servers.attempts; attempt++) {
    const [url, address] = [servers.url(), servers.name()];
    try {
      return await connect(url, name);
    } catch (error) {
      errors.set(address, error);
      servers.leave(url, error);
    }
  }
  throw startError([...errors]);
}

async function connect(connectionString: string, name: string): Promise<pg.Client> {
  const timeouts = { connectionTimeoutMillis: TIMEOUT_MS, query_timeout: TIMEOUT_MS, ...keepAlive };
  const client = new pg.Client({ connectionString, application_name: name, ...timeouts });
  // An error of an idle connection would end the process.
  client.on('error', () => {});
  try {
    await client.connect();
    await refuseStandby(client);
    return client;
  } catch (error) {
    client.connection.stream.destroy();
    throw error;
  }
}

/** With a `log`, waits while PostgreSQL is away or a standby. */
export async function reachPostgres({ url, log }: { url: string; log?: StoreLog }): Promise<PostgresServers> {
  const servers = serversOf(url);
  const backOff = makeBackOff({ firstMs: FIRST_PAUSE_MS, maxMs: LONGEST_PAUSE_MS });
  let said = '';
  for (;;) {
    try {
      await checkPostgres(servers, log ? SESSIONS : 2);
      return servers;
    } catch (error) {
      if (!log || error instanceof UnusableDatabase) throw error;
      const text = errorText(error);
      if (text !== said) log.warn({}, `${text}; Berth waits for it`);
      said = text;
      await sleep(backOff.next());
    }
  }
}

export function serversOf(url: string): PostgresServers {
  try {
    return parseDatabaseUrl(url);
  } catch (error) {
    throw new UnusableDatabase(`${SETTING}: ${errorText(error)}`, { cause: error });
  }
}

async function checkPostgres(servers: PostgresServers, sessions: number): Promise<void> {
  const client = await connectToPrimary(servers, 'berth start');
  try {
    const { rows } = await client.query<{ pid: number; version: number; text: string }>(
      `select pg_backend_pid() as pid, current_setting('server_version_num')::int as version,
        current_setting('server_version') as text`,
    );
    const { pid, version = 0, text } = rows[0] ?? {};
    if (version < LEAST_VERSION * 10_000)
      throw new UnusableDatabase(
        `${SETTING}: the server at ${servers.name()} is PostgreSQL ${text}: Berth needs ${LEAST_VERSION} or later`,
      );
    // A pooler invents process ids.
    if (Reflect.get(client, 'processID') !== pid) await checkPooler(client, servers, sessions);
  } catch (error) {
    throw error instanceof FewSessions ? error : startError([[servers.name(), error]]);
  } finally {
    await client.end().catch(() => {});
  }
}

/** Opens as many sessions as Berth needs: clients beyond the pool wait without a word. */
async function checkPooler(client: pg.Client, servers: PostgresServers, sessions: number): Promise<void> {
  const opening = Array.from({ length: sessions - 1 }, () => connect(servers.url(), 'berth start'));
  const others = (await Promise.allSettled(opening)).flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  try {
    const [other] = others;
    if (other) await refuseSharedSessions(client, other, servers.name());
    if (others.length < opening.length)
      throw new FewSessions(
        `${SETTING}: ${servers.name()} is a connection pooler, such as PgBouncer, with sessions for ` +
          `${others.length + 1} clients at once, and Berth needs ${sessions}: raise its default_pool_size`,
      );
  } finally {
    await Promise.allSettled(others.map((one) => one.end()));
  }
}

/** In transaction mode, sessions change processes. */
async function refuseSharedSessions(client: pg.Client, other: pg.Client, name: string): Promise<void> {
  const pidOf = async (of: pg.Client): Promise<number | undefined> =>
    (await of.query<{ pid: number }>('select pg_backend_pid() as pid')).rows[0]?.pid;
  try {
    for (let check = 1; check <= POOLER_CHECKS; check++) {
      const pid = await pidOf(client);
      await other.query('begin');
      if ((await pidOf(other)) === pid || (await pidOf(client)) !== pid) throw sharedSessions(name);
      await other.query('commit');
    }
  } catch (error) {
    throw /statement pooling/.test(errorText(error)) ? sharedSessions(name) : error;
  }
}

const sharedSessions = (name: string): Error =>
  new UnusableDatabase(
    `${SETTING}: ${name} is a connection pooler, such as PgBouncer, that gives each transaction another session: ` +
      `set its pool_mode to session for this database, or name the address of PostgreSQL`,
  );

export const isOfConnection = (error: unknown): boolean =>
  error instanceof Refusal || sqlstateOf(error) !== undefined || isLostConnection(error);

/** Names the setting and the fault of each server. */
export function startError(errors: readonly (readonly [server: string, error: unknown])[]): unknown {
  const causes = errors.map(([server, error]) => ({
    server,
    cause: error instanceof Refusal && error.code === 'unavailable' ? error.detail : error,
  }));
  for (const { server, cause } of causes) {
    if (cause instanceof UnusableDatabase) return cause;
    const reason = permanentReason(cause);
    if (reason !== null) return new UnusableDatabase(`${SETTING}: ${server}: ${reason}`, { cause });
  }
  const away = causes.map(({ server, cause }) =>
    cause instanceof Standby
      ? `${server} is a standby, which takes no writes`
      : `${server} does not answer (${textOf(cause)})`,
  );
  return new Error(`${SETTING}: ${away.join('; ')}`, { cause: causes[0]?.cause });
}

const textOf = (error: unknown): string =>
  error instanceof AggregateError ? error.errors.map(errorText).join(', ') : errorText(error);

/** No SQLSTATE is an error of the network. 08, 53, 57: connection, resources, shutdown or start. */
const isPassing = (error: unknown): boolean => /^(?:08|53|57|$)/.test(sqlstateOf(error) ?? '');

function permanentReason(error: unknown): string | null {
  const text = textOf(error);
  const code = String(errorCode(error));
  if (code === '28P01' || /(?:password|SASL) authentication failed/.test(text))
    return `${text}: correct user and password`;
  if (text.includes('client password must be')) return 'it asks for a password, and the URL has none';
  if (code === '3D000' || text.includes('no such database')) return `${text}: create it, or correct its name`;
  if (code === '28000' && /no encryption|SSL off/.test(text)) return `${text}: add sslmode=require`;
  if (code === '42501') return `${text}: make the user the owner of the database`;
  if (hasNoTls(error)) return 'it has no TLS, which sslmode asks for: turn on ssl there, or use sslmode=disable';
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return `${text}: use a host name of the certificate, or sslmode=verify-ca with sslrootcert`;
  if (/CERT|UNABLE_TO_|SELF_SIGNED/.test(code))
    return `its certificate is refused (${text}): name the file of its authority by sslrootcert`;
  if (error instanceof Error && 'syscall' in error && error.syscall === 'open')
    return `a file of sslrootcert, sslcert or sslkey can't be read (${text})`;
  return isPassing(error) ? null : text;
}
