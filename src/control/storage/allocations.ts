/** Sums what the disks of each pool hold on the host, and what promised ones have not written. */
import { BYTES_PER_GB, diskKey, type Disk, type PoolName } from '../../domain/storage/disk.ts';
import { allocationOf, type AllocatedDisk, type PoolAllocation } from '../../domain/storage/pool.ts';
import { copiesInRegion, disksOfRegion } from '../../store/tables/disks.ts';
import type { Db } from '../../store/store.ts';
import type { Allocator } from './allocate.ts';
import type { PoolDrivers, RegionDrivers } from '../kernel/ports.ts';

const PAGE_SIZE = 500;

type Copies = Awaited<ReturnType<typeof copiesInRegion>>;

export async function measureAllocations(
  db: Db,
  { regionId, pools }: Pick<RegionDrivers, 'regionId' | 'pools'>,
  note: Allocator['note'],
): Promise<Map<PoolName, PoolAllocation>> {
  const copies = await copiesInRegion(db, regionId);
  const byPool = new Map<PoolDrivers, AllocatedDisk[]>(pools.map((pool) => [pool, []]));
  for (let after = ''; ;) {
    const page = await disksOfRegion(db, regionId, after, PAGE_SIZE);
    const last = page.at(-1);
    if (!last) break;
    after = diskKey(last);
    for (const pool of pools) {
      const disks = page.filter((disk) => disk.pool === pool.name);
      const measured = await Promise.all(disks.map((disk) => measureDisk(pool, disk, copies, note)));
      byPool.get(pool)?.push(...measured);
    }
  }
  return new Map([...byPool].map(([pool, disks]) => [pool.name, allocationOf(disks, pool, canPromise(pool))]));
}

/** Plain folders and pools that the operator overcommits hold no space free. */
const canPromise = ({ storage, overcommit }: PoolDrivers): boolean =>
  storage.capabilities().sizeLimit === 'hard' && overcommit === 1;

/** A disk of unknown allocation, as in a plain folder, holds what its files use. */
async function measureDisk(
  { storage }: PoolDrivers,
  disk: Disk,
  { copies, copied }: Copies,
  note: Allocator['note'],
): Promise<AllocatedDisk> {
  const { kind, id, promisedGB, bestEffortGB, usageBytes, sizeGB } = disk;
  const allocation = await storage.allocation(disk).catch(() => null);
  note({ ...disk, storage }, allocation);
  const isCopy = kind === 'snapshot' || (kind === 'volume' && copies.has(id));
  return {
    promisedGB,
    bestEffortGB,
    ...(allocation ?? { heldBytes: usageBytes, maxBytes: sizeGB * BYTES_PER_GB }),
    sharesBlocks: storage.capabilities().copies === 'atomic' && (isCopy || copied.has(id)),
    isCopy,
    isFinal: kind === 'snapshot',
  };
}
