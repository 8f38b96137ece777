/** The books, credits and budgets. Control has amounts in micros, the wire in dollars. */
import type { Control, ResourceLine } from '../../../control/index.ts';
import { toDollars } from '../../../domain/regions/catalog.ts';
import { HOUR_MS } from '../../../domain/kernel/durations.ts';
import { priceUnit, priceUnitMs, quantityUnit } from '../../../domain/money/meter.ts';
import { isIncome } from '../../../domain/money/purse.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import { publicAccount } from '../access/handlers.ts';
import { presented, type Handlers } from '../handler.ts';

type Entry = Awaited<ReturnType<Control['books']['entries']>>['entries'][number];
type Period = Awaited<ReturnType<Control['books']['periods']>>['periods'][number];

/** The id's name in an answer follows from the meter. */
export function subjectOf({ subjectId, meter }: { subjectId: string; meter: string }): Record<string, string> {
  if (subjectId === '') return {};
  if (meter === 'volume' || meter === 'snapshot') return { [`${meter}Id`]: subjectId };
  return { instanceId: subjectId };
}

const typeOf = ({ typeId, meter }: Pick<Period, 'typeId' | 'meter'>): { instanceTypeId?: string } =>
  typeId === '' || meter === 'volume' ? {} : { instanceTypeId: typeId };

function entryOf(entry: Entry) {
  const { fromLedger, toLedger, amountMicros, grantId, periodId, reversesId, fromMs, untilMs, meter } = entry;
  const isOwn = isIncome(toLedger);
  const price = entry.priceMicros;
  return {
    entryId: String(entry.id),
    atUnixMs: entry.atMs,
    amount: toDollars(isOwn ? amountMicros : -amountMicros),
    kind: entry.kind,
    ...subjectOf(entry),
    ...(meter === '' ? {} : { meter }),
    ...(fromMs === null ? {} : { fromUnixMs: fromMs }),
    ...(untilMs === null ? {} : { untilUnixMs: untilMs }),
    ...(price ? { price: toDollars(price), quantity: (isOwn ? -amountMicros : amountMicros) / price } : {}),
    reason: entry.reason,
    source: isOwn ? toLedger : fromLedger,
    ...(grantId === '' ? {} : { grantId }),
    ...(periodId === null ? {} : { periodId: String(periodId) }),
    ...(reversesId === null ? {} : { reversesId: String(reversesId) }),
    ...(entry.transitions === undefined ? {} : { transitions: entry.transitions }),
  };
}

const periodOf = (period: Period) => ({
  periodId: String(period.id),
  ...subjectOf(period),
  name: period.subjectName,
  meter: period.meter,
  state: period.state,
  regionId: period.regionId,
  ...typeOf(period),
  price: toDollars(period.priceMicros),
  quantity: period.quantity,
  fromUnixMs: period.openedAtMs,
  untilUnixMs: period.closedAtMs,
  freeMs: 0,
  amount: toDollars(period.chargedMicros),
  transitions: period.transitions,
});

/** The parts of an amount. */
const partsOf = (
  row: Pick<ResourceLine, 'meter' | 'prices' | 'purchasedMicros' | 'refundedMicros' | 'uncollectedMicros'>,
) => ({
  prices: row.prices.map(({ meter, priceMicros, quantityMs, amountMicros }) => ({
    price: toDollars(priceMicros),
    quantity: quantityMs / priceUnitMs(meter),
    unit: priceUnit(meter),
    amount: toDollars(amountMicros),
  })),
  purchases: toDollars(row.purchasedMicros),
  refunds: toDollars(row.refundedMicros),
  uncollected: toDollars(row.uncollectedMicros),
});

const timeOf = (ms: ResourceLine['ms']) =>
  Object.entries(ms)
    .filter(([, lasted]) => lasted > 0)
    .map(([state, lasted]) => ({ state, ms: lasted }));

const lineOf = (line: ResourceLine) => ({
  ...subjectOf(line),
  name: line.name,
  ...(line.meter === '' ? {} : { meter: line.meter }),
  regionId: line.regionId,
  ...typeOf(line),
  periods: line.periods,
  time: timeOf(line.ms),
  quantity: line.quantityMs / HOUR_MS,
  unit: quantityUnit(line.meter),
  ...partsOf(line),
  amount: toDollars(line.amountMicros),
});

type CreditEntry = Awaited<ReturnType<Control['credits']['reverse']>>['entry'];

const creditEntry = ({ atMs, ...entry }: CreditEntry) => ({ ...entry, atUnixMs: atMs });

function spanOf({ fromUnixMs, untilUnixMs }: { fromUnixMs: number; untilUnixMs: number }) {
  if (untilUnixMs <= fromUnixMs)
    throw new Refusal(
      'field_value',
      `field "untilUnixMs" is ${untilUnixMs}, not after "fromUnixMs" (${fromUnixMs}): send a later end`,
    );
  return { fromMs: fromUnixMs, untilMs: untilUnixMs };
}

export const moneyHandlers = ({ books, usage, gpuUse, statements, credits, budgets }: Control) =>
  ({
    async gpuUse(caller, { by, timeZone, ...range }) {
      const found = await gpuUse.read(caller, { ...spanOf(range), by, timeZone });
      const spans = found.map(({ fromMs, untilMs, heldMs, measuredMs, busyMs }) => ({
        fromUnixMs: fromMs,
        untilUnixMs: untilMs,
        heldHours: heldMs / HOUR_MS,
        measuredHours: measuredMs / HOUR_MS,
        busyHours: measuredMs === 0 ? null : busyMs / HOUR_MS,
        busyShare: measuredMs === 0 ? null : busyMs / measuredMs,
      }));
      return { spans };
    },
    async usage(caller, { pager, fromUnixMs, untilUnixMs, ...request }) {
      const page = await usage.rows(caller, { ...request, ...spanOf({ fromUnixMs, untilUnixMs }) }, pager);
      const rows = page.rows.map((row) => ({
        fromUnixMs: row.fromMs,
        untilUnixMs: row.untilMs,
        ...(request.groupBy === 'resource'
          ? { ...subjectOf(row), ...(row.meter === '' ? {} : { meter: row.meter }), name: row.name }
          : { group: row.group }),
        time: timeOf(row.ms),
        ...partsOf(row),
        amount: toDollars(row.amountMicros),
      }));
      return { rows, totalEntries: page.totalEntries };
    },
    async statement(caller, { pager, ...request }) {
      const page = await statements.page(caller, request, pager);
      return {
        ...request,
        statementId: page.statementId,
        fromUnixMs: page.fromMs,
        untilUnixMs: page.untilMs,
        final: page.isFinal,
        balances: page.balances.map(({ ledger, openingMicros, closingMicros }) => ({
          account: ledger,
          opening: toDollars(openingMicros),
          closing: toDollars(closingMicros),
        })),
        movements: page.movements.map(({ kind, ledger, amountMicros }) => ({
          kind,
          account: ledger,
          amount: toDollars(amountMicros),
        })),
        charges: toDollars(page.chargesMicros),
        uncollected: toDollars(page.uncollectedMicros),
        billed: toDollars(page.billedMicros),
        tax: toDollars(page.taxMicros),
        meters: page.meters.map(({ meter, periods, ms, amountMicros }) => ({
          meter,
          periods,
          time: timeOf(ms),
          amount: toDollars(amountMicros),
        })),
        entries: page.entries.map(entryOf),
        hasMoreEntries: page.hasMoreEntries,
        resources: page.resources.map(lineOf),
        totalEntries: page.totalResources,
      };
    },
    async listEntries(caller, { pager, fromUnixMs, untilUnixMs, ...filter }) {
      const found = await books.entries(caller, { ...filter, fromMs: fromUnixMs, untilMs: untilUnixMs }, pager);
      return { entries: found.entries.map(entryOf), totalEntries: found.totalEntries };
    },
    async listAccountEntries(_, { username, pager, fromUnixMs, untilUnixMs, ...filter }) {
      const found = await books.entriesFor(username, { ...filter, fromMs: fromUnixMs, untilMs: untilUnixMs }, pager);
      return { entries: found.entries.map(entryOf), totalEntries: found.totalEntries };
    },
    async listUsagePeriods(caller, { pager, fromUnixMs, untilUnixMs, ...filter }) {
      const found = await books.periods(caller, { ...filter, fromMs: fromUnixMs, untilMs: untilUnixMs }, pager);
      return { periods: found.periods.map(periodOf), totalEntries: found.totalEntries };
    },
    creditAccount: presented(credits.give, ({ entry }) => ({ entry: creditEntry(entry), grantId: entry.grantId })),
    reverseCredit: presented(credits.reverse, ({ entry }) => ({ entry: creditEntry(entry) })),
    setOverdraft: presented(credits.setOverdraft, ({ account }) => ({ account: publicAccount(account) })),
    listGrants: (caller, { pager }) => credits.list(caller, pager),

    forecast: budgets.forecast,
    setBudget: budgets.set,
    listBudgets: budgets.list,
    deleteBudget: budgets.delete,
    setAccountBudget: budgets.setFor,
    listAccountBudgets: (_, { username }) => budgets.listFor(username),
    deleteAccountBudget: budgets.deleteFor,
  }) satisfies Partial<Handlers['closed']>;
