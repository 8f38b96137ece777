/** Engines that are away, and engines that lie: what they hold is wished again once they can be believed. */
import { expect, test } from 'vitest';
import { lies, outages, stories } from './cases.ts';
import { failuresOf } from './failures.ts';

const SECOND = 1_000;
const TIMEOUT = { timeout: 600_000 };

test('an engine may be away, silent, restarted or set back, from a second to an hour, at any time', TIMEOUT, async () => {
  const from = [1.06, 1.2, 1.5, 1.9, 2.4];
  const lasting = [SECOND, 30 * SECOND, 300 * SECOND];
  const names = stories.flatMap((story) =>
    from.flatMap((second) =>
      outages.flatMap((how) => lasting.map((ms) => `outage:${story}:${second * SECOND}:${ms}:${how}`)),
    ),
  );
  const long = outages.map((how) => `outage:1:1500:${3_600 * SECOND}:${how}`);
  expect(await failuresOf([...names, ...long])).toEqual([]);
});

test('an engine that was away for a day has failed nothing', TIMEOUT, async () => {
  expect(await failuresOf([`outage:0:1200:${86_400 * SECOND}:away`])).toEqual([]);
});

test('an engine may lie for as long as it likes', TIMEOUT, async () => {
  const names = stories.flatMap((story) =>
    lies.flatMap((how) => Array.from({ length: 5 }, (_, seed) => `lie:${story}:${how}:${seed}`)),
  );
  expect(await failuresOf(names)).toEqual([]);
});
