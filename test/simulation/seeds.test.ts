/** Whatever goes wrong, and in whatever order: nothing is doubled, forgotten or lost, and once nothing goes wrong any more all comes to rest. */
import { env } from 'node:process';
import { expect, test } from 'vitest';
import { failuresOf } from './failures.ts';

const long = env['BERTH_LONG'] === '1';
const SEEDS = long ? 20_000 : 300;

test(`holds all that it promises in ${SEEDS} seeds`, { timeout: long ? 24 * 3_600_000 : 600_000 }, async () => {
  const names = Array.from({ length: SEEDS }, (_, seed) => `seed:${seed}`);
  expect(await failuresOf(names)).toEqual([]);
});
