/** Instances: rows to domain and back. Every change of a row writes its public text in the same statement. */
import { sql, type RawBuilder } from 'kysely';
import type { Region } from '../../domain/catalog.ts';
import type { DiskUsage } from '../../domain/disk.ts';
import type { Instance } from '../../domain/instance.ts';
import { publicInstance } from '../../domain/public-instance.ts';
import { encodeFlag, keysOf } from '../db/columns.ts';
import { isLeaseHeld } from '../db/leases.ts';
import { count, parameters, prepared } from '../db/prepared.ts';
import type { Flag } from '../db/schema.ts';
import type { Db } from '../store.ts';
import {
  decodeColumn,
  encodeColumn,
  insertColumns,
  instanceColumnNames,
  instanceFromRow,
  reconcileColumns,
  reconciledColumnNames,
  requestColumns,
  type InstanceRow,
} from './instance-columns.ts';
import { archiveOperation } from './operations.ts';

export { instanceFromRow, type InstanceRow };

/** What proves that a pass still holds the row as it read it: lease and generation. */
export interface LeaseGuard {
  id: string;
  leaseToken: string;
  generation: number;
}

/** What a new row begins with, beside the instance's own columns. */
const atInsert = {
  portAccess: '{}',
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
  more: { notebookToken: string; dueAtMs: number | null; holdsCapacity?: boolean },
): Promise<void> {
  await insertRow(tx, {
    ...insertColumns(instance, region),
    ...atInsert,
    regionId: region.id,
    notebookToken: more.notebookToken,
    dueAtMs: more.dueAtMs,
    holdsCapacity: encodeFlag(more.holdsCapacity ?? instance.waitsSinceMs === null),
  });
  if (instance.spec.mounts.length === 0) return;
  await tx
    .insertInto('mount')
    .values(
      instance.spec.mounts.map(({ volumeId: volume, mountPath }) => ({
        instanceId: instance.id,
        volumeId: volume,
        mountPath,
      })),
    )
    .execute();
}

export const instanceRow = (db: Db, id: string): Promise<InstanceRow | undefined> =>
  db.selectFrom('instance').selectAll().where('id', '=', id).executeTakeFirst();

/** The owner's own instance that is not released. */
export const ownedInstanceRow = (db: Db, ownerId: string, id: string): Promise<InstanceRow | undefined> =>
  db
    .selectFrom('instance')
    .selectAll()
    .where('id', '=', id)
    .where('ownerId', '=', ownerId)
    .where('desired', '!=', 'released')
    .executeTakeFirst();

/**
 * The same, held by its row until the transaction ends: passes and other wishes come before or after, never between what is read
 * here and what is written over it. In which order rows are held is in `store.ts`.
 */
export const lockInstance = (tx: Db, ownerId: string, id: string): Promise<InstanceRow | undefined> =>
  heldRow(tx, ownerId, id).where('desired', '!=', 'released').executeTakeFirst();

const heldRow = (tx: Db, ownerId: string, id: string) =>
  tx
    .updateTable('instance')
    .set((row) => ({ dueAtMs: row.ref('dueAtMs') }))
    .where('id', '=', id)
    .where('ownerId', '=', ownerId)
    .returningAll();

const page = prepared<{ ownerId: string; offset: number; limit: number }>()((db, p) =>
  db
    .selectFrom(
      db
        .selectFrom('instance')
        .select(['publicText', 'createdAtMs', 'id'])
        .where('ownerId', '=', p('ownerId'))
        .where('listed', '=', 1)
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
 * The texts in one piece, because an uncached list costs what is handed over: node:sqlite needs 5 µs to make a string of a text of 2 KB that
 * is not all ASCII, and 1 µs to hand out its bytes. It joins in the order of the page, which comes in order and is not sorted; an `order by`
 * of the aggregate's own would sort it once more, for a third of the query's time. The test of the list's order would see a change of that.
 */
const joinedTexts = (db: Db): RawBuilder<Uint8Array | string | null> =>
  db.getExecutor().adapter.supportsMultipleConnections === false
    ? sql<Uint8Array | null>`cast(group_concat("publicText", ',') as blob)`
    : sql<string | null>`string_agg("publicText", ',' order by "createdAtMs" desc, id desc)`;

/** A page of what the owner's list shows, newest first, and how many it shows in all. */
export async function instancePage(
  db: Db,
  ownerId: string,
  offset: number,
  limit: number,
): Promise<{ texts: (string | Uint8Array)[]; totalEntries: number }> {
  const [row] = await page(db, { ownerId, offset: Math.min(offset, Number.MAX_SAFE_INTEGER), limit });
  return { texts: row?.joined ? [row.joined] : [], totalEntries: row?.total ?? 0 };
}

/**
 * Writes a wish over a row that is held: no lease is asked, and a pass that works on the old generation finds out when it writes.
 * The operation of the wish before it becomes history.
 */
export async function writeDesiredState(
  tx: Db,
  before: Pick<Instance, 'generation' | 'operation'>,
  instance: Instance,
  region: Region,
  more: { dueAtMs: number; holdsCapacity: boolean; releasedAtMs: number | null },
): Promise<void> {
  await archiveOperation(tx, instance.ownerId, { ...before, subjectId: instance.id }, instance.requestedAtMs);
  await tx
    .updateTable('instance')
    .set({
      ...requestColumns(instance, region),
      dueAtMs: more.dueAtMs,
      holdsCapacity: encodeFlag(more.holdsCapacity),
      releasedAtMs: more.releasedAtMs,
    })
    .where('id', '=', instance.id)
    .execute();
}

type Reconciled = ReturnType<typeof reconcileColumns>;

const updateReconciled = prepared<
  Reconciled & Omit<LeaseGuard, 'generation'> & { holding: Flag | null; heldGeneration: number; heldPolicy: string }
>()((db, p) =>
  db
    .updateTable('instance')
    .set({
      ...parameters<Reconciled>(p, reconciledColumnNames),
      holdsCapacity: sql<Flag>`coalesce(${p('holding')}, "holdsCapacity")`,
    })
    .where('id', '=', p('id'))
    .where('leaseToken', '=', p('leaseToken'))
    .where('generation', '=', p('heldGeneration'))
    .where('stopPolicy', '=', p('heldPolicy'))
    .returning('id'),
);

/**
 * Writes what a pass found, if it still holds the row; null means the result is out of date and must be dropped. What ends an
 * instance is set beside passes and never theirs to write: a row whose `ends` have changed since they were read is written again
 * with its own. Answers the instance as it was written.
 */
export async function writeReconciledInstance(
  tx: Db,
  hold: LeaseGuard,
  found: Instance,
  region: Region,
  more: { holdsCapacity?: boolean } = {},
): Promise<Instance | null> {
  let instance = found;
  for (let heldPolicy = encodeColumn('stopPolicy', found.stopPolicy); ;) {
    const written = await updateReconciled(tx, {
      ...reconcileColumns(instance, region),
      holding: more.holdsCapacity === undefined ? null : encodeFlag(more.holdsCapacity),
      id: hold.id,
      leaseToken: hold.leaseToken,
      heldGeneration: hold.generation,
      heldPolicy,
    });
    if (written.length > 0) return instance;
    const row = await tx.selectFrom('instance').select('stopPolicy').where(isLeaseHeld(hold)).executeTakeFirst();
    if (!row || row.stopPolicy === heldPolicy) return null;
    heldPolicy = row.stopPolicy;
    instance = { ...instance, stopPolicy: decodeColumn('stopPolicy', heldPolicy, hold.id) };
  }
}

/**
 * Writes what its disks were measured to hold, as `measure` says of the instance as it is now; null of that writes nothing. False while a
 * pass works on it, which would write its text from what it has read before.
 */
export async function writeDiskUsage(
  tx: Db,
  { id, ownerId }: Pick<Instance, 'id' | 'ownerId'>,
  region: Region,
  measure: (instance: Instance) => Promise<DiskUsage | null>,
): Promise<boolean> {
  const row = await heldRow(tx, ownerId, id).executeTakeFirst();
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

export async function deleteMountsOf(tx: Db, instance: string): Promise<void> {
  await tx.deleteFrom('mount').where('instanceId', '=', instance).execute();
}

/** Asks a pass to look at these instances, whoever holds them now. */
export async function makeDue(tx: Db, ids: readonly string[], nowMs: number): Promise<void> {
  if (ids.length === 0) return;
  await tx.updateTable('instance').set({ dueAtMs: nowMs }).where('id', 'in', ids).execute();
}

/**
 * The account's ssh keys changed: the control files of its running instances are out of date. No wish moves, so a launch under way
 * goes on; the mark is set beside whatever a pass writes, and only `setFilesStale` takes it off.
 */
export async function markOwnerFilesStale(tx: Db, ownerId: string, nowMs: number): Promise<void> {
  await tx
    .updateTable('instance')
    .set({ dueAtMs: nowMs, filesStale: 1 })
    .where('ownerId', '=', ownerId)
    .where('desired', '=', 'running')
    .execute();
}

/** Sets the mark for one instance, or takes it off once it has the present files: what changes later sets it again. */
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

/**
 * Instances of the region that say Running and that no pass is due for. Found by their node ports, which each has that runs: the table of
 * instances also holds all that ever were, and a sweep must not cost more the longer a server lives.
 */
export async function settledRunningIds(db: Db, region: string): Promise<string[]> {
  const rows = await db
    .selectFrom('instance')
    .select('id')
    .where('id', 'in', db.selectFrom('nodePort').select('instanceId').where('regionId', '=', region))
    .where('status', '=', 'Running')
    .where('dueAtMs', 'is', null)
    .execute();
  return rows.map(({ id }) => id);
}

/** Those of the ids that say Running and are to. */
export async function runningRowsAmong(db: Db, ids: readonly string[]): Promise<InstanceRow[]> {
  if (ids.length === 0) return [];
  return db
    .selectFrom('instance')
    .selectAll()
    .where('id', 'in', ids)
    .where('status', '=', 'Running')
    .where('desired', '=', 'running')
    .execute();
}

/** Takes released instances off the lists once they were seen long enough. */
export async function unlistReleased(
  tx: Db,
  releasedBeforeMs: number,
  limit: number,
): Promise<{ id: string; ownerId: string }[]> {
  return (
    tx
      .updateTable('instance')
      .set({ listed: 0 })
      // Again, for PostgreSQL: a row that another process took off meanwhile would be counted twice.
      .where('listed', '=', 1)
      .where('id', 'in', (from) =>
        from
          .selectFrom('instance')
          .select('id')
          .where('listed', '=', 1)
          .where('releasedAtMs', '<=', releasedBeforeMs)
          .limit(limit),
      )
      .returning(['id', 'ownerId'])
      .execute()
  );
}

export async function instanceRowsOfRegion(
  db: Db,
  region: string,
  afterId: string,
  limit: number,
): Promise<InstanceRow[]> {
  return db
    .selectFrom('instance')
    .selectAll()
    .where('regionId', '=', region)
    .where('listed', '=', 1)
    .where('id', '>', afterId)
    .orderBy('id')
    .limit(limit)
    .execute();
}

/** Writes the public text anew after the region's own facts changed, from the row as it is now. */
export async function refreshPublicText(
  tx: Db,
  { id, ownerId }: Pick<InstanceRow, 'id' | 'ownerId'>,
  region: Region,
): Promise<void> {
  const row = await heldRow(tx, ownerId, id).executeTakeFirst();
  if (!row) return;
  const publicText = JSON.stringify(publicInstance(instanceFromRow(row), region));
  await tx.updateTable('instance').set({ publicText }).where('id', '=', id).execute();
}
