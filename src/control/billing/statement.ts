/** The statement of a month: balances, what moved them, and what each resource cost. */
import { Refusal } from '../../domain/refusal.ts';
import { monthSpan, type TimeSpan } from '../../domain/usage-buckets.ts';
import { otherEntries, paidFrom, resourceIds } from '../../store/tables/book-sums.ts';
import type { EntryRow } from '../../store/tables/ledger.ts';
import type { Caller, Pager } from '../base/caller.ts';
import { nextTurn, resourceLines, revenueOf, type ResourceLine } from './resource-lines.ts';
import { meterSums, meterTimes, moneyIn, type MeterSum, type Money, type SumDeps } from './statement-sums.ts';

export interface StatementRequest {
  /** `2026-11` */
  month: string;
  timeZone: string;
}

interface Totals extends TimeSpan, Money {
  uncollectedMicros: number;
  chargesMicros: number;
  meters: MeterSum[];
  /** Entries that are not metered use, oldest first. */
  entries: EntryRow[];
  hasMoreEntries: boolean;
}

export interface Statement extends StatementRequest, Totals {
  resources: ResourceLine[];
  totalResources: number;
}

export interface WholeStatement extends StatementRequest, Totals {
  /** Lines of all resources, by their ids. */
  lines: AsyncIterable<ResourceLine[]>;
}

export interface Statements {
  page(caller: Caller, request: StatementRequest, pager: Pager): Promise<Statement>;
  whole(caller: Caller, request: StatementRequest): Promise<WholeStatement>;
}

const MAX_LISTED_RESOURCES = 10_000;
const MAX_ENTRIES = 1_000;
const LINES_AT_ONCE = 200;

export function makeStatements(deps: SumDeps): Statements {
  const { store, time } = deps;
  const db = store.read;

  async function totals(accountId: string, { month, timeZone }: StatementRequest): Promise<Totals> {
    const span = monthSpan(month, timeZone);
    if (span.fromMs > time.now())
      throw new Refusal(
        'field_value',
        `field "month" is ${month}, which has not begun: send the current month, or one before it`,
      );
    const [{ moved: sums, ...money }, times] = await Promise.all([
      moneyIn(deps, accountId, span),
      meterTimes(deps, accountId, span),
    ]);
    const { uncollected } = sums.metered.bySource;
    const charged = paidFrom.reduce((total, source) => total + sums.metered.bySource[source], 0);
    const entries = await otherEntries(db, accountId, span, { limit: MAX_ENTRIES + 1 });
    return {
      ...span,
      ...money,
      uncollectedMicros: uncollected,
      chargesMicros: charged + sums.others.reduce((total, one) => total + revenueOf(one), 0),
      meters: meterSums(times, sums),
      entries: entries.slice(0, MAX_ENTRIES),
      hasMoreEntries: entries.length > MAX_ENTRIES,
    };
  }

  async function* allLines(accountId: string, span: TimeSpan): AsyncGenerator<ResourceLine[]> {
    let after = '';
    for (;;) {
      const subjectIds = await resourceIds(db, accountId, span, { after, limit: LINES_AT_ONCE });
      const last = subjectIds.at(-1);
      if (last === undefined) return;
      yield await resourceLines(db, accountId, span, { subjectIds, nowMs: time.now() });
      await nextTurn(time);
      after = last;
    }
  }

  return {
    async page({ accountId }, request, { currentPage, pageSize }) {
      const found = await totals(accountId, request);
      const ids = await resourceIds(db, accountId, found, { after: '', limit: MAX_LISTED_RESOURCES });
      const from = Math.min((currentPage - 1) * pageSize, MAX_LISTED_RESOURCES);
      const subjectIds = ids.slice(from, from + pageSize);
      const resources = await resourceLines(db, accountId, found, { subjectIds, nowMs: time.now() });
      return { ...request, ...found, resources, totalResources: ids.length };
    },
    async whole({ accountId }, request) {
      const found = await totals(accountId, request);
      return { ...request, ...found, lines: allLines(accountId, found) };
    },
  };
}
