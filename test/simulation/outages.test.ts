/** Engine outages and false answers: instances recover afterwards. */
import { expect, test } from 'vitest';
import { atLevel, isSoak, sampled } from '../fixtures/level.ts';
import { lies, outages, scenarioNumbers } from './cases.ts';
import { failedRuns } from './failures.ts';

const SECOND = 1_000;
const TIMEOUT = { timeout: 1_800_000 };

// The longest case first: the others share the cores with it.
test.concurrent(`survives an engine outage of an hour${isSoak ? ', and for a day' : ''}`, TIMEOUT, async () => {
  const hours = isSoak ? [1, 24] : [1];
  const kinds = isSoak ? outages : atLevel({ short: ['silent'] as const, long: ['away', 'silent'] as const });
  const names = kinds.flatMap((how) => hours.map((count) => `outage:1:1500:${count * 3_600 * SECOND}:${how}`));
  expect(await failedRuns(names)).toEqual([]);
});

test.concurrent(
  'recovers from outages, silence, reboots and restores of the engine; an outage alone fails nothing',
  TIMEOUT,
  async () => {
    const half = [1.06, 1.5, 1.9, 2.4];
    const from = atLevel({ short: half, long: half, soak: [1.06, 1.2, 1.4, 1.5, 1.7, 1.9, 2.1, 2.4] });
    const some = [SECOND, 60 * SECOND];
    const lasting = atLevel({ short: some, long: some, soak: [SECOND, 10 * SECOND, 60 * SECOND, 600 * SECOND] });
    const names = scenarioNumbers.flatMap((story) =>
      from.flatMap((second) =>
        outages.flatMap((how) => lasting.map((ms) => `outage:${story}:${second * SECOND}:${ms}:${how}`)),
      ),
    );
    // Eleven shares no factor with the numbers of moments and durations, so each of them is tried.
    expect(await failedRuns(sampled(names, { oneIn: 22 }))).toEqual([]);
  },
);

test.concurrent('survives false answers of the engine', TIMEOUT, async () => {
  const names = scenarioNumbers.flatMap((story) =>
    lies.flatMap((how) =>
      Array.from({ length: atLevel({ short: 1, long: 5 }) }, (_, seed) => `lie:${story}:${how}:${seed}`),
    ),
  );
  expect(await failedRuns(names)).toEqual([]);
});
