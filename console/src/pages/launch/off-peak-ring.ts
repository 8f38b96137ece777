/** Hours of a day on a ring, in the time zone of the region. Pure. */
import type { Offer } from './draft.ts';

type OffPeak = NonNullable<Offer['prices'][number]['offPeak']>;

const DAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] as const;
const DAY_MINUTES = 24 * 60;

const minutesOf = (time: string): number => {
  const [hours = 0, minutes = 0] = time.split(':').map(Number);
  return hours * 60 + minutes;
};

export interface WallTime {
  day: (typeof DAYS)[number];
  minutes: number;
}

/** Day and minute of a moment in a time zone. */
export function wallTimeOf(atMs: number, timeZone: string): WallTime {
  const parts = new Intl.DateTimeFormat('en-US', {
    timeZone,
    weekday: 'short',
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  }).formatToParts(atMs);
  const part = (type: string): string => parts.find((one) => one.type === type)?.value ?? '';
  const day = DAYS.find((name) => name === part('weekday').toLowerCase()) ?? 'mon';
  return { day, minutes: Number(part('hour')) * 60 + Number(part('minute')) };
}

/** Minutes in which the price counts today, with what yesterday's windows reach past midnight. */
export function spansOfDay({ windows }: Pick<OffPeak, 'windows'>, today: WallTime['day']): [number, number][] {
  const yesterday = DAYS[(DAYS.indexOf(today) + DAYS.length - 1) % DAYS.length];
  return windows.flatMap(({ days, start, end }) => {
    const [from, to] = [minutesOf(start), minutesOf(end)];
    const overnight = to < from;
    return [
      ...(days.includes(today) ? [[from, overnight ? DAY_MINUTES : to] as [number, number]] : []),
      ...(overnight && yesterday !== undefined && days.includes(yesterday) ? [[0, to] as [number, number]] : []),
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
