/**
 * Room on the host: how much of each pool may be promised follows what its place has, and nothing new is begun once a place is nearly
 * full, so that what runs, and the database, keep what is left. Administrators are told before it comes to that.
 */
import { BYTES_PER_GB } from '../../domain/disk.ts';
import { isNearlyFull, limitGB, wantsRoom, type Space } from '../../domain/pool.ts';
import { Refusal } from '../../domain/refusal.ts';
import { usageOfPools } from '../../store/tables/disks.ts';
import { setPoolWarned, poolsOf, savePool, type Pool } from '../../store/tables/pools.ts';
import type { DeedDeps } from '../base/task-deps.ts';
import { raced } from '../base/race-abort.ts';
import type { PoolDrivers, RegionDrivers } from '../base/regions.ts';
import { tellAdministrators } from '../base/notify-administrators.ts';

export interface FreeSpaceMonitor {
  /** Looks at every place; its beat is the caller's. */
  measure(): Promise<void>;
  /** Throws `no_capacity` for what would begin something new in one of them. */
  refuseIfNearlyFull(pools: readonly Pick<PoolDrivers, 'name' | 'seen'>[]): void;
}

export interface FreeSpaceDeps extends Pick<DeedDeps, 'store' | 'regions' | 'now' | 'time' | 'log' | 'ending'> {
  /** Of the place that the database lies on. */
  dataSpace: () => Promise<Space>;
}

const LOOK_DEADLINE_MS = 10_000;

export function makeFreeSpaceMonitor(deps: FreeSpaceDeps): FreeSpaceMonitor {
  const { store, regions, log } = deps;
  let dataSeen: Space | null = null;

  const spaceOf = async (what: string, ask: () => Promise<Space>): Promise<Space | null> => {
    try {
      return await raced(ask(), AbortSignal.any([deps.ending, deps.time.deadline(LOOK_DEADLINE_MS)]));
    } catch (error) {
      if (!deps.ending.aborted) log.warn({ place: what, err: error }, 'it is not known how much room there is');
      return null;
    }
  };

  async function lookAt({ regionId, pools }: RegionDrivers): Promise<void> {
    const [counted, usage] = await Promise.all([poolsOf(store.read, regionId), usageOfPools(store.read, regionId)]);
    for (const pool of pools) {
      pool.seen = await spaceOf(`pool ${pool.name}`, () => pool.storage.space());
      if (pool.seen === null) continue;
      const held = usage.get(pool.name) ?? { allBytes: 0, originalBytes: 0 };
      // Copies of one moment share blocks: what they hold is not room of their own.
      const shares = pool.storage.capabilities().copies === 'atomic';
      const limit = limitGB(pool, pool.seen, shares ? held.originalBytes : held.allBytes);
      const known = counted.find(({ name }) => name === pool.name);
      if (known?.limitGB !== limit) await store.write((tx) => savePool(tx, { regionId, name: pool.name }, limit));
      if (known) await tell(pool, { ...known, limitGB: limit }, pool.seen);
    }
  }

  async function tell(
    { name }: PoolDrivers,
    { regionId, limitGB: limit, usedGB, warned }: Pool,
    seen: Space,
  ): Promise<void> {
    const wants = wantsRoom({ limitGB: limit, usedGB }, seen);
    if (wants === warned) return;
    const freeGB = Math.floor(seen.freeBytes / BYTES_PER_GB);
    const data = { pool: name, limitGB: limit, promisedGB: usedGB, freeOnHostGB: freeGB };
    const ours = await store.write(async (tx) => {
      if (!(await setPoolWarned(tx, regionId, name, wants))) return false;
      const kind = wants ? 'pool.nearlyFull' : 'pool.hasRoom';
      await tellAdministrators(tx, { atMs: deps.now(), kind, subjectId: regionId, data });
      return true;
    });
    if (ours && wants)
      log.warn({ region: regionId, ...data }, 'a pool is nearly full: give it room, or take some back');
  }

  return {
    async measure() {
      dataSeen = await spaceOf('data folder', deps.dataSpace);
      for (const drivers of regions.all()) await lookAt(drivers);
    },
    refuseIfNearlyFull(pools) {
      const places = [
        { what: 'the database', seen: dataSeen },
        ...pools.map(({ name, seen }) => ({ what: `the pool ${name}`, seen })),
      ];
      const full = places.find(({ seen }) => seen !== null && isNearlyFull(seen));
      if (!full) return;
      const text = `the place of ${full.what} on the host is nearly full, and nothing new is begun; delete what is not needed, or ask the operator for room`;
      throw new Refusal('no_capacity', text, { retryAfterS: 60 });
    },
  };
}
