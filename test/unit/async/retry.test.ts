import { expect, test } from 'vitest';
import { makeBackOff, retry } from '../../../src/async/retry.ts';

test('a back-off doubles up to its maximum, and starts again after a reset', () => {
  const backOff = makeBackOff({ firstMs: 250, maxMs: 1_500 });
  expect([1, 2, 3, 4, 5].map(() => backOff.next())).toEqual([250, 500, 1_000, 1_500, 1_500]);
  backOff.reset();
  expect(backOff.next()).toBe(250);
  const constant = makeBackOff({ firstMs: 250 });
  expect([constant.next(), constant.next()]).toEqual([250, 250]);
});

test('jitter takes a random share off each pause', () => {
  const backOff = makeBackOff({ firstMs: 100, maxMs: 800, jitter: 0.5, random: () => 0.5 });
  expect([backOff.next(), backOff.next()]).toEqual([75, 150]);
});

test('attempts again until one succeeds, pauses by the given clock, and reports each error', async () => {
  const pauses: number[] = [];
  const errors: unknown[] = [];
  let attempts = 0;
  const result = await retry(
    async (reset) => {
      attempts += 1;
      if (attempts === 3) reset();
      if (attempts < 5) throw attempts;
      return 'connected';
    },
    {
      signal: new AbortController().signal,
      firstMs: 1,
      maxMs: 100,
      onError: (error, pauseMs) => errors.push([error, pauseMs]),
      sleep: async (ms) => pauses.push(ms),
    },
  );
  expect(result).toBe('connected');
  expect(pauses).toEqual([1, 2, 1, 2]);
  expect(errors).toEqual([
    [1, 1],
    [2, 2],
    [3, 1],
    [4, 2],
  ]);
});

test('an abort ends the pause and the loop, and the error of the last attempt is dropped', async () => {
  const abort = new AbortController();
  let attempts = 0;
  const failing = async () => {
    attempts += 1;
    throw new Error('away');
  };
  const looping = retry(failing, { signal: abort.signal, firstMs: 60_000, onError: () => abort.abort() });
  expect(await looping).toBeUndefined();
  expect(await retry(failing, { signal: abort.signal, firstMs: 1 })).toBeUndefined();
  expect(attempts).toBe(1);

  const during = new AbortController();
  const errors: unknown[] = [];
  const interrupted = retry(
    async () => {
      during.abort();
      throw new Error('interrupted');
    },
    { signal: during.signal, firstMs: 1, onError: (error) => errors.push(error) },
  );
  expect(await interrupted).toBeUndefined();
  expect(errors).toEqual([]);
});
