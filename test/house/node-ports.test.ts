/**
 * Test files run concurrently, so each has a range of node ports of its own, below Linux's
 * ephemeral ports.
 */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const FIRST_EPHEMERAL = 32_768;
const testRoot = path.join(import.meta.dirname, '..');
const ranges = ['docker', 'browser', 'http/server']
  .flatMap((folder) =>
    readdirSync(path.join(testRoot, folder), { recursive: true, encoding: 'utf8' }).map((file) =>
      path.join(testRoot, folder, file),
    ),
  )
  .filter((file) => file.endsWith('.test.ts'))
  .flatMap((file) =>
    [...readFileSync(file, 'utf8').matchAll(/'(\d{5})-(\d{5})'/g)].map(([, first, last]) => ({
      file,
      first: Number(first),
      last: Number(last),
    })),
  )
  .sort((a, b) => a.first - b.first);

test('ranges of node ports do not overlap', () => {
  expect(ranges.length).toBeGreaterThan(30);
  const shared = ranges.filter(({ first }, index) => first <= (ranges[index - 1]?.last ?? 0));
  expect(shared).toEqual([]);
  expect(ranges.filter(({ last }) => last >= FIRST_EPHEMERAL)).toEqual([]);
});
