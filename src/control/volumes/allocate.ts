/**
 * Allocates missing blocks of promised disks in thick pools: of disks that an earlier version made
 * thin, and of blocks that a mount with `discard` returned to the host since.
 */
import { diskKey, type Disk } from '../../domain/disk.ts';
import { disksOfRegion } from '../../store/tables/disks.ts';
import { deadlineWithin, type TaskDeps } from '../base/deps.ts';
import { poolNamed, withDiskMutex, type LocatedDisk } from './disks.ts';

const PAGE_SIZE = 200;
const DEADLINE_MS = 60_000;

type AllocateDeps = Pick<TaskDeps, 'store' | 'regions' | 'log' | 'time' | 'stopping'>;

const canMiss = ({ kind, promisedGB }: Disk): boolean => promisedGB > 0 && kind !== 'snapshot';

export function allocatePromised(deps: AllocateDeps): () => Promise<void> {
  const { store, regions, log } = deps;
  /** Left thin by the pool, or refused: tried once in a process. */
  const skipped = new Set<string>();

  async function isWhole({ storage, ...disk }: LocatedDisk): Promise<boolean> {
    const allocation = await storage.allocation(disk);
    return allocation === null || allocation.heldBytes >= allocation.maxBytes;
  }

  async function allocate(disk: LocatedDisk): Promise<void> {
    if (await isWhole(disk)) return;
    try {
      await withDiskMutex(disk, () => disk.storage.grow(disk, disk.sizeGB), deadlineWithin(deps, DEADLINE_MS));
      if (!(await isWhole(disk))) skipped.add(diskKey(disk));
    } catch (error) {
      if (deps.stopping.aborted) return;
      skipped.add(diskKey(disk));
      log.warn({ disk: diskKey(disk), err: error }, 'could not allocate the blocks of a volume; add space to its pool');
    }
  }

  return async () => {
    for (const drivers of regions.all()) {
      for (let after = ''; ;) {
        const page = await disksOfRegion(store.read, drivers.regionId, after, PAGE_SIZE);
        const last = page.at(-1);
        if (!last || deps.stopping.aborted) break;
        after = diskKey(last);
        for (const disk of page.filter((one) => canMiss(one) && !skipped.has(diskKey(one))))
          await allocate({ ...disk, storage: poolNamed(drivers, disk.pool).storage });
      }
    }
  };
}
