import { expect, test } from 'vitest';
import { makeKeyedLimit, makeLimit, makeTokenBucket } from '../../../src/async/limits.ts';

test('a nested limit takes a permit of each level, or of none', () => {
  const all = makeLimit(2);
  const mine = makeLimit(1, all);
  const release = mine();
  expect(release).not.toBeNull();
  expect(mine()).toBeNull();
  const other = all();
  expect(all()).toBeNull();
  release?.();
  release?.();
  other?.();
  // The second release counted for nothing: two permits are free, not three.
  expect([all(), all(), all()].map((each) => each !== null)).toEqual([true, true, false]);
  expect(mine()).toBeNull();
});

test('a keyed limit counts each key and all together, and forgets a key that holds nothing', () => {
  const limit = makeKeyedLimit({ total: 3, perKey: 2 });
  const first = limit.tryAcquire('a');
  limit.tryAcquire('a');
  expect(limit.tryAcquire('a')).toBeNull();
  const other = limit.tryAcquire('b');
  expect(limit.tryAcquire('c')).toBeNull();
  expect([limit.countOf('a'), limit.countOf('b'), limit.total]).toEqual([2, 1, 3]);
  first?.();
  first?.();
  other?.();
  expect([limit.countOf('a'), limit.countOf('b'), limit.total]).toEqual([1, 0, 1]);
  expect(limit.tryAcquire('c')).not.toBeNull();
});

test('a limit by free permits leaves some for later keys', () => {
  const limit = makeKeyedLimit({ total: 100, perKey: (free) => free });
  const takeAll = (key: string): number => {
    while (limit.tryAcquire(key));
    return limit.countOf(key);
  };
  expect(['a', 'b', 'c'].map(takeAll)).toEqual([50, 25, 13]);
});

test('a token bucket allows a burst, then its rate, and never saves up more than the burst', () => {
  let nowMs = 0;
  const take = makeTokenBucket({ burst: 2, perSecond: 4 }, () => nowMs);
  expect([take(), take(), take()]).toEqual([true, true, false]);
  nowMs = 249;
  expect(take()).toBe(false);
  nowMs = 250;
  expect([take(), take()]).toEqual([true, false]);
  nowMs = 60_000;
  expect([take(), take(), take()]).toEqual([true, true, false]);
});
