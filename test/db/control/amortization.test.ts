/** Exports of what is paid ahead: no cost on the day of the purchase, a share on each day. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { usedMicros } from '../../../src/domain/money/amortization.ts';
import { monthOf } from '../../../src/domain/money/usage-buckets.ts';
import { amortizationOf, amortizationsIn, amortizeRest } from '../../../src/store/tables/amortizations.ts';
import { hasStatus } from '../../fixtures/control.ts';
import { atLevel } from '../../fixtures/level.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { focusRows, type FocusRow } from './month-views.ts';
import { DAY_MS, openPaidWorld } from './paid-time-fixture.ts';

type PaidWorld = Awaited<ReturnType<typeof openPaidWorld>>;

/** Rows of the months from `fromMs` on to now. */
async function rowsSince({ world, ann, nowMs }: PaidWorld, fromMs: number): Promise<FocusRow[]> {
  const rows: FocusRow[] = [];
  for (let at = fromMs; at <= nowMs();) {
    const { month, untilMs } = monthOf(at, 'UTC');
    rows.push(...(await focusRows(world, ann, { month, timeZone: 'UTC' })));
    at = untilMs;
  }
  return rows;
}

const sumOf = (rows: readonly FocusRow[], cost: 'BilledCost' | 'EffectiveCost' | 'ListCost'): number =>
  Number(rows.reduce((sum, row) => sum + Number(row[cost]), 0).toFixed(6));
const amortized = (rows: readonly FocusRow[]): FocusRow[] =>
  rows.filter(({ x_PaidFrom, ChargeCategory }) => x_PaidFrom === 'paidAhead' && ChargeCategory === 'Usage');
const kindsOf = (rows: readonly FocusRow[]): string[] =>
  rows
    .filter(({ x_PaidFrom }) => x_PaidFrom !== 'paidAhead')
    .map(
      ({ ChargeCategory, x_PaidFrom, BilledCost, EffectiveCost, PricingQuantity }) =>
        `${ChargeCategory} ${x_PaidFrom} ${BilledCost} ${EffectiveCost} ${PricingQuantity}`,
    );

onBothEngines('amortization', (open) => {
  test('gives each day its share of a purchase, and the day of the purchase none', async () => {
    const paidWorld = await openPaidWorld(open);
    const { world, launch, running, give, passTo, nowMs } = paidWorld;
    await give('voucher', 5);
    const id = await launch({ chargeMode: 'perDay', duration: 3 });
    const boughtMs = nowMs();
    const endsAtMs = await running(id);
    passTo(endsAtMs + DAY_MS);
    await world.until(id, hasStatus('Stopped'));
    const rows = (await rowsSince(paidWorld, boughtMs)).filter(
      ({ ResourceId, SkuId }) => ResourceId === id && SkuId !== 'keptDisk',
    );
    expect(kindsOf(rows)).toEqual(['Purchase voucher 5 0 2.5', 'Credit voucher -5 -5 ', 'Purchase cash 1 0 0.5']);
    const days = amortized(rows);
    expect(sumOf(days, 'EffectiveCost')).toBe(6);
    expect([sumOf(days, 'BilledCost'), sumOf(rows, 'BilledCost'), sumOf(rows, 'EffectiveCost')]).toEqual([0, 1, 1]);
    expect(days.length).toBeGreaterThanOrEqual(4);
    for (const [at, day] of days.entries()) {
      const lastedMs = Date.parse(day.ChargePeriodEnd) - Date.parse(day.ChargePeriodStart);
      expect(Number(day.EffectiveCost)).toBeCloseTo((2 * lastedMs) / DAY_MS, 3);
      expect(day.PricingUnit).toBe('Days');
      if (at > 0) expect(day.ChargePeriodStart).toBe(days[at - 1]?.ChargePeriodEnd);
    }
  });

  test('spreads what is left after a refund and a change of type, and leaves past days', async () => {
    const paidWorld = await openPaidWorld(open);
    const { world, ann, types, launch, running, instances, clock, nowMs, passTo } = paidWorld;
    const id = await launch({ chargeMode: 'perDay', duration: 5 });
    const boughtMs = nowMs();
    const endsAtMs = await running(id);
    const ofPaidTime = async () =>
      (await rowsSince(paidWorld, boughtMs)).filter(
        ({ ResourceId, SkuId }) => ResourceId === id && SkuId !== 'keptDisk',
      );
    const past = async (): Promise<FocusRow[]> => {
      const today = new Date(nowMs()).toISOString().slice(0, 10);
      return (await ofPaidTime()).filter(({ ChargePeriodEnd }) => ChargePeriodEnd.slice(0, 10) < today);
    };
    clock.aheadMs += 1.5 * DAY_MS;
    await instances.update(ann, { instanceId: id, instanceTypeId: types.large.id, labels: { team: 'red' } }, null);
    await instances.restart(ann, { instanceId: id }, null);
    await running(id);
    clock.aheadMs += DAY_MS;
    const before = await past();
    await instances.terminate(ann, { instanceId: id }, null);
    await world.until(id, hasStatus('Released'));
    expect(before.length).toBeGreaterThan(2);
    expect((await past()).slice(0, before.length)).toEqual(before);
    passTo(endsAtMs + DAY_MS);
    const rows = await ofPaidTime();
    const refund = rows.find(
      ({ ChargeCategory, BilledCost }) => ChargeCategory === 'Purchase' && Number(BilledCost) < 0,
    );
    expect(refund).toMatchObject({ BilledCost: '-10', EffectiveCost: '0', PricingQuantity: '-2' });
    expect(sumOf(rows, 'EffectiveCost')).toBe(sumOf(rows, 'BilledCost'));
    expect(sumOf(amortized(rows), 'EffectiveCost')).toBe(sumOf(rows, 'BilledCost'));
    const teams = new Set(amortized(rows).map(({ Tags }) => Tags));
    expect(teams).toContain('{"team":"red"}');
    expect(teams.size).toBe(2);
    for (const { ListUnitPrice, PricingQuantity, ListCost } of amortized(rows))
      expect(Number(ListUnitPrice) * Number(PricingQuantity)).toBeCloseTo(Number(ListCost), 9);
  });

  test('sums up to what was paid whatever changes follow, and no change reaches the past', async () => {
    const store = await open();
    const owner = { accountId: 'ann', subjectId: 'i' };
    const price = { priceMicros: 7, priceUnit: 'day' };
    const step = fc.record({
      afterMs: fc.integer({ min: 0, max: 3 * DAY_MS }),
      startMs: fc.integer({ min: -60_000, max: 60_000 }),
      lengthMs: fc.integer({ min: 1, max: 9 * DAY_MS }),
      addedMicros: fc.integer({ min: -1_000_000, max: 1_000_000_000 }),
      hasBegun: fc.boolean(),
    });
    const usedBy = async (untilMs: number): Promise<number> => {
      const rows = await amortizationsIn(store.read, 'ann', { fromMs: 0, untilMs }, { after: 0, limit: 100 });
      return rows.reduce((sum, row) => sum + usedMicros(row, Math.min(row.endMs, untilMs)), 0);
    };
    const changes = fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 8 }), async (steps) => {
      await store.write((tx) => tx.deleteFrom('amortization').execute());
      let [nowMs, paid, endMs] = [Date.UTC(2026, 10, 1), 0, 0];
      const read: [number, number][] = [];
      for (const [at, { afterMs, startMs, lengthMs, addedMicros, hasBegun }] of steps.entries()) {
        nowMs += afterMs;
        read.push([nowMs, await usedBy(nowMs)]);
        paid += addedMicros;
        const isBegun = hasBegun || at === steps.length - 1;
        const span = isBegun ? { fromMs: nowMs + startMs, untilMs: nowMs + startMs + lengthMs } : null;
        endMs = Math.max(endMs, span?.untilMs ?? 0);
        const change = { addedMicros, price, span, nowMs };
        await store.write(async (tx) => amortizeRest(tx, owner, await amortizationOf(tx, 'i'), change));
      }
      expect(await usedBy(Math.max(endMs, nowMs) + DAY_MS)).toBe(paid);
      for (const [atMs, used] of read) expect(await usedBy(atMs)).toBe(used);
    });
    await fc.assert(changes, { numRuns: atLevel({ short: 20, long: 200, soak: 2_000 }) });
  });
});
