/** Accounts of the books, page by page. */
import { expect, test } from 'vitest';
import { insertEntry, plainEntry } from '../../../src/store/tables/ledger.ts';
import { accountsInBooks } from '../../../src/store/tables/report-rows.ts';
import { onBothEngines } from '../../fixtures/store.ts';

onBothEngines('accounts in the books', { postgres: 'always' }, (open) => {
  test('come once each, in the order of their ids, deleted ones too', async () => {
    const store = await open();
    // Neither the order of insertion nor that of a hash.
    const ids = Array.from({ length: 40 }, (_, at) => `account-${String((at * 17) % 40).padStart(2, '0')}`);
    await store.write(async (tx) => {
      for (const id of ids)
        await tx
          .insertInto('formerAccount')
          .values({ id, username: `of ${id}`, deletedAtMs: 1 })
          .execute();
      for (const accountId of [...ids, ...ids])
        await insertEntry(tx, {
          ...plainEntry,
          accountId,
          atMs: 1,
          kind: 'credit',
          fromLedger: 'funding',
          toLedger: 'cash',
          amountMicros: 1,
        });
    });
    const listed: { id: string; username: string }[] = [];
    for (;;) {
      const page = await accountsInBooks(store.read, listed.at(-1)?.id ?? '', 7);
      listed.push(...page);
      if (page.length === 0 || listed.length > ids.length) break;
    }
    expect(listed).toEqual(ids.toSorted().map((id) => ({ id, username: `of ${id}` })));
  });
});
