/** Limits by account and name, and what accounts use of them, as JSON in the account's row. */
import {
  addUsage,
  isQuotaName,
  refuseOverQuota,
  usageDifference,
  type QuotaName,
  type QuotaSet,
  type Usage,
} from '../../domain/access/quota.ts';
import { parseJson } from '../db/columns.ts';
import { prepared } from '../db/prepared.ts';
import type { Db } from '../store.ts';
import { usageColumn } from './json-schemas.ts';

/** `accountId` of the installation's limits. */
export const INSTALLATION = '';

export interface UsageChange {
  before: Usage;
  after: Usage;
  /** False for what must never be refused, such as a stop. */
  mayRefuse: boolean;
}

const limitsFor = prepared<{ accountId: string; installation: string }>()((db, p) =>
  db
    .selectFrom('quota')
    .select(['accountId', 'name', 'value'])
    .where((eb) => eb.or([eb('accountId', '=', p('accountId')), eb('accountId', '=', p('installation'))])),
);

export async function quotasOf(db: Db, accountId: string): Promise<QuotaSet> {
  const account = new Map<string, number>();
  const installation = new Map<string, number>();
  for (const { accountId: of, name, value } of await limitsFor(db, { accountId, installation: INSTALLATION }))
    (of === INSTALLATION ? installation : account).set(name, value);
  return { account, installation };
}

/** Null: back to the limit of the installation, or the built-in one. */
export async function writeQuota(tx: Db, accountId: string, name: QuotaName, value: number | null): Promise<void> {
  if (value === null) {
    await tx.deleteFrom('quota').where('accountId', '=', accountId).where('name', '=', name).execute();
    return;
  }
  await tx
    .insertInto('quota')
    .values({ accountId, name, value })
    .onConflict((conflict) => conflict.columns(['accountId', 'name']).doUpdateSet({ value }))
    .execute();
}

export const parseUsage = (text: string, id: string): Usage =>
  usageFrom(parseJson(usageColumn, text, { table: 'account', id, column: 'usage' }));

const usageFrom = (counts: Record<string, number>): Usage =>
  Object.fromEntries(Object.entries(counts).filter(([name]) => isQuotaName(name)));

export const writeUsage = prepared<{ accountId: string; usage: string }>()((db, p) =>
  db
    .updateTable('account')
    .set({ usage: p('usage') })
    .where('id', '=', p('accountId')),
);

/** Moves what the account uses, whose row is locked. Throws `over_quota` for more than allowed. */
export async function moveUsage(
  tx: Db,
  accountId: string,
  text: string,
  { before, after, mayRefuse }: UsageChange,
): Promise<void> {
  const more = usageDifference(before, after);
  const amounts = Object.values(more);
  if (amounts.length === 0) return;
  const used = parseUsage(text, accountId);
  if (mayRefuse && amounts.some((amount = 0) => amount > 0)) refuseOverQuota(used, more, await quotasOf(tx, accountId));
  await writeUsage(tx, { accountId, usage: JSON.stringify(addUsage(used, more)) });
}
