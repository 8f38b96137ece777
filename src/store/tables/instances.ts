/** Instances: rows to domain and back. Every change of a row writes its public text in the same statement. */
import { sql, type RawBuilder, type Selectable } from 'kysely';
import type { Region } from '../../domain/catalog.ts';
import { imageId, instanceId, instanceTypeId, regionId, userId, volumeId } from '../../domain/ids.ts';
import type { DiskUsage } from '../../domain/disk.ts';
import type { StopPolicy } from '../../domain/stop-policy.ts';
import { desiredStates, type DesiredState } from '../../domain/instance-states.ts';
import type { Archive, Instance, InstanceSpec, NodePort, Observed } from '../../domain/instance.ts';
import type { Operation } from '../../domain/operation.ts';
import { publicInstance } from '../../domain/public-instance.ts';
import { stopPolicyColumns } from './stop-policy.ts';
import { isLeaseHeld } from '../db/leases.ts';
import { archiveOperation } from './operations.ts';
import { count, prepared } from '../db/prepared.ts';
import type { Flag, InstanceTable } from '../db/schema.ts';
import type { Db } from '../store.ts';

export type InstanceRow = Selectable<InstanceTable>;

const flag = (value: boolean): Flag => (value ? 1 : 0);

/** What proves that a pass still holds the row as it read it: lease and generation. */
export interface LeaseGuard {
  id: string;
  leaseToken: string;
  generation: number;
}

const isDesired = (text: string): text is DesiredState => desiredStates.some((desired) => desired === text);

/** Members that rows of older versions don't have. Since when one has been Running nobody wrote down: at the earliest since its wish. */
const observedOfOld = ({ status, requestedAtMs }: InstanceRow) => ({
  runningSinceMs: status === 'Running' ? requestedAtMs : 0,
  countedFromMs: 0,
  progress: null,
  answersBy: 'ssh',
  sshFront: false,
});

export function instanceFromRow(row: InstanceRow): Instance {
  if (!isDesired(row.desired)) throw new Error(`instance ${row.id}: unknown desired state ${row.desired}`);
  const spec: InstanceSpec = JSON.parse(row.spec);
  const observed: Observed = { ...observedOfOld(row), ...JSON.parse(row.observed) };
  const nodePorts: NodePort[] = JSON.parse(row.nodePorts);
  const ends: StopPolicy = JSON.parse(row.ends);
  const archive: Archive | null = row.archive === null ? null : JSON.parse(row.archive);
  const unfinished: string[] = JSON.parse(row.unfinished);
  const operation: Operation = JSON.parse(row.operation);
  const diskUsage: DiskUsage = JSON.parse(row.diskUsage);
  return {
    id: instanceId(row.id),
    ownerId: userId(row.ownerId),
    ownerName: row.ownerName,
    createdAtMs: row.createdAtMs,
    spec: {
      ...spec,
      regionId: regionId(row.regionId),
      image: { ...spec.image, id: imageId(spec.image.id) },
      type: { ...spec.type, id: instanceTypeId(spec.type.id) },
      mounts: spec.mounts.map((mount) => ({ ...mount, volumeId: volumeId(mount.volumeId) })),
    },
    priceMicros: BigInt(row.priceMicros),
    nodePorts,
    desired: row.desired,
    generation: row.generation,
    mustHalt: row.mustHalt === 1,
    everEnsured: row.everEnsured === 1,
    filesStale: row.filesStale === 1,
    attempts: row.attempts,
    requestedAtMs: row.requestedAtMs,
    initExit: row.initExit,
    waitsSinceMs: row.waitsSinceMs,
    waitsUntilMs: row.waitsUntilMs,
    stopPolicy: ends,
    archive,
    unfinished,
    diskUsage,
    operation,
    observed,
  };
}

const withEnds = (instance: Instance, ends: StopPolicy): Instance => ({ ...instance, stopPolicy: ends });

/** The columns that an instance's own facts fill; leases, due times and counters are not among them. */
const columnsOf = (instance: Instance, region: Region) => ({
  nodePorts: JSON.stringify(instance.nodePorts),
  desired: instance.desired,
  generation: instance.generation,
  mustHalt: flag(instance.mustHalt),
  everEnsured: flag(instance.everEnsured),
  attempts: instance.attempts,
  requestedAtMs: instance.requestedAtMs,
  initExit: instance.initExit,
  waitsSinceMs: instance.waitsSinceMs,
  waitsUntilMs: instance.waitsUntilMs,
  archive: instance.archive === null ? null : JSON.stringify(instance.archive),
  unfinished: JSON.stringify(instance.unfinished),
  diskUsage: JSON.stringify(instance.diskUsage),
  operation: JSON.stringify(instance.operation),
  observed: JSON.stringify(instance.observed),
  status: instance.observed.status,
  ...stopPolicyColumns(instance, region),
});

const insertRow = prepared<Omit<InstanceRow, 'portAccess'>>()((db, p) =>
  db.insertInto('instance').values({
    id: p('id'),
    ownerId: p('ownerId'),
    ownerName: p('ownerName'),
    regionId: p('regionId'),
    createdAtMs: p('createdAtMs'),
    spec: p('spec'),
    priceMicros: p('priceMicros'),
    nodePorts: p('nodePorts'),
    desired: p('desired'),
    generation: p('generation'),
    mustHalt: p('mustHalt'),
    everEnsured: p('everEnsured'),
    filesStale: p('filesStale'),
    attempts: p('attempts'),
    requestedAtMs: p('requestedAtMs'),
    initExit: p('initExit'),
    waitsSinceMs: p('waitsSinceMs'),
    waitsUntilMs: p('waitsUntilMs'),
    ends: p('ends'),
    endsAtMs: p('endsAtMs'),
    idleAfterMs: p('idleAfterMs'),
    archive: p('archive'),
    unfinished: p('unfinished'),
    diskUsage: p('diskUsage'),
    operation: p('operation'),
    observed: p('observed'),
    status: p('status'),
    publicText: p('publicText'),
    holdsCapacity: p('holdsCapacity'),
    notebookToken: p('notebookToken'),
    listed: p('listed'),
    releasedAtMs: p('releasedAtMs'),
    dueAtMs: p('dueAtMs'),
    leaseOwner: p('leaseOwner'),
    leaseToken: p('leaseToken'),
    leaseUntilMs: p('leaseUntilMs'),
  }),
);

export async function insertInstance(
  tx: Db,
  instance: Instance,
  region: Region,
  more: { notebookToken: string; dueAtMs: number | null; holdsCapacity?: boolean },
): Promise<void> {
  await insertRow(tx, {
    id: instance.id,
    ownerId: instance.ownerId,
    ownerName: instance.ownerName,
    regionId: region.id,
    createdAtMs: instance.createdAtMs,
    spec: JSON.stringify(instance.spec),
    priceMicros: Number(instance.priceMicros),
    ...columnsOf(instance, region),
    filesStale: 0,
    holdsCapacity: flag(more.holdsCapacity ?? instance.waitsSinceMs === null),
    notebookToken: more.notebookToken,
    listed: 1,
    releasedAtMs: null,
    dueAtMs: more.dueAtMs,
    leaseOwner: null,
    leaseToken: null,
    leaseUntilMs: null,
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
      spec: JSON.stringify(instance.spec),
      ...columnsOf(instance, region),
      dueAtMs: more.dueAtMs,
      holdsCapacity: flag(more.holdsCapacity),
      releasedAtMs: more.releasedAtMs,
    })
    .where('id', '=', instance.id)
    .execute();
}

const updateFound = prepared<
  ReturnType<typeof columnsOf> & LeaseGuard & { holding: Flag | null; heldGeneration: number; heldEnds: string }
>()((db, p) =>
  db
    .updateTable('instance')
    .set({
      nodePorts: p('nodePorts'),
      desired: p('desired'),
      generation: p('generation'),
      mustHalt: p('mustHalt'),
      everEnsured: p('everEnsured'),
      attempts: p('attempts'),
      requestedAtMs: p('requestedAtMs'),
      initExit: p('initExit'),
      waitsSinceMs: p('waitsSinceMs'),
      waitsUntilMs: p('waitsUntilMs'),
      endsAtMs: p('endsAtMs'),
      idleAfterMs: p('idleAfterMs'),
      archive: p('archive'),
      unfinished: p('unfinished'),
      operation: p('operation'),
      observed: p('observed'),
      status: p('status'),
      publicText: p('publicText'),
      holdsCapacity: sql<Flag>`coalesce(${p('holding')}, "holdsCapacity")`,
    })
    .where('id', '=', p('id'))
    .where('leaseToken', '=', p('leaseToken'))
    .where('generation', '=', p('heldGeneration'))
    .where('ends', '=', p('heldEnds'))
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
  for (let heldEnds = JSON.stringify(found.stopPolicy); ;) {
    const written = await updateFound(tx, {
      ...columnsOf(instance, region),
      holding: more.holdsCapacity === undefined ? null : flag(more.holdsCapacity),
      id: hold.id,
      leaseToken: hold.leaseToken,
      heldGeneration: hold.generation,
      heldEnds,
    });
    if (written.length > 0) return instance;
    const row = await tx.selectFrom('instance').select('ends').where(isLeaseHeld(hold)).executeTakeFirst();
    if (!row || row.ends === heldEnds) return null;
    heldEnds = row.ends;
    const ends: StopPolicy = JSON.parse(heldEnds);
    instance = withEnds(instance, ends);
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
    .set({ diskUsage: JSON.stringify(diskUsage), publicText })
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
    .set({ filesStale: flag(stale) })
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
