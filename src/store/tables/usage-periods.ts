/** Usage periods. The owner's account is locked before its periods. */
import { sql, type RawBuilder, type Selectable, type SqlBool } from 'kysely';
import type { Meter } from '../../domain/money/meter.ts';
import type { UsagePeriodTable } from '../db/billing-schema.ts';
import type { Flag } from '../db/columns.ts';
import { newRows } from '../db/dialect.ts';
import { count, parameters, prepared, type Parameter } from '../db/prepared.ts';
import type { Db } from '../store.ts';

export type PeriodRow = Selectable<UsagePeriodTable>;
export type NewPeriod = Omit<PeriodRow, 'id' | 'chargedMicros' | 'labels'>;

/** Current labels of a resource. */
const labelsOf = (subjectId: RawBuilder<unknown>) => sql<string | null>`coalesce(
  (select labels from instance where instance.id = ${subjectId}), (select labels from volume where volume.id = ${subjectId}))`;

const insertRow = prepared<NewPeriod>()((db, p) =>
  db.insertInto('usagePeriod').values({
    ...parameters(p, [
      'accountId',
      'subjectId',
      'subjectName',
      'meter',
      'state',
      'regionId',
      'typeId',
      'priceMicros',
      'quantity',
      'unitMs',
      'openedAtMs',
      'closedAtMs',
      'openSeq',
      'closeSeq',
      'chargedUntilMs',
      'carry',
      'isCharging',
    ]),
    labels: labelsOf(sql`${p('subjectId')}`),
  }),
);

export async function insertPeriod(tx: Db, period: NewPeriod): Promise<void> {
  await insertRow(tx, period);
}

const openPeriods = prepared<{ subjectId: string }>()((db, p) =>
  db.selectFrom('usagePeriod').selectAll().where('subjectId', '=', p('subjectId')).where('closedAtMs', 'is', null),
);

export const openPeriodOf = async (db: Db, subjectId: string): Promise<PeriodRow | undefined> =>
  (await openPeriods(db, { subjectId }))[0];

const lastCharged = prepared<{ subjectId: string; meter: string }>()((db, p) =>
  db
    .selectFrom('usagePeriod')
    .select(['carry', 'priceMicros', 'quantity', 'closedAtMs'])
    .where('subjectId', '=', p('subjectId'))
    .where('meter', '=', p('meter'))
    .where('state', '=', 'charged')
    .orderBy('id', 'desc')
    .limit(1),
);

/** The last charged period of the meter. */
export const lastChargedOf = async (
  db: Db,
  subjectId: string,
  meter: Meter,
): Promise<Pick<PeriodRow, 'carry' | 'priceMicros' | 'quantity' | 'closedAtMs'> | undefined> =>
  (await lastCharged(db, { subjectId, meter }))[0];

/** The event that opened the run of an instance whose last period `closeSeq` closed. */
export async function runClosedBy(db: Db, subjectId: string, closeSeq: number): Promise<number | null> {
  const row = await db
    .selectFrom('usagePeriod')
    .select('openSeq')
    .where('subjectId', '=', subjectId)
    .where('closeSeq', '=', closeSeq)
    .where('state', 'in', ['charged', 'paidAhead'])
    .executeTakeFirst();
  return row?.openSeq ?? null;
}

export type ChargedColumns = Pick<PeriodRow, 'id' | 'chargedUntilMs' | 'chargedMicros' | 'carry'>;

/** Writes what has been booked. */
export async function writeCharged(tx: Db, periods: readonly ChargedColumns[]): Promise<void> {
  if (periods.length === 0) return;
  const columns = { id: 'bigint', chargedUntilMs: 'bigint', chargedMicros: 'bigint', carry: 'bigint' } as const;
  await sql`update "usagePeriod" set "chargedUntilMs" = new."chargedUntilMs", "chargedMicros" = new."chargedMicros",
    carry = new.carry
    from ${newRows(tx, periods, columns)} where "usagePeriod".id = new.id`.execute(tx);
}

export async function closePeriod(
  tx: Db,
  { id, closedAtMs, closeSeq }: { id: number; closedAtMs: number; closeSeq: number },
): Promise<void> {
  await tx.updateTable('usagePeriod').set({ closedAtMs, closeSeq, isCharging: 0 }).where('id', '=', id).execute();
}

export interface DuePeriods {
  /** Region of the instances; null: storage, which needs no engine. */
  regionId: string | null;
  untilMs: number;
  /** Instances that are due or leased are wanted once they are not booked up to here. */
  heldUntilMs: number;
  nowMs: number;
}

export interface DuePeriod extends PeriodRow {
  /** A reconcile is under way or to come: it may find that the run has ended. */
  isHeld: Flag;
}

interface Bounds {
  untilMs: number;
  heldUntilMs: number;
  nowMs: number;
  regionId: string;
  afterId: number;
  lastId: number;
  limit: number;
}

const isHeld = (p: Parameter<Bounds>) =>
  sql`(instance."leaseOwner" is not null or coalesce(instance."dueAtMs" <= ${p('nowMs')}, false))`;

const duePage = (isCompute: boolean) =>
  prepared<Bounds>()((db, p) =>
    db
      .selectFrom('usagePeriod as period')
      .selectAll('period')
      .select((isCompute ? sql<Flag>`case when ${isHeld(p)} then 1 else 0 end` : sql.lit(0 as const)).as('isHeld'))
      .where('period.isCharging', '=', sql.lit(1 as const))
      .where('period.chargedUntilMs', '<', p('untilMs'))
      .where('period.id', '>', p('afterId'))
      .where('period.id', '<=', p('lastId'))
      .$if(!isCompute, (query) => query.where('period.meter', '<>', 'compute'))
      .$if(isCompute, (query) =>
        query
          .innerJoin('instance', 'instance.id', 'period.subjectId')
          .where('period.meter', '=', 'compute')
          .where('period.regionId', '=', p('regionId'))
          // A run whose end was requested is booked when its period closes.
          .where('instance.desired', '=', sql.lit('running'))
          .where('instance.mustHalt', '=', sql.lit(0 as const))
          .where(sql<SqlBool>`(not ${isHeld(p)} or period."chargedUntilMs" < ${p('heldUntilMs')})`),
      )
      .orderBy('period.id')
      .limit(count(p('limit'))),
  );
const dueCompute = duePage(true);
const dueStorage = duePage(false);

/**
 * Periods not booked up to `untilMs`, by id: their rows are neighbors on the disk.
 */
export const duePeriods = (
  db: Db,
  { regionId, ...of }: DuePeriods,
  { afterId, lastId = Number.MAX_SAFE_INTEGER, limit }: { afterId: number; lastId?: number; limit: number },
): Promise<DuePeriod[]> =>
  (regionId === null ? dueStorage : dueCompute)(db, { ...of, regionId: regionId ?? '', afterId, lastId, limit });

const chargingFrom = prepared<{ afterId: number; offset: number }>()((db, p) =>
  db
    .selectFrom('usagePeriod')
    .select('id')
    .where('isCharging', '=', sql.lit(1 as const))
    .where('id', '>', p('afterId'))
    .orderBy('id')
    .offset(count(p('offset')))
    .limit(count(1)),
);

/** Id of the `size`th period from `afterId` on that costs money; null: there are fewer. */
export async function endOfChargingWindow(db: Db, afterId: number, size: number): Promise<number | null> {
  const [row] = await chargingFrom(db, { afterId, offset: size - 1 });
  return row?.id ?? null;
}

/** Where an open period ends, and begins again: the time between is a gap. */
export type Split = Pick<PeriodRow, 'id' | 'isCharging'> & { closedAtMs: number; nextAtMs: number };

/** Splits open periods of a rate that goes on, so that no period has a gap inside. */
export async function splitPeriods(tx: Db, splits: readonly Split[]): Promise<void> {
  if (splits.length === 0) return;
  const columns = { id: 'bigint', isCharging: 'bigint', closedAtMs: 'bigint', nextAtMs: 'bigint' } as const;
  const rows = newRows(tx, splits, columns);
  await sql`update "usagePeriod" set "closedAtMs" = new."closedAtMs", "isCharging" = 0
    from ${rows} where "usagePeriod".id = new.id`.execute(tx);
  const same = sql.raw(
    ['accountId', 'subjectId', 'subjectName', 'meter', 'regionId', 'typeId', 'quantity', 'unitMs', 'openSeq', 'labels']
      .map((name) => `period."${name}"`)
      .join(),
  );
  const insert = sql`insert into "usagePeriod" ("accountId", "subjectId", "subjectName", meter, "regionId", "typeId",
    quantity, "unitMs", "openSeq", labels, state, "priceMicros", "openedAtMs", "closedAtMs", "chargedUntilMs", carry,
    "isCharging")`;
  const from = sql`from ${rows} cross join "usagePeriod" as period where period.id = new.id`;
  await sql`${insert} select ${same}, 'gap', 0, new."closedAtMs", new."nextAtMs", new."nextAtMs", 0, 0
    ${from} and new."closedAtMs" < new."nextAtMs"`.execute(tx);
  await sql`${insert} select ${same}, period.state, period."priceMicros", new."nextAtMs", null, new."nextAtMs",
    period.carry, new."isCharging" ${from}`.execute(tx);
}

/** Gives the open period of a resource its current name and labels. */
export async function describePeriod(tx: Db, { id, name }: { id: string; name: string }): Promise<void> {
  await tx
    .updateTable('usagePeriod')
    .set({ subjectName: name, labels: labelsOf(sql.ref('subjectId')) })
    .where('subjectId', '=', id)
    .where('closedAtMs', 'is', null)
    .execute();
}

const SPLITS_AT_ONCE = 500;

/** Splits all open periods that `which` selects; the new ones come after the last id. */
async function splitAll(
  tx: Db,
  which: RawBuilder<SqlBool>,
  splitOf: (period: PeriodRow) => Omit<Split, 'id'>,
): Promise<void> {
  const { lastId } = await tx
    .selectFrom('usagePeriod')
    .select(({ fn }) => fn.max('id').as('lastId'))
    .executeTakeFirstOrThrow();
  for (let afterId = 0; ;) {
    const page = await tx
      .selectFrom('usagePeriod')
      .selectAll()
      .where('closedAtMs', 'is', null)
      .where(which)
      .where('id', '>', afterId)
      .where('id', '<=', lastId ?? 0)
      .orderBy('id')
      .limit(SPLITS_AT_ONCE)
      .execute();
    await splitPeriods(
      tx,
      page.map((period) => ({ id: period.id, ...splitOf(period) })),
    );
    const last = page.at(-1);
    if (!last) return;
    afterId = last.id;
  }
}

const charging = sql<SqlBool>`"isCharging" = 1`;

/** Splits all that cost money: skipped time is free, repeated time counts twice. */
export const splitAtStep = (tx: Db, stepMs: number): Promise<void> =>
  splitAll(tx, charging, ({ chargedUntilMs }) => ({
    closedAtMs: chargedUntilMs,
    nextAtMs: chargedUntilMs + stepMs,
    isCharging: 1,
  }));

/**
 * Lets open periods cost money, or not, from `nowMs` on: time recorded without billing is never
 * charged. Booked times in the future, of a clock that was set back, become now.
 */
export async function setCharging(tx: Db, isBilled: boolean, nowMs: number): Promise<void> {
  if (!isBilled) {
    const end = ({ chargedUntilMs }: PeriodRow) => ({ closedAtMs: chargedUntilMs, nextAtMs: chargedUntilMs });
    await splitAll(tx, charging, (period) => ({ ...end(period), isCharging: 0 }));
    return;
  }
  const fromNow = ({ chargedUntilMs }: PeriodRow) => ({
    closedAtMs: Math.max(chargedUntilMs, nowMs),
    nextAtMs: nowMs,
    isCharging: 1 as const,
  });
  await splitAll(tx, sql`"isCharging" = 1 and "chargedUntilMs" > cast(${nowMs} as bigint)`, fromNow);
  await splitAll(tx, sql`"isCharging" = 0 and state = 'charged' and "priceMicros" > 0`, fromNow);
}
