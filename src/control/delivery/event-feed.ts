/**
 * The event feed. Readers pull pages, so a slow reader holds one. Events are numbered and the
 * oldest are deleted first, so missing events are a range: a gap.
 */
import { overQuota, quotaKinds } from '../../domain/access/quota.ts';
import { eventsSince, latestSeq } from '../../store/tables/events.ts';
import type { Store } from '../../store/store.ts';
import type { AccountVersions } from './account-versions.ts';
import { quotaLimit } from '../access/ports.ts';
import { makeConcurrencyLimit, type Caller } from '../kernel/ports.ts';

export interface PublishedEvents {
  /** Events before the page that are no longer stored, or do not exist yet. */
  gap: { fromSeq: number; toSeq: number; why: string } | null;
  events: { seq: number; kind: string; subjectId: string; atMs: number; dataText: string }[];
  lastSeq: number;
}

export interface Events {
  /** Starts after `afterSeq`, or now (null), with an empty page. Throws `too_many_requests`. */
  follow(caller: Caller, afterSeq: number | null, signal: AbortSignal): AsyncGenerator<PublishedEvents, void>;
}

const PAGE = 100;
const MAX_STREAMS = 1_000;
const RETRY_AFTER_S = 10;

export interface EventFeed extends Events {
  stop(): void;
  readonly size: number;
}

export function makeEventFeed({
  store,
  accountVersions,
}: {
  store: Store;
  accountVersions: AccountVersions;
}): EventFeed {
  const ending = new AbortController();
  const limit = makeConcurrencyLimit({
    perAccount: quotaKinds.eventStreams.builtIn,
    total: MAX_STREAMS,
    share: 2,
    retryAfterS: RETRY_AFTER_S,
    full: {
      mine: (used, limit) => overQuota('eventStreams', { limit, used, asked: 1 }).message,
      all: (count) => `this server has ${count} open event streams, its limit; try again later`,
    },
  });

  /** Reads the next page, with a gap before it if events are missing. Null: nothing new. */
  const readPage = async (accountId: string, after: number): Promise<PublishedEvents | null> => {
    // Read first: events up to `latest` missing from the page are deleted, not late.
    const latest = await latestSeq(store.read, accountId);
    if (after > latest) {
      const gap = { fromSeq: latest + 1, toSeq: after, why: 'no events have these numbers yet' };
      return { gap, events: [], lastSeq: latest };
    }
    const rows = await eventsSince(store.read, accountId, after, PAGE);
    const events = rows.map(({ seq, kind, subjectId, atMs, data: dataText }) => ({
      seq,
      kind,
      subjectId,
      atMs,
      dataText,
    }));
    const firstSeq = events[0]?.seq ?? latest + 1;
    const lastSeq = events.at(-1)?.seq ?? latest;
    if (firstSeq > after + 1) {
      const gap = { fromSeq: after + 1, toSeq: firstSeq - 1, why: 'these events are no longer stored' };
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
      const version = await accountVersions.versionOf(accountId);
      const published = await readPage(accountId, after);
      if (published === null) await accountVersions.changed(accountId, version, signal);
      else {
        after = published.lastSeq;
        yield published;
      }
    }
  }

  return {
    async *follow({ accountId }, from, callerSignal) {
      const signal = AbortSignal.any([callerSignal, ending.signal]);
      const leave = limit.acquire(accountId, await quotaLimit(store.read, accountId, 'eventStreams'));
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
