/** Reconciles a snapshot: copies its volume, and destroys the copy on delete. */
import type { DiskId } from '../../domain/storage/disk.ts';
import { endOperation } from '../../domain/compute/operation.ts';
import { failSnapshot, planSnapshot, type Snapshot } from '../../domain/storage/snapshot.ts';
import { rateOfSnapshot } from '../../domain/money/meter.ts';
import { usageOfSnapshot } from '../../domain/access/quota.ts';
import { deleteDisks } from '../../store/tables/disks.ts';
import { snapshotFromRow, writeReconciledSnapshot } from '../../store/tables/snapshots.ts';
import type { Db } from '../../store/store.ts';
import { isCopySource } from '../../store/tables/volumes.ts';
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
import type { ReconcileResult } from '../kernel/ports.ts';
import { meteredStorage } from '../money/ports.ts';

interface Work extends DiskReconcilerDeps, DiskWork<Snapshot> {}

export const makeSnapshotReconciler = (deps: DiskReconcilerDeps) =>
  makeDiskReconciler(deps, {
    kind: 'snapshot',
    fromRow: snapshotFromRow,
    reconcile: (work, disk) => reconcile({ ...deps, ...work }, disk),
  });

async function reconcile(work: Work, disk: LocatedDisk): Promise<ReconcileResult> {
  const { time, subject: snapshot } = work;
  let destroyed = false;
  for (;;) {
    const observation = await work.observe(disk);
    const step = planSnapshot(snapshot, observation, { destroyed });
    switch (step.do) {
      case 'rest':
        return { dueAtMs: observation.kind === 'unknown' ? time.now() + OBSERVE_AGAIN_MS : null };
      case 'copy': {
        const result = await copy(work, disk);
        if (result === 'done') break;
        return 'failure' in result
          ? failPermanently(work, disk, result.failure)
          : { dueAtMs: time.now() + result.retryInMs };
      }
      case 'ready': {
        const operation = endOperation(snapshot.operation, 'Succeeded', time.now());
        return writeResult(work, { ...snapshot, status: 'Ready', operation }, 'snapshot.ready', {});
      }
      case 'destroy':
        if (!(await destroy(work, disk))) return { dueAtMs: time.now() + IN_USE_RETRY_MS };
        destroyed = true;
        break;
      case 'forget':
        return work.deleteRow();
      default:
        return step.do satisfies never;
    }
  }
}

function copy({ subject: { sizeGB, volumeId: id }, attempt }: Work, disk: LocatedDisk): Promise<AttemptResult> {
  const from: DiskId = { kind: 'volume', id };
  return attempt(disk, (signal) => disk.storage.create(disk, sizeGB, signal, from), from);
}

/** Returns false while a volume is restored from the snapshot. */
const destroy = async (work: Work, disk: LocatedDisk): Promise<boolean> =>
  !(await isCopySource(work.store.read, disk)) && destroyDisk(work, disk);

const failPermanently = (work: Work, disk: LocatedDisk, failure: Failure): Promise<ReconcileResult> =>
  writeResult(work, failSnapshot(work.subject, failure, work.time.now()), 'snapshot.failed', failure, (tx) =>
    deleteDisks(tx, [disk]),
  );

async function writeResult(
  { store, time, guard, subject, metering }: Work,
  snapshot: Snapshot,
  kind: string,
  data: object,
  alsoWrite?: (tx: Db) => Promise<void>,
): Promise<ReconcileResult> {
  const written = await store.write(async (tx) => {
    if (!(await writeReconciledSnapshot(tx, guard, snapshot))) return false;
    await alsoWrite?.(tx);
    const usage = { before: usageOfSnapshot(subject), after: usageOfSnapshot(snapshot), mayRefuse: false };
    const event = { accountId: snapshot.ownerId, atMs: time.now(), kind, subjectId: snapshot.id, data, usage };
    const rates = { before: rateOfSnapshot(subject), after: rateOfSnapshot(snapshot) };
    await metering.appendEvent(tx, event, meteredStorage(snapshot), rates);
    return true;
  });
  return { dueAtMs: written ? null : time.now() };
}
