/** Opens the files of volumes, and unmounts disks without a user. */
import { diskKey, type DiskId } from '../../domain/storage/disk.ts';
import { StorageFault } from '../../storage/contract.ts';
import type { DiskFiles } from '../../storage/files.ts';
import { disksInUse } from '../../store/tables/disk-users.ts';
import { raceAbort } from '../../async/abort.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import type { Volume } from '../../domain/storage/volume.ts';
import { withDiskMutex, type LocatedDisk } from './disks.ts';
import { type PoolDrivers, type RegionDrivers, deadlineWithin, type TaskDeps, type Time } from '../kernel/ports.ts';

/** A snapshot or a copy that holds the disk's mutex may take much longer. */
const MUTEX_DEADLINE_MS = 20_000;
const RETRY_AFTER_S = 5;

export type OpenFiles = (volume: Pick<Volume, 'id' | 'regionId'>, signal: AbortSignal) => Promise<DiskFiles>;

interface OpenFilesDeps {
  locate: (volume: Pick<Volume, 'id' | 'regionId'>) => Promise<DiskId & Pick<LocatedDisk, 'storage'>>;
  time: Pick<Time, 'deadline'>;
}

export const makeOpenFiles =
  ({ locate, time }: OpenFilesDeps): OpenFiles =>
  async (volume, signal) => {
    const disk = await locate(volume);
    const { id, storage } = disk;
    const deadline = time.deadline(MUTEX_DEADLINE_MS);
    try {
      return await withDiskMutex(disk, () => storage.files(disk), AbortSignal.any([signal, deadline]));
    } catch (error) {
      if (signal.aborted || !deadline.aborted) throw error;
      throw new Refusal('unavailable', `volume ${id} has a running operation; try again when it has ended`, {
        retryAfterS: RETRY_AFTER_S,
      });
    }
  };

const LIST_DEADLINE_MS = 10_000;
const UNMOUNT_DEADLINE_MS = 60_000;

interface UnmountDeps extends TaskDeps {
  inUse: (disk: DiskId) => boolean;
}

export async function unmountUnused(deps: UnmountDeps, { pools }: RegionDrivers): Promise<void> {
  for (const pool of pools) await unmountIn(deps, pool);
}

async function unmountIn(deps: UnmountDeps, { storage }: PoolDrivers): Promise<void> {
  const mounted = await raceAbort(storage.listMounted(), deadlineWithin(deps, LIST_DEADLINE_MS));
  const needed = await disksInUse(deps.store.read, mounted);
  for (const disk of mounted) {
    if (deps.stopping.aborted) return;
    if (needed.has(diskKey(disk)) || deps.inUse(disk)) continue;
    const signal = deadlineWithin(deps, UNMOUNT_DEADLINE_MS);
    try {
      await withDiskMutex({ ...disk, storage }, () => unmount(deps, storage, disk), signal);
    } catch (error) {
      if (deps.stopping.aborted || (error instanceof StorageFault && error.kind === 'busy')) continue;
      deps.log.warn({ disk: diskKey(disk), err: error }, 'could not unmount a disk; Berth retries');
    }
  }
}

/** Checks again under the mutex: a new user writes its need before it mounts. */
async function unmount({ store, inUse }: UnmountDeps, storage: PoolDrivers['storage'], disk: DiskId): Promise<void> {
  if ((await disksInUse(store.read, [disk])).has(diskKey(disk)) || inUse(disk)) return;
  await storage.unmount(disk);
}
