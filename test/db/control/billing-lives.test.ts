/**
 * Random lives through the real control. The calculator replays the rates of the event log; it must
 * come to the same charges and balances. Prices change at once and at set times; each period must
 * have the price of the moment at which it was agreed.
 */
import { expect, test } from 'vitest';
import { makeChargeUsage } from '../../../src/control/money/charge-usage.ts';
import { makeMetering } from '../../../src/control/money/metering.ts';
import { realTime } from '../../../src/control/kernel/time.ts';
import { lastFullMinute } from '../../../src/domain/money/charge.ts';
import { makeWorld, type World } from '../../fixtures/control.ts';
import { atLevel } from '../../fixtures/level.ts';
import { makeRandom } from '../../fixtures/seeded-random.ts';
import { onBothEngines, type Open } from '../../fixtures/store.ts';
import { calculate, type Fact, type Meter } from '../../oracle/calculator.ts';
import { expectConsistent } from './consistency.ts';

const LIVES = atLevel({ short: 1, long: 40 });
const ACTS = 18;
const ignore = () => {};
const silent = { debug: ignore, info: ignore, warn: ignore, error: ignore };

/** Interval of the tasks of money. The world's own would book at moments that no fact tells. */
const CHARGE_INTERVAL_MS = 10_000;

/** A world whose clock stands still, except while `settle` waits for the reconcilers. */
async function frozenWorld(open: Open) {
  const origin = Date.UTC(2027, 1, 28, 12, 0, 7);
  const clock = { ms: 0 };
  const every: typeof realTime.every = (ms, fn) => (ms === CHARGE_INTERVAL_MS ? ignore : realTime.every(ms, fn));
  const time = { ...realTime, now: () => origin + clock.ms, elapsed: () => clock.ms, every };
  const world = await makeWorld(await open(), { time, limits: { stopGraceMs: 200 } });
  const settle = async (): Promise<void> => {
    for (let tries = 0; tries < 10_000; tries++) {
      const due = await Promise.all(
        (['instance', 'volume'] as const).map((table) =>
          world.store.read
            .selectFrom(table)
            .select('id')
            .where((eb) => eb.or([eb('dueAtMs', 'is not', null), eb('leaseOwner', 'is not', null)]))
            .execute(),
        ),
      );
      if (due.every((rows) => rows.length === 0)) return;
      clock.ms += 7;
      await new Promise((resolve) => setTimeout(resolve, 4));
    }
    throw new Error('the reconcilers have work left');
  };
  return { world, clock, time, origin, settle };
}

const isUnbooked = async ({ store }: World, untilMs: number): Promise<boolean> => {
  const late = store.read.selectFrom('usagePeriod').select('id').where('isCharging', '=', 1);
  return (await late.where('chargedUntilMs', '<', untilMs).executeTakeFirst()) !== undefined;
};

/** Facts of the event log: what each resource pays, at the times of its periods. */
async function replayed({ store, drivers, caller }: World, origin: number): Promise<Fact[]> {
  const events = await store.read.selectFrom('event').selectAll().where('accountId', '=', caller.accountId).execute();
  const periods = await store.read.selectFrom('usagePeriod').selectAll().execute();
  return events.flatMap(({ subjectId, seq, data }): Fact[] => {
    const { rate }: { rate?: { meter: Meter; state: string; price: number; quantity: number } | null } =
      JSON.parse(data);
    if (rate === undefined) return [];
    const period = periods.find((one) => one.subjectId === subjectId && [one.openSeq, one.closeSeq].includes(seq));
    if (!period) throw new Error(`event ${seq} opened and closed no period`);
    const at = (period.openSeq === seq ? period.openedAtMs : (period.closedAtMs ?? 0)) - origin;
    if (rate === null || rate.state !== 'charged') return [{ at, fact: 'rate', id: subjectId, price: 0, quantity: 0 }];
    const scope = { region: drivers.regionId };
    const price = Math.round(rate.price * 1e6);
    return [{ at, fact: 'rate', id: subjectId, meter: rate.meter, price, quantity: rate.quantity, scope }];
  });
}

/** Prices by the time from which they count. */
function priceHistory() {
  const all = [
    { fromMs: 0, compute: 20_000 },
    { fromMs: 0, volume: 50_000, disks: 50_000 },
  ] as { fromMs: number; compute?: number; volume?: number; disks?: number }[];
  const at = (meter: 'compute' | 'volume' | 'disks', ms: number): number | undefined =>
    all.findLast((one) => one[meter] !== undefined && one.fromMs <= ms)?.[meter];
  const add = (change: (typeof all)[number]): void => {
    all.splice(all.findLastIndex(({ fromMs }) => fromMs <= change.fromMs) + 1, 0, change);
  };
  return { at, add };
}

/** Changes prices of the type of launches, or of storage, now or later. */
async function reprice({ running, caller, types, drivers }: World, micros: readonly number[], fromMs?: number) {
  const [first = 0, second] = micros.map((price) => price / 1e6);
  const { offeredTypes, regionAdministration } = running.control;
  if (second === undefined) {
    const listed = (await offeredTypes.list({ currentPage: 1, pageSize: 10 })).types;
    const type = listed.find(({ instanceTypeId }) => instanceTypeId === types[0]?.id);
    if (!type) throw new Error('the type of launches is not offered');
    const { instanceTypeId, version, prices } = type;
    const change = {
      instanceTypeId,
      version,
      dryRun: false,
      prices: { ...prices, perHour: first },
      fromUnixMs: fromMs,
    };
    await offeredTypes.update(caller, change, null);
    return;
  }
  const { regionId } = drivers;
  const { version } = (await regionAdministration.get(regionId)).region;
  const storagePrices = { filesystem: first, highspeedstorage: 0.1, snapshot: 0.1, keptDisk: second };
  await regionAdministration.update(
    caller,
    { regionId, version, dryRun: false, storagePrices, fromUnixMs: fromMs },
    null,
  );
}

/** Periods whose price is not that of the moment at which their resource agreed to it. */
async function wrongPrices({ store }: World, origin: number, { at }: ReturnType<typeof priceHistory>) {
  const periods = await store.read.selectFrom('usagePeriod').selectAll().where('state', '=', 'charged').execute();
  const launches = await store.read.selectFrom('event').selectAll().where('kind', '=', 'instance.launched').execute();
  return periods.flatMap(({ subjectId, meter, priceMicros, openedAtMs }) => {
    if (meter !== 'compute' && meter !== 'volume' && meter !== 'disks') throw new Error(`unexpected meter ${meter}`);
    const launchedAtMs = launches.find((launch) => launch.subjectId === subjectId)?.atMs ?? 0;
    const agreed = at(meter, (meter === 'compute' ? launchedAtMs : openedAtMs) - origin);
    return agreed === priceMicros ? [] : [{ subjectId, meter, priceMicros, agreed }];
  });
}

onBothEngines('billing of random lives', (open) => {
  test.for(Array.from({ length: LIVES }, (_, life) => life))('agrees with the calculator in life %i', async (life) => {
    const { world, clock, time, origin, settle } = await frozenWorld(open);
    const random = makeRandom(`life ${life}`);
    const upTo = (most: number): number => Math.floor(random() * most);
    const { instances, volumes, credits } = world.running.control;
    const regions = { all: () => [world.drivers], of: () => world.drivers };
    const metering = makeMetering({ time, regions, isBilled: true });
    const makeCharge = () => makeChargeUsage({ store: world.store, regions, metering, log: silent, time });
    const [charge, another] = [makeCharge(), makeCharge()];
    const facts: Fact[] = [{ at: 0, fact: 'deposit', amount: 1_000_000_000 }];
    const prices = priceHistory();
    const own: { id: string; state: 'runs' | 'stopped' }[] = [];

    const book = async (): Promise<void> => {
      clock.ms += 1;
      const untilMs = lastFullMinute(time.now());
      metering.saw(world.drivers.regionId, time.now());
      facts.push({ at: clock.ms, fact: 'saw' }, { at: clock.ms, fact: 'booked' });
      await Promise.all([charge(), another()]);
      // A reconcile in hand keeps its instance from the booking, and hours pass here in no time.
      for (await charge(); await isUnbooked(world, untilMs); await makeCharge()()) await settle();
      clock.ms += 1;
    };
    const acts = [
      async () => {
        if (own.length > 2) return;
        const { instanceId } = await instances.launch(world.caller, world.launchInput(), null);
        own.push({ id: instanceId, state: 'runs' });
      },
      async () => {
        const one = own[upTo(own.length)];
        if (!one) return;
        if (one.state === 'runs') await instances.stop(world.caller, { instanceId: one.id }, null);
        else await instances.start(world.caller, { instanceId: one.id }, null);
        one.state = one.state === 'runs' ? 'stopped' : 'runs';
      },
      async () => {
        const one = own.find(({ state }) => state === 'runs');
        if (one) await instances.restart(world.caller, { instanceId: one.id }, null);
      },
      async () => {
        if (own.length < 2) return;
        const [one] = own.splice(upTo(own.length), 1);
        if (one) await instances.terminate(world.caller, { instanceId: one.id }, null);
      },
      async () => {
        const volume = { name: `v${clock.ms}`, sizeGB: 1 + upTo(9), volumeType: 'filesystem' as const };
        await volumes.create(world.caller, { ...volume, region: world.drivers.regionId }, null);
      },
      async () => {
        const kind = upTo(2) === 0 ? 'voucher' : 'credit';
        const amount = 1 + upTo(60_000);
        const expiresAt = time.now() + 60_000 * (1 + upTo(90));
        await credits.give(
          world.caller,
          { username: 'admin', amount: amount / 1e6, kind, expiresAt, reason: 'test' },
          null,
        );
        facts.push({ at: clock.ms, fact: 'give', given: { kind, amount, expiresAt } });
      },
      async () => {
        const micros = [1 + upTo(90_000), 1 + upTo(900_000)].slice(upTo(2));
        const inMs = upTo(3) === 0 ? 0 : 1 + upTo(40 * 60_000);
        const [first = 0, second] = micros;
        const change = second === undefined ? { compute: first } : { volume: first, disks: second };
        await reprice(world, micros, inMs === 0 ? undefined : time.now() + inMs);
        prices.add({ fromMs: clock.ms + inMs, ...change });
      },
      book,
    ];
    for (let count = 0; count < ACTS; count++) {
      await world.running.applyPrices();
      await acts[count === 0 ? 0 : upTo(acts.length)]?.();
      await settle();
      for (let passes = upTo(4); passes > 0; passes--) {
        clock.ms += upTo(20 * 60_000);
        await book();
      }
    }
    await expectConsistent(world);
    expect(await wrongPrices(world, origin, prices)).toEqual([]);

    const all = [...facts, ...(await replayed(world, origin))].toSorted((one, other) => one.at - other.at);
    const { lines, balances } = calculate(all, { origin });
    const entries = await world.store.read.selectFrom('entry').selectAll().where('kind', '=', 'charge').execute();
    const charged = new Map<string, bigint>();
    for (const { subjectId, meter, amountMicros } of entries) {
      const name = `${subjectId} ${meter}`;
      charged.set(name, (charged.get(name) ?? 0n) + BigInt(amountMicros));
    }
    const costs = lines
      .filter(({ booked }) => booked > 0n)
      .map(({ resource, meter, booked }) => [`${resource} ${meter}`, booked]);
    expect(Object.fromEntries(charged)).toEqual(Object.fromEntries(costs));
    const account = await world.store.read
      .selectFrom('account')
      .selectAll()
      .where('id', '=', world.caller.accountId)
      .executeTakeFirstOrThrow();
    expect([account.balanceMicros, account.voucherMicros, account.creditMicros].map(BigInt)).toEqual([
      balances.cash,
      balances.voucher,
      balances.credit,
    ]);
  });
});
