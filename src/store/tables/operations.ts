/**
 * The subject's row has the current operation; history has superseded ones and those of deleted
 * subjects. An operation only moves from row to history: read the row first.
 */
import { sql } from 'kysely';
import type { Operation, OperationKind, SubjectKind } from '../../domain/compute/operation.ts';
import { bringUpKinds, endOperation, operationId, supersedeOperation } from '../../domain/compute/operation.ts';
import { isLeaseHeld, type LeaseGuard } from '../db/leases.ts';
import type { Snapshot } from '../../domain/storage/snapshot.ts';
import type { Volume, VolumeSourceKind } from '../../domain/storage/volume.ts';
import { prepared } from '../db/prepared.ts';
import type { Db } from '../store.ts';
import { labelledText } from './labelled-rows.ts';
import { parseOperation } from './json-schemas.ts';

export interface SubjectOperation {
  subjectId: string;
  generation: number;
  operation: Operation;
}

interface ArchivedOperation {
  id: string;
  accountId: string;
  subjectId: string;
  generation: number;
  kind: OperationKind;
  archivedAtMs: number;
  operation: string;
}

const insertArchived = prepared<ArchivedOperation>()((db, p) =>
  db.insertInto('operation').values({
    id: p('id'),
    accountId: p('accountId'),
    subjectId: p('subjectId'),
    generation: p('generation'),
    kind: p('kind'),
    archivedAtMs: p('archivedAtMs'),
    operation: p('operation'),
  }),
);

/** Moves the operation to the history; an unfinished one becomes Cancelled. */
export async function archiveOperation(
  tx: Db,
  accountId: string,
  { subjectId, generation, operation }: SubjectOperation,
  nowMs: number,
): Promise<void> {
  await insertArchived(tx, {
    id: operationId(subjectId, generation),
    accountId,
    subjectId,
    generation,
    kind: operation.kind,
    archivedAtMs: nowMs,
    operation: JSON.stringify(supersedeOperation(operation, nowMs)),
  });
}

/** Deletes a leased row with its labels; archives its operation as done. False when superseded. */
export async function deleteLeasedRow(
  tx: Db,
  table: VolumeSourceKind,
  lease: LeaseGuard,
  subject: Pick<Volume | Snapshot, 'id' | 'ownerId' | 'generation' | 'operation'>,
  nowMs: number,
): Promise<boolean> {
  const result = await tx.deleteFrom(table).where(isLeaseHeld(lease)).executeTakeFirst();
  if (result.numDeletedRows === 0n) return false;
  await tx.deleteFrom('label').where('subjectId', '=', subject.id).execute();
  const operation = endOperation(subject.operation, 'Succeeded', nowMs);
  await archiveOperation(tx, subject.ownerId, { ...subject, subjectId: subject.id, operation }, nowMs);
  return true;
}

export async function currentOperation(
  db: Db,
  kind: SubjectKind,
  accountId: string,
  subjectId: string,
): Promise<SubjectOperation | null> {
  const row = await db
    .selectFrom(kind)
    .select(['id', 'generation', 'operation'])
    .where('id', '=', subjectId)
    .where('ownerId', '=', accountId)
    .executeTakeFirst();
  return row?.operation
    ? { subjectId, generation: row.generation, operation: parseOperation(row.operation, kind, subjectId) }
    : null;
}

interface PastRow {
  subjectId: string;
  generation: number;
  operation: string;
}

const fromPast = ({ operation, ...row }: PastRow): SubjectOperation => ({
  ...row,
  operation: parseOperation(operation, 'operation', operationId(row.subjectId, row.generation)),
});

const past = (db: Db, accountId: string) =>
  db.selectFrom('operation').select(['subjectId', 'generation', 'operation']).where('accountId', '=', accountId);

export async function pastOperation(db: Db, accountId: string, id: string): Promise<SubjectOperation | null> {
  const row = await past(db, accountId).where('id', '=', id).executeTakeFirst();
  return row ? fromPast(row) : null;
}

export async function pastOperations(
  db: Db,
  accountId: string,
  subjectId: string,
  offset: number,
  limit: number,
): Promise<SubjectOperation[]> {
  const rows = await past(db, accountId)
    .where('subjectId', '=', subjectId)
    .orderBy('generation', 'desc')
    .limit(limit)
    .offset(offset)
    .execute();
  return rows.map(fromPast);
}

export async function countPastOperations(db: Db, accountId: string, subjectId: string): Promise<number> {
  const row = await db
    .selectFrom('operation')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('accountId', '=', accountId)
    .where('subjectId', '=', subjectId)
    .executeTakeFirstOrThrow();
  return row.count;
}

export async function pastBringUp(db: Db, accountId: string, subjectId: string): Promise<SubjectOperation | null> {
  const row = await past(db, accountId)
    .where('subjectId', '=', subjectId)
    .where('kind', 'in', bringUpKinds)
    .orderBy('generation', 'desc')
    .limit(1)
    .executeTakeFirst();
  return row ? fromPast(row) : null;
}

/** Public text and current operation of a listed instance, read together. */
export async function listedInstance(
  db: Db,
  accountId: string,
  id: string,
): Promise<(SubjectOperation & { publicText: string }) | null> {
  const row = await db
    .selectFrom('instance')
    .select([labelledText.as('publicText'), 'generation', 'operation'])
    .where('id', '=', id)
    .where('ownerId', '=', accountId)
    .where('listed', '=', sql.lit(1))
    .executeTakeFirst();
  return row ? { ...row, subjectId: id, operation: parseOperation(row.operation, 'instance', id) } : null;
}

/** Deletes the oldest history before `beforeMs`, at most `limit`; returns how many. */
export async function deleteOperationsBefore(tx: Db, beforeMs: number, limit: number): Promise<number> {
  const gone = await tx
    .deleteFrom('operation')
    .where('id', 'in', (from) =>
      from
        .selectFrom('operation')
        .select('id')
        .where('archivedAtMs', '<', beforeMs)
        .orderBy('archivedAtMs')
        .limit(limit),
    )
    .executeTakeFirst();
  return Number(gone.numDeletedRows);
}
