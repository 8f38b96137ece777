/** The state of an instance in a sentence, as facts. Pure. */
import type { InstanceStatus } from '../../../../src/contract/statuses.ts';
import type { Activity, InstanceView, Stage, StopPolicy } from './queries.ts';

/** Why an instance stops by itself. */
export type StopCause = 'stopAt' | 'longestRun' | 'idle' | 'paidTime';
export interface ComingStop {
  atMs: number;
  cause: StopCause;
}

export type Headline =
  | { kind: 'running'; sinceMs: number | null; stop: ComingStop | null }
  | { kind: 'starting'; sinceMs: number }
  | { kind: 'waiting'; sinceMs: number; ahead: number | null }
  | { kind: 'offPeakWait'; sinceMs: number }
  | { kind: 'stopping' | 'archiving' | 'cleaning' | 'released' | 'archived' }
  | { kind: 'stopped'; atMs: number | null }
  | { kind: 'failed'; atMs: number | null };

/** The earliest of all stops that are due. */
export function comingStopOf(
  ends: Pick<StopPolicy, 'stopAtUnixMs' | 'endsAtUnixMs'> | undefined,
  activity: Pick<Activity, 'willStopAtUnixMs'> | undefined,
  { autoRenew, paidTime }: Pick<InstanceView['billing'], 'autoRenew' | 'paidTime'>,
): ComingStop | null {
  const stops: ComingStop[] = [];
  const clockMs = ends?.endsAtUnixMs ?? null;
  if (clockMs !== null) stops.push({ atMs: clockMs, cause: clockMs === ends?.stopAtUnixMs ? 'stopAt' : 'longestRun' });
  const idleMs = activity?.willStopAtUnixMs ?? null;
  if (idleMs !== null) stops.push({ atMs: idleMs, cause: 'idle' });
  const paidUntilMs = paidTime?.endsAtUnixMs ?? null;
  if (paidUntilMs !== null && !autoRenew) stops.push({ atMs: paidUntilMs, cause: 'paidTime' });
  return stops.toSorted((one, other) => one.atMs - other.atMs)[0] ?? null;
}

export const runningSinceOf = (timeline: readonly Stage[]): number | null =>
  timeline.find(({ name }) => name === 'Readiness')?.endedAtUnixMs ?? null;

/** Instances ahead, as the message of the queue says it. */
export function aheadOf(message: string): number | null {
  const ahead = /instances ahead in the queue: (\d+)/.exec(message)?.[1];
  return ahead === undefined ? null : Number(ahead);
}

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;

/**
 * Seconds in the first minute, then whole minutes: a sentence that changes each second is not read.
 */
export const wholeOf = (ms: number): number =>
  ms < MINUTE_MS ? Math.max(SECOND_MS, ms) : Math.floor(ms / MINUTE_MS) * MINUTE_MS;

const lastEndOf = (timeline: readonly Stage[]): number | null =>
  timeline.reduce<number | null>((last, { endedAtUnixMs }) => Math.max(last ?? 0, endedAtUnixMs ?? 0) || null, null);

export function headlineOf({ instance, timeline }: InstanceView, stop: ComingStop | null): Headline {
  const { status, phase, diagnosisReason, diagnosisMessage, stopTimestamp, createAtUnixMs } =
    instance.instanceRuntimeInfo;
  const sinceMs = timeline[0]?.startedAtUnixMs ?? createAtUnixMs;
  if (phase === 'Cleaning' || phase === 'RemovingDisks') return { kind: 'cleaning' };
  if (phase === 'Stopping') return { kind: 'stopping' };
  if (phase === 'Archiving') return { kind: 'archiving' };
  switch (status) {
    case 'Running':
      return { kind: 'running', sinceMs: runningSinceOf(timeline), stop };
    case 'Initializing':
    case 'PullingImage':
    case 'Starting':
    case 'Restarting':
      if (diagnosisReason === 'NoCapacity') return { kind: 'waiting', sinceMs, ahead: aheadOf(diagnosisMessage) };
      if (diagnosisReason === 'OffPeakWait') return { kind: 'offPeakWait', sinceMs };
      return { kind: 'starting', sinceMs };
    case 'Stopped':
      return { kind: 'stopped', atMs: stopTimestamp || null };
    case 'StartingFailed':
    case 'InitializationFailed':
      return { kind: 'failed', atMs: lastEndOf(timeline) };
    case 'Archived':
      return { kind: 'archived' };
    case 'Released':
      return { kind: 'released' };
  }
}

const onTheWay: readonly InstanceStatus[] = ['Initializing', 'PullingImage', 'Starting', 'Restarting'];
const failed: readonly InstanceStatus[] = ['StartingFailed', 'InitializationFailed'];

/** Whether only its books and its history are left. */
export const isReleased = ({ instance: { instanceRuntimeInfo: runtime } }: InstanceView): boolean =>
  runtime.status === 'Released';

/** Whether the page is the timeline of the start. */
export const isStarting = ({ instance: { instanceRuntimeInfo: runtime } }: InstanceView): boolean =>
  onTheWay.includes(runtime.status);
export const isFailed = ({ instance: { instanceRuntimeInfo: runtime } }: InstanceView): boolean =>
  failed.includes(runtime.status);
