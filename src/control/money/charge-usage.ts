/** Books metered use at each full minute. A repeated run books nothing. */
import { lastFullMinute } from '../../domain/money/charge.ts';
import { MINUTE_MS } from '../../domain/kernel/durations.ts';
import { isSqlite } from '../../store/db/dialect.ts';
import type { Db, Store } from '../../store/store.ts';
import {
  expiredGrants,
  lockWallets,
  plainEntry,
  saveWallets,
  writeEntries,
  writeUsageEntries,
} from '../../store/tables/ledger.ts';
import { shiftMoneyDates } from '../../store/tables/money-steps.ts';
import {
  duePeriods,
  endOfChargingWindow,
  splitAtStep,
  splitPeriods,
  writeCharged,
  type DuePeriods,
  type DuePeriod,
} from '../../store/tables/usage-periods.ts';
import { dropWatches } from '../../store/tables/watches.ts';
import { bookUsage, type Booking } from './book-usage.ts';
import type { MeteredDeps } from './metering.ts';
import { type TaskDeps, type RegionDrivers, notifyAdministrators } from '../kernel/ports.ts';

/** A transaction of this size holds other requests back for milliseconds. */
const PAGE_SIZE = 100;
/** A query looks for due periods among as many: among 100,000 it takes 10 ms and more. */
const WINDOW_SIZE = 2_000;

/** Longest wait of a booking for a reconcile. Its owner can keep an instance due for hours. */
const HELD_MS = 2 * MINUTE_MS;

export interface ChargeDeps extends Pick<TaskDeps, 'store' | 'log' | 'time'>, Pick<MeteredDeps, 'metering'> {
  regions: { all(): readonly Pick<RegionDrivers, 'regionId' | 'health'>[] };
}

/** Null: nothing is due after that period, up to `untilId`. */
async function bookPage(
  tx: Db,
  due: DuePeriods,
  { afterId, untilId }: { afterId: number; untilId: number },
  isToBook: (period: DuePeriod) => boolean,
): Promise<{ lastId: number; gaps: Booking['gaps'] } | null> {
  const page = await duePeriods(tx, due, { afterId, lastId: untilId, limit: PAGE_SIZE });
  const lastId = page.at(-1)?.id;
  if (lastId === undefined) return null;
  const before = await lockWallets(
    tx,
    page.map(({ accountId }) => accountId),
  );
  // Other transactions may have booked before the lock.
  const periods = isSqlite(tx) ? page : await duePeriods(tx, due, { afterId, lastId, limit: PAGE_SIZE });
  const toBook = periods.filter(isToBook).map((period) => ({ period, untilMs: due.untilMs }));
  const { entries, charged, wallets, gaps } = bookUsage(toBook, before, due.nowMs);
  await writeUsageEntries(tx, entries);
  await writeCharged(tx, charged);
  await splitPeriods(tx, gaps);
  await saveWallets(tx, before, wallets.values());
  return { lastId, gaps };
}

export function makeChargeUsage({ store, regions, metering, log, time }: ChargeDeps): () => Promise<void> {
  const { clock } = metering;
  /** By region. Looking for due periods reads all that cost money. */
  const bookedUntilMs = new Map<string | null, number>();

  async function followClock(): Promise<void> {
    const stepMs = clock.stepMs();
    if (stepMs === 0) return;
    bookedUntilMs.clear();
    log.warn({ stepMs }, 'the system clock was set; the time that it skipped or repeated is not charged');
    let appliedMs = 0;
    const apply = async (tx: Db): Promise<void> => {
      await splitAtStep(tx, stepMs);
      await shiftMoneyDates(tx, stepMs);
      clock.applyStep(stepMs - appliedMs);
      appliedMs = stepMs;
    };
    await store.write(apply).catch((error: unknown) => {
      clock.applyStep(-appliedMs);
      throw error;
    });
  }

  const isToBook = ({ meter, regionId, subjectId, isHeld }: DuePeriod): boolean =>
    meter !== 'compute' ||
    (isHeld === 1 ? metering.isRunning(regionId, subjectId) : !metering.isUnseen(regionId, subjectId));

  async function book(region: Pick<DuePeriods, 'regionId' | 'untilMs'>): Promise<void> {
    if (region.untilMs <= (bookedUntilMs.get(region.regionId) ?? 0)) return;
    const due = { ...region, heldUntilMs: region.untilMs - HELD_MS, nowMs: clock.now() };
    for (let afterId = 0; afterId < Number.MAX_SAFE_INTEGER;) {
      const untilId = (await endOfChargingWindow(store.read, afterId, WINDOW_SIZE)) ?? Number.MAX_SAFE_INTEGER;
      const window = { afterId, untilId };
      const page = await store.write((tx) => bookPage(tx, due, window, isToBook));
      afterId = page?.lastId ?? untilId;
      if (page === null) continue;
      metering.noteBooking();
      if (page.gaps.length > 0) await reportGaps(page.gaps);
    }
    bookedUntilMs.set(region.regionId, region.untilMs);
  }

  async function reportGaps(gaps: Booking['gaps']): Promise<void> {
    const longestMs = Math.max(...gaps.map(({ closedAtMs, nextAtMs }) => nextAtMs - closedAtMs));
    const freeHours = Math.round(longestMs / 360_000) / 10;
    const data = { periods: gaps.length, freeHours };
    const subjectId = gaps[0]?.regionId ?? '';
    log.warn(data, 'usage was not booked for more than an hour; that time is not charged');
    await store.write((tx) => notifyAdministrators(tx, { atMs: time.now(), kind: 'billing.gap', subjectId, data }));
  }

  return async () => {
    await followClock();
    await expireGrants(store, time.now());
    if (!metering.isBilled) return;
    let storageUntilMs = clock.now();
    for (const { regionId, health } of regions.all()) {
      if (!health.answers && metering.lost(regionId)) await store.write((tx) => dropWatches(tx, 'seen', [regionId]));
      const seenAtMs = metering.seenAtMs(regionId);
      if (seenAtMs === null) continue;
      await book({ regionId, untilMs: lastFullMinute(Math.min(seenAtMs, clock.now())) });
      // Compute of a minute pays first: storage waits for the sweep of each region that answers.
      if (clock.now() - seenAtMs < MINUTE_MS) storageUntilMs = Math.min(storageUntilMs, seenAtMs);
    }
    await book({ regionId: null, untilMs: lastFullMinute(storageUntilMs) });
  };
}

const EXPIRED_AT_ONCE = 100;

async function expireGrants(store: Store, nowMs: number): Promise<void> {
  const expired = await expiredGrants(store.read, nowMs, EXPIRED_AT_ONCE);
  if (expired.length > 0) await store.write((tx) => expire(tx, expired, nowMs));
}

async function expire(tx: Db, expired: Awaited<ReturnType<typeof expiredGrants>>, nowMs: number): Promise<void> {
  const before = await lockWallets(
    tx,
    expired.map(({ accountId }) => accountId),
  );
  const ids = new Set(expired.map(({ id }) => id));
  const wallets = [...before.values()].map(({ accountId, purse }) => ({
    accountId,
    purse: {
      ...purse,
      grants: purse.grants.map((grant) => (ids.has(grant.id) ? { ...grant, leftMicros: 0n } : grant)),
    },
  }));
  const entries = [...before.values()].flatMap(({ accountId, purse }) =>
    purse.grants
      .filter(({ id }) => ids.has(id))
      .map(({ id, kind, leftMicros }) => ({
        ...plainEntry,
        accountId,
        atMs: nowMs,
        kind: 'expiry',
        fromLedger: kind,
        toLedger: 'expired',
        amountMicros: Number(leftMicros),
        grantId: id,
      })),
  );
  await writeEntries(tx, entries);
  await saveWallets(tx, before, wallets);
}
