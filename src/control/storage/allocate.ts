/**
 * Allocates missing blocks of promised disks in thick pools: of disks made while their pool was
 * thin (`thick=no`). The measurement of pools (`allocations.ts`) finds them.
 */
import { makeBoundedMap } from '../../async/bounded-map.ts';
import { diskKey, type Disk } from '../../domain/storage/disk.ts';
import type { Allocation } from '../../storage/contract.ts';
import { withDiskMutex, type LocatedDisk } from './disks.ts';
import { deadlineWithin, type TaskDeps } from '../kernel/ports.ts';

const DEADLINE_MS = 60_000;
/** Beyond, the disks of longest ago are tried again. */
const MAX_SKIPPED = 10_000;

type AllocatorDeps = Pick<TaskDeps, 'log' | 'time' | 'stopping'>;

export interface Allocator {
  /** Call with each measured disk; null: unknown. */
  note(disk: LocatedDisk, allocation: Allocation | null): void;
  /** Allocates what the disks noted since the last run miss. */
  run(): Promise<void>;
}

const canMiss = ({ kind, promisedGB }: Disk): boolean => promisedGB > 0 && kind !== 'snapshot';

const isWhole = (allocation: Allocation | null): boolean =>
  allocation === null || allocation.heldBytes >= allocation.maxBytes;

export function makeAllocator(deps: AllocatorDeps): Allocator {
  const { log } = deps;
  const due = new Map<string, LocatedDisk>();
  /** Left thin by the pool, or refused: tried once in a process. */
  const skipped = makeBoundedMap<true>({ maxEntries: MAX_SKIPPED });

  async function allocate(disk: LocatedDisk): Promise<void> {
    const { storage, sizeGB } = disk;
    try {
      await withDiskMutex(disk, () => storage.grow(disk, sizeGB), deadlineWithin(deps, DEADLINE_MS));
      if (!isWhole(await storage.allocation(disk))) skipped.set(diskKey(disk), true);
    } catch (error) {
      if (deps.stopping.aborted) return;
      skipped.set(diskKey(disk), true);
      log.warn({ disk: diskKey(disk), err: error }, 'could not allocate the blocks of a volume; add space to its pool');
    }
  }

  return {
    note(disk, allocation) {
      if (canMiss(disk) && !isWhole(allocation) && !skipped.peek(diskKey(disk))) due.set(diskKey(disk), disk);
    },
    async run() {
      for (const [key, disk] of due) {
        if (deps.stopping.aborted) return;
        due.delete(key);
        // Deleted or filled since.
        if (!isWhole(await disk.storage.allocation(disk))) await allocate(disk);
      }
    },
  };
}
