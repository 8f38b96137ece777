/** What ends a running instance by itself, and when: its owner sets it, a timed deed obeys it. */
import type { Instance, Observed } from './instance.ts';
import type { Cause } from './operation.ts';
import type { IdlePolicy } from './idle.ts';

export interface StopPolicy {
  /** The time that was set; null: none. */
  stopAtMs: number | null;
  /** From when it became Running; null: as long as it likes. */
  maxRunMs: number | null;
  /** Null: it is never stopped for idleness. */
  idle: IdlePolicy | null;
  /** Until then idleness stops nothing: a keep-alive call said so. */
  keepAliveUntilMs: number;
}

/** What the operator sets for the whole installation. */
export interface StopPolicyRules {
  /** Nobody's instance may run longer without a stop; null: no such bound. */
  capRunMs: number | null;
  /** What new instances begin with. */
  idle: IdlePolicy | null;
}

export const noStopPolicy: StopPolicy = { stopAtMs: null, maxRunMs: null, idle: null, keepAliveUntilMs: 0 };

export const initialStopPolicy = ({ capRunMs, idle }: StopPolicyRules): StopPolicy => ({
  ...noStopPolicy,
  maxRunMs: capRunMs,
  idle,
});

type Seen = Pick<Observed, 'status' | 'runningSinceMs'>;

type ClockStopped = Pick<Instance, 'desired' | 'stopPolicy' | 'observed'>;

/**
 * When it is to be stopped by the clock alone: the earlier of the two; null when nothing is set, and of one that is not to run. Its
 * longest run counts while it is Running.
 */
export function stopDueAtMs({ desired, stopPolicy, observed }: ClockStopped): number | null {
  if (desired !== 'running') return null;
  const longest = longestMs(stopPolicy, observed);
  if (stopPolicy.stopAtMs === null || longest === null) return stopPolicy.stopAtMs ?? longest;
  return Math.min(stopPolicy.stopAtMs, longest);
}

const longestMs = ({ maxRunMs }: StopPolicy, { status, runningSinceMs }: Seen): number | null =>
  maxRunMs === null || status !== 'Running' ? null : runningSinceMs + maxRunMs;

/** Why the clock ends it now; null while it does not. */
export function dueStopCause(
  instance: ClockStopped,
  nowMs: number,
): Extract<Cause, 'ScheduledStop' | 'MaxRunTime'> | null {
  const atMs = stopDueAtMs(instance);
  if (atMs === null || atMs > nowMs) return null;
  return atMs === instance.stopPolicy.stopAtMs ? 'ScheduledStop' : 'MaxRunTime';
}

/** As it is started again: a time that has passed has done its work, or would stop it at once, for ever. */
export const withoutPastStop = (ends: StopPolicy, nowMs: number): StopPolicy =>
  ends.stopAtMs !== null && ends.stopAtMs <= nowMs ? { ...ends, stopAtMs: null } : ends;

/** What is asked for: what is left out stays, null takes off. */
export interface StopPolicyRequest {
  stopAtMs?: number | null | undefined;
  maxRunMs?: number | null | undefined;
  idle?: IdlePolicy | null | undefined;
}

const MINUTE_MS = 60_000;
/** A time to stop at is refused beyond this: it would be a slip of the keyboard. */
const FURTHEST_MS = 366 * 24 * 60 * MINUTE_MS;

/** What then holds; or, as text, why that can't be and what would work. */
export function nextStopPolicy(
  ends: StopPolicy,
  wish: StopPolicyRequest,
  seen: Seen,
  rules: StopPolicyRules,
  nowMs: number,
): StopPolicy | string {
  const { stopAtMs = ends.stopAtMs, idle = ends.idle } = wish;
  const maxRunMs = wish.maxRunMs === undefined ? ends.maxRunMs : (wish.maxRunMs ?? rules.capRunMs);
  const stop = wish.stopAtMs ?? null;
  const longestRun = wish.maxRunMs ?? null;
  if (stop !== null) {
    if (stop <= nowMs)
      return `field "stopAtUnixMs" is ${stop}: it must be a time to come, and now it is ${nowMs}; to stop at once, use /instance/stop`;
    if (stop > nowMs + FURTHEST_MS)
      return `field "stopAtUnixMs" is ${stop}: it must be within a year, which is up to ${nowMs + FURTHEST_MS}; null takes it off`;
  }
  if (longestRun !== null && rules.capRunMs !== null && longestRun > rules.capRunMs)
    return `field "maxRunMinutes" is ${minutes(longestRun)}: it must be at most ${minutes(rules.capRunMs)}, which the operator allows at most`;
  const next = { ...ends, stopAtMs, maxRunMs, idle };
  const longest = wish.maxRunMs === undefined ? null : longestMs(next, seen);
  if (longest !== null && longest <= nowMs)
    return `field "maxRunMinutes" is ${minutes(maxRunMs ?? 0)}: it must be more than ${minutes(nowMs - seen.runningSinceMs)}, as long has it been running; to stop at once, use /instance/stop`;
  return next;
}

const minutes = (ms: number): number => Math.floor(ms / MINUTE_MS);
