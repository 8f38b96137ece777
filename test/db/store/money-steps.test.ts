/** Dates of accounts whose money has ended. */
import { expect, test } from 'vitest';
import { moneySteps } from '../../../src/domain/money/money-ladder.ts';
import { shiftMoneyDates } from '../../../src/store/tables/money-steps.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { accountRow } from './rows.ts';

onBothEngines('the dates of an archive and a deletion', (open) => {
  test('move together at the steps stop and archive, and at no other', async () => {
    const store = await open();
    const dates = { moneyArchiveAtMs: 1_000, moneyDeleteAtMs: 2_000, moneyDeleteWarnedAtMs: 1_500 };
    await store.write((tx) =>
      tx
        .insertInto('account')
        .values([
          ...moneySteps.map((step) => ({ ...accountRow({ id: step }), moneyStep: step, ...dates })),
          {
            ...accountRow({ id: 'without an archive' }),
            moneyStep: 'stop',
            ...dates,
            moneyArchiveAtMs: null,
            moneyDeleteWarnedAtMs: null,
          },
        ])
        .execute(),
    );
    const moved = await store.write((tx) => shiftMoneyDates(tx, -300));
    expect(moved.toSorted()).toEqual(['archive', 'stop', 'without an archive']);
    const rows = await store.read
      .selectFrom('account')
      .select(['id', 'moneyArchiveAtMs', 'moneyDeleteAtMs', 'moneyDeleteWarnedAtMs'])
      .execute();
    const after = Object.fromEntries(
      rows.map((row) => [row.id, [row.moneyArchiveAtMs, row.moneyDeleteAtMs, row.moneyDeleteWarnedAtMs]]),
    );
    const [same, shifted] = [
      [1_000, 2_000, 1_500],
      [700, 1_700, 1_200],
    ];
    expect(after).toEqual({
      none: same,
      forecast: same,
      warn: same,
      noStarts: same,
      stop: shifted,
      archive: shifted,
      delete: same,
      'without an archive': [null, 1_700, null],
    });
  });
});
