/**
 * The store on PostgreSQL: a pool. Each write is a READ COMMITTED transaction, run again after a
 * conflict. The pool drops a broken connection: its queries fail, the next query opens another.
 */
import { Socket } from 'node:net';
import type { KyselyPlugin, TransactionBuilder } from 'kysely';
import { Kysely, PostgresDialect, sql } from 'kysely';
import pg from 'pg';
import { noteQuery } from '../../async/rows-read.ts';
import { Refusal, storageFull } from '../../domain/kernel/refusal.ts';
import { errorText } from '../../domain/kernel/unknown-error.ts';
import { isLostConnection, isRetryable, isStorageFull } from './errors.ts';
import { migrate } from './migrate.ts';
import {
  isOfConnection,
  keepAlive,
  POOL_SESSIONS,
  reachPostgres,
  refuseStandby,
  serversOf,
  startError,
} from './reach-postgres.ts';
import type { PostgresServers } from './postgres-servers.ts';
import type { Migration, MigrationTarget } from './migrate.ts';
import type { Schema } from './schema.ts';
import type { Store, StoreLog } from '../store.ts';

const CONNECT_TIMEOUT_MS = 15_000;
const PING_TIMEOUT_MS = 3_000;
/** Releases the locks of a hung process. */
const IDLE_IN_TRANSACTION_MS = 60_000;
const MAX_TRIES = 8;
const RETRY_BASE_MS = 5;
const RETRY_MAX_MS = 200;
const MIGRATION_LOCK = 0x6265727468;

const INT8 = 20;
const NUMERIC = 1700;

/** Parses int8 and numeric (sums of int8) as numbers: all fit 53 bits. Only for this pool. */
const parsers: pg.CustomTypesConfig = {
  getTypeParser: (oid, format) =>
    (oid === INT8 || oid === NUMERIC) && format !== 'binary' ? Number : pg.types.getTypeParser(oid, format),
};

export async function openPostgres(options: {
  url: string;
  migrations: readonly Migration[];
  log: StoreLog;
  /** Longest wait for a connection, a free one of the pool included. */
  connectTimeoutMs?: number | undefined;
  prepare?: ((database: MigrationTarget) => Promise<void>) | undefined;
}): Promise<Store> {
  const { log, connectTimeoutMs = CONNECT_TIMEOUT_MS } = options;
  const servers = serversOf(options.url);
  const sockets = new Set<Socket>();
  const stream = (): Socket => {
    const socket = new Socket();
    sockets.add(socket);
    return socket.once('close', () => sockets.delete(socket));
  };
  const pool = new pg.Pool({
    connectionString: servers.url(),
    max: POOL_SESSIONS,
    types: parsers,
    application_name: 'berth',
    connectionTimeoutMillis: connectTimeoutMs,
    ...hooks,
    stream,
  });
  // Without a listener, losing an idle connection would end the process.
  pool.on('error', (error) =>
    log.warn({ err: error }, 'a connection to PostgreSQL was lost; the next query opens another'),
  );
  // Likewise for a connection in use: only the running query fails.
  pool.on('connect', (client) => client.on('error', () => {}));
  const connecting = new Set<Promise<unknown>>();
  let closed = false;
  const connect = (): Promise<pg.PoolClient> => {
    if (closed) return Promise.reject(unavailable(new Error('The store has stopped.')));
    const client = connectTo(pool, servers)
      .catch((error: unknown) => Promise.reject(unavailable(error)))
      .finally(() => connecting.delete(client));
    connecting.add(client);
    return client;
  };
  const dialect = new PostgresDialect({ pool: { connect, end: () => pool.end(), options: pool.options } });
  const db = new Kysely<Schema>({ dialect, plugins: [countsRows] });
  const untyped = new Kysely<unknown>({ dialect });
  const target: MigrationTarget = {
    kind: 'postgres',
    exclusively: (step) =>
      readCommitted(untyped).execute(async (tx) => {
        await sql`select pg_advisory_xact_lock(${MIGRATION_LOCK})`.execute(tx);
        return step(tx);
      }),
  };
  try {
    await options.prepare?.(target);
    await migrate(target, options.migrations, log);
  } catch (error) {
    await pool.end();
    throw isOfConnection(error) ? startError([[servers.name(), error]]) : error;
  }

  const writing = new Set<Promise<unknown>>();
  const write = async <T>(work: (tx: Kysely<Schema>) => Promise<T>): Promise<T> => {
    for (let tries = 1; ; tries++) {
      try {
        return await readCommitted(db).execute(work);
      } catch (error) {
        if (isStorageFull(error)) throw storageFull({ detail: error });
        if (!isRetryable(error) || tries >= MAX_TRIES) throw error;
        await new Promise((resolve) => setTimeout(resolve, jitteredMs(tries)));
      }
    }
  };
  let stopping: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    await Promise.allSettled(writing);
    closed = true;
    // A pool that ends leaves those who wait for a connection without one until their timeout.
    await Promise.allSettled(connecting);
    await pool.end();
  };
  return {
    kind: 'postgres',
    read: db,
    write: (work) => {
      if (stopping) return Promise.reject(new Error('The store has stopped and accepts no more writes.'));
      const done = write(work).finally(() => writing.delete(done));
      writing.add(done);
      return done;
    },
    versionOf: async (accountId) => {
      const client = await connect();
      try {
        const { rows } = await client.query<{ version: number }>({
          name: 'version-of',
          text: 'select version from account where id = $1',
          values: [accountId],
        });
        return rows[0]?.version ?? 0;
      } finally {
        client.release();
      }
    },
    ping: async () => {
      if (stopping) throw new Error('The store has stopped.');
      const answered = async (): Promise<void> => {
        const client = await connect();
        await client.query('select 1').finally(() => client.release());
      };
      await within(PING_TIMEOUT_MS, answered());
    },
    dropConnections() {
      for (const socket of sockets) socket.destroy();
    },
    stop: () => (stopping ??= stop()),
  };
}

const countsRows: KyselyPlugin = {
  transformQuery: ({ node }) => node,
  async transformResult({ result }) {
    noteQuery(result.rows.length);
    return result;
  },
};

export async function openPostgresToRead(url: string): Promise<Pick<Store, 'read' | 'stop'>> {
  const servers = await reachPostgres({ url });
  const pool = new pg.Pool({ connectionString: servers.url(), max: 1, types: parsers, application_name: 'berth' });
  pool.on('error', () => {});
  return { read: new Kysely<Schema>({ dialect: new PostgresDialect({ pool }) }), stop: () => pool.end() };
}

/** PgBouncer refuses the timeout as a startup parameter. */
async function prepareSession(client: pg.ClientBase): Promise<void> {
  const query: (...given: unknown[]) => unknown = client.query.bind(client);
  const refuseLost = (error: unknown): never => {
    throw isLostConnection(error) ? unavailable(error) : error;
  };
  Object.assign(client, {
    query(...given: unknown[]) {
      const answer = query(...given);
      return answer instanceof Promise ? answer.catch(refuseLost) : answer;
    },
  });
  await refuseStandby(client);
  await client.query(`set idle_in_transaction_session_timeout = ${IDLE_IN_TRANSACTION_MS}`);
}

const hooks = { ...keepAlive, onConnect: prepareSession };

async function connectTo(pool: pg.Pool, servers: PostgresServers): Promise<pg.PoolClient> {
  for (let attempt = 1; ; attempt++) {
    const url = (pool.options.connectionString = servers.url());
    try {
      return await pool.connect();
    } catch (error) {
      const isPoolBusy = errorText(error).startsWith('timeout exceeded');
      if (!isPoolBusy) servers.leave(url, error);
      if (isPoolBusy || attempt >= servers.attempts) throw error;
    }
  }
}

/** No connection available: server away or starting, or the pool exhausted for too long. */
const unavailable = (cause: unknown): Refusal =>
  new Refusal('unavailable', 'the database does not answer at the moment; send the same request again', {
    detail: cause,
    retryAfterS: 1,
  });

const readCommitted = <T>(db: Kysely<T>): TransactionBuilder<T> => db.transaction().setIsolationLevel('read committed');

/** Jitter between 0 and the doubled base, so that two colliding writes separate. */
const jitteredMs = (tries: number): number => Math.random() * Math.min(RETRY_MAX_MS, RETRY_BASE_MS * 2 ** tries);

async function within(timeoutMs: number, question: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`PostgreSQL did not answer within ${timeoutMs} ms.`)), timeoutMs);
  });
  try {
    await Promise.race([question, late]);
  } finally {
    clearTimeout(timer);
  }
}
