/** The statement of a month: balances, what moved them, and what each resource cost. */
import { MINUTE_MS } from '../../domain/kernel/durations.ts';
import { meters } from '../../domain/money/meter.ts';
import { creditKinds, TAX_LEDGER, type CreditKind } from '../../domain/money/purse.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { statementId } from '../../domain/money/statement-id.ts';
import { monthSpan, type TimeSpan } from '../../domain/money/usage-buckets.ts';
import { moneyOf, type EntryRow } from '../../store/tables/ledger.ts';
import {
  END_OF_TIME_MS,
  isUnbooked,
  otherEntries,
  resourceIds,
  type MoneyRow,
} from '../../store/tables/report-rows.ts';
import { describe, moneyRows, report, type Description, type ReportDeps, type ReportRow } from './report.ts';
import type { Caller, Pager } from '../kernel/ports.ts';

export interface StatementRequest {
  /** `2026-11` */
  month: string;
  timeZone: string;
}

interface Movement {
  kind: string;
  ledger: CreditKind;
  amountMicros: number;
}

interface Money {
  balances: { ledger: CreditKind; openingMicros: number; closingMicros: number }[];
  /** Signed sums by kind and ledger; they are the differences of the balances. */
  movements: Movement[];
  taxMicros: number;
}

export type ResourceLine = ReportRow & Description;

interface Totals extends TimeSpan, Money {
  statementId: string;
  /** Nothing of the month changes any more. */
  isFinal: boolean;
  uncollectedMicros: number;
  chargesMicros: number;
  billedMicros: number;
  taxMicros: number;
  meters: ReportRow[];
  /** Entries that are not metered use, oldest first. */
  entries: EntryRow[];
  hasMoreEntries: boolean;
}

export interface Statement extends StatementRequest, Totals {
  resources: ResourceLine[];
  totalResources: number;
}

export interface WholeStatement extends StatementRequest, Totals {
  /** Lines of all resources, by their ids. */
  lines: AsyncIterable<ResourceLine[]>;
}

export interface Statements {
  page(caller: Caller, request: StatementRequest, pager: Pager): Promise<Statement>;
  whole(caller: Caller, request: StatementRequest): Promise<WholeStatement>;
}

const chargeKinds: ReadonlySet<string> = new Set(['charge', 'prepayment', 'refund']);
const MAX_LISTED_RESOURCES = 10_000;
const MAX_ENTRIES = 1_000;
const LINES_AT_ONCE = 50;
const MAX_TRIES = 5;
/** An event may be a minute old when it is written (`metering.ts`); its transaction takes less. */
const SETTLED_MS = 2 * MINUTE_MS;

const sumOf = (rows: readonly ReportRow[], column: 'amountMicros' | 'uncollectedMicros'): number =>
  rows.reduce((sum, row) => sum + row[column], 0);

export function makeStatements(deps: ReportDeps): Statements {
  const { store, time } = deps;
  const db = store.read;

  const sumsIn = async (accountId: string, span: TimeSpan): Promise<MoneyRow[]> =>
    (await Array.fromAsync(moneyRows(deps, accountId, span, { by: [] }))).flat();

  /** Again if a booking came between: the balances are those of now, taken back. */
  async function moneyIn(accountId: string, span: TimeSpan): Promise<Money> {
    for (let tries = 1; ; tries += 1) {
      const before = await moneyOf(db, accountId);
      const later = movementsOf(await sumsIn(accountId, { fromMs: span.untilMs, untilMs: END_OF_TIME_MS }));
      const rows = await sumsIn(accountId, span);
      const movements = movementsOf(rows);
      const after = await moneyOf(db, accountId);
      if (creditKinds.some((ledger) => before[ledger] !== after[ledger]) && tries < MAX_TRIES) continue;
      const sum = (list: readonly Movement[], ledger: CreditKind): number =>
        list.reduce((total, one) => (one.ledger === ledger ? total + one.amountMicros : total), 0);
      const balances = creditKinds.map((ledger) => {
        const closingMicros = after[ledger] - sum(later, ledger);
        return { ledger, closingMicros, openingMicros: closingMicros - sum(movements, ledger) };
      });
      const taxMicros = rows.reduce(
        (sum, { toLedger, fromLedger, micros }) =>
          toLedger === TAX_LEDGER ? sum + micros : fromLedger === TAX_LEDGER ? sum - micros : sum,
        0,
      );
      return { movements, balances, taxMicros };
    }
  }

  async function totals(accountId: string, { month, timeZone }: StatementRequest): Promise<Totals> {
    const span = monthSpan(month, timeZone);
    if (span.fromMs > time.now())
      throw new Refusal(
        'field_value',
        `field "month" is ${month}, which has not begun: send the current month, or one before it`,
      );
    // Read first: what is booked meanwhile is in the sums.
    const isFinal = time.now() >= span.untilMs + SETTLED_MS && !(await isUnbooked(db, accountId, span.untilMs));
    const money = await moneyIn(accountId, span);
    const byMeter = await report(deps, accountId, [span], { by: [] });
    const entries = await otherEntries(db, accountId, span, MAX_ENTRIES + 1);
    return {
      statementId: statementId(accountId, { month, timeZone }),
      ...span,
      ...money,
      isFinal,
      uncollectedMicros: sumOf(byMeter, 'uncollectedMicros'),
      chargesMicros: sumOf(byMeter, 'amountMicros'),
      billedMicros: money.movements.reduce(
        (sum, { kind, ledger, amountMicros }) =>
          ledger === 'cash' && chargeKinds.has(kind) ? sum - amountMicros : sum,
        money.taxMicros,
      ),
      meters: meters.flatMap((meter) => byMeter.filter((row) => row.meter === meter)),
      entries: entries.slice(0, MAX_ENTRIES),
      hasMoreEntries: entries.length > MAX_ENTRIES,
    };
  }

  async function linesOf(accountId: string, span: TimeSpan, subjectIds: readonly string[]): Promise<ResourceLine[]> {
    const lines: ResourceLine[] = [];
    for (let from = 0; from < subjectIds.length; from += LINES_AT_ONCE) {
      lines.push(...(await someLines(accountId, span, subjectIds.slice(from, from + LINES_AT_ONCE))));
    }
    return lines;
  }

  async function someLines(accountId: string, span: TimeSpan, subjectIds: readonly string[]): Promise<ResourceLine[]> {
    const keyOf = ({ subjectId = '', meter }: { subjectId?: string; meter: string }) => `${subjectId} ${meter}`;
    const rows = await report(deps, accountId, [span], { by: ['subjectId', 'priceMicros'], subjectIds, keyOf });
    const lines = await describe(deps, rows);
    return lines.toSorted((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1));
  }

  async function* allLines(accountId: string, span: TimeSpan): AsyncGenerator<ResourceLine[]> {
    let after = '';
    for (;;) {
      const subjectIds = await resourceIds(db, accountId, span, { after, limit: LINES_AT_ONCE });
      const last = subjectIds.at(-1);
      if (last === undefined) return;
      yield await someLines(accountId, span, subjectIds);
      after = last;
    }
  }

  return {
    async page({ accountId }, request, { currentPage, pageSize }) {
      const found = await totals(accountId, request);
      const ids = await resourceIds(db, accountId, found, { after: '', limit: MAX_LISTED_RESOURCES });
      const from = Math.min((currentPage - 1) * pageSize, MAX_LISTED_RESOURCES);
      const resources = await linesOf(accountId, found, ids.slice(from, from + pageSize));
      return { ...request, ...found, resources, totalResources: ids.length };
    },
    async whole({ accountId }, request) {
      const found = await totals(accountId, request);
      return { ...request, ...found, lines: allLines(accountId, found) };
    },
  };
}

/** Signed by what the account can spend. */
function movementsOf(rows: readonly MoneyRow[]): Movement[] {
  const sums = new Map<string, Movement>();
  const add = (kind: string, ledger: CreditKind, amountMicros: number): void => {
    const key = `${kind} ${ledger}`;
    sums.set(key, { kind, ledger, amountMicros: amountMicros + (sums.get(key)?.amountMicros ?? 0) });
  };
  for (const { kind, fromLedger, toLedger, micros } of rows)
    for (const ledger of creditKinds) {
      if (ledger === toLedger) add(kind, ledger, micros);
      if (ledger === fromLedger) add(kind, ledger, -micros);
    }
  return [...sums.values()]
    .filter(({ amountMicros }) => amountMicros !== 0)
    .toSorted((one, other) => (`${one.kind} ${one.ledger}` < `${other.kind} ${other.ledger}` ? -1 : 1));
}
