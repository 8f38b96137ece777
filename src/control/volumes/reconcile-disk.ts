/** The disk of a row that passes tend, a volume's or a snapshot's: found, and removed in its turn. */
import type { DiskId } from '../../domain/disk.ts';
import type { RegionId } from '../../domain/ids.ts';
import { StorageFault } from '../../storage/contract.ts';
import type { Store } from '../../store/store.ts';
import { inTurn } from './disk-mutex.ts';
import { locateDisks, type LocatedDisk } from './disks.ts';
import type { ReconcileResult } from '../base/reconcile-loop.ts';
import type { Regions } from '../base/regions.ts';
import type { StorageRetries } from './storage-retries.ts';

/** When one that can't be seen is asked for again. */
export const OBSERVE_AGAIN_MS = 5_000;
/** When one that somebody still uses is looked at again. */
export const IN_USE_RETRY_MS = 1_000;

/** Tends it, or ends the row whose disk is gone. Of one that could not be made nothing is left, and nothing is to be done. */
export async function reconcileWithDisk(
  { store, regions, tries }: { store: Store; regions: Regions; tries: StorageRetries },
  { regionId, status, ...id }: DiskId & { regionId: RegionId; status: string },
  {
    reconcile,
    forget,
  }: { reconcile: (disk: LocatedDisk) => Promise<ReconcileResult>; forget: () => Promise<ReconcileResult> },
): Promise<ReconcileResult> {
  if (status === 'Terminating') tries.forget(id.id);
  const [disk] = await locateDisks(store.read, regions.of(regionId), [id]);
  if (disk) return reconcile(disk);
  if (status === 'Terminating') return forget();
  if (status === 'Failed') return { dueAtMs: null };
  throw new Error(`nothing is written down of the disk of ${id.kind} ${id.id}`);
}

/** False while somebody uses it. */
export async function destroyDisk(disk: LocatedDisk, signal: AbortSignal): Promise<boolean> {
  try {
    await inTurn(disk.storage, disk, () => disk.storage.destroy(disk), signal);
    return true;
  } catch (error) {
    if (error instanceof StorageFault && error.kind === 'busy') return false;
    throw error;
  }
}
