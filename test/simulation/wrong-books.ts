/** Invariants of ledger and usage periods: `docs/reference/billing.md`. */
import type { Selectable } from 'kysely';
import type { UsagePeriodTable } from '../../src/store/db/billing-schema.ts';

export type Period = Selectable<UsagePeriodTable>;

export interface AccountMoney {
  id: string;
  balanceMicros: number;
  voucherMicros: number;
  creditMicros: number;
  overdraftMicros: number;
}

/** Sum of the entries of an account from one ledger account to another. */
export interface EntrySum {
  accountId: string;
  fromLedger: string;
  toLedger: string;
  micros: number;
}

export interface GrantSum {
  accountId: string;
  kind: string;
  micros: number;
}

export const ENTRY_SUMS = `select "accountId", "fromLedger", "toLedger", sum("amountMicros") as micros
  from entry group by "accountId", "fromLedger", "toLedger"`;
export const GRANT_SUMS = `select "accountId", kind, sum("leftMicros") as micros
  from "creditGrant" group by "accountId", kind`;

const LEDGERS = ['cash', 'credit', 'voucher', 'revenue', 'deposits', 'grants', 'expired', 'uncollected'];

/** Balances are the sums of entries, grants hold them, and cash is not below its floor. */
export function wrongBalances(
  accounts: readonly AccountMoney[],
  entries: readonly EntrySum[],
  grants: readonly GrantSum[],
): string[] {
  return accounts.flatMap((account) => {
    const own = entries.filter(({ accountId }) => accountId === account.id);
    const sum = (ledger: string): number =>
      own.reduce(
        (total, { fromLedger, toLedger, micros }) =>
          total + (toLedger === ledger ? micros : 0) - (fromLedger === ledger ? micros : 0),
        0,
      );
    const given = (kind: string): number =>
      grants.find((one) => one.accountId === account.id && one.kind === kind)?.micros ?? 0;
    const differ = (what: string, is: number, should: number): string[] =>
      is === should ? [] : [`${what} of ${account.id} is ${is}, its entries make ${should}`];
    const unknown = own
      .flatMap(({ fromLedger, toLedger }) => [fromLedger, toLedger])
      .filter((ledger) => !LEDGERS.includes(ledger));
    const nothing = own.filter(({ fromLedger, toLedger, micros }) => micros <= 0 || fromLedger === toLedger);
    return [
      ...differ('the balance', account.balanceMicros, sum('cash')),
      ...differ('the sum of vouchers', account.voucherMicros, sum('voucher')),
      ...differ('the sum of credits', account.creditMicros, sum('credit')),
      ...differ('the rest of vouchers', given('voucher'), sum('voucher')),
      ...differ('the rest of credits', given('credit'), sum('credit')),
      ...(account.balanceMicros < Math.min(0, -account.overdraftMicros)
        ? [`the balance of ${account.id} is ${account.balanceMicros}, below its floor`]
        : []),
      ...unknown.map((ledger) => `an entry of ${account.id} has the ledger account ${ledger}`),
      ...nothing.map(({ fromLedger, toLedger, micros }) => `${fromLedger} to ${toLedger} moves ${micros}`),
    ];
  });
}

/** Milliseconds that were charged. */
export const paidMs = ({ chargedUntilMs, openedAtMs }: Period): number => chargedUntilMs - openedAtMs;

/**
 * Periods of one resource, in their order: they follow each other, and bookings and carry of each
 * meter are its exact cost.
 */
export function wrongPeriods(periods: readonly Period[], booked: ReadonlyMap<number, number>): string[] {
  const wrong: string[] = [];
  const meters = new Map<string, { cost: bigint; micros: bigint; unitMs: bigint; carry: bigint }>();
  let endMs = -Infinity;
  /** No event ends a period that a gap splits, or a step of the clock, or new labels. */
  const isSplit = ({ openSeq, closeSeq, closedAtMs }: Period, at: number): boolean =>
    closedAtMs !== null && closeSeq === null && periods[at + 1]?.openSeq === openSeq;
  for (const [at, period] of periods.entries()) {
    const { id, subjectId, meter, openedAtMs, closedAtMs, closeSeq, isCharging } = period;
    const name = `the period ${id} of ${subjectId}`;
    if (openedAtMs < endMs) wrong.push(`${name} begins before the end of the one before`);
    // A clock that was set back repeats time, also while nothing of the resource was recorded.
    const repeats = isSplit(period, at) || closedAtMs === openedAtMs || periods[at + 1]?.openSeq !== closeSeq;
    endMs = closedAtMs === null ? Infinity : repeats ? -Infinity : closedAtMs;
    if (closedAtMs === null && at < periods.length - 1) wrong.push(`${name} is open, and another follows`);
    if (
      closedAtMs !== null &&
      (closedAtMs < openedAtMs || (closeSeq === null && !isSplit(period, at)) || isCharging === 1)
    )
      wrong.push(`${name} is closed and not over`);
    const entries = booked.get(id) ?? 0;
    if (entries !== period.chargedMicros)
      wrong.push(`${name} has cost ${period.chargedMicros}, its entries make ${entries}`);
    if (period.state !== 'charged') {
      if (period.chargedMicros !== 0 || isCharging === 1) wrong.push(`${name} is ${period.state}, and costs money`);
      continue;
    }
    const sum = meters.get(meter) ?? { cost: 0n, micros: 0n, unitMs: 0n, carry: 0n };
    meters.set(meter, {
      cost: sum.cost + BigInt(period.priceMicros) * BigInt(period.quantity) * BigInt(paidMs(period)),
      micros: sum.micros + BigInt(period.chargedMicros),
      unitMs: BigInt(period.unitMs),
      carry: BigInt(period.carry),
    });
  }
  for (const [meter, { cost, micros, unitMs, carry }] of meters)
    if (micros * unitMs + carry !== cost || carry < 0n || carry >= unitMs)
      wrong.push(
        `${meter} of ${periods[0]?.subjectId} has cost ${micros} and ${carry}/${unitMs}, not ${cost}/${unitMs}`,
      );
  return wrong;
}

interface InstanceState {
  id: string;
  desired: string;
  status: string;
  phase: string;
  /** Its container ends at a request, or after a failure. */
  isEnding: boolean;
  isHourly: boolean;
  diskGB: number;
}

const isOpen = (periods: readonly Period[]): Period | undefined =>
  periods.find(({ closedAtMs }) => closedAtMs === null);

/** An instance pays for compute while its container runs and is requested to, or is ending. */
export function wrongRateOfInstance({ id, ...is }: InstanceState, periods: readonly Period[]): string[] {
  const open = isOpen(periods);
  const rate = open === undefined ? 'nothing' : `${open.meter} ${open.state}`;
  const name = `${id}, ${is.desired} ${is.status} (${is.phase}), pays for ${rate}`;
  const pays = (meter: string): boolean => open?.meter === meter && open.state === 'charged';
  const wrong: string[] = [];
  const runs = is.desired === 'running' && (is.status === 'Running' || is.phase === 'WaitReady');
  if (pays('compute') !== ((runs || is.isEnding) && is.isHourly)) wrong.push(name);
  const isKept = is.desired !== 'running' && is.desired !== 'released' && is.status !== 'InitializationFailed';
  const keeps = isKept && !is.isEnding;
  if (pays('disks') !== keeps) wrong.push(name);
  if (pays('disks') && open?.quantity !== is.diskGB) wrong.push(`${name} of ${open?.quantity} GB, it has ${is.diskGB}`);
  if (is.desired === 'released' && open !== undefined) wrong.push(name);
  return wrong;
}

interface DiskState {
  id: string;
  status: string;
  sizeGB: number;
}

/** A volume or snapshot pays for its size while it is there. */
export function wrongRateOfDisk(meter: 'volume' | 'snapshot', disk: DiskState, periods: readonly Period[]): string[] {
  const free = meter === 'volume' ? ['Failed', 'Lost', 'Terminating'] : ['Failed', 'Terminating'];
  const open = isOpen(periods);
  const should = free.includes(disk.status) ? undefined : disk.sizeGB;
  const is = open?.meter === meter && open.state === 'charged' ? open.quantity : undefined;
  return is === should ? [] : [`the ${meter} ${disk.id}, ${disk.status}, pays for ${is} GB instead of ${should}`];
}

export interface RateEvent {
  accountId: string;
  subjectId: string;
  seq: number;
  kind: string;
  /** JSON; `rate` is what the event made the resource pay, null: nothing. */
  data: string;
}

interface PublicRate {
  meter: string;
  state: string;
  price: number;
  quantity: number;
}

/** The log of events tells the same periods, besides gaps: replay gives the same books. */
export function wrongReplay(events: readonly RateEvent[], periods: readonly Period[]): string[] {
  const stored = periods
    .filter(({ state }) => state !== 'gap')
    .filter(({ openSeq }, at, all) => all[at + 1]?.openSeq !== openSeq)
    .map(({ meter, state, priceMicros, quantity, openSeq, closeSeq }) =>
      JSON.stringify([meter, state, priceMicros, quantity, openSeq, closeSeq]),
    );
  const replayed: string[] = [];
  let open: [string, string, number, number, number] | null = null;
  for (const { seq, data } of events) {
    const { rate }: { rate?: PublicRate | null } = JSON.parse(data);
    if (rate === undefined) continue;
    if (open) replayed.push(JSON.stringify([...open, seq]));
    open = rate && [rate.meter, rate.state, Math.round(rate.price * 1e6), rate.quantity, seq];
  }
  if (open) replayed.push(JSON.stringify([...open, null]));
  return stored.join() === replayed.join()
    ? []
    : [
        `${periods[0]?.subjectId ?? events[0]?.subjectId}: events tell ${replayed.join()}, periods are ${stored.join()}`,
      ];
}

/** Reasons of host and engine that end a run. */
const HOST_ENDS = ['Evicted', 'EngineUnreachable'];

/** Requests that end a run. */
const END_REQUESTS = ['instance.stopWished', 'instance.restartWished', 'instance.archiveWished', 'instance.released'];

/** A run that the host or an operator ended before it was Running is refunded, once. */
export function wrongRefunds(
  events: readonly RateEvent[],
  periods: readonly Period[],
  refunded: ReadonlyMap<number, number>,
): string[] {
  const facts = events.map(
    ({ seq, kind, data }): { seq: number; kind: string; status?: string; cause?: string; diagnosis?: string } => ({
      ...JSON.parse(data),
      seq,
      kind,
    }),
  );
  const sumOf = (parts: readonly Period[], micros: (part: Period) => number): number =>
    parts.reduce((sum, part) => sum + micros(part), 0);
  return [...Map.groupBy(periods, ({ openSeq }) => openSeq).entries()].flatMap(([openSeq, parts]) => {
    const closeSeq = parts.at(-1)?.closeSeq ?? Infinity;
    const wasRunning = facts.some((one) => one.status === 'Running' && one.seq >= openSeq && one.seq < closeSeq);
    const end = facts.find(
      ({ seq, kind }) => seq === closeSeq || (seq > openSeq && seq < closeSeq && END_REQUESTS.includes(kind)),
    );
    const isOfHost = end?.cause === 'operator' || HOST_ENDS.includes(end?.diagnosis ?? '');
    const isFree = isOfHost && !wasRunning && parts.some(({ meter }) => meter === 'compute');
    const should = isFree ? sumOf(parts, ({ chargedMicros }) => chargedMicros) : 0;
    const is = sumOf(parts, ({ id }) => refunded.get(id) ?? 0);
    const name = `the run ${openSeq} of ${parts[0]?.subjectId}`;
    return is === should ? [] : [`${name} is refunded ${is}, not ${should}`];
  });
}
