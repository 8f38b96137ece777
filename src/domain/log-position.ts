/**
 * Where a reader of a console is, told by what the log itself keeps: times to the millisecond, and the order of its lines. Lines of one
 * millisecond are counted. The order is that in which lines were finished, so that times may go back a little: whoever goes on from a
 * place reads from a while before it, up to the very line, and what comes after that is new, whatever its time.
 */

/** The `nth` line, from 1, among those begun in this millisecond. */
export interface LogPosition {
  atMs: number;
  nth: number;
}

/** By how much a line's time may be before that of the line in front of it. */
export const DISORDER_MS = 1_000;
const MANY_TIMES = 4 * DISORDER_MS;

const PLACE = /^(\d{1,15})\.([1-9]\d{0,8})$/;

export const formatLogPosition = ({ atMs, nth }: LogPosition): string => `${atMs}.${nth}`;

/** Null for what no `placeText` is. */
export function parseLogPosition(text: string): LogPosition | null {
  const [, atMs, nth] = PLACE.exec(text) ?? [];
  return atMs === undefined ? null : { atMs: Number(atMs), nth: Number(nth) };
}

/** Gives the lines of a log their places, as they come. It has to begin no later than a millisecond that is asked for. */
export function makeLogPositions(): (atMs: number | null) => LogPosition | null {
  const counts = new Map<number, number>();
  let newestMs = -Infinity;
  return (atMs) => {
    // Begun long ago and finished only now: it has no place of its own, and is told behind the one before it.
    if (atMs === null || atMs < newestMs - DISORDER_MS) return null;
    newestMs = Math.max(newestMs, atMs);
    const nth = (counts.get(atMs) ?? 0) + 1;
    counts.set(atMs, nth);
    if (counts.size > MANY_TIMES) for (const old of counts.keys()) if (old < newestMs - DISORDER_MS) counts.delete(old);
    return { atMs, nth };
  };
}

export type PositionMatch = 'before' | 'at' | 'after' | 'lost';

/** Of lines from `DISORDER_MS` before a place: those before it, its own, and those after it; `lost` when it was not among them. */
export function makePositionSearch(place: LogPosition): (line: LogPosition | null) => PositionMatch {
  let found = false;
  return (line) => {
    if (found) return 'after';
    if (line === null) return 'before';
    found = line.atMs === place.atMs && line.nth === place.nth;
    if (found) return 'at';
    return line.atMs > place.atMs + DISORDER_MS ? 'lost' : 'before';
  };
}
