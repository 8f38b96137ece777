/** Disks as use-cases and passes meet them: where one lies, and what is said when there is no room for it. */
import { diskKey, ownDisks, type Disk, type DiskId } from '../../domain/disk.ts';
import type { Instance } from '../../domain/instance.ts';
import { volumeTypeOfDisk, type PoolName } from '../../domain/pool.ts';
import { Refusal } from '../../domain/refusal.ts';
import type { Volume, VolumeType } from '../../domain/volume.ts';
import { disksAmong, growDisk, insertDisk, type NewDisk } from '../../store/tables/disks.ts';
import type { Db } from '../../store/store.ts';
import type { PoolDrivers, RegionDrivers, Regions } from '../base/regions.ts';

/** Where new disks of a type go: the pool that is its own, or the one for all. */
export const poolForType = ({ pools }: Pick<RegionDrivers, 'pools'>, type: VolumeType): PoolDrivers =>
  pools.find(({ name }) => name === type) ?? poolNamed({ pools }, 'default');

export function poolNamed({ pools }: Pick<RegionDrivers, 'pools'>, name: PoolName): PoolDrivers {
  const found = pools.find((pool) => pool.name === name);
  if (found) return found;
  throw new Error(`disks lie in the pool ${name}, which this server has no place for; configure it as it was`);
}

/** Those of the disks that there are, in the order of their ids as given. */
export async function findDisks(db: Db, ids: readonly DiskId[]): Promise<Disk[]> {
  const found = new Map((await disksAmong(db, ids)).map((disk) => [diskKey(disk), disk]));
  return ids.flatMap((id) => found.get(diskKey(id)) ?? []);
}

export type LocatedDisk = Disk & Pick<PoolDrivers, 'storage'>;

/** Which of the disks there are, each with the storage that it lies in. Disks are found by what is written down of them alone. */
export async function locateDisks(
  db: Db,
  drivers: Pick<RegionDrivers, 'pools'>,
  ids: readonly DiskId[],
): Promise<LocatedDisk[]> {
  const disks = await findDisks(db, ids);
  return disks.map((disk) => ({ ...disk, storage: poolNamed(drivers, disk.pool).storage }));
}

/** Each of them, or an error: what is to be mounted was written down before. */
export async function requireLocatedDisks(
  db: Db,
  drivers: Pick<RegionDrivers, 'pools'>,
  ids: readonly DiskId[],
): Promise<LocatedDisk[]> {
  const disks = await locateDisks(db, drivers, ids);
  const missing = ids.find((id) => !disks.some((disk) => diskKey(disk) === diskKey(id)));
  if (missing) throw new Error(`nothing is written down of the disk ${diskKey(missing)}`);
  return disks;
}

/** Of a volume that there is. */
export async function locateVolume(
  db: Db,
  regions: Regions,
  { id, regionId }: Pick<Volume, 'id' | 'regionId'>,
): Promise<LocatedDisk> {
  const [disk] = await locateDisks(db, regions.of(regionId), [{ kind: 'volume', id }]);
  if (!disk) throw new Error(`nothing is written down of the disk of volume ${id}`);
  return disk;
}

/** Writes down what disks an instance brings with it. An adopted one has them already, whatever room there is. */
export async function allotOwnDisks(
  tx: Db,
  drivers: Pick<RegionDrivers, 'pools' | 'sharedDiskGB'>,
  instance: Instance,
  more: { evenIfFull?: boolean } = {},
): Promise<void> {
  const { regionId, type } = instance.spec;
  for (const { kind, id, sizeGB } of ownDisks(instance, drivers.sharedDiskGB)) {
    if (kind === 'volume' || kind === 'snapshot') throw new Error(`a ${kind} is nobody's own disk`);
    const pool = poolForType(drivers, volumeTypeOfDisk(kind));
    const what = `an instance of type ${type.name} needs a ${kind} disk of ${sizeGB} GB`;
    const disk = { kind, id, regionId, pool: pool.name, ownerId: instance.ownerId, sizeGB };
    await allotDisk(tx, pool, disk, what, more);
  }
}

/** Writes a new disk down, or refuses it in these words, such as "a volume of 20 GB". */
export async function allotDisk(
  tx: Db,
  pool: PoolDrivers,
  disk: NewDisk,
  what: string,
  more: { evenIfFull?: boolean } = {},
): Promise<void> {
  const lacks = await insertDisk(tx, disk, more);
  if (lacks !== null) throw noCapacity(what, pool, lacks);
}

export async function allotMore(tx: Db, pool: PoolDrivers, disk: Disk, sizeGB: number, what: string): Promise<void> {
  const lacks = await growDisk(tx, disk, sizeGB);
  if (lacks !== null) throw noCapacity(what, pool, lacks);
}

const noCapacity = (what: string, { name }: PoolDrivers, { freeGB }: { freeGB: number }): Refusal => {
  const advice = 'ask for less, or delete what is not needed; the operator can add room';
  return new Refusal('no_capacity', `${what}, and ${freeGB} GB are free in the pool ${name}: ${advice}`);
};
