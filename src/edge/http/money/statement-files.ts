/** A statement as CSV, and as a page to print on A4. */
import { createHash } from 'node:crypto';
import type { ResourceLine, WholeStatement } from '../../../control/index.ts';
import { toDollars } from '../../../domain/regions/catalog.ts';
import { HOUR_MS } from '../../../domain/kernel/durations.ts';
import { priceUnit, priceUnitMs, quantityUnit } from '../../../domain/money/meter.ts';
import { isIncome } from '../../../domain/money/purse.ts';
import { csvLine } from '../csv.ts';
import { escaped } from '../html.ts';

const utc = (ms: number): string => new Date(ms).toISOString();
/** Volumes have types of their own. */
export const typeOf = ({ meter, typeId }: ResourceLine): string => (meter === 'volume' ? '' : typeId);
const chargedOf = ({ ms }: Pick<ResourceLine, 'ms'>): number => ms.charged ?? 0;
const freeOf = ({ ms: { charged: _charged, paidAhead: _paid, ...free } }: Pick<ResourceLine, 'ms'>): number =>
  Object.values(free).reduce((sum, one) => sum + one, 0);

const COLUMNS = [
  'section',
  'account',
  'kind',
  'resourceId',
  'name',
  'meter',
  'instanceTypeId',
  'regionId',
  'at',
  'periods',
  'chargedMs',
  'paidAheadMs',
  'freeMs',
  'quantity',
  'unit',
  'amount',
  'reason',
  'price',
  'purchases',
  'refunds',
  'uncollected',
] as const;
type Cells = Partial<Record<(typeof COLUMNS)[number], string | number>>;

const line = (cells: Cells): string => csvLine(COLUMNS.map((column) => cells[column] ?? null));

const timeCells = (of: Pick<ResourceLine, 'ms'>): Cells => ({
  chargedMs: chargedOf(of),
  paidAheadMs: of.ms.paidAhead ?? 0,
  freeMs: freeOf(of),
});

export async function* statementCsv(statement: WholeStatement): AsyncGenerator<string> {
  const { balances, movements, meters, entries, fromMs, untilMs } = statement;
  let head = csvLine(COLUMNS);
  for (const { ledger, openingMicros } of balances)
    head += line({ section: 'opening', account: ledger, at: utc(fromMs), amount: toDollars(openingMicros) });
  for (const { ledger, kind, amountMicros } of movements)
    head += line({ section: 'movement', account: ledger, kind, amount: toDollars(amountMicros) });
  for (const { ledger, closingMicros } of balances)
    head += line({ section: 'closing', account: ledger, at: utc(untilMs), amount: toDollars(closingMicros) });
  for (const one of meters)
    head += line({
      section: 'meter',
      meter: one.meter,
      periods: one.periods,
      ...timeCells(one),
      amount: toDollars(one.amountMicros),
    });
  for (const { kind, fromLedger, toLedger, atMs, amountMicros, subjectId, meter, reason } of entries)
    head += line({
      section: 'entry',
      kind,
      account: isIncome(toLedger) ? toLedger : fromLedger,
      resourceId: subjectId,
      meter,
      at: utc(atMs),
      amount: toDollars(isIncome(toLedger) ? amountMicros : -amountMicros),
      reason,
    });
  yield head;
  for await (const lines of statement.lines)
    yield lines
      .flatMap((resource) => [
        line({
          section: 'resource',
          resourceId: resource.subjectId,
          name: resource.name,
          meter: resource.meter,
          instanceTypeId: typeOf(resource),
          regionId: resource.regionId,
          periods: resource.periods,
          ...timeCells(resource),
          quantity: resource.quantityMs / HOUR_MS,
          unit: quantityUnit(resource.meter),
          amount: toDollars(resource.amountMicros),
          purchases: toDollars(resource.purchasedMicros),
          refunds: toDollars(resource.refundedMicros),
          uncollected: toDollars(resource.uncollectedMicros),
        }),
        ...resource.prices.map((use) =>
          line({
            section: 'usage',
            resourceId: resource.subjectId,
            name: resource.name,
            meter: resource.meter,
            instanceTypeId: typeOf(resource),
            regionId: resource.regionId,
            quantity: use.quantityMs / priceUnitMs(resource.meter),
            unit: priceUnit(resource.meter),
            amount: toDollars(use.amountMicros),
            reason: use.isRefund ? 'free start' : '',
            price: toDollars(use.priceMicros),
          }),
        ),
      ])
      .join('');
}

const MAX_PRINTED = 2_000;

const STYLE = `@page { size: A4; margin: 18mm }
body { font: 10pt/1.4 system-ui, sans-serif; max-width: 174mm; margin: 1rem auto; padding: 0 1rem }
h1 { font-size: 16pt } h2 { font-size: 12pt; break-after: avoid }
table { width: 100%; border-collapse: collapse } tr { break-inside: avoid } thead { display: table-header-group }
th, td { text-align: left; padding: .15rem .4rem; border-bottom: 1px solid #999; overflow-wrap: anywhere }
.number { text-align: right; white-space: nowrap }`;

export const PRINT_POLICY = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;

/** Micro-dollars are shown: rounded amounts would not add up. */
const money = (micros: number): string => toDollars(micros).toFixed(6);
const hours = (ms: number): string => (ms / HOUR_MS).toFixed(4);

type Cell = string | { number: string };
const row = (cells: readonly Cell[], tag: 'td' | 'th' = 'td'): string =>
  `<tr>${cells
    .map((cell) =>
      typeof cell === 'string'
        ? `<${tag}>${escaped(cell)}</${tag}>`
        : `<${tag} class="number">${escaped(cell.number)}</${tag}>`,
    )
    .join('')}</tr>\n`;
const tableHead = (title: string, cells: readonly Cell[]): string =>
  `<h2>${escaped(title)}</h2>\n<table>\n<thead>${row(cells, 'th')}</thead>\n<tbody>\n`;
const TABLE_END = '</tbody>\n</table>\n';
const table = (title: string, head: readonly Cell[], rows: readonly (readonly Cell[])[]): string =>
  rows.length === 0 ? '' : tableHead(title, head) + rows.map((cells) => row(cells)).join('') + TABLE_END;

const number = (text: string): Cell => ({ number: text });
const AMOUNT = number('USD');

interface Use {
  kind: 'use' | 'free start' | 'paid ahead' | 'refunded';
  /** Null of what has no quantity, with `priceMicros`. */
  quantity: number | null;
  priceMicros: number | null;
  amountMicros: number;
}

/** Uses at each price, then purchases, and refunds without free starts. */
export function usesOf({ meter, prices, purchasedMicros, refundedMicros }: ResourceLine): Use[] {
  const uses = prices.map(({ priceMicros, quantityMs, amountMicros, isRefund }): Use => {
    const quantity = quantityMs / priceUnitMs(meter);
    return { kind: isRefund ? 'free start' : 'use', quantity, priceMicros, amountMicros };
  });
  const freeMicros = prices.reduce((sum, use) => (use.isRefund ? sum - use.amountMicros : sum), 0);
  const whole = { quantity: null, priceMicros: null };
  if (purchasedMicros > 0) uses.push({ kind: 'paid ahead', ...whole, amountMicros: purchasedMicros });
  if (refundedMicros > freeMicros) uses.push({ kind: 'refunded', ...whole, amountMicros: freeMicros - refundedMicros });
  return uses;
}

/** Quantity, unit, price and amount of each use; a line without any has one of nothing. */
function printedUses(line: ResourceLine): [string, string, string, number][] {
  const unit = priceUnit(line.meter);
  const units = { use: unit, 'free start': `${unit}, free start`, 'paid ahead': 'paid ahead', refunded: 'refunded' };
  const uses = usesOf(line).map(({ kind, quantity, priceMicros, amountMicros }): [string, string, string, number] => [
    quantity?.toFixed(6) ?? '',
    units[kind],
    priceMicros === null ? '' : money(priceMicros),
    amountMicros,
  ]);
  return uses.length > 0 ? uses : [['', '', '', 0]];
}

export async function* statementPage(statement: WholeStatement, username: string): AsyncGenerator<string> {
  const { month, timeZone, balances, movements, meters, entries, hasMoreEntries } = statement;
  yield `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Statement ${escaped(month)} · Berth</title>
<style>${STYLE}</style>
<h1>Statement ${escaped(month)}</h1>
<p>Account ${escaped(username)}. Statement ${escaped(statement.statementId)}. Time zone ${escaped(timeZone)}: from ${utc(statement.fromMs)} to ${utc(statement.untilMs)}. Charges: ${money(statement.chargesMicros)} USD. ${statement.isFinal ? 'This statement is final.' : 'Not all charges of the month are booked.'}</p>
`;
  yield table(
    'Balances',
    ['Account', number('Opening USD'), number('Closing USD')],
    balances.map((one) => [one.ledger, number(money(one.openingMicros)), number(money(one.closingMicros))]),
  );
  yield table(
    'Movements',
    ['Kind', 'Account', AMOUNT],
    movements.map(({ kind, ledger, amountMicros }) => [kind, ledger, number(money(amountMicros))]),
  );
  yield table(
    'Usage',
    ['Meter', number('Charged hours'), number('Free hours'), AMOUNT],
    meters.map((one) => [
      one.meter,
      number(hours(chargedOf(one))),
      number(hours(freeOf(one))),
      number(money(one.amountMicros)),
    ]),
  );
  yield table(
    hasMoreEntries ? 'The first payments; POST /api/billing/entries lists all' : 'Payments',
    ['Time', 'Kind', 'Reason', AMOUNT],
    entries.map(({ atMs, kind, reason, toLedger, amountMicros }) => [
      utc(atMs),
      kind,
      reason,
      number(money(isIncome(toLedger) ? amountMicros : -amountMicros)),
    ]),
  );
  yield tableHead('Resources', [
    'Name',
    'ID',
    'Meter',
    number('Quantity'),
    'Unit',
    number('USD per unit'),
    number('Free hours'),
    AMOUNT,
  ]);
  let printed = 0;
  for await (const lines of statement.lines) {
    printed += lines.length;
    yield lines
      .flatMap((one) =>
        printedUses(one).map(([quantity, unit, price, micros], at) =>
          row([
            one.name,
            one.subjectId,
            one.meter,
            number(quantity),
            unit,
            number(price),
            number(at === 0 ? hours(freeOf(one)) : ''),
            number(money(micros)),
          ]),
        ),
      )
      .join('');
    if (printed >= MAX_PRINTED) break;
  }
  const more = `<p>These are the first ${printed} lines; GET /api/billing/statement.csv has all.</p>\n`;
  yield `${TABLE_END}${printed >= MAX_PRINTED ? more : ''}</html>\n`;
}
