/** Settings of billing. */
import { z } from 'zod';
import { DAY_MS } from '../domain/kernel/durations.ts';
import type { MoneyRules } from '../domain/money/money-ladder.ts';

const MAX_DAYS = 3_650;
const DAYS = `must be a whole number from 0 (never) to ${MAX_DAYS}`;
const daysOrNever = z.coerce.number({ error: DAYS }).int({ error: DAYS }).min(0).max(MAX_DAYS);

export const moneySettings = {
  BERTH_BILLING: z.enum(['on', 'off']).default('on'),
  BERTH_MONEY_ARCHIVE_DAYS: daysOrNever.default(7),
  BERTH_MONEY_DELETE_DAYS: daysOrNever.default(30),
};

type MoneySettings = z.output<z.ZodObject<typeof moneySettings>>;

export function moneyRulesOf(
  data: MoneySettings,
  wrongSetting: (name: string, reason: string) => Error,
): Pick<MoneyRules, 'archiveMs' | 'deleteMs'> {
  const { BERTH_MONEY_ARCHIVE_DAYS: archiveDays, BERTH_MONEY_DELETE_DAYS: deleteDays } = data;
  if (deleteDays > 0 && deleteDays <= archiveDays)
    throw wrongSetting('BERTH_MONEY_DELETE_DAYS', 'must be more than BERTH_MONEY_ARCHIVE_DAYS, or 0: never');
  const orNever = (days: number): number | null => (days === 0 ? null : days * DAY_MS);
  return { archiveMs: orNever(archiveDays), deleteMs: orNever(deleteDays) };
}
