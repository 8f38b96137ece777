/**
 * Opens and closes usage periods in the transaction that changes a resource's row. The event before
 * locks the account's row. A closed period is charged to its end.
 */
import { isSameRate, type Priced, type Rate } from '../../domain/meter.ts';
import { toDollars, type Micros } from '../../domain/catalog.ts';
import type { Instance } from '../../domain/instance.ts';
import { encodeFlag } from '../../store/db/columns.ts';
import type { Db } from '../../store/store.ts';
import { storagePriceOf } from '../../store/tables/catalog.ts';
import { appendEvent, type AppendedEvent, type NewEvent } from '../../store/tables/events.ts';
import { lockWallets, saveWallets, writeUsageEntries } from '../../store/tables/ledger.ts';
import {
  carryOf,
  closePeriod,
  insertPeriod,
  openPeriodOf,
  writeCharged,
  type PeriodRow,
} from '../../store/tables/usage-periods.ts';
import type { RegionDrivers } from '../base/regions.ts';
import type { Time } from '../base/time.ts';
import { bookUsage } from './book-usage.ts';
import { makeMeterClock, type MeterClock } from './meter-clock.ts';

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

export interface RateChange {
  before: Rate | null;
  after: Rate | null;
}

export interface Metering {
  readonly clock: MeterClock;
  readonly isBilled: boolean;
  /** Last sweep of the region's engine; null: none since the engine was lost. */
  seenAtMs(regionId: string): number | null;
  saw(regionId: string, atMs: number): void;
  lost(regionId: string): void;
  /** Writes the event, and the period that it opens or closes. */
  appendEvent(tx: Db, event: NewEvent, subject: Metered, change: RateChange): Promise<AppendedEvent>;
}

export interface MeteringDeps {
  time: Pick<Time, 'now' | 'elapsed'>;
  regions: { of(regionId: string): Pick<RegionDrivers, 'health'> };
  isBilled: boolean;
}

export function makeMetering({ time, regions, isBilled }: MeteringDeps): Metering {
  const clock = makeMeterClock(time);
  const startedAtMs = clock.now();
  const seen = new Map<string, number>();
  const lostAtMs = new Map<string, number>();
  const seenAtMs = (regionId: string): number | null =>
    regions.of(regionId).health.answers ? (seen.get(regionId) ?? null) : null;

  /** False for a run of before the engine or this process was away, until a sweep has seen it. */
  const isKnown = ({ meter, regionId, chargedUntilMs }: PeriodRow): boolean =>
    meter !== 'compute' ||
    seenAtMs(regionId) !== null ||
    (regions.of(regionId).health.answers && chargedUntilMs >= (lostAtMs.get(regionId) ?? startedAtMs));

  /** Returns when the next period begins. */
  async function close(tx: Db, period: PeriodRow, closeSeq: number): Promise<number> {
    const nowMs = Math.max(clock.now(), period.openedAtMs);
    if (period.isCharging === 0) {
      await closePeriod(tx, { id: period.id, closedAtMs: nowMs, closeSeq });
      return nowMs;
    }
    const untilMs = isKnown(period) ? Math.max(nowMs, period.chargedUntilMs) : period.chargedUntilMs;
    const before = await lockWallets(tx, [period.accountId]);
    const { entries, charged, wallets } = bookUsage([{ period, untilMs }], before, nowMs);
    await writeUsageEntries(tx, entries);
    await writeCharged(tx, charged);
    await saveWallets(tx, before, wallets.values());
    await closePeriod(tx, { id: period.id, closedAtMs: untilMs, closeSeq });
    if (untilMs < nowMs) await insertPeriod(tx, gapAfter(period, { untilMs, nowMs, closeSeq }));
    return Math.max(nowMs, untilMs);
  }

  async function move(
    tx: Db,
    { accountId, subjectId }: NewEvent,
    { name, regionId, typeId }: Metered,
    after: (Rate & Priced) | null,
    seq: number,
  ): Promise<void> {
    const open = await openPeriodOf(tx, subjectId);
    const openedAtMs = open ? await close(tx, open, seq) : clock.now();
    if (after === null) return;
    const { meter, state, priceMicros, quantity, unitMs } = after;
    await insertPeriod(tx, {
      accountId,
      subjectId,
      subjectName: name,
      meter,
      state,
      regionId,
      typeId,
      priceMicros: Number(priceMicros),
      quantity,
      unitMs,
      openedAtMs,
      closedAtMs: null,
      openSeq: seq,
      closeSeq: null,
      chargedUntilMs: openedAtMs,
      carry: state === 'charged' ? await carryOf(tx, subjectId, meter) : 0,
      isCharging: encodeFlag(isBilled && state === 'charged' && priceMicros > 0n),
    });
  }

  return {
    clock,
    isBilled,
    seenAtMs,
    saw: (regionId, atMs) => void seen.set(regionId, atMs),
    lost(regionId) {
      seen.delete(regionId);
      lostAtMs.set(regionId, clock.now());
    },
    async appendEvent(tx, event, subject, { before, after }) {
      if (isSameRate(before, after)) return appendEvent(tx, event);
      const priceMicros = after && (await priceOf(tx, subject.regionId, after));
      const rate = after && { ...after, priceMicros: priceMicros ?? 0n };
      const appended = await appendEvent(tx, { ...event, data: { ...event.data, rate: rate && publicRate(rate) } });
      await move(tx, event, subject, rate, appended.seq);
      return appended;
    },
  };
}

const priceOf = async (tx: Db, regionId: string, { price }: Rate): Promise<Micros> =>
  typeof price === 'bigint' ? price : storagePriceOf(tx, regionId, price);

/** In an event: enough to open the period again. */
const publicRate = ({ meter, state, priceMicros, quantity }: Rate & Priced) => ({
  meter,
  state,
  price: toDollars(priceMicros),
  quantity,
});

const gapAfter = (
  { accountId, subjectId, subjectName, meter, regionId, typeId, quantity, unitMs }: PeriodRow,
  { untilMs, nowMs, closeSeq }: { untilMs: number; nowMs: number; closeSeq: number },
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
  openedAtMs: untilMs,
  closedAtMs: nowMs,
  openSeq: closeSeq,
  closeSeq,
  chargedUntilMs: nowMs,
  carry: 0,
  isCharging: 0 as const,
});
