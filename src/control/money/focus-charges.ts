/** Charges of a month as rows of an export, page by page: of an account, or of all. */
import { DAY_MS } from '../../domain/kernel/durations.ts';
import { usedMicros } from '../../domain/money/amortization.ts';
import { monthSpan, type TimeSpan } from '../../domain/money/usage-buckets.ts';
import { amortizationsIn, type BegunAmortization } from '../../store/tables/amortizations.ts';
import { periodsById } from '../../store/tables/book-pages.ts';
import type { EntryRow } from '../../store/tables/ledger.ts';
import { regionNames } from '../../store/tables/catalog-rows.ts';
import { accountsInBooks, chargesAfter, periodAt, periodsAfter, spotTypes } from '../../store/tables/report-rows.ts';
import type { PeriodRow } from '../../store/tables/usage-periods.ts';
import type { Db, Store } from '../../store/store.ts';
import type { StatementRequest } from './statement.ts';
import type { Caller, Time } from '../kernel/ports.ts';

/** A part of time paid ahead, within a day of UTC. */
type AmortizedUse = Pick<BegunAmortization, 'subjectId' | 'priceMicros' | 'priceUnit' | 'amountMicros'> & TimeSpan;

interface Described {
  accountId: string;
  /** '' for an account that was deleted before its name was stored. */
  username: string;
  /** The resource at the time of the charge; null for a charge without one. */
  resource: PeriodRow | null;
  regionName: string;
  isSpot: boolean;
}

export type ExportedCharge = Described &
  ({ entry: EntryRow; period: PeriodRow | null } | { entry: null; use: AmortizedUse });

export interface ChargeExport extends StatementRequest {
  span: TimeSpan;
  pages: AsyncIterable<ExportedCharge[]>;
}

export interface ChargeExports {
  own(caller: Caller, request: StatementRequest): Promise<ChargeExport>;
  all(request: StatementRequest): Promise<ChargeExport>;
}

/** About a millisecond of reading and writing, so that other requests hardly wait. */
const ENTRIES_AT_ONCE = 50;
const ACCOUNTS_AT_ONCE = 20;

interface Catalog {
  regionName: (regionId: string, atMs: number) => string;
  spot: ReadonlySet<string>;
}

const isSameDescription = (one: PeriodRow | undefined, other: PeriodRow): boolean =>
  one !== undefined &&
  (['subjectName', 'labels', 'regionId', 'typeId'] as const).every((name) => one[name] === other[name]);

export function makeChargeExports({
  store: { read: db },
  time,
}: {
  store: Pick<Store, 'read'>;
  time: Pick<Time, 'now'>;
}): ChargeExports {
  const catalogOf = async (): Promise<Catalog> => ({
    regionName: await regionNames(db),
    spot: await spotTypes(db),
  });

  async function* entriesOf(
    { id: accountId, username }: { id: string; username: string },
    span: TimeSpan,
    { regionName: nameOf, spot }: Catalog,
  ): AsyncGenerator<ExportedCharge[]> {
    for (let after: EntryRow | undefined; ;) {
      const entries = await chargesAfter(db, accountId, span, { after, limit: ENTRIES_AT_ONCE });
      const last = entries.at(-1);
      if (last === undefined) return;
      const ids = entries.flatMap(({ describedBy }) => (describedBy === null ? [] : [describedBy]));
      const periods = new Map((await periodsById(db, [...new Set(ids)])).map((period) => [period.id, period]));
      yield entries.map(({ describedBy, ...entry }) => {
        const resource = periods.get(describedBy ?? 0) ?? null;
        const period = entry.periodId === null ? null : resource;
        const regionName = nameOf(resource?.regionId ?? '', entry.fromMs ?? entry.atMs);
        return { accountId, username, entry, period, resource, regionName, isSpot: spot.has(resource?.typeId ?? '') };
      });
      after = last;
    }
  }

  async function* amortizedOf(
    { id: accountId, username }: { id: string; username: string },
    month: TimeSpan,
    { regionName: nameOf, spot }: Catalog,
  ): AsyncGenerator<ExportedCharge[]> {
    const span = { ...month, untilMs: Math.min(month.untilMs, time.now()) };
    for (let after = 0; ;) {
      const rows = await amortizationsIn(db, accountId, span, { after, limit: ENTRIES_AT_ONCE });
      for (const row of rows) {
        const { subjectId, priceMicros, priceUnit } = row;
        const touched = { fromMs: Math.max(row.fromMs, span.fromMs), untilMs: Math.min(row.endMs, span.untilMs) };
        for await (const { resource = null, ...part } of describedParts(db, subjectId, touched)) {
          const regionName = nameOf(resource?.regionId ?? '', part.fromMs);
          const described = { accountId, username, resource, regionName, isSpot: spot.has(resource?.typeId ?? '') };
          yield daysOf(part).flatMap(({ fromMs, untilMs }) => {
            const amountMicros = usedMicros(row, untilMs) - usedMicros(row, fromMs);
            const use = { subjectId, priceMicros, priceUnit, amountMicros, fromMs, untilMs };
            return amountMicros === 0 ? [] : [{ ...described, entry: null, use }];
          });
        }
      }
      const last = rows.at(-1);
      if (last === undefined) return;
      after = last.id;
    }
  }

  async function* chargesOf(
    account: { id: string; username: string },
    span: TimeSpan,
    catalog: Catalog,
  ): AsyncGenerator<ExportedCharge[]> {
    yield* entriesOf(account, span, catalog);
    yield* amortizedOf(account, span, catalog);
  }

  async function* ofAll(span: TimeSpan): AsyncGenerator<ExportedCharge[]> {
    const catalog = await catalogOf();
    let after = '';
    for (;;) {
      const accounts = await accountsInBooks(db, after, ACCOUNTS_AT_ONCE);
      const last = accounts.at(-1);
      if (last === undefined) return;
      for (const account of accounts) yield* chargesOf(account, span, catalog);
      after = last.id;
    }
  }

  async function* ofOwn({ accountId: id, username }: Caller, span: TimeSpan): AsyncGenerator<ExportedCharge[]> {
    yield* chargesOf({ id, username }, span, await catalogOf());
  }

  return {
    async own(caller, request) {
      const span = monthSpan(request.month, request.timeZone);
      return { ...request, span, pages: ofOwn(caller, span) };
    },
    async all(request) {
      const span = monthSpan(request.month, request.timeZone);
      return { ...request, span, pages: ofAll(span) };
    },
  };
}

/** Parts of a span, each with one description of the resource. */
async function* describedParts(
  db: Db,
  subjectId: string,
  { fromMs, untilMs }: TimeSpan,
): AsyncGenerator<TimeSpan & { resource: PeriodRow | undefined }> {
  let resource = await periodAt(db, subjectId, fromMs);
  let atMs = fromMs;
  for (let after = resource?.id ?? 0; ;) {
    const later = await periodsAfter(db, subjectId, { after, untilMs, limit: ENTRIES_AT_ONCE });
    for (const period of later) {
      if (isSameDescription(resource, period)) continue;
      if (period.openedAtMs > atMs) yield { fromMs: atMs, untilMs: period.openedAtMs, resource };
      atMs = Math.max(atMs, period.openedAtMs);
      resource = period;
    }
    const last = later.at(-1);
    if (last === undefined) break;
    after = last.id;
  }
  yield { fromMs: atMs, untilMs, resource };
}

function daysOf({ fromMs, untilMs }: TimeSpan): TimeSpan[] {
  const days: TimeSpan[] = [];
  for (let atMs = fromMs; atMs < untilMs;) {
    const endMs = Math.min(untilMs, Math.floor(atMs / DAY_MS) * DAY_MS + DAY_MS);
    days.push({ fromMs: atMs, untilMs: endMs });
    atMs = endMs;
  }
  return days;
}
