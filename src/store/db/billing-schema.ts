/** Tables of billing: `docs/reference/billing.md`. Amounts are micro-dollars. */
import type { Generated } from 'kysely';
import type { Flag } from './columns.ts';

/** A span in which one resource has one price. At most one is open per resource. */
export interface UsagePeriodTable {
  id: Generated<number>;
  accountId: string;
  subjectId: string;
  /** Name of the resource: a change of it, or of the labels, begins another period. */
  subjectName: string;
  meter: string;
  state: string;
  regionId: string;
  /** Instance type, or type of a volume; '' for snapshots. */
  typeId: string;
  priceMicros: number;
  quantity: number;
  unitMs: number;
  openedAtMs: number;
  closedAtMs: number | null;
  /** Numbers of the events that opened and closed the period; none closes it for a gap. */
  openSeq: number;
  closeSeq: number | null;
  /** Booked up to here; moves with the clock when the clock is set. */
  chargedUntilMs: number;
  chargedMicros: Generated<number>;
  /** Below one unit, in `price × quantity × ms`. */
  carry: number;
  /** 1 while the period is open and costs money. */
  isCharging: Flag;
  /** JSON of the resource's labels; null without. */
  labels: Generated<string | null>;
}

/** Moves an amount from one ledger account to another. */
export interface EntryTable {
  id: Generated<number>;
  accountId: string;
  atMs: number;
  kind: string;
  fromLedger: string;
  toLedger: string;
  amountMicros: number;
  /** '' unless a voucher or credit moves. */
  grantId: string;
  subjectId: string;
  meter: string;
  /** Set for metered use, with its hour and span. */
  periodId: number | null;
  hourMs: number | null;
  fromMs: number | null;
  untilMs: number | null;
  reason: string;
  /** Account that asked for it; '' for Berth. */
  byAccountId: string;
  /** Price of a unit of time paid ahead. */
  priceMicros: Generated<number | null>;
  priceUnit: Generated<string | null>;
  /** The entry that a reversal or refund takes back. */
  reversesId: number | null;
  isAmortized: Generated<Flag>;
}

/** An even use of an amount paid ahead. A change ends the row, and another has the rest. */
export interface AmortizationTable {
  id: Generated<number>;
  accountId: string;
  subjectId: string;
  amountMicros: number;
  priceMicros: number;
  priceUnit: string;
  /** Null until the time begins, with `untilMs` and `endMs`. */
  fromMs: number | null;
  untilMs: number | null;
  /** When the row ended: `untilMs`, or a change before it. */
  endMs: number | null;
}

/** Names of deleted accounts, whose entries stay. */
export interface FormerAccountTable {
  id: string;
  username: string;
  deletedAtMs: number;
}

export interface CreditGrantTable {
  id: string;
  accountId: string;
  kind: string;
  amountMicros: number;
  leftMicros: number;
  expiresAtMs: number | null;
  /** JSON of `GrantScope`. */
  scope: string;
  reason: string;
  createdAtMs: number;
}

/** `PaidTime` of an instance, until it is released. */
export interface PaidTimeTable {
  instanceId: string;
  accountId: string;
  chargeMode: string;
  units: number;
  priceMicros: number;
  isPaid: Flag;
  anchorMs: number | null;
  unitsBefore: number;
  timeZone: string;
  endsAtMs: number | null;
  dueAtMs: number | null;
  firstEntryId: number;
  runSeq: number | null;
}

/** A checkout of a payment provider: its row keeps it from being credited twice. */
export interface PaymentTable {
  id: string;
  /** The provider's name for the money itself; '' without. */
  intentId: string;
  provider: string;
  /** Named by the payer; the account may not exist. */
  accountId: string;
  /** Without the tax. */
  amountMicros: number;
  taxMicros: Generated<number>;
  currency: string;
  /** Null: nobody was credited. */
  entryId: number | null;
  atMs: number;
}

/** Money of one payment that its payer has back, by refunds and disputes. */
export interface PaymentRefundTable {
  provider: string;
  intentId: string;
  /** With tax; settled with the account. */
  askedMicros: number;
  /** Taken from the account, less what was given back. */
  takenMicros: number;
  /** Sum of the refunds by the latest state of the charge, and the time of that state. */
  chargeMicros: Generated<number>;
  chargeAtMs: Generated<number>;
}

/** A refund or dispute. Its events, which come in any order, begin and end it once. */
export interface PaymentClaimTable {
  provider: string;
  id: string;
  intentId: string;
  kind: string;
  amountMicros: number;
  hasBegun: Flag;
  /** When the refund failed, or the dispute was won. */
  endedAtMs: number | null;
}

/** Prices of an instance type, or of the storage of a region, from `fromMs` on. */
export interface PriceChangeTable {
  id: Generated<number>;
  fromMs: number;
  regionId: string;
  /** Instance type; '' for storage. */
  typeId: string;
  /** JSON of all charge modes, or of all kinds of storage. */
  prices: string;
  byAccountId: string;
  /** The prices do not count yet: `fromMs` is when they are due. */
  isScheduled: Generated<Flag>;
}

/** Spending limits of an account and month. */
export interface BudgetTable {
  id: string;
  accountId: string;
  name: string;
  /** '' for all that the account has. */
  labelKey: string;
  labelValue: string;
  timeZone: string;
  softMicros: number | null;
  hardMicros: number | null;
  byAdministrator: Flag;
  createdAtMs: number;
  /** Month of the columns below, as `2026-11`. */
  month: string;
  /** Entries of the month before this time are summed in `settledMicros`. */
  settledUntilMs: number;
  settledMicros: number;
  softReached: Flag;
  hardReached: Flag;
}

export interface BillingSchema {
  formerAccount: FormerAccountTable;
  payment: PaymentTable;
  paymentClaim: PaymentClaimTable;
  paymentRefund: PaymentRefundTable;
  budget: BudgetTable;
  paidTime: PaidTimeTable;
  usagePeriod: UsagePeriodTable;
  entry: EntryTable;
  amortization: AmortizationTable;
  creditGrant: CreditGrantTable;
  priceChange: PriceChangeTable;
}
