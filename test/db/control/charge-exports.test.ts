/** Charges of a month, as exports read them. */
import { expect, test } from 'vitest';
import type { ExportedCharge } from '../../../src/control/money/focus-charges.ts';
import { HOUR_MS } from '../../../src/domain/kernel/durations.ts';
import { callerOf } from '../../fixtures/caller.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { accountRow, regionRow } from '../store/rows.ts';
import { ann, booksOf, DECEMBER, live, NOVEMBER, pay } from './statement-fixture.ts';

const november = { month: '2026-11', timeZone: 'UTC' };
const flat = async (pages: AsyncIterable<ExportedCharge[]>) => (await Array.fromAsync(pages)).flat();
onBothEngines('exported charges', (open) => {
  test('are the entries of the month that change the revenue, each once, of the account alone', async () => {
    const store = await open();
    const { exports } = await booksOf(store);
    await pay(store, {
      atMs: NOVEMBER + 2,
      kind: 'refund',
      from: 'revenue',
      to: 'cash',
      micros: 7,
      subjectId: 'i-paid',
    });
    const labels = { team: 'red' };
    await live(store, { subjectId: 'i-1', fromMs: NOVEMBER, untilMs: NOVEMBER + 600 * HOUR_MS, labels });
    await live(store, { subjectId: 'i-2', fromMs: NOVEMBER, untilMs: NOVEMBER + HOUR_MS, accountId: 'bob' });
    await live(store, { subjectId: 'i-1', fromMs: DECEMBER - HOUR_MS, untilMs: DECEMBER + HOUR_MS });
    const { span, pages } = await exports.own(ann, november);
    expect(span).toEqual({ fromMs: NOVEMBER, untilMs: DECEMBER });
    const charges = await flat(pages);
    const expected = await store.read
      .selectFrom('entry')
      .select('id')
      .where('accountId', '=', 'ann')
      .where('atMs', '>=', NOVEMBER)
      .where('atMs', '<', DECEMBER)
      .where('kind', 'in', ['charge', 'prepayment', 'refund'])
      .orderBy('atMs')
      .orderBy('id')
      .execute();
    expect(charges.map(({ entry }) => entry?.id)).toEqual(expected.map(({ id }) => id));
    expect(charges).toHaveLength(603);
    expect(charges[2]).toMatchObject({ username: 'ann', period: { subjectId: 'i-1', labels: JSON.stringify(labels) } });
    expect(await flat((await exports.own(callerOf('bob'), november)).pages)).toHaveLength(1);
  });

  test('name the instance, region and type of what was paid ahead and given back', async () => {
    const store = await open();
    const { exports } = await booksOf(store);
    const labels = { team: 'red' };
    await store.write(async (tx) => {
      await tx
        .insertInto('region')
        .values(regionRow({ id: 'here', name: 'Here' }))
        .execute();
    });
    const run = { subjectId: 'i-bought', state: 'paidAhead', typeId: 'type-1', name: 'paid' } as const;
    await live(store, { ...run, fromMs: NOVEMBER + 1, untilMs: NOVEMBER + HOUR_MS, labels });
    await live(store, { ...run, fromMs: NOVEMBER + HOUR_MS, untilMs: null, name: 'later' });
    const entry = { atMs: NOVEMBER + 2, micros: 7, subjectId: 'i-bought' };
    await pay(store, { ...entry, kind: 'prepayment', from: 'cash', to: 'revenue' });
    await pay(store, { ...entry, kind: 'refund', from: 'revenue', to: 'cash' });
    const { pages } = await exports.own(ann, november);
    const resource = { subjectName: 'paid', regionId: 'here', typeId: 'type-1', labels: JSON.stringify(labels) };
    const ofInstance = (await flat(pages)).filter(({ entry }) => entry?.subjectId === 'i-bought');
    expect(ofInstance).toMatchObject([
      { period: null, regionName: 'Here', resource },
      { period: null, regionName: 'Here', resource },
    ]);
  });

  test('contain the charges of each account, however many accounts there are', async () => {
    const store = await open();
    const { exports } = await booksOf(store);
    const ids = Array.from({ length: 120 }, (_, at) => `z-${at}`);
    await store.write((tx) =>
      tx
        .insertInto('account')
        .values(ids.map((id) => accountRow({ id })))
        .execute(),
    );
    for (const accountId of ['bob', 'z-99'])
      await live(store, { subjectId: 'i', fromMs: NOVEMBER, untilMs: NOVEMBER + HOUR_MS, accountId });
    const { pages } = await exports.all(november);
    expect((await flat(pages)).map(({ username }) => username)).toEqual(['ann', 'bob', 'z-99']);
  });
});
