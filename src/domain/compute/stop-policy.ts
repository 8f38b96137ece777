import { MINUTE_MS } from '../kernel/durations.ts';
import type { DesiredState, InstanceStatus } from './instance-states.ts';
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

interface RunState {
  status: InstanceStatus;
  /** 0 while not Running. */
  runningSinceMs: number;
}

interface TimedInstance {
  desired: DesiredState;
  stopPolicy: StopPolicy;
  observed: RunState;
}

/** The earlier of the scheduled stop and the end of the longest run, which counts while Running. */
export function stopDueAtMs({ desired, stopPolicy, observed }: TimedInstance): number | null {
  if (desired !== 'running') return null;
  const runEndMs = runEndsAtMs(stopPolicy, observed);
  if (stopPolicy.stopAtMs === null || runEndMs === null) return stopPolicy.stopAtMs ?? runEndMs;
  return Math.min(stopPolicy.stopAtMs, runEndMs);
}

const runEndsAtMs = ({ maxRunMs }: StopPolicy, { status, runningSinceMs }: RunState): number | null =>
  maxRunMs === null || status !== 'Running' ? null : runningSinceMs + maxRunMs;

export function dueStopCause(
  instance: TimedInstance,
  nowMs: number,
): Extract<Cause, 'ScheduledStop' | 'MaxRunTime'> | null {
  const atMs = stopDueAtMs(instance);
  if (atMs === null || atMs > nowMs) return null;
  return atMs === instance.stopPolicy.stopAtMs ? 'ScheduledStop' : 'MaxRunTime';
}

/** A start drops a scheduled stop in the past, which would stop the instance at once. */
export const withoutPastStop = (policy: StopPolicy, nowMs: number): StopPolicy =>
  policy.stopAtMs !== null && policy.stopAtMs <= nowMs ? { ...policy, stopAtMs: null } : policy;

/** An absent member stays unchanged; null removes it. */
export interface StopPolicyRequest {
  stopAtMs?: number | null | undefined;
  maxRunMs?: number | null | undefined;
  idle?: IdlePolicy | null | undefined;
}

/** Later times are refused as typing errors. */
const MAX_AHEAD_MS = 366 * 24 * 60 * MINUTE_MS;

/** Returns the new policy, or a message that says why it is refused. */
export function nextStopPolicy(
  policy: StopPolicy,
  request: StopPolicyRequest,
  observed: RunState,
  rules: StopPolicyRules,
  nowMs: number,
): StopPolicy | string {
  const { stopAtMs = policy.stopAtMs, idle = policy.idle } = request;
  const maxRunMs = request.maxRunMs === undefined ? policy.maxRunMs : (request.maxRunMs ?? rules.capRunMs);
  const stop = request.stopAtMs ?? null;
  const longestRun = request.maxRunMs ?? null;
  if (stop !== null) {
    if (stop <= nowMs)
      return `field "stopAtUnixMs" is ${stop}: it must be after ${nowMs}, the time now; to stop at once, use /instance/stop`;
    if (stop > nowMs + MAX_AHEAD_MS)
      return `field "stopAtUnixMs" is ${stop}: it must be within a year, at most ${nowMs + MAX_AHEAD_MS}; null removes the stop time`;
  }
  if (longestRun !== null && rules.capRunMs !== null && longestRun > rules.capRunMs)
    return `field "maxRunMinutes" is ${minutes(longestRun)}: it must be at most ${minutes(rules.capRunMs)}, the limit of the operator`;
  const next = { ...policy, stopAtMs, maxRunMs, idle };
  const runEndMs = request.maxRunMs === undefined ? null : runEndsAtMs(next, observed);
  if (runEndMs !== null && runEndMs <= nowMs)
    return `field "maxRunMinutes" is ${minutes(maxRunMs ?? 0)}: it must be more than ${minutes(nowMs - observed.runningSinceMs)}, the minutes that the instance has already run; to stop at once, use /instance/stop`;
  return next;
}

const minutes = (ms: number): number => Math.floor(ms / MINUTE_MS);
