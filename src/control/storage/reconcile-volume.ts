/** Reconciles a volume: creates, grows, observes and destroys its backing. */
import { promised } from '../../domain/storage/disk.ts';
import { endOperation, failOperation } from '../../domain/compute/operation.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { failVolume, planVolume, type Volume, type VolumeStatus } from '../../domain/storage/volume.ts';
import { rateOfVolume } from '../../domain/money/meter.ts';
import { usageOfVolume } from '../../domain/access/quota.ts';
import { deleteDisks, resizeDisk } from '../../store/tables/disks.ts';
import { makeMountersDue } from '../../store/tables/instances.ts';
import type { Db } from '../../store/store.ts';
import { isCopySource, mountersOf, volumeFromRow, writeReconciledVolume } from '../../store/tables/volumes.ts';
import type { DiskHolders } from './disk-holders.ts';
import type { LocatedDisk } from './disks.ts';
import {
  destroyDisk,
  IN_USE_RETRY_MS,
  makeDiskReconciler,
  OBSERVE_AGAIN_MS,
  type AttemptResult,
  type DiskReconcilerDeps,
  type DiskWork,
  type Failure,
} from './reconcile-disk.ts';
import type { PublishChanges, ReconcileResult } from '../kernel/ports.ts';
import { meteredStorage } from '../money/ports.ts';

export interface VolumeReconcilerDeps extends DiskReconcilerDeps {
  diskHolders: Pick<DiskHolders, 'abort'>;
  changes: PublishChanges;
}

interface Work extends VolumeReconcilerDeps, DiskWork<Volume> {}

const LOST = {
  reason: 'VolumeLost',
  message: 'the disk of the volume is gone',
  whatToDo: 'Ask the operator to restore the disk, or delete the volume.',
};

export const makeVolumeReconciler = (deps: VolumeReconcilerDeps) =>
  makeDiskReconciler(deps, {
    kind: 'volume',
    fromRow: volumeFromRow,
    reconcile: (work, disk) => reconcile({ ...deps, ...work }, disk),
  });

async function reconcile(work: Work, disk: LocatedDisk): Promise<ReconcileResult> {
  const { time } = work;
  let volume = work.subject;
  let destroyed = false;
  for (;;) {
    const observation = await work.observe(disk);
    const step = planVolume(volume, observation, { destroyed });
    switch (step.do) {
      case 'rest':
        return { dueAtMs: observation.kind === 'unknown' ? time.now() + OBSERVE_AGAIN_MS : null };
      case 'create': {
        const result = await create(work, disk);
        if (result !== 'done') return afterAttempt(work, disk, result, null);
        break;
      }
      case 'grow': {
        const { sizeGB } = volume;
        const result = await work.attempt(disk, () => disk.storage.grow(disk, sizeGB));
        if (result !== 'done')
          return afterAttempt(work, disk, result, observation.kind === 'present' ? observation.sizeGB : null);
        break;
      }
      case 'destroy':
        if (!(await destroy(work, disk))) return { dueAtMs: time.now() + IN_USE_RETRY_MS };
        destroyed = true;
        break;
      case 'forget':
        return work.deleteRow();
      case 'mark': {
        const next = await writeStatus(work, step.status);
        if (!next) return { dueAtMs: time.now() };
        volume = next;
        break;
      }
      default:
        return step satisfies never;
    }
  }
}

function create({ subject: volume, attempt }: Work, disk: LocatedDisk): Promise<AttemptResult> {
  const from = volume.source ?? undefined;
  return attempt(disk, (signal) => disk.storage.create(disk, volume.sizeGB, signal, from), from);
}

/** Returns false while the volume is mounted or being copied. */
async function destroy(work: Work, disk: LocatedDisk): Promise<boolean> {
  const { store, subject, diskHolders } = work;
  if ((await mountersOf(store.read, subject.id)).length > 0 || (await isCopySource(store.read, disk))) return false;
  await diskHolders.abort(disk, new Refusal('not_now', `volume ${subject.id} is being deleted`));
  return destroyDisk(work, disk);
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
    : { dueAtMs: work.time.now() + result.retryInMs };

/** Releases the capacity the disk was allotted and did not get. */
async function failPermanently(
  work: Work,
  disk: LocatedDisk,
  failure: Failure & { hasGB: number | null },
): Promise<ReconcileResult> {
  const { time } = work;
  const next = await writeResult(work, (volume) => failVolume(volume, failure, time.now()), {
    kind: failure.hasGB === null ? 'volume.failed' : 'volume.expandFailed',
    data: { reason: failure.reason, message: failure.message },
    alsoWrite: async (tx) => {
      if (failure.hasGB === null) await deleteDisks(tx, [disk]);
      else await resizeDisk(tx, disk, promised(failure.hasGB), { diskOvercommit: 1, evenIfFull: true });
    },
  });
  return { dueAtMs: next ? null : time.now() };
}

function writeStatus(work: Work, status: VolumeStatus): Promise<Volume | null> {
  const nowMs = work.time.now();
  const change = (volume: Volume): Volume => ({
    ...volume,
    status,
    operation:
      status === 'Lost'
        ? failOperation(volume.operation, LOST, nowMs)
        : endOperation(volume.operation, 'Succeeded', nowMs),
  });
  return writeResult(work, change, { kind: 'volume.observed', data: { status, sizeGB: work.subject.sizeGB } });
}

async function writeResult(
  work: Work,
  change: (volume: Volume) => Volume,
  { kind, data, alsoWrite }: { kind: string; data: object; alsoWrite?: (tx: Db) => Promise<void> },
): Promise<Volume | null> {
  const { time, guard } = work;
  const { id: subjectId, ownerId: accountId } = work.subject;
  const next = await work.store.write(async (tx) => {
    let found: Volume | null = null;
    const written = await writeReconciledVolume(tx, guard, (volume) => {
      found = volume;
      return change(volume);
    });
    if (!written) return null;
    await makeMountersDue(tx, subjectId, time.now());
    await alsoWrite?.(tx);
    const before: Volume = found ?? written;
    const usage = { before: usageOfVolume(before), after: usageOfVolume(written), mayRefuse: false };
    const event = { accountId, atMs: time.now(), kind, subjectId, data, usage };
    const rates = { before: rateOfVolume(before), after: rateOfVolume(written) };
    await work.metering.appendEvent(tx, event, meteredStorage(written), rates);
    return written;
  });
  if (next) work.changes.publish({ subject: 'instance', isDue: true });
  return next;
}
