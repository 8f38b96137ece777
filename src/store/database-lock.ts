/**
 * One server for each PostgreSQL database, because disks and control files lie on the server's own host (decision 9). The lock is an
 * advisory one of a connection of its own, so it dies with its process; when that connection is lost it is taken again.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { StoreLog } from './store.ts';

/** Any number that nobody else takes: the letters of "berth". */
const LOCK = 0x6265727468;
const TAKE_AGAIN_MS = 2_000;

export interface DatabaseLock {
  release(): Promise<void>;
}

/**
 * Throws when another server has the database. `onLost` is called once, if the connection was lost and another server took the
 * database before it was back.
 */
export async function lockDatabase(options: { url: string; log: StoreLog; onLost: () => void }): Promise<DatabaseLock> {
  const { url, log, onLost } = options;
  const ending = new AbortController();
  let client: pg.Client | null = null;

  const take = async (): Promise<boolean> => {
    const fresh = new pg.Client({ connectionString: url, application_name: 'berth lock', keepAlive: true });
    fresh.on('error', () => void again(fresh));
    try {
      await fresh.connect();
      const { rows } = await fresh.query<{ taken: boolean }>('select pg_try_advisory_lock($1) as taken', [LOCK]);
      if (rows[0]?.taken === true) {
        client = fresh;
        return true;
      }
    } catch (error) {
      await fresh.end().catch(() => {});
      throw error;
    }
    await fresh.end();
    return false;
  };

  const again = async (lost: pg.Client): Promise<void> => {
    if (client !== lost || ending.signal.aborted) return;
    client = null;
    log.warn({}, 'the connection that holds the database was lost; it is taken again');
    while (!ending.signal.aborted) {
      try {
        if (!(await take())) onLost();
        return;
      } catch {
        await sleep(TAKE_AGAIN_MS, undefined, { signal: ending.signal }).catch(() => {});
      }
    }
  };

  if (!(await take())) {
    throw new Error(
      'The database is in use by another Berth. Stop that one first, or give this one a database of its own.',
    );
  }
  return {
    async release() {
      ending.abort();
      const held = client;
      client = null;
      await held?.end();
    },
  };
}
