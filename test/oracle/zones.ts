/**
 * Calendar of the calculator: days by counting, and six time zones by their written rules (2024 to
 * 2037). It uses neither `Date` nor `Intl`, so that a fault in them or in their use is found.
 */

export const DAY = 86_400_000;
export const HOUR = 3_600_000;
export const MINUTE = 60_000;

/** Wall time: a day counted from 1970-01-01, and milliseconds since its midnight. */
export interface Wall {
  day: number;
  ms: number;
}

export interface Civil {
  year: number;
  /** 1 to 12. */
  month: number;
  day: number;
}

const isLeap = (year: number): boolean => (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;

export function lengthOfMonth(year: number, month: number): number {
  if (month === 2) return isLeap(year) ? 29 : 28;
  return [4, 6, 9, 11].includes(month) ? 30 : 31;
}

/** Counts once for each year: lives ask about few years, thousands of times. */
function onceAYear<Result>(count: (year: number) => Result): (year: number) => Result {
  const counted = new Map<number, Result>();
  return (year) => {
    const known = counted.get(year);
    if (known !== undefined) return known;
    const result = count(year);
    counted.set(year, result);
    return result;
  };
}

/** Day number of the first of each month. */
const firstsOf = onceAYear((year) => {
  let days = 0;
  for (let each = 1970; each < year; each++) days += isLeap(each) ? 366 : 365;
  for (let each = year; each < 1970; each++) days -= isLeap(each) ? 366 : 365;
  const firsts = [days];
  for (let month = 1; month < 12; month++) firsts.push((days += lengthOfMonth(year, month)));
  return firsts;
});

/** Counts the days from 1970-01-01, year by year and month by month. */
export const dayNumber = ({ year, month, day }: Civil): number => (firstsOf(year)[month - 1] ?? NaN) + day - 1;

export function civilOf(dayCount: number): Civil {
  let year = 1970 + Math.floor(dayCount / 366);
  while (dayNumber({ year: year + 1, month: 1, day: 1 }) <= dayCount) year++;
  let month = 1;
  while (month < 12 && dayNumber({ year, month: month + 1, day: 1 }) <= dayCount) month++;
  return { year, month, day: dayCount - dayNumber({ year, month, day: 1 }) + 1 };
}

/** 0 is Sunday; 1970-01-01 was a Thursday. */
export const weekdayOf = (dayCount: number): number => (((dayCount + 4) % 7) + 7) % 7;

/** The change: in `month`, the first `weekday` on or after `from`, or the last one of the month. */
interface Change {
  month: number;
  weekday: number;
  from: number | 'last';
  /** Minutes after midnight UTC of that civil date; may be negative or more than a day. */
  utcMinute: number;
}

interface ZoneRule {
  /** Minutes east of UTC in winter. */
  standard: number;
  /** Minutes that summer time adds. */
  saving: number;
  summer?: { begins: Change; ends: Change };
}

export const zoneRules = {
  'Europe/Berlin': {
    standard: 60,
    saving: 60,
    summer: {
      begins: { month: 3, weekday: 0, from: 'last', utcMinute: 60 },
      ends: { month: 10, weekday: 0, from: 'last', utcMinute: 60 },
    },
  },
  'America/New_York': {
    standard: -300,
    saving: 60,
    summer: {
      begins: { month: 3, weekday: 0, from: 8, utcMinute: 420 },
      ends: { month: 11, weekday: 0, from: 1, utcMinute: 360 },
    },
  },
  'Australia/Lord_Howe': {
    standard: 630,
    saving: 30,
    summer: {
      begins: { month: 10, weekday: 0, from: 1, utcMinute: 120 - 630 },
      ends: { month: 4, weekday: 0, from: 1, utcMinute: 120 - 660 },
    },
  },
  'America/Santiago': {
    standard: -240,
    saving: 60,
    summer: {
      begins: { month: 9, weekday: 0, from: 2, utcMinute: 240 },
      ends: { month: 4, weekday: 0, from: 2, utcMinute: 180 },
    },
  },
  'Pacific/Auckland': {
    standard: 720,
    saving: 60,
    summer: {
      begins: { month: 9, weekday: 0, from: 'last', utcMinute: 120 - 720 },
      ends: { month: 4, weekday: 0, from: 1, utcMinute: 180 - 780 },
    },
  },
  'Asia/Kolkata': { standard: 330, saving: 0 },
} as const satisfies Record<string, ZoneRule>;

export type Zone = keyof typeof zoneRules;
export const zones = Object.keys(zoneRules) as Zone[];

function momentOf(year: number, change: Change): number {
  let day = dayNumber({ year, month: change.month, day: change.from === 'last' ? 1 : change.from });
  while (weekdayOf(day) !== change.weekday) day++;
  if (change.from === 'last') while (civilOf(day + 7).month === change.month) day += 7;
  return day * DAY + change.utcMinute * MINUTE;
}

const changesByZone = new Map<Zone, (year: number) => [begins: number, ends: number] | []>();

/** Begin and end of summer time. */
function summerOf(zone: Zone, year: number): [begins: number, ends: number] | [] {
  const { summer }: ZoneRule = zoneRules[zone];
  const changes =
    changesByZone.get(zone) ??
    onceAYear((of) => (summer === undefined ? [] : [momentOf(of, summer.begins), momentOf(of, summer.ends)]));
  changesByZone.set(zone, changes);
  return changes(year);
}

/** Milliseconds east of UTC at the instant. */
export function offsetAt(zone: Zone, ms: number): number {
  const rule: ZoneRule = zoneRules[zone];
  const standard = rule.standard * MINUTE;
  const { year } = civilOf(Math.floor((ms + standard) / DAY));
  const [begins, ends] = summerOf(zone, year);
  if (begins === undefined || ends === undefined) return standard;
  const isSummer = begins < ends ? ms >= begins && ms < ends : ms >= begins || ms < ends;
  return standard + (isSummer ? rule.saving * MINUTE : 0);
}

/** Instants of the year at which the offset changes. */
export const changesOf = (zone: Zone, year: number): number[] => summerOf(zone, year);

export function wallOf(zone: Zone, ms: number): Wall {
  const local = ms + offsetAt(zone, ms);
  const day = Math.floor(local / DAY);
  return { day, ms: local - day * DAY };
}

/**
 * Returns the instant of a wall time: the first of a repeated one; of a skipped one, the wall time
 * later by what the clock skips.
 */
export function instantOf(zone: Zone, wall: Wall): number {
  const local = wall.day * DAY + wall.ms;
  const offsets = [offsetAt(zone, local - DAY), offsetAt(zone, local + DAY)];
  const fits = offsets.map((offset) => local - offset).filter((ms) => ms + offsetAt(zone, ms) === local);
  if (fits.length > 0) return Math.min(...fits);
  // The offset before the change makes a skipped wall time one that is later by the change.
  return local - offsetAt(zone, local - DAY);
}
