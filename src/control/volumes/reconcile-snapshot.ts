/** Reconciles a snapshot: copies its volume, and destroys the copy on delete. */
import type { DiskId } from '../../domain/disk.ts';
import { endOperation } from '../../domain/operation.ts';
import { failSnapshot, planSnapshot, type Snapshot } from '../../domain/snapshot.ts';
import { deleteDisks } from '../../store/tables/disks.ts';
import { deleteLeasedRow } from '../../store/tables/operations.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { snapshotFromRow, writeReconciledSnapshot, type SnapshotRow } from '../../store/tables/snapshots.ts';
import type { Db, Store } from '../../store/store.ts';
import { isCopySource } from '../../store/tables/volumes.ts';
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

export interface SnapshotReconcilerDeps extends StorageRetriesDeps {
  store: Store;
  regions: Regions;
  now: () => number;
}

interface Work extends SnapshotReconcilerDeps {
  leased: LeasedRow<SnapshotRow>;
  retries: StorageRetries;
  snapshot: Snapshot;
}

export function makeSnapshotReconciler(deps: SnapshotReconcilerDeps) {
  const retries = makeStorageRetries(deps);
  return async (leased: LeasedRow<SnapshotRow>): Promise<ReconcileResult> => {
    const snapshot = snapshotFromRow(leased.row);
    const work = { ...deps, leased, retries, snapshot };
    const { id, regionId, status } = snapshot;
    return reconcileWithDisk(
      work,
      { kind: 'snapshot', id, regionId, status },
      { reconcile: (disk) => reconcile(work, disk), deleteRow: () => deleteRow(work) },
    );
  };
}

async function reconcile(work: Work, disk: LocatedDisk): Promise<ReconcileResult> {
  const { leased, now, snapshot } = work;
  const { storage } = disk;
  let destroyed = false;
  for (;;) {
    leased.signal.throwIfAborted();
    const observation = await raceAbort(storage.observe(disk), leased.signal);
    const step = planSnapshot(snapshot, observation, { destroyed });
    switch (step.do) {
      case 'rest':
        return { dueAtMs: observation.kind === 'unknown' ? now() + OBSERVE_AGAIN_MS : null };
      case 'copy': {
        const result = await copy(work, disk);
        if (result === 'done') break;
        return 'failure' in result
          ? failPermanently(work, disk, result.failure)
          : { dueAtMs: now() + result.retryInMs };
      }
      case 'ready': {
        const operation = endOperation(snapshot.operation, 'Succeeded', now());
        return writeResult(work, { ...snapshot, status: 'Ready', operation }, 'snapshot.ready', {});
      }
      case 'destroy':
        if (!(await destroy(work, disk))) return { dueAtMs: now() + IN_USE_RETRY_MS };
        destroyed = true;
        break;
      case 'forget':
        return deleteRow(work);
      default:
        return step.do satisfies never;
    }
  }
}

function copy(
  { snapshot: { sizeGB, volumeId: id }, leased, retries }: Work,
  disk: LocatedDisk,
): Promise<AttemptResult> {
  const from: DiskId = { kind: 'volume', id };
  return retries.attempt(leased, disk, (signal) => disk.storage.create(disk, sizeGB, signal, from), from);
}

/** Returns false while a volume is restored from the snapshot. */
const destroy = async ({ store, leased }: Work, disk: LocatedDisk): Promise<boolean> =>
  !(await isCopySource(store.read, disk)) && destroyDisk(disk, leased.signal);

const failPermanently = (work: Work, disk: LocatedDisk, failure: Failure): Promise<ReconcileResult> =>
  writeResult(work, failSnapshot(work.snapshot, failure, work.now()), 'snapshot.failed', failure, (tx) =>
    deleteDisks(tx, [disk]),
  );

async function writeResult(
  work: Work,
  found: Snapshot,
  kind: string,
  data: object,
  alsoWrite?: (tx: Db) => Promise<void>,
): Promise<ReconcileResult> {
  const { store, now } = work;
  const written = await store.write(async (tx) => {
    if (!(await writeReconciledSnapshot(tx, guardOf(work), found))) return false;
    await alsoWrite?.(tx);
    await appendEvent(tx, { accountId: found.ownerId, atMs: now(), kind, subjectId: found.id, data });
    return true;
  });
  return { dueAtMs: written ? null : now() };
}

async function deleteRow(work: Work): Promise<ReconcileResult> {
  const { store, snapshot, now } = work;
  const { ownerId: accountId, id } = snapshot;
  const gone = await store.write(async (tx) => {
    if (!(await deleteLeasedRow(tx, 'snapshot', guardOf(work), snapshot, now()))) return false;
    await deleteDisks(tx, [{ kind: 'snapshot', id }]);
    await appendEvent(tx, { accountId, atMs: now(), kind: 'snapshot.removed', subjectId: id, data: {} });
    return true;
  });
  return gone ? 'gone' : { dueAtMs: now() };
}

const guardOf = ({ leased, snapshot: { id, generation } }: Work) => ({ id, leaseToken: leased.leaseToken, generation });
