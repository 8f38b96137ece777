/** Usage by hour, day, week or month of a time zone: time and cost of resources or groups. */
import { Refusal } from '../../domain/kernel/refusal.ts';
import { bucketsOf, type BucketUnit, type TimeSpan } from '../../domain/money/usage-buckets.ts';
import { parseJson } from '../../store/db/columns.ts';
import { labelsColumn } from '../../store/tables/json-schemas.ts';
import { countPeriods, type Fact, type MoneyRow, type TimeRow } from '../../store/tables/report-rows.ts';
import { describe, report, type ReportDeps, type ReportRow } from './report.ts';
import type { Caller, Pager } from '../kernel/ports.ts';

export interface SpansRequest extends TimeSpan {
  by: BucketUnit;
  timeZone: string;
}

export interface UsageRequest extends SpansRequest {
  /** `label:KEY` too. */
  groupBy: string;
}

export interface UsageRow extends ReportRow {
  /** Meter, instance type or value of the label; '' for resources, and without type or label. */
  group: string;
  name: string;
}

export interface Usage {
  rows(caller: Caller, request: UsageRequest, pager: Pager): Promise<{ rows: UsageRow[]; totalEntries: number }>;
}

const MAX_BUCKETS = 750;
const MAX_PERIODS = 50_000;
const MAX_ROWS = 100_000;
const LABEL = 'label:';

export function makeUsage(deps: ReportDeps): Usage {
  return {
    async rows({ accountId }, request, { currentPage, pageSize }) {
      const buckets = spansOf(request);
      const span = { fromMs: buckets[0].fromMs, untilMs: (buckets.at(-1) ?? buckets[0]).untilMs };
      if ((await countPeriods(deps.store.read, accountId, span, MAX_PERIODS + 1)) > MAX_PERIODS) throw tooManyPeriods();
      const { by, groupOf } = groupings(request.groupBy);
      const isByResource = by.includes('subjectId');
      const keyOf = (row: TimeRow | MoneyRow): string =>
        isByResource ? `${row.subjectId} ${row.meter}` : groupOf(row);
      const limit = (rows: number): void => {
        if (rows > MAX_ROWS) throw tooManyRows(request);
      };
      const rows = await report(deps, accountId, buckets, { by: [...by, 'priceMicros'], keyOf, limit });
      const bySpan = Map.groupBy(rows, ({ fromMs }) => fromMs);
      const shown = (row: ReportRow) => ({
        ...row,
        group: groupOf(row),
        ...(isByResource ? {} : { meter: '', typeId: '', labels: null }),
      });
      const page: Omit<UsageRow, 'name'>[] = [];
      let from = Math.min((currentPage - 1) * pageSize, MAX_ROWS);
      // Sorts the spans of the page alone.
      for (const { fromMs } of buckets) {
        const inSpan = bySpan.get(fromMs) ?? [];
        if (from < inSpan.length && page.length < pageSize)
          page.push(
            ...inSpan
              .map(shown)
              .toSorted(inOrder)
              .slice(from, from + pageSize - page.length),
          );
        from = Math.max(0, from - inSpan.length);
      }
      return { rows: await describe(deps, page), totalEntries: rows.length };
    },
  };
}

type Grouped = Pick<TimeRow | MoneyRow, 'meter' | 'typeId' | 'labels'>;

function groupings(groupBy: string): { by: readonly Fact[]; groupOf: (of: Grouped) => string } {
  if (groupBy === 'resource') return { by: ['subjectId'], groupOf: () => '' };
  if (groupBy === 'meter') return { by: [], groupOf: ({ meter }) => meter };
  // Volumes have types, too, which are none of instances.
  if (groupBy === 'type')
    return { by: ['typeId'], groupOf: ({ meter, typeId = '' }) => (meter === 'volume' ? '' : typeId) };
  const where = { table: 'usagePeriod', id: groupBy, column: 'labels' };
  const values = new Map<string, string>();
  const valueOf = (labels: string): string => {
    const value = values.get(labels) ?? parseJson(labelsColumn, labels, where)[groupBy.slice(LABEL.length)] ?? '';
    values.set(labels, value);
    return value;
  };
  return { by: ['labels'], groupOf: ({ labels }) => (labels ? valueOf(labels) : '') };
}

function inOrder(one: Omit<UsageRow, 'name'>, other: Omit<UsageRow, 'name'>): number {
  const [a, b] = [one, other].map(({ group, subjectId, meter }) => `${group} ${subjectId} ${meter}`);
  return (a ?? '') < (b ?? '') ? -1 : 1;
}

const tooManyPeriods = (): Refusal =>
  new Refusal(
    'field_value',
    `the range has more than ${MAX_PERIODS} usage periods: send a shorter one, or read GET /api/billing/statement.csv, which has no limit`,
  );

/** Throws `field_value` for too many spans. */
export function spansOf(request: SpansRequest): [TimeSpan, ...TimeSpan[]] {
  const [first, ...rest] = bucketsOf(request, { ...request, limit: MAX_BUCKETS });
  if (!first || rest.length >= MAX_BUCKETS)
    throw new Refusal(
      'field_value',
      `the range has more than ${MAX_BUCKETS} spans by ${request.by}: send a shorter one, or a longer "by"`,
    );
  return [first, ...rest];
}

const tooManyRows = ({ groupBy }: UsageRequest): Refusal =>
  new Refusal(
    'field_value',
    `the answer has more than ${MAX_ROWS} rows by ${groupBy}: send a shorter range, a longer "by", or "groupBy" "meter"`,
  );
