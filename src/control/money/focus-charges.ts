/** Charges of a month as rows of an export, page by page: of an account, or of all. */
import { monthSpan, type TimeSpan } from '../../domain/money/usage-buckets.ts';
import { periodsById } from '../../store/tables/book-pages.ts';
import type { EntryRow } from '../../store/tables/ledger.ts';
import { regionNames } from '../../store/tables/catalog-rows.ts';
import { accountsInBooks, chargesAfter, spotTypes } from '../../store/tables/report-rows.ts';
import type { PeriodRow } from '../../store/tables/usage-periods.ts';
import type { Store } from '../../store/store.ts';
import type { StatementRequest } from './statement.ts';
import type { Caller } from '../kernel/ports.ts';

export interface ExportedCharge {
  accountId: string;
  /** '' for an account that was deleted before its name was stored. */
  username: string;
  entry: EntryRow;
  /** Null for what is not metered. */
  period: PeriodRow | null;
  /** The period that describes the resource at that time; null for what concerns no resource. */
  resource: PeriodRow | null;
  regionName: string;
  isSpot: boolean;
}

export interface ChargeExport {
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

export function makeChargeExports({ store: { read: db } }: { store: Pick<Store, 'read'> }): ChargeExports {
  const catalogOf = async (): Promise<Catalog> => ({
    regionName: await regionNames(db),
    spot: await spotTypes(db),
  });

  async function* chargesOf(
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
    async own(caller, { month, timeZone }) {
      const span = monthSpan(month, timeZone);
      return { span, pages: ofOwn(caller, span) };
    },
    async all({ month, timeZone }) {
      const span = monthSpan(month, timeZone);
      return { span, pages: ofAll(span) };
    },
  };
}
