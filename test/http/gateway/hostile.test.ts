/** Named cases of what clients and instances can do to a gateway. What two servers could read in two ways is in `smuggling.test.ts`, HTTP/2 in its own. */
import { expect, test } from 'vitest';
import { play } from './hostile-harness.ts';
import { answers } from './hostile-responses.ts';
import { dying } from './hostile-disconnects.ts';
import { heads } from './hostile-heads.ts';
import { places } from './hostile-addresses.ts';

const cases = [...heads, ...answers, ...dying, ...places];

test.each(cases)('$name', async (one) => {
  // Idle connections to instances end soon, so that cases which wait for their end are short.
  const seen = await play(one, { limits: { idleConnectionMs: 300 } });
  await one.holds(seen);
  expect(seen.harness.logged.filter(({ text }) => text.includes('failed at'))).toEqual([]);
});

test('the cases are as many as they should be, and no two of one name', () => {
  expect(new Set(cases.map(({ name }) => name)).size).toBe(cases.length);
  expect(cases.length).toBeGreaterThanOrEqual(280);
});
