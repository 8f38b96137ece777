/** The cache of list pages: never stale, never another account's, within its memory bound. */
import { expect, test } from 'vitest';
import type { Caller, Pager } from '../../../src/control/index.ts';
import { makeListPages } from '../../../src/edge/http/list-pages.ts';
import { fakeCaller } from '../../http/api/fake-control.ts';

const pager: Pager = { currentPage: 1, pageSize: 2 };

function world(maxBytes?: number) {
  const versions = new Map<string, number>();
  let reads = 0;
  const pages = makeListPages({
    versionOf: async (accountId) => versions.get(accountId) ?? 1,
    ...(maxBytes === undefined ? {} : { maxBytes }),
  });
  const ask = async (text: string, more: { caller?: Caller; pager?: Pager; member?: string } = {}): Promise<string> => {
    const read = async () => {
      reads += 1;
      return { texts: [text], totalEntries: 1 };
    };
    const bytes = await pages.answer({ member: 'instances', caller: fakeCaller, pager, read, ...more });
    return bytes.toString();
  };
  return { versions, pages, ask, reads: () => reads };
}

test('reads an unchanged page once, and again after a change', async () => {
  const { ask, versions, reads } = world();
  expect(await ask('"a"')).toBe('{"instances":["a"],"pager":{"currentPage":1,"pageSize":2,"totalEntries":1}}');
  expect(await ask('"b"')).toContain('"a"');
  expect(reads()).toBe(1);
  versions.set(fakeCaller.accountId, 2);
  expect(await ask('"b"')).toContain('"b"');
  expect(reads()).toBe(2);
});

test('caches each account, page, size and list separately', async () => {
  const { ask } = world();
  await ask('"mine"');
  expect(await ask('"theirs"', { caller: { ...fakeCaller, accountId: 'account-2' } })).toContain('"theirs"');
  expect(await ask('"second"', { pager: { currentPage: 2, pageSize: 2 } })).toContain('"second"');
  expect(await ask('"wider"', { pager: { currentPage: 1, pageSize: 22 } })).toContain('"wider"');
  expect(await ask('"volumes"', { member: 'volumeList' })).toContain('"volumes"');
  expect(await ask('"again"')).toContain('"mine"');
});

test('reads a page again when it changed during the read', async () => {
  const { pages, versions, ask } = world();
  const read = async () => {
    versions.set(fakeCaller.accountId, 2);
    return { texts: ['"old"'], totalEntries: 1 };
  };
  await pages.answer({ member: 'instances', caller: fakeCaller, pager, read });
  expect(await ask('"new"')).toContain('"new"');
});

test('bounds its memory: evicts the least recently used page, and never caches a huge one', async () => {
  const { ask, reads } = world(16_000);
  const text = (size: number): string => JSON.stringify('x'.repeat(size));
  const page = (currentPage: number) => ({ pager: { currentPage, pageSize: 2 } });
  for (let n = 1; n <= 8; n += 1) await ask(text(1_600), page(n));
  await ask(text(1_600), page(1));
  expect(reads()).toBe(8);
  await ask(text(1_600), page(9));
  await ask(text(1_600), page(1));
  expect(reads()).toBe(9);
  await ask(text(1_600), page(2));
  expect(reads()).toBe(10);
  await ask(text(4_000), page(20));
  await ask(text(4_000), page(20));
  expect(reads()).toBe(12);
});
