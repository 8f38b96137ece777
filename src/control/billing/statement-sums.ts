/** Sums of a span for a statement: what moved the balances, and the usage of each meter. */
import { meterStates, meters, type Meter, type MeterState } from '../../domain/meter.ts';
import { creditKinds, type CreditKind } from '../../domain/purse.ts';
import { overlapMs, type TimeSpan } from '../../domain/usage-buckets.ts';
import { oneOf } from '../../store/db/columns.ts';
import {
  closedTime,
  meteredSums,
  openPeriodsBefore,
  otherSums,
  paidFrom,
  type Charges,
  type OtherSum,
} from '../../store/tables/book-sums.ts';
import { moneyOf } from '../../store/tables/ledger.ts';
import type { Store } from '../../store/store.ts';
import type { Time } from '../base/time.ts';
import { addTime, nextTurn, revenueOf, spanUntilNow, type TimeByState } from './resource-lines.ts';

export interface SumDeps {
  store: Pick<Store, 'read' | 'kind'>;
  time: Pick<Time, 'now' | 'after'>;
}

interface Movement {
  kind: string;
  ledger: CreditKind;
  amountMicros: number;
}

export interface Money {
  balances: { ledger: CreditKind; openingMicros: number; closingMicros: number }[];
  /** Signed sums by kind and ledger; they are the differences of the balances. */
  movements: Movement[];
}

interface MeterTime {
  periods: number;
  ms: TimeByState;
}

export interface MeterSum extends MeterTime {
  meter: Meter;
  amountMicros: number;
}

const MAX_TRIES = 5;
const SLICE_MS = 5 * 24 * 3_600_000;
const END_OF_TIME_MS = Number.MAX_SAFE_INTEGER;

export interface Moved {
  metered: Charges;
  others: OtherSum[];
}

function* slices({ store, time }: SumDeps, { fromMs, untilMs }: TimeSpan): Generator<TimeSpan> {
  let from = fromMs;
  const lastMs = Math.min(untilMs, time.now());
  while (store.kind === 'sqlite' && from + SLICE_MS < lastMs) {
    yield { fromMs: from, untilMs: from + SLICE_MS };
    from += SLICE_MS;
  }
  yield { fromMs: from, untilMs };
}

async function moved(deps: SumDeps, accountId: string, span: TimeSpan): Promise<Moved> {
  const metered: Charges = {
    bySource: { cash: 0, voucher: 0, credit: 0, uncollected: 0 },
    byMeter: { compute: 0, disks: 0, volume: 0, snapshot: 0 },
  };
  for (const slice of slices(deps, span)) {
    const { bySource, byMeter } = await meteredSums(deps.store.read, accountId, slice);
    for (const source of paidFrom) metered.bySource[source] += bySource[source];
    for (const meter of meters) metered.byMeter[meter] += byMeter[meter];
    await nextTurn(deps.time);
  }
  return { metered, others: await otherSums(deps.store.read, accountId, span) };
}

/** Again if a booking came between: the balances are those of now, taken back. */
export async function moneyIn(deps: SumDeps, accountId: string, span: TimeSpan): Promise<Money & { moved: Moved }> {
  for (let tries = 1; ; tries += 1) {
    const before = await moneyOf(deps.store.read, accountId);
    const since = await moved(deps, accountId, { fromMs: span.untilMs, untilMs: END_OF_TIME_MS });
    const month = await moved(deps, accountId, span);
    const after = await moneyOf(deps.store.read, accountId);
    const isSteady = creditKinds.every((ledger) => before[ledger] === after[ledger]);
    if (!isSteady && tries < MAX_TRIES) continue;
    const movements = movementsOf(month);
    const sum = (list: typeof movements, ledger: CreditKind): number =>
      list.reduce((total, one) => (one.ledger === ledger ? total + one.amountMicros : total), 0);
    const later = movementsOf(since);
    return {
      moved: month,
      movements,
      balances: creditKinds.map((ledger) => {
        const closingMicros = after[ledger] - sum(later, ledger);
        return { ledger, closingMicros, openingMicros: closingMicros - sum(movements, ledger) };
      }),
    };
  }
}

/** Time and number of periods, by meter. */
export async function meterTimes(deps: SumDeps, accountId: string, span: TimeSpan): Promise<Map<Meter, MeterTime>> {
  const {
    store: { read: db },
    time,
  } = deps;
  const nowMs = time.now();
  const found = new Map(meters.map((meter): [Meter, MeterTime] => [meter, { periods: 0, ms: {} }]));
  const add = (meter: Meter, state: MeterState, { periods, lasted }: { periods: number; lasted: number }): void => {
    const sums = found.get(meter);
    if (!sums) return;
    sums.periods += periods;
    addTime(sums.ms, state, lasted);
  };
  for (const slice of slices(deps, { fromMs: span.fromMs, untilMs: END_OF_TIME_MS })) {
    const closed = { afterMs: slice.fromMs, upToMs: slice.untilMs };
    for (const { meter, state, periods, ms } of await closedTime(db, accountId, span, closed))
      add(meter, state, { periods, lasted: ms });
    await nextTurn(time);
  }
  for (const period of await openPeriodsBefore(db, accountId, span.untilMs)) {
    const lasted = overlapMs(spanUntilNow(period, nowMs), span);
    add(oneOf(meters, period.meter), oneOf(meterStates, period.state), { periods: 1, lasted });
  }
  return found;
}

export const meterSums = (times: ReadonlyMap<Meter, MeterTime>, { metered, others }: Moved): MeterSum[] =>
  [...times]
    .map(([meter, time]) => {
      const other = others.filter((one) => one.meter === meter).reduce((sum, one) => sum + revenueOf(one), 0);
      return { meter, ...time, amountMicros: metered.byMeter[meter] + other };
    })
    .filter(({ periods, amountMicros }) => periods > 0 || amountMicros !== 0);

/** Signed by what the account can spend. */
function movementsOf({ metered, others }: Moved): Movement[] {
  const sums = new Map<string, Movement>();
  const add = (kind: string, ledger: CreditKind, amountMicros: number): void => {
    const key = `${kind} ${ledger}`;
    sums.set(key, { kind, ledger, amountMicros: amountMicros + (sums.get(key)?.amountMicros ?? 0) });
  };
  for (const { kind, fromLedger, toLedger, amountMicros } of others)
    for (const ledger of creditKinds) {
      if (ledger === toLedger) add(kind, ledger, amountMicros);
      if (ledger === fromLedger) add(kind, ledger, -amountMicros);
    }
  for (const ledger of creditKinds) add('charge', ledger, -metered.bySource[ledger]);
  return [...sums.values()].filter(({ amountMicros }) => amountMicros !== 0);
}
