/**
 * Random faults in any order: nothing is duplicated, forgotten or lost, and the world converges
 * once faults stop.
 */
import { expect, test } from 'vitest';
import { atLevel, isSoak } from '../fixtures/level.ts';
import { failedRuns } from './failures.ts';

const SEEDS = atLevel({ short: 10, long: 300, soak: 20_000 });

test(`holds all invariants in ${SEEDS} seeds`, { timeout: isSoak ? 24 * 3_600_000 : 600_000 }, async () => {
  const names = Array.from({ length: SEEDS }, (_, seed) => `seed:${seed}`);
  expect(await failedRuns(names)).toEqual([]);
});
