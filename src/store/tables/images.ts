/** Images of accounts; the operator's, in the same table with `ownerId` null: `catalog.ts`. */
import type { Selectable } from 'kysely';
import { beginOperation, endOperation, type Operation } from '../../domain/compute/operation.ts';
import { type Image, ownImageStates, type OwnImageState } from '../../domain/regions/catalog.ts';
import { locking } from '../db/dialect.ts';
import { isLeaseHeld, type LeaseGuard } from '../db/leases.ts';
import { unknownImage } from '../../domain/regions/image-facts.ts';
import { imageFromRow } from './catalog.ts';
import { encodeKnownImage } from './image-facts.ts';
import { archiveOperation } from './operations.ts';
import type { ImageTable } from '../db/schema.ts';
import { oneOf, parseJson } from '../db/columns.ts';
import type { Db } from '../store.ts';
import { parseOperation, specWithImage } from './json-schemas.ts';

export type ImageRow = Selectable<ImageTable>;

export interface OwnImage extends Image {
  state: OwnImageState;
  stateText: string;
  sizeBytes: number;
  regionId: string | null;
  fromInstanceId: string | null;
}

export function ownImageFromRow(row: ImageRow): OwnImage {
  const { stateText, sizeBytes, regionId, fromInstanceId } = row;
  return {
    ...imageFromRow(row),
    state: oneOf(ownImageStates, row.state),
    stateText,
    sizeBytes,
    regionId,
    fromInstanceId,
  };
}

export interface NewOwnImage {
  id: string;
  ownerId: string;
  name: string;
  ref: string;
  architecture: string;
  tags: readonly string[];
  type: string;
  createdAtMs: number;
  from: { instanceId: string; regionId: string; operation: Operation } | null;
  /** Registered while its registry was away. */
  unchecked: { text: string; againAtMs: number | null } | null;
  digest: string;
}

export async function insertOwnImage(tx: Db, image: NewOwnImage): Promise<void> {
  const { from, tags, unchecked, digest, ...facts } = image;
  await tx
    .insertInto('image')
    .values({
      ...facts,
      tags: JSON.stringify(tags),
      isPublic: 0,
      inCatalog: 0,
      state: from === null ? 'Ready' : 'Saving',
      fromInstanceId: from?.instanceId ?? null,
      regionId: from?.regionId ?? null,
      operation: from === null ? null : JSON.stringify(from.operation),
      stateText: unchecked?.text ?? '',
      facts: digest === '' ? null : encodeKnownImage({ ...unknownImage, registryDigest: digest }),
      dueAtMs: from === null ? (unchecked?.againAtMs ?? null) : facts.createdAtMs,
    })
    .execute();
}

export const ownImageRows = (db: Db, ownerId: string, offset: number, limit: number): Promise<ImageRow[]> =>
  db
    .selectFrom('image')
    .selectAll()
    .where('ownerId', '=', ownerId)
    .where('state', '!=', 'Deleting')
    .orderBy('createdAtMs')
    .orderBy('id')
    .limit(limit)
    .offset(offset)
    .execute();

export async function countOwnImages(db: Db, ownerId: string): Promise<number> {
  const row = await db
    .selectFrom('image')
    .select(({ fn }) => fn.countAll<number>().as('images'))
    .where('ownerId', '=', ownerId)
    .where('state', '!=', 'Deleting')
    .executeTakeFirstOrThrow();
  return row.images;
}

/** Locks the image until the transaction ends: a launch and a deletion run one after the other. */
export const lockOwnImage = (tx: Db, ownerId: string, id: string): Promise<ImageRow | undefined> =>
  locking(tx, presentOf(tx, ownerId).where('id', '=', id)).executeTakeFirst();

export const lockOwnImageByRef = (tx: Db, ownerId: string, ref: string): Promise<ImageRow | undefined> =>
  locking(tx, presentOf(tx, ownerId).where('ref', '=', ref)).executeTakeFirst();

const presentOf = (tx: Db, ownerId: string) =>
  tx.selectFrom('image').selectAll().where('ownerId', '=', ownerId).where('state', '!=', 'Deleting');

/** Ids of instances that need the image: not released and without an archived root disk. */
export async function instancesUsingImage(db: Db, ownerId: string, id: string): Promise<string[]> {
  const rows = await db
    .selectFrom('instance')
    .select(['id', 'spec'])
    .where('ownerId', '=', ownerId)
    .where('desired', '!=', 'released')
    .where('archive', 'is', null)
    .where('spec', 'like', `%${id}%`)
    .execute();
  return rows.flatMap((row) => {
    const spec = parseJson(specWithImage, row.spec, { table: 'instance', id: row.id, column: 'spec' });
    return spec.image.id === id ? [row.id] : [];
  });
}

/** Ends launches from the image; the reconciler removes it from the engine. */
export async function requestImageDeletion(
  tx: Db,
  { id, generation, operation }: { id: string; generation: number; operation: Operation },
  nowMs: number,
): Promise<void> {
  const deletion = { state: 'Deleting', stateText: '', operation: JSON.stringify(operation), attempts: 0, generation };
  await tx
    .updateTable('image')
    .set({ ...deletion, dueAtMs: nowMs })
    .where('id', '=', id)
    .execute();
}

/** Returns the generation of the operation. */
export async function requestRefresh(tx: Db, row: ImageRow, nowMs: number): Promise<number> {
  const { id, ownerId, generation, operation } = row;
  if (ownerId !== null && operation !== null) {
    const before = { subjectId: id, generation, operation: parseOperation(operation, 'image', id) };
    await archiveOperation(tx, ownerId, before, nowMs);
  }
  const next = { generation: generation + 1, operation: JSON.stringify(beginOperation('refreshImage', 'user', nowMs)) };
  await tx
    .updateTable('image')
    .set({ ...next, attempts: 0, dueAtMs: nowMs })
    .where('id', '=', id)
    .execute();
  return next.generation;
}

export async function deleteOwnImageRow(tx: Db, id: string): Promise<void> {
  await tx.deleteFrom('image').where('id', '=', id).execute();
}

/** Writes a reconcile's result. Returns false when superseded: drop the result. */
export async function writeReconciledImage(
  tx: Db,
  lease: LeaseGuard,
  changes: Partial<Pick<ImageRow, 'state' | 'stateText' | 'sizeBytes' | 'attempts' | 'operation'>>,
): Promise<boolean> {
  const result = await tx.updateTable('image').set(changes).where(isLeaseHeld(lease)).executeTakeFirst();
  return result.numUpdatedRows === 1n;
}

export async function deleteLeasedImageRow(
  tx: Db,
  lease: LeaseGuard,
  { ownerId, operation }: Pick<ImageRow, 'ownerId' | 'operation'>,
  nowMs: number,
): Promise<boolean> {
  const result = await tx.deleteFrom('image').where(isLeaseHeld(lease)).executeTakeFirst();
  if (result.numDeletedRows === 0n) return false;
  if (ownerId === null || operation === null) return true;
  const done = endOperation(parseOperation(operation, 'image', lease.id), 'Succeeded', nowMs);
  await archiveOperation(tx, ownerId, { subjectId: lease.id, generation: lease.generation, operation: done }, nowMs);
  return true;
}
