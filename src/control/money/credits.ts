/** Deposits, vouchers and credits that administrators give and take back. */
import { fromDollars, toDollars, type Micros } from '../../domain/regions/catalog.ts';
import {
  creditKinds,
  MAX_HELD_MICROS,
  spendableCash,
  type CreditKind,
  type GrantKind,
  type GrantScope,
} from '../../domain/money/purse.ts';
import { Refusal, regionNotFound } from '../../domain/kernel/refusal.ts';
import { oneOf } from '../../store/db/columns.ts';
import type { Db } from '../../store/store.ts';
import { changeAccount, type AccountRow } from '../../store/tables/accounts.ts';
import { managedTypeById } from '../../store/tables/catalog-rows.ts';
import { regionWithUsage } from '../../store/tables/catalog.ts';
import { appendEvent } from '../../store/tables/events.ts';
import {
  endGrant,
  entryById,
  grantPage,
  insertEntry,
  insertGrant,
  lockWallet,
  plainEntry,
  reversalsOf,
  saveWallets,
  type EntryRow,
  type Wallet,
} from '../../store/tables/ledger.ts';
import { accountIdOf, accountInfo, refuseDeleting, writeAsAdmin, type AccountInfo } from '../access/ports.ts';
import type { Caller, Mutation, Pager, WriteDeps } from '../kernel/ports.ts';

/** Amounts are dollars; that of a reversal is negative. */
export interface CreditEntry {
  entryId: string;
  atMs: number;
  kind: string;
  amount: number;
  account: CreditKind;
  grantId: string | null;
  reversesId: string | null;
  reason: string;
}

export interface CreditInput {
  username: string;
  amount: number;
  kind: CreditKind;
  expiresAt?: number | undefined;
  scope?: GrantScope | undefined;
  reason: string;
}

export interface GrantInfo {
  grantId: string;
  kind: GrantKind;
  amount: number;
  left: number;
  scope: { [Member in keyof GrantScope]-?: Exclude<GrantScope[Member], undefined> | null };
  reason: string;
  expiresAtUnixMs: number | null;
  createdAtUnixMs: number;
}

export interface Credits {
  give: Mutation<CreditInput, { entry: CreditEntry }>;
  /** Takes back an entry once: a deposit whole, of a grant what is left. */
  reverse: Mutation<{ entryId: string; reason: string }, { entry: CreditEntry }>;
  setOverdraft: Mutation<{ username: string; overdraft: number }, { account: AccountInfo }>;
  list(caller: Caller, pager: Pager): Promise<{ grants: GrantInfo[]; totalEntries: number }>;
}

export interface CreditDeps extends WriteDeps {
  randomUuid: () => string;
}

export function makeCredits(deps: CreditDeps): Credits {
  const { store, time } = deps;

  return {
    async give(caller, input, idempotency) {
      const accountId = await accountIdOf(store.read, input.username);
      return writeAsAdmin(deps, caller, accountId, idempotency, async (target) => {
        const { tx, row, nowMs } = target;
        refuseDeleting(target);
        await refuseWrongGrant(tx, input, nowMs);
        refuseExcess(row, input.amount);
        const grantId = input.kind === 'cash' ? '' : deps.randomUuid();
        const entry = await writeCredit(tx, { caller, accountId, input, grantId, nowMs });
        const { entryId, amount, reason } = entry;
        const given = { kind: input.kind, expiresAt: input.expiresAt ?? null, scope: input.scope ?? {} };
        const data = { entryId, grantId: entry.grantId, amount, ...given, reason };
        await appendEvent(tx, { accountId, atMs: nowMs, kind: 'billing.credited', subjectId: accountId, data });
        return { entry };
      });
    },

    async reverse(caller, { entryId, reason }, idempotency) {
      const given = await givenEntry(store.read, entryId);
      const { accountId } = given;
      return writeAsAdmin(deps, caller, accountId, idempotency, async ({ tx, nowMs }) => {
        await refuseReversed(tx, given);
        const entry = await writeReversal(tx, { caller, given, reason, nowMs });
        const { amount, account, grantId, reversesId } = entry;
        const data = { entryId: entry.entryId, reversesId, grantId, amount, kind: account, reason };
        await appendEvent(tx, { accountId, atMs: nowMs, kind: 'billing.creditReversed', subjectId: accountId, data });
        return { entry };
      });
    },

    async setOverdraft(caller, { username, overdraft }, idempotency) {
      const accountId = await accountIdOf(store.read, username);
      return writeAsAdmin(deps, caller, accountId, idempotency, async ({ tx, row, nowMs }) => {
        const data = { overdraft, formerOverdraft: accountInfo(row).overdraft };
        const changed = await changeAccount(tx, accountId, { overdraftMicros: Number(fromDollars(overdraft)) });
        await appendEvent(tx, { accountId, atMs: nowMs, kind: 'billing.overdraftSet', subjectId: accountId, data });
        return { account: accountInfo(changed) };
      });
    },

    async list({ accountId }, { currentPage, pageSize }) {
      const page = { offset: (currentPage - 1) * pageSize, limit: pageSize };
      const { grants, totalEntries } = await grantPage(store.read, accountId, page);
      const nowMs = time.now();
      const listed = grants.map(({ id, kind, amountMicros, leftMicros, scope, expiresAtMs, createdAtMs, reason }) => ({
        grantId: id,
        kind,
        amount: toDollars(amountMicros),
        left: expiresAtMs !== null && expiresAtMs <= nowMs ? 0 : toDollars(leftMicros),
        scope: {
          regionId: scope.regionId ?? null,
          instanceTypeId: scope.instanceTypeId ?? null,
          meter: scope.meter ?? null,
        },
        reason,
        expiresAtUnixMs: expiresAtMs,
        createdAtUnixMs: createdAtMs,
      }));
      return { grants: listed, totalEntries };
    },
  };
}

interface Credit {
  caller: Caller;
  accountId: string;
  input: CreditInput;
  /** '' for cash. */
  grantId: string;
  nowMs: number;
}

async function writeCredit(tx: Db, { caller, accountId, input, grantId, nowMs }: Credit): Promise<CreditEntry> {
  const { kind, reason } = input;
  const amountMicros = fromDollars(input.amount);
  const {
    wallets,
    wallet: { purse },
  } = await lockWallet(tx, accountId);
  if (kind === 'cash') {
    const after = { accountId, purse: { ...purse, cashMicros: purse.cashMicros + amountMicros } };
    await saveWallets(tx, wallets, [after]);
  } else {
    const { expiresAt: expiresAtMs = null, scope = {} } = input;
    const facts = { id: grantId, kind, expiresAtMs, createdAtMs: nowMs };
    const amounts = { amountMicros: Number(amountMicros), leftMicros: Number(amountMicros) };
    await insertGrant(tx, { ...facts, ...amounts, accountId, scope: JSON.stringify(scope), reason });
    const grants = [...purse.grants, { ...facts, scope, leftMicros: amountMicros }];
    await saveWallets(tx, wallets, [{ accountId, purse: { ...purse, grants } }]);
  }
  const entry = await insertEntry(tx, {
    ...plainEntry,
    accountId,
    atMs: nowMs,
    kind: kind === 'cash' ? 'deposit' : 'grant',
    fromLedger: kind === 'cash' ? 'deposits' : 'grants',
    toLedger: kind,
    amountMicros: Number(amountMicros),
    grantId,
    reason,
    byAccountId: caller.accountId,
  });
  return publicEntry(entry);
}

interface Reversal {
  caller: Caller;
  given: EntryRow;
  reason: string;
  nowMs: number;
}

async function writeReversal(tx: Db, { caller, given: reversed, reason, nowMs }: Reversal): Promise<CreditEntry> {
  const { accountId, grantId } = reversed;
  const {
    wallets,
    wallet: { purse },
  } = await lockWallet(tx, accountId);
  const amountMicros = grantId === '' ? wholeDeposit(reversed, purse) : leftOf(reversed, purse);
  const after =
    grantId === ''
      ? { ...purse, cashMicros: purse.cashMicros - amountMicros }
      : { ...purse, grants: purse.grants.map((one) => (one.id === grantId ? { ...one, leftMicros: 0n } : one)) };
  await saveWallets(tx, wallets, [{ accountId, purse: after }]);
  // Later refunds to it expire.
  if (grantId !== '') await endGrant(tx, grantId, nowMs);
  const entry = await insertEntry(tx, {
    ...plainEntry,
    accountId,
    atMs: nowMs,
    kind: 'reversal',
    fromLedger: reversed.toLedger,
    toLedger: reversed.fromLedger,
    amountMicros: Number(amountMicros),
    grantId,
    reason,
    byAccountId: caller.accountId,
    reversesId: reversed.id,
  });
  return publicEntry(entry);
}

function wholeDeposit({ amountMicros }: EntryRow, purse: Wallet['purse']): Micros {
  const given = BigInt(amountMicros);
  const free = spendableCash(purse);
  if (free >= given) return given;
  const spent = toDollars(given - free);
  const floor = purse.floorMicros === 0n ? '0' : `$${toDollars(purse.floorMicros)}, the overdraft`;
  throw new Refusal(
    'not_now',
    `the deposit of $${toDollars(given)} cannot be taken back: $${spent} of it is spent. The balance is $${toDollars(purse.cashMicros)} and may fall to ${floor}; credit the account with $${spent} first, or raise its overdraft with POST /api/admin/account/overdraft`,
  );
}

function leftOf({ grantId, toLedger }: EntryRow, { grants }: Wallet['purse']): Micros {
  const left = grants.find(({ id }) => id === grantId)?.leftMicros ?? 0n;
  if (left > 0n) return left;
  throw new Refusal('not_now', `nothing is left of the ${toLedger} ${grantId}, so there is nothing to take back`);
}

async function givenEntry(db: Db, entryId: string): Promise<EntryRow> {
  const entry = /^[1-9]\d{0,14}$/.test(entryId) ? await entryById(db, Number(entryId)) : undefined;
  if (!entry) throw new Refusal('not_found', `entry ${entryId} not found; POST /api/admin/account/credit answers it`);
  if (entry.fromLedger === 'deposits' || entry.fromLedger === 'grants') return entry;
  throw new Refusal(
    'field_value',
    `field "entryId" is ${entryId}, an entry of kind ${entry.kind}: only deposits, vouchers and credits can be taken back`,
  );
}

async function refuseReversed(tx: Db, given: EntryRow): Promise<void> {
  const reversal = (await reversalsOf(tx, given)).find(({ kind }) => kind === 'reversal');
  if (reversal) throw new Refusal('not_now', `entry ${given.id} was taken back by entry ${reversal.id} already`);
}

async function refuseWrongGrant(
  tx: Db,
  { kind, expiresAt: expiresAtMs, scope }: CreditInput,
  nowMs: number,
): Promise<void> {
  const only = (field: string, kinds: string) =>
    new Refusal('field_value', `field "${field}" is set, and "kind" is "${kind}": only ${kinds}; leave it out`);
  if (expiresAtMs !== undefined && kind === 'cash') throw only('expiresAt', 'vouchers and credits expire');
  if (expiresAtMs !== undefined && expiresAtMs <= nowMs)
    throw new Refusal(
      'field_value',
      `field "expiresAt" is ${expiresAtMs} (${new Date(expiresAtMs).toISOString()}), which is past: send a time after now, in Unix milliseconds`,
    );
  if (scope === undefined) return;
  if (kind !== 'voucher') throw only('scope', 'vouchers have a scope');
  const { regionId, instanceTypeId, meter } = scope;
  if (regionId !== undefined && !(await regionWithUsage(tx, regionId))) throw regionNotFound(regionId);
  if (instanceTypeId === undefined) return;
  const type = await managedTypeById(tx, instanceTypeId);
  if (!type)
    throw new Refusal(
      'not_found',
      `instance type ${instanceTypeId} not found; POST /api/admin/type/list lists all types`,
    );
  if (regionId !== undefined && type.regionId !== regionId)
    throw new Refusal(
      'field_value',
      `field "scope.regionId" is ${regionId}, but instance type ${type.name} is of region ${type.regionId}: leave the region out`,
    );
  if (meter === 'volume' || meter === 'snapshot')
    throw new Refusal(
      'field_value',
      `field "scope.meter" is "${meter}", which has no instance type: leave "scope.instanceTypeId" out`,
    );
}

/** Keeps sums within whole numbers of a double. */
function refuseExcess({ balanceMicros, voucherMicros, creditMicros }: AccountRow, amount: number): void {
  const free = MAX_HELD_MICROS - BigInt(balanceMicros) - BigInt(voucherMicros) - BigInt(creditMicros);
  if (fromDollars(amount) <= free) return;
  throw new Refusal(
    'field_value',
    `field "amount" is ${amount}, and an account may hold $${toDollars(MAX_HELD_MICROS)}: at most $${toDollars(free)} can be added`,
  );
}

const publicEntry = (row: EntryRow): CreditEntry => ({
  entryId: String(row.id),
  atMs: row.atMs,
  kind: row.kind,
  amount: toDollars(row.kind === 'reversal' ? -row.amountMicros : row.amountMicros),
  account: oneOf(creditKinds, row.kind === 'reversal' ? row.fromLedger : row.toLedger),
  grantId: row.grantId === '' ? null : row.grantId,
  reversesId: row.reversesId === null ? null : String(row.reversesId),
  reason: row.reason,
});
