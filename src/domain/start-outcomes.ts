/**
 * Decides who pays for a run that ends before the instance was `Running`:
 * `docs/reference/billing.md`.
 */
import { isInUse, runSinceMs, type Instance } from './instance.ts';
import type { Diagnosis } from './instance-states.ts';

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
  ContainerExited: 'paid',
  CrashLoop: 'paid',
  OutOfMemory: 'paid',
  StartTimeout: 'paid',
  StopDelayed: 'paid',
  Unhealthy: 'paid',
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

/** A request ends a run by its own cause, a reconcile by what it found. */
function reasonOfEnd(before: Instance, { generation, operation, observed }: Instance): Diagnosis {
  if (generation === before.generation) return observed.diagnosis;
  return operation.cause === 'operator' ? 'OperatorStop' : '';
}

export interface RunChange {
  /** A run begins: its start. */
  sinceMs?: number;
  /** A run ends before the instance was `Running`, and is refunded. */
  refundFor?: Diagnosis;
}

/** Returns the effect of a change of an instance on the charge of its run. */
export function runChange(before: Instance, after: Instance, nowMs: number): RunChange {
  const [was, is] = [isInUse(before), isInUse(after)];
  if (!was && is) return { sinceMs: runSinceMs(after, nowMs) };
  if (!was || is || before.observed.status === 'Running') return {};
  const reason = reasonOfEnd(before, after);
  return startOutcomes[reason] === 'refunded' ? { refundFor: reason } : {};
}
