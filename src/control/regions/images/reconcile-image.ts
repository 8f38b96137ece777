/**
 * Reconciles an image that is saved from an instance, or registered from a registry:
 *
 *     Saving ── root disk copied, and pushed if the operator has a registry ──► Ready
 *        └───── container gone, or too many failed attempts ──► Failed, with the reason
 *     registered ── `follow-image.ts`
 *     any ── delete ──► Deleting ── removed from the engine ──► row deleted
 *
 * A running instance is paused while its root disk is copied. After a crash the copy starts again
 * and replaces the first image. An unreachable engine fails nothing; a copy over its deadline does.
 */
import { EngineFault, isEngineAway } from '../../../domain/regions/engine-fault.ts';
import { instanceId } from '../../../domain/kernel/ids.ts';
import { backOffMs, type Limits } from '../../../domain/compute/instance-states.ts';
import { endOperation, beginStage, failOperation } from '../../../domain/compute/operation.ts';
import { deleteLeasedImageRow, writeReconciledImage, type ImageRow } from '../../../store/tables/images.ts';
import { instanceRow } from '../../../store/tables/instances.ts';
import { followImage, type FollowDeps } from './follow-image.ts';
import { guardOf, operationOf, writeResult } from './image-results.ts';
import { makeProgressReporter } from './progress-reporter.ts';
import type { TaskDeps, LeasedRow, ReconcileResult, RegionDrivers } from '../../kernel/ports.ts';
import { withCopyDeadline } from '../../storage/ports.ts';

export interface ImageReconcilerDeps extends FollowDeps, Pick<TaskDeps, 'log'> {
  limits: Limits;
}

interface Work extends ImageReconcilerDeps {
  leased: LeasedRow<ImageRow>;
  drivers: RegionDrivers;
}

export function makeImageReconciler(deps: ImageReconcilerDeps) {
  return async (leased: LeasedRow<ImageRow>): Promise<ReconcileResult> => {
    const { row } = leased;
    if (row.regionId === null) return followImage({ ...deps, leased });
    const work: Work = { ...deps, leased, drivers: deps.regions.of(row.regionId) };
    switch (row.state) {
      case 'Saving':
        return save(work);
      case 'Deleting':
        return remove(work);
      default:
        return { dueAtMs: null };
    }
  };
}

const callSignal = ({ leased, time, limits }: Work): AbortSignal =>
  AbortSignal.any([leased.signal, time.deadline(limits.callDeadlineMs)]);

const copy = <T>({ drivers, leased, time, limits }: Work, operation: (signal: AbortSignal) => Promise<T>): Promise<T> =>
  withCopyDeadline({ engine: drivers.engine, time, signal: leased.signal }, limits.copyDeadlineMs, operation);

async function save(work: Work): Promise<ReconcileResult> {
  const { leased, drivers, store } = work;
  const { row } = leased;
  const { engine } = drivers;
  const from = instanceId(row.fromInstanceId ?? '');
  const instance = await instanceRow(store.read, from);
  if (!instance || instance.desired === 'released')
    return fail(work, 'InstanceGone', 'the instance was terminated before it was saved');
  try {
    const { sizeBytes } = await copy(work, (signal) => engine.saveImage(from, row.ref, signal));
    if (drivers.archivePushed) await push(work);
    return await writeResult(work, 'image.saved', { state: 'Ready', stateText: '', sizeBytes }, (operation, nowMs) =>
      endOperation(operation, 'Succeeded', nowMs),
    );
  } catch (error) {
    return afterFault(work, error, ({ kind, message }) => {
      if (kind !== 'not_found') return fail(work, 'SaveFailed', message);
      const isArchived = instance.desired === 'archived';
      return isArchived
        ? fail(work, 'InstanceGone', 'the instance was archived before it was saved')
        : fail(work, 'RootDiskLost', 'the container of the instance was removed outside of Berth before it was saved');
    });
  }
}

/** Pushes to the operator's registry and removes the local image. */
async function push(work: Work): Promise<void> {
  const { leased, drivers, store, time } = work;
  const { engine, archiveCredentials } = drivers;
  const { ref } = leased.row;
  const reporter = makeProgressReporter(time.elapsed, (stateText, progress) => {
    const operation = operationOf(leased.row, (operation) => beginStage(operation, 'Archive', time.now(), progress));
    return store.write((tx) => writeReconciledImage(tx, guardOf(work), { stateText, operation }));
  });
  try {
    await copy(work, (signal) => engine.pushImage(ref, reporter.onProgress, signal, archiveCredentials));
  } finally {
    await reporter.finish();
  }
  await engine.removeImage(ref, callSignal(work));
}

async function remove(work: Work): Promise<ReconcileResult> {
  const { leased, drivers, log, store, time } = work;
  const { id, ref } = leased.row;
  try {
    await drivers.engine.removeImage(ref, callSignal(work));
  } catch (error) {
    if (!(error instanceof EngineFault) || error.kind !== 'rejected') return afterFault(work, error, null);
    log.error({ id, image: ref, err: error }, 'could not remove a saved image; the image stays on the engine');
  }
  const gone = await store.write((tx) => deleteLeasedImageRow(tx, guardOf(work), leased.row, time.now()));
  return gone ? 'gone' : { dueAtMs: time.now() };
}

/** Retries a temporary fault with back-off; without `failPermanently`, for ever. */
async function afterFault(
  work: Work,
  error: unknown,
  failPermanently: ((fault: EngineFault) => Promise<ReconcileResult>) | null,
): Promise<ReconcileResult> {
  const { leased, limits, log, store, time } = work;
  leased.signal.throwIfAborted();
  if (!(error instanceof EngineFault)) throw error;
  const { id } = leased.row;
  log.warn({ id, kind: error.kind, err: error }, 'an engine call for an image failed');
  // A registry may be away for ever; the engine comes back.
  if (isEngineAway(error)) return { dueAtMs: time.now() + limits.engineRetryMs };
  const attempts = leased.row.attempts + 1;
  if (failPermanently && (!error.retry || attempts > limits.maxAttempts)) return failPermanently(error);
  const written = await store.write((tx) =>
    writeReconciledImage(tx, guardOf(work), { attempts, stateText: error.message }),
  );
  return { dueAtMs: time.now() + (written ? backOffMs(attempts, limits) : 0) };
}

const fail = (work: Work, reason: string, message: string): Promise<ReconcileResult> =>
  writeResult(work, 'image.saveFailed', { state: 'Failed', stateText: message }, (operation, nowMs) => {
    const whatToDo = 'Delete the image, and save the instance again if it still exists.';
    return failOperation(operation, { reason, message, whatToDo }, nowMs);
  });
