/** Prices of a type from that of an hour. Pure. */
import type { AnswerOf } from '../../../../src/contract/routes.ts';

export type ManagedType = AnswerOf<'listTypes'>['types'][number];
type Prices = ManagedType['prices'];

const HOURS_A_DAY = 24;
const HOURS_A_MONTH = 720;

/** Parts of the price by the hour, for a type that was free before. */
const usual = { tidePerHour: 0.5, perDay: 24 * 0.9, perWeek: 168 * 0.8, perMonth: 720 * 0.7 } as const;

/** Prices have at most six decimals; four are enough for people. */
const rounded = (dollars: number): number => Math.round(dollars * 10_000) / 10_000;

/** All modes keep their proportion to the hour. */
export function pricesFrom(perHour: number, before: Prices): Prices {
  const scaled = (mode: keyof typeof usual): number =>
    rounded(before.perHour > 0 ? (before[mode] / before.perHour) * perHour : usual[mode] * perHour);
  return {
    tidePerHour: scaled('tidePerHour'),
    perHour,
    perDay: scaled('perDay'),
    perWeek: scaled('perWeek'),
    perMonth: scaled('perMonth'),
  };
}

export const preview = ({ perHour, perMonth }: Prices) => ({
  day: perHour * HOURS_A_DAY,
  month: perHour * HOURS_A_MONTH,
  paidMonth: perMonth,
});
