/** Instances that wait for off-peak windows, end with them, are reclaimed, or start again. */
import { sql } from 'kysely';
import { capacityOfSpec } from '../../domain/regions/catalog.ts';
import type { ResumableStop } from '../../domain/compute/resume.ts';
import type { SpotInstance } from '../../domain/compute/spot.ts';
import { parseJson } from '../db/columns.ts';
import { count, prepared, type Parameter } from '../db/prepared.ts';
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

interface InTide extends Page {
  region: string;
  atMs: number;
}

const preparedInTide = prepared<InTide>();

const tideRows = (db: Db, p: Parameter<InTide>) =>
  db
    .selectFrom('instance')
    .select(['id', 'ownerId'])
    .where('tideRegionId', '=', p('region'))
    .where('id', '>', p('afterId'))
    .orderBy('id')
    .limit(count(p('limit')));

const waitsFor = {
  '<': preparedInTide((db, p) => tideRows(db, p).where('notBeforeMs', '<', p('atMs'))),
  '>': preparedInTide((db, p) => tideRows(db, p).where('notBeforeMs', '>', p('atMs'))),
};

/** Waits for an earlier, or a later time than `opensAtMs`: two ranges of the index. */
export const waitsForOtherWindow = (
  db: Db,
  region: string,
  than: '<' | '>',
  opensAtMs: number,
  page: Page,
): Promise<Owned[]> => waitsFor[than](db, { ...page, region, atMs: opensAtMs });

const dueInWindow = preparedInTide((db, p) =>
  tideRows(db, p).where('notBeforeMs', '<=', p('atMs')).where('dueAtMs', '<=', p('atMs')),
);

/** Whether an instance is due at its window, and perhaps no timer of the loop knows. */
export const isDueInWindow = async (db: Db, region: string, nowMs: number): Promise<boolean> =>
  (await dueInWindow(db, { region, atMs: nowMs, afterId: '', limit: 1 })).length > 0;

const started = preparedInTide((db, p) =>
  tideRows(db, p)
    .select(sql<0 | 1>`case when "waitsSinceMs" is null then 0 else 1 end`.as('waits'))
    .where('notBeforeMs', 'is', null),
);

/** Started, or in the capacity queue. */
export const startedInTide = (db: Db, region: string, page: Page): Promise<(Owned & { waits: 0 | 1 })[]> =>
  started(db, { ...page, region, atMs: 0 });

const holders = (db: Db, p: Parameter<InTide>) =>
  tideRows(db, p).where('notBeforeMs', 'is', null).where('waitsSinceMs', 'is', null);
const announced = preparedInTide((db, p) => holders(db, p).where('windowEndsAtMs', 'is not', null));
const announcedForOther = preparedInTide((db, p) =>
  holders(db, p).where((eb) => eb.or([eb('windowEndsAtMs', 'is', null), eb('windowEndsAtMs', '<>', p('atMs'))])),
);

/** Holds capacity, and its window's end is announced for another time; null: not announced. */
export const announcedOtherwise = (db: Db, region: string, endsAtMs: number | null, page: Page): Promise<Owned[]> =>
  endsAtMs === null
    ? announced(db, { ...page, region, atMs: 0 })
    : announcedForOther(db, { ...page, region, atMs: endsAtMs });

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

const reclaimsUntil = prepared<{ nowMs: number; limit: number }>()((db, p) =>
  db
    .selectFrom('instance')
    .select(['id', 'ownerId'])
    .where('reclaimAtMs', '<=', p('nowMs'))
    .where('desired', '=', sql.lit('running'))
    .orderBy('reclaimAtMs')
    .limit(count(p('limit'))),
);

export const dueReclaims = (db: Db, nowMs: number, limit: number): Promise<Owned[]> =>
  reclaimsUntil(db, { nowMs, limit });

const resumable = ({ ofRegion }: { ofRegion: boolean }) =>
  prepared<{ after: ResumableStop; regionId: string } & Page>()((db, p) =>
    db
      .selectFrom('instance')
      .select(['id', 'ownerId', 'regionId'])
      .where('resumesAfter', '=', p('after'))
      .where('id', '>', p('afterId'))
      .$if(ofRegion, (rows) => rows.where('regionId', '=', p('regionId')))
      .orderBy('id')
      .limit(count(p('limit'))),
  );
const resumableAnywhere = resumable({ ofRegion: false });
const resumableInRegion = resumable({ ofRegion: true });

/** Stopped instances that start again after a stop of this kind; `regionId` null: of any region. */
export const toResume = (
  db: Db,
  { regionId, ...page }: { after: ResumableStop; regionId: string | null } & Page,
): Promise<(Owned & { regionId: string })[]> =>
  regionId === null ? resumableAnywhere(db, { ...page, regionId: '' }) : resumableInRegion(db, { ...page, regionId });

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
