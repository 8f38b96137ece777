/**
 * The store on SQLite: a connection for the groups of `group-commit.ts`, a read-only one for
 * `read`, which in WAL mode sees committed state and never waits. Both run on this thread: a query
 * takes microseconds, a thread hop more.
 */
import { closeSync, openSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { noteQuery } from '../../async/rows-read.ts';
import { Checkpoints, LONG_LOG_BYTES } from './checkpoint.ts';
import { errcodeOf, isStorageFull } from './errors.ts';
import { GroupCommit, systemScheduler, type StoreScheduler } from './group-commit.ts';
import { migrate } from './migrate.ts';
import type { Migration, MigrationTarget } from './migrate.ts';
import { kyselyOver, SqliteConnection } from './sqlite-kysely.ts';
import { noReserve, type SpaceReserve } from './space-reserve.ts';
import type { Db, Store, StoreLog } from '../store.ts';

const BUSY_TIMEOUT_MS = 5_000;
const MAX_VERSIONS = 10_000;
const SQLITE_BUSY = 5;
const SQLITE_LOCKED = 6;

/** 8 KB pages (set before the first table) waste a third less than 4 KB ones with rows of 2 KB. */
const WRITER_PRAGMAS = [
  'pragma page_size = 8192',
  'pragma journal_mode = wal',
  'pragma synchronous = full',
  'pragma foreign_keys = on',
  'pragma temp_store = memory',
  'pragma cache_size = -8192',
  'pragma wal_autocheckpoint = 0',
  `pragma journal_size_limit = ${LONG_LOG_BYTES}`,
];
/**
 * Pages beyond the mapped part cost a system call each: lists of a large store took twice as long.
 */
const READER_PRAGMAS = ['pragma temp_store = memory', 'pragma cache_size = -32768', 'pragma mmap_size = 67108864'];

/** Opens or creates `file`, readable by its owner alone, and applies missing migrations. */
export async function openSqlite(options: {
  file: string;
  migrations: readonly Migration[];
  log: StoreLog;
  scheduler?: StoreScheduler;
  reserve?: SpaceReserve | undefined;
  prepare?: ((database: MigrationTarget) => Promise<void>) | undefined;
}): Promise<Store> {
  const { file, log, scheduler = systemScheduler, reserve = noReserve } = options;
  // SQLite gives the log and the shared memory the mode of the file.
  closeSync(openSync(file, 'a', 0o600));
  const database = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS });
  try {
    for (const pragma of WRITER_PRAGMAS) await whenNotBusy(() => database.exec(pragma));
    const writer = new SqliteConnection(database);
    const overWriter = kyselyOver(writer);
    const target: MigrationTarget = {
      kind: 'sqlite',
      exclusively: async (step) => {
        await whenNotBusy(() => database.exec('begin immediate'));
        try {
          const result = await step(overWriter.untyped);
          database.exec('commit');
          return result;
        } catch (error) {
          if (database.isTransaction) database.exec('rollback');
          throw error;
        }
      },
    };
    await options.prepare?.(target);
    await migrate(target, options.migrations, log);
    return storeOver({ file, database, openScope: overWriter.openScope, log, scheduler, reserve });
  } catch (error) {
    database.close();
    throw error;
  }
}

/** Reads that follow each other without a pause let the event loop turn after this time. */
const MAX_READING_MS = 2;

/** All reads of a turn wait for the next one once the turn is over. */
function turnsOf({ elapsed, defer }: StoreScheduler): () => Promise<void> | null {
  let beganMs = elapsed();
  let next: Promise<void> | null = null;
  return () => {
    if (next || elapsed() - beganMs < MAX_READING_MS) return next;
    next = new Promise((resolve) =>
      defer(() => {
        next = null;
        beganMs = elapsed();
        resolve();
      }),
    );
    return next;
  };
}

function storeOver(parts: {
  file: string;
  database: DatabaseSync;
  openScope: ReturnType<typeof kyselyOver>['openScope'];
  log: StoreLog;
  scheduler: StoreScheduler;
  reserve: SpaceReserve;
}): Store {
  const { file, database, log, scheduler, reserve } = parts;
  const readerDatabase = new DatabaseSync(file, { readOnly: true, timeout: BUSY_TIMEOUT_MS });
  for (const pragma of READER_PRAGMAS) readerDatabase.exec(pragma);
  const nextTurn = turnsOf(scheduler);
  const reader = new SqliteConnection(readerDatabase, { onRows: noteQuery, nextTurn });
  const read: Db = kyselyOver(reader).db;
  const version = readerDatabase.prepare('select version from account where id = ?');
  const probe = readerDatabase.prepare('select count(*) from sqlite_schema');

  const statement = (sql: string): (() => void) => {
    const prepared = database.prepare(sql);
    return () => {
      prepared.run();
    };
  };
  const commit = statement('commit');
  /** Versions since the last commit; only this group moves them. A read costs 5 µs more. */
  const versions = new Map<string, number>();
  const commitListeners: (() => void)[] = [];
  const checkpoints = new Checkpoints({ file, writer: database, log, scheduler, reserve });
  const group = new GroupCommit<Db>({
    statements: {
      begin: statement('begin immediate'),
      savepoint: statement('savepoint work'),
      release: statement('release work'),
      rollbackTo: statement('rollback to work'),
      commit: () => {
        versions.clear();
        commit();
      },
      rollback: statement('rollback'),
      isOpen: () => database.isTransaction,
    },
    openScope: parts.openScope,
    onCommit: (works) => {
      const pause = checkpoints.committed(works);
      for (const listener of commitListeners) listener();
      return pause;
    },
    releaseSpace: reserve.release,
    log,
    scheduler,
  });

  let stopping: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    await group.stop();
    await checkpoints.stop();
    await nextTurn();
    readerDatabase.close();
    // After a failed fsync the log is the only true copy: leave it for the next start.
    if (!group.broken) copyLog(database, log);
    database.close();
  };
  return {
    kind: 'sqlite',
    read,
    write: (work) => group.write(work),
    versionOf: (accountId) => {
      const cached = versions.get(accountId);
      if (cached !== undefined) return cached;
      const value = version.get(accountId)?.['version'];
      const now = typeof value === 'number' ? value : 0;
      if (versions.size >= MAX_VERSIONS) versions.clear();
      versions.set(accountId, now);
      return now;
    },
    onCommit: (listener) => void commitListeners.push(listener),
    ping: async () => {
      if (group.broken) throw group.broken;
      if (stopping) throw new Error('The store has stopped.');
      probe.get();
    },
    stop: () => (stopping ??= stop()),
  };
}

/** Leaves the log for the next start if the disk is full. */
function copyLog(database: DatabaseSync, log: StoreLog): void {
  try {
    database.exec('pragma wal_checkpoint(truncate)');
  } catch (error) {
    if (!isStorageFull(error)) throw error;
    log.warn({ err: error }, 'the disk is full, so the write-ahead log stays beside the database');
  }
}

/** SQLite's busy timeout does not cover every lock (a change of the journal mode, for one). */
async function whenNotBusy(act: () => void): Promise<void> {
  const endsAtMs = performance.now() + BUSY_TIMEOUT_MS;
  for (;;) {
    try {
      act();
      return;
    } catch (error) {
      const code = (errcodeOf(error) ?? 0) & 0xff;
      if ((code !== SQLITE_BUSY && code !== SQLITE_LOCKED) || performance.now() > endsAtMs) throw error;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
}
