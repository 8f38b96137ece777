/**
 * Bounds the records of refused requests. The first ten equal refusals of a minute, by account or
 * by name and address, get a record each; the others share one, written at the minute's end.
 */

const WINDOW_MS = 60_000;
const RECORDED_EACH = 10;
/** Further keys of a minute share one per route and code: they say neither name nor address. */
const MAX_KEYS = 1_000;

interface Counted<Entry> {
  startedMs: number;
  seen: number;
  last: Entry;
}

export interface RefusalCounts<Entry> {
  /** False: counted only. */
  admits(keys: { own: string; shared: string }, entry: Entry, shared: Entry): boolean;
  /** Removes minutes that are over, or all. */
  takeOver(options: { all: boolean }): { entry: Entry; count: number }[];
  readonly size: number;
}

export function makeRefusalCounts<Entry>(elapsed: () => number): RefusalCounts<Entry> {
  // In the order of their start.
  const counted = new Map<string, Counted<Entry>>();
  return {
    admits(keys, entry, shared) {
      const isShared = counted.size >= MAX_KEYS && !counted.has(keys.own);
      const key = isShared ? keys.shared : keys.own;
      const of = counted.get(key) ?? { startedMs: elapsed(), seen: 0, last: entry };
      counted.set(key, of);
      of.seen += 1;
      of.last = isShared ? shared : entry;
      return of.seen <= RECORDED_EACH;
    },
    takeOver({ all }) {
      const over: { entry: Entry; count: number }[] = [];
      for (const [key, { startedMs, seen, last }] of counted) {
        if (!all && elapsed() - startedMs < WINDOW_MS) break;
        counted.delete(key);
        if (seen > RECORDED_EACH) over.push({ entry: last, count: seen - RECORDED_EACH });
      }
      return over;
    },
    get size() {
      return counted.size;
    },
  };
}
