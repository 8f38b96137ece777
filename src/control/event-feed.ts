/**
 * # The event feed
 *
 * Follows an account's events, for as long as somebody reads. Each reader draws: it is handed a page of the store, and the next one only
 * when it asks for it, so that a slow one holds one page and nothing more. Who has read all there is waits to be woken by a commit.
 *
 * That is seen by the account's `version`, which every commit moves: one timer asks the store for the versions of all accounts that
 * somebody waits for, and there is none while nobody does. On SQLite a version is a look into a map, on PostgreSQL all are one query.
 * A call from the commit itself would be quicker by a tenth of a second, and would not hear of commits of another process.
 *
 * Numbers are never reused, and old events are forgotten oldest first. So what a reader can't be given any more is a range of numbers,
 * and it is told which: a gap.
 */
import { Refusal } from '../domain/refusal.ts';
import { eventsSince, latestSeq, versionsOf } from '../store/events.ts';
import type { Store } from '../store/store.ts';
import type { Events, ToldEvents } from './control.ts';
import type { Log } from './log.ts';
import type { Time } from './time.ts';

const LOOK_EVERY_MS = 100;
const PAGE = 100;
/** A browser has six connections to one server, and a person two or three programs. */
const MAX_STREAMS_EACH = 8;
const MAX_STREAMS = 1_000;
const RETRY_AFTER_S = 10;

export interface EventFeed extends Events {
  /** Ends all that is followed. */
  stop(): void;
  /** How many are followed. */
  readonly size: number;
}

interface Waiter {
  accountId: string;
  version: number;
  wake: () => void;
}

export function makeEventFeed({ store, time, log }: { store: Store; time: Time; log: Log }): EventFeed {
  const ending = new AbortController();
  const streams = new Map<string, number>();
  const waiters = new Set<Waiter>();
  let size = 0;
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

  /** Until the account's version is another one. Rejects when the signal aborts. */
  const moved = (accountId: string, version: number, signal: AbortSignal): Promise<void> =>
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
    });

  const versionOf = async (accountId: string): Promise<number> => store.versionOf(accountId);

  /** What comes after the number `after`: a page with a gap before it if there is one. Null when that is nothing. */
  const draw = async (accountId: string, after: number): Promise<ToldEvents | null> => {
    // The latest first: what it counts was there, so what is not found then is not there any more.
    const latest = await latestSeq(store.read, accountId);
    if (after > latest) {
      const gap = { fromSeq: latest + 1, toSeq: after, why: 'these numbers have not been given yet' };
      return { gap, events: [], lastSeq: latest };
    }
    const events = (await eventsSince(store.read, accountId, after, PAGE)).map(
      ({ seq, kind, subjectId, atMs, data }) => ({
        seq,
        kind,
        subjectId,
        atMs,
        dataText: data,
      }),
    );
    const firstSeq = events[0]?.seq ?? latest + 1;
    const lastSeq = events.at(-1)?.seq ?? latest;
    if (firstSeq > after + 1) {
      const gap = { fromSeq: after + 1, toSeq: firstSeq - 1, why: 'these events are no longer kept' };
      return { gap, events, lastSeq };
    }
    return events.length === 0 ? null : { gap: null, events, lastSeq };
  };

  async function* read(accountId: string, from: number | null, signal: AbortSignal): AsyncGenerator<ToldEvents> {
    signal.throwIfAborted();
    let after = from ?? (await latestSeq(store.read, accountId));
    yield { gap: null, events: [], lastSeq: after };
    for (;;) {
      signal.throwIfAborted();
      const version = await versionOf(accountId);
      const told = await draw(accountId, after);
      if (told === null) await moved(accountId, version, signal);
      else {
        after = told.lastSeq;
        yield told;
      }
    }
  }

  const enter = (accountId: string): void => {
    const mine = streams.get(accountId) ?? 0;
    const why =
      mine >= MAX_STREAMS_EACH
        ? `this account has ${mine} event streams open, and ${MAX_STREAMS_EACH} is the most; close one`
        : size >= MAX_STREAMS
          ? `this server has ${size} event streams open, and that is the most; try again later`
          : null;
    if (why !== null) throw new Refusal('too_many_requests', why, { retryAfterS: RETRY_AFTER_S });
    streams.set(accountId, mine + 1);
    size += 1;
  };

  const leave = (accountId: string): void => {
    const mine = streams.get(accountId) ?? 0;
    if (mine > 1) streams.set(accountId, mine - 1);
    else streams.delete(accountId);
    size -= 1;
  };

  return {
    async *follow({ accountId }, from, given) {
      const signal = AbortSignal.any([given, ending.signal]);
      enter(accountId);
      try {
        yield* read(accountId, from, signal);
      } catch (error) {
        if (!signal.aborted) throw error;
      } finally {
        leave(accountId);
      }
    },
    stop: () => ending.abort(),
    get size() {
      return size;
    },
  };
}
