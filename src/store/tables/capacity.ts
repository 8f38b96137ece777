/**
 * What of a region is promised, and the line of those that wait for room in it. The rule is in `domain/placement.ts`; here are the
 * guarded counts that make one winner of many, and the line as it stands.
 */
import { sql, type SqlBool } from 'kysely';
import { capacityOf, type Capacity } from '../../domain/catalog.ts';
import { instanceId, type InstanceId } from '../../domain/ids.ts';
import type { InstanceSpec } from '../../domain/instance.ts';
import { zeroCapacity, addCapacity, type QueuedRequest } from '../../domain/placement.ts';
import { regionFromRow, type RegionWithUsage } from './catalog.ts';
import { count, prepared } from '../db/prepared.ts';
import { parseJson } from '../db/columns.ts';
import type { Db } from '../store.ts';
import { sizedSpec } from './json-schemas.ts';

interface Counted extends Capacity {
  region: string;
  ports: number;
}

/**
 * What is given back, or not asked at all, needs no room. A newcomer's count holds only while nobody waits in the region: whether one
 * may pass those that do is looked at by `control/capacity/queue.ts`. PostgreSQL looks at the line as it was when the statement began: of two
 * that come at the same moment either may be the first.
 */
const makeMoveCounts = ({ newcomer }: { newcomer: boolean }) =>
  prepared<Counted>()((db, p) => {
    const more = (used: string, name: keyof Counted) => sql<number>`${sql.ref(used)} + cast(${p(name)} as bigint)`;
    const room = (used: string, total: string, name: keyof Counted) =>
      sql<SqlBool>`(cast(${p(name)} as bigint) <= 0 or ${more(used, name)} <= ${sql.ref(total)})`;
    const nobodyWaits = sql<SqlBool>`not exists (
      select 1 from instance where instance."regionId" = ${p('region')} and instance."waitsSinceMs" is not null)`;
    return db
      .updateTable('region')
      .set({
        cpuMilliUsed: more('cpuMilliUsed', 'cpuMilli'),
        memoryMiBUsed: more('memoryMiBUsed', 'memoryMiB'),
        gpusUsed: more('gpusUsed', 'gpus'),
        nodePortsUsed: more('nodePortsUsed', 'ports'),
      })
      .where('id', '=', p('region'))
      .where(room('cpuMilliUsed', 'cpuMilliTotal', 'cpuMilli'))
      .where(room('memoryMiBUsed', 'memoryMiBTotal', 'memoryMiB'))
      .where(room('gpusUsed', 'gpusTotal', 'gpus'))
      .where(room('nodePortsUsed', 'nodePortsTotal', 'ports'))
      .$if(newcomer, (update) => update.where(nobodyWaits))
      .returning('id');
  });

const moveCounts = makeMoveCounts({ newcomer: false });
const countNewcomer = makeMoveCounts({ newcomer: true });

type Type = InstanceSpec['type'];

/** Counts the capacity of an instance in its region, or gives it back. False means there is not enough. */
export async function adjustCapacity(tx: Db, region: string, type: Type, sign: 1 | -1, ports = 0): Promise<boolean> {
  const { cpuMilli, memoryMiB, gpus } = capacityOf(type);
  const counts = {
    cpuMilli: sign * cpuMilli,
    memoryMiB: sign * memoryMiB,
    gpus: sign * gpus,
    ports: sign * ports,
  };
  return (await moveCounts(tx, { region, ...counts })).length > 0;
}

/** As `adjustCapacity`, for one that comes now. False also means that somebody waits in the region. */
export async function reserveIfQueueEmpty(tx: Db, region: string, type: Type, ports: number): Promise<boolean> {
  return (await countNewcomer(tx, { region, ...capacityOf(type), ports })).length > 0;
}

/** Counts node ports alone: those of one that waits in line are promised to it already. */
export async function reserveNodePortCapacity(tx: Db, region: string, ports: number): Promise<boolean> {
  return (await moveCounts(tx, { region, cpuMilli: 0, memoryMiB: 0, gpus: 0, ports })).length > 0;
}

/** Gives node ports back to the region's count; the rows themselves go with `releaseNodePorts`. */
export async function releaseNodePortCapacity(tx: Db, region: string, ports: number): Promise<void> {
  await moveCounts(tx, { region, cpuMilli: 0, memoryMiB: 0, gpus: 0, ports: -ports });
}

/** The region's counts, held until the transaction ends: nobody takes, gives back or joins the line meanwhile. */
export async function lockRegion(tx: Db, id: string): Promise<RegionWithUsage | undefined> {
  const row = await tx
    .updateTable('region')
    .set((region) => ({ cpuMilliUsed: region.ref('cpuMilliUsed') }))
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirst();
  return row && regionFromRow(row);
}

/** Where one stands in the line of its region. */
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

/** Those that wait in the region, in their order, from its head or from behind one. Read as it is asked for. */
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
      yield { waitsSinceMs, id: instanceId(id), ownerId, joinedAtMs: requestedAtMs, need: needOf(spec, id) };
    }
    if (rows.length < READ_AT_ONCE) return;
  }
}

const needOf = (spec: string, id: string): Capacity =>
  capacityOf(parseJson(sizedSpec, spec, { table: 'instance', id, column: 'spec' }).type);

const specsHeld = prepared<{ region: string; ownerId: string }>()((db, p) =>
  db
    .selectFrom('instance')
    .select(['id', 'spec'])
    .where('ownerId', '=', p('ownerId'))
    // Whoever holds something is listed, and the account's rows are found by it.
    .where('listed', '=', 1)
    .where('regionId', '=', p('region'))
    .where('holdsCapacity', '=', 1),
);

/** What the account's instances hold of the region. */
export async function capacityUsedBy(db: Db, region: string, ownerId: string): Promise<Capacity> {
  const rows = await specsHeld(db, { region, ownerId });
  return rows.reduce((sum, { id, spec }) => addCapacity(sum, needOf(spec, id)), zeroCapacity);
}

/** How many of the account stand in the region's line. */
export async function countQueued(db: Db, region: string, ownerId: string): Promise<number> {
  const { length } = await db
    .selectFrom('instance')
    .select(({ fn }) => fn.countAll<number>().as('length'))
    .where('regionId', '=', region)
    .where('waitsSinceMs', 'is not', null)
    .where('ownerId', '=', ownerId)
    .executeTakeFirstOrThrow();
  return length;
}

/** Since when the last in the region's line waits; null: nobody waits. */
export async function queueTailSinceMs(db: Db, region: string): Promise<number | null> {
  const last = await db
    .selectFrom('instance')
    .select('waitsSinceMs')
    .where('regionId', '=', region)
    .where('waitsSinceMs', 'is not', null)
    .orderBy('waitsSinceMs', 'desc')
    .limit(1)
    .executeTakeFirst();
  return last?.waitsSinceMs ?? null;
}

/** How many stand in the region's line, or before one of them. */
export async function queueLength(db: Db, region: string, before: QueuePosition | null = null): Promise<number> {
  let query = db
    .selectFrom('instance')
    .select(({ fn }) => fn.countAll<number>().as('length'))
    .where('regionId', '=', region)
    .where('waitsSinceMs', 'is not', null);
  if (before) query = query.where(sql<SqlBool>`("waitsSinceMs", id) < (${before.waitsSinceMs}, ${before.id})`);
  return (await query.executeTakeFirstOrThrow()).length;
}
