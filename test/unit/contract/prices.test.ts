/** Prices that requests of administrators carry. */
import { expect, test } from 'vitest';
import { exampleOf } from '../../../src/contract/examples.ts';
import { routes } from '../../../src/contract/routes.ts';

const { body } = routes.createType;

test.each([1e300, 1e308, -1e308, 1_000_001, -1, 0.000_000_1])('refuses the price %d', (perHour) => {
  const valid = Object(exampleOf(body));
  expect(body.safeParse(valid).success).toBe(true);
  const { error } = body.safeParse({ ...valid, prices: { ...valid.prices, perHour } });
  expect(error?.issues[0]?.path).toEqual(['prices', 'perHour']);
});
