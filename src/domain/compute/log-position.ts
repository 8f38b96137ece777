/**
 * Positions in a console log, from what the log stores: millisecond times and line order. Lines are
 * ordered by completion, so times may go back: a reader resumes from `DISORDER_MS` before.
 */

export const logSources = ['console', 'init', 'start', 'notebook', 'events'] as const;
export type LogSource = (typeof logSources)[number];

/** The `nth` line, from 1, that began in this millisecond. */
export interface LogPosition {
  atMs: number;
  nth: number;
}

/** Maximum by which a line's time precedes that of the line before. */
export const DISORDER_MS = 1_000;
const MAX_COUNTS = 4 * DISORDER_MS;

const POSITION = /^(\d{1,15})\.([1-9]\d{0,8})$/;

export const formatLogPosition = ({ atMs, nth }: LogPosition): string => `${atMs}.${nth}`;

/** Null unless `formatLogPosition` wrote it. */
export function parseLogPosition(text: string): LogPosition | null {
  const [, atMs, nth] = POSITION.exec(text) ?? [];
  return atMs === undefined ? null : { atMs: Number(atMs), nth: Number(nth) };
}

/** Assigns positions to lines in order. Start before the first millisecond asked for. */
export function makeLogPositions(): (atMs: number | null) => LogPosition | null {
  const counts = new Map<number, number>();
  let newestMs = -Infinity;
  return (atMs) => {
    // Begun long ago and completed only now: no position of its own.
    if (atMs === null || atMs < newestMs - DISORDER_MS) return null;
    newestMs = Math.max(newestMs, atMs);
    const nth = (counts.get(atMs) ?? 0) + 1;
    counts.set(atMs, nth);
    if (counts.size > MAX_COUNTS) for (const old of counts.keys()) if (old < newestMs - DISORDER_MS) counts.delete(old);
    return { atMs, nth };
  };
}

export type PositionMatch = 'before' | 'at' | 'after' | 'lost';

/** Classifies lines from `DISORDER_MS` before the position on. `lost`: no longer stored. */
export function makePositionSearch(position: LogPosition): (line: LogPosition | null) => PositionMatch {
  let isFound = false;
  return (line) => {
    if (isFound) return 'after';
    if (line === null) return 'before';
    isFound = line.atMs === position.atMs && line.nth === position.nth;
    if (isFound) return 'at';
    return line.atMs > position.atMs + DISORDER_MS ? 'lost' : 'before';
  };
}
