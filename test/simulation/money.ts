/** Half of the seeds sell all charge modes, at changing prices and to accounts whose money ends. */
import type { MoneyRules } from '../../src/domain/money/money-ladder.ts';
import { makeRandom } from '../fixtures/seeded-random.ts';

export interface MoneySettings {
  moneyRules: Partial<MoneyRules>;
  spotGraceMs: number;
  eventRetentionMs: number;
}

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

/** Draws apart from the schedule, so that a seed without is what it would be alone. */
export function drawMoney(seed: string): MoneySettings | null {
  const random = makeRandom(`${seed} money`);
  if (random() < 0.5) return null;
  const isStrict = random() < 0.5;
  return {
    moneyRules: isStrict ? { archiveMs: 5 * MINUTE, noStartsMs: MINUTE } : {},
    spotGraceMs: random() < 0.5 ? 2_000 : 2 * MINUTE,
    // The date jumps by months.
    eventRetentionMs: 1_000 * DAY,
  };
}
