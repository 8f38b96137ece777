/** Whatever goes wrong, and in whatever order: nothing is doubled, forgotten or lost, and once nothing goes wrong any more all comes to rest. */
import { expect, test } from 'vitest';
import { atLevel, isSoak } from '../fixtures/level.ts';
import { failuresOf } from './failures.ts';

const SEEDS = atLevel({ short: 60, long: 300, soak: 20_000 });

test(`holds all that it promises in ${SEEDS} seeds`, { timeout: isSoak ? 24 * 3_600_000 : 600_000 }, async () => {
  const names = Array.from({ length: SEEDS }, (_, seed) => `seed:${seed}`);
  expect(await failuresOf(names)).toEqual([]);
});
