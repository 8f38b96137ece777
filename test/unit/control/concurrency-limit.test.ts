/** Shares of a limit that all accounts have together. */
import { readdir, readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { makeConcurrencyLimit } from '../../../src/control/kernel/concurrency-limit.ts';

test('a few accounts that hold all permits leave each other account its share', () => {
  const full = { mine: () => 'yours are used up', all: () => 'all are used up' };
  const limit = makeConcurrencyLimit({ perAccount: 8, total: 24, share: 2, retryAfterS: 1, full });
  for (const account of ['a', 'b', 'c']) for (let n = 0; n < 8; n += 1) limit.acquire(account);
  expect(() => limit.acquire('a')).toThrow('yours are used up');
  for (const account of ['d', 'e']) {
    const release = limit.acquire(account);
    limit.acquire(account);
    expect(() => limit.acquire(account)).toThrow('all are used up');
    release();
    limit.acquire(account);
  }
});

test('each limit of all accounts has a share for each of them', async () => {
  const folder = new URL('../../../src/', import.meta.url);
  const files = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith('.ts'));
  const texts = await Promise.all(
    files.map(async (name) => [name, await readFile(new URL(name, folder), 'utf8')] as const),
  );
  const limiting = texts.filter(([, text]) => text.includes('= makeConcurrencyLimit({'));
  expect(limiting.length).toBeGreaterThan(5);
  for (const [name, text] of limiting) {
    const totals = text.match(/\btotal: [\w]+/g)?.length;
    expect([name, text.match(/\bshare: [1-9]/g)?.length]).toEqual([name, totals]);
  }
});
