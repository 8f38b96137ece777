/**
 * Guarded counters of a region's capacity, and its queue's entries; rule:
 * `domain/regions/placement.ts`.
 */
import { sql, type SqlBool } from 'kysely';
import { capacityOfSpec, type Capacity } from '../../domain/regions/catalog.ts';
import { instanceId, type InstanceId } from '../../domain/kernel/ids.ts';
import {
  addCapacity,
  fits,
  freeCapacity,
  negative,
  zeroCapacity,
  type QueuedRequest,
} from '../../domain/regions/placement.ts';
import { regionFromRow, type RegionWithUsage } from './catalog.ts';
import { locking } from '../db/dialect.ts';
import { count, prepared } from '../db/prepared.ts';
import { parseJson } from '../db/columns.ts';
import type { Db } from '../store.ts';
import { sizedSpec } from './json-schemas.ts';

interface Counted extends Omit<Capacity, 'gpus'> {
  region: string;
  /** New value of the column; null: as it is. */
  gpus: string | null;
  ports: number;
}

/**
 * Releases and resources not asked for always fit. A newcomer also needs no drain and an empty
 * queue, as of the statement's start on PostgreSQL: of two simultaneous requests either may be
 * first. One without GPUs in a region with a reserve for them is never placed by it.
 */
const makeMoveCounts = ({ newcomer }: { newcomer: boolean }) =>
  prepared<Counted>()((db, p) => {
    const sumOf = (used: string, name: keyof Counted) => sql<number>`${sql.ref(used)} + cast(${p(name)} as bigint)`;
    const fits = (used: string, total: string, name: keyof Counted) =>
      sql<SqlBool>`(cast(${p(name)} as bigint) <= 0 or ${sumOf(used, name)} <= ${sql.ref(total)})`;
    const nobodyWaits = sql<SqlBool>`not exists (
      select 1 from instance where instance."regionId" = ${p('region')} and instance."waitsSinceMs" is not null)`;
    const hasNoReserve = sql<SqlBool>`("reservePerGpu" is null or cast(${p('gpus')} as text) is not null)`;
    return db
      .updateTable('region')
      .set({
        cpuMilliUsed: sumOf('cpuMilliUsed', 'cpuMilli'),
        memoryMiBUsed: sumOf('memoryMiBUsed', 'memoryMiB'),
        gpusUsed: sql<string>`coalesce(cast(${p('gpus')} as text), "gpusUsed")`,
        nodePortsUsed: sumOf('nodePortsUsed', 'ports'),
      })
      .where('id', '=', p('region'))
      .where(fits('cpuMilliUsed', 'cpuMilliTotal', 'cpuMilli'))
      .where(fits('memoryMiBUsed', 'memoryMiBTotal', 'memoryMiB'))
      .where(fits('nodePortsUsed', 'nodePortsTotal', 'ports'))
      .$if(newcomer, (update) => update.where(nobodyWaits).where('drain', 'is', null).where(hasNoReserve))
      .returning('id');
  });

const moveCounts = makeMoveCounts({ newcomer: false });
const countNewcomer = makeMoveCounts({ newcomer: true });

/** GPUs count by name in one column, so a change reads it under the region's lock. */
async function move(tx: Db, region: string, change: Capacity, ports: number, by: typeof moveCounts): Promise<boolean> {
  const { cpuMilli, memoryMiB } = change;
  let gpus: string | null = null;
  if (Object.keys(change.gpus).length > 0) {
    const counted = await lockRegion(tx, region);
    if (!counted || !fits({ ...zeroCapacity, gpus: change.gpus }, freeCapacity(counted))) return false;
    const used = Object.entries(addCapacity(counted.used, change).gpus).filter(([, count]) => count !== 0);
    gpus = JSON.stringify(Object.fromEntries(used));
  }
  return (await by(tx, { region, cpuMilli, memoryMiB, gpus, ports })).length > 0;
}

/** Reserves (`sign` 1) or releases (-1). Returns false when the region has too little. */
export const adjustCapacity = (tx: Db, region: string, capacity: Capacity, sign: 1 | -1, ports = 0): Promise<boolean> =>
  move(tx, region, sign === 1 ? capacity : negative(capacity), ports, moveCounts);

export async function reserveIfQueueEmpty(tx: Db, region: string, need: Capacity, ports: number): Promise<boolean> {
  return move(tx, region, need, ports, countNewcomer);
}

/** Reserves node ports alone, for a queue entry whose other capacity is reserved already. */
export async function reserveNodePortCapacity(tx: Db, region: string, ports: number): Promise<boolean> {
  return move(tx, region, zeroCapacity, ports, moveCounts);
}

export async function releaseNodePortCapacity(tx: Db, region: string, ports: number): Promise<void> {
  await move(tx, region, zeroCapacity, -ports, moveCounts);
}

/** Locks the region's counters, and so the queue against new entries. */
export async function lockRegion(tx: Db, id: string): Promise<RegionWithUsage | undefined> {
  const row = await locking(tx, tx.selectFrom('region').selectAll().where('id', '=', id)).executeTakeFirst();
  return row && regionFromRow(row);
}

/** Makes an entry due; not one that left: its cleanup may hold the row and wait for the region. */
export async function wakeEntry(tx: Db, id: string, nowMs: number): Promise<void> {
  const entry = tx.updateTable('instance').set({ dueAtMs: nowMs }).where('id', '=', id);
  await entry.where('waitsSinceMs', 'is not', null).execute();
}

export interface QueuePosition {
  waitsSinceMs: number;
  id: string;
}

export interface QueueEntry extends QueuePosition, QueuedRequest {
  id: InstanceId;
}

const READ_AT_ONCE = 64;

const nextInLine = prepared<{ region: string; afterMs: number; afterId: string; limit: number }>()((db, p) =>
  db
    .selectFrom('instance')
    .select(['id', 'ownerId', 'requestedAtMs', 'waitsSinceMs', 'spec'])
    .where('regionId', '=', p('region'))
    .where('waitsSinceMs', 'is not', null)
    .where(sql<SqlBool>`("waitsSinceMs", id) > (cast(${p('afterMs')} as bigint), ${p('afterId')})`)
    .orderBy('waitsSinceMs')
    .orderBy('id')
    .limit(count(p('limit'))),
);

export async function* queueEntries(
  db: Db,
  region: string,
  behind: QueuePosition | null = null,
): AsyncGenerator<QueueEntry> {
  for (let last: QueuePosition = behind ?? { waitsSinceMs: 0, id: '' }; ;) {
    const rows = await nextInLine(db, {
      region,
      afterMs: last.waitsSinceMs,
      afterId: last.id,
      limit: READ_AT_ONCE,
    });
    for (const { id, ownerId, requestedAtMs, waitsSinceMs, spec } of rows) {
      if (waitsSinceMs === null) continue;
      last = { waitsSinceMs, id };
      const sized = sizeOf(spec, id);
      yield {
        waitsSinceMs,
        id: instanceId(id),
        ownerId,
        isSpot: sized.isSpot,
        joinedAtMs: requestedAtMs,
        need: capacityOfSpec(sized),
      };
    }
    if (rows.length < READ_AT_ONCE) return;
  }
}

const sizeOf = (spec: string, id: string) => parseJson(sizedSpec, spec, { table: 'instance', id, column: 'spec' });

const needOf = (spec: string, id: string): Capacity => capacityOfSpec(sizeOf(spec, id));

const specsWithCapacity = prepared<{ region: string; ownerId: string }>()((db, p) =>
  db
    .selectFrom('instance')
    .select(['id', 'spec'])
    .where('ownerId', '=', p('ownerId'))
    // Every holder is listed, and this index finds an account's rows.
    .where('listed', '=', sql.lit(1))
    .where('regionId', '=', p('region'))
    .where('holdsCapacity', '=', 1),
);

export async function capacityUsedBy(db: Db, region: string, ownerId: string): Promise<Capacity> {
  const rows = await specsWithCapacity(db, { region, ownerId });
  return rows.reduce((sum, { id, spec }) => addCapacity(sum, needOf(spec, id)), zeroCapacity);
}

/** Instances of the account in capacity queues: of a region, or of all. */
export async function countQueued(db: Db, ownerId: string, region?: string): Promise<number> {
  let query = db
    .selectFrom('instance')
    .select(({ fn }) => fn.countAll<number>().as('length'))
    .where('waitsSinceMs', 'is not', null)
    .where('ownerId', '=', ownerId);
  if (region !== undefined) query = query.where('regionId', '=', region);
  return (await query.executeTakeFirstOrThrow()).length;
}

const queued = prepared()((db) =>
  db.selectFrom('instance').select('regionId').distinct().where('waitsSinceMs', 'is not', null),
);

/** Regions with an entry in their capacity queue. */
export const regionsWithQueue = async (db: Db): Promise<Set<string>> =>
  new Set((await queued(db, {})).map(({ regionId }) => regionId));

const queueTail = prepared<{ region: string }>()((db, p) =>
  db
    .selectFrom('instance')
    .select('waitsSinceMs')
    .where('regionId', '=', p('region'))
    .where('waitsSinceMs', 'is not', null)
    .orderBy('waitsSinceMs', 'desc')
    .limit(1),
);

export async function queueTailSinceMs(db: Db, region: string): Promise<number | null> {
  const [last] = await queueTail(db, { region });
  return last?.waitsSinceMs ?? null;
}

export async function queueLength(db: Db, region: string, before: QueuePosition | null = null): Promise<number> {
  let query = db
    .selectFrom('instance')
    .select(({ fn }) => fn.countAll<number>().as('length'))
    .where('regionId', '=', region)
    .where('waitsSinceMs', 'is not', null);
  if (before) query = query.where(sql<SqlBool>`("waitsSinceMs", id) < (${before.waitsSinceMs}, ${before.id})`);
  return (await query.executeTakeFirstOrThrow()).length;
}
