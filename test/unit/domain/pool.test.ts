import { expect, test } from 'vitest';
import { largestDataDiskGB } from '../../../src/domain/compute/instance-disks.ts';
import {
  accountLimitGB,
  allocationOf,
  freeGB,
  isNearlyFull,
  reservedBytes,
  limitGB,
  isShortOfSpace,
  sharedFileSystemText,
  type AllocatedDisk,
} from '../../../src/domain/storage/pool.ts';

const GB = 1024 ** 3;
const everything = { sizeGB: null, overcommit: 1 };

test.each([
  ['a small file system', 10, 1],
  ['an average file system', 100, 5],
  ['a large file system', 10_000, 10],
])('%s of %d GB has a reserve of %d GB', (_, total, reserve) => {
  expect(reservedBytes(total * GB, null)).toBe(reserve * GB);
});

test('without a configured size, the limit is free space and existing disks, less the reserve', () => {
  const space = { totalBytes: 100 * GB, freeBytes: 60 * GB };
  expect(limitGB(everything, space, 0, null)).toBe(55);
  expect(limitGB(everything, space, 20 * GB, null)).toBe(75);
  expect(limitGB({ ...everything, overcommit: 2 }, space, 0, null)).toBe(110);
  expect(limitGB(everything, { ...space, freeBytes: 2 * GB }, 0, null)).toBe(0);
  expect(limitGB(everything, space, 900 * GB, null), 'at most the whole file system').toBe(95);
});

test('a configured size is the limit, whatever the file system has', () => {
  const space = { totalBytes: 100 * GB, freeBytes: 0 };
  expect(limitGB({ sizeGB: 500, overcommit: 1.5 }, space, 0, null)).toBe(750);
});

test('a file system is nearly full once free space falls below the reserve', () => {
  expect(isNearlyFull({ totalBytes: 100 * GB, freeBytes: 5 * GB }, null)).toBe(false);
  expect(isNearlyFull({ totalBytes: 100 * GB, freeBytes: 5 * GB - 1 }, null)).toBe(true);
});

const rules = { diskOvercommit: 10 };

test('a pool is short of space at nine tenths allotted, or below a tenth of its file system free', () => {
  const roomy = { totalBytes: 100 * GB, freeBytes: 50 * GB };
  const pool = { limitGB: 100, bestEffortGB: 0 };
  expect(isShortOfSpace({ ...pool, usedGB: 89 }, rules, roomy, null)).toBe(false);
  expect(isShortOfSpace({ ...pool, usedGB: 90 }, rules, roomy, null)).toBe(true);
  expect(isShortOfSpace({ ...pool, usedGB: 0 }, rules, { ...roomy, freeBytes: 9 * GB }, null)).toBe(true);
});

test('best-effort disks take a share of their size from a pool', () => {
  expect(freeGB({ limitGB: 100, usedGB: 40, bestEffortGB: 300 }, rules)).toBe(30);
  expect(freeGB({ limitGB: 100, usedGB: 40, bestEffortGB: 900 }, rules)).toBe(0);
  expect(freeGB({ limitGB: 100, usedGB: 40, bestEffortGB: 595 }, rules)).toBe(0.5);
});

test('one account after the other gets its share of what is left, so none closes a pool', () => {
  const share = { accountShare: 0.8 };
  const first = accountLimitGB(0, 100, share);
  const second = accountLimitGB(0, 100 - first, share);
  expect([first, second]).toEqual([80, 16]);
  expect(accountLimitGB(first, 100 - first, share), 'the first gets no more').toBe(80);
  expect(accountLimitGB(0, 100, { accountShare: 1 })).toBe(100);
});

const disk = (over: Partial<AllocatedDisk>): AllocatedDisk => ({
  promisedGB: 10,
  bestEffortGB: 0,
  heldBytes: 4 * GB,
  maxBytes: 10 * GB,
  sharesBlocks: false,
  isCopy: false,
  isFinal: false,
  ...over,
});

test.each<[string, Partial<AllocatedDisk>, held: number, unwritten: number]>([
  ['what a volume has not written', {}, 4, 6],
  ['nothing for a volume with all its blocks', { heldBytes: 10 * GB }, 10, 0],
  ['nothing for a snapshot, which is never written again', { isFinal: true, isCopy: true }, 4, 0],
  ['each block of a volume that shares blocks with a copy', { sharesBlocks: true }, 4, 10],
  ['nothing for a best-effort disk', { promisedGB: 0, bestEffortGB: 100 }, 4, 0],
])('the host keeps free %s', (_, over, held, unwritten) => {
  expect(allocationOf([disk(over)], rules, true)).toEqual({ heldBytes: held * GB, unwrittenBytes: unwritten * GB });
});

test('best-effort data beyond what counts of the disk lowers the limit of the pool', () => {
  const full = disk({ promisedGB: 0, bestEffortGB: 10, heldBytes: 9 * GB });
  expect(allocationOf([full], rules, true).heldBytes).toBe(GB);
});

test.each<[string, freeGB: number, fits: number]>([
  ['the size of its type where more than that must be promised', 12, 10],
  ['a promised size beyond its type', 15, 13],
  ['less than its type, as far as the root disk leaves space', 2.55, 5],
  ['no size where the root disk alone is too large', 2.05, 0],
])('a data disk may have %s', (_, free, fits) => {
  expect(largestDataDiskGB({ rootDiskGB: 20, dataDiskGB: 10 }, free, 10)).toBe(fits);
});

test('an overcommitted pool keeps nothing free', () => {
  expect(allocationOf([disk({})], rules, false).unwrittenBytes).toBe(0);
});

test('names what shares a file system with root disks', () => {
  expect(sharedFileSystemText([], false)).toBeNull();
  expect(sharedFileSystemText(['default'], true)).toContain('with the pool default and the database:');
});
