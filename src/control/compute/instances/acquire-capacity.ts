/**
 * Places a queued launch or start when its turn comes (`domain/regions/placement.ts`) and fails it
 * when its waiting time is over. Released capacity makes queued rows due, so the clock serves only
 * the deadline, the reported position, and entries behind an expired reservation.
 */
import { beginStage } from '../../../domain/compute/operation.ts';
import { RESERVATION_MS } from '../../../domain/regions/placement.ts';
import { diagnosisFields, failPermanently } from '../../../domain/compute/plan.ts';
import { leaveQueue, windowWait } from './await-window.ts';
import {
  asWritten,
  writeInTransaction,
  type InstanceState,
  type ReconcileContext,
  type StepResult,
} from './reconcile-context.ts';
import { reevaluateQueue, advanceQueue, reserveInQueueOrder, queuedDiagnosis } from '../../regions/ports.ts';

/** Grows with the position: a queue of a thousand is checked about four times a second in total. */
const CHECK_AGAIN_MS = 15_000;
const LATER_PER_POSITION_MS = 1_000;

export async function acquireCapacity(context: ReconcileContext, state: InstanceState): Promise<StepResult> {
  const { deps } = context;
  const { instance } = state;
  const { regionId, type } = instance.spec;
  const { id, waitsSinceMs, waitsUntilMs, requestedAtMs } = instance;
  if (waitsSinceMs === null) return { state, next: 'again' };
  const wait = await windowWait(context, state);
  if (wait !== null) return leaveQueue(context, state, wait);
  const nowMs = deps.time.now();
  const position = { id, waitsSinceMs };
  const reservedUntilMs = requestedAtMs + RESERVATION_MS;
  // Only at the first check after the end: later checks would re-evaluate the same queue.
  const reservationEnded = nowMs >= reservedUntilMs && nowMs < reservedUntilMs + CHECK_AGAIN_MS;
  const outcome = await deps.store.write(async (tx) => {
    const waiting = await reserveInQueueOrder(tx, instance.spec, position, nowMs);
    const left = { ...instance, waitsSinceMs: null, waitsUntilMs: null };
    const leave = { alongside: () => advanceQueue(tx, regionId, nowMs, position) };
    if (waiting === null) {
      const operation = beginStage(instance.operation, 'Placed', nowMs);
      const observed = { ...instance.observed, ...diagnosisFields('', '') };
      const next = { ...left, requestedAtMs: nowMs, operation, observed };
      const options = { ...leave, holdsCapacity: true };
      return { before: null, written: await writeInTransaction(tx, context, state, next, options) };
    }
    const { before } = waiting;
    if (waitsUntilMs !== null && nowMs >= waitsUntilMs) {
      const { show } = failPermanently(instance, 'NoCapacity', 'no capacity became free within the waiting time');
      const observed = { ...instance.observed, ...show, stoppedAtMs: nowMs };
      const next = { ...left, desired: 'stopped', observed } as const;
      return { before, written: await writeInTransaction(tx, context, state, next, leave) };
    }
    if (reservationEnded) await reevaluateQueue(tx, regionId, nowMs, position);
    const observed = { ...instance.observed, ...queuedDiagnosis(type, waiting) };
    if (observed.diagnosisMessage === instance.observed.diagnosisMessage) return { before, written: instance };
    return { before, written: await writeInTransaction(tx, context, state, { ...instance, observed }) };
  });
  const next = asWritten(state, outcome.written);
  if (outcome.written.waitsSinceMs === null) {
    deps.changes.publish({ subject: 'instance', id, isDue: true });
    return { state: { ...next, holdsCapacity: outcome.before === null }, next: 'again' };
  }
  if (reservationEnded) deps.changes.publish({ subject: 'instance', isDue: true });
  const checkMs = nowMs + CHECK_AGAIN_MS + (outcome.before ?? 0) * LATER_PER_POSITION_MS;
  const soonestMs = Math.min(checkMs, waitsUntilMs ?? checkMs, nowMs < reservedUntilMs ? reservedUntilMs : checkMs);
  return { state: next, next: Math.max(1, soonestMs - nowMs) };
}
