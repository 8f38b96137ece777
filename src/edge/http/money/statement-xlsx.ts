/** A statement as a workbook, which a spreadsheet of any language opens: each cell has its type. */
import type { ResourceLine, WholeStatement } from '../../../control/index.ts';
import { wallTimeOf } from '../../../domain/kernel/calendar.ts';
import { priceUnit } from '../../../domain/money/meter.ts';
import { isIncome } from '../../../domain/money/purse.ts';
import { toDollars } from '../../../domain/regions/catalog.ts';
import { xlsx, type Sheet, type XlsxCell } from '../xlsx.ts';
import { typeOf, usesOf } from './statement-files.ts';

export function statementXlsx(statement: WholeStatement): AsyncGenerator<Uint8Array> {
  const { statementId, month, timeZone, fromMs, untilMs, lines } = statement;
  const at = (ms: number): XlsxCell => ({ wallMs: wallTimeOf(ms, timeZone) });
  const facts: [string, XlsxCell][] = [
    ['statementId', statementId],
    ['month', month],
    ['timeZone', timeZone],
    ['from', at(fromMs)],
    ['until', at(untilMs)],
    ['final', statement.isFinal ? 'yes' : 'no'],
    ['charges', toDollars(statement.chargesMicros)],
    ['uncollected', toDollars(statement.uncollectedMicros)],
    ['billed', toDollars(statement.billedMicros)],
    ['tax', toDollars(statement.taxMicros)],
  ];
  const balances = statement.balances.map(({ ledger, openingMicros, closingMicros }) => [
    ledger,
    toDollars(openingMicros),
    toDollars(closingMicros),
  ]);
  const movements = statement.movements.map(({ kind, ledger, amountMicros }) => [
    kind,
    ledger,
    toDollars(amountMicros),
  ]);
  const payments = statement.entries.map((entry) => {
    const { atMs, kind, fromLedger, toLedger, amountMicros, subjectId, reason } = entry;
    const isReceived = isIncome(toLedger);
    return [
      at(atMs),
      kind,
      isReceived ? toLedger : fromLedger,
      subjectId,
      reason,
      toDollars(isReceived ? amountMicros : -amountMicros),
    ];
  });
  const sheets: Sheet[] = [
    { name: 'Statement', head: ['fact', 'value'], rows: [facts] },
    { name: 'Balances', head: ['account', 'opening', 'closing'], rows: [balances] },
    { name: 'Movements', head: ['kind', 'account', 'amount'], rows: [movements] },
    { name: 'Payments', head: ['at', 'kind', 'account', 'resourceId', 'reason', 'amount'], rows: [payments] },
    {
      name: 'Charges',
      head: [
        'resourceId',
        'name',
        'meter',
        'instanceTypeId',
        'regionId',
        'kind',
        'quantity',
        'unit',
        'price',
        'amount',
      ],
      rows: chargeRows(lines),
    },
  ];
  return xlsx(sheets);
}

async function* chargeRows(lines: AsyncIterable<ResourceLine[]>): AsyncGenerator<XlsxCell[][]> {
  for await (const batch of lines) yield batch.flatMap(rowsOf);
}

function rowsOf(line: ResourceLine): XlsxCell[][] {
  const { subjectId, name, meter, regionId } = line;
  const of = [subjectId, name, meter, typeOf(line), regionId];
  return usesOf(line).map(({ kind, quantity, priceMicros, amountMicros }) => [
    ...of,
    kind,
    quantity,
    quantity === null ? null : priceUnit(meter),
    priceMicros === null ? null : toDollars(priceMicros),
    toDollars(amountMicros),
  ]);
}
