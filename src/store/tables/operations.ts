/**
 * Operations: the present one is in the row of its subject and is written with it; what another wish has followed, or whose subject is
 * gone, is history. Whoever reads one asks the row first and the history then: it moves that way alone, so it is found in one of them.
 */
import type { Operation, OperationKind } from '../../domain/operation.ts';
import { bringUpKinds, operationId, supersedeOperation } from '../../domain/operation.ts';
import { prepared } from '../db/prepared.ts';
import type { Db } from '../store.ts';
import { parseOperation } from './json-schemas.ts';

/** An operation, and the wish of which subject it is. */
export interface SubjectOperation {
  subjectId: string;
  generation: number;
  operation: Operation;
}

/** What operations are of: the tables whose rows hold a present one. */
export const subjectKinds = ['instance', 'volume', 'snapshot', 'image'] as const;
export type SubjectKind = (typeof subjectKinds)[number];

interface Kept {
  id: string;
  accountId: string;
  subjectId: string;
  generation: number;
  kind: OperationKind;
  archivedAtMs: number;
  operation: string;
}

const insertKept = prepared<Kept>()((db, p) =>
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

/**
 * Makes the present operation history, in the transaction that writes another wish over the row or drops it: one that had not ended
 * is Cancelled.
 */
export async function archiveOperation(
  tx: Db,
  accountId: string,
  { subjectId, generation, operation }: SubjectOperation,
  nowMs: number,
): Promise<void> {
  await insertKept(tx, {
    id: operationId(subjectId, generation),
    accountId,
    subjectId,
    generation,
    kind: operation.kind,
    archivedAtMs: nowMs,
    operation: JSON.stringify(supersedeOperation(operation, nowMs)),
  });
}

/** The present operation of the account's own instance, volume, snapshot or image; null where there is none. */
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

/** Newest first. */
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

/** How many there are of one subject: as many as it had wishes in the time that history is kept. */
export async function countPastOperations(db: Db, accountId: string, subjectId: string): Promise<number> {
  const row = await db
    .selectFrom('operation')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('accountId', '=', accountId)
    .where('subjectId', '=', subjectId)
    .executeTakeFirstOrThrow();
  return row.count;
}

/** The latest of the past that brought the instance up, or was to. */
export async function pastBringUp(db: Db, accountId: string, subjectId: string): Promise<SubjectOperation | null> {
  const row = await past(db, accountId)
    .where('subjectId', '=', subjectId)
    .where('kind', 'in', bringUpKinds)
    .orderBy('generation', 'desc')
    .limit(1)
    .executeTakeFirst();
  return row ? fromPast(row) : null;
}

/** The public text of an instance that lists show, and its present operation, read together. */
export async function listedInstance(
  db: Db,
  accountId: string,
  id: string,
): Promise<(SubjectOperation & { publicText: string }) | null> {
  const row = await db
    .selectFrom('instance')
    .select(['publicText', 'generation', 'operation'])
    .where('id', '=', id)
    .where('ownerId', '=', accountId)
    .where('listed', '=', 1)
    .executeTakeFirst();
  return row ? { ...row, subjectId: id, operation: parseOperation(row.operation, 'instance', id) } : null;
}

/** Forgets what has been history since before then, at most `limit`, oldest first; answers how many. Call again while it is `limit`. */
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
