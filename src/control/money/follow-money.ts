/**
 * The ladder of accounts whose money ends (`docs/reference/billing.md`): finds their steps.
 * `compute/auto-stop/enforce-money.ts` carries them out.
 */
import { toDollars } from '../../domain/regions/catalog.ts';
import { MINUTE_MS } from '../../domain/kernel/durations.ts';
import {
  burnRate,
  isAtLeast,
  joinCosts,
  lastingMs,
  lastsUntilMs,
  nextMoneyState,
  withMoney,
  type Cost,
  type MoneyState,
  type MoneyStep,
} from '../../domain/money/money-ladder.ts';
import { availableFor } from '../../domain/money/purse.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import type { Db } from '../../store/store.ts';
import { saveSetting, setting } from '../../store/tables/catalog.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { lockWallets, walletsOf, type Wallet } from '../../store/tables/ledger.ts';
import {
  chargedPeriodsAfter,
  costOfPeriod,
  limitedAccounts,
  moneyStateOf,
  shiftMoneyDates,
  writeMoneyState,
} from '../../store/tables/money-steps.ts';
import { costsOf } from './refuse-unpaid.ts';
import type { Metering } from './metering.ts';
import type { TaskDeps } from '../kernel/ports.ts';

export interface FollowMoneyDeps extends Pick<TaskDeps, 'store' | 'time' | 'log'> {
  metering: Metering;
}

const PAGE_SIZE = 1_000;
/** Longer without a run, Berth was off; that time is no part of the days until a deletion. */
const MAX_OFF_MS = 60 * MINUTE_MS;
const LAST_RUN = 'billing.ladderRanAt';

const eventOf: Readonly<Record<MoneyStep, string>> = {
  none: 'billing.recovered',
  forecast: 'billing.forecast',
  warn: 'billing.warned',
  noStarts: 'billing.startsRefused',
  stop: 'billing.stopped',
  archive: 'billing.archived',
  delete: 'billing.deleted',
};

const isSame = (one: MoneyState, other: MoneyState): boolean =>
  one.step === other.step && one.deleteWarnedAtMs === other.deleteWarnedAtMs;

export function makeFollowMoney(deps: FollowMoneyDeps): () => Promise<void> {
  const { store, metering, time, log } = deps;
  const { clock, moneyRules: rules } = metering;
  let fullPassAtMs = -Infinity;
  let seenBookings = 0;
  let savedAtMs = -Infinity;

  /** Null: the account stays as it is. */
  async function nextOf(db: Db, { accountId, purse }: Wallet) {
    const before = await moneyStateOf(db, accountId);
    const nowMs = clock.now();
    const costs = metering.isBilled ? await costsOf(db, accountId) : [];
    const leftMs = lastingMs(purse, costs, nowMs);
    const next = nextMoneyState(before, { leftMs, nowMs }, rules);
    return isSame(before, next) ? null : { before, next, costs, leftMs, nowMs };
  }

  /** Reads first: nearly no look changes anything, and a write locks the account. */
  async function moveAccount(accountId: string): Promise<void> {
    const seen = (await walletsOf(store.read, [accountId])).get(accountId);
    if (!seen || (await nextOf(store.read, seen)) === null) return;
    await store.write(async (tx) => {
      const wallet = (await lockWallets(tx, [accountId])).get(accountId);
      const move = wallet && (await nextOf(tx, wallet));
      if (!move) return;
      const { before, next, costs, leftMs, nowMs } = move;
      await writeMoneyState(tx, accountId, next);
      if (next.deleteAtMs !== null || next.archiveAtMs !== null) await saveSetting(tx, LAST_RUN, String(nowMs));
      const kind = before.step === next.step ? 'billing.deletionWarned' : eventOf[next.step];
      const data = {
        burnRate: toDollars(burnRate(costs)),
        lastsUntilUnixMs: lastsUntilMs(leftMs, nowMs),
        archiveAtUnixMs: next.archiveAtMs,
        deleteAtUnixMs: next.deleteAtMs,
      };
      await appendEvent(tx, { accountId, atMs: time.now(), kind, subjectId: accountId, data });
    });
  }

  const move = (accountId: string): Promise<void> =>
    moveAccount(accountId).catch((error: unknown) =>
      log.warn({ accountId, err: error }, 'could not follow the money of an account; Berth retries'),
    );

  /** After bookings, and once a minute: money also leaves by other ways. */
  async function lookAtAll(): Promise<void> {
    if (metering.bookings() === seenBookings && clock.now() - fullPassAtMs < MINUTE_MS) return;
    [seenBookings, fullPassAtMs] = [metering.bookings(), clock.now()];
    for await (const accounts of chargedAccounts(store.read)) {
      const wallets = await walletsOf(store.read, accounts.keys());
      const nowMs = clock.now();
      for (const [accountId, { purse }] of wallets) {
        const leftMs = lastingMs(purse, accounts.get(accountId) ?? [], nowMs);
        if (nextMoneyState(withMoney, { leftMs, nowMs }, rules).step !== 'none') await move(accountId);
      }
    }
  }

  async function omitTimeOff(): Promise<void> {
    const nowMs = clock.now();
    const isFirst = savedAtMs === -Infinity;
    if (nowMs - savedAtMs < MINUTE_MS) return;
    const ranAtMs = Number((await setting(store.read, LAST_RUN)) ?? nowMs);
    const offMs = nowMs - ranAtMs;
    await store.write(async (tx) => {
      await saveSetting(tx, LAST_RUN, String(nowMs));
      if (!isFirst || offMs < MAX_OFF_MS) return;
      for (const accountId of await shiftMoneyDates(tx, offMs)) {
        const { archiveAtMs, deleteAtMs } = await moneyStateOf(tx, accountId);
        const data = { archiveAtUnixMs: archiveAtMs, deleteAtUnixMs: deleteAtMs };
        await appendEvent(tx, { accountId, atMs: time.now(), kind: 'billing.postponed', subjectId: accountId, data });
      }
    });
    savedAtMs = nowMs;
  }

  return async () => {
    const limited = await limitedAccounts(store.read);
    if ([...limited.values()].some((step) => isAtLeast(step, 'stop'))) await omitTimeOff();
    for (const accountId of limited.keys()) await move(accountId);
    if (!metering.isBilled) return;
    await lookAtAll();
  };
}

/** Costs by account, of all accounts with charged periods, page by page. */
async function* chargedAccounts(db: Db): AsyncGenerator<Map<string, Cost[]>> {
  let after = { accountId: '', id: 0 };
  let accounts = new Map<string, Cost[]>();
  for (;;) {
    const page = await chargedPeriodsAfter(db, after, PAGE_SIZE);
    for (const [accountId, periods] of Map.groupBy(page, ({ accountId: of }) => of))
      accounts.set(accountId, joinCosts([...(accounts.get(accountId) ?? []), ...periods.map(costOfPeriod)]));
    const last = page.at(-1);
    if (!last) break;
    after = last;
    // The last account may go on in the next page.
    const rest = accounts.get(last.accountId) ?? [];
    accounts.delete(last.accountId);
    yield accounts;
    accounts = new Map([[last.accountId, rest]]);
  }
  yield accounts;
}

/** Throws in the transaction, after the event has locked the account, when money has come. */
export const onlyWithoutMoney = (metering: Metering): Metering => ({
  ...metering,
  async appendEvent(tx, event, subject, change) {
    const appended = await metering.appendEvent(tx, event, subject, change);
    const { purse } = (await lockWallets(tx, [event.accountId])).get(event.accountId) ?? {};
    const meter = change.before?.meter ?? 'compute';
    const purchase = { regionId: subject.regionId, instanceTypeId: subject.typeId, meter };
    if (purse && availableFor(purse, purchase, metering.clock.now()) > 0n)
      throw new Refusal('not_now', 'the account has money again');
    return appended;
  },
});
