/** Wake on request: which requests at the gateway may start a stopped instance. */
import type { Diagnosis, InstanceStatus } from './instance-states.ts';

/** `visitors`: also everybody else who may open the port. */
export const wakers = ['off', 'owner', 'visitors'] as const;
export type Waker = (typeof wakers)[number];

export const DEFAULT_VISITOR_WAKES = 3;
export const MAX_VISITOR_WAKES = 100;

export interface WakePolicy {
  by: Waker;
  /** Starts by visitors in 24 hours. */
  visitorsPerDay: number;
  /** Starts by visitors, of the last 24 hours at least. */
  visitorWakesAtMs: readonly number[];
}

export const noWake: WakePolicy = { by: 'off', visitorsPerDay: DEFAULT_VISITOR_WAKES, visitorWakesAtMs: [] };

const DAY_MS = 24 * 3_600_000;

export const visitorWakesOf = ({ visitorWakesAtMs }: WakePolicy, nowMs: number): number[] =>
  visitorWakesAtMs.filter((atMs) => atMs > nowMs - DAY_MS);

/** When a visitor may start it again; null: now. */
export function nextVisitorWakeMs(policy: WakePolicy, nowMs: number): number | null {
  const recent = visitorWakesOf(policy, nowMs);
  const oldest = recent[recent.length - policy.visitorsPerDay];
  return oldest === undefined ? null : oldest + DAY_MS;
}

/** Stops that their owner or operator wanted to last, or that a start pays for. */
const afterDecision: readonly Diagnosis[] = [
  'OperatorStop',
  'BudgetReached',
  'PaidTimeEnded',
  'RootDiskOverSize',
  'HostNearlyFull',
];

/** Why no request starts a stopped instance, or null. A failed start would fail again. */
export function refusalOfWake(status: InstanceStatus, diagnosis: Diagnosis): string | null {
  const isAtRest = status === 'Stopped' || status === 'Archived';
  if (isAtRest && !afterDecision.includes(diagnosis)) return null;
  const reason = diagnosis === '' ? '' : ` with the reason ${diagnosis}`;
  return `it ${isAtRest ? 'was stopped' : `is ${status}`}${reason}`;
}
