/** Unmounts disks without a user: of instances at rest, or left mounted by a crash. */
import { diskKey, type DiskId } from '../../domain/disk.ts';
import { StorageFault } from '../../storage/contract.ts';
import { disksInUse } from '../../store/tables/disk-users.ts';
import { withDiskMutex } from './disk-mutex.ts';
import { raceAbort } from '../../async/abort.ts';
import type { PoolDrivers } from '../base/regions.ts';
import { deadlineWithin, type TaskDeps } from '../base/task-deps.ts';

const LIST_DEADLINE_MS = 10_000;
const UNMOUNT_DEADLINE_MS = 60_000;

export interface UnmountDeps extends TaskDeps {
  inUse: (disk: DiskId) => boolean;
}

export async function unmountUnused(deps: UnmountDeps): Promise<void> {
  for (const { pools } of deps.regions.all()) for (const pool of pools) await unmountIn(deps, pool);
}

async function unmountIn(deps: UnmountDeps, { storage }: PoolDrivers): Promise<void> {
  const mounted = await raceAbort(storage.listMounted(), deadlineWithin(deps, LIST_DEADLINE_MS));
  const needed = await disksInUse(deps.store.read, mounted);
  for (const disk of mounted) {
    if (deps.stopping.aborted) return;
    if (needed.has(diskKey(disk)) || deps.inUse(disk)) continue;
    const signal = deadlineWithin(deps, UNMOUNT_DEADLINE_MS);
    try {
      await withDiskMutex(storage, disk, () => unmount(deps, storage, disk), signal);
    } catch (error) {
      if (deps.stopping.aborted || (error instanceof StorageFault && error.kind === 'busy')) continue;
      deps.log.warn({ disk: diskKey(disk), err: error }, 'could not unmount a disk; will retry');
    }
  }
}

/** Checks again under the mutex: a new user writes its need before it mounts. */
async function unmount({ store, inUse }: UnmountDeps, storage: PoolDrivers['storage'], disk: DiskId): Promise<void> {
  if ((await disksInUse(store.read, [disk])).size > 0 || inUse(disk)) return;
  await storage.unmount(disk);
}
