/** Every view of a month, as text; and whether their quantities and prices are their amounts. */
import { expect } from 'vitest';
import type { Caller } from '../../../src/control/index.ts';
import type { ReportRow } from '../../../src/control/money/report.ts';
import { priceUnitMs } from '../../../src/domain/money/meter.ts';
import { monthSpan, type TimeSpan } from '../../../src/domain/money/usage-buckets.ts';
import { focusCsv } from '../../../src/edge/http/money/focus-csv.ts';
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

/** Quantity × price is the amount in each view, and all views have the same sum. */
export async function expectViewsAgree(world: World, caller: Caller, asked: Asked): Promise<void> {
  const { statements, chargeExports } = world.running.control;
  const { chargesMicros, resources, meters } = await statements.page(caller, asked, pager);
  const sumOf = (rows: readonly { amountMicros: number }[]) => rows.reduce((sum, one) => sum + one.amountMicros, 0);
  expectPriced(resources);
  expect([sumOf(resources), sumOf(meters)]).toEqual([chargesMicros, chargesMicros]);
  for (const by of ['hour', 'day'] as const)
    for (const groupBy of groups) {
      const { rows } = await usageOf(world, caller, asked, by, groupBy);
      expectPriced(rows);
      expect([by, groupBy, sumOf(rows)]).toEqual([by, groupBy, chargesMicros]);
    }
  const [head = '', ...lines] = (await joined(focusCsv(await chargeExports.own(caller, asked))))
    .trimEnd()
    .split('\r\n');
  const at = (name: string) => head.split(',').indexOf(name);
  const cells = lines.map((line) => line.replaceAll(/"(?:[^"]|"")*"/g, '').split(','));
  const column = (name: string) => cells.map((row) => Number(row[at(name)] || NaN));
  const [costs, prices, quantities] = ['ListCost', 'ListUnitPrice', 'PricingQuantity'].map(column);
  for (const [row, cost] of (costs ?? []).entries()) {
    const product = (prices?.[row] ?? NaN) * (quantities?.[row] ?? NaN);
    if (!Number.isNaN(product)) expect(product).toBeCloseTo(cost, 9);
  }
  // Not -0, the sum of a charge and its refund.
  expect(0 + Math.round((costs ?? []).reduce((sum, cost) => sum + cost, 0) * 1e6)).toBe(chargesMicros);
}
