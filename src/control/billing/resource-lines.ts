/** Lines of a statement: time and charges of each resource and meter within a span. */
import { meterStates, type MeterState } from '../../domain/meter.ts';
import { overlapMs, type TimeSpan } from '../../domain/usage-buckets.ts';
import { oneOf } from '../../store/db/columns.ts';
import {
  crossingPeriods,
  openPeriodsBefore,
  otherEntries,
  periodCharges,
  resourceTime,
} from '../../store/tables/book-sums.ts';
import { periodsById } from '../../store/tables/book-pages.ts';
import type { EntryRow } from '../../store/tables/ledger.ts';
import type { PeriodRow } from '../../store/tables/usage-periods.ts';
import type { Db } from '../../store/store.ts';
import type { Time } from '../base/time.ts';

export type TimeByState = Partial<Record<MeterState, number>>;

export interface ResourceLine {
  subjectId: string;
  /** '' for payments without usage. */
  meter: string;
  name: string;
  typeId: string;
  regionId: string;
  periods: number;
  ms: TimeByState;
  /** Charged milliseconds × GB, or × 1 for an instance that runs. */
  quantityMs: number;
  amountMicros: number;
}

/** Revenue of an entry, negative for a refund. */
export const revenueOf = ({ fromLedger, toLedger, amountMicros }: OtherAmount): number =>
  toLedger === 'revenue' ? amountMicros : fromLedger === 'revenue' ? -amountMicros : 0;

type OtherAmount = Pick<EntryRow, 'fromLedger' | 'toLedger' | 'amountMicros'>;

/** Span of a period so far: what costs money counts up to its last booking. */
export const spanUntilNow = (
  { openedAtMs, closedAtMs, chargedUntilMs, isCharging }: PeriodRow,
  nowMs: number,
): TimeSpan => ({
  fromMs: openedAtMs,
  untilMs: closedAtMs ?? Math.max(openedAtMs, isCharging === 1 ? chargedUntilMs : nowMs),
});

export const addTime = (ms: TimeByState, state: MeterState, lastedMs: number): void => {
  ms[state] = (ms[state] ?? 0) + lastedMs;
};

/** SQLite reads on this thread: long sums let other requests in between. */
export const nextTurn = (time: Pick<Time, 'after'>): Promise<void> =>
  new Promise((resolve) => void time.after(0, resolve));

const MAX_ENTRIES = 100_000;

/** Lines in order of the resources' ids. */
export async function resourceLines(
  db: Db,
  accountId: string,
  span: TimeSpan,
  { subjectIds, nowMs }: { subjectIds: readonly string[]; nowMs: number },
): Promise<ResourceLine[]> {
  if (subjectIds.length === 0) return [];
  const closed = await resourceTime(db, accountId, span, subjectIds);
  const open = await openPeriodsBefore(db, accountId, span.untilMs, subjectIds);
  const crossing = [
    ...(await crossingPeriods(db, accountId, span, subjectIds)),
    ...open.filter(({ state }) => state === 'charged'),
  ];
  const charges = await periodCharges(
    db,
    span,
    crossing.map(({ id }) => id),
  );
  const last = await periodsById(
    db,
    closed.map(({ lastId }) => lastId),
  );
  const lines = new Map<string, ResourceLine & { lastId: number }>();
  const lineOf = (subjectId: string, meter: string): ResourceLine & { lastId: number } => {
    const key = `${subjectId} ${meter}`;
    const facts = { name: '', typeId: '', regionId: '', lastId: 0 };
    const line = lines.get(key) ?? { subjectId, meter, ...facts, periods: 0, ms: {}, quantityMs: 0, amountMicros: 0 };
    lines.set(key, line);
    return line;
  };
  const describe = (line: ResourceLine & { lastId: number }, period: PeriodRow): void => {
    if (period.id < line.lastId) return;
    const { id: lastId, subjectName: name, typeId, regionId } = period;
    Object.assign(line, { lastId, name, typeId, regionId });
  };
  for (const { subjectId, meter, state, periods, ms, quantityMs, chargedMicros } of closed) {
    const line = lineOf(subjectId, meter);
    line.periods += periods;
    addTime(line.ms, state, ms);
    if (state === 'charged') line.quantityMs += quantityMs;
    line.amountMicros += chargedMicros;
  }
  for (const period of open) {
    const line = lineOf(period.subjectId, period.meter);
    line.periods += 1;
    const lasted = overlapMs(spanUntilNow(period, nowMs), span);
    addTime(line.ms, oneOf(meterStates, period.state), lasted);
    if (period.state === 'charged') line.quantityMs += lasted * period.quantity;
  }
  for (const period of [...last, ...open]) describe(lineOf(period.subjectId, period.meter), period);
  for (const { id, subjectId, meter } of crossing) lineOf(subjectId, meter).amountMicros += charges.get(id) ?? 0;
  for (const entry of await otherEntries(db, accountId, span, { subjectIds, limit: MAX_ENTRIES }))
    if (revenueOf(entry) !== 0) lineOf(entry.subjectId, entry.meter).amountMicros += revenueOf(entry);
  return [...lines.values()]
    .toSorted((one, other) => compare(one.subjectId, other.subjectId) || compare(one.meter, other.meter))
    .map(({ lastId: _lastId, ...line }) => line);
}

const compare = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0);
