/** The one report: time, quantities and money, from which statement and usage are cut. */
import { meters, meterStates, priceUnitMs, type MeterState } from '../../domain/money/meter.ts';
import type { TimeSpan } from '../../domain/money/usage-buckets.ts';
import { periodsById } from '../../store/tables/book-pages.ts';
import type { EntryRow } from '../../store/tables/ledger.ts';
import {
  END_OF_TIME_MS,
  moneyIn,
  nextPeriods,
  nextSlice,
  timeIn,
  type Grouping,
  type MoneyRow,
  type TimeRow,
} from '../../store/tables/report-rows.ts';
import type { Store } from '../../store/store.ts';
import { nextTurn, type Time } from '../kernel/ports.ts';

export interface ReportDeps {
  store: Pick<Store, 'read' | 'kind'>;
  time: Pick<Time, 'now' | 'after'>;
}

export type TimeByState = Partial<Record<MeterState, number>>;

/** Use of one price: × quantity it is the amount, within a micro-dollar for each period. */
export interface PricedUse {
  /** Rows of a group may have several. */
  meter: string;
  priceMicros: number;
  /** Charged milliseconds × GB, or × 1 for an instance that runs. */
  quantityMs: number;
  amountMicros: number;
  /** Starts that were free: a negative quantity, in the hour of the refund. */
  isRefund: boolean;
}

export interface ReportRow extends TimeSpan {
  /** Resource of the grouping; '' without. */
  subjectId: string;
  typeId: string;
  labels: string | null;
  /** '' for payments without usage. */
  meter: string;
  periods: number;
  ms: TimeByState;
  quantityMs: number;
  /** By price, if the rows are grouped by it. */
  prices: PricedUse[];
  /** Usage and purchases, less refunds. */
  amountMicros: number;
  purchasedMicros: number;
  refundedMicros: number;
  uncollectedMicros: number;
  /** The last period of the row; null: payments of a resource that never had one. */
  lastId: number | null;
}

/** Revenue of an entry, negative for a refund. */
export const revenueOf = ({
  fromLedger,
  toLedger,
  amountMicros,
}: Pick<EntryRow, 'fromLedger' | 'toLedger' | 'amountMicros'>): number =>
  toLedger === 'revenue' ? amountMicros : fromLedger === 'revenue' ? -amountMicros : 0;

/** Pairs of a period and a span that one query joins. */
const PAIRS_AT_ONCE = 10_000;
const ROWS_AT_ONCE = 1_000;
const SLICE_MS = 5 * 24 * 3_600_000;
const WHOLE = { openedAtMs: 0, upToMs: END_OF_TIME_MS };

/** Groups of resources with few periods, and spans of ids of the others. */
export async function partsOf(
  { store }: Pick<ReportDeps, 'store'>,
  { subjectIds, ...grouping }: Grouping,
): Promise<Grouping[]> {
  const nextOf = (ids: readonly string[], after: number) => nextPeriods(store.read, ids, after, PAIRS_AT_ONCE);
  const isWhole = subjectIds === undefined || store.kind !== 'sqlite';
  if (isWhole || (await nextOf(subjectIds, 0)).count < PAIRS_AT_ONCE) return [{ subjectIds, ...grouping }];
  const parts: Grouping[] = [];
  let few: string[] = [];
  let periods = 0;
  for (const subjectId of subjectIds) {
    let after = 0;
    let next = await nextOf([subjectId], after);
    for (; next.count === PAIRS_AT_ONCE; next = await nextOf([subjectId], after)) {
      parts.push({ ...grouping, subjectIds: [subjectId], ids: { after, upTo: next.lastId } });
      after = next.lastId;
    }
    if (after > 0) {
      parts.push({ ...grouping, subjectIds: [subjectId], ids: { after, upTo: END_OF_TIME_MS } });
      continue;
    }
    few.push(subjectId);
    periods += next.count;
    if (periods < PAIRS_AT_ONCE) continue;
    parts.push({ ...grouping, subjectIds: few });
    [few, periods] = [[], 0];
  }
  return few.length > 0 ? [...parts, { ...grouping, subjectIds: few }] : parts;
}

async function* timeRows(
  { store, time }: ReportDeps,
  accountId: string,
  spans: readonly TimeSpan[],
  { grouping, parts }: { grouping: Grouping; parts: readonly Grouping[] },
): AsyncGenerator<TimeRow[]> {
  const size = store.kind === 'sqlite' ? Math.ceil(PAIRS_AT_ONCE / spans.length) : null;
  const isWhole = size === null || grouping.subjectIds !== undefined;
  for (let afterMs = spans[0]?.fromMs ?? 0; afterMs < END_OF_TIME_MS;) {
    const slice = isWhole ? WHOLE : await nextSlice(store.read, accountId, afterMs, size);
    const { openedAtMs, upToMs } = slice;
    const touched = spans.filter(({ fromMs, untilMs }) => fromMs < upToMs && untilMs > openedAtMs);
    for (const part of touched.length > 0 ? parts : []) {
      yield await timeIn(store.read, accountId, touched, part, { afterMs, upToMs });
    }
    afterMs = upToMs;
  }
  yield await timeIn(store.read, accountId, spans, grouping, { openUntilMs: time.now() });
}

/** Metered use and all other entries of a span, summed. */
export async function* moneyRows(
  { store, time }: ReportDeps,
  accountId: string,
  { fromMs, untilMs }: TimeSpan,
  grouping: Grouping,
  parts: readonly Grouping[] = [grouping],
): AsyncGenerator<MoneyRow[]> {
  const lastMs = Math.min(untilMs, time.now());
  const isSliced = store.kind === 'sqlite' && grouping.subjectIds === undefined;
  let from = fromMs;
  for (; isSliced && from + SLICE_MS < lastMs; from += SLICE_MS) {
    yield await moneyIn(
      store.read,
      accountId,
      { fromMs: from, untilMs: from + SLICE_MS },
      { ...grouping, isMetered: true },
    );
  }
  for (const part of parts) {
    yield await moneyIn(store.read, accountId, { fromMs: from, untilMs }, { ...part, isMetered: true });
  }
  yield await moneyIn(store.read, accountId, { fromMs, untilMs }, { ...grouping, isMetered: false });
}

/** Rows by span, resource or group, and meter; `limit` is called with their number as it grows. */
export async function report(
  deps: ReportDeps,
  accountId: string,
  spans: readonly TimeSpan[],
  {
    keyOf = ({ subjectId = '', typeId = '', labels = '', meter }) => [subjectId, typeId, labels, meter].join(' '),
    limit,
    ...grouping
  }: Grouping & { keyOf?: (row: TimeRow | MoneyRow) => string; limit?: (rows: number) => void },
): Promise<ReportRow[]> {
  const rows = new Map<string, ReportRow>();
  const rowOf = ({ fromMs, untilMs }: TimeSpan, source: TimeRow | MoneyRow): ReportRow => {
    const key = `${fromMs} ${keyOf(source)}`;
    const { subjectId = '', typeId = '', labels = null, meter } = source;
    const row = rows.get(key) ?? {
      fromMs,
      untilMs,
      subjectId,
      typeId,
      labels,
      meter,
      periods: 0,
      ms: {},
      quantityMs: 0,
      prices: [],
      amountMicros: 0,
      purchasedMicros: 0,
      refundedMicros: 0,
      uncollectedMicros: 0,
      lastId: null,
    };
    if (source.lastId !== null && source.lastId > (row.lastId ?? 0)) row.lastId = source.lastId;
    rows.set(key, row);
    limit?.(rows.size);
    return row;
  };
  const priced = ({ prices }: ReportRow, meter: string, priceMicros: number, isRefund = false): PricedUse => {
    const known = prices.find(
      (one) => one.meter === meter && one.priceMicros === priceMicros && one.isRefund === isRefund,
    );
    if (known) return known;
    const use = { meter, priceMicros, quantityMs: 0, amountMicros: 0, isRefund };
    prices.push(use);
    return use;
  };
  const parts = await partsOf(deps, grouping);
  const spanAt = new Map(spans.map((span) => [span.fromMs, span]));
  for await (const found of timeRows(deps, accountId, spans, { grouping, parts }))
    for (const one of found) {
      const span = spanAt.get(one.fromMs);
      if (!span) continue;
      const row = rowOf(span, one);
      row.periods += one.periods;
      row.ms[one.state] = (row.ms[one.state] ?? 0) + one.ms;
      if (one.state !== 'charged') continue;
      row.quantityMs += one.quantityMs;
      if (one.priceMicros !== undefined && one.pricedMs > 0)
        priced(row, one.meter, one.priceMicros).quantityMs += one.pricedMs;
    }
  for (const span of spans) {
    for await (const found of moneyRows(deps, accountId, span, grouping, parts))
      for (const money of found) {
        const micros = revenueOf({ ...money, amountMicros: money.micros });
        if (micros === 0) continue;
        const row = rowOf(span, money);
        row.amountMicros += micros;
        if (money.kind !== 'charge') row[micros > 0 ? 'purchasedMicros' : 'refundedMicros'] += Math.abs(micros);
        if (money.isOfUse === 1 && money.priceMicros) {
          const use = priced(row, money.meter, money.priceMicros, micros < 0);
          use.amountMicros += micros;
          if (use.isRefund) use.quantityMs += (micros / money.priceMicros) * priceUnitMs(money.meter);
        }
        if (money.fromLedger === 'uncollected') row.uncollectedMicros += micros;
      }
  }
  const found = [...rows.values()];
  const finished: ReportRow[] = [];
  for (let from = 0; from < found.length; from += ROWS_AT_ONCE) {
    if (from > 0) await nextTurn(deps.time);
    finished.push(...found.slice(from, from + ROWS_AT_ONCE).map(inOneOrder));
  }
  return finished;
}

const inOneOrder = (row: ReportRow): ReportRow => ({
  ...row,
  ms: Object.fromEntries(meterStates.flatMap((state) => (row.ms[state] ? [[state, row.ms[state]]] : []))),
  prices: row.prices.toSorted(
    (one, other) =>
      meters.findIndex((meter) => meter === one.meter) - meters.findIndex((meter) => meter === other.meter) ||
      one.priceMicros - other.priceMicros ||
      Number(one.isRefund) - Number(other.isRefund),
  ),
});

export interface Description {
  name: string;
  typeId: string;
  regionId: string;
}

/** Describes the resource of each row by its last period. */
export async function describe<Row extends ReportRow>(
  { store }: ReportDeps,
  rows: readonly Row[],
): Promise<(Row & Description)[]> {
  const ids = rows.flatMap(({ lastId }) => (lastId === null ? [] : [lastId]));
  const periods = new Map((await periodsById(store.read, [...new Set(ids)])).map((period) => [period.id, period]));
  return rows.map((row) => {
    const { subjectName: name = '', typeId = '', regionId = '' } = periods.get(row.lastId ?? 0) ?? {};
    return { ...row, name, typeId, regionId };
  });
}
