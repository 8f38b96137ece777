/** Days and lines of a month, summed from the rows of `/billing/usage`. Pure. */
import { bucketsOf, monthSpan, type TimeSpan } from '../../../../src/contract/money/months.ts';
import type { AnswerOf } from '../../../../src/contract/routes.ts';

export type UsageRow = AnswerOf<'usage'>['rows'][number];

type GpuSpan = AnswerOf<'gpuUse'>['spans'][number];

/** What one resource and meter, or one group, cost. */
export interface Line {
  key: string;
  /** Name of the resource, or the group as the API has it. */
  name: string;
  subjectId?: string;
  subjectKind?: 'instance' | 'volume' | 'snapshot';
  meter?: string;
  amount: number;
  chargedMs: number;
  freeMs: number;
}

export interface Day extends TimeSpan {
  number: number;
  amount: number;
  freeMs: number;
  /** By the keys of lines; those without amount are left out. */
  amounts: ReadonlyMap<string, number>;
}

const PAID = ['charged', 'paidAhead'];
const MOST_DAYS = 31;

const timeOf = (row: UsageRow, isFree: boolean): number =>
  row.time.reduce((sum, { state, ms }) => (PAID.includes(state) === isFree ? sum : sum + ms), 0);

const subjectOf = ({ instanceId, volumeId, snapshotId }: UsageRow): Pick<Line, 'subjectId' | 'subjectKind'> => {
  if (instanceId !== undefined) return { subjectId: instanceId, subjectKind: 'instance' };
  if (volumeId !== undefined) return { subjectId: volumeId, subjectKind: 'volume' };
  return snapshotId === undefined ? {} : { subjectId: snapshotId, subjectKind: 'snapshot' };
};

export const keyOf = (row: UsageRow): string => {
  const { subjectId } = subjectOf(row);
  return subjectId === undefined ? (row.group ?? '') : `${subjectId}~${row.meter ?? ''}`;
};

/** Subject and meter of a line of a resource; null of a group. */
export function subjectOfKey(key: string): { subjectId: string; meter: string } | null {
  const at = key.lastIndexOf('~');
  return at <= 0 ? null : { subjectId: key.slice(0, at), meter: key.slice(at + 1) };
}

/** Lines, the most expensive first. */
export function linesOf(rows: readonly UsageRow[]): Line[] {
  const lines = new Map<string, Line>();
  for (const row of rows) {
    const key = keyOf(row);
    const before = lines.get(key);
    lines.set(key, {
      ...subjectOf(row),
      ...(row.meter === undefined ? {} : { meter: row.meter }),
      key,
      name: row.name ?? row.group ?? '',
      amount: (before?.amount ?? 0) + row.amount,
      chargedMs: (before?.chargedMs ?? 0) + timeOf(row, false),
      freeMs: (before?.freeMs ?? 0) + timeOf(row, true),
    });
  }
  return [...lines.values()].toSorted((one, other) => other.amount - one.amount || other.chargedMs - one.chargedMs);
}

export function daysOf(rows: readonly UsageRow[], month: string, timeZone: string): Day[] {
  const byStart = Map.groupBy(rows, ({ fromUnixMs }) => fromUnixMs);
  return bucketsOf(monthSpan(month, timeZone), { by: 'day', timeZone, limit: MOST_DAYS }).map((span, at) => {
    const own = byStart.get(span.fromMs) ?? [];
    const amounts = new Map<string, number>();
    for (const row of own) if (row.amount > 0) amounts.set(keyOf(row), (amounts.get(keyOf(row)) ?? 0) + row.amount);
    return {
      ...span,
      number: at + 1,
      amounts,
      amount: own.reduce((sum, { amount }) => sum + amount, 0),
      freeMs: own.reduce((sum, row) => sum + timeOf(row, true), 0),
    };
  });
}

/** Hours of one GPU in all spans, or on one day. */
export function sumOfGpuUse(spans: readonly GpuSpan[], day: TimeSpan | undefined) {
  const sum = { held: 0, measured: 0, busy: 0 };
  for (const { fromUnixMs, heldHours, measuredHours, busyHours } of spans) {
    if (day !== undefined && fromUnixMs !== day.fromMs) continue;
    sum.held += heldHours;
    sum.measured += measuredHours;
    sum.busy += busyHours ?? 0;
  }
  return sum;
}

/** Sums up to the end of each day. */
export function runningSums(days: readonly Day[]): number[] {
  let sum = 0;
  return days.map(({ amount }) => (sum += amount));
}

/** A month earlier or later. */
export function movedMonth(month: string, by: number): string {
  const [year = 0, number = 1] = month.split('-').map(Number);
  return new Date(Date.UTC(year, number - 1 + by, 1)).toISOString().slice(0, 7);
}

/** A round number at or above, for the top of a scale. */
export function niceTop(most: number): number {
  if (most <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  const step = [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((times) => times * power >= most * 0.999_999) ?? 10;
  return step * power;
}
