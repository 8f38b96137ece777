/** Automatic stops of a running instance: the owner's rules and when they apply. */
import type { Instance, Observed } from './instance.ts';
import type { Cause } from './operation.ts';
import type { IdlePolicy } from './idle.ts';

export interface StopPolicy {
  stopAtMs: number | null;
  /** Counted from when it became Running; null: unlimited. */
  maxRunMs: number | null;
  idle: IdlePolicy | null;
  /** A keep-alive call prevents idle stops until then. */
  keepAliveUntilMs: number;
}

export interface StopPolicyRules {
  /** Longest run of any instance without a stop; null: unlimited. */
  capRunMs: number | null;
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

/** The earlier of the scheduled stop and the end of the longest run, which counts while Running. */
export function stopDueAtMs({ desired, stopPolicy, observed }: ClockStopped): number | null {
  if (desired !== 'running') return null;
  const longest = longestMs(stopPolicy, observed);
  if (stopPolicy.stopAtMs === null || longest === null) return stopPolicy.stopAtMs ?? longest;
  return Math.min(stopPolicy.stopAtMs, longest);
}

const longestMs = ({ maxRunMs }: StopPolicy, { status, runningSinceMs }: Seen): number | null =>
  maxRunMs === null || status !== 'Running' ? null : runningSinceMs + maxRunMs;

export function dueStopCause(
  instance: ClockStopped,
  nowMs: number,
): Extract<Cause, 'ScheduledStop' | 'MaxRunTime'> | null {
  const atMs = stopDueAtMs(instance);
  if (atMs === null || atMs > nowMs) return null;
  return atMs === instance.stopPolicy.stopAtMs ? 'ScheduledStop' : 'MaxRunTime';
}

/** A start drops a scheduled stop in the past, which would stop the instance at once. */
export const withoutPastStop = (ends: StopPolicy, nowMs: number): StopPolicy =>
  ends.stopAtMs !== null && ends.stopAtMs <= nowMs ? { ...ends, stopAtMs: null } : ends;

/** An absent member stays unchanged; null removes it. */
export interface StopPolicyRequest {
  stopAtMs?: number | null | undefined;
  maxRunMs?: number | null | undefined;
  idle?: IdlePolicy | null | undefined;
}

const MINUTE_MS = 60_000;
/** Later times are refused as typing errors. */
const FURTHEST_MS = 366 * 24 * 60 * MINUTE_MS;

/** Returns the new policy, or a message that says why it is refused. */
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
