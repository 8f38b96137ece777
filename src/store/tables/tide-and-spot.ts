/** Instances that wait for off-peak windows, end with them, are reclaimed, or start again. */
import { sql } from 'kysely';
import { capacityOfSpec } from '../../domain/catalog.ts';
import type { ResumableStop } from '../../domain/resume.ts';
import type { SpotInstance } from '../../domain/spot.ts';
import { parseJson } from '../db/columns.ts';
import type { Db } from '../store.ts';
import { appendEvent } from './events.ts';
import { instanceFromRow, type InstanceRow } from './instance-columns.ts';
import { lockInstance } from './instances.ts';
import { sizedSpec } from './json-schemas.ts';

export interface Owned {
  id: string;
  ownerId: string;
}

/** Sorted by id, after an id: '' begins. */
interface Page {
  afterId: string;
  limit: number;
}

const tideRows = (db: Db, region: string, { afterId, limit }: Page) =>
  db
    .selectFrom('instance')
    .select(['id', 'ownerId'])
    .where('tideRegionId', '=', region)
    .where('id', '>', afterId)
    .orderBy('id')
    .limit(limit);

/** Waits for an earlier, or a later time than `opensAtMs`: two ranges of the index. */
export const waitsForOtherWindow = (
  db: Db,
  region: string,
  than: '<' | '>',
  opensAtMs: number,
  page: Page,
): Promise<Owned[]> => tideRows(db, region, page).where('notBeforeMs', than, opensAtMs).execute();

/** Whether an instance is due at its window, and perhaps no timer of the loop knows. */
export async function isDueInWindow(db: Db, region: string, nowMs: number): Promise<boolean> {
  const due = tideRows(db, region, { afterId: '', limit: 1 }).where('notBeforeMs', '<=', nowMs);
  return (await due.where('dueAtMs', '<=', nowMs).executeTakeFirst()) !== undefined;
}

/** Started, or in the capacity queue. */
export const startedInTide = (db: Db, region: string, page: Page): Promise<(Owned & { waits: 0 | 1 })[]> =>
  tideRows(db, region, page)
    .select(sql<0 | 1>`case when "waitsSinceMs" is null then 0 else 1 end`.as('waits'))
    .where('notBeforeMs', 'is', null)
    .execute();

/** Holds capacity, and its window's end is announced for another time; null: not announced. */
export const announcedOtherwise = (db: Db, region: string, endsAtMs: number | null, page: Page): Promise<Owned[]> => {
  const rows = tideRows(db, region, page).where('notBeforeMs', 'is', null).where('waitsSinceMs', 'is', null);
  return endsAtMs === null
    ? rows.where('windowEndsAtMs', 'is not', null).execute()
    : rows.where((eb) => eb.or([eb('windowEndsAtMs', 'is', null), eb('windowEndsAtMs', '<>', endsAtMs)])).execute();
};

export interface SpotHolder extends SpotInstance {
  ownerId: string;
  /** It is reclaimed already, or stops for another reason. */
  isEnding: boolean;
}

/** Spot instances of the region that hold capacity. */
export async function spotHolders(db: Db, region: string): Promise<SpotHolder[]> {
  const rows = await db
    .selectFrom('instance')
    .selectAll()
    .where('spotRegionId', '=', region)
    .where('holdsCapacity', '=', 1)
    .execute();
  return rows.map((row) => {
    const { id, ownerId, desired, reclaimAtMs, requestedAtMs, observed } = instanceFromRow(row);
    const held = capacityOfSpec(parseJson(sizedSpec, row.spec, { table: 'instance', id, column: 'spec' }));
    const isEnding = desired !== 'running' || reclaimAtMs !== null;
    return { id, ownerId, isEnding, held, requestedAtMs, runningSinceMs: observed.runningSinceMs };
  });
}

export const dueReclaims = (db: Db, nowMs: number, limit: number): Promise<Owned[]> =>
  db
    .selectFrom('instance')
    .select(['id', 'ownerId'])
    .where('reclaimAtMs', '<=', nowMs)
    .where('desired', '=', sql.lit('running'))
    .orderBy('reclaimAtMs')
    .limit(limit)
    .execute();

/** Stopped instances that start again after a stop of this kind; `regionId` null: of any region. */
export const toResume = (
  db: Db,
  { after, regionId, afterId, limit }: { after: ResumableStop; regionId: string | null } & Page,
): Promise<(Owned & { regionId: string })[]> => {
  const rows = db
    .selectFrom('instance')
    .select(['id', 'ownerId', 'regionId'])
    .where('resumesAfter', '=', after)
    .where('id', '>', afterId)
    .orderBy('id')
    .limit(limit);
  return (regionId === null ? rows : rows.where('regionId', '=', regionId)).execute();
};

/** Announces a stop, or takes an announcement back: a new revision, which the files follow. */
export async function writeNotice(
  tx: Db,
  { id, revision }: Pick<InstanceRow, 'id' | 'revision'>,
  notice: { windowEndsAtMs: number | null } | { reclaimAtMs: number },
  nowMs: number,
): Promise<void> {
  const columns = { ...notice, revision: revision + 1, filesStale: 1, dueAtMs: nowMs } as const;
  await tx.updateTable('instance').set(columns).where('id', '=', id).execute();
}

/** Announces that a spot instance loses its capacity, unless it stops before that anyway. */
export async function writeReclaim(
  tx: Db,
  { id, ownerId }: Owned,
  { atMs, reason }: { atMs: number; reason: string },
  nowMs: number,
): Promise<void> {
  const row = await lockInstance(tx, ownerId, id);
  if (row?.desired !== 'running' || row.holdsCapacity === 0) return;
  if (row.reclaimAtMs !== null && row.reclaimAtMs <= atMs) return;
  await writeNotice(tx, row, { reclaimAtMs: atMs }, nowMs);
  const data = { stopsAtUnixMs: atMs, reason };
  await appendEvent(tx, { accountId: ownerId, atMs: nowMs, kind: 'instance.reclaimed', subjectId: id, data });
}
