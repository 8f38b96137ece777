/** Reconciles a volume: creates, grows, observes and destroys its backing. */
import { endOperation, failOperation } from '../../domain/operation.ts';
import { Refusal } from '../../domain/refusal.ts';
import { failVolume, planVolume, type Volume, type VolumeObservation, type VolumeStatus } from '../../domain/volume.ts';
import { deleteDisks, growDisk } from '../../store/tables/disks.ts';
import { deleteLeasedRow } from '../../store/tables/operations.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { makeMountersDue } from '../../store/tables/instances.ts';
import type { Db, Store } from '../../store/store.ts';
import {
  isCopySource,
  mountersOf,
  volumeFromRow,
  writeReconciledVolume,
  type VolumeRow,
} from '../../store/tables/volumes.ts';
import type { DiskUses } from './disk-uses.ts';
import type { LocatedDisk } from './disks.ts';
import type { LeasedRow, ReconcileResult } from '../base/reconcile-loop.ts';
import { raceAbort } from '../../async/abort.ts';
import type { Regions } from '../base/regions.ts';
import { OBSERVE_AGAIN_MS, reconcileWithDisk, destroyDisk, IN_USE_RETRY_MS } from './reconcile-disk.ts';
import {
  makeStorageRetries,
  type AttemptResult,
  type StorageRetries,
  type StorageRetriesDeps,
  type Failure,
} from './storage-retries.ts';
import type { PublishChanges } from '../base/changes.ts';

export interface VolumeReconcilerDeps extends StorageRetriesDeps {
  store: Store;
  regions: Regions;
  now: () => number;
  diskUses: Pick<DiskUses, 'abort'>;
  changes: PublishChanges;
}

interface Work extends VolumeReconcilerDeps {
  leased: LeasedRow<VolumeRow>;
  retries: StorageRetries;
  volume: Volume;
}

const LOST = {
  reason: 'VolumeLost',
  message: 'the backing of the volume is gone',
  whatToDo: 'Ask the operator to bring it back, or delete the volume.',
};

export function makeVolumeReconciler(deps: VolumeReconcilerDeps) {
  const retries = makeStorageRetries(deps);
  return async (leased: LeasedRow<VolumeRow>): Promise<ReconcileResult> => {
    const volume = volumeFromRow(leased.row);
    const work = { ...deps, leased, retries, volume };
    const { id, regionId, status } = volume;
    return reconcileWithDisk(
      work,
      { kind: 'volume', id, regionId, status },
      { reconcile: (disk) => reconcile(work, disk), deleteRow: () => deleteRow(work) },
    );
  };
}

async function reconcile(initial: Work, disk: LocatedDisk): Promise<ReconcileResult> {
  const { leased, now } = initial;
  let { volume } = initial;
  let destroyed = false;
  for (;;) {
    const work: Work = { ...initial, volume };
    leased.signal.throwIfAborted();
    const observation: VolumeObservation = await raceAbort(disk.storage.observe(disk), leased.signal);
    const step = planVolume(volume, observation, { destroyed });
    switch (step.do) {
      case 'rest':
        return { dueAtMs: observation.kind === 'unknown' ? now() + OBSERVE_AGAIN_MS : null };
      case 'create': {
        const result = await create(work, disk);
        if (result !== 'done') return afterAttempt(work, disk, result, null);
        break;
      }
      case 'grow': {
        const result = await grow(work, disk);
        if (result !== 'done')
          return afterAttempt(work, disk, result, observation.kind === 'present' ? observation.sizeGB : null);
        break;
      }
      case 'destroy':
        if (!(await destroy(work, disk))) return { dueAtMs: now() + IN_USE_RETRY_MS };
        destroyed = true;
        break;
      case 'forget':
        return deleteRow(work);
      case 'mark': {
        const next = await writeStatus(work, step.status);
        if (!next) return { dueAtMs: now() };
        volume = next;
        break;
      }
      default:
        return step satisfies never;
    }
  }
}

function create({ volume, leased, retries }: Work, disk: LocatedDisk): Promise<AttemptResult> {
  const from = volume.source ?? undefined;
  return retries.attempt(leased, disk, (signal) => disk.storage.create(disk, volume.sizeGB, signal, from), from);
}

const grow = ({ volume: { sizeGB }, leased, retries }: Work, disk: LocatedDisk): Promise<AttemptResult> =>
  retries.attempt(leased, disk, () => disk.storage.grow(disk, sizeGB));

/** Returns false while the volume is mounted or being copied. */
async function destroy({ store, volume, leased, diskUses }: Work, disk: LocatedDisk): Promise<boolean> {
  if ((await mountersOf(store.read, volume.id)).length > 0 || (await isCopySource(store.read, disk))) return false;
  await diskUses.abort(disk, new Refusal('not_now', `volume ${volume.id} is being deleted`));
  return destroyDisk(disk, leased.signal);
}

/** `hasGB` is the size of the disk after the failure; null if there is none. */
const afterAttempt = (
  work: Work,
  disk: LocatedDisk,
  result: Exclude<AttemptResult, 'done'>,
  hasGB: number | null,
): Promise<ReconcileResult> | ReconcileResult =>
  'failure' in result
    ? failPermanently(work, disk, { ...result.failure, hasGB })
    : { dueAtMs: work.now() + result.retryInMs };

/** Releases the capacity the disk was allotted and did not get. */
async function failPermanently(
  work: Work,
  disk: LocatedDisk,
  failure: Failure & { hasGB: number | null },
): Promise<ReconcileResult> {
  const { now } = work;
  const next = await writeResult(work, (volume) => failVolume(volume, failure, now()), {
    kind: failure.hasGB === null ? 'volume.failed' : 'volume.expandFailed',
    data: { reason: failure.reason, message: failure.message },
    alsoWrite: async (tx) => {
      if (failure.hasGB === null) await deleteDisks(tx, [disk]);
      else await growDisk(tx, disk, failure.hasGB);
    },
  });
  return { dueAtMs: next ? null : now() };
}

function writeStatus(work: Work, status: VolumeStatus): Promise<Volume | null> {
  const nowMs = work.now();
  const change = (volume: Volume): Volume => ({
    ...volume,
    status,
    operation:
      status === 'Lost'
        ? failOperation(volume.operation, LOST, nowMs)
        : endOperation(volume.operation, 'Succeeded', nowMs),
  });
  return writeResult(work, change, { kind: 'volume.observed', data: { status, sizeGB: work.volume.sizeGB } });
}

async function writeResult(
  work: Work,
  change: (volume: Volume) => Volume,
  { kind, data, alsoWrite }: { kind: string; data: object; alsoWrite?: (tx: Db) => Promise<void> },
): Promise<Volume | null> {
  const { store, now, volume } = work;
  const next = await store.write(async (tx) => {
    const written = await writeReconciledVolume(tx, guardOf(work), change);
    if (!written) return null;
    await makeMountersDue(tx, volume.id, now());
    await alsoWrite?.(tx);
    await appendEvent(tx, { accountId: volume.ownerId, atMs: now(), kind, subjectId: volume.id, data });
    return written;
  });
  if (next) work.changes.publish({ subject: 'instance', isDue: true });
  return next;
}

async function deleteRow(work: Work): Promise<ReconcileResult> {
  const { store, volume, now } = work;
  const { ownerId: accountId, id } = volume;
  const gone = await store.write(async (tx) => {
    if (!(await deleteLeasedRow(tx, 'volume', guardOf(work), volume, now()))) return false;
    await deleteDisks(tx, [{ kind: 'volume', id }]);
    await appendEvent(tx, { accountId, atMs: now(), kind: 'volume.removed', subjectId: id, data: {} });
    return true;
  });
  return gone ? 'gone' : { dueAtMs: now() };
}

const guardOf = ({ leased, volume: { id, generation } }: Work) => ({ id, leaseToken: leased.leaseToken, generation });
