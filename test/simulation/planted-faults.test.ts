/** Mutation tests of the simulation: each planted fault must be found. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { atLevel, isSoak } from '../fixtures/level.ts';
import { firstWrong, hunt, makeCopy, whyNotPlanted, type Copy } from './planted-copies.ts';
import { plantedFaults } from './planted-faults.ts';

/**
 * Found within a few seeds, by different invariants. The others take minutes and run at level soak.
 */
const quick = new Set([
  'commits-are-not-synced',
  'a-late-result-overwrites-the-desired-state',
  'a-superseded-reconcile-is-not-aborted',
  'the-list-version-is-not-incremented',
  'the-engine-is-called-before-the-allotment-is-stored',
  'an-old-archive-counts-as-the-new-one',
  'a-copy-is-created-empty',
  'the-remainder-of-a-booking-is-skipped',
  'a-start-is-charged',
  'a-period-is-not-closed',
  'a-minute-is-charged-twice',
  'time-after-the-last-sweep-is-booked',
  'a-step-of-the-clock-is-charged',
  'a-charge-does-not-move-the-balance',
  'an-off-peak-launch-costs-the-full-price',
  'a-window-ends-without-a-stop',
  'an-instance-resumes-unasked',
  'a-used-unit-is-refunded',
  'paid-time-is-renewed-unasked',
  'a-renewal-begins-late',
  'paid-time-has-no-end',
  'cash-falls-below-the-floor',
  'drivers-are-those-of-the-first-region',
  'a-lost-engine-ends-all-sweeps',
]);
/** Level short: faults of data, engine calls and money. */
const quickest = new Set(['commits-are-not-synced', 'a-minute-is-charged-twice']);
const QUICK_SEEDS = 100;
const LONG_SEEDS = 2_000;

let sound: Copy;
beforeAll(() => void (sound = makeCopy(null)));
afterAll(() => sound.remove());

test('has 59 faults that fit the source', () => {
  expect(plantedFaults.map(whyNotPlanted).filter((why) => why !== null)).toEqual([]);
  expect(new Set(plantedFaults.map(({ name }) => name)).size).toBe(59);
  expect(plantedFaults.filter(({ name }) => quick.has(name)).length).toBe(quick.size);
});

test.concurrent('an unchanged copy passes', async () => {
  expect(await firstWrong(sound, { from: 0, count: atLevel({ short: 3, long: 10 }) })).toBeNull();
});

const hunted = plantedFaults.filter(({ name }) => isSoak || atLevel({ short: quickest, long: quick }).has(name));
const seeds = isSoak ? LONG_SEEDS : QUICK_SEEDS;
test.concurrent.for(hunted)(
  `finds $name within ${seeds} seeds`,
  { timeout: isSoak ? 3_600_000 : 600_000 },
  async (fault) => {
    expect(await hunt(fault, sound, seeds)).not.toBeNull();
  },
);
