/** A server that is killed at any second is as if it had not been: the next one goes on. */
import { expect, test } from 'vitest';
import { atLevel } from '../fixtures/level.ts';
import { failedRuns } from './failures.ts';

const SECOND = 1_000;
/** Nobody uses an instance whose gateway is away; a use of the last second is not yet written. */
const isUnwritten = (second: number): boolean => second >= 38 && second <= 40;
const tried = Array.from({ length: 150 }, (_, at) => 12 + at).filter((second) => !isUnwritten(second));

test.concurrent(
  'tells the same story of idle, silent and charged instances, killed at any second',
  { timeout: 1_800_000 },
  async () => {
    const oneIn = atLevel({ short: 13, long: 3, soak: 1 });
    const names = tried.filter((_, at) => at % oneIn === 0).map((second) => `takeover:${second * SECOND + 500}`);
    expect(await failedRuns(names)).toEqual([]);
  },
);
