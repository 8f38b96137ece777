/** The pass of one volume: its backing is made, made larger, looked after, or removed once nobody mounts or copies it any more. */
import { endOperation, failOperation } from '../../domain/operation.ts';
import { Refusal } from '../../domain/refusal.ts';
import { failVolume, planVolume, type Volume, type VolumeObservation, type VolumeStatus } from '../../domain/volume.ts';
import { deleteDisks, growDisk } from '../../store/tables/disks.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { makeMountersDue } from '../../store/tables/instances.ts';
import type { Db, Store } from '../../store/store.ts';
import {
  deleteVolumeRow,
  isCopySource,
  mountersOf,
  volumeFromRow,
  writeReconciledVolume,
  type VolumeRow,
} from '../../store/tables/volumes.ts';
import type { DiskUses } from './disk-uses.ts';
import type { LocatedDisk } from './disks.ts';
import type { Held, ReconcileResult } from '../base/reconcile-loop.ts';
import { raced } from '../base/race-abort.ts';
import type { Regions } from '../base/regions.ts';
import { OBSERVE_AGAIN_MS, reconcileWithDisk, destroyDisk, IN_USE_RETRY_MS } from './reconcile-disk.ts';
import {
  makeStorageRetries,
  type AttemptResult,
  type StorageRetries,
  type StorageRetriesDeps,
  type Failure,
} from './storage-retries.ts';

export interface VolumeReconcilerDeps extends StorageRetriesDeps {
  store: Store;
  regions: Regions;
  now: () => number;
  diskUses: Pick<DiskUses, 'abort'>;
  /** Wakes the instances that wait for a volume. */
  wakeInstances: () => void;
}

interface Work extends VolumeReconcilerDeps {
  held: Held<VolumeRow>;
  tries: StorageRetries;
  volume: Volume;
}

const LOST = {
  reason: 'VolumeLost',
  message: 'the backing of the volume is gone',
  whatToDo: 'Ask the operator to bring it back, or delete the volume.',
};

export function makeVolumeReconciler(deps: VolumeReconcilerDeps) {
  const tries = makeStorageRetries(deps);
  return async (held: Held<VolumeRow>): Promise<ReconcileResult> => {
    const volume = volumeFromRow(held.row);
    const work = { ...deps, held, tries, volume };
    const { id, regionId, status } = volume;
    return reconcileWithDisk(
      work,
      { kind: 'volume', id, regionId, status },
      { reconcile: (disk) => reconcile(work, disk), forget: () => forget(work) },
    );
  };
}

async function reconcile(begun: Work, disk: LocatedDisk): Promise<ReconcileResult> {
  const { held, now } = begun;
  let { volume } = begun;
  let destroyed = false;
  for (;;) {
    const work: Work = { ...begun, volume };
    held.signal.throwIfAborted();
    const seen: VolumeObservation = await raced(disk.storage.observe(disk), held.signal);
    const step = planVolume(volume, seen, { destroyed });
    switch (step.do) {
      case 'rest':
        return { dueAtMs: seen.kind === 'unknown' ? now() + OBSERVE_AGAIN_MS : null };
      case 'create': {
        const came = await create(work, disk);
        if (came !== 'done') return later(work, disk, came, null);
        break;
      }
      case 'grow': {
        const came = await grow(work, disk);
        if (came !== 'done') return later(work, disk, came, seen.kind === 'present' ? seen.sizeGB : null);
        break;
      }
      case 'destroy':
        if (!(await destroy(work, disk))) return { dueAtMs: now() + IN_USE_RETRY_MS };
        destroyed = true;
        break;
      case 'forget':
        return forget(work);
      case 'mark': {
        const next = await mark(work, step.status);
        if (!next) return { dueAtMs: now() };
        volume = next;
        break;
      }
      default:
        return step satisfies never;
    }
  }
}

function create({ volume, held, tries }: Work, disk: LocatedDisk): Promise<AttemptResult> {
  const from = volume.source ?? undefined;
  return tries.attempt(held, disk, (signal) => disk.storage.create(disk, volume.sizeGB, signal, from), from);
}

const grow = ({ volume: { sizeGB }, held, tries }: Work, disk: LocatedDisk): Promise<AttemptResult> =>
  tries.attempt(held, disk, () => disk.storage.grow(disk, sizeGB));

/** False while somebody mounts it, or a copy of it is being made. */
async function destroy({ store, volume, held, diskUses }: Work, disk: LocatedDisk): Promise<boolean> {
  if ((await mountersOf(store.read, volume.id)).length > 0 || (await isCopySource(store.read, disk))) return false;
  await diskUses.abort(disk, new Refusal('not_now', `volume ${volume.id} is being deleted`));
  return destroyDisk(disk, held.signal);
}

/** `hasGB`: how large it is all the same; null: not at all. */
const later = (
  work: Work,
  disk: LocatedDisk,
  came: Exclude<AttemptResult, 'done'>,
  hasGB: number | null,
): Promise<ReconcileResult> | ReconcileResult =>
  'never' in came ? giveUp(work, disk, { ...came.never, hasGB }) : { dueAtMs: work.now() + came.againMs };

/** Room that it was promised and has not got goes back to its pool. */
async function giveUp(
  work: Work,
  disk: LocatedDisk,
  why: Failure & { hasGB: number | null },
): Promise<ReconcileResult> {
  const { now } = work;
  const next = await apply(work, (volume) => failVolume(volume, why, now()), {
    kind: why.hasGB === null ? 'volume.failed' : 'volume.expandFailed',
    data: { reason: why.reason, message: why.message },
    beside: async (tx) => {
      if (why.hasGB === null) await deleteDisks(tx, [disk]);
      else await growDisk(tx, disk, why.hasGB);
    },
  });
  return { dueAtMs: next ? null : now() };
}

function mark(work: Work, status: VolumeStatus): Promise<Volume | null> {
  const nowMs = work.now();
  const found = (volume: Volume): Volume => ({
    ...volume,
    status,
    operation:
      status === 'Lost'
        ? failOperation(volume.operation, LOST, nowMs)
        : endOperation(volume.operation, 'Succeeded', nowMs),
  });
  return apply(work, found, { kind: 'volume.observed', data: { status, sizeGB: work.volume.sizeGB } });
}

/** Null, and nothing is written, when the pass is out of date. */
async function apply(
  work: Work,
  found: (volume: Volume) => Volume,
  { kind, data, beside }: { kind: string; data: object; beside?: (tx: Db) => Promise<void> },
): Promise<Volume | null> {
  const { store, now, volume } = work;
  const next = await store.write(async (tx) => {
    const written = await writeReconciledVolume(tx, holdOf(work), found);
    if (!written) return null;
    await makeMountersDue(tx, volume.id, now());
    await beside?.(tx);
    await appendEvent(tx, { accountId: volume.ownerId, atMs: now(), kind, subjectId: volume.id, data });
    return written;
  });
  if (next) work.wakeInstances();
  return next;
}

async function forget(work: Work): Promise<ReconcileResult> {
  const { store, volume, now } = work;
  const { ownerId: accountId, id } = volume;
  const gone = await store.write(async (tx) => {
    if (!(await deleteVolumeRow(tx, holdOf(work), volume, now()))) return false;
    await deleteDisks(tx, [{ kind: 'volume', id }]);
    await appendEvent(tx, { accountId, atMs: now(), kind: 'volume.removed', subjectId: id, data: {} });
    return true;
  });
  return gone ? 'gone' : { dueAtMs: now() };
}

const holdOf = ({ held, volume: { id, generation } }: Work) => ({ id, leaseToken: held.leaseToken, generation });
