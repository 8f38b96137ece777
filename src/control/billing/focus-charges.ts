/** Charges of a month as rows of an export, page by page: of an account, or of all. */
import { monthSpan, type TimeSpan } from '../../domain/usage-buckets.ts';
import {
  accountsAfter,
  chargesAfter,
  idBounds,
  instanceResources,
  regionNames,
  type ChargedResource,
} from '../../store/tables/book-export.ts';
import { periodsById } from '../../store/tables/book-pages.ts';
import type { EntryRow } from '../../store/tables/ledger.ts';
import type { PeriodRow } from '../../store/tables/usage-periods.ts';
import type { Store } from '../../store/store.ts';
import type { Caller } from '../base/caller.ts';
import type { Time } from '../base/time.ts';
import { nextTurn } from './resource-lines.ts';
import type { StatementRequest } from './statement.ts';

export interface ExportedCharge {
  accountId: string;
  username: string;
  entry: EntryRow;
  /** Null for what is not metered. */
  period: PeriodRow | null;
  /** Null for what concerns no resource. */
  resource: ChargedResource | null;
  regionName: string;
}

export interface ChargeExport {
  span: TimeSpan;
  pages: AsyncIterable<ExportedCharge[]>;
}

export interface ChargeExports {
  own(caller: Caller, request: StatementRequest): Promise<ChargeExport>;
  all(request: StatementRequest): Promise<ChargeExport>;
}

const ENTRIES_AT_ONCE = 500;
const ACCOUNTS_AT_ONCE = 100;

export function makeChargeExports({
  store: { read: db },
  time,
}: {
  store: Pick<Store, 'read'>;
  time: Pick<Time, 'after'>;
}): ChargeExports {
  async function* chargesOf(
    { id: accountId, username }: { id: string; username: string },
    span: TimeSpan,
    regions: ReadonlyMap<string, string>,
  ): AsyncGenerator<ExportedCharge[]> {
    const bounds = await idBounds(db, accountId, span);
    if (bounds === null) return;
    let after = bounds.first - 1;
    for (;;) {
      const entries = await chargesAfter(db, accountId, span, { after, last: bounds.last, limit: ENTRIES_AT_ONCE });
      const last = entries.at(-1);
      if (last === undefined) return;
      const ids = entries.flatMap(({ periodId }) => (periodId === null ? [] : [periodId]));
      const periods = new Map((await periodsById(db, [...new Set(ids)])).map((period) => [period.id, period]));
      const paidAhead = entries.flatMap(({ periodId, subjectId }) => (periodId === null ? [subjectId] : []));
      const instances = await instanceResources(db, [...new Set(paidAhead)]);
      yield entries.map((entry) => {
        const period = periods.get(entry.periodId ?? 0) ?? null;
        const resource = period ?? instances.get(entry.subjectId) ?? null;
        const regionName = regions.get(resource?.regionId ?? '') ?? '';
        return { accountId, username, entry, period, resource, regionName };
      });
      await nextTurn(time);
      after = last.id;
    }
  }

  async function* ofAll(span: TimeSpan): AsyncGenerator<ExportedCharge[]> {
    const regions = await regionNames(db);
    let after = '';
    for (;;) {
      const accounts = await accountsAfter(db, after, ACCOUNTS_AT_ONCE);
      const last = accounts.at(-1);
      if (last === undefined) return;
      for (const account of accounts) yield* chargesOf(account, span, regions);
      after = last.id;
    }
  }

  async function* ofOwn({ accountId: id, username }: Caller, span: TimeSpan): AsyncGenerator<ExportedCharge[]> {
    yield* chargesOf({ id, username }, span, await regionNames(db));
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
