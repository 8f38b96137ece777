/**
 * Entries, balances and credit grants. The account's row is locked before any of them: its columns
 * `balanceMicros`, `voucherMicros` and `creditMicros` are the sums of its entries.
 */
import { sql, type Insertable, type Selectable } from 'kysely';
import { grantKinds, type CreditGrant, type Purse } from '../../domain/money/purse.ts';
import { oneOf, parseJson } from '../db/columns.ts';
import { locking, newRows } from '../db/dialect.ts';
import { count, prepared } from '../db/prepared.ts';
import type { AccountTable } from '../db/account-schema.ts';
import type { CreditGrantTable, EntryTable } from '../db/billing-schema.ts';
import type { Db } from '../store.ts';
import { grantScope } from './json-schemas.ts';

export type EntryRow = Selectable<EntryTable>;
export type NewEntry = Omit<Insertable<EntryTable>, 'id'>;

export interface Wallet {
  accountId: string;
  purse: Purse;
}

/** Members that most entries leave empty. */
export const plainEntry = {
  grantId: '',
  subjectId: '',
  meter: '',
  periodId: null,
  hourMs: null,
  fromMs: null,
  untilMs: null,
  reason: '',
  byAccountId: '',
  reversesId: null,
} as const;

const grantFromRow = (row: Selectable<CreditGrantTable>): CreditGrant => ({
  id: row.id,
  kind: oneOf(grantKinds, row.kind),
  leftMicros: BigInt(row.leftMicros),
  expiresAtMs: row.expiresAtMs,
  scope: parseJson(grantScope, row.scope, { table: 'creditGrant', id: row.id, column: 'scope' }),
  createdAtMs: row.createdAtMs,
});

type CashColumns = Pick<Selectable<AccountTable>, 'balanceMicros' | 'overdraftMicros'>;
type WalletColumns = CashColumns & Pick<Selectable<AccountTable>, 'id' | 'voucherMicros' | 'creditMicros'>;

const cashOf = ({ balanceMicros, overdraftMicros }: CashColumns) => ({
  cashMicros: BigInt(balanceMicros),
  floorMicros: -BigInt(overdraftMicros),
});

/** Locks the accounts in the order of their ids, and reads what they can spend. */
export const lockWallets = (tx: Db, accountIds: Iterable<string>): Promise<Map<string, Wallet>> =>
  walletsOf(tx, accountIds, true);

/** `lockWallets` of an account that exists; `wallets` holds it alone. */
export async function lockWallet(tx: Db, accountId: string): Promise<{ wallets: Map<string, Wallet>; wallet: Wallet }> {
  const wallets = await lockWallets(tx, [accountId]);
  const wallet = wallets.get(accountId);
  if (!wallet) throw new Error(`account ${accountId} does not exist`);
  return { wallets, wallet };
}

function walletRows(db: Db, areLocked: boolean) {
  const rows = db
    .selectFrom('account')
    .select(['id', 'balanceMicros', 'voucherMicros', 'creditMicros', 'overdraftMicros']);
  return areLocked ? locking(db, rows) : rows;
}

const lockedWalletRow = prepared<{ id: string }>()((db, p) => walletRows(db, true).where('id', '=', p('id')));

export async function walletsOf(tx: Db, accountIds: Iterable<string>, areLocked = false): Promise<Map<string, Wallet>> {
  const ids = [...new Set(accountIds)].toSorted();
  const [id] = ids;
  if (id === undefined) return new Map();
  const rows =
    areLocked && ids.length === 1
      ? await lockedWalletRow(tx, { id })
      : await walletRows(tx, areLocked).where('id', 'in', ids).orderBy('id').execute();
  const withGrants = rows.filter(({ voucherMicros, creditMicros }) => voucherMicros + creditMicros > 0);
  const grants = await openGrantsOf(
    tx,
    withGrants.map(({ id }) => id),
  );
  return new Map(
    rows.map(({ id, balanceMicros, overdraftMicros }) => [
      id,
      {
        accountId: id,
        purse: {
          ...cashOf({ balanceMicros, overdraftMicros }),
          grants: grants.filter(({ accountId }) => accountId === id).map(({ grant }) => grant),
        },
      },
    ]),
  );
}

async function openGrantsOf(db: Db, accountIds: string[]): Promise<{ accountId: string; grant: CreditGrant }[]> {
  if (accountIds.length === 0) return [];
  const rows = await db
    .selectFrom('creditGrant')
    .selectAll()
    .where('accountId', 'in', accountIds)
    .where('leftMicros', '>', sql.lit(0))
    .execute();
  return rows.map((row) => ({ accountId: row.accountId, grant: grantFromRow(row) }));
}

const sumOf = ({ grants }: Purse, kind: CreditGrant['kind']): number =>
  Number(grants.reduce((sum, grant) => (grant.kind === kind ? sum + grant.leftMicros : sum), 0n));

/** Writes what the locked wallets hold now. */
export async function saveWallets(
  tx: Db,
  before: ReadonlyMap<string, Wallet>,
  wallets: Iterable<Wallet>,
): Promise<void> {
  const changed = [...wallets].filter((wallet) => before.get(wallet.accountId)?.purse !== wallet.purse);
  if (changed.length === 0) return;
  const balances = changed.map(({ accountId, purse }) => ({
    id: accountId,
    cash: Number(purse.cashMicros),
    voucher: sumOf(purse, 'voucher'),
    credit: sumOf(purse, 'credit'),
  }));
  const columns = { id: 'text', cash: 'bigint', voucher: 'bigint', credit: 'bigint' } as const;
  await sql`update account set "balanceMicros" = cash, "voucherMicros" = voucher, "creditMicros" = credit
    from ${newRows(tx, balances, columns)} where account.id = new.id`.execute(tx);
  const grants = changed.flatMap(({ accountId, purse }) => {
    const were = new Map(before.get(accountId)?.purse.grants.map(({ id, leftMicros }) => [id, leftMicros]));
    return purse.grants
      .filter(({ id, leftMicros }) => were.get(id) !== leftMicros)
      .map(({ id, leftMicros }) => ({ id, micros: Number(leftMicros) }));
  });
  if (grants.length === 0) return;
  await sql`update "creditGrant" set "leftMicros" = micros
    from ${newRows(tx, grants, { id: 'text', micros: 'bigint' })} where "creditGrant".id = new.id`.execute(tx);
}

export async function writeEntries(tx: Db, entries: readonly NewEntry[]): Promise<void> {
  if (entries.length === 0) return;
  await tx
    .insertInto('entry')
    .values([...entries])
    .execute();
}

/** Inserts an entry that is not metered use. */
export async function insertEntry(tx: Db, entry: NewEntry): Promise<EntryRow> {
  return tx.insertInto('entry').values(entry).returningAll().executeTakeFirstOrThrow();
}

/** Entries of a subject from `sinceId` on, metered use apart. */
export async function entriesAbout(db: Db, subjectId: string, sinceId: number): Promise<EntryRow[]> {
  return db
    .selectFrom('entry')
    .selectAll()
    .where('subjectId', '=', subjectId)
    .where('kind', '<>', sql.lit('charge'))
    .where('id', '>=', sinceId)
    .orderBy('id')
    .execute();
}

/** Metered use of the periods that one event opened: gaps and new labels split them. */
export async function chargesOfRun(db: Db, subjectId: string, openSeq: number): Promise<EntryRow[]> {
  const periods = db.selectFrom('usagePeriod').select('id').where('subjectId', '=', subjectId);
  return db
    .selectFrom('entry')
    .selectAll()
    .where('periodId', 'in', periods.where('openSeq', '=', openSeq))
    .where('kind', '=', sql.lit('charge'))
    .orderBy('id')
    .execute();
}

export async function grantsById(db: Db, ids: readonly string[]): Promise<CreditGrant[]> {
  if (ids.length === 0) return [];
  return (await db.selectFrom('creditGrant').selectAll().where('id', 'in', ids).execute()).map(grantFromRow);
}

/** Reads what the account can spend, without a lock. */
export async function purseOf(db: Db, row: WalletColumns): Promise<Purse> {
  const granted = row.voucherMicros + row.creditMicros > 0 ? await openGrantsOf(db, [row.id]) : [];
  return { ...cashOf(row), grants: granted.map(({ grant }) => grant) };
}

export interface ListedGrant extends CreditGrant {
  amountMicros: bigint;
  reason: string;
}

/** Vouchers and credits of the account, newest first. */
export async function grantPage(
  db: Db,
  accountId: string,
  { offset, limit }: { offset: number; limit: number },
): Promise<{ grants: ListedGrant[]; totalEntries: number }> {
  const own = db.selectFrom('creditGrant').where('accountId', '=', accountId);
  const { total } = await own.select(({ fn }) => fn.countAll<number>().as('total')).executeTakeFirstOrThrow();
  const newest = own.selectAll().orderBy('createdAtMs', 'desc').orderBy('id', 'desc');
  const rows = await newest.limit(limit).offset(offset).execute();
  const grants = rows.map((row) => ({
    ...grantFromRow(row),
    amountMicros: BigInt(row.amountMicros),
    reason: row.reason,
  }));
  return { grants, totalEntries: total };
}

export interface UsageEntry {
  periodId: number;
  fromLedger: string;
  grantId: string;
  amountMicros: number;
  hourMs: number;
  fromMs: number;
  untilMs: number;
}

/** Books metered use. Entries of an hour of a period add to those that the hour has already. */
export async function writeUsageEntries(tx: Db, entries: readonly UsageEntry[]): Promise<void> {
  if (entries.length === 0) return;
  const columns = {
    periodId: 'bigint',
    fromLedger: 'text',
    grantId: 'text',
    amountMicros: 'bigint',
    hourMs: 'bigint',
    fromMs: 'bigint',
    untilMs: 'bigint',
  } as const;
  await sql`insert into entry ("accountId", "atMs", kind, "fromLedger", "toLedger", "amountMicros", "grantId",
      "subjectId", meter, "periodId", "hourMs", "fromMs", "untilMs", reason, "byAccountId")
    select period."accountId", new."fromMs", 'charge', new."fromLedger", 'revenue', new."amountMicros", new."grantId",
      period."subjectId", period.meter, period.id, new."hourMs", new."fromMs", new."untilMs", '', ''
    from ${newRows(tx, entries, columns)} cross join "usagePeriod" as period where period.id = new."periodId"
    on conflict ("periodId", "hourMs", "fromLedger", "grantId") do update
      set "amountMicros" = entry."amountMicros" + excluded."amountMicros", "untilMs" = excluded."untilMs"`.execute(tx);
}

export async function insertGrant(tx: Db, grant: Insertable<CreditGrantTable>): Promise<void> {
  await tx.insertInto('creditGrant').values(grant).execute();
}

export async function endGrant(tx: Db, id: string, nowMs: number): Promise<void> {
  await tx.updateTable('creditGrant').set({ expiresAtMs: nowMs }).where('id', '=', id).execute();
}

export async function entryById(db: Db, id: number): Promise<EntryRow | undefined> {
  return db.selectFrom('entry').selectAll().where('id', '=', id).executeTakeFirst();
}

/** Entries that reverse or refund this one. */
export async function reversalsOf(db: Db, { accountId, id }: Pick<EntryRow, 'accountId' | 'id'>): Promise<EntryRow[]> {
  return db
    .selectFrom('entry')
    .selectAll()
    .where('accountId', '=', accountId)
    .where('kind', '<>', sql.lit('charge'))
    .where('reversesId', '=', id)
    .orderBy('id')
    .execute();
}

const expired = prepared<{ nowMs: number; limit: number }>()((db, p) =>
  db
    .selectFrom('creditGrant')
    .select(['id', 'accountId'])
    .where('leftMicros', '>', sql.lit(0))
    .where('expiresAtMs', '<=', p('nowMs'))
    .orderBy('expiresAtMs')
    .limit(count(p('limit'))),
);

/** Grants past their expiry that still hold money. */
export const expiredGrants = (db: Db, nowMs: number, limit: number): Promise<{ id: string; accountId: string }[]> =>
  expired(db, { nowMs, limit });

/** Money that the account holds now, by ledger. */
export async function moneyOf(db: Db, accountId: string): Promise<{ cash: number; voucher: number; credit: number }> {
  const row = await db
    .selectFrom('account')
    .select(['balanceMicros', 'voucherMicros', 'creditMicros'])
    .where('id', '=', accountId)
    .executeTakeFirst();
  return { cash: row?.balanceMicros ?? 0, voucher: row?.voucherMicros ?? 0, credit: row?.creditMicros ?? 0 };
}
