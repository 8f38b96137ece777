import { expect, test } from 'vitest';
import { isNearlyFull, reservedBytes, limitGB, isShortOfSpace } from '../../../src/domain/pool.ts';

const GB = 1024 ** 3;
const everything = { sizeGB: null, overcommit: 1 };

test.each([
  ['a small place', 10, 1],
  ['a usual one', 100, 5],
  ['a large one', 10_000, 10],
])('of %s some is kept free: of %d GB it is %d', (_, total, kept) => {
  expect(reservedBytes(total * GB)).toBe(kept * GB);
});

test('all that a place has room for may be promised, what its disks hold already included, and no more than that', () => {
  const space = { totalBytes: 100 * GB, freeBytes: 60 * GB };
  expect(limitGB(everything, space, 0)).toBe(55);
  expect(limitGB(everything, space, 20 * GB)).toBe(75);
  expect(limitGB({ ...everything, overcommit: 2 }, space, 0)).toBe(110);
  expect(limitGB(everything, { ...space, freeBytes: 2 * GB }, 0)).toBe(0);
  expect(limitGB(everything, space, 900 * GB), 'never more than there is').toBe(95);
});

test('a size that the operator names is the limit, whatever the place has', () => {
  const space = { totalBytes: 100 * GB, freeBytes: 0 };
  expect(limitGB({ sizeGB: 500, overcommit: 1.5 }, space, 0)).toBe(750);
});

test('a place is nearly full once less is free than is kept', () => {
  expect(isNearlyFull({ totalBytes: 100 * GB, freeBytes: 5 * GB })).toBe(false);
  expect(isNearlyFull({ totalBytes: 100 * GB, freeBytes: 5 * GB - 1 })).toBe(true);
});

test('a pool wants room once nine tenths are promised, or a tenth of its place is left', () => {
  const roomy = { totalBytes: 100 * GB, freeBytes: 50 * GB };
  expect(isShortOfSpace({ limitGB: 100, usedGB: 89 }, roomy)).toBe(false);
  expect(isShortOfSpace({ limitGB: 100, usedGB: 90 }, roomy)).toBe(true);
  expect(isShortOfSpace({ limitGB: 100, usedGB: 0 }, { ...roomy, freeBytes: 9 * GB })).toBe(true);
});
