/** Settings of billing. */
import { z } from 'zod';
import { HOUR_MS, DAY_MS } from '../domain/kernel/durations.ts';
import type { MoneyRules } from '../domain/money/money-ladder.ts';

const whole = (max: number, zero = '') =>
  z.coerce
    .number({ error: `must be a whole number from 0${zero} to ${max}` })
    .int({ error: `must be a whole number from 0${zero} to ${max}` })
    .min(0)
    .max(max);

const YEAR_HOURS = 366 * 24;
const daysOrNever = whole(3_650, ' (never)');

export const moneySettings = {
  BERTH_BILLING: z.enum(['on', 'off']).default('on'),
  BERTH_MONEY_FORECAST_HOURS: whole(YEAR_HOURS).default(72),
  BERTH_MONEY_WARN_HOURS: whole(YEAR_HOURS).default(24),
  BERTH_MONEY_NO_STARTS_MINUTES: whole(YEAR_HOURS * 60).default(60),
  BERTH_MONEY_ARCHIVE_DAYS: daysOrNever.default(7),
  BERTH_MONEY_DELETE_DAYS: daysOrNever.default(30),
};

type MoneySettings = z.output<z.ZodObject<typeof moneySettings>>;

export function moneyRulesOf(data: MoneySettings, wrongSetting: (name: string, reason: string) => Error): MoneyRules {
  const { BERTH_MONEY_ARCHIVE_DAYS: archiveDays, BERTH_MONEY_DELETE_DAYS: deleteDays } = data;
  const [forecastMs, warnMs] = [data.BERTH_MONEY_FORECAST_HOURS * HOUR_MS, data.BERTH_MONEY_WARN_HOURS * HOUR_MS];
  const noStartsMs = data.BERTH_MONEY_NO_STARTS_MINUTES * 60_000;
  if (warnMs > forecastMs)
    throw wrongSetting('BERTH_MONEY_WARN_HOURS', 'must be at most BERTH_MONEY_FORECAST_HOURS, the step before it');
  if (noStartsMs > warnMs)
    throw wrongSetting('BERTH_MONEY_NO_STARTS_MINUTES', 'must be at most BERTH_MONEY_WARN_HOURS, the step before it');
  if (deleteDays > 0 && deleteDays <= archiveDays)
    throw wrongSetting('BERTH_MONEY_DELETE_DAYS', 'must be more than BERTH_MONEY_ARCHIVE_DAYS, or 0: never');
  const orNever = (days: number): number | null => (days === 0 ? null : days * DAY_MS);
  return { forecastMs, warnMs, noStartsMs, archiveMs: orNever(archiveDays), deleteMs: orNever(deleteDays) };
}
