/** The cache of verified credentials: bounded, keyed by the whole text, never stale. */
import { expect, test } from 'vitest';
import { makeVerifiedCache } from '../../../src/control/access/verified-cache.ts';

const fixture = (max: number) => {
  const clock = { nowMs: 5000 };
  const asked: string[] = [];
  const answers: ((expiresAtMs: number | null) => void)[] = [];
  let atOnce = true;
  const known = makeVerifiedCache<string>({
    time: { now: () => clock.nowMs, elapsed: () => clock.nowMs },
    maxEntries: max,
    async verify(credential) {
      asked.push(credential);
      const expiresAtMs = atOnce ? 60_000 : await new Promise<number | null>((resolve) => answers.push(resolve));
      return expiresAtMs === null ? null : { subject: credential, expiresAtMs };
    },
  });
  return { clock, asked, answers, known, hold: () => void (atOnce = false) };
};

test('bounds its entries and evicts the least recently used', async () => {
  const { known, clock } = fixture(3);
  for (const credential of ['a', 'b', 'c']) await known.find(credential);
  clock.nowMs += 1000;
  await known.find('a');
  await known.find('d');
  expect(known.size).toBe(3);
  expect(['a', 'b', 'c', 'd'].map((credential) => known.fresh(credential))).toEqual(['a', null, null, 'd']);
  for (let i = 0; i < 1000; i++) await known.find(`x${i}`);
  expect(known.size).toBe(3);
});

test('does not cache an invalid credential', async () => {
  const { known, answers, hold } = fixture(3);
  hold();
  const found = known.find('stranger');
  answers.shift()?.(null);
  expect(await found).toBeNull();
  expect(known.size).toBe(0);
});

test('drops a credential that was revoked elsewhere when it is verified again', async () => {
  const { known, clock, answers, hold } = fixture(3);
  await known.find('a');
  hold();
  clock.nowMs += 1000;
  const found = known.find('a');
  answers.shift()?.(null);
  expect(await found).toBeNull();
  expect(known.size).toBe(0);
});

test('verifies once for concurrent callers; after an invalidation no caller joins an earlier verification', async () => {
  const { known, asked, answers, hold } = fixture(3);
  hold();
  const before = [known.find('a'), known.find('a'), known.find('a')];
  expect(asked).toEqual(['a']);
  known.invalidate(() => false);
  const after = known.find('a');
  expect(asked).toEqual(['a', 'a']);
  answers.shift()?.(60_000);
  await Promise.all(before);
  expect(known.fresh('a')).toBeNull();
  answers.shift()?.(null);
  expect(await after).toBeNull();
});

test('measures freshness from the start of the verification', async () => {
  const { known, clock, answers, hold } = fixture(3);
  hold();
  const found = known.find('a');
  clock.nowMs += 1000;
  answers.shift()?.(60_000);
  expect(await found).toBe('a');
  expect(known.fresh('a')).toBeNull();
});

test('expires an entry with its credential, and caches no failure', async () => {
  const { known, clock, asked } = fixture(3);
  await known.find('a');
  clock.nowMs = 59_500;
  await known.find('a');
  clock.nowMs = 60_000;
  expect(known.fresh('a')).toBeNull();

  let fails = true;
  const shaky = makeVerifiedCache<string>({
    time: { now: () => 0, elapsed: () => 0 },
    maxEntries: 3,
    verify: async (credential) => {
      if (fails) throw new Error('the store does not answer');
      return { subject: credential, expiresAtMs: 1 };
    },
  });
  await expect(shaky.find('a')).rejects.toThrow('the store does not answer');
  fails = false;
  expect(await shaky.find('a')).toBe('a');
  expect(asked).toEqual(['a', 'a']);
});
