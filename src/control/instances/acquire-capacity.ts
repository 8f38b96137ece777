/**
 * A launch or start that waits in line: it is placed as soon as its turn has come (`domain/placement.ts`), and given up when its
 * time to wait is over. Whoever gives room back makes it due, so the clock is only for its deadline, for what it says of its place, and
 * for those behind it when room is no longer kept for it.
 */
import { beginStage } from '../../domain/operation.ts';
import { RESERVATION_MS } from '../../domain/placement.ts';
import { diagnosisFields, failPermanently } from '../../domain/plan.ts';
import { reevaluateQueue, advanceQueue, reserveInTurn, queuedDiagnosis } from '../capacity/queue.ts';
import { writeInTransaction, type NextReconcile, type ReconcileContext } from './reconcile-context.ts';

/** The further back, the later one looks at its place again: a thousand in line together look about four times a second. */
const LOOK_AGAIN_MS = 15_000;
const LATER_PER_PLACE_MS = 1_000;

export async function acquireCapacity(work: ReconcileContext): Promise<NextReconcile> {
  const { deps, instance } = work;
  const { regionId, type } = instance.spec;
  const { id, waitsSinceMs, waitsUntilMs, requestedAtMs } = instance;
  if (waitsSinceMs === null) return 'again';
  const nowMs = deps.now();
  const mine = { id, waitsSinceMs };
  const keptUntilMs = requestedAtMs + RESERVATION_MS;
  // Only at the look that it takes then: later ones would call the same again.
  const keptNoLonger = nowMs >= keptUntilMs && nowMs < keptUntilMs + LOOK_AGAIN_MS;
  const found = await deps.store.write(async (tx) => {
    const before = await reserveInTurn(tx, instance.spec, mine, nowMs);
    const ended = { ...instance, waitsSinceMs: null, waitsUntilMs: null };
    const leave = { alsoWrite: () => advanceQueue(tx, regionId, nowMs, mine) };
    if (before === null) {
      const operation = beginStage(instance.operation, 'Placed', nowMs);
      const observed = { ...instance.observed, ...diagnosisFields('', '') };
      const next = { ...ended, requestedAtMs: nowMs, operation, observed };
      return { before, written: await writeInTransaction(tx, work, next, { ...leave, holdsCapacity: true }) };
    }
    if (waitsUntilMs !== null && nowMs >= waitsUntilMs) {
      const { show } = failPermanently(instance, 'NoCapacity', 'no room came free in the time it was to wait');
      const observed = { ...instance.observed, ...show, stoppedAtMs: nowMs };
      return { before, written: await writeInTransaction(tx, work, { ...ended, desired: 'stopped', observed }, leave) };
    }
    if (keptNoLonger) await reevaluateQueue(tx, regionId, nowMs, mine);
    const observed = { ...instance.observed, ...queuedDiagnosis(type, before) };
    if (observed.diagnosisMessage === instance.observed.diagnosisMessage) return { before, written: instance };
    return { before, written: await writeInTransaction(tx, work, { ...instance, observed }) };
  });
  work.instance = work.written = found.written;
  if (found.written.waitsSinceMs === null) {
    work.holdsCapacity = found.before === null;
    deps.changes.publish({ subject: 'instance', id, isDue: true });
    return 'again';
  }
  if (keptNoLonger) deps.changes.publish({ subject: 'instance', isDue: true });
  const lookMs = nowMs + LOOK_AGAIN_MS + (found.before ?? 0) * LATER_PER_PLACE_MS;
  const soonestMs = Math.min(lookMs, waitsUntilMs ?? lookMs, nowMs < keptUntilMs ? keptUntilMs : lookMs);
  return Math.max(1, soonestMs - nowMs);
}
