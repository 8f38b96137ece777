/** Sets pool limits by the free space of the host; refuses new resources before it is full. */
import { BYTES_PER_GB } from '../../domain/storage/disk.ts';
import { isNearlyFull, limitGB, isShortOfSpace, type ReserveShare, type Space } from '../../domain/storage/pool.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { setPoolWarned, poolsOf, savePool, type Pool } from '../../store/tables/pools.ts';
import { raceAbort } from '../../async/abort.ts';
import type { Allocator } from './allocate.ts';
import { measureAllocations } from './allocations.ts';
import {
  type TaskDeps,
  makeEachRegion,
  type PoolDrivers,
  type RegionDrivers,
  notifyAdministrators,
} from '../kernel/ports.ts';

export interface FreeSpaceMonitor {
  measure(): Promise<void>;
  /** Throws `no_capacity` if the data folder or one of the pools is nearly full. */
  refuseIfNearlyFull(pools: readonly Pick<PoolDrivers, 'name' | 'space'>[]): void;
}

export interface FreeSpaceDeps extends Pick<TaskDeps, 'store' | 'regions' | 'time' | 'log' | 'stopping'> {
  dataSpace: () => Promise<Space>;
  diskReserveShare: ReserveShare;
  allocator: Allocator;
}

const MEASURE_DEADLINE_MS = 10_000;

export function makeFreeSpaceMonitor(deps: FreeSpaceDeps): FreeSpaceMonitor {
  const { store, regions, log, diskReserveShare } = deps;
  let lastDataSpace: Space | null = null;

  const measured = async <T>(name: string, ask: () => Promise<T>): Promise<T | null> => {
    try {
      return await raceAbort(ask(), AbortSignal.any([deps.stopping, deps.time.deadline(MEASURE_DEADLINE_MS)]));
    } catch (error) {
      if (!deps.stopping.aborted) log.warn({ fileSystem: name, err: error }, 'could not measure free space');
      return null;
    }
  };

  async function measureRegion(drivers: RegionDrivers): Promise<void> {
    const { regionId, pools } = drivers;
    const limits = await poolsOf(store.read, regionId);
    const allocations = await measured('pools', () => measureAllocations(store.read, drivers, deps.allocator.note));
    for (const pool of pools) {
      pool.space = await measured(`pool ${pool.name}`, () => pool.storage.space());
      const allocation = allocations?.get(pool.name);
      if (pool.space === null || !allocation) continue;
      pool.unwrittenBytes = allocation.unwrittenBytes;
      const limit = limitGB(pool, pool.space, allocation.heldBytes, diskReserveShare);
      const stored = limits.find(({ name }) => name === pool.name);
      if (stored?.limitGB !== limit) await store.write((tx) => savePool(tx, { regionId, name: pool.name }, limit));
      if (stored) await warnAdministrators(pool, { ...stored, limitGB: limit }, pool.space);
    }
  }

  async function warnAdministrators(drivers: PoolDrivers, pool: Pool, space: Space): Promise<void> {
    const { regionId, name, limitGB: limit, usedGB, warned } = pool;
    const low = isShortOfSpace(pool, drivers, space, diskReserveShare);
    if (low === warned) return;
    const freeOnHostGB = Math.floor(space.freeBytes / BYTES_PER_GB);
    const data = { pool: name, limitGB: limit, promisedGB: usedGB, freeOnHostGB };
    const written = await store.write(async (tx) => {
      if (!(await setPoolWarned(tx, regionId, name, low))) return false;
      const kind = low ? 'pool.nearlyFull' : 'pool.hasRoom';
      await notifyAdministrators(tx, { atMs: deps.time.now(), kind, subjectId: regionId, data });
      return true;
    });
    if (written && low)
      log.warn({ region: regionId, ...data }, 'a pool is nearly full: add space to the pool, or delete disks');
  }

  const measureRegions = makeEachRegion(regions, measureRegion);
  return {
    async measure() {
      lastDataSpace = await measured('data folder', deps.dataSpace);
      await measureRegions();
    },
    refuseIfNearlyFull(pools) {
      const fileSystems = [
        { name: 'the database', space: lastDataSpace },
        ...pools.map(({ name, space }) => ({ name: `the pool ${name}`, space })),
      ];
      const full = fileSystems.find(({ space }) => space !== null && isNearlyFull(space, diskReserveShare));
      if (!full) return;
      const text = `the file system of ${full.name} on the host is nearly full, so Berth creates nothing; delete what you do not need, or ask the operator for more space`;
      throw new Refusal('no_capacity', text, { retryAfterS: 60 });
    },
  };
}
