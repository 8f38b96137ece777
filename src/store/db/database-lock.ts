/**
 * Allows one server per PostgreSQL database: disks and control files are on its host (decision 9).
 * An advisory lock on its own connection ends with the process, and is reacquired when lost.
 */
import { retry } from '../../async/retry.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import type { StoreLog } from '../store.ts';
import { connectToPrimary, serversOf, startError } from './reach-postgres.ts';

/** Letters of "berthd". Must differ from the migration lock, which shares the number space. */
const LOCK = 0x626572746864;
const TAKE_AGAIN_MS = 500;
const FIRST_TRIES = 4;
/** PostgreSQL may keep a dead session of this server for a while. */
const LOST_AFTER_MS = 30_000;
/** Twice as long without an answer is a loss. */
const CHECK_EVERY_MS = 10_000;

/** The right to act on the database and on what it describes. */
export interface Hold {
  /** False from the loss of the connection on: another server may have begun. */
  isHeld(): boolean;
  /** Calls `listener` after each loss and each new acquisition. */
  onChange(listener: () => void): void;
}

/** Belongs to SQLite, whose folder lock ends with the process alone. */
export const permanentHold: Hold = { isHeld: () => true, onChange: () => {} };

export interface DatabaseLock extends Hold {
  release(): Promise<void>;
}

/** Throws when another server has the database. Calls `onLost` once, if one took a lost lock. */
export async function lockDatabase(options: {
  url: string;
  log: StoreLog;
  onLost: () => void;
  /** Called when PostgreSQL hangs without closing its connections. */
  onSilence?: () => void;
  lostAfterMs?: number;
  checkEveryMs?: number;
}): Promise<DatabaseLock> {
  const { url, log, onLost, onSilence = () => {}, lostAfterMs = LOST_AFTER_MS } = options;
  const ending = new AbortController();
  const servers = serversOf(url);
  let client: pg.Client | null = null;
  const listeners: (() => void)[] = [];
  let isSilent = false;
  const hold = (held: pg.Client | null): void => {
    client = held;
    isSilent = false;
    for (const listener of listeners) listener();
  };

  const acquire = async (): Promise<boolean> => {
    const fresh = await connectToPrimary(servers, 'berth lock');
    fresh.on('error', () => void again(fresh));
    try {
      const { rows } = await fresh.query<{ taken: boolean }>('select pg_try_advisory_lock($1) as taken', [LOCK]);
      if (rows[0]?.taken === true) {
        hold(fresh);
        return true;
      }
    } catch (error) {
      fresh.connection.stream.destroy();
      throw startError([[servers.name(), error]]);
    }
    await fresh.end();
    return false;
  };

  const again = async (lost: pg.Client): Promise<void> => {
    if (client !== lost || ending.signal.aborted) return;
    hold(null);
    log.warn(
      {},
      'the connection that holds the database lock was lost; Berth acquires the lock again, and pauses its tasks until then',
    );
    let refusedSinceMs = Infinity;
    const attempt = async (): Promise<void> => {
      const isAcquired = await acquire().catch((error: unknown) => {
        refusedSinceMs = Infinity;
        throw error;
      });
      if (isAcquired) return;
      refusedSinceMs = Math.min(refusedSinceMs, performance.now());
      if (performance.now() - refusedSinceMs > lostAfterMs) return onLost();
      throw new Error('another server holds the lock');
    };
    await retry(attempt, { signal: ending.signal, firstMs: TAKE_AGAIN_MS });
  };

  // The session of a killed server ends a moment after the server.
  for (let tries = 1; !(await acquire()); tries += 1) {
    if (tries < FIRST_TRIES) {
      await sleep(TAKE_AGAIN_MS);
      continue;
    }
    throw new Error(
      'The database is in use by another Berth. Stop the other Berth, or set another database in BERTH_DATABASE_URL.',
    );
  }
  const check = setInterval(() => {
    const held = client;
    if (held && isSilent) {
      held.connection.stream.destroy();
      onSilence();
    } else if (held) {
      isSilent = true;
      held.query('select 1').then(
        () => void (isSilent = false),
        () => {},
      );
    }
  }, options.checkEveryMs ?? CHECK_EVERY_MS);
  check.unref();
  return {
    isHeld: () => client !== null,
    onChange: (listener) => void listeners.push(listener),
    async release() {
      ending.abort();
      clearInterval(check);
      const connection = client;
      client = null;
      // A pooler may keep the session.
      const unlocked = connection?.query('select pg_advisory_unlock($1)', [LOCK]);
      await unlocked?.then(
        () => connection?.end(),
        () => connection?.connection.stream.destroy(),
      );
    },
  };
}
