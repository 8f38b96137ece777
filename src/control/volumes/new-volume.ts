/** A new volume written down: empty, or a copy of a volume or a snapshot, which lies in the same pool. */
import type { Disk } from '../../domain/disk.ts';
import { volumeId, type RegionId, type UserId } from '../../domain/ids.ts';
import { beginOperation, FIRST_GENERATION } from '../../domain/operation.ts';
import { Refusal } from '../../domain/refusal.ts';
import { publicVolume, type VolumeSource, type Volume, type VolumeType } from '../../domain/volume.ts';
import { lockDisk } from '../../store/tables/disks.ts';
import { appendEvent } from '../../store/tables/events.ts';
import type { Db } from '../../store/store.ts';
import { insertVolume } from '../../store/tables/volumes.ts';
import { poolNamed, poolForType, allotDisk } from './disks.ts';
import type { PoolDrivers, RegionDrivers } from '../base/regions.ts';
import type { FreeSpaceMonitor } from './free-space.ts';

/** A new volume from what is there: as large, and of the same type, where nothing else is said. */
export interface CopyRequest {
  /** Of the volume, or the snapshot. */
  id: string;
  name: string;
  sizeGB?: number | undefined;
  volumeType?: VolumeType | undefined;
}

export const volumeNameTaken = (): Refusal => new Refusal('name_taken', 'Volume already exists');

type Wanted = Pick<Volume, 'ownerId' | 'ownerName' | 'name' | 'regionId' | 'type' | 'sizeGB' | 'source'>;

/** Answers its public text, under a new id. */
export async function createVolume(
  tx: Db,
  wanted: Wanted,
  { pool, uuid, nowMs }: { pool: PoolDrivers; uuid: string; nowMs: number },
): Promise<{ volumeText: string }> {
  const volume: Volume = {
    ...wanted,
    id: volumeId(uuid),
    createdAtMs: nowMs,
    usageBytes: 0,
    status: 'Pending',
    generation: FIRST_GENERATION,
    operation: beginOperation('createVolume', 'user', nowMs),
  };
  if (!(await insertVolume(tx, volume, nowMs))) throw volumeNameTaken();
  const { id, ownerId, regionId, name, sizeGB, source } = volume;
  const disk = { kind: 'volume' as const, id, regionId, pool: pool.name, ownerId, sizeGB };
  await allotDisk(tx, pool, disk, `the volume needs ${sizeGB} GB`);
  await appendEvent(tx, {
    accountId: ownerId,
    atMs: nowMs,
    kind: 'volume.created',
    subjectId: id,
    data: { name, sizeGB, ...(source ? { madeFrom: source } : {}) },
    counts: { volumes: 1 },
  });
  return { volumeText: JSON.stringify(publicVolume(volume)) };
}

/** What a copy is made of: held by its row until the copy is written down. */
export interface CopySource extends VolumeSource {
  regionId: RegionId;
  sizeGB: number;
  type: VolumeType;
}

export async function createCopy(
  tx: Db,
  {
    drivers,
    freeSpace,
    uuid,
    nowMs,
  }: { drivers: RegionDrivers; freeSpace: FreeSpaceMonitor; uuid: string; nowMs: number },
  owner: { ownerId: UserId; ownerName: string },
  original: CopySource,
  { name, sizeGB = original.sizeGB, volumeType: type = original.type }: CopyRequest,
): Promise<{ volumeText: string }> {
  const { kind, id, regionId } = original;
  if (sizeGB < original.sizeGB)
    throw new Refusal(
      'field_value',
      `field "sizeGB" is ${sizeGB}, and ${kind} ${id} has ${original.sizeGB}: a copy is as large or larger; leave it out, or make a smaller volume and copy the files in an instance that mounts both`,
    );
  const { pool: lies } = await lockSourceDisk(tx, original);
  const pool = type === original.type ? poolNamed(drivers, lies) : poolForType(drivers, type);
  if (pool.name !== lies)
    throw new Refusal(
      'unsupported',
      `field "volumeType" is ${JSON.stringify(type)}: volumes of that type lie in the pool ${pool.name}, and ${kind} ${id} lies in ${lies}; leave it out, or make a volume of that type and copy the files in an instance that mounts both`,
    );
  freeSpace.refuseIfNearlyFull([pool]);
  return createVolume(tx, { ...owner, name, regionId, type, sizeGB, source: { kind, id } }, { pool, uuid, nowMs });
}

/** Of one that stands. */
export async function lockSourceDisk(tx: Db, { kind, id }: VolumeSource): Promise<Disk> {
  const disk = await lockDisk(tx, { kind, id });
  if (disk) return disk;
  throw new Error(`no disk row for ${kind} ${id}`);
}
