/**
 * Waits for a change of an account's `version`. One timer polls for all waiters (a map look-up on
 * SQLite, one query on PostgreSQL), so commits of other processes count.
 */
import { versionsOf } from '../../store/tables/events.ts';
import type { Store } from '../../store/store.ts';
import type { Log } from '../base/log.ts';
import type { Time } from '../base/time.ts';

const LOOK_EVERY_MS = 100;

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

export function makeAccountVersions({ store, time, log }: { store: Store; time: Time; log: Log }): AccountVersions {
  const waiters = new Set<Waiter>();
  let stopLooking: (() => void) | null = null;
  let looking = false;

  const look = async (): Promise<void> => {
    const versions = await versionsOf(store, [...new Set([...waiters].map(({ accountId }) => accountId))]);
    for (const waiter of waiters) if (versions.get(waiter.accountId) !== waiter.version) waiter.wake();
  };

  const tick = (): void => {
    if (looking) return;
    looking = true;
    look()
      .catch((error: unknown) => log.warn({ err: error }, 'the store did not tell what moved; it is asked again'))
      .finally(() => (looking = false));
  };

  return {
    versionOf: async (accountId) => store.versionOf(accountId),
    changed: (accountId, version, signal) =>
      new Promise((resolve, reject) => {
        const leave = (): void => {
          waiters.delete(waiter);
          signal.removeEventListener('abort', abort);
          if (waiters.size > 0) return;
          stopLooking?.();
          stopLooking = null;
        };
        const abort = (): void => {
          leave();
          reject(signal.reason);
        };
        const waiter: Waiter = { accountId, version, wake: () => (leave(), resolve()) };
        if (signal.aborted) return reject(signal.reason);
        signal.addEventListener('abort', abort);
        waiters.add(waiter);
        stopLooking ??= time.every(LOOK_EVERY_MS, tick);
      }),
  };
}
