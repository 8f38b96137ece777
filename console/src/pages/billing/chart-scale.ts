/**
 * Places of a month's chart: the sum above, the days below it, and free time under their line.
 * Pure.
 */
import { niceTop, runningSums, type Day } from './month.ts';

export const HEIGHT = 292;
export const LEFT = 56;
const RIGHT = 12;
const sumPanel = { top: 14, bottom: 104 };
const dayPanel = { top: 132, bottom: 232 };
export const freePanel = { top: 234, bottom: 262 };
const GAP_PX = 2;

export interface Forecast {
  nowMs: number;
  /** Sums of now and of the end of the month. */
  toDate: number;
  atEnd: number;
}

export interface Mark {
  name: string;
  amount: number;
  isHard: boolean;
}

interface ScaleInput {
  days: readonly Day[];
  width: number;
  forecast: Forecast | null;
  marks: readonly Mark[];
}

/** A budget further away would make the line flat. */
const FAR = 3;

export function scaleOf({ days, width, forecast, marks }: ScaleInput) {
  const from = days[0]?.fromMs ?? 0;
  const until = days.at(-1)?.untilMs ?? 1;
  const inner = Math.max(1, width - LEFT - RIGHT);
  const x = (ms: number): number => LEFT + ((ms - from) / (until - from)) * inner;
  const sums = runningSums(days);
  const most = Math.max(sums.at(-1) ?? 0, forecast?.atEnd ?? 0, 0.000_001);
  const near = marks.filter(({ amount }) => amount <= most * FAR);
  const sumTop = niceTop(Math.max(most, ...near.map(({ amount }) => amount)));
  const dayTop = niceTop(Math.max(0.000_001, ...days.map(({ amount }) => amount)));
  const freeTop = Math.max(1, ...days.map(({ freeMs }) => freeMs));
  const within = (panel: { top: number; bottom: number }, share: number): number =>
    panel.bottom - share * (panel.bottom - panel.top);
  return {
    x,
    dayWidth: Math.max(1, inner / Math.max(1, days.length) - GAP_PX),
    sums,
    sumTop,
    dayTop,
    sumY: (amount: number): number => within(sumPanel, amount / sumTop),
    dayY: (amount: number): number => within(dayPanel, amount / dayTop),
    freeHeight: (ms: number): number => (ms / freeTop) * (freePanel.bottom - freePanel.top),
    shownMarks: near,
    farMarks: marks.filter((mark) => !near.includes(mark)),
    zero: dayPanel.bottom,
    sumZero: sumPanel.bottom,
  };
}

export type Scale = ReturnType<typeof scaleOf>;

/** Line of the sums, up to now. */
export function sumPath(days: readonly Day[], { x, sums, sumY }: Scale, forecast: Forecast | null): string {
  const points = days.flatMap(({ untilMs }, at): [number, number][] =>
    forecast !== null && untilMs > forecast.nowMs ? [] : [[untilMs, sums[at] ?? 0]],
  );
  const first = days[0]?.fromMs ?? 0;
  const all: [number, number][] = [
    [first, 0],
    ...points,
    ...(forecast ? [[forecast.nowMs, forecast.toDate] as [number, number]] : []),
  ];
  return all.map(([ms, sum], at) => `${at === 0 ? 'M' : 'L'}${x(ms).toFixed(1)} ${sumY(sum).toFixed(1)}`).join('');
}

/** Rectangles of a day, from the bottom: those of `shown` in their order, and the rest as one. */
export function stackOf(
  day: Day,
  shown: readonly string[],
  scale: Scale,
): { key: string; y: number; height: number }[] {
  let below = 0;
  const known = new Set(shown);
  let rest = 0;
  for (const [key, amount] of day.amounts) if (!known.has(key)) rest += amount;
  return [
    ...shown.map((key): [string, number] => [key, day.amounts.get(key) ?? 0]),
    ['', rest] as [string, number],
  ].flatMap(([key, amount]) => {
    if (amount <= 0) return [];
    const bottom = scale.dayY(below);
    below += amount;
    const y = scale.dayY(below);
    return [{ key, y, height: Math.max(0.5, bottom - y) }];
  });
}
