/** Steps shared by the reconcilers of volumes and snapshots. */
import type { DiskId } from '../../domain/disk.ts';
import type { RegionId } from '../../domain/ids.ts';
import { StorageFault } from '../../storage/contract.ts';
import type { Store } from '../../store/store.ts';
import { withDiskMutex } from './disk-mutex.ts';
import { locateDisks, type LocatedDisk } from './disks.ts';
import type { ReconcileResult } from '../base/reconcile-loop.ts';
import type { Regions } from '../base/regions.ts';
import type { StorageRetries } from './storage-retries.ts';

export const OBSERVE_AGAIN_MS = 5_000;
export const IN_USE_RETRY_MS = 1_000;

/** Without a disk, a Terminating row is deleted and a Failed one rests. */
export async function reconcileWithDisk(
  { store, regions, retries }: { store: Store; regions: Regions; retries: StorageRetries },
  { regionId, status, ...id }: DiskId & { regionId: RegionId; status: string },
  {
    reconcile,
    deleteRow,
  }: { reconcile: (disk: LocatedDisk) => Promise<ReconcileResult>; deleteRow: () => Promise<ReconcileResult> },
): Promise<ReconcileResult> {
  if (status === 'Terminating') retries.reset(id.id);
  const [disk] = await locateDisks(store.read, regions.of(regionId), [id]);
  if (disk) return reconcile(disk);
  if (status === 'Terminating') return deleteRow();
  if (status === 'Failed') return { dueAtMs: null };
  throw new Error(`no disk row for ${id.kind} ${id.id}`);
}

export async function destroyDisk(disk: LocatedDisk, signal: AbortSignal): Promise<boolean> {
  try {
    await withDiskMutex(disk.storage, disk, () => disk.storage.destroy(disk), signal);
    return true;
  } catch (error) {
    if (error instanceof StorageFault && error.kind === 'busy') return false;
    throw error;
  }
}
