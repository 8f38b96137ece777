import { expect, test } from 'vitest';
import { largestEntries } from '../../../src/domain/storage/disk-usage.ts';

test('omits a folder that consists almost entirely of one listed entry', () => {
  const parts = [
    { path: 'a', bytes: 1_000 },
    { path: 'a/b', bytes: 950 },
    { path: 'ab', bytes: 960 },
    { path: 'c', bytes: 900 },
    { path: 'c/d', bytes: 400 },
    { path: 'empty', bytes: 0 },
  ];
  expect(largestEntries(parts).map(({ path }) => path)).toEqual(['ab', 'a/b', 'c', 'c/d']);
});

test('returns the five largest entries, and truncates long names', () => {
  const parts = Array.from({ length: 9 }, (_, at) => ({ path: `${at}${'x'.repeat(300)}`, bytes: at + 1 }));
  const named = largestEntries(parts);
  expect(named.map(({ bytes }) => bytes)).toEqual([9, 8, 7, 6, 5]);
  expect(named[0]?.path).toBe(`8${'x'.repeat(199)}…`);
});

test('handles 100,000 entries within the time limit of a test', () => {
  const parts = Array.from({ length: 100_000 }, (_, at) => ({ path: `a/${at}`, bytes: 1_000_000 - at }));
  expect(largestEntries(parts)).toHaveLength(5);
});
