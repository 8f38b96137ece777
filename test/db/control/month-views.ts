/** Every view of a month, as text; and whether their quantities and prices are their amounts. */
import { expect } from 'vitest';
import type { Caller } from '../../../src/control/index.ts';
import type { ReportRow } from '../../../src/control/money/report.ts';
import { priceUnitMs } from '../../../src/domain/money/meter.ts';
import { monthSpan, type TimeSpan } from '../../../src/domain/money/usage-buckets.ts';
import { focusCsv } from '../../../src/edge/http/money/focus-csv.ts';
import { csvRows } from '../../fixtures/csv-rows.ts';
import { statementCsv, statementPage } from '../../../src/edge/http/money/statement-files.ts';
import type { World } from '../../fixtures/control.ts';

const pager = { currentPage: 1, pageSize: 1_000 };
const joined = async (parts: AsyncIterable<string>): Promise<string> => (await Array.fromAsync(parts)).join('');
const groups = ['resource', 'meter', 'type', 'label:team'];

/** `hours`: what is asked by hours, a few days at most. */
type Asked = { month: string; timeZone: string; hours: TimeSpan };

const usageOf = ({ running }: World, caller: Caller, asked: Asked, by: 'hour' | 'day' | 'month', groupBy: string) =>
  running.control.usage.rows(
    caller,
    {
      ...(by === 'hour' ? asked.hours : monthSpan(asked.month, asked.timeZone)),
      timeZone: asked.timeZone,
      by,
      groupBy,
    },
    pager,
  );

export async function viewsOf(world: World, caller: Caller, asked: Asked): Promise<Record<string, string>> {
  const { statements, chargeExports, books } = world.running.control;
  const { untilMs } = monthSpan(asked.month, asked.timeZone);
  const usages = (['hour', 'day', 'month'] as const).flatMap((by) => groups.map((groupBy) => ({ by, groupBy })));
  const views: Record<string, string> = {
    statement: JSON.stringify(await statements.page(caller, asked, pager), null, 1),
    csv: await joined(statementCsv(await statements.whole(caller, asked))),
    page: await joined(statementPage(await statements.whole(caller, asked), caller.username)),
    focus: await joined(focusCsv(await chargeExports.own(caller, asked))),
    focusOfAll: await joined(focusCsv(await chargeExports.all(asked))),
    entries: JSON.stringify((await books.entries(caller, { untilMs }, pager)).entries, null, 1),
  };
  for (const { by, groupBy } of usages)
    views[`${by} ${groupBy}`] = JSON.stringify(await usageOf(world, caller, asked, by, groupBy), null, 1);
  return views;
}

/** Rounded down once for each period; a carry comes from the one before. */
function expectPriced(rows: readonly ReportRow[]): void {
  for (const row of rows) {
    const used = row.prices.reduce((sum, { amountMicros }) => sum + amountMicros, 0);
    const freed = row.prices.reduce((sum, one) => (one.isRefund ? sum - one.amountMicros : sum), 0);
    expect(used + row.purchasedMicros - (row.refundedMicros - freed)).toBe(row.amountMicros);
    for (const { meter, priceMicros, quantityMs, amountMicros } of row.prices)
      expect(Math.abs((priceMicros * quantityMs) / priceUnitMs(meter) - amountMicros)).toBeLessThan(row.periods + 1);
  }
}

const focusNames = [
  'ChargeCategory',
  'ChargeClass',
  'ChargePeriodStart',
  'ChargePeriodEnd',
  'InvoiceId',
  'ResourceId',
  'ResourceName',
  'BilledCost',
  'EffectiveCost',
  'ListCost',
  'ListUnitPrice',
  'PricingQuantity',
  'PricingUnit',
  'PricingCategory',
  'SkuId',
  'ServiceSubcategory',
  'Tags',
  'x_PaidFrom',
  'x_EntryId',
] as const;
export type FocusRow = Record<(typeof focusNames)[number], string>;

export async function focusRows({ running }: World, caller: Caller, asked: Omit<Asked, 'hours'>): Promise<FocusRow[]> {
  return csvRows(await joined(focusCsv(await running.control.chargeExports.own(caller, asked))), focusNames);
}

/** Quantity × price is the amount in each view, and all views have the same sum. */
export async function expectViewsAgree(world: World, caller: Caller, asked: Asked): Promise<void> {
  const { statements } = world.running.control;
  const { chargesMicros, billedMicros, resources, meters } = await statements.page(caller, asked, pager);
  const sumOf = (rows: readonly { amountMicros: number }[]) => rows.reduce((sum, one) => sum + one.amountMicros, 0);
  expectPriced(resources);
  expect([sumOf(resources), sumOf(meters)]).toEqual([chargesMicros, chargesMicros]);
  for (const by of ['hour', 'day'] as const)
    for (const groupBy of groups) {
      const { rows } = await usageOf(world, caller, asked, by, groupBy);
      expectPriced(rows);
      expect([by, groupBy, sumOf(rows)]).toEqual([by, groupBy, chargesMicros]);
    }
  const rows = await focusRows(world, caller, asked);
  for (const { ListUnitPrice, PricingQuantity, ListCost } of rows)
    if (PricingQuantity !== '')
      expect(Number(ListUnitPrice) * Number(PricingQuantity)).toBeCloseTo(Number(ListCost), 9);
  const costOf = (cost: 'ListCost' | 'BilledCost', of: readonly FocusRow[]): number =>
    // Not -0, the sum of a charge and its refund.
    0 + Math.round(of.reduce((sum, row) => sum + Number(row[cost]), 0) * 1e6);
  const charges = rows.filter(
    ({ ChargeCategory, x_PaidFrom }) => /Usage|Purchase/.test(ChargeCategory) && x_PaidFrom !== 'paidAhead',
  );
  expect(costOf('ListCost', charges)).toBe(chargesMicros);
  expect(costOf('BilledCost', rows)).toBe(billedMicros);
}
