/** Engines that are away, and engines that lie: what they hold is wished again once they can be believed. */
import { expect, test } from 'vitest';
import { lies, outages, stories } from './cases.ts';
import { failuresOf } from './failures.ts';

const SECOND = 1_000;
const long = process.env['BERTH_LONG'] === '1';
const TIMEOUT = { timeout: 600_000 };

test(
  'an engine may be away, silent, restarted or set back, at any time, and what was only away has failed nothing',
  TIMEOUT,
  async () => {
    const from = long ? [1.06, 1.2, 1.4, 1.5, 1.7, 1.9, 2.1, 2.4] : [1.06, 1.5, 1.9, 2.4];
    const lasting = long ? [SECOND, 10 * SECOND, 60 * SECOND, 600 * SECOND] : [SECOND, 60 * SECOND];
    const names = stories.flatMap((story) =>
      from.flatMap((second) =>
        outages.flatMap((how) => lasting.map((ms) => `outage:${story}:${second * SECOND}:${ms}:${how}`)),
      ),
    );
    expect(await failuresOf(names)).toEqual([]);
  },
);

test(`an engine may be away for an hour${long ? ', and for a day' : ''}`, TIMEOUT, async () => {
  const hours = long ? [1, 24] : [1];
  const kinds = long ? outages : (['away', 'silent'] as const);
  const names = kinds.flatMap((how) => hours.map((count) => `outage:1:1500:${count * 3_600 * SECOND}:${how}`));
  expect(await failuresOf(names)).toEqual([]);
});

test('an engine may lie for as long as it likes', TIMEOUT, async () => {
  const names = stories.flatMap((story) =>
    lies.flatMap((how) => Array.from({ length: 5 }, (_, seed) => `lie:${story}:${how}:${seed}`)),
  );
  expect(await failuresOf(names)).toEqual([]);
});
