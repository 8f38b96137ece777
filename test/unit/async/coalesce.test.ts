import { expect, test } from 'vitest';
import { makeRechecker, makeSharedCalls } from '../../../src/async/coalesce.ts';
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

test('makes one call at a time, and one for all who asked during it', async () => {
  const calls: PromiseWithResolvers<string>[] = [];
  const ask = makeSharedCalls(() => {
    const made = Promise.withResolvers<string>();
    calls.push(made);
    return made.promise;
  });
  const first = ask();
  const later = [ask(), ask(), ask()];
  await settle();
  expect(calls).toHaveLength(1);
  calls[0]?.reject(new Error('away'));
  await expect(first).rejects.toThrow('away');
  await settle();
  expect(calls).toHaveLength(2);
  calls[1]?.resolve('new');
  expect(await Promise.all(later)).toEqual(['new', 'new', 'new']);
  void ask();
  expect(calls).toHaveLength(3);
});
