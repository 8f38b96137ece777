/**
 * A walk through strings that callers send, of any spelling and length, in any order: what is kept
 * by them stays below its bound, and shrinks where it is a count of something open.
 */
import { expect, test } from 'vitest';
import { makeKeyedLimit } from '../../../src/async/limits.ts';
import { makeKeyedMutex } from '../../../src/async/mutex.ts';
import { makeRefusalCounts } from '../../../src/control/access/audit/refusal-counts.ts';
import { makeLoginRateLimit } from '../../../src/control/access/login-rate-limit.ts';
import { makeVerifiedCache } from '../../../src/control/access/verified-cache.ts';
import { makeTraffic } from '../../../src/control/access/routing/traffic.ts';
import { makeRequestRates } from '../../../src/edge/http/request-rates.ts';

const STEPS = 120_000;
const reply = { header: () => reply };

/** Text of the step: half of the steps come back to an earlier text. */
function textsOf(seed: number): (step: number) => string {
  let state = seed;
  const next = (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state % below;
  };
  return (step) => {
    const word = `${next(2) === 0 ? step : next(step + 1)}ǅ${'ß'.repeat(next(8))}`;
    return [word, word.toUpperCase(), word.toLowerCase(), `${word.normalize('NFD')} `][next(4)] ?? word;
  };
}

const walk = (take: (text: string, step: number) => void): void => {
  const text = textsOf(7);
  for (let step = 0; step < STEPS; step++) take(text(step), step);
};
/** Ignores refusals, which are answers of a full bucket. */
const attempt = (fn: () => unknown): void => {
  try {
    fn();
  } catch {}
};

test('bounds rates of requests, whatever the accounts and addresses', () => {
  const rates = makeRequestRates({ perAddress: 5, perAccount: () => 5, isProxy: () => false, now: () => 0 });
  walk((text) => {
    attempt(() => rates.takeOfAddress(text, reply as never));
    attempt(() => rates.takeOfAccount(text, 1, reply as never));
  });
  expect(rates.size).toBeLessThanOrEqual(200_000);
});

test('bounds limits of logins, whatever the names and addresses', () => {
  const limit = makeLoginRateLimit({ elapsed: () => 0 });
  walk((text, step) => {
    limit.failed(text, `${step}`);
    if (step % 3 === 0) attempt(() => limit.succeeded(text, text));
  });
  expect(limit.size).toBeLessThanOrEqual(80_000);
});

test('bounds counts of refusals, whatever the names', () => {
  const counts = makeRefusalCounts<string>(() => 0);
  walk((text, step) => counts.admits({ own: text, shared: `route ${step % 20}` }, text, 'shared'));
  expect(counts.size).toBeLessThanOrEqual(1_020);
  counts.takeOver({ all: true });
  expect(counts.size).toBe(0);
});

test('bounds verified credentials, whatever is presented', async () => {
  const cache = makeVerifiedCache({
    time: { now: () => 0, elapsed: () => 0 },
    maxEntries: 100,
    verify: async (credential) => (credential.length % 2 === 0 ? { subject: credential, expiresAtMs: 1 } : null),
  });
  const all: Promise<unknown>[] = [];
  walk((text, step) => step % 50 === 0 && all.push(cache.find(text)));
  await Promise.all(all);
  expect(cache.size).toBeLessThanOrEqual(100);
});

test('forgets what is open once it is closed', async () => {
  let nowMs = 0;
  const traffic = makeTraffic(() => nowMs);
  const limit = makeKeyedLimit({ total: 1_000, perKey: 3 });
  const mutex = makeKeyedMutex<string>();
  const closes: (() => void)[] = [];
  const all: Promise<unknown>[] = [];
  walk((text, step) => {
    if (step % 50 === 0) all.push(mutex.run(text, async () => {}));
    closes.push(traffic.beginTraffic(text as never, 'use'), limit.tryAcquire(text) ?? (() => {}));
  });
  for (const close of closes) close();
  await Promise.all(all);
  nowMs = 10;
  traffic.forget(5);
  expect([limit.total, mutex.size, traffic.size]).toEqual([0, 0, 0]);
});
