/** Tells the costs of a launch: runs it in a transaction that is rolled back. */
import { toDollars, type ChargeMode, type InstanceType, type Micros } from '../../../domain/regions/catalog.ts';
import type { Instance } from '../../../domain/compute/instance.ts';
import { dataDiskGB, dockerDiskGB } from '../../../domain/compute/instance-disks.ts';
import { hourlyMicros, isHourly, STORAGE_UNIT_MS } from '../../../domain/money/meter.ts';
import { burnRate, lastingMs, type Cost } from '../../../domain/money/money-ladder.ts';
import { begin } from '../../../domain/money/paid-time.ts';
import { availableFor, spend, type Purse } from '../../../domain/money/purse.ts';
import {
  cheapestStart,
  lastsHours,
  paidAheadMicros,
  perDayMicros,
  perHourMicros,
  QUOTE_MS,
  runMicros,
  startMs,
  unitOf,
  type Offer,
} from '../../../domain/money/offer.ts';
import { nextWindow, type OpenSpan } from '../../../domain/regions/off-peak.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import type { Db, Store } from '../../../store/store.ts';
import { accountById } from '../../../store/tables/accounts.ts';
import { storagePriceOf } from '../../../store/tables/catalog.ts';
import { purseOf } from '../../../store/tables/ledger.ts';
import { paidTimeOf } from '../../../store/tables/paid-times.ts';
import { scheduledPrices, type PriceChange } from '../../../store/tables/price-changes.ts';
import type { LaunchInput } from '../instances/instances.ts';
import { typeNotFound, writeLaunch, type LaunchDeps } from '../instances/launch.ts';
import { notLoggedIn } from '../../access/ports.ts';
import type { Caller } from '../../kernel/ports.ts';
import { costOfRun, costsOf, purchaseOf, timeZoneOf } from '../../money/ports.ts';

/** Amounts are dollars. */
export interface Quote {
  quoteId: string;
  chargeMode: ChargeMode;
  duration: number;
  price: number;
  unit: 'hour' | 'day' | 'week' | 'month';
  pricePerHour: number;
  pricePerDay: number;
  /** Paid at the launch. */
  total: number;
  stoppedPricePerHour: number;
  available: number;
  burnRatePerHour: number;
  /** Null: nothing is charged. */
  balanceLastsHours: number | null;
  stockStatus: 'InStock' | 'OutOfStock';
  expiresAtUnixMs: number;
  /** Now, or the next off-peak window. */
  startsAtUnixMs: number;
  stops: QuotedStop[];
  /** Null for what is paid ahead. */
  cheapestStart: { chargeMode: ChargeMode; pricePerHour: number; atUnixMs: number } | null;
  /** Price of the type in the mode of the launch. */
  nextPriceChange: { price: number; atUnixMs: number } | null;
}

export interface QuotedStop {
  rule: 'longestRun' | 'paidTime' | 'offPeakEnd';
  /** Cost of the run until then. */
  cost: number;
  /** For an instance that is Running at its start. */
  atUnixMs: number;
}

export interface Quotes {
  /** Refuses what the launch would refuse, but not for capacity that is used up now. */
  quote(caller: Caller, request: LaunchInput): Promise<Quote>;
}

/** The time for which the launch that a quote tries may wait. */
const QUOTED_WAIT_MS = 3_600_000;

interface Tried {
  instance: Instance;
  /** Money and costs before the launch. */
  purse: Purse;
  costs: Cost[];
  keptDiskMicros: Micros;
  prices: InstanceType['pricesMicros'];
  /** The earliest first. */
  scheduled: PriceChange[];
  /** Off-peak window that is open now, or the next one. */
  window: OpenSpan | null;
  /** End of the time paid ahead. */
  paidUntilMs: number | null;
  stockStatus: Quote['stockStatus'];
  nowMs: number;
}

export const makeQuotes = (deps: LaunchDeps): Quotes => ({
  async quote(caller, request) {
    const tried = await tryLaunch(deps, caller, request);
    const { instance, purse, costs, window, nowMs } = tried;
    const { spec, priceMicros } = instance;
    const { chargeMode, duration } = spec;
    const offer: Offer = { chargeMode, duration, priceMicros };
    const expiresAtMs = nowMs + QUOTE_MS;
    const total = paidAheadMicros(offer);
    const isByHour = isHourly(chargeMode);
    const cheapest = cheapestStart(tried.prices, window, nowMs);
    const left = spend(purse, total, purchaseOf(instance), nowMs).purse;
    const lastsMs = lastingMs(left, isByHour ? [...costs, costOfRun(instance)] : costs, nowMs);
    return {
      quoteId: deps.quoteSigner.sign({ accountId: caller.accountId, body: request, priceMicros, expiresAtMs }),
      chargeMode,
      duration,
      price: toDollars(priceMicros),
      unit: unitOf[chargeMode],
      pricePerHour: toDollars(perHourMicros(offer)),
      pricePerDay: toDollars(perDayMicros(offer)),
      total: toDollars(total),
      stoppedPricePerHour: toDollars(stoppedMicros(tried)),
      available: toDollars(availableFor(purse, purchaseOf(instance), nowMs)),
      burnRatePerHour: toDollars(burnRate(costs)),
      balanceLastsHours: deps.metering.isBilled ? lastsHours(lastsMs) : null,
      stockStatus: tried.stockStatus,
      expiresAtUnixMs: expiresAtMs,
      startsAtUnixMs: startMs(chargeMode, window, nowMs),
      stops: stopsOf(tried, offer),
      cheapestStart: isByHour
        ? {
            chargeMode: cheapest.chargeMode,
            pricePerHour: toDollars(cheapest.priceMicros),
            atUnixMs: cheapest.atMs,
          }
        : null,
      nextPriceChange: nextPriceChange(tried),
    };
  },
});

function stopsOf({ instance, paidUntilMs, window, nowMs }: Tried, offer: Offer): QuotedStop[] {
  const stop = (rule: QuotedStop['rule'], atMs: number): QuotedStop => ({
    rule,
    cost: toDollars(runMicros(offer, atMs - fromMs)),
    atUnixMs: atMs,
  });
  const fromMs = startMs(offer.chargeMode, window, nowMs);
  const closesAtMs = offer.chargeMode === 'tidePerHour' ? (window?.closesAtMs ?? null) : null;
  const { maxRunMs } = instance.stopPolicy;
  return [
    ...(maxRunMs === null ? [] : [stop('longestRun', fromMs + maxRunMs)]),
    ...(closesAtMs === null ? [] : [stop('offPeakEnd', closesAtMs)]),
    ...(paidUntilMs === null || instance.spec.autoRenew ? [] : [stop('paidTime', paidUntilMs)]),
  ];
}

/** Prices that are due and not applied yet count as of now. */
function nextPriceChange({ instance: { spec }, prices, scheduled, nowMs }: Tried): Quote['nextPriceChange'] {
  for (const { fromMs, prices: later } of scheduled) {
    const price = later?.[spec.chargeMode];
    if (price !== undefined && BigInt(price) !== prices[spec.chargeMode])
      return { price: toDollars(BigInt(price)), atUnixMs: Math.max(fromMs, nowMs) };
  }
  return null;
}

const stoppedMicros = ({ instance: { spec }, keptDiskMicros }: Tried): Micros =>
  hourlyMicros({
    priceMicros: keptDiskMicros,
    quantity: dataDiskGB(spec) + (spec.enableDocker ? dockerDiskGB(spec) : 0),
    unitMs: STORAGE_UNIT_MS,
  });

/** Without capacity now, tries the launch that waits for it. */
async function tryLaunch(deps: LaunchDeps, caller: Caller, request: LaunchInput): Promise<Tried> {
  const catalog = await deps.readCatalog();
  const offPeak = catalog.regions.get(request.region)?.offPeak ?? null;
  const attempt = (waitMs: number | null): Promise<Tried> =>
    rolledBack(deps.store, async (tx) => {
      const nowMs = deps.time.now();
      const account = await accountById(tx, caller.accountId);
      if (!account) throw notLoggedIn();
      // Before the launch, which pays ahead.
      const purse = await purseOf(tx, account);
      const costs = await costsOf(tx, caller.accountId);
      const type = catalog.types.get(request.instanceTypeId);
      const instance = await writeLaunch(tx, deps, catalog, { caller, request, waitMs, quoteId: null, nowMs });
      if (!type) throw typeNotFound(request.instanceTypeId);
      return {
        instance,
        purse,
        costs,
        keptDiskMicros: await storagePriceOf(tx, instance.spec.regionId, 'keptDisk'),
        prices: type.pricesMicros,
        scheduled: await scheduledPrices(tx, { regionId: type.regionId, typeId: type.id }),
        window: offPeak && nextWindow(offPeak, nowMs),
        paidUntilMs: await paidUntil(tx, instance, nowMs),
        stockStatus: waitMs === null ? 'InStock' : 'OutOfStock',
        nowMs,
      };
    });
  try {
    return await attempt(null);
  } catch (error) {
    if (!(error instanceof Refusal) || error.code !== 'no_capacity') throw error;
    return attempt(QUOTED_WAIT_MS);
  }
}

async function paidUntil(tx: Db, { id, spec }: Instance, nowMs: number): Promise<number | null> {
  const paid = await paidTimeOf(tx, id);
  return paid ? begin(paid, nowMs, await timeZoneOf(tx, spec.regionId)).endsAtMs : null;
}

class RolledBack<Answer> extends Error {
  readonly answer: Answer;

  constructor(answer: Answer) {
    super('rolled back on purpose');
    this.answer = answer;
  }
}

async function rolledBack<Answer>(store: Store, work: (tx: Db) => Promise<Answer>): Promise<Answer> {
  let undo: RolledBack<Answer> | null = null;
  try {
    return await store.write<never>(async (tx) => {
      undo = new RolledBack(await work(tx));
      throw undo;
    });
  } catch (error) {
    if (undo !== null && error === undo) return (undo as RolledBack<Answer>).answer;
    throw error;
  }
}
