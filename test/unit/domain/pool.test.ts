import { expect, test } from 'vitest';
import { isNearlyFull, reservedBytes, limitGB, isShortOfSpace } from '../../../src/domain/pool.ts';

const GB = 1024 ** 3;
const everything = { sizeGB: null, overcommit: 1 };

test.each([
  ['a small file system', 10, 1],
  ['an average file system', 100, 5],
  ['a large file system', 10_000, 10],
])('%s of %d GB has a reserve of %d GB', (_, total, reserve) => {
  expect(reservedBytes(total * GB)).toBe(reserve * GB);
});

test('without a configured size, the limit is free space and existing disks, less the reserve', () => {
  const space = { totalBytes: 100 * GB, freeBytes: 60 * GB };
  expect(limitGB(everything, space, 0)).toBe(55);
  expect(limitGB(everything, space, 20 * GB)).toBe(75);
  expect(limitGB({ ...everything, overcommit: 2 }, space, 0)).toBe(110);
  expect(limitGB(everything, { ...space, freeBytes: 2 * GB }, 0)).toBe(0);
  expect(limitGB(everything, space, 900 * GB), 'at most the whole file system').toBe(95);
});

test('a configured size is the limit, whatever the file system has', () => {
  const space = { totalBytes: 100 * GB, freeBytes: 0 };
  expect(limitGB({ sizeGB: 500, overcommit: 1.5 }, space, 0)).toBe(750);
});

test('a file system is nearly full once free space falls below the reserve', () => {
  expect(isNearlyFull({ totalBytes: 100 * GB, freeBytes: 5 * GB })).toBe(false);
  expect(isNearlyFull({ totalBytes: 100 * GB, freeBytes: 5 * GB - 1 })).toBe(true);
});

test('a pool is short of space at nine tenths allotted, or below a tenth of its file system free', () => {
  const roomy = { totalBytes: 100 * GB, freeBytes: 50 * GB };
  expect(isShortOfSpace({ limitGB: 100, usedGB: 89 }, roomy)).toBe(false);
  expect(isShortOfSpace({ limitGB: 100, usedGB: 90 }, roomy)).toBe(true);
  expect(isShortOfSpace({ limitGB: 100, usedGB: 0 }, { ...roomy, freeBytes: 9 * GB })).toBe(true);
});
