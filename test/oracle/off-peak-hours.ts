/** Off-peak windows by the page on billing: times that the clocks of the zone show. */
import { DAY, MINUTE, wallOf, weekdayOf, type Zone } from './zones.ts';

export interface DailyWindow {
  /** Minutes after midnight; an end at or before the begin is on the next day. */
  from: number;
  to: number;
  /** Weekdays on which it begins, 0 is Sunday; absent: every day. */
  days?: number[];
}

/** Whether the clocks show a time in a window. */
export function isInWindow(zone: Zone, windows: readonly DailyWindow[], ms: number): boolean {
  const wall = wallOf(zone, ms);
  const minute = Math.floor(wall.ms / MINUTE);
  const begins = ({ days }: DailyWindow, day: number) => days === undefined || days.includes(weekdayOf(day));
  return windows.some((window) => {
    if (window.to > window.from) return begins(window, wall.day) && minute >= window.from && minute < window.to;
    return (begins(window, wall.day) && minute >= window.from) || (begins(window, wall.day - 1) && minute < window.to);
  });
}

/** Returns the first full minute after `ms`, within 9 days, at which a window opens or closes. */
export function nextEdge(zone: Zone, windows: readonly DailyWindow[], ms: number): number | undefined {
  const now = isInWindow(zone, windows, ms);
  const first = Math.floor(ms / MINUTE) * MINUTE + MINUTE;
  for (let at = first; at < ms + 9 * DAY; at += MINUTE) if (isInWindow(zone, windows, at) !== now) return at;
  return undefined;
}
