/** Charging of more periods than one query looks through. */
import { expect, test } from 'vitest';
import { HOUR_MS, MINUTE_MS } from '../../../src/domain/kernel/durations.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { chargingAt, seedVolumes } from './charging.ts';

const OPENED_MS = 500_000 * HOUR_MS;
const PERIODS = 4_500;
const BOOKED = 2_050;

onBothEngines('charging', (open) => {
  test('books each due period once, also behind thousands that are booked already', async () => {
    const store = await open();
    await seedVolumes(store, { accounts: 7, periods: PERIODS, atMs: OPENED_MS, micros: 1_000_000_000 });
    const untilMs = OPENED_MS + 10 * MINUTE_MS;
    const periods = store.read.selectFrom('usagePeriod');
    const firsts = periods.select('id').orderBy('id').limit(BOOKED);
    await store.write(async (tx) => {
      await tx.updateTable('usagePeriod').set({ chargedUntilMs: untilMs }).where('id', 'in', firsts).execute();
    });
    const { charge } = chargingAt(store, untilMs);
    const entries = () =>
      store.read.selectFrom('entry').selectAll().where('kind', '=', 'charge').orderBy('id').execute();
    const due = async (): Promise<number> =>
      (await periods.select('id').where('chargedUntilMs', '<', untilMs).execute()).length;
    expect(await due()).toBe(PERIODS - BOOKED);
    await charge();
    expect(await due()).toBe(0);
    const booked = await entries();
    expect(new Set(booked.map(({ periodId }) => periodId)).size).toBe(PERIODS - BOOKED);
    await chargingAt(store, untilMs).charge();
    expect(await entries()).toEqual(booked);
  });
});
