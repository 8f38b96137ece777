/**
 * The pass of one image that is saved from an instance:
 *
 *     Saving ── root disk kept (and pushed, where the operator has a registry) ──► Ready
 *        └───── its container is gone, or it failed too often ──────────────────► Failed, with the reason
 *     any ── delete ──► Deleting ── removed from the engine ──► the row is gone
 *
 * A running instance stands still while its root disk is copied. A pass that was killed anywhere is begun anew: the engine puts the
 * second image in the place of the first. An engine that is away fails nothing; one that answers and copies too long does.
 */
import { EngineFault } from '../../domain/engine-fault.ts';
import { instanceId } from '../../domain/ids.ts';
import { backOffMs, type Limits } from '../../domain/instance-states.ts';
import { endOperation, beginStage, failOperation, type Operation } from '../../domain/operation.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { deleteLeasedImageRow, writeReconciledImage, type ImageRow } from '../../store/tables/images.ts';
import { instanceRow } from '../../store/tables/instances.ts';
import type { Store } from '../../store/store.ts';
import type { Log } from '../base/log.ts';
import type { LeasedRow, ReconcileResult } from '../base/reconcile-loop.ts';
import type { RegionDrivers, Regions } from '../base/regions.ts';
import type { Time } from '../base/time.ts';
import { withCopyDeadline } from '../volumes/copy-deadline.ts';
import { makeProgressReporter } from './progress.ts';

export interface ImageReconcilerDeps {
  store: Store;
  regions: Regions;
  time: Time;
  log: Log;
  limits: Limits;
}

interface Work extends ImageReconcilerDeps {
  held: LeasedRow<ImageRow>;
  drivers: RegionDrivers;
}

export function makeImageReconciler(deps: ImageReconcilerDeps) {
  return async (held: LeasedRow<ImageRow>): Promise<ReconcileResult> => {
    const { row } = held;
    if (row.regionId === null) return { dueAtMs: null };
    const work: Work = { ...deps, held, drivers: deps.regions.of(row.regionId) };
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

const holdOf = ({ held: { row, leaseToken } }: Work) => ({ id: row.id, leaseToken, generation: row.generation });

const quick = ({ held, time, limits }: Work): AbortSignal =>
  AbortSignal.any([held.signal, time.deadline(limits.callDeadlineMs)]);

const copy = <T>({ drivers, held, time, limits }: Work, deed: (signal: AbortSignal) => Promise<T>): Promise<T> =>
  withCopyDeadline({ engine: drivers.engine, time, signal: held.signal }, limits.copyDeadlineMs, deed);

async function save(work: Work): Promise<ReconcileResult> {
  const { held, drivers, store } = work;
  const { row } = held;
  const { engine } = drivers;
  const from = instanceId(row.fromInstanceId ?? '');
  const instance = await instanceRow(store.read, from);
  if (!instance || instance.desired === 'released')
    return fail(work, 'InstanceGone', 'its instance was terminated before it was saved');
  try {
    const { sizeBytes } = await copy(work, (signal) => engine.saveImage(from, row.ref, signal));
    if (drivers.archivePushed) await push(work);
    return await end(work, 'image.saved', { state: 'Ready', stateText: '', sizeBytes }, (operation, nowMs) =>
      endOperation(operation, 'Succeeded', nowMs),
    );
  } catch (error) {
    return afterFault(work, error, ({ kind, message }) => {
      const gone = 'the container of its instance is gone: it was terminated or archived before it was saved';
      return kind === 'not_found' ? fail(work, 'InstanceGone', gone) : fail(work, 'SaveFailed', message);
    });
  }
}

/** To the operator's registry, and then it need not lie here. */
async function push(work: Work): Promise<void> {
  const { held, drivers, store, time } = work;
  const { engine, archiveCredentials } = drivers;
  const { ref } = held.row;
  const teller = makeProgressReporter(time.now, (stateText, progress) => {
    const operation = operationOf(held.row, (one) => beginStage(one, 'Archive', time.now(), progress));
    return store.write((tx) => writeReconciledImage(tx, holdOf(work), { stateText, operation }));
  });
  try {
    await copy(work, (signal) => engine.pushImage(ref, teller.onProgress, signal, archiveCredentials));
  } finally {
    await teller.finish();
  }
  await engine.removeImage(ref, quick(work));
}

/** Frees the engine of it; used by what is being cleaned up, it is asked for again. */
async function remove(work: Work): Promise<ReconcileResult> {
  const { held, drivers, log, store, time } = work;
  const { id, ref } = held.row;
  try {
    await drivers.engine.removeImage(ref, quick(work));
  } catch (error) {
    if (!(error instanceof EngineFault) || error.kind !== 'rejected') return afterFault(work, error, null);
    log.error({ id, image: ref, err: error }, 'a saved image could not be removed; it is left');
  }
  const gone = await store.write((tx) => deleteLeasedImageRow(tx, holdOf(work), held.row, time.now()));
  return gone ? 'gone' : { dueAtMs: time.now() };
}

/** What may pass by itself is tried again; `giveUp` ends the tries, null: they never end. */
async function afterFault(
  work: Work,
  error: unknown,
  giveUp: ((fault: EngineFault) => Promise<ReconcileResult>) | null,
): Promise<ReconcileResult> {
  const { held, limits, log, store, time } = work;
  held.signal.throwIfAborted();
  if (!(error instanceof EngineFault)) throw error;
  const { id } = held.row;
  log.warn({ id, kind: error.kind, err: error }, 'the engine could not do a step of an image');
  // The registry of a push may be away for ever, the engine comes back.
  if (error.kind === 'unreachable' && error.reason !== 'registryAway')
    return { dueAtMs: time.now() + limits.engineRetryMs };
  const attempts = held.row.attempts + 1;
  if (giveUp && (!error.retry || attempts > limits.maxAttempts)) return giveUp(error);
  const ours = await store.write((tx) =>
    writeReconciledImage(tx, holdOf(work), { attempts, stateText: error.message }),
  );
  return { dueAtMs: time.now() + (ours ? backOffMs(attempts, limits) : 0) };
}

const fail = (work: Work, reason: string, message: string): Promise<ReconcileResult> =>
  end(work, 'image.saveFailed', { state: 'Failed', stateText: message }, (operation, nowMs) => {
    const whatToDo = 'Delete the image, and save the instance again if it is still there.';
    return failOperation(operation, { reason, message, whatToDo }, nowMs);
  });

type Found = Parameters<typeof writeReconciledImage>[2];

async function end(
  work: Work,
  kind: string,
  found: Found,
  ending: (operation: Operation, nowMs: number) => Operation,
): Promise<ReconcileResult> {
  const { held, store, time } = work;
  const { row } = held;
  const nowMs = time.now();
  const operation = operationOf(row, (one) => ending(one, nowMs));
  const ours = await store.write(async (tx) => {
    if (!(await writeReconciledImage(tx, holdOf(work), { ...found, operation }))) return false;
    if (row.ownerId === null) return true;
    const data = { name: row.name, ...(found.stateText === '' ? {} : { reason: found.stateText }) };
    await appendEvent(tx, { accountId: row.ownerId, atMs: nowMs, kind, subjectId: row.id, data });
    return true;
  });
  return { dueAtMs: ours ? null : nowMs };
}

const operationOf = (row: ImageRow, next: (operation: Operation) => Operation): string | null =>
  row.operation === null ? null : JSON.stringify(next(JSON.parse(row.operation)));
