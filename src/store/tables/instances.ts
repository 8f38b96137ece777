/** Instances. Every change of a row writes the row's public text in the same statement. */
import { sql, type RawBuilder } from 'kysely';
import type { Region } from '../../domain/regions/catalog.ts';
import type { DiskUsage } from '../../domain/storage/disk.ts';
import type { InstanceId } from '../../domain/kernel/ids.ts';
import { heldMounts } from '../../domain/compute/instance-change.ts';
import type { InstanceSort } from '../../domain/kernel/list-sorts.ts';
import type { Instance, InstanceSpec } from '../../domain/compute/instance.ts';
import type { InstanceStatus } from '../../domain/compute/instance-states.ts';
import { publicInstance } from '../../domain/compute/public-instance.ts';
import { encodeFlag, keysOf, type Flag } from '../db/columns.ts';
import { isSqlite, lockedById, locking } from '../db/dialect.ts';
import { isLeaseHeld, type LeaseGuard } from '../db/leases.ts';
import { count, parameters, prepared } from '../db/prepared.ts';
import type { Db } from '../store.ts';
import {
  encodeColumn,
  insertColumns,
  instanceColumnNames,
  instanceFromRow,
  reconcileColumns,
  reconciledColumnNames,
  requestColumns,
  revisionColumns,
  specColumns,
  type InstanceRow,
} from './instance-columns.ts';
import { followActs } from './due-acts.ts';
import { labelledText, matches, type ListFilter } from './labelled-rows.ts';
import { inOrder, orderOf } from './list-order.ts';
import { archiveOperation } from './operations.ts';

export { instanceFromRow, type InstanceRow };

const atInsert = {
  portAccess: '{}',
  wake: '{}',
  labels: null,
  listed: 1 as const,
  releasedAtMs: null,
  leaseOwner: null,
  leaseToken: null,
  leaseUntilMs: null,
};

const insertRow = prepared<InstanceRow>()((db, p) =>
  db
    .insertInto('instance')
    .values(
      parameters(p, [
        ...instanceColumnNames,
        ...keysOf(atInsert),
        'regionId',
        'notebookToken',
        'dueAtMs',
        'holdsCapacity',
      ]),
    ),
);

export async function insertInstance(
  tx: Db,
  instance: Instance,
  region: Region,
  columns: { notebookToken: string; dueAtMs: number | null; holdsCapacity?: boolean },
): Promise<void> {
  await insertRow(tx, {
    ...insertColumns(instance, region),
    ...atInsert,
    regionId: region.id,
    notebookToken: columns.notebookToken,
    dueAtMs: columns.dueAtMs,
    holdsCapacity: encodeFlag(
      columns.holdsCapacity ?? (instance.waitsSinceMs === null && instance.notBeforeMs === null),
    ),
  });
  await insertMounts(tx, instance);
  await followActs(tx, null, instance);
}

async function insertMounts(tx: Db, instance: Instance): Promise<void> {
  const mounts = heldMounts(instance);
  if (mounts.length === 0) return;
  const rows = mounts.map(({ volumeId: volume, mountPath }) => ({
    instanceId: instance.id,
    volumeId: volume,
    mountPath,
  }));
  await tx.insertInto('mount').values(rows).execute();
}

/** Stores which volumes the instance mounts, now or later. */
export async function rewriteMounts(tx: Db, instance: Instance): Promise<void> {
  await deleteMountsOf(tx, instance.id);
  await insertMounts(tx, instance);
}

export const instanceRow = (db: Db, id: string): Promise<InstanceRow | undefined> =>
  db.selectFrom('instance').selectAll().where('id', '=', id).executeTakeFirst();

export const ownedInstanceRow = (db: Db, ownerId: string, id: string): Promise<InstanceRow | undefined> =>
  db
    .selectFrom('instance')
    .selectAll()
    .where('id', '=', id)
    .where('ownerId', '=', ownerId)
    .where('desired', '!=', 'released')
    .executeTakeFirst();

/** Locks the owner's instance, unless released, until the transaction ends. */
export const lockInstance = (tx: Db, ownerId: string, id: string): Promise<InstanceRow | undefined> =>
  lockedRow(tx, ownerId, id).where('desired', '!=', 'released').executeTakeFirst();

const lockedRow = (tx: Db, ownerId: string, id: string) =>
  locking(tx, tx.selectFrom('instance').selectAll().where('id', '=', id).where('ownerId', '=', ownerId));

const page = prepared<{ ownerId: string; offset: number; limit: number }>()((db, p) =>
  db
    .selectFrom(
      db
        .selectFrom('instance')
        .select([labelledText.as('publicText'), 'createdAtMs', 'id'])
        .where('ownerId', '=', p('ownerId'))
        .where('listed', '=', sql.lit(1))
        .orderBy('createdAtMs', 'desc')
        .orderBy('id', 'desc')
        .limit(count(p('limit')))
        .offset(count(p('offset')))
        .as('page'),
    )
    .select((eb) => [
      joinedTexts(db).as('joined'),
      eb.selectFrom('account').select('instanceCount').where('id', '=', p('ownerId')).as('total'),
    ]),
);

/**
 * Joins the texts in the query: node:sqlite takes 5 µs for a non-ASCII string of 2 KB, 1 µs for
 * its bytes. The aggregate follows the subquery's order; an own `order by` would sort again, for a
 * third of the query's time. The test of the list's order guards this.
 */
const joinedTexts = (db: Db): RawBuilder<Uint8Array | string | null> =>
  isSqlite(db)
    ? sql<Uint8Array | null>`cast(group_concat("publicText", ',') as blob)`
    : sql<string | null>`string_agg("publicText", ',' order by "createdAtMs" desc, id desc)`;

/** A page of the owner's list, newest first, and the number of all listed instances. */
export async function instancePage(
  db: Db,
  ownerId: string,
  offset: number,
  limit: number,
): Promise<{ texts: (string | Uint8Array)[]; totalEntries: number }> {
  const [row] = await page(db, { ownerId, offset: Math.min(offset, Number.MAX_SAFE_INTEGER), limit });
  return { texts: row?.joined ? [row.joined] : [], totalEntries: row?.total ?? 0 };
}

export interface InstanceFilter extends ListFilter {
  status?: readonly InstanceStatus[] | undefined;
  withoutReleased?: boolean | undefined;
  sort?: InstanceSort | undefined;
}

/** A page of the listed instances that match, and their number. */
export async function filteredInstancePage(
  db: Db,
  ownerId: string,
  { status, withoutReleased = false, sort, ...filter }: InstanceFilter,
  { offset, limit }: { offset: number; limit: number },
): Promise<{ texts: string[]; totalEntries: number }> {
  let matching = db
    .selectFrom('instance')
    .where('ownerId', '=', ownerId)
    .where('listed', '=', sql.lit(1))
    .where(matches(db, ownerId, filter));
  if (status !== undefined) matching = matching.where('status', 'in', status);
  if (withoutReleased) matching = matching.where('status', '<>', 'Released');
  const order = orderOf(sort);
  const page = { limit, offset: Math.min(offset, Number.MAX_SAFE_INTEGER) };
  const texts = sort
    ? db.selectFrom('instance').where('id', 'in', inOrder(matching.select('id'), order, page))
    : matching.limit(page.limit).offset(page.offset);
  const [counted, rows] = await Promise.all([
    matching.select((eb) => eb.fn.countAll<number>().as('total')).executeTakeFirst(),
    inOrder(texts.select(labelledText.as('text')), order).execute(),
  ]);
  return { texts: rows.map(({ text }) => text), totalEntries: counted?.total ?? 0 };
}

/** Writes a desired state over a locked row, leased or not, and archives the former operation. */
export async function writeDesiredState(
  tx: Db,
  before: Instance,
  instance: Instance,
  region: Region,
  columns: { dueAtMs: number; holdsCapacity: boolean; releasedAtMs: number | null },
): Promise<void> {
  await archiveOperation(tx, instance.ownerId, { ...before, subjectId: instance.id }, instance.requestedAtMs);
  await tx
    .updateTable('instance')
    .set({
      ...requestColumns(instance, region),
      dueAtMs: columns.dueAtMs,
      holdsCapacity: encodeFlag(columns.holdsCapacity),
      releasedAtMs: columns.releasedAtMs,
    })
    .where('id', '=', instance.id)
    .execute();
  await followActs(tx, before, instance);
}

type Reconciled = ReturnType<typeof reconcileColumns>;

const updateReconciled = prepared<
  Reconciled & Omit<LeaseGuard, 'generation'> & { holding: Flag | null; leasedGeneration: number; rowRevision: number }
>()((db, p) =>
  db
    .updateTable('instance')
    .set({
      ...parameters<Reconciled>(p, reconciledColumnNames),
      holdsCapacity: sql<Flag>`coalesce(${p('holding')}, "holdsCapacity")`,
    })
    .where('id', '=', p('id'))
    .where('leaseToken', '=', p('leaseToken'))
    .where('generation', '=', p('leasedGeneration'))
    .where('revision', '=', p('rowRevision'))
    .returning('id'),
);

/**
 * Writes a reconcile's result; null when superseded: drop the result. When the owner has changed
 * the row since the read, writes again with the row's name, pending change and stop policy.
 */
export async function writeReconciledInstance(
  tx: Db,
  lease: LeaseGuard,
  { before, after: reconciled }: { before: Instance; after: Instance },
  region: Region,
  columns: { holdsCapacity?: boolean } = {},
): Promise<Instance | null> {
  let [stored, instance] = [before, reconciled];
  for (;;) {
    const written = await updateReconciled(tx, {
      ...reconcileColumns(instance, region),
      holding: columns.holdsCapacity === undefined ? null : encodeFlag(columns.holdsCapacity),
      id: lease.id,
      leaseToken: lease.leaseToken,
      leasedGeneration: lease.generation,
      rowRevision: instance.revision,
    });
    if (written.length > 0) {
      await followActs(tx, stored, instance);
      return instance;
    }
    const row = await tx.selectFrom('instance').selectAll().where(isLeaseHeld(lease)).executeTakeFirst();
    if (!row || row.revision === instance.revision) return null;
    const { spec, pending, stopPolicy, windowEndsAtMs, reclaimAtMs, revision } = (stored = instanceFromRow(row));
    instance = { ...reconciled, spec, pending, stopPolicy, windowEndsAtMs, reclaimAtMs, revision };
  }
}

/** Writes usage that `measure` computes from the row; returns false during a reconcile. */
export async function writeDiskUsage(
  tx: Db,
  { id, ownerId }: Pick<Instance, 'id' | 'ownerId'>,
  region: Region,
  measure: (instance: Instance) => Promise<DiskUsage | null>,
): Promise<boolean> {
  const row = await lockedRow(tx, ownerId, id).executeTakeFirst();
  if (!row) return true;
  if (row.leaseOwner !== null) return false;
  const instance = instanceFromRow(row);
  const diskUsage = await measure(instance);
  if (diskUsage === null) return true;
  const publicText = JSON.stringify(publicInstance({ ...instance, diskUsage }, region));
  await tx
    .updateTable('instance')
    .set({ diskUsage: encodeColumn('diskUsage', diskUsage), publicText })
    .where('id', '=', id)
    .execute();
  return true;
}

/** Writes what the owner changed while the generation stays: reconciles keep it. */
export async function writeRevision(tx: Db, before: Instance, instance: Instance, region: Region): Promise<void> {
  await tx
    .updateTable('instance')
    .set(revisionColumns({ ...instance, revision: instance.revision + 1 }, region))
    .where('id', '=', instance.id)
    .execute();
  await followActs(tx, before, instance);
}

/** Changes the requested spec within a reconcile, after its write of the row. */
export async function changeSpec(
  tx: Db,
  id: InstanceId,
  region: Region,
  change: (spec: InstanceSpec) => InstanceSpec,
): Promise<void> {
  const row = await tx.selectFrom('instance').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
  const instance = instanceFromRow(row);
  const columns = specColumns({ ...instance, spec: change(instance.spec) }, region);
  await tx.updateTable('instance').set(columns).where('id', '=', id).execute();
}

/** Announces a stop, or takes an announcement back: a new revision, which the files follow. */
export async function writeNotice(
  tx: Db,
  before: Instance,
  notice: { windowEndsAtMs: number | null } | { reclaimAtMs: number },
  nowMs: number,
): Promise<void> {
  const columns = { ...notice, revision: before.revision + 1, filesStale: 1, dueAtMs: nowMs } as const;
  await tx.updateTable('instance').set(columns).where('id', '=', before.id).execute();
  await followActs(tx, before, { ...before, ...notice });
}

export async function deleteMountsOf(tx: Db, instance: string): Promise<void> {
  await tx.deleteFrom('mount').where('instanceId', '=', instance).execute();
}

export async function makeDue(tx: Db, ids: readonly string[], nowMs: number): Promise<void> {
  if (ids.length === 0) return;
  const which = lockedById(tx, 'instance', sql`id in (${sql.join(ids)})`);
  await tx.updateTable('instance').set({ dueAtMs: nowMs }).where(which).execute();
}

/**
 * Marks files of running instances as stale: of an owner, of one instance, or of all. Returns their
 * number. The generation stays: launches continue.
 */
export async function markFilesStale(tx: Db, of: { ownerId?: string; id?: string }, nowMs: number): Promise<number> {
  let query = tx.updateTable('instance').set({ dueAtMs: nowMs, filesStale: 1 }).where('desired', '=', 'running');
  if (of.ownerId !== undefined) query = query.where('ownerId', '=', of.ownerId);
  if (of.id !== undefined) query = query.where('id', '=', of.id);
  const { numUpdatedRows } = await query.executeTakeFirst();
  return Number(numUpdatedRows);
}

export const notebookTokensAfter = (
  db: Db,
  afterId: string,
  limit: number,
): Promise<Pick<InstanceRow, 'id' | 'notebookToken'>[]> =>
  db
    .selectFrom('instance')
    .select(['id', 'notebookToken'])
    .where('id', '>', afterId)
    .orderBy('id')
    .limit(limit)
    .execute();

export async function replaceNotebookToken(tx: Db, id: string, notebookToken: string, nowMs: number): Promise<void> {
  await tx.updateTable('instance').set({ notebookToken }).where('id', '=', id).execute();
  await markFilesStale(tx, { id }, nowMs);
}

export async function setFilesStale(tx: Db, id: string, stale: boolean): Promise<void> {
  await tx
    .updateTable('instance')
    .set({ filesStale: encodeFlag(stale) })
    .where('id', '=', id)
    .execute();
}

export async function makeMountersDue(tx: Db, volume: string, nowMs: number): Promise<void> {
  await tx
    .updateTable('instance')
    .set({ dueAtMs: nowMs })
    .where('id', 'in', tx.selectFrom('mount').select('instanceId').where('volumeId', '=', volume))
    .where('desired', '=', 'running')
    .execute();
}

export async function unlistReleased(
  tx: Db,
  releasedBeforeMs: number,
  limit: number,
): Promise<{ id: string; ownerId: string }[]> {
  return (
    tx
      .updateTable('instance')
      .set({ listed: 0 })
      // Repeated for PostgreSQL: counts a row once when two processes unlist it.
      .where('listed', '=', sql.lit(1))
      .where('id', 'in', (from) =>
        from
          .selectFrom('instance')
          .select('id')
          .where('listed', '=', sql.lit(1))
          .where('releasedAtMs', '<=', releasedBeforeMs)
          .limit(limit),
      )
      .returning(['id', 'ownerId'])
      .execute()
  );
}

/**
 * Deletes instances that are unlisted and were released earlier, with their labels, a page at a
 * time. Those that paid ahead stay: exports name a purchase by its instance. Returns how many.
 */
export async function deleteReleased(tx: Db, releasedBeforeMs: number, limit: number): Promise<number> {
  const other = tx
    .selectFrom('entry')
    .select('entry.id')
    .where('subjectId', '=', sql.ref<string>('instance.id'))
    .where('kind', '<>', sql.lit('charge'));
  const rows = await tx
    .selectFrom('instance')
    .select('id')
    .where('listed', '=', sql.lit(0))
    .where('releasedAtMs', '<=', releasedBeforeMs)
    .where('dueAtMs', 'is', null)
    .where((where) => where.not(where.exists(other)))
    .orderBy('releasedAtMs')
    .limit(limit)
    .execute();
  const ids = rows.map(({ id }) => id);
  if (ids.length === 0) return 0;
  await tx.deleteFrom('label').where('subjectId', 'in', ids).execute();
  await tx.deleteFrom('instance').where('id', 'in', ids).execute();
  return ids.length;
}

export const publicTextOf = (row: InstanceRow, region: Region): string =>
  JSON.stringify(publicInstance(instanceFromRow(row), region));

/** Writes the public text again after a change of the region's facts. False: it is the same. */
export async function refreshPublicText(
  tx: Db,
  { id, ownerId }: Pick<InstanceRow, 'id' | 'ownerId'>,
  region: Region,
): Promise<boolean> {
  const row = await lockedRow(tx, ownerId, id).executeTakeFirst();
  if (!row) return false;
  const publicText = publicTextOf(row, region);
  if (publicText === row.publicText) return false;
  await tx.updateTable('instance').set({ publicText }).where('id', '=', id).execute();
  return true;
}
