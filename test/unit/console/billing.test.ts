/** The month of the console's bill: days, lines, sums and the places of its chart. */
import { expect, test } from 'vitest';
import { scaleOf, stackOf } from '../../../console/src/pages/billing/chart-scale.ts';
import {
  daysOf,
  linesOf,
  movedMonth,
  niceTop,
  runningSums,
  subjectOfKey,
  sumOfGpuUse,
  type UsageRow,
} from '../../../console/src/pages/billing/month.ts';
import { readBillingSearch } from '../../../console/src/pages/billing/search.ts';

const DAY = 86_400_000;
const november = Date.UTC(2026, 10, 1);
const row = (day: number, instanceId: string, amount: number, time: UsageRow['time'] = []): UsageRow => ({
  fromUnixMs: november + (day - 1) * DAY,
  untilUnixMs: november + day * DAY,
  instanceId,
  meter: 'compute',
  name: instanceId,
  time,
  prices: [],
  purchases: 0,
  refunds: 0,
  uncollected: 0,
  amount,
});

const rows = [
  row(1, 'cheap', 1, [{ state: 'charged', ms: 5 }]),
  row(2, 'dear', 4, [
    { state: 'waiting', ms: 7 },
    { state: 'charged', ms: 9 },
  ]),
  row(2, 'cheap', 2),
  row(30, 'idle', 0, [{ state: 'pulling', ms: 3 }]),
];

test('lines have the sums of a month, the most expensive first', () => {
  expect(linesOf(rows).map(({ name, amount, chargedMs, freeMs }) => [name, amount, chargedMs, freeMs])).toEqual([
    ['dear', 4, 9, 7],
    ['cheap', 3, 5, 0],
    ['idle', 0, 0, 3],
  ]);
});

test('days cover the month, with free time and without lines that cost nothing', () => {
  const days = daysOf(rows, '2026-11', 'UTC');
  expect(days).toHaveLength(30);
  expect(days[1]).toMatchObject({ number: 2, amount: 6, freeMs: 7 });
  expect([...(days[29]?.amounts ?? [])]).toEqual([]);
  expect(days[29]?.freeMs).toBe(3);
  expect(runningSums(days).slice(0, 3)).toEqual([1, 7, 7]);
  expect(runningSums(days).at(-1)).toBe(7);
});

test('GPU time is summed over the month or a day, and time that was not measured is held alone', () => {
  const span = (day: number, heldHours: number, busyHours: number | null) => ({
    fromUnixMs: november + (day - 1) * DAY,
    untilUnixMs: november + day * DAY,
    heldHours,
    measuredHours: busyHours === null ? 0 : heldHours,
    busyHours,
    busyShare: busyHours === null ? null : busyHours / heldHours,
  });
  const spans = [span(1, 24, 6), span(2, 10, null), span(3, 2, 1)];
  expect(sumOfGpuUse(spans, undefined)).toEqual({ held: 36, measured: 26, busy: 7 });
  expect(sumOfGpuUse(spans, { fromMs: november + DAY, untilMs: november + 2 * DAY })).toEqual({
    held: 10,
    measured: 0,
    busy: 0,
  });
  expect(sumOfGpuUse([], undefined)).toEqual({ held: 0, measured: 0, busy: 0 });
});

test('days follow the time zone over a change of the clock', () => {
  const days = daysOf([], '2026-03', 'Europe/Berlin');
  expect(days).toHaveLength(31);
  expect(new Set(days.map(({ fromMs, untilMs }) => (untilMs - fromMs) / 3_600_000))).toEqual(new Set([24, 23]));
});

test('the key of a line leads to its resource and meter, that of a group does not', () => {
  expect(subjectOfKey(linesOf(rows)[0]?.key ?? '')).toEqual({ subjectId: 'dear', meter: 'compute' });
  expect(subjectOfKey('physics')).toBeNull();
});

test('a stack is as high as the day, and the lines without a colour are one part', () => {
  const days = daysOf(rows, '2026-11', 'UTC');
  const scale = scaleOf({ days, width: 700, forecast: null, marks: [] });
  const [day] = days.slice(1);
  if (day === undefined) throw new Error('the month has a second day');
  const [dear, ...rest] = linesOf(rows).map(({ key }) => key);
  const parts = stackOf(day, [dear ?? ''], scale);
  expect(parts.map(({ key }) => key)).toEqual([dear, '']);
  expect(parts.reduce((sum, { height }) => sum + height, 0)).toBeCloseTo(scale.zero - scale.dayY(6));
  expect(rest).toHaveLength(2);
});

test('a budget far above the sum does not flatten the chart', () => {
  const days = daysOf(rows, '2026-11', 'UTC');
  const mark = (amount: number) => ({ name: 'all', amount, isHard: true });
  const { sumTop, shownMarks, farMarks } = scaleOf({
    days,
    width: 700,
    forecast: null,
    marks: [mark(10), mark(1_000)],
  });
  expect(sumTop).toBe(10);
  expect(shownMarks).toEqual([mark(10)]);
  expect(farMarks).toEqual([mark(1_000)]);
});

test.each([
  ['2026-01', -1, '2025-12'],
  ['2026-12', 1, '2027-01'],
])('%s moved by %d is %s', (month, by, expected) => {
  expect(movedMonth(month, by)).toBe(expected);
});

test.each([
  [0, 1],
  [0.000_13, 0.000_15],
  [7, 8],
  [10, 10],
  [101, 150],
])('the top of a scale for %d is %d', (most, top) => {
  expect(niceTop(most)).toBeCloseTo(top, 10);
});

test('the address holds what is open, and drops what it does not know', () => {
  const open = { tab: 'entries', month: '2026-11', by: 'label:team', day: 3, line: 'a~compute', kind: 'refund' };
  expect(readBillingSearch(open)).toEqual(open);
  expect(readBillingSearch({ tab: 'x', month: '2026-13', by: 'x', day: 32, line: '', kind: null })).toEqual({});
  expect(readBillingSearch({ tab: 'use' })).toEqual({});
});
