/** What ends a running instance by itself, and when: its owner sets it, a timed deed obeys it. */
import type { Observed } from './instance.ts';

/** Stop when nothing has used it for so long. The rules by which use is told are in `idle.ts`. */
export interface IdlePolicy {
  afterMs: number;
}

export interface Ends {
  /** The time that was set; null: none. */
  stopAtMs: number | null;
  /** From when it became Running; null: as long as it likes. */
  maxRunMs: number | null;
  /** Null: it is never stopped for idleness. */
  idle: IdlePolicy | null;
  /** Until then idleness stops nothing: a keep-alive call said so. */
  keepAliveUntilMs: number;
}

export const noEnds: Ends = { stopAtMs: null, maxRunMs: null, idle: null, keepAliveUntilMs: 0 };

/** When it is to be stopped by the clock alone: the earlier of the two; null while it does not run or nothing is set. */
export function endsAtMs(
  ends: Ends,
  { status, runningSinceMs }: Pick<Observed, 'status' | 'runningSinceMs'>,
): number | null {
  const longest = ends.maxRunMs === null || status !== 'Running' ? null : runningSinceMs + ends.maxRunMs;
  if (ends.stopAtMs === null || longest === null) return ends.stopAtMs ?? longest;
  return Math.min(ends.stopAtMs, longest);
}
