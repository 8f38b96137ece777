/** Budgets of accounts, and what they count. The account is locked before its budgets. */
import { sql, type Insertable, type Selectable } from 'kysely';
import { noteSmallRows } from '../../async/rows-read.ts';
import type { BudgetTable } from '../db/billing-schema.ts';
import { prepared } from '../db/prepared.ts';
import type { Db } from '../store.ts';

export type BudgetRow = Selectable<BudgetTable>;

/** Resources that a budget counts. */
export type BudgetScope = Pick<BudgetRow, 'accountId' | 'labelKey' | 'labelValue'>;

export const budgetsOf = (db: Db, accountId: string): Promise<BudgetRow[]> =>
  db.selectFrom('budget').selectAll().where('accountId', '=', accountId).orderBy('createdAtMs').orderBy('id').execute();

export const budgetNamed = (db: Db, accountId: string, name: string): Promise<BudgetRow | undefined> =>
  db.selectFrom('budget').selectAll().where('accountId', '=', accountId).where('name', '=', name).executeTakeFirst();

export const budgetsAfter = (db: Db, afterId: string, limit: number): Promise<BudgetRow[]> =>
  db.selectFrom('budget').selectAll().where('id', '>', afterId).orderBy('id').limit(limit).execute();

export async function insertBudget(tx: Db, row: Insertable<BudgetTable>): Promise<void> {
  await tx.insertInto('budget').values(row).execute();
}

export async function changeBudget(tx: Db, id: string, change: Partial<BudgetRow>): Promise<void> {
  await tx.updateTable('budget').set(change).where('id', '=', id).execute();
}

export async function deleteBudget(tx: Db, id: string): Promise<void> {
  await tx.deleteFrom('budget').where('id', '=', id).execute();
}

const reached = prepared<{ accountId: string }>()((db, p) =>
  db.selectFrom('budget').selectAll().where('accountId', '=', p('accountId')).where('hardReached', '=', sql.lit(1)),
);

export const reachedBudgetsOf = (db: Db, accountId: string): Promise<BudgetRow[]> => reached(db, { accountId });

const allReached = prepared()((db) =>
  db.selectFrom('budget').selectAll().where('hardReached', '=', sql.lit(1)).orderBy('id'),
);

export const allReachedBudgets = (db: Db): Promise<BudgetRow[]> => allReached(db, {});

const labelled = (db: Db, { accountId, labelKey, labelValue }: BudgetScope) =>
  db
    .selectFrom('label')
    .select('subjectId')
    .where('ownerId', '=', accountId)
    .where('key', '=', labelKey)
    .where('value', '=', labelValue);

/** Whether the scope contains an instance or volume of the account. */
export async function isInScope(db: Db, scope: BudgetScope, subjectId: string): Promise<boolean> {
  if (scope.labelKey === '') return true;
  return (await labelled(db, scope).where('subjectId', '=', subjectId).executeTakeFirst()) !== undefined;
}

/** Micro-dollars of charges and purchases, less refunds, in a span. */
export async function spentBetween(
  db: Db,
  scope: BudgetScope,
  { fromMs, untilMs }: { fromMs: number; untilMs: number },
): Promise<number> {
  const amount = sql<
    number | string
  >`coalesce(sum(case when kind = 'refund' then -"amountMicros" else "amountMicros" end), 0)`;
  const entries = db
    .selectFrom('entry')
    .select([amount.as('spent'), sql<number>`count(*)`.as('rows')])
    .where('accountId', '=', scope.accountId)
    .where('atMs', '>=', fromMs)
    .where('atMs', '<', untilMs)
    .where('kind', 'in', ['charge', 'prepayment', 'refund']);
  const counted = scope.labelKey === '' ? entries : entries.where('subjectId', 'in', labelled(db, scope));
  const found = await counted.executeTakeFirst();
  noteSmallRows(found?.rows ?? 0);
  return Number(found?.spent ?? 0);
}

/** Instances of the scope that are requested to run. */
export async function runningInScope(db: Db, scope: BudgetScope): Promise<{ id: string; ownerId: string }[]> {
  const running = db
    .selectFrom('instance')
    .select(['id', 'ownerId'])
    .where('ownerId', '=', scope.accountId)
    .where('listed', '=', sql.lit(1))
    .where('desired', '=', 'running');
  return (scope.labelKey === '' ? running : running.where('id', 'in', labelled(db, scope))).execute();
}

/** Resources of the scope; null: all of the account. */
export async function subjectsInScope(db: Db, scope: BudgetScope): Promise<Set<string> | null> {
  if (scope.labelKey === '') return null;
  return new Set((await labelled(db, scope).execute()).map(({ subjectId }) => subjectId));
}
