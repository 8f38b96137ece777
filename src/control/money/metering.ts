/**
 * Opens and closes usage periods in the transaction that changes a resource's row. The event before
 * locks the account's row. A closed period is charged to its end.
 */
import { makeBoundedMap, type BoundedMap } from '../../async/bounded-map.ts';
import { lastFullMinute } from '../../domain/money/charge.ts';
import { MINUTE_MS } from '../../domain/kernel/durations.ts';
import { isSameRate, type Priced, type Rate } from '../../domain/money/meter.ts';
import { toDollars, type Micros } from '../../domain/regions/catalog.ts';
import type { Instance } from '../../domain/compute/instance.ts';
import { defaultMoneyRules, type MoneyRules } from '../../domain/money/money-ladder.ts';
import { encodeFlag } from '../../store/db/columns.ts';
import type { RunChange } from '../../domain/compute/start-outcomes.ts';
import type { Db } from '../../store/store.ts';
import { storagePriceOf } from '../../store/tables/catalog.ts';
import { appendEvent, type AppendedEvent, type NewEvent } from '../../store/tables/events.ts';
import { lockWallets, saveWallets, writeUsageEntries } from '../../store/tables/ledger.ts';
import {
  closePeriod,
  describePeriod,
  insertPeriod,
  lastChargedOf,
  openPeriodOf,
  splitPeriods,
  writeCharged,
  type PeriodRow,
} from '../../store/tables/usage-periods.ts';
import { bookUsage, endOf } from './book-usage.ts';
import { makeMeterClock, type MeterClock } from './meter-clock.ts';
import { refuseUnpaidStorage, type StartMargin } from './refuse-unpaid.ts';
import { makeSeenRuns, type SeenRuns } from './seen-runs.ts';
import type { UseCaseDeps, RegionDrivers, Time } from '../kernel/ports.ts';

/** An account without a margin reads its costs again. */
const MAX_MARGINS = 10_000;

export interface Metered {
  name: string;
  regionId: string;
  /** '' for storage. */
  typeId: string;
}

export const meteredInstance = ({ spec }: Instance): Metered => ({
  name: spec.name,
  regionId: spec.regionId,
  typeId: spec.type.id,
});

export const meteredStorage = ({ name, regionId }: Omit<Metered, 'typeId'>): Metered => ({
  name,
  regionId,
  typeId: '',
});

/** `sinceMs` counts if it is free time of the resource. */
export interface RateChange extends Pick<RunChange, 'sinceMs' | 'untilMs'> {
  before: Rate | null;
  after: Rate | null;
}

export interface Metering extends Omit<SeenRuns, 'isKnown'> {
  readonly clock: MeterClock;
  readonly isBilled: boolean;
  readonly moneyRules: MoneyRules;
  readonly startMargins: BoundedMap<StartMargin>;
  noteBooking(): void;
  /** Grows with each booking. */
  bookings(): number;
  /** Whether Berth knows that the resource ran after its last booking. */
  isKnown(db: Db, subjectId: string): Promise<boolean>;
  /** Writes the event, and the period that it opens or closes. */
  appendEvent(tx: Db, event: NewEvent, subject: Metered, change: RateChange): Promise<AppendedEvent>;
  /**
   * The labels or the name of a resource have changed: they are those of what is booked from now
   * on. At most one period a minute begins so.
   */
  describe(tx: Db, subject: { id: string; name: string }): Promise<void>;
}

export interface MeteredDeps extends UseCaseDeps {
  metering: Metering;
}

export interface MeteringDeps {
  time: Pick<Time, 'now' | 'elapsed'>;
  regions: { of(regionId: string): Pick<RegionDrivers, 'health'> };
  isBilled: boolean;
  /** Default: `defaultMoneyRules`. */
  moneyRules?: Partial<MoneyRules>;
}

export function makeMetering({ time, regions, isBilled, moneyRules }: MeteringDeps): Metering {
  const clock = makeMeterClock(time);
  let bookings = 0;
  const { isKnown, ...seen } = makeSeenRuns(clock, (regionId) => regions.of(regionId).health.answers);

  /** The time of an event by the meter's clock; now, if the clock was set since then. */
  const metered = (atMs: number): number => {
    const nowMs = time.now();
    const isRecent = atMs <= nowMs && nowMs - atMs < MINUTE_MS;
    return (isRecent ? atMs : nowMs) - clock.stepMs();
  };

  /** Returns when the next period begins. */
  async function close(tx: Db, period: PeriodRow, { nowMs, closeSeq }: { nowMs: number; closeSeq: number }) {
    const { closedAtMs, nextAtMs } = endOf(period, { nowMs, isKnown: isKnown(period) });
    if (period.isCharging === 1) {
      const before = await lockWallets(tx, [period.accountId]);
      const { entries, charged, wallets } = bookUsage([{ period, untilMs: closedAtMs }], before, time.now());
      await writeUsageEntries(tx, entries);
      await writeCharged(tx, charged);
      await saveWallets(tx, before, wallets.values());
    }
    await closePeriod(tx, { id: period.id, closedAtMs, closeSeq });
    if (closedAtMs < nextAtMs) await insertPeriod(tx, gapAfter(period, { closedAtMs, nextAtMs, closeSeq }));
    return nextAtMs;
  }

  async function move(
    tx: Db,
    { accountId, subjectId, atMs }: NewEvent,
    { name, regionId, typeId }: Metered,
    {
      after,
      sinceMs = atMs,
      untilMs = Infinity,
    }: Omit<RateChange, 'before' | 'after'> & { after: (Rate & Priced) | null },
    seq: number,
  ): Promise<void> {
    const open = await openPeriodOf(tx, subjectId);
    const isFree = open?.isCharging === 0;
    // A step of the clock moves no period that costs nothing, nor `untilMs`: begin now.
    const endMs = isFree ? Infinity : Math.max(untilMs - clock.stepMs(), open?.openedAtMs ?? 0);
    const eventMs = Math.min(metered(atMs), endMs);
    const nowMs = isFree ? Math.min(eventMs, Math.max(metered(sinceMs), open.openedAtMs)) : eventMs;
    const openedAtMs = open ? await close(tx, open, { nowMs, closeSeq: seq }) : nowMs;
    if (after === null) return;
    const { meter, state, price, priceMicros, quantity, unitMs } = after;
    const last = state === 'charged' ? await lastChargedOf(tx, subjectId, meter) : undefined;
    await insertPeriod(tx, {
      accountId,
      subjectId,
      subjectName: name,
      meter,
      state,
      regionId,
      typeId: meter === 'volume' && typeof price === 'string' ? price : typeId,
      priceMicros: Number(priceMicros),
      quantity,
      unitMs,
      openedAtMs,
      closedAtMs: null,
      openSeq: seq,
      closeSeq: null,
      chargedUntilMs: openedAtMs,
      carry: last?.carry ?? 0,
      isCharging: encodeFlag(isBilled && state === 'charged' && priceMicros > 0n),
    });
  }

  return {
    clock,
    isBilled,
    moneyRules: { ...defaultMoneyRules, ...moneyRules },
    startMargins: makeBoundedMap({ maxEntries: MAX_MARGINS }),
    noteBooking: () => void (bookings += 1),
    bookings: () => bookings,
    ...seen,
    isKnown: async (tx, subjectId) => {
      const open = await openPeriodOf(tx, subjectId);
      return open !== undefined && isKnown(open);
    },
    async appendEvent(tx, event, subject, { before, after, ...times }) {
      if (isSameRate(before, after)) return appendEvent(tx, event);
      const priceMicros = after && (await priceOf(tx, subject.regionId, event.subjectId, after));
      const rate = after && { ...after, priceMicros: priceMicros ?? 0n };
      const appended = await appendEvent(tx, { ...event, data: { ...event.data, rate: rate && publicRate(rate) } });
      if (isBilled && event.usage?.mayRefuse && after && priceMicros !== 0n)
        await refuseUnpaidStorage(tx, event.accountId, { before, after, of: subject, nowMs: clock.now() });
      await move(tx, event, subject, { after: rate, ...times }, appended.seq);
      return appended;
    },
    async describe(tx, subject) {
      const open = await openPeriodOf(tx, subject.id);
      if (!open) return;
      const { id, isCharging, openedAtMs } = open;
      const atMs = isCharging === 1 ? open.chargedUntilMs : lastFullMinute(clock.now());
      if (atMs > openedAtMs) await splitPeriods(tx, [{ id, isCharging, closedAtMs: atMs, nextAtMs: atMs }]);
      await describePeriod(tx, subject);
    },
  };
}

/** A volume that is back keeps its price, unless it was expanded meanwhile. */
async function priceOf(tx: Db, regionId: string, subjectId: string, { price, meter, quantity }: Rate): Promise<Micros> {
  if (typeof price === 'bigint') return price;
  const last = meter === 'volume' ? await lastChargedOf(tx, subjectId, meter) : undefined;
  return last?.quantity === quantity ? BigInt(last.priceMicros) : storagePriceOf(tx, regionId, price);
}

/** In an event: enough to open the period again. */
const publicRate = ({ meter, state, priceMicros, quantity }: Rate & Priced) => ({
  meter,
  state,
  price: toDollars(priceMicros),
  quantity,
});

const gapAfter = (
  { accountId, subjectId, subjectName, meter, regionId, typeId, quantity, unitMs }: PeriodRow,
  { closedAtMs, nextAtMs, closeSeq }: { closedAtMs: number; nextAtMs: number; closeSeq: number },
) => ({
  accountId,
  subjectId,
  subjectName,
  meter,
  regionId,
  typeId,
  quantity,
  unitMs,
  state: 'gap',
  priceMicros: 0,
  openedAtMs: closedAtMs,
  closedAtMs: nextAtMs,
  openSeq: closeSeq,
  closeSeq,
  chargedUntilMs: nextAtMs,
  carry: 0,
  isCharging: 0 as const,
});
