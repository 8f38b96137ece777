/**
 * # The event feed
 *
 * Follows an account's events, for as long as somebody reads. Each reader draws: it is handed a page of the store, and the next one only
 * when it asks for it, so that a slow one holds one page and nothing more. Who has read all there is waits to be woken by a commit
 * (`account-moves.ts`).
 *
 * Numbers are never reused, and old events are forgotten oldest first. So what a reader can't be given any more is a range of numbers,
 * and it is told which: a gap.
 */
import { eventsSince, latestSeq } from '../../store/tables/events.ts';
import type { Store } from '../../store/store.ts';
import type { AccountVersions } from './account-versions.ts';
import { makeConcurrencyLimit } from '../base/concurrency-limit.ts';
import type { Caller } from '../base/caller.ts';

/** A page of events, in order. */
export interface PublishedEvents {
  /** Numbers before the page that can't be told. */
  gap: { fromSeq: number; toSeq: number; why: string } | null;
  events: { seq: number; kind: string; subjectId: string; atMs: number; /** A JSON object. */ dataText: string }[];
  /** Whoever reads on after this number misses nothing. */
  lastSeq: number;
}

export interface Events {
  /**
   * The account's events after a number, or from now on (null), until the signal aborts. The first page is there at once and holds
   * nothing but where it begins; the next is read when it is drawn. Throws `too_many_requests` when too many are followed.
   */
  follow(caller: Caller, afterSeq: number | null, signal: AbortSignal): AsyncGenerator<PublishedEvents, void>;
}

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

export function makeEventFeed({ store, moves }: { store: Store; moves: AccountVersions }): EventFeed {
  const ending = new AbortController();
  const limit = makeConcurrencyLimit({
    perAccount: MAX_STREAMS_EACH,
    total: MAX_STREAMS,
    retryAfterS: RETRY_AFTER_S,
    full: {
      mine: (count) => `this account has ${count} event streams open, and ${MAX_STREAMS_EACH} is the most; close one`,
      all: (count) => `this server has ${count} event streams open, and that is the most; try again later`,
    },
  });

  /** What comes after the number `after`: a page with a gap before it if there is one. Null when that is nothing. */
  const draw = async (accountId: string, after: number): Promise<PublishedEvents | null> => {
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

  async function* read(accountId: string, from: number | null, signal: AbortSignal): AsyncGenerator<PublishedEvents> {
    signal.throwIfAborted();
    let after = from ?? (await latestSeq(store.read, accountId));
    yield { gap: null, events: [], lastSeq: after };
    for (;;) {
      signal.throwIfAborted();
      const version = await moves.versionOf(accountId);
      const told = await draw(accountId, after);
      if (told === null) await moves.changed(accountId, version, signal);
      else {
        after = told.lastSeq;
        yield told;
      }
    }
  }

  return {
    async *follow({ accountId }, from, given) {
      const signal = AbortSignal.any([given, ending.signal]);
      const leave = limit.acquire(accountId);
      try {
        yield* read(accountId, from, signal);
      } catch (error) {
        if (!signal.aborted) throw error;
      } finally {
        leave();
      }
    },
    stop: () => ending.abort(),
    get size() {
      return limit.count;
    },
  };
}
