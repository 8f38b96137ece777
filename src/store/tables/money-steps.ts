/** Steps of accounts whose money ends, and what accounts pay for at the moment. */
import { sql } from 'kysely';
import { meters } from '../../domain/money/meter.ts';
import {
  costOf,
  isAtLeast,
  moneySteps,
  type Cost,
  type MoneyState,
  type MoneyStep,
} from '../../domain/money/money-ladder.ts';
import { oneOf } from '../db/columns.ts';
import { prepared } from '../db/prepared.ts';
import type { Db } from '../store.ts';
import { followAct } from './due-acts.ts';
import type { InstanceRow } from './instance-columns.ts';
import type { PeriodRow } from './usage-periods.ts';

const priced = ['accountId', 'id', 'regionId', 'typeId', 'meter', 'priceMicros', 'quantity', 'unitMs'] as const;

export type PricedPeriod = Pick<PeriodRow, (typeof priced)[number]>;

export const costOfPeriod = ({ regionId, typeId, meter, priceMicros, quantity, unitMs }: PricedPeriod): Cost =>
  costOf(
    { regionId, instanceTypeId: typeId, meter: oneOf(meters, meter) },
    { priceMicros: BigInt(priceMicros), quantity, unitMs },
  );

/** Open charged periods of all accounts, by account, after one of them. */
export async function chargedPeriodsAfter(
  db: Db,
  { accountId, id }: Pick<PeriodRow, 'accountId' | 'id'>,
  limit: number,
): Promise<PricedPeriod[]> {
  return db
    .selectFrom('usagePeriod')
    .select(priced)
    .where('closedAtMs', 'is', null)
    .where('isCharging', '=', sql.lit(1))
    .where(sql<boolean>`("accountId", id) > (${accountId}, ${id})`)
    .orderBy('accountId')
    .orderBy('id')
    .limit(limit)
    .execute();
}

export async function chargedCostsOf(
  db: Db,
  accountId: string,
  isCounted: (subjectId: string) => boolean = () => true,
): Promise<Cost[]> {
  const periods = await db
    .selectFrom('usagePeriod')
    .select([...priced, 'subjectId'])
    .where('closedAtMs', 'is', null)
    .where('isCharging', '=', sql.lit(1))
    .where('accountId', '=', accountId)
    .execute();
  return periods.filter(({ subjectId }) => isCounted(subjectId)).map(costOfPeriod);
}

/** Instances that are starting or restarting. */
export const startingRowsOf = (db: Db, accountId: string): Promise<InstanceRow[]> =>
  db
    .selectFrom('instance')
    .selectAll()
    .where('ownerId', '=', accountId)
    .where('listed', '=', sql.lit(1))
    .where('status', '<>', 'Running')
    .where('desired', '=', 'running')
    .where('waitsSinceMs', 'is', null)
    .execute();

const states = prepared<{ accountId: string }>()((db, p) =>
  db
    .selectFrom('account')
    .select(['moneyStep', 'moneyArchiveAtMs', 'moneyDeleteAtMs', 'moneyDeleteWarnedAtMs'])
    .where('id', '=', p('accountId')),
);

export async function moneyStateOf(db: Db, accountId: string): Promise<MoneyState> {
  const [row] = await states(db, { accountId });
  return {
    step: oneOf(moneySteps, row?.moneyStep ?? 'none'),
    archiveAtMs: row?.moneyArchiveAtMs ?? null,
    deleteAtMs: row?.moneyDeleteAtMs ?? null,
    deleteWarnedAtMs: row?.moneyDeleteWarnedAtMs ?? null,
  };
}

export async function writeMoneyState(
  tx: Db,
  accountId: string,
  { step, archiveAtMs, deleteAtMs, deleteWarnedAtMs }: MoneyState,
): Promise<void> {
  await tx
    .updateTable('account')
    .set({
      moneyStep: step,
      moneyArchiveAtMs: archiveAtMs,
      moneyDeleteAtMs: deleteAtMs,
      moneyDeleteWarnedAtMs: deleteWarnedAtMs,
    })
    .where('id', '=', accountId)
    .execute();
  const dueAtMs = isAtLeast(step, 'stop') ? 0 : null;
  await followAct(tx, { kind: 'money', subjectId: accountId, ownerId: accountId, dueAtMs });
}

const limited = (db: Db) => db.selectFrom('account').where('moneyStep', '<>', sql.lit('none'));

const limitedRows = prepared()((db) => limited(db).select(['id', 'moneyStep']));

/** Steps of the accounts that are at one. */
export async function limitedAccounts(db: Db): Promise<Map<string, MoneyStep>> {
  const rows = await limitedRows(db, {});
  return new Map(rows.map(({ id, moneyStep }) => [id, oneOf(moneySteps, moneyStep)]));
}

/** Moves the dates by a step of the clock, or by time in which Berth was off. Returns whose. */
export async function shiftMoneyDates(tx: Db, ms: number): Promise<string[]> {
  const shift = (name: string) => sql<number | null>`${sql.ref(name)} + ${sql.lit(ms)}`;
  const moved = await tx
    .updateTable('account')
    .set({
      moneyArchiveAtMs: shift('moneyArchiveAtMs'),
      moneyDeleteAtMs: shift('moneyDeleteAtMs'),
      moneyDeleteWarnedAtMs: shift('moneyDeleteWarnedAtMs'),
    })
    .where('moneyStep', '<>', sql.lit('none'))
    .where('moneyStep', 'in', ['stop', 'archive'])
    .returning('id')
    .execute();
  return moved.map(({ id }) => id);
}

/** Listed instances of an account with a desired state. */
export const listedWith = (db: Db, ownerId: string, desired: 'running' | 'stopped'): Promise<InstanceRow[]> =>
  db
    .selectFrom('instance')
    .selectAll()
    .where('ownerId', '=', ownerId)
    .where('listed', '=', sql.lit(1))
    .where('desired', '=', desired)
    .execute();
