/**
 * A spot instance whose capacity the engine takes: the owner gets the event, and the task of
 * `capacity/reclaim-spots.ts` stops the instance when its time has come.
 */
import { writeReclaim } from '../../../store/tables/tide-and-spot.ts';
import type { Step } from '../../../domain/compute/plan.ts';
import { writeObservation, type InstanceState, type ReconcileContext, type StepResult } from './reconcile-context.ts';

/** The announcement first: a run that has ended must not begin again without it. */
export async function announceReclaim(
  context: ReconcileContext,
  start: InstanceState,
  { atMs, reason, show }: Extract<Step, { do: 'announceReclaim' }>,
): Promise<StepResult> {
  const { store, time } = context.deps;
  const { id, ownerId } = start.instance;
  await store.write((tx) => writeReclaim(tx, { id, ownerId }, { atMs, reason }, time.now()));
  const state = Object.keys(show).length === 0 ? start : await writeObservation(context, start, { observed: show });
  // The announcement made the row due again.
  return { state, next: null };
}
