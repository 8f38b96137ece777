import type { Books } from '../../../control/index.ts';
import { toDollars } from '../../../domain/catalog.ts';
import type { ClosedHandlers } from './handler.ts';

type Entry = Awaited<ReturnType<Books['entries']>>['entries'][number];
type Period = Awaited<ReturnType<Books['periods']>>['periods'][number];

const dollars = (micros: number): number => toDollars(BigInt(micros));

/** The id's name in an answer follows from the meter. */
export function subjectOf({ subjectId, meter }: { subjectId: string; meter: string }): Record<string, string> {
  if (subjectId === '') return {};
  if (meter === 'volume' || meter === 'snapshot') return { [`${meter}Id`]: subjectId };
  return { instanceId: subjectId };
}

const OWN_MONEY: readonly string[] = ['cash', 'voucher', 'credit'];

function entryOf(entry: Entry) {
  const { fromLedger, toLedger, amountMicros, grantId, periodId, reversesId, fromMs, untilMs, meter } = entry;
  const isIncome = OWN_MONEY.includes(toLedger);
  return {
    entryId: String(entry.id),
    atUnixMs: entry.atMs,
    amount: dollars(isIncome ? amountMicros : -amountMicros),
    kind: entry.kind,
    ...subjectOf(entry),
    ...(meter === '' ? {} : { meter }),
    ...(fromMs === null ? {} : { fromUnixMs: fromMs }),
    ...(untilMs === null ? {} : { untilUnixMs: untilMs }),
    reason: entry.reason,
    source: isIncome ? toLedger : fromLedger,
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
  ...(period.typeId === '' ? {} : { instanceTypeId: period.typeId }),
  price: dollars(period.priceMicros),
  quantity: period.quantity,
  fromUnixMs: period.openedAtMs,
  untilUnixMs: period.closedAtMs,
  freeMs: period.freeMs,
  amount: dollars(period.chargedMicros),
  transitions: period.transitions,
});

export const bookHandlers = (books: Books) =>
  ({
    async listEntries(caller, { body: { pager, fromUnixMs, untilUnixMs, ...filter } }) {
      const found = await books.entries(caller, { ...filter, fromMs: fromUnixMs, untilMs: untilUnixMs }, pager);
      return { entries: found.entries.map(entryOf), pager: { ...pager, totalEntries: found.totalEntries } };
    },
    async listUsagePeriods(caller, { body: { pager, fromUnixMs, untilUnixMs, ...filter } }) {
      const found = await books.periods(caller, { ...filter, fromMs: fromUnixMs, untilMs: untilUnixMs }, pager);
      return { periods: found.periods.map(periodOf), pager: { ...pager, totalEntries: found.totalEntries } };
    },
  }) satisfies Partial<ClosedHandlers>;
