/** Finds the storage of disks, locks them, and allots capacity of a pool to new ones. */
import { raceAbort } from '../../async/abort.ts';
import { makeKeyedMutex, type KeyedMutex } from '../../async/mutex.ts';
import {
  diskKey,
  resizedBy,
  type CountedSize,
  type CountedSpace,
  type Disk,
  type DiskId,
  type PoolName,
  type VolumeType,
} from '../../domain/storage/disk.ts';
import { dataDisk, dataDiskGB, largestDataDiskGB, ownDisks } from '../../domain/compute/instance-disks.ts';
import type { Instance } from '../../domain/compute/instance.ts';
import { accountLimitGB, countedGB, freeGB, settingOf, volumeTypeOfDisk } from '../../domain/storage/pool.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import type { Volume } from '../../domain/storage/volume.ts';
import type { Storage } from '../../storage/contract.ts';
import { disksAmong, insertDisk, lockDisk, promisedGBOf, resizeDisk, type NewDisk } from '../../store/tables/disks.ts';
import { poolsOf } from '../../store/tables/pools.ts';
import type { Db } from '../../store/store.ts';
import type { PoolDrivers, RegionDrivers, Regions } from '../kernel/ports.ts';

export const poolForType = ({ pools }: Pick<RegionDrivers, 'pools'>, type: VolumeType): PoolDrivers =>
  pools.find(({ name }) => name === type) ?? poolNamed({ pools }, 'default');

export function poolNamed({ pools }: Pick<RegionDrivers, 'pools'>, name: PoolName): PoolDrivers {
  const found = pools.find((pool) => pool.name === name);
  if (found) return found;
  throw new Error(
    `disks are in the pool ${name}, which is not configured on this server; configure the pool as before`,
  );
}

/** Returns the disks that exist, in the order of `ids`. */
export async function findDisks(db: Db, ids: readonly DiskId[]): Promise<Disk[]> {
  const found = new Map((await disksAmong(db, ids)).map((disk) => [diskKey(disk), disk]));
  return ids.flatMap((id) => found.get(diskKey(id)) ?? []);
}

export type LocatedDisk = Disk & Pick<PoolDrivers, 'storage'>;

const mutexes = new WeakMap<Storage, KeyedMutex<string>>();

/**
 * One operation on a disk at a time, in the order of the calls: a late create must not restore what
 * was destroyed since. An abort releases the caller, also from a storage that never answers. The
 * mutex stays locked until a running operation settles; a waiting operation is dropped.
 */
export function withDiskMutex<T>(
  disk: DiskId & Pick<PoolDrivers, 'storage'>,
  operation: () => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  const mutex = mutexes.get(disk.storage) ?? makeKeyedMutex<string>();
  mutexes.set(disk.storage, mutex);
  return raceAbort(mutex.run(diskKey(disk), operation, signal), signal);
}

/** Returns the disks that exist with their storage. The row alone decides the pool. */
export async function locateDisks(
  db: Db,
  drivers: Pick<RegionDrivers, 'pools'>,
  ids: readonly DiskId[],
): Promise<LocatedDisk[]> {
  const disks = await findDisks(db, ids);
  return disks.map((disk) => ({ ...disk, storage: poolNamed(drivers, disk.pool).storage }));
}

export async function requireLocatedDisks(
  db: Db,
  drivers: Pick<RegionDrivers, 'pools'>,
  ids: readonly DiskId[],
): Promise<LocatedDisk[]> {
  const disks = await locateDisks(db, drivers, ids);
  const missing = ids.find((id) => !disks.some((disk) => diskKey(disk) === diskKey(id)));
  if (missing) throw new Error(`no row for disk ${diskKey(missing)}`);
  return disks;
}

export async function locateVolume(
  db: Db,
  regions: Regions,
  { id, regionId }: Pick<Volume, 'id' | 'regionId'>,
): Promise<LocatedDisk> {
  const [disk] = await locateDisks(db, regions.of(regionId), [{ kind: 'volume', id }]);
  if (!disk) throw new Error(`no disk row for volume ${id}`);
  return disk;
}

/** Allots an instance's own disks. `evenIfFull` is for adoption: the disks exist already. */
export async function allotOwnDisks(
  tx: Db,
  drivers: Pick<RegionDrivers, 'pools' | 'sharedDiskGB'>,
  instance: Instance,
  options: { evenIfFull?: boolean } = {},
): Promise<void> {
  const { regionId, type } = instance.spec;
  // The data disk last: its refusal names the size that fits beside the others.
  const disks = ownDisks(instance, drivers.sharedDiskGB).toSorted(
    (a, b) => +(a.kind === 'data') - +(b.kind === 'data'),
  );
  for (const { kind, id, ...size } of disks) {
    if (kind === 'volume' || kind === 'snapshot')
      throw new Error(`a disk of kind ${kind} is not an instance's own disk`);
    const pool = poolForType(drivers, volumeTypeOfDisk(kind));
    const root = kind === 'data' ? ` and a root disk of ${type.rootDiskGB} GB` : '';
    const purpose = `an instance of type ${type.name} needs a ${kind} disk of ${size.sizeGB} GB${root}`;
    const disk = { kind, id, regionId, pool: pool.name, ownerId: instance.ownerId, ...size };
    const fittingText = (freeHereGB: number): string | null => {
      const fittingGB = kind === 'data' ? largestDataDiskGB(type, freeHereGB, pool.diskOvercommit) : 0;
      return fittingGB === 0 ? null : `send a "dataDiskGB" of at most ${fittingGB}`;
    };
    await allotDisk(tx, pool, disk, purpose, { ...options, fittingText });
  }
}

/** Throws where disks keep the size of their creation. */
function refuseGrowth({ storage }: Pick<PoolDrivers, 'storage'>, purpose: string): void {
  const { whyNoGrowth } = storage.capabilities();
  if (whyNoGrowth !== undefined) throw new Refusal('unsupported', `${purpose}, but disks cannot grow: ${whyNoGrowth}`);
}

/** Throws where disks have neither copies nor snapshots. */
export function refuseWithoutCopies({ storage }: Pick<PoolDrivers, 'storage'>, action: string): void {
  const { whyNoCopies } = storage.capabilities();
  if (whyNoCopies === undefined) return;
  const instead = 'create a volume, and copy the files in an instance that mounts both';
  throw new Refusal('unsupported', `cannot ${action}: ${whyNoCopies}; ${instead}`);
}

interface AllotOptions {
  evenIfFull?: boolean;
  /** Request that fits in `freeGB` of the pool; null without one. */
  fittingText?: (freeGB: number) => string | null;
}

const fittingSize = (freeHereGB: number): string | null =>
  freeHereGB < 1 ? null : `request at most ${Math.floor(freeHereGB)} GB`;

/** Reserves what a resize adds to the data disk, and to the root disk that it counts. */
export async function resizeOwnDisks(
  tx: Db,
  drivers: Pick<RegionDrivers, 'pools'>,
  before: Instance,
  { id, spec }: Instance,
): Promise<void> {
  const moreRootGB = spec.type.rootDiskGB - before.spec.type.rootDiskGB;
  const moreDataGB = dataDiskGB(spec) - dataDiskGB(before.spec);
  if (moreRootGB <= 0 && moreDataGB <= 0) return;
  const disk = await lockDisk(tx, dataDisk(id));
  if (!disk) throw new Error(`no row for the data disk of ${id}`);
  const pool = poolNamed(drivers, disk.pool);
  const size = resizedBy(disk, moreDataGB, moreRootGB);
  const what = `instance type ${spec.type.name} needs ${moreDataGB} GB more of data disk and ${moreRootGB} GB more of root disk`;
  await allotMore(tx, pool, disk, size, what);
}

/** Throws `no_capacity` with a message that begins with `purpose`, such as "a volume of 20 GB". */
export async function allotDisk(
  tx: Db,
  pool: PoolDrivers,
  disk: NewDisk,
  purpose: string,
  { evenIfFull = false, fittingText = fittingSize }: AllotOptions = {},
): Promise<void> {
  const { diskOvercommit } = pool;
  const shortage = await insertDisk(tx, disk, { diskOvercommit, evenIfFull });
  if (shortage !== null) throw noCapacity(purpose, pool, disk, { ...shortage, fits: fittingText(shortage.freeGB) });
  if (disk.promisedGB > 0 && !evenIfFull) await refuseOverShare(tx, pool, disk, purpose);
}

export async function allotMore(
  tx: Db,
  pool: PoolDrivers,
  disk: Disk,
  size: CountedSize,
  purpose: string,
): Promise<void> {
  if (size.sizeGB > disk.sizeGB) refuseGrowth(pool, purpose);
  const shortage = await resizeDisk(tx, disk, size, pool);
  const more = {
    promisedGB: size.promisedGB - disk.promisedGB,
    bestEffortGB: size.bestEffortGB - disk.bestEffortGB,
  };
  if (shortage !== null) throw noCapacity(purpose, pool, more, { ...shortage, fits: 'request less' });
  if (more.promisedGB > 0) await refuseOverShare(tx, pool, disk, purpose);
}

/** Call after the reservation, whose update locks the pool's row. */
async function refuseOverShare(tx: Db, pool: PoolDrivers, disk: NewDisk, purpose: string): Promise<void> {
  if (pool.accountShare === 1) return;
  const counted = (await poolsOf(tx, disk.regionId)).find(({ name }) => name === pool.name);
  if (!counted) return;
  const heldGB = await promisedGBOf(tx, disk);
  const limitGB = accountLimitGB(heldGB, freeGB(counted, pool), pool);
  if (heldGB <= limitGB) return;
  const percent = Math.round(pool.accountShare * 100);
  throw new Refusal(
    'over_quota',
    `${purpose}, and the account would hold ${heldGB} GB of the pool ${pool.name}: an account may hold ${limitGB} GB there now, ${percent} % of what it holds and what is free; request less, delete what you do not need, or ask the operator for more`,
  );
}

function noCapacity(
  purpose: string,
  pool: PoolDrivers,
  disk: CountedSpace,
  { freeGB: freeHereGB, fits }: { freeGB: number; fits: string | null },
): Refusal {
  const isPromised = disk.promisedGB > 0;
  const counted = disk.bestEffortGB > 0 ? `, counted as ${inTenths(Math.ceil, countedGB(disk, pool))} GB` : '';
  const setting = isPromised ? settingOf(pool.name) : `BERTH_DISK_OVERCOMMIT, now ${pool.diskOvercommit}`;
  const advice = [...(fits === null ? [] : [fits]), 'delete what you do not need'].join(', ');
  return new Refusal(
    'no_capacity',
    `${purpose}${counted}, but the pool ${pool.name} has ${inTenths(Math.floor, freeHereGB)} GB free: ${advice}, or ask the operator for more space (${setting})`,
  );
}

const inTenths = (round: (value: number) => number, sizeGB: number): number => round(sizeGB * 10) / 10;
