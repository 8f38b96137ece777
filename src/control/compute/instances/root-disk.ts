import { failOperation, operationErrorOf } from '../../../domain/compute/operation.ts';
import type { Instance } from '../../../domain/compute/instance.ts';
import type { Step } from '../../../domain/compute/plan.ts';
import { appendEvent } from '../../../store/tables/events.ts';
import type { Db } from '../../../store/store.ts';
import { notifyAdministrators } from '../../kernel/ports.ts';
import { advanceQueue, releaseCapacity } from '../../regions/ports.ts';
import { writeInstance, type InstanceState, type ReconcileContext, type StepResult } from './reconcile-context.ts';

/** Rests until the owner agrees to a new root disk. Frees capacity, leaves the queue, notifies. */
export async function loseRootDisk(
  context: ReconcileContext,
  state: InstanceState,
  { show }: Pick<Extract<Step, { do: 'loseRootDisk' }>, 'show'>,
): Promise<StepResult> {
  const { store, time, log } = context.deps;
  const { instance, holdsCapacity } = state;
  const { id, ownerId, ownerName, spec, waitsSinceMs, desired } = instance;
  const { regionId } = spec;
  const nowMs = time.now();
  const observed = { ...instance.observed, ...show, stoppedAtMs: instance.observed.stoppedAtMs || nowMs };
  const { diagnosisMessage: reason } = observed;
  const operation =
    desired === 'archived'
      ? failOperation(instance.operation, operationErrorOf('RootDiskLost', reason), nowMs)
      : instance.operation;
  const waiting = { notBeforeMs: null, waitsSinceMs: null, waitsUntilMs: null };
  const next: Instance = { ...instance, ...waiting, rootDisk: 'lost', desired: 'stopped', operation, observed };
  const alongside = async (tx: Db): Promise<void> => {
    if (holdsCapacity) await releaseCapacity(tx, spec, nowMs);
    if (waitsSinceMs !== null) await advanceQueue(tx, regionId, nowMs, { id, waitsSinceMs });
    const kind = 'instance.rootDiskLost';
    await appendEvent(tx, { accountId: ownerId, atMs: nowMs, kind, subjectId: id, data: { reason } });
  };
  log.warn({ id }, 'the container of an instance was removed outside of Berth, and its root disk with it');
  const written = await writeInstance(context, state, next, { holdsCapacity: false, alongside });
  const data = { instanceId: id, ownerName, reason };
  const event = { atMs: nowMs, kind: 'rootDisk.lost', subjectId: regionId, data };
  await store.write((tx) => notifyAdministrators(tx, event));
  return { state: written, next: 'again' };
}
