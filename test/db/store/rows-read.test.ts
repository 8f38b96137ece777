/** Rows that queries read, as the rates of requests count them. */
import { expect, test } from 'vitest';
import { countingRows } from '../../../src/async/rows-read.ts';
import { insertPeriod, lastChargedOf } from '../../../src/store/tables/usage-periods.ts';
import { spentBetween } from '../../../src/store/tables/budgets.ts';
import { appendEvent, eventsSince } from '../../../src/store/tables/events.ts';
import {
  chargesSoFar,
  END_OF_TIME_MS,
  moneyIn,
  purchasesSoFar,
  timeIn,
} from '../../../src/store/tables/report-rows.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { billingRows } from './billing-rows.ts';
import { insertOwners } from './rows.ts';

const ROWS = 40;
const all = { fromMs: 0, untilMs: END_OF_TIME_MS };
const scope = { accountId: 'ann', labelKey: '', labelValue: '' };

async function rowsOf(read: () => Promise<unknown>): Promise<number> {
  let count = 0;
  await countingRows((rows) => (count += rows), read);
  return count;
}

onBothEngines('rows read', { postgres: 'always' }, (open) => {
  test('count as returned, by queries prepared or not, and a tenth where they are summed', async () => {
    const store = await open();
    const { read: db } = store;
    await store.write(async (tx) => {
      await insertOwners(tx, 'region', 'ann');
      for (let seq = 1; seq <= ROWS; seq += 1) {
        await appendEvent(tx, { accountId: 'ann', atMs: seq, kind: 'instance.launched', subjectId: 'x', data: {} });
        const { id: _period, chargedMicros: _charged, labels: _labels, ...period } = billingRows.usagePeriod;
        await insertPeriod(tx, { ...period, openedAtMs: seq, closedAtMs: seq + 1, chargedUntilMs: 1, isCharging: 0 });
        const entry = { ...billingRows.entry, id: seq, atMs: seq, hourMs: seq, amountMicros: 1, periodId: seq };
        await tx.insertInto('entry').values(entry).execute();
      }
    });
    expect(await rowsOf(() => eventsSince(db, 'ann', 0, 1_000))).toBe(10 + ROWS);
    expect(await rowsOf(() => lastChargedOf(db, 'x', 'compute'))).toBe(11);
    const closed = { afterMs: 0, upToMs: END_OF_TIME_MS };
    expect(await rowsOf(() => timeIn(db, 'ann', [all], { by: [] }, closed))).toBe(11 + ROWS / 10);
    expect(await rowsOf(() => moneyIn(db, 'ann', all, { by: [], isMetered: true }))).toBe(11 + ROWS / 10);
    expect(await rowsOf(() => spentBetween(db, scope, all))).toBe(11 + ROWS / 10);
    expect(await rowsOf(() => chargesSoFar(db, { subjectIds: ['x'] }))).toBe(11 + ROWS / 10);
    expect(await rowsOf(() => purchasesSoFar(db, ['x']))).toBe(10);
  });
});
