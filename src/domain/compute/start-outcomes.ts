/**
 * Decides who pays for a run that ends before the instance was `Running`:
 * `docs/reference/billing.md`.
 */
import { currentPriceMicros } from './instance-change.ts';
import { isInUse, lostGpuOf, runSinceMs, type Ending, type Instance } from './instance.ts';
import { STOP_GRACE_MS, type Diagnosis } from './instance-states.ts';
import type { Cause } from './operation.ts';

/**
 * `paid`: the owner, the image or a rule that the owner agreed to ended it. `refunded`: Berth, the
 * engine or the host did, and no owner can make them. `free`: no container ran.
 */
export type StartOutcome = 'paid' | 'refunded' | 'free';

export const startOutcomes = {
  '': 'paid',
  NoCapacity: 'free',
  OffPeakWait: 'free',
  CapacityTimeout: 'free',
  BackOff: 'free',
  ImageDenied: 'free',
  ImageFailed: 'free',
  ImageUnfit: 'free',
  VolumePending: 'free',
  VolumeLost: 'free',
  DisksFailed: 'free',
  DisksLost: 'free',
  DiskInUse: 'free',
  DiskFull: 'free',
  PortTaken: 'free',
  PortsUsedUp: 'free',
  BadMount: 'free',
  EngineRejected: 'free',
  ArchiveFailed: 'free',
  EngineUnreachable: 'refunded',
  Evicted: 'refunded',
  OperatorStop: 'refunded',
  RootDiskLost: 'refunded',
  ContainerExited: 'paid',
  CrashLoop: 'paid',
  OutOfMemory: 'paid',
  StartTimeout: 'paid',
  StopDelayed: 'paid',
  Unhealthy: 'paid',
  GpuLost: 'paid',
  ScheduledStop: 'paid',
  MaxRunTime: 'paid',
  IdleStop: 'paid',
  OffPeakEnded: 'paid',
  SpotReclaimed: 'paid',
  PaidTimeEnded: 'paid',
  AccountDisabled: 'paid',
  NoMoney: 'paid',
  BudgetReached: 'paid',
  RootDiskOverSize: 'paid',
  HostNearlyFull: 'paid',
} as const satisfies Record<Diagnosis, StartOutcome>;

const refundOf = ({ observed: { status } }: Instance, reason: Diagnosis): Diagnosis =>
  status !== 'Running' && startOutcomes[reason] === 'refunded' ? reason : '';

export const reasonOfRequest = (cause: Cause): Diagnosis => (cause === 'operator' ? 'OperatorStop' : '');

export const endingSince = (instance: Instance, reason: Diagnosis, sinceMs: number): Ending => ({
  byMs: sinceMs + STOP_GRACE_MS,
  refundFor: refundOf(instance, reason),
  priceMicros: Number(currentPriceMicros(instance)),
});

export const endingOf = (instance: Instance, reason: Diagnosis, nowMs: number): Ending | null =>
  isInUse(instance) ? (instance.observed.ending ?? endingSince(instance, reason, nowMs)) : null;

export interface RunChange {
  /** A run begins: its start. */
  sinceMs?: number;
  /** A run ends by then at the latest, or costs less from then on. */
  untilMs?: number;
  /** A run ends before the instance was `Running`, and is refunded. */
  refundFor?: Diagnosis;
  /** A run ends, or gets back the GPU that it had lost then. */
  gpuLostSinceMs?: number;
}

/** Returns the effect of a change of an instance on the charge of its run. */
export function runChange(before: Instance, after: Instance, nowMs: number): RunChange {
  const [was, is] = [isInUse(before), isInUse(after)];
  if (!was && is) return { sinceMs: runSinceMs(after, nowMs) };
  const [lost, losesGpu] = [lostGpuOf(before), lostGpuOf(after)];
  if (lost === null && losesGpu) return { untilMs: losesGpu.sinceMs };
  const regained = lost && !losesGpu ? { gpuLostSinceMs: lost.sinceMs } : {};
  if (!was || is) return regained;
  const { ending } = before.observed;
  // A reconcile ends a run by what it found.
  const reason =
    after.generation === before.generation ? after.observed.diagnosis : reasonOfRequest(after.operation.cause);
  const refundFor = ending?.refundFor ?? refundOf(before, reason);
  return { ...regained, ...(ending && { untilMs: ending.byMs }), ...(refundFor !== '' && { refundFor }) };
}
