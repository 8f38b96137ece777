import { expect, test } from 'vitest';
import { makeBoundedMap } from '../../../src/async/bounded-map.ts';
import { makeCache, type CacheOptions } from '../../../src/async/cache.ts';

/** A cache whose loads are answered by hand. */
function harness(options: Partial<CacheOptions<string | null>> = {}) {
  const clock = { nowMs: 5_000 };
  const loads: { key: string; previous: string | null | undefined; resolve: (value: string | null) => void }[] = [];
  const rejects: ((error: unknown) => void)[] = [];
  const cache = makeCache<string | null>({
    elapsed: () => clock.nowMs,
    ttlMs: 1_000,
    maxEntries: 3,
    load: (key, previous) =>
      new Promise((resolve, reject) => {
        loads.push({ key, previous, resolve });
        rejects.push(reject);
      }),
    ...options,
  });
  async function load(key: string, value: string | null = `value of ${key}`): Promise<string | null> {
    const loading = cache.get(key);
    loads.at(-1)?.resolve(value);
    return loading;
  }
  return { clock, loads, rejects, cache, load };
}

test('loads once for concurrent callers', async () => {
  const { cache, loads } = harness();
  const asked = [cache.get('a'), cache.get('a'), cache.get('a')];
  expect(loads).toHaveLength(1);
  loads[0]?.resolve('value');
  expect(await Promise.all(asked)).toEqual(['value', 'value', 'value']);
  expect(await cache.get('a')).toBe('value');
  expect(loads).toHaveLength(1);
});

test('a value is fresh for its TTL, counted from the start of its load', async () => {
  const { cache, clock, loads } = harness();
  const loading = cache.get('a');
  clock.nowMs += 400;
  loads[0]?.resolve('value');
  await loading;
  clock.nowMs += 599;
  expect(cache.peek('a')).toBe('value');
  clock.nowMs += 1;
  expect(cache.peek('a')).toBeUndefined();
  void cache.get('a');
  expect(loads.at(-1)?.previous).toBe('value');
});

test('a value that expires by itself is neither fresh nor given to the next load', async () => {
  const end = { isOver: false };
  const { cache, load, loads } = harness({ isExpired: () => end.isOver });
  await load('a');
  expect(cache.peek('a')).toBe('value of a');
  end.isOver = true;
  expect(cache.peek('a')).toBeUndefined();
  void cache.get('a');
  expect(loads.at(-1)?.previous).toBeUndefined();
});

test('is bounded, and evicts the entry with the oldest load', async () => {
  const { cache, clock, load } = harness();
  for (const key of ['a', 'b', 'c']) await load(key);
  clock.nowMs += 1_000;
  await load('a');
  await load('d');
  await load('e');
  expect(cache.size).toBe(3);
  expect(['a', 'b', 'c', 'd', 'e'].map((key) => cache.peek(key) !== undefined)).toEqual([
    true,
    false,
    false,
    true,
    true,
  ]);
});

test('does not cache an uncacheable value, and drops the entry that it replaces', async () => {
  const { cache, clock, load } = harness({ isCacheable: (value) => value !== null });
  await load('a');
  clock.nowMs += 1_000;
  expect(await load('a', null)).toBeNull();
  expect(cache.size).toBe(0);
});

test('a reload asks again and is cached', async () => {
  const { cache, loads, load } = harness();
  await load('a');
  const reloading = cache.reload('a');
  loads.at(-1)?.resolve('other');
  await reloading;
  expect(cache.peek('a')).toBe('other');
});

test('an invalidation drops matching entries, and an earlier load is neither joined nor cached', async () => {
  const { cache, loads, load } = harness();
  await load('a');
  await load('b');
  const before = cache.get('c');
  cache.invalidate((_, key) => key === 'a');
  expect([cache.peek('a'), cache.peek('b')]).toEqual([undefined, 'value of b']);
  const after = cache.get('c');
  expect(loads.map(({ key }) => key)).toEqual(['a', 'b', 'c', 'c']);
  loads[2]?.resolve('old');
  expect(await before).toBe('old');
  expect(cache.peek('c')).toBeUndefined();
  loads[3]?.resolve('new');
  await after;
  expect(cache.peek('c')).toBe('new');
});

test('returns a stale value for allowed errors only, up to its age, and drops it for others', async () => {
  const { cache, clock, load, rejects } = harness({
    staleOnError: { isAllowed: (error) => error === 'away', maxMs: 10_000 },
  });
  const failing = (error: unknown): Promise<unknown> => {
    const loading = cache.get('a');
    rejects.at(-1)?.(error);
    return loading.catch((reason: unknown) => `rejected: ${String(reason)}`);
  };
  await load('a');
  clock.nowMs += 9_999;
  expect(await failing('away')).toBe('value of a');
  clock.nowMs += 1;
  expect(await failing('away')).toBe('rejected: away');
  await load('a');
  clock.nowMs += 1_000;
  expect(await failing('refused')).toBe('rejected: refused');
  expect(await failing('away')).toBe('rejected: away');
  expect(cache.size).toBe(0);
});

test('expired entries are loaded again, and remain for a longer TTL and for allowed errors', async () => {
  const ttl = { ms: 1_000 };
  const { cache, load } = harness({ ttlMs: () => ttl.ms });
  await load('a');
  expect(cache.expireAll()).toEqual(['value of a']);
  expect(cache.peek('a')).toBeUndefined();
  ttl.ms = 60_000;
  expect(cache.peek('a')).toBe('value of a');
});

test('a failed load leaves nothing behind', async () => {
  const { cache, rejects, load } = harness();
  const loading = cache.get('a');
  rejects[0]?.(new Error('away'));
  await expect(loading).rejects.toThrow('away');
  expect(await load('a')).toBe('value of a');
});

test('a bounded map evicts the least recently used by entries and by bytes', () => {
  const map = makeBoundedMap<string>({ maxEntries: 3, maxBytes: 10, bytesOf: (text) => text.length });
  for (const key of ['a', 'b', 'c']) map.set(key, 'xx');
  expect(map.get('a')).toBe('xx');
  expect(map.peek('b')).toBe('xx');
  map.set('d', 'xx');
  expect(Array.from(map.entries(), ([key]) => key)).toEqual(['c', 'a', 'd']);
  map.set('a', 'xxxxxxxx');
  expect(Array.from(map.entries(), ([key]) => key)).toEqual(['d', 'a']);
  map.set('e', 'xxxxxxxxxxx');
  expect(map.size).toBe(0);
});
