/**
 * Waits for a change of an account's `version`, which a commit of this process makes on SQLite.
 * Other processes may commit to a PostgreSQL, so there one query polls for all waiters.
 */
import { raceAbort } from '../../async/abort.ts';
import { versionsOf } from '../../store/tables/events.ts';
import type { TaskDeps } from '../kernel/ports.ts';

/** Interval of the poll; on SQLite, the most that commits wait for a shared look. */
const LOOK_AFTER_MS = 100;

interface Waiter {
  accountId: string;
  version: number;
  wake: () => void;
}

export interface AccountVersions {
  /** Read before the data, so that no change between the read and the wait is missed. */
  versionOf(accountId: string): Promise<number>;
  /** Resolves once the version differs. Rejects when the signal aborts. */
  changed(accountId: string, version: number, signal: AbortSignal): Promise<void>;
}

export function makeAccountVersions({ store, time, log }: Pick<TaskDeps, 'store' | 'time' | 'log'>): AccountVersions {
  const waiters = new Set<Waiter>();
  let isLookDue = false;

  const look = async (): Promise<void> => {
    const versions = await versionsOf(store, [...new Set([...waiters].map(({ accountId }) => accountId))]);
    for (const waiter of waiters) if (versions.get(waiter.accountId) !== waiter.version) waiter.wake();
  };

  const lookSoon = (): void => {
    if (isLookDue || waiters.size === 0) return;
    isLookDue = true;
    time.after(LOOK_AFTER_MS, () => {
      isLookDue = false;
      look()
        .then(store.onCommit ? undefined : lookSoon)
        .catch((error: unknown) => {
          log.warn({ err: error }, 'could not read the changes of accounts from the store; Berth retries');
          lookSoon();
        });
    });
  };
  store.onCommit?.(lookSoon);

  return {
    versionOf: async (accountId) => store.versionOf(accountId),
    async changed(accountId, version, signal) {
      signal.throwIfAborted();
      const { promise, resolve: wake } = Promise.withResolvers<void>();
      const waiter: Waiter = { accountId, version, wake };
      waiters.add(waiter);
      lookSoon(); // For a commit since the caller read its version.
      try {
        await raceAbort(promise, signal);
      } finally {
        waiters.delete(waiter);
      }
    },
  };
}
