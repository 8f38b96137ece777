/** Spends an account's money in order: vouchers, credits, cash down to the floor. */
import type { Micros } from '../regions/catalog.ts';
import type { Meter } from './meter.ts';

export const grantKinds = ['voucher', 'credit'] as const;
export type GrantKind = (typeof grantKinds)[number];
/** Taxes that payers paid, for the operator to pay to the authorities. */
export const TAX_LEDGER = 'tax';

export const creditKinds = ['cash', ...grantKinds] as const;
export type CreditKind = (typeof creditKinds)[number];

/** Whether an entry to this ledger account is money received: to spend, or a tax. */
export const isIncome = (toLedger: string): boolean =>
  toLedger === TAX_LEDGER || creditKinds.some((kind) => kind === toLedger);

/** Limit of one deposit, voucher, credit or overdraft. */
export const MAX_CREDIT_DOLLARS = 1_000_000_000;
/** Limit of cash, vouchers and credits of an account together. */
export const MAX_HELD_MICROS: Micros = 9_000_000_000_000_000n;

/** Absent members do not restrict. */
export interface GrantScope {
  regionId?: string | undefined;
  instanceTypeId?: string | undefined;
  meter?: Meter | undefined;
}

export interface CreditGrant {
  id: string;
  kind: GrantKind;
  leftMicros: Micros;
  expiresAtMs: number | null;
  scope: GrantScope;
  createdAtMs: number;
}

export interface Purse {
  cashMicros: Micros;
  /** 0, or minus the overdraft. */
  floorMicros: Micros;
  grants: readonly CreditGrant[];
}

export interface Purchase {
  regionId: string;
  /** '' for storage. */
  instanceTypeId: string;
  meter: Meter;
}

export interface Payment {
  ledger: GrantKind | 'cash';
  /** '' for cash. */
  grantId: string;
  amountMicros: Micros;
}

export interface Spent {
  payments: Payment[];
  unpaidMicros: Micros;
  purse: Purse;
}

const isOpen = ({ leftMicros, expiresAtMs }: CreditGrant, atMs: number): boolean =>
  leftMicros > 0n && (expiresAtMs === null || expiresAtMs > atMs);

const fits = ({ scope }: CreditGrant, { regionId, instanceTypeId, meter }: Purchase): boolean =>
  (scope.regionId === undefined || scope.regionId === regionId) &&
  (scope.instanceTypeId === undefined || scope.instanceTypeId === instanceTypeId) &&
  (scope.meter === undefined || scope.meter === meter);

/** Infinity less Infinity is NaN: then the creation time decides. */
const byExpiry = (one: CreditGrant, other: CreditGrant): number =>
  (one.expiresAtMs ?? Infinity) - (other.expiresAtMs ?? Infinity) ||
  one.createdAtMs - other.createdAtMs ||
  (one.id < other.id ? -1 : 1);

const inOrder = (purse: Purse, purchase: Purchase, atMs: number): CreditGrant[] => {
  if (purse.grants.length === 0) return [];
  const open = purse.grants.filter((grant) => isOpen(grant, atMs) && fits(grant, purchase));
  return grantKinds.flatMap((kind) => open.filter((grant) => grant.kind === kind).toSorted(byExpiry));
};

/** Sums what is left of vouchers or credits that have not expired. */
export const grantedMicros = ({ grants }: Purse, kind: GrantKind, atMs: number): Micros =>
  grants.reduce((sum, grant) => (grant.kind === kind && isOpen(grant, atMs) ? sum + grant.leftMicros : sum), 0n);

/** Cash down to the floor. */
export const spendableCash = ({ cashMicros, floorMicros }: Purse): Micros =>
  cashMicros > floorMicros ? cashMicros - floorMicros : 0n;

const lesser = (one: Micros, other: Micros): Micros => (one < other ? one : other);

/** Money that the purchase could spend. */
export function availableFor(purse: Purse, purchase: Purchase, atMs: number): Micros {
  const granted = inOrder(purse, purchase, atMs).reduce((sum, { leftMicros }) => sum + leftMicros, 0n);
  return granted + spendableCash(purse);
}

/** Spends up to `amountMicros`, and leaves the rest unpaid. */
export function spend(purse: Purse, amountMicros: Micros, purchase: Purchase, atMs: number): Spent {
  const payments: Payment[] = [];
  const left = new Map<string, Micros>();
  let unpaid = amountMicros;
  for (const { id, kind, leftMicros } of inOrder(purse, purchase, atMs)) {
    if (unpaid === 0n) break;
    const paid = lesser(leftMicros, unpaid);
    payments.push({ ledger: kind, grantId: id, amountMicros: paid });
    left.set(id, leftMicros - paid);
    unpaid -= paid;
  }
  const cash = lesser(spendableCash(purse), unpaid);
  if (cash > 0n) payments.push({ ledger: 'cash', grantId: '', amountMicros: cash });
  const grants = purse.grants.map((grant) => ({ ...grant, leftMicros: left.get(grant.id) ?? grant.leftMicros }));
  return {
    payments,
    unpaidMicros: unpaid - cash,
    purse: { ...purse, cashMicros: purse.cashMicros - cash, grants },
  };
}
