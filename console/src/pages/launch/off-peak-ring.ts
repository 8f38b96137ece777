/** Hours of a day on a ring, in the time zone of the region. Pure. */
import { minutesOf, wallTimeOf, weekdays, type Weekday } from '../../../../src/contract/regions/wall-time.ts';
import type { Offer } from './draft.ts';

type OffPeak = NonNullable<Offer['prices'][number]['offPeak']>;

const DAY_MINUTES = 24 * 60;
const MINUTE_MS = 60_000;

/** Weekday of a day of `Date`, whose week begins with Sunday. */
const weekdayAt = (utcDay: number): Weekday => weekdays[(utcDay + 6) % weekdays.length] ?? 'mon';

export interface ClockTime {
  day: Weekday;
  dayBefore: Weekday;
  minutes: number;
}

/** Day and minute of a moment in a time zone. */
export function clockTimeOf(atMs: number, timeZone: string): ClockTime {
  const wall = new Date(wallTimeOf(atMs, timeZone));
  const day = wall.getUTCDay();
  const minutes = Math.floor(wall.getTime() / MINUTE_MS) % DAY_MINUTES;
  return { day: weekdayAt(day), dayBefore: weekdayAt(day + 6), minutes };
}

/** Minutes in which the price counts today, with what yesterday's windows reach past midnight. */
export function spansOfDay(
  { windows }: Pick<OffPeak, 'windows'>,
  { day, dayBefore }: Pick<ClockTime, 'day' | 'dayBefore'>,
): [number, number][] {
  return windows.flatMap(({ days, start, end }) => {
    const [from, to] = [minutesOf(start), minutesOf(end)];
    const overnight = to < from;
    return [
      ...(days.includes(day) ? [[from, overnight ? DAY_MINUTES : to] as [number, number]] : []),
      ...(overnight && days.includes(dayBefore) ? [[0, to] as [number, number]] : []),
    ];
  });
}

/** Arc of an SVG path: midnight is at the top, and the day goes clockwise. */
export function arcOf([from, to]: [number, number], { centre, radius }: { centre: number; radius: number }): string {
  const at = (minutes: number): string => {
    const angle = (minutes / DAY_MINUTES) * 2 * Math.PI - Math.PI / 2;
    return `${(centre + radius * Math.cos(angle)).toFixed(2)} ${(centre + radius * Math.sin(angle)).toFixed(2)}`;
  };
  // A whole circle is no arc: two halves.
  if (to - from >= DAY_MINUTES)
    return `${arcOf([0, DAY_MINUTES / 2], { centre, radius })}${arcOf([DAY_MINUTES / 2, DAY_MINUTES - 0.01], { centre, radius })}`;
  return `M${at(from)}A${radius} ${radius} 0 ${to - from > DAY_MINUTES / 2 ? 1 : 0} 1 ${at(to)}`;
}
