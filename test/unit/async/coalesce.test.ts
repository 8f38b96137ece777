import { expect, test } from 'vitest';
import { makeRechecker } from '../../../src/async/coalesce.ts';
import { settle } from './settle.ts';

test('checks one batch at a time, and what was invalidated meanwhile after it', async () => {
  const batches: string[][] = [];
  const ends: (() => void)[] = [];
  const invalidate = makeRechecker<string>((keys) => {
    batches.push([...keys]);
    return new Promise((resolve) => ends.push(resolve));
  });
  invalidate('a');
  for (const key of ['b', 'a', 'b']) invalidate(key);
  await settle();
  expect(batches).toEqual([['a']]);
  ends.shift()?.();
  await settle();
  expect(batches).toEqual([['a'], ['b', 'a']]);
  ends.shift()?.();
  await settle();
  invalidate('c');
  expect(batches.at(-1)).toEqual(['c']);
});
