/** Usage by hour, day, week or month of a time zone: time and cost of resources or groups. */
import { meterStates } from '../../domain/meter.ts';
import { Refusal } from '../../domain/refusal.ts';
import { bucketsOf, overlapMs, type BucketUnit, type TimeSpan } from '../../domain/usage-buckets.ts';
import { oneOf, parseJson } from '../../store/db/columns.ts';
import { closedPeriods, openPeriodsBefore, otherEntries, periodCharges } from '../../store/tables/book-sums.ts';
import { labelsColumn } from '../../store/tables/json-schemas.ts';
import type { PeriodRow } from '../../store/tables/usage-periods.ts';
import type { Store } from '../../store/store.ts';
import type { Caller, Pager } from '../base/caller.ts';
import type { Time } from '../base/time.ts';
import { addTime, nextTurn, revenueOf, spanUntilNow, type TimeByState } from './resource-lines.ts';

export interface UsageRequest extends TimeSpan {
  by: BucketUnit;
  timeZone: string;
  /** `label:KEY` too. */
  groupBy: string;
}

export interface UsageRow extends TimeSpan {
  /** Meter, instance type or value of the label; '' for resources, and without type or label. */
  group: string;
  subjectId: string;
  meter: string;
  name: string;
  ms: TimeByState;
  amountMicros: number;
}

export interface Usage {
  rows(caller: Caller, request: UsageRequest, pager: Pager): Promise<{ rows: UsageRow[]; totalEntries: number }>;
}

const MAX_BUCKETS = 750;
const MAX_PERIODS = 50_000;
const MAX_ROWS = 100_000;
const LABEL = 'label:';

export function makeUsage({ store, time }: { store: Pick<Store, 'read'>; time: Pick<Time, 'now' | 'after'> }): Usage {
  const db = store.read;

  async function periodsIn(accountId: string, span: TimeSpan): Promise<PeriodRow[]> {
    const closed = await closedPeriods(db, accountId, span, MAX_PERIODS + 1);
    const periods = [...closed, ...(await openPeriodsBefore(db, accountId, span.untilMs))];
    if (periods.length <= MAX_PERIODS) return periods;
    throw new Refusal(
      'field_value',
      `the range has more than ${MAX_PERIODS} usage periods: send a shorter one, or read GET /api/billing/statement.csv, which has no limit`,
    );
  }

  return {
    async rows({ accountId }, request, { currentPage, pageSize }) {
      const buckets = bucketsOf(request, { ...request, limit: MAX_BUCKETS });
      const [first, last] = [buckets[0], buckets.at(-1)];
      if (buckets.length > MAX_BUCKETS || !first || !last) throw tooLong(request);
      const span = { fromMs: first.fromMs, untilMs: last.untilMs };
      const periods = await periodsIn(accountId, span);
      const nowMs = time.now();
      const rows = new Map<string, UsageRow>();
      const rowOf = (bucket: TimeSpan, of: Facts): UsageRow => {
        const facts = factsFor(request.groupBy, of);
        const key = [bucket.fromMs, facts.group, facts.subjectId, facts.meter].join(' ');
        const row = rows.get(key) ?? { ...bucket, ...facts, ms: {}, amountMicros: 0 };
        if (rows.size >= MAX_ROWS) throw tooManyRows(request);
        rows.set(key, row);
        return row;
      };
      for (const bucket of buckets) {
        const inside = periods.filter((period) => overlapMs(spanUntilNow(period, nowMs), bucket) > 0);
        const isCrossing = ({ openedAtMs, closedAtMs, state }: PeriodRow): boolean =>
          state === 'charged' && (openedAtMs < bucket.fromMs || closedAtMs === null || closedAtMs > bucket.untilMs);
        const crossing = inside.filter(isCrossing).map(({ id }) => id);
        const charges = await periodCharges(db, bucket, crossing);
        for (const period of inside) {
          const lived = spanUntilNow(period, nowMs);
          const row = rowOf(bucket, period);
          addTime(row.ms, oneOf(meterStates, period.state), overlapMs(lived, bucket));
          row.amountMicros += isCrossing(period) ? (charges.get(period.id) ?? 0) : period.chargedMicros;
        }
        await nextTurn(time);
      }
      const latest = new Map(periods.toSorted((one, other) => one.id - other.id).map((one) => [one.subjectId, one]));
      for (const entry of await otherEntries(db, accountId, span, { limit: MAX_ROWS })) {
        const bucket = buckets.find(({ fromMs, untilMs }) => entry.atMs >= fromMs && entry.atMs < untilMs);
        if (!bucket || revenueOf(entry) === 0) continue;
        const known = latest.get(entry.subjectId);
        const facts = { subjectName: '', typeId: '', labels: null, ...known, ...entry };
        rowOf(bucket, facts).amountMicros += revenueOf(entry);
      }
      const sorted = [...rows.values()].toSorted(inOrder);
      const from = Math.min((currentPage - 1) * pageSize, MAX_ROWS);
      return { rows: sorted.slice(from, from + pageSize), totalEntries: sorted.length };
    },
  };
}

type Facts = Pick<PeriodRow, 'subjectId' | 'subjectName' | 'meter' | 'typeId' | 'labels'>;

function factsFor(groupBy: string, { subjectId, subjectName, meter, typeId, labels }: Facts) {
  const none = { subjectId: '', meter: '', name: '' };
  if (groupBy === 'resource') return { group: '', subjectId, meter, name: subjectName };
  if (groupBy === 'meter') return { ...none, group: meter };
  if (groupBy === 'type') return { ...none, group: typeId };
  const where = { table: 'usagePeriod', id: subjectId, column: 'labels' };
  const values = labels === null ? {} : parseJson(labelsColumn, labels, where);
  return { ...none, group: values[groupBy.slice(LABEL.length)] ?? '' };
}

function inOrder(one: UsageRow, other: UsageRow): number {
  if (one.fromMs !== other.fromMs) return one.fromMs - other.fromMs;
  const [a, b] = [one, other].map(({ group, subjectId, meter }) => `${group} ${subjectId} ${meter}`);
  return (a ?? '') < (b ?? '') ? -1 : 1;
}

const tooLong = ({ by }: UsageRequest): Refusal =>
  new Refusal(
    'field_value',
    `the range has more than ${MAX_BUCKETS} spans by ${by}: send a shorter one, or a longer "by"`,
  );

const tooManyRows = ({ groupBy }: UsageRequest): Refusal =>
  new Refusal(
    'field_value',
    `the answer has more than ${MAX_ROWS} rows by ${groupBy}: send a shorter range, a longer "by", or "groupBy" "meter"`,
  );
