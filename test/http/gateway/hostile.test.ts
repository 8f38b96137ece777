/**
 * Attacks of clients and instances on a gateway. Ambiguous requests are in `smuggling.test.ts`,
 * HTTP/2 in files of its own.
 */
import { expect, test } from 'vitest';
import { play } from './hostile-harness.ts';
import { answers } from './hostile-responses.ts';
import { dying } from './hostile-disconnects.ts';
import { heads } from './hostile-heads.ts';
import { hostileAddresses } from './hostile-addresses.ts';

const cases = [...heads, ...answers, ...dying, ...hostileAddresses];

test.each(cases)('$name', async (one) => {
  // Shortens cases that wait for the end of idle connections.
  const seen = await play(one, { limits: { idleConnectionMs: 300 } });
  await one.holds(seen);
  expect(seen.harness.logged.filter(({ text }) => text.includes('failed at'))).toEqual([]);
});

test('cases are complete and have unique names', () => {
  expect(new Set(cases.map(({ name }) => name)).size).toBe(cases.length);
  expect(cases.length).toBeGreaterThanOrEqual(280);
});
