/** Counts the best-effort disks of instances on one file system. */
import { diskKey, type Disk } from '../../domain/storage/disk.ts';
import type { DiskCount } from '../../domain/storage/disk-growth-track.ts';
import { diskIdsOf } from '../../domain/storage/disk-usage.ts';
import type { InstanceId } from '../../domain/kernel/ids.ts';
import type { Instance } from '../../domain/compute/instance.ts';
import { disksAmong } from '../../store/tables/disks.ts';
import type { Db } from '../../store/store.ts';
import type { PoolDrivers, RegionDrivers } from '../kernel/ports.ts';

/** Metadata of a disk's own file system, at most: `usageBytes` does not count it. */
const METADATA_BYTES = 100 * 1024 ** 2;

export interface CountRequest {
  instances: readonly Instance[];
  pools: readonly PoolDrivers[];
  /** Whether root disks are on the file system. */
  holdsRoots: boolean;
}

/** Omits instances that the engine does not report. */
export async function countDisks(
  db: Db,
  { engine }: Pick<RegionDrivers, 'engine'>,
  { instances, pools, holdsRoots }: CountRequest,
  signal: AbortSignal,
): Promise<Map<InstanceId, DiskCount>> {
  const ids = instances.map(({ id }) => id);
  const rootBytesById = holdsRoots ? await countRoots(engine, ids, signal) : new Map(ids.map((id) => [id, 0]));
  const rows = new Map((await disksAmong(db, instances.flatMap(diskIdsOf))).map((disk) => [diskKey(disk), disk]));
  const counts = new Map<InstanceId, DiskCount>();
  for (const instance of instances) {
    const rootBytes = rootBytesById.get(instance.id);
    if (rootBytes === undefined) continue;
    const disks = diskIdsOf(instance).flatMap((id) => rows.get(diskKey(id)) ?? []);
    const bestEffort = disks.filter(({ promisedGB }) => promisedGB === 0);
    const held = await Promise.all(bestEffort.map((disk) => heldBytes(pools, disk)));
    const known = bestEffort.map((disk, index) => (held[index] === 0 ? 0 : disk.usageBytes + METADATA_BYTES));
    counts.set(instance.id, { rootBytes, otherBytes: sum(held), knownOtherBytes: sum(known) });
  }
  return counts;
}

async function countRoots(
  engine: RegionDrivers['engine'],
  ids: readonly InstanceId[],
  signal: AbortSignal,
): Promise<Map<InstanceId, number | null>> {
  const usages = await engine.usage(ids, signal, { rootDisk: true, countersOnly: true });
  return new Map([...usages].map(([id, { rootDiskBytes }]) => [id, rootDiskBytes]));
}

async function heldBytes(pools: readonly PoolDrivers[], disk: Disk): Promise<number> {
  const pool = pools.find(({ name }) => name === disk.pool);
  const allocation = await pool?.storage.allocation(disk).catch(() => null);
  return allocation?.heldBytes ?? 0;
}

const sum = (all: readonly number[]): number => all.reduce((total, one) => total + one, 0);
