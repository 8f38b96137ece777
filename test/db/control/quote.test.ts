/** Quotes: the costs of a launch beforehand, and a launch at the quoted price. */
import { expect, test } from 'vitest';
import type { Caller } from '../../../src/control/index.ts';
import type { LaunchInput } from '../../../src/control/compute/instances/instances.ts';
import { weekdays, type OffPeak } from '../../../src/domain/regions/off-peak.ts';
import { onBothEngines, type Open } from '../../fixtures/store.ts';
import { hasStatus, makeWorld, type World, type WorldOptions } from '../../fixtures/control.ts';
import { expectRefused, keyed } from './access-fixture.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

async function openWorld(open: Open, options: WorldOptions = {}) {
  const clock = { aheadMs: 0 };
  const world = await makeWorld(await open(), { clock, start: false, ...options });
  const { control } = world.running;
  const quote = (over: Partial<LaunchInput> = {}, caller = world.caller) =>
    control.quotes.quote(caller, world.launchInput(over));
  const launch = (quoteId: string, over: Partial<LaunchInput> = {}, caller = world.caller) =>
    control.instances.launch(caller, world.launchInput(over), null, null, quoteId);
  return { world, clock, control, quote, launch };
}

/** Everything that a launch writes. */
async function written({ store }: World): Promise<unknown> {
  const tables = [
    'paidTime',
    'instance',
    'event',
    'usagePeriod',
    'entry',
    'account',
    'region',
    'pool',
    'disk',
    'nodePort',
  ] as const;
  return Promise.all(tables.map((table) => store.read.selectFrom(table).selectAll().execute()));
}

async function setPrice(world: World, price: number, chargeMode: 'perHour' | 'perWeek' = 'perHour'): Promise<void> {
  const { offeredTypes } = world.running.control;
  const [type] = (await offeredTypes.list({ currentPage: 1, pageSize: 1 })).types;
  if (!type) throw new Error('no type is offered');
  const { instanceTypeId, version, prices } = type;
  await offeredTypes.update(
    world.caller,
    { instanceTypeId, version, dryRun: false, prices: { ...prices, [chargeMode]: price } },
    null,
  );
}

async function setOffPeak(world: World, offPeak: OffPeak | null): Promise<void> {
  const { regionAdministration } = world.running.control;
  const { regionId } = world.drivers;
  const { version } = (await regionAdministration.get(regionId)).region;
  await regionAdministration.update(world.caller, { regionId, version, dryRun: false, offPeak }, null);
}

const priceOf = async ({ store }: World, { instanceId }: { instanceId: string }): Promise<number | undefined> =>
  (await store.read.selectFrom('instance').select('priceMicros').where('id', '=', instanceId).executeTakeFirst())
    ?.priceMicros;

onBothEngines('a quote', (open) => {
  test('tells price, paid-ahead total, kept disks, and how long the money lasts, and writes nothing', async () => {
    const { world, quote } = await openWorld(open, { stopPolicyRules: { capRunMs: 8 * HOUR_MS, idle: null } });
    await setOffPeak(world, null);
    const before = await written(world);
    const hourly = await quote();
    expect(hourly).toEqual({
      quoteId: expect.any(String),
      expiresAtUnixMs: expect.any(Number),
      chargeMode: 'perHour',
      duration: 1,
      price: 0.02,
      unit: 'hour',
      pricePerHour: 0.02,
      pricePerDay: 0.48,
      total: 0,
      // 20 GB at $0.05 for 720 hours.
      stoppedPricePerHour: 0.001388,
      startsAtUnixMs: expect.any(Number),
      stops: [{ rule: 'longestRun', atUnixMs: expect.any(Number), cost: 0.16 }],
      cheapestStart: { chargeMode: 'perHour', pricePerHour: 0.02, atUnixMs: hourly.startsAtUnixMs },
      nextPriceChange: null,
      available: 1_000,
      burnRatePerHour: 0,
      balanceLastsHours: 50_000,
      stockStatus: 'InStock',
    });
    const [stop] = hourly.stops;
    expect(hourly.expiresAtUnixMs - Date.now()).toBeGreaterThan(4 * MINUTE_MS);
    expect((stop?.atUnixMs ?? 0) - (hourly.expiresAtUnixMs - 5 * MINUTE_MS)).toBe(8 * HOUR_MS);
    const weekly = await quote({ billing: { chargeMode: 'perWeek', duration: 2 } });
    expect(weekly).toMatchObject({ unit: 'week', duration: 2, balanceLastsHours: null });
    expect(weekly.total).toBe(weekly.price * 2);
    expect(await written(world)).toEqual(before);
  });

  test('tells the next off-peak window, its end, and the cheapest start', async () => {
    const { world, quote } = await openWorld(open, { stopPolicyRules: { capRunMs: HOUR_MS, idle: null } });
    const opensAtMs = Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS + 2 * HOUR_MS;
    const closesAtMs = opensAtMs + 3 * HOUR_MS;
    const [start = '', end = ''] = [opensAtMs, closesAtMs].map((ms) => new Date(ms).toISOString().slice(11, 16));
    await setOffPeak(world, { timeZone: 'UTC', windows: [{ days: [...weekdays], start, end }] });
    const tide = await quote({ billing: { chargeMode: 'tidePerHour', duration: 1 } });
    const cheapestStart = { chargeMode: 'tidePerHour', pricePerHour: 0.01, atUnixMs: opensAtMs };
    expect(tide).toMatchObject({ pricePerHour: 0.01, total: 0, startsAtUnixMs: opensAtMs, cheapestStart });
    expect(tide.stops).toEqual([
      { rule: 'longestRun', atUnixMs: opensAtMs + HOUR_MS, cost: 0.01 },
      { rule: 'offPeakEnd', atUnixMs: closesAtMs, cost: 0.03 },
    ]);
    const hourly = await quote();
    expect(hourly).toMatchObject({ cheapestStart, stops: [{ rule: 'longestRun' }] });
    expect(hourly.startsAtUnixMs).toBeLessThan(opensAtMs);
    expect((await quote({ billing: { chargeMode: 'perDay', duration: 1 } })).cheapestStart).toBeNull();
  });

  test('tells what is paid ahead and until when, and the launch pays the quoted price', async () => {
    const { world, quote, launch } = await openWorld(open);
    const billing = { chargeMode: 'perWeek', duration: 2 } as const;
    const { quoteId, total, price, stops } = await quote({ billing });
    expect(total).toBe(2 * price);
    const days = ((stops[0]?.atUnixMs ?? 0) - Date.now()) / (24 * HOUR_MS);
    expect(stops).toEqual([{ rule: 'paidTime', atUnixMs: expect.any(Number), cost: total }]);
    expect(Math.round(days)).toBe(14);
    const renewed = { ...billing, autoRenew: true };
    expect((await quote({ billing: renewed })).stops).toEqual([]);
    await setPrice(world, 9, 'perWeek');
    const { instanceId } = await launch(quoteId, { billing });
    const paid = await world.store.read
      .selectFrom('entry')
      .select('amountMicros')
      .where('subjectId', '=', instanceId)
      .where('kind', '=', 'prepayment')
      .execute();
    expect(paid).toEqual([{ amountMicros: Math.round(total * 1e6) }]);
  });

  test('counts what runs, and money that the launch can spend', async () => {
    const { world, quote, control } = await openWorld(open, { start: true });
    const ann = await world.account('ann', 1);
    const { instanceId } = await control.instances.launch(ann, world.launchInput(), null);
    await world.until(instanceId, hasStatus('Running'));
    const give = { username: 'ann', amount: 1, kind: 'voucher', reason: 'test' } as const;
    await control.credits.give(world.caller, { ...give, scope: { meter: 'compute' } }, null);
    await control.credits.give(world.caller, { ...give, scope: { meter: 'volume' } }, null);
    await control.credits.setOverdraft(world.caller, { username: 'ann', overdraft: 2 }, null);
    const { available, burnRatePerHour, balanceLastsHours } = await quote({}, ann);
    expect({ available: Math.round(available * 1_000) / 1_000, burnRatePerHour }).toEqual({
      available: 4,
      burnRatePerHour: 0.02,
    });
    // $3 of cash and overdraft and a voucher pay two runs; the other voucher pays none.
    expect(balanceLastsHours).toBeCloseTo(100, 0);
    expect((await quote()).burnRatePerHour).toBe(0);
    // What is paid ahead no longer pays the run: of $4, a day takes $0.432.
    const ahead = await quote({ billing: { chargeMode: 'perDay', duration: 1 } }, ann);
    expect(ahead.total).toBe(0.432);
    expect(ahead.balanceLastsHours).toBeCloseTo((4 - 0.432) / 0.02, 0);
  });

  test('refuses what the launch refuses, and names what is missing', async () => {
    const { world, quote } = await openWorld(open);
    const poor = await world.account('poor', 0.005);
    await expectRefused(quote({}, poor), 'no_balance', /\$0.015 is missing/);
    const billing = { chargeMode: 'perMonth', duration: 1_000_000 } as const;
    await expectRefused(quote({ billing }), 'no_balance', /is missing/);
    await expectRefused(quote({ imageId: 'nothing' }), 'not_found', /image nothing/);
    await expectRefused(quote({ instanceTypeId: 'nothing' }), 'not_found', /type nothing/);
    await expectRefused(quote({ isSpotInstance: true }), 'field_value', /isSpotInstance/);
  });

  test('tells when there is no capacity instead of a refusal', async () => {
    const machine = { cpuCores: 1, memoryMiB: 4 * 1024, architecture: 'amd64', gpus: [] };
    const { world, quote, control } = await openWorld(open, { machine });
    expect((await quote()).stockStatus).toBe('InStock');
    await control.instances.launch(world.caller, world.launchInput(), null);
    expect(await quote()).toMatchObject({ stockStatus: 'OutOfStock', price: 0.02 });
    await expectRefused(control.instances.launch(world.caller, world.launchInput(), null), 'no_capacity');
  });

  test('holds its price over changes in both directions, and is refused after its end', async () => {
    const { world, clock, quote, launch, control } = await openWorld(open);
    const { quoteId } = await quote();
    await setPrice(world, 5);
    clock.aheadMs += 4 * MINUTE_MS;
    expect(await priceOf(world, await launch(quoteId))).toBe(20_000);
    expect(await priceOf(world, await control.instances.launch(world.caller, world.launchInput(), null))).toBe(
      5_000_000,
    );
    await setPrice(world, 0.01);
    const body = world.launchInput();
    const key = keyed('one', '/instance/create');
    const first = await control.instances.launch(world.caller, body, key, null, quoteId);
    expect(await priceOf(world, first)).toBe(20_000);
    clock.aheadMs += MINUTE_MS;
    await expectRefused(launch(quoteId), 'not_now', /expired at .*instance\/quote/);
    expect(await control.instances.launch(world.caller, body, key, null, quoteId)).toEqual(first);
  });

  test('is of one account and one body, and cannot be forged', async () => {
    const { world, quote, launch } = await openWorld(open);
    const ann: Caller = await world.account('ann');
    const { quoteId } = await quote();
    const before = await written(world);
    await expectRefused(launch(quoteId, {}, ann), 'field_value', /another account/);
    await expectRefused(launch(quoteId, { name: 'other' }), 'field_value', /body differs/);
    await expectRefused(
      launch(quoteId, { billing: { chargeMode: 'perDay', duration: 1 } }),
      'field_value',
      /body differs/,
    );
    for (const forged of ['', 'x', `x${quoteId}`, quoteId.slice(1)])
      await expectRefused(launch(forged), 'field_value', /no quote of this server/);
    expect(await written(world)).toEqual(before);
  });
});
