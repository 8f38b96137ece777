import { sql, type Selectable } from 'kysely';
import { regionId, snapshotId, userId, volumeId } from '../../domain/kernel/ids.ts';
import { consistencies, publicSnapshot, snapshotStatuses, type Snapshot } from '../../domain/storage/snapshot.ts';
import { volumeTypes } from '../../domain/storage/disk.ts';
import { locking } from '../db/dialect.ts';
import { isLeaseHeld, type LeaseGuard } from '../db/leases.ts';
import { oneOf } from '../db/columns.ts';
import { archiveOperation } from './operations.ts';
import type { SnapshotTable } from '../db/schema.ts';
import type { Db } from '../store.ts';
import { parseOperation } from './json-schemas.ts';

export type SnapshotRow = Selectable<SnapshotTable>;

export const snapshotFromRow = (row: SnapshotRow): Snapshot => ({
  id: snapshotId(row.id),
  ownerId: userId(row.ownerId),
  ownerName: row.ownerName,
  createdAtMs: row.createdAtMs,
  name: row.name,
  regionId: regionId(row.regionId),
  volumeId: volumeId(row.volumeId),
  volumeName: row.volumeName,
  volumeType: oneOf(volumeTypes, row.volumeType),
  sizeGB: row.sizeGB,
  consistency: oneOf(consistencies, row.consistency),
  status: oneOf(snapshotStatuses, row.status),
  generation: row.generation,
  operation: parseOperation(row.operation, 'snapshot', row.id),
});

const changing = (snapshot: Snapshot) => ({
  liveName: snapshot.status === 'Terminating' ? null : `${snapshot.ownerId}/${snapshot.name}`,
  status: snapshot.status,
  generation: snapshot.generation,
  operation: JSON.stringify(snapshot.operation),
  publicText: JSON.stringify(publicSnapshot(snapshot)),
});

/** Returns false when the owner has a snapshot of this name. */
export async function insertSnapshot(tx: Db, snapshot: Snapshot, dueAtMs: number): Promise<boolean> {
  const free = { leaseOwner: null, leaseToken: null, leaseUntilMs: null };
  const result = await tx
    .insertInto('snapshot')
    .values({ ...snapshot, ...changing(snapshot), listed: 1, dueAtMs, ...free })
    .onConflict((conflict) => conflict.column('liveName').doNothing())
    .executeTakeFirst();
  return (result.numInsertedOrUpdatedRows ?? 0n) > 0n;
}

/** Locks the snapshot, unless Terminating: a delete and a restore run one after the other. */
export async function lockSnapshot(tx: Db, ownerId: string, id: string): Promise<Snapshot | undefined> {
  const own = tx.selectFrom('snapshot').selectAll().where('id', '=', id).where('ownerId', '=', ownerId);
  const row = await locking(tx, own.where('status', '!=', 'Terminating')).executeTakeFirst();
  return row && snapshotFromRow(row);
}

const listedOf = (db: Db, ownerId: string) =>
  db.selectFrom('snapshot').where('ownerId', '=', ownerId).where('listed', '=', sql.lit(1));

const newestTexts = (db: Db, ownerId: string, limit: number) =>
  listedOf(db, ownerId).select('publicText').orderBy('createdAtMs', 'desc').orderBy('id', 'desc').limit(limit);

export async function snapshotTexts(db: Db, ownerId: string, offset: number, limit: number): Promise<string[]> {
  const rows = await newestTexts(db, ownerId, limit).offset(offset).execute();
  return rows.map(({ publicText }) => publicText);
}

export async function countSnapshots(db: Db, ownerId: string): Promise<number> {
  const { count } = await listedOf(db, ownerId)
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow();
  return count;
}

export async function snapshotTextsOf(db: Db, ownerId: string, volume: string, limit: number): Promise<string[]> {
  const rows = await newestTexts(db, ownerId, limit).where('volumeId', '=', volume).execute();
  return rows.map(({ publicText }) => publicText);
}

/** Removes the snapshot from the lists and archives the former operation. */
export async function requestSnapshotDeletion(tx: Db, before: Snapshot, gone: Snapshot, nowMs: number): Promise<void> {
  await archiveOperation(tx, before.ownerId, { ...before, subjectId: before.id }, nowMs);
  await tx
    .updateTable('snapshot')
    .set({ ...changing(gone), listed: 0, dueAtMs: nowMs })
    .where('id', '=', gone.id)
    .execute();
}

/** Writes a reconcile's result. Returns false when superseded: drop the result. */
export async function writeReconciledSnapshot(tx: Db, lease: LeaseGuard, reconciled: Snapshot): Promise<boolean> {
  const result = await tx
    .updateTable('snapshot')
    .set(changing(reconciled))
    .where(isLeaseHeld(lease))
    .executeTakeFirst();
  return result.numUpdatedRows > 0n;
}
