/** Files that run at once each have node ports of their own, below those that Linux gives to whoever asks. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const FIRST_EPHEMERAL = 32_768;
const testRoot = path.join(import.meta.dirname, '..');
const ranges = ['docker/e2e', 'browser']
  .flatMap((folder) => readdirSync(path.join(testRoot, folder)).map((file) => path.join(testRoot, folder, file)))
  .filter((file) => file.endsWith('.test.ts'))
  .flatMap((file) =>
    [...readFileSync(file, 'utf8').matchAll(/'(\d{5})-(\d{5})'/g)].map(([, first, last]) => ({
      file,
      first: Number(first),
      last: Number(last),
    })),
  )
  .sort((a, b) => a.first - b.first);

test('the ranges of tests on real containers are apart', () => {
  expect(ranges.length).toBeGreaterThan(30);
  const shared = ranges.filter(({ first }, index) => first <= (ranges[index - 1]?.last ?? 0));
  expect(shared).toEqual([]);
  expect(ranges.filter(({ last }) => last >= FIRST_EPHEMERAL)).toEqual([]);
});
