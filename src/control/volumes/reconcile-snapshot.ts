/** The pass of one snapshot: its volume is copied, or what is left of it is removed once nothing is restored from it any more. */
import type { DiskId } from '../../domain/disk.ts';
import { endOperation } from '../../domain/operation.ts';
import { failSnapshot, planSnapshot, type Snapshot } from '../../domain/snapshot.ts';
import { deleteDisks } from '../../store/tables/disks.ts';
import { appendEvent } from '../../store/tables/events.ts';
import {
  deleteSnapshotRow,
  snapshotFromRow,
  writeReconciledSnapshot,
  type SnapshotRow,
} from '../../store/tables/snapshots.ts';
import type { Db, Store } from '../../store/store.ts';
import { isCopySource } from '../../store/tables/volumes.ts';
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

export interface SnapshotReconcilerDeps extends StorageRetriesDeps {
  store: Store;
  regions: Regions;
  now: () => number;
}

interface Work extends SnapshotReconcilerDeps {
  held: Held<SnapshotRow>;
  tries: StorageRetries;
  snapshot: Snapshot;
}

export function makeSnapshotReconciler(deps: SnapshotReconcilerDeps) {
  const tries = makeStorageRetries(deps);
  return async (held: Held<SnapshotRow>): Promise<ReconcileResult> => {
    const snapshot = snapshotFromRow(held.row);
    const work = { ...deps, held, tries, snapshot };
    const { id, regionId, status } = snapshot;
    return reconcileWithDisk(
      work,
      { kind: 'snapshot', id, regionId, status },
      { reconcile: (disk) => reconcile(work, disk), forget: () => forget(work) },
    );
  };
}

async function reconcile(work: Work, disk: LocatedDisk): Promise<ReconcileResult> {
  const { held, now, snapshot } = work;
  const { storage } = disk;
  let destroyed = false;
  for (;;) {
    held.signal.throwIfAborted();
    const seen = await raced(storage.observe(disk), held.signal);
    const step = planSnapshot(snapshot, seen, { destroyed });
    switch (step.do) {
      case 'rest':
        return { dueAtMs: seen.kind === 'unknown' ? now() + OBSERVE_AGAIN_MS : null };
      case 'copy': {
        const came = await copy(work, disk);
        if (came === 'done') break;
        return 'never' in came ? giveUp(work, disk, came.never) : { dueAtMs: now() + came.againMs };
      }
      case 'ready': {
        const operation = endOperation(snapshot.operation, 'Succeeded', now());
        return settle(work, { ...snapshot, status: 'Ready', operation }, 'snapshot.ready', {});
      }
      case 'destroy':
        if (!(await destroy(work, disk))) return { dueAtMs: now() + IN_USE_RETRY_MS };
        destroyed = true;
        break;
      case 'forget':
        return forget(work);
      default:
        return step.do satisfies never;
    }
  }
}

function copy({ snapshot: { sizeGB, volumeId: id }, held, tries }: Work, disk: LocatedDisk): Promise<AttemptResult> {
  const from: DiskId = { kind: 'volume', id };
  return tries.attempt(held, disk, (signal) => disk.storage.create(disk, sizeGB, signal, from), from);
}

/** False while a volume is made of it. */
const destroy = async ({ store, held }: Work, disk: LocatedDisk): Promise<boolean> =>
  !(await isCopySource(store.read, disk)) && destroyDisk(disk, held.signal);

const giveUp = (work: Work, disk: LocatedDisk, why: Failure): Promise<ReconcileResult> =>
  settle(work, failSnapshot(work.snapshot, why, work.now()), 'snapshot.failed', why, (tx) => deleteDisks(tx, [disk]));

async function settle(
  work: Work,
  found: Snapshot,
  kind: string,
  data: object,
  beside?: (tx: Db) => Promise<void>,
): Promise<ReconcileResult> {
  const { store, now } = work;
  const ours = await store.write(async (tx) => {
    if (!(await writeReconciledSnapshot(tx, holdOf(work), found))) return false;
    await beside?.(tx);
    await appendEvent(tx, { accountId: found.ownerId, atMs: now(), kind, subjectId: found.id, data });
    return true;
  });
  return { dueAtMs: ours ? null : now() };
}

async function forget(work: Work): Promise<ReconcileResult> {
  const { store, snapshot, now } = work;
  const { ownerId: accountId, id } = snapshot;
  const gone = await store.write(async (tx) => {
    if (!(await deleteSnapshotRow(tx, holdOf(work), snapshot, now()))) return false;
    await deleteDisks(tx, [{ kind: 'snapshot', id }]);
    await appendEvent(tx, { accountId, atMs: now(), kind: 'snapshot.removed', subjectId: id, data: {} });
    return true;
  });
  return gone ? 'gone' : { dueAtMs: now() };
}

const holdOf = ({ held, snapshot: { id, generation } }: Work) => ({ id, leaseToken: held.leaseToken, generation });
