/** Orphans, and the rows that explain objects on an engine. */
import type { Selectable } from 'kysely';
import {
  isConfirmed,
  orphanHandlings,
  orphanKinds,
  addWatchedTime,
  type Orphan,
  type OrphanHandling,
  type OrphanKind,
} from '../../domain/compute/orphan.ts';
import { encodeFlag, oneOf } from '../db/columns.ts';
import type { OrphanTable } from '../db/schema.ts';
import type { Db } from '../store.ts';
import { decodeColumn } from './instance-columns.ts';

export interface Intent {
  id: string;
  desired: string;
  status: string;
  rootDisk: string;
  /** Not due and not leased. */
  idle: boolean;
  /** Refs of the archive, of archives to remove, and of unfinished ones. */
  retainedRefs: string[];
}

export async function intentsAmong(db: Db, ids: readonly string[]): Promise<Intent[]> {
  if (ids.length === 0) return [];
  const rows = await db
    .selectFrom('instance')
    .select(['id', 'desired', 'status', 'rootDisk', 'dueAtMs', 'archive', 'unfinished'])
    .where('id', 'in', ids)
    .execute();
  return rows.map(({ dueAtMs, archive, unfinished, ...row }) => {
    const saved = decodeColumn('archive', archive, row.id);
    const open = decodeColumn('unfinished', unfinished, row.id);
    const retainedRefs = saved === null ? open : [saved.ref, ...saved.replaces, ...open];
    return { ...row, idle: dueAtMs === null, retainedRefs };
  });
}

export async function ownersWithInstances(db: Db, ownerIds: readonly string[]): Promise<Set<string>> {
  if (ownerIds.length === 0) return new Set();
  const rows = await db
    .selectFrom('instance')
    .select('ownerId')
    .distinct()
    .where('ownerId', 'in', ownerIds)
    .where((where) => where.or([where('desired', '!=', 'released'), where('dueAtMs', 'is not', null)]))
    .execute();
  return new Set(rows.map(({ ownerId }) => ownerId));
}

/** Refs of images in the catalog with one of these names or saved from one of these instances. */
export async function imageRefsAmong(
  db: Db,
  { refs, instanceIds }: { refs: readonly string[]; instanceIds: readonly string[] },
): Promise<string[]> {
  if (refs.length === 0) return [];
  // Two queries, each with its own index: an `or` would read the whole table.
  const images = db.selectFrom('image').select('ref');
  const named = await images.where('ref', 'in', refs).execute();
  const saved = await images.where('fromInstanceId', 'in', instanceIds).execute();
  return [...named, ...saved].map(({ ref }) => ref);
}

const orphanFromRow = ({ kind, handling, running, ...row }: Selectable<OrphanTable>): Orphan => ({
  ...row,
  kind: oneOf(orphanKinds, kind),
  handling: oneOf(orphanHandlings, handling),
  running: running === 1,
});

const rowOf = (orphan: Orphan): Selectable<OrphanTable> => ({ ...orphan, running: encodeFlag(orphan.running) });

export async function orphansOf(db: Db, regionId: string): Promise<Orphan[]> {
  const rows = await db.selectFrom('orphan').selectAll().where('regionId', '=', regionId).orderBy('id').execute();
  return rows.map(orphanFromRow);
}

/** Confirmed orphans of all regions, with the account name of their label ('' without). */
export async function confirmedOrphans(db: Db): Promise<{ orphan: Orphan; ownerName: string }[]> {
  const rows = await db
    .selectFrom('orphan')
    .leftJoin('account', 'account.id', 'orphan.ownerId')
    .selectAll('orphan')
    .select('account.username as ownerName')
    .where('watchedMs', '>', 0)
    .orderBy('firstSeenAtMs')
    .orderBy('orphan.id')
    .execute();
  return rows.map(({ ownerName, ...row }) => ({ orphan: orphanFromRow(row), ownerName: ownerName ?? '' }));
}

export async function orphanById(db: Db, id: string): Promise<Orphan | undefined> {
  const row = await db.selectFrom('orphan').selectAll().where('id', '=', id).executeTakeFirst();
  return row && orphanFromRow(row);
}

export type OrphanObservation = Omit<Orphan, 'firstSeenAtMs' | 'lastSeenAtMs' | 'watchedMs' | 'handling' | 'note'>;

const AT_ONCE = 50;

/** Records a region's observed orphans of these kinds; returns those observed a second time. */
export async function recordOrphans(
  tx: Db,
  { regionId, kinds }: { regionId: string; kinds: readonly OrphanKind[] },
  observations: readonly OrphanObservation[],
  nowMs: number,
): Promise<Orphan[]> {
  const observed = observations.toSorted((observation, other) => (observation.id < other.id ? -1 : 1));
  const stored = (await orphansOf(tx, regionId)).filter(({ kind }) => kinds.includes(kind));
  const before = new Map(stored.map((orphan) => [orphan.id, orphan]));
  // Same name but another creation time: another object.
  const previousOf = (observation: OrphanObservation): Orphan | undefined => {
    const previous = before.get(observation.id);
    return previous?.createdAtMs === observation.createdAtMs ? previous : undefined;
  };
  const retained = new Set(observed.filter(previousOf).map(({ id }) => id));
  await deleteOrphans(
    tx,
    [...before.keys()].filter((id) => !retained.has(id)),
  );
  const fresh = observed.filter((observation) => !previousOf(observation));
  for (let from = 0; from < fresh.length; from += AT_ONCE) {
    const rows = fresh.slice(from, from + AT_ONCE).map((observation) =>
      rowOf({
        ...observation,
        firstSeenAtMs: nowMs,
        lastSeenAtMs: nowMs,
        watchedMs: 0,
        handling: 'policy',
        note: '',
      }),
    );
    await tx
      .insertInto('orphan')
      .values(rows)
      .onConflict((conflict) => conflict.doNothing())
      .execute();
  }
  const confirmed: Orphan[] = [];
  for (const observation of observed) {
    const previous = previousOf(observation);
    if (!previous) continue;
    const watchedMs = addWatchedTime(previous, nowMs);
    await tx
      .updateTable('orphan')
      .set({ running: encodeFlag(observation.running), lastSeenAtMs: nowMs, watchedMs })
      .where('id', '=', observation.id)
      .execute();
    if (!isConfirmed(previous)) confirmed.push({ ...previous, ...observation, lastSeenAtMs: nowMs, watchedMs });
  }
  return confirmed;
}

export async function setOrphanHandling(
  tx: Db,
  id: string,
  change: { from: readonly OrphanHandling[]; to: OrphanHandling; note: string },
): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('orphan')
    .set({ handling: change.to, note: change.note })
    .where('id', '=', id)
    .where('handling', 'in', change.from)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

export async function setOrphanNote(tx: Db, id: string, note: string): Promise<void> {
  await tx.updateTable('orphan').set({ note }).where('id', '=', id).execute();
}

/** Deletes the row unless the orphan is being deleted; true for one caller only. */
export async function claimOrphan(tx: Db, id: string): Promise<boolean> {
  const { numDeletedRows } = await tx
    .deleteFrom('orphan')
    .where('id', '=', id)
    .where('handling', '!=', 'delete')
    .executeTakeFirst();
  return numDeletedRows > 0n;
}

const FORGET_AT_ONCE = 500;

export async function deleteOrphans(tx: Db, ids: readonly string[]): Promise<void> {
  for (let from = 0; from < ids.length; from += FORGET_AT_ONCE)
    await tx
      .deleteFrom('orphan')
      .where('id', 'in', ids.slice(from, from + FORGET_AT_ONCE))
      .execute();
}
