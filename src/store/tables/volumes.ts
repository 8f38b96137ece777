import type { Selectable } from 'kysely';
import { type DiskId, volumeTypes, type VolumeType } from '../../domain/storage/disk.ts';
import { searchForm } from '../../domain/kernel/resource-labels.ts';
import { regionId, userId, volumeId } from '../../domain/kernel/ids.ts';
import { publicVolume, volumeStatuses, type Volume, type VolumeStatus } from '../../domain/storage/volume.ts';
import { locking } from '../db/dialect.ts';
import { isLeaseHeld, type LeaseGuard } from '../db/leases.ts';
import { parseJson, oneOf } from '../db/columns.ts';
import { archiveOperation } from './operations.ts';
import type { VolumeTable } from '../db/schema.ts';
import type { Db } from '../store.ts';
import { parseOperation, volumeSource } from './json-schemas.ts';

export type VolumeRow = Selectable<VolumeTable>;

export const volumeFromRow = (row: VolumeRow): Volume => ({
  id: volumeId(row.id),
  ownerId: userId(row.ownerId),
  ownerName: row.ownerName,
  createdAtMs: row.createdAtMs,
  name: row.name,
  regionId: regionId(row.regionId),
  type: oneOf<VolumeType>(volumeTypes, row.type),
  sizeGB: row.sizeGB,
  usageBytes: row.usageBytes,
  source:
    row.source === null ? null : parseJson(volumeSource, row.source, { table: 'volume', id: row.id, column: 'source' }),
  status: oneOf<VolumeStatus>(volumeStatuses, row.status),
  generation: row.generation,
  operation: parseOperation(row.operation, 'volume', row.id),
});

/** The name is taken while the volume is not Terminating: unique per owner, across regions. */
const liveName = (volume: Volume): string | null =>
  volume.status === 'Terminating' ? null : `${volume.ownerId}/${volume.name}`;

const columnsOf = (volume: Volume) => ({
  name: volume.name,
  liveName: liveName(volume),
  sizeGB: volume.sizeGB,
  usageBytes: volume.usageBytes,
  status: volume.status,
  generation: volume.generation,
  operation: JSON.stringify(volume.operation),
  searchName: searchForm(volume.name),
  publicText: JSON.stringify(publicVolume(volume)),
});

/** Returns false when the owner has a volume of this name. */
export async function insertVolume(tx: Db, volume: Volume, dueAtMs: number): Promise<boolean> {
  const result = await tx
    .insertInto('volume')
    .values({
      id: volume.id,
      ownerId: volume.ownerId,
      ownerName: volume.ownerName,
      createdAtMs: volume.createdAtMs,
      regionId: volume.regionId,
      type: volume.type,
      source: volume.source && sourceText(volume.source),
      ...columnsOf(volume),
      listed: 1,
      dueAtMs,
      leaseOwner: null,
      leaseToken: null,
      leaseUntilMs: null,
    })
    .onConflict((conflict) => conflict.column('liveName').doNothing())
    .executeTakeFirst();
  return (result.numInsertedOrUpdatedRows ?? 0n) > 0n;
}

/** Locks volumes, unless Terminating: a delete and a mount of one run one after the other. */
export async function lockVolumes(tx: Db, ownerId: string, ids: readonly string[]): Promise<VolumeRow[]> {
  if (ids.length === 0) return [];
  const own = tx.selectFrom('volume').selectAll().where('id', 'in', ids).where('ownerId', '=', ownerId);
  return locking(tx, own.where('status', '!=', 'Terminating').orderBy('id')).execute();
}

export async function ownedVolume(db: Db, ownerId: string, id: string): Promise<Volume | null> {
  const query = db.selectFrom('volume').selectAll().where('id', '=', id).where('ownerId', '=', ownerId);
  const row = await query.executeTakeFirst();
  return row ? volumeFromRow(row) : null;
}

/** Writes a new desired state and archives the former operation. */
export async function writeVolumeDesiredState(
  tx: Db,
  before: Pick<Volume, 'generation' | 'operation'>,
  volume: Volume,
  columns: { listed: boolean; dueAtMs: number },
): Promise<void> {
  await archiveOperation(tx, volume.ownerId, { ...before, subjectId: volume.id }, volume.operation.startedAtMs);
  await tx
    .updateTable('volume')
    .set({ ...columnsOf(volume), listed: columns.listed ? 1 : 0, dueAtMs: columns.dueAtMs })
    .where('id', '=', volume.id)
    .execute();
}

/** Applies a result to the current row, whose name may differ; null when superseded. */
export async function writeReconciledVolume(
  tx: Db,
  lease: LeaseGuard,
  update: (volume: Volume) => Volume,
): Promise<Volume | null> {
  const row = await locking(tx, tx.selectFrom('volume').selectAll().where(isLeaseHeld(lease))).executeTakeFirst();
  if (!row) return null;
  const next = update(volumeFromRow(row));
  await tx.updateTable('volume').set(columnsOf(next)).where('id', '=', next.id).execute();
  return next;
}

/** Throws a unique violation when the owner has another volume of that name. */
export async function writeVolumeName(tx: Db, volume: Volume): Promise<void> {
  await tx.updateTable('volume').set(columnsOf(volume)).where('id', '=', volume.id).execute();
}

const sourceText = ({ kind, id }: Pick<DiskId, 'kind' | 'id'>): string => JSON.stringify({ kind, id });

/** Whether a volume or snapshot is being copied from the disk, which must outlast the copy. */
export async function isCopySource(db: Db, from: DiskId): Promise<boolean> {
  const volume = db
    .selectFrom('volume')
    .select('id')
    .where('source', '=', sourceText(from))
    .where('status', '=', 'Pending');
  const snapshot = db
    .selectFrom('snapshot')
    .select('id')
    .where('volumeId', '=', from.id)
    .where('status', '=', 'Pending');
  const [copies, snapshots] = await Promise.all([
    volume.limit(1).executeTakeFirst(),
    from.kind === 'volume' ? snapshot.limit(1).executeTakeFirst() : undefined,
  ]);
  return copies !== undefined || snapshots !== undefined;
}

/** Instances that mount a volume; `living` ones are not released. */
export async function mountersOf(db: Db, volume: string): Promise<{ instanceId: string; living: boolean }[]> {
  const rows = await db
    .selectFrom('mount')
    .innerJoin('instance', 'instance.id', 'mount.instanceId')
    .select(['instance.id as instanceId', 'instance.desired as desired'])
    .where('mount.volumeId', '=', volume)
    .execute();
  return rows.map(({ instanceId, desired }) => ({ instanceId, living: desired !== 'released' }));
}

export async function volumeStatusesOf(db: Db, ids: readonly string[]): Promise<Map<string, VolumeStatus>> {
  if (ids.length === 0) return new Map();
  const rows = await db.selectFrom('volume').select(['id', 'status']).where('id', 'in', ids).execute();
  return new Map(rows.map(({ id, status }) => [id, oneOf<VolumeStatus>(volumeStatuses, status)]));
}

export async function volumesAmong(db: Db, ids: readonly string[]): Promise<Map<string, Volume>> {
  if (ids.length === 0) return new Map();
  const rows = await db.selectFrom('volume').selectAll().where('id', 'in', ids).execute();
  return new Map(rows.map((row) => [row.id, volumeFromRow(row)]));
}

export async function makeVolumeDue(tx: Db, id: string, nowMs: number): Promise<void> {
  await tx.updateTable('volume').set({ dueAtMs: nowMs }).where('id', '=', id).execute();
}

/** Writes measured usage, unless the volume changed since the read or is leased. */
export async function writeVolumeUsage(tx: Db, volume: Volume, usageBytes: number): Promise<boolean> {
  const result = await tx
    .updateTable('volume')
    .set({ usageBytes, publicText: JSON.stringify(publicVolume({ ...volume, usageBytes })) })
    .where('id', '=', volume.id)
    .where('generation', '=', volume.generation)
    .where('status', '=', volume.status)
    .where('name', '=', volume.name)
    .where('leaseToken', 'is', null)
    .executeTakeFirst();
  return result.numUpdatedRows > 0n;
}
