/** Inserts new volumes: empty ones, and copies of a volume or snapshot in the same pool. */
import { promised, type Disk, type VolumeType } from '../../domain/storage/disk.ts';
import { userId, volumeId, type RegionId } from '../../domain/kernel/ids.ts';
import { beginOperation, FIRST_GENERATION, operationId } from '../../domain/compute/operation.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { publicVolume, type VolumeSource, type Volume } from '../../domain/storage/volume.ts';
import { rateOfVolume } from '../../domain/money/meter.ts';
import { usageOfVolume } from '../../domain/access/quota.ts';
import { lockDisk } from '../../store/tables/disks.ts';
import type { Db } from '../../store/store.ts';
import { insertVolume } from '../../store/tables/volumes.ts';
import { poolNamed, poolForType, allotDisk, refuseWithoutCopies } from './disks.ts';
import type { FreeSpaceMonitor } from './free-space.ts';
import type { Caller, PoolDrivers } from '../kernel/ports.ts';
import { meteredStorage, type MeteredDeps } from '../money/ports.ts';

/** A new volume from a volume or snapshot; size and type default to those of the source. */
export interface CopyRequest {
  id: string;
  name: string;
  sizeGB?: number | undefined;
  volumeType?: VolumeType | undefined;
}

export const volumeNameTaken = (): Refusal => new Refusal('name_taken', 'Volume already exists');

export interface NewVolume {
  volumeText: string;
  operationId: string;
}

type VolumeSpec = Pick<Volume, 'ownerId' | 'ownerName' | 'name' | 'regionId' | 'type' | 'sizeGB' | 'source'>;

export async function createVolume(
  tx: Db,
  { metering }: Pick<MeteredDeps, 'metering'>,
  spec: VolumeSpec,
  { pool, uuid, nowMs }: { pool: PoolDrivers; uuid: string; nowMs: number },
): Promise<NewVolume> {
  const volume: Volume = {
    ...spec,
    id: volumeId(uuid),
    createdAtMs: nowMs,
    usageBytes: 0,
    status: 'Pending',
    generation: FIRST_GENERATION,
    operation: beginOperation('createVolume', 'user', nowMs),
  };
  if (!(await insertVolume(tx, volume, nowMs))) throw volumeNameTaken();
  const { id, ownerId, regionId, name, sizeGB, source } = volume;
  const disk = { kind: 'volume' as const, id, regionId, pool: pool.name, ownerId, ...promised(sizeGB) };
  await allotDisk(tx, pool, disk, `the volume needs ${sizeGB} GB`);
  const event = {
    accountId: ownerId,
    atMs: nowMs,
    kind: 'volume.created',
    subjectId: id,
    data: { name, sizeGB, ...(source ? { madeFrom: source } : {}) },
    counts: { volumes: 1 },
    usage: { before: {}, after: usageOfVolume(volume), mayRefuse: true },
  };
  await metering.appendEvent(tx, event, meteredStorage(volume), { before: null, after: rateOfVolume(volume) });
  return { volumeText: JSON.stringify(publicVolume(volume)), operationId: operationId(id, FIRST_GENERATION) };
}

/** The row is locked until the copy is inserted. */
export interface CopySource extends VolumeSource {
  regionId: RegionId;
  sizeGB: number;
  type: VolumeType;
}

interface CopyDeps extends Pick<MeteredDeps, 'regions' | 'randomUuid' | 'metering'> {
  freeSpace: FreeSpaceMonitor;
}

export async function createCopy(
  tx: Db,
  { regions, freeSpace, randomUuid, metering }: CopyDeps,
  { accountId, username }: Caller,
  source: CopySource,
  { name, sizeGB = source.sizeGB, volumeType: type = source.type }: CopyRequest,
  nowMs: number,
): Promise<NewVolume> {
  const { kind, id, regionId } = source;
  const drivers = regions.of(regionId);
  if (sizeGB < source.sizeGB)
    throw new Refusal(
      'field_value',
      `field "sizeGB" is ${sizeGB}, but ${kind} ${id} has ${source.sizeGB} GB, and a copy cannot be smaller; leave the field out, or create a smaller volume and copy the files in an instance that mounts both`,
    );
  const { pool: sourcePool } = await lockSourceDisk(tx, source);
  const pool = type === source.type ? poolNamed(drivers, sourcePool) : poolForType(drivers, type);
  if (pool.name !== sourcePool)
    throw new Refusal(
      'unsupported',
      `field "volumeType" is ${JSON.stringify(type)}: volumes of that type are in the pool ${pool.name}, and ${kind} ${id} is in ${sourcePool}; leave the field out, or create a volume of that type and copy the files in an instance that mounts both`,
    );
  refuseWithoutCopies(pool, kind === 'volume' ? `copy volume ${id}` : `restore snapshot ${id}`);
  freeSpace.refuseIfNearlyFull([pool]);
  const owner = { ownerId: userId(accountId), ownerName: username };
  const spec = { ...owner, name, regionId, type, sizeGB, source: { kind, id } };
  return createVolume(tx, { metering }, spec, { pool, uuid: randomUuid(), nowMs });
}

export async function lockSourceDisk(tx: Db, { kind, id }: VolumeSource): Promise<Disk> {
  const disk = await lockDisk(tx, { kind, id });
  if (disk) return disk;
  throw new Error(`no disk row for ${kind} ${id}`);
}
