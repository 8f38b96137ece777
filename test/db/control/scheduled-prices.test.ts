/** Prices for a later time: when they count, for whom, and how they are taken back. */
import { expect, test } from 'vitest';
import type { ChargeMode } from '../../../src/domain/regions/catalog.ts';
import { eventually, makeWorld, type World, type WorldOptions } from '../../fixtures/control.ts';
import { onBothEngines, type Open } from '../../fixtures/store.ts';
import { expectRefused, keyed } from './access-fixture.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const page = { currentPage: 1, pageSize: 100 };
const storagePrices = { filesystem: 0.2, highspeedstorage: 0.3, snapshot: 0.1, keptDisk: 0.4 };

async function openWorld(open: Open, options: WorldOptions = {}) {
  const clock = { aheadMs: 0 };
  const world = await makeWorld(await open(), { clock, start: false, ...options });
  const { regionId } = world.drivers;
  const { control } = world.running;
  const nowMs = world.now;
  const typeNow = async () => {
    const [type] = (await control.offeredTypes.list(page)).types;
    if (!type) throw new Error('no type is offered');
    return type;
  };
  const setPrice = async (
    perHour: number,
    more: { fromUnixMs?: number; dryRun?: boolean; name?: string } = {},
    key = '',
  ) => {
    const { instanceTypeId, version, prices } = await typeNow();
    const change = { instanceTypeId, version, dryRun: false, prices: { ...prices, perHour }, ...more };
    return control.offeredTypes.update(world.caller, change, key === '' ? null : keyed(key, key));
  };
  const setStorage = async (fromMs: number, prices: typeof storagePrices | null = storagePrices) => {
    const { version } = (await control.regionAdministration.get(regionId)).region;
    const change = { regionId, version, dryRun: false, storagePrices: prices, fromUnixMs: fromMs };
    return control.regionAdministration.update(world.caller, change, null);
  };
  const listed = async () => {
    const { instanceTypeId } = await typeNow();
    return (await control.priceHistory.list({ instanceTypeId }, page)).changes;
  };
  const launched = async (): Promise<number> => {
    const { instanceId } = await control.instances.launch(world.caller, world.launchInput(), null);
    const row = world.store.read.selectFrom('instance').select('priceMicros').where('id', '=', instanceId);
    return (await row.executeTakeFirstOrThrow()).priceMicros / 1e6;
  };
  const quoted = async (chargeMode: ChargeMode = 'perHour') => {
    const request = world.launchInput({ billing: { chargeMode, duration: 1 } });
    return (await control.quotes.quote(world.caller, request)).nextPriceChange;
  };
  const withdraw = async (fromMs: number, key = '') => {
    const { instanceTypeId } = await typeNow();
    const of = { regionId, instanceTypeId, fromUnixMs: fromMs };
    return control.priceHistory.withdraw(world.caller, of, key === '' ? null : keyed(key, key));
  };
  return { world, clock, control, nowMs, typeNow, setPrice, setStorage, listed, launched, quoted, withdraw };
}

const eventsOf = async ({ store }: World, kind: string) =>
  (await store.read.selectFrom('event').selectAll().where('kind', '=', kind).orderBy('seq').execute()).map(
    ({ data, ...event }) => ({ ...event, data: JSON.parse(data) as unknown }),
  );

onBothEngines('scheduled prices', (open) => {
  test('count once from their time on, for launches after it', async () => {
    const { world, clock, nowMs, typeNow, setPrice, listed, launched, quoted } = await openWorld(open);
    const fromMs = nowMs() + HOUR_MS;
    const before = await typeNow();
    const preview = await setPrice(0.5, { fromUnixMs: fromMs, dryRun: true });
    expect([await listed(), await quoted()]).toEqual([[expect.objectContaining({ scheduled: false })], null]);
    expect(await setPrice(0.5, { fromUnixMs: fromMs })).toEqual(preview);
    expect(preview).toMatchObject({ type: { version: before.version, prices: { perHour: 0.5 } }, warnings: [] });
    expect(await typeNow()).toEqual(before);
    const byAccountId = world.caller.accountId;
    expect((await listed())[0]).toMatchObject({ scheduled: true, fromMs, byAccountId, prices: { perHour: 0.5 } });
    expect([await quoted(), await quoted('perDay')]).toEqual([{ atUnixMs: fromMs, price: 0.5 }, null]);

    clock.aheadMs += HOUR_MS - 60_000;
    await world.running.applyPrices();
    expect(await launched()).toBe(0.02);
    clock.aheadMs += 60_000;
    const dueMs = nowMs();
    expect((await quoted())?.atUnixMs).toBeGreaterThanOrEqual(dueMs);
    const another = world.startAnother({});
    await Promise.all([world.running.applyPrices(), another.applyPrices(), world.running.applyPrices()]);
    await world.running.applyPrices();
    expect(await launched()).toBe(0.5);
    expect(await quoted()).toBeNull();
    const prices = await world.store.read.selectFrom('instance').select('priceMicros').orderBy('createdAtMs').execute();
    expect(prices.map(({ priceMicros }) => priceMicros)).toEqual([20_000, 500_000]);
    const changes = await listed();
    expect(changes.map((one) => [one.prices?.perHour, one.scheduled])).toEqual([
      [0.5, false],
      [0.02, false],
    ]);
    expect(changes[0]?.fromMs).toBeGreaterThanOrEqual(dueMs);
    expect(await typeNow()).toMatchObject({ version: before.version + 1, prices: { perHour: 0.5 } });
    const data = { regionId: world.drivers.regionId, instanceTypeId: before.instanceTypeId, fromUnixMs: fromMs };
    expect(await eventsOf(world, 'prices.changed')).toEqual([
      expect.objectContaining({ data: { ...data, byAccountId }, subjectId: before.instanceTypeId }),
    ]);
  });

  test('count after a long stop, the last due one in the end', async () => {
    const { world, clock, nowMs, setPrice, listed } = await openWorld(open, { start: true, hurry: 10 });
    const fromMs = nowMs() + DAY_MS;
    await setPrice(0.9, { fromUnixMs: fromMs + HOUR_MS });
    expect((await setPrice(0.7, { fromUnixMs: fromMs })).warnings).toEqual([
      expect.stringMatching(/^other prices are scheduled from .*admin\/price\/withdraw \{"regionId"/),
    ]);
    await setPrice(0.8, { fromUnixMs: fromMs + DAY_MS });
    await world.running.stop();
    clock.aheadMs += DAY_MS + 2 * HOUR_MS;
    const startedMs = nowMs();
    await world.again();
    await eventually(async () => !(await listed())[1]?.scheduled);
    const changes = await listed();
    expect(changes.map((one) => [one.prices?.perHour, one.scheduled])).toEqual([
      [0.8, true],
      [0.9, false],
      [0.7, false],
      [0.02, false],
    ]);
    expect(changes[2]?.fromMs).toBeGreaterThanOrEqual(startedMs);
    const { offeredTypes } = world.running.control;
    expect((await offeredTypes.list(page)).types[0]).toMatchObject({ prices: { perHour: 0.9 }, version: 3 });
  });

  test('count for volumes that are created after their time', async () => {
    const { world, clock, nowMs, control, setStorage } = await openWorld(open);
    const { regionId } = world.drivers;
    const fromMs = nowMs() + HOUR_MS;
    const answer = await setStorage(fromMs);
    expect(answer.region).toMatchObject({ storagePrices, version: 1 });
    const newVolume = (name: string) =>
      control.volumes.create(world.caller, { name, sizeGB: 1, region: regionId, volumeType: 'filesystem' }, null);
    await newVolume('old');
    clock.aheadMs += HOUR_MS;
    await world.running.applyPrices();
    await newVolume('new');
    const periods = await world.store.read.selectFrom('usagePeriod').selectAll().orderBy('id').execute();
    expect(periods.map(({ subjectName, priceMicros }) => [subjectName, priceMicros])).toEqual([
      ['old', 50_000],
      ['new', 200_000],
    ]);
    const { region } = await control.regionAdministration.get(regionId);
    expect(region).toMatchObject({ storagePrices, storagePricesFrom: 'administrator', version: 2 });
    const { changes } = await control.priceHistory.list({ regionId }, page);
    expect(changes[0]).toMatchObject({ instanceTypeId: null, storagePrices, scheduled: false });
    expect(changes.filter((change) => change.scheduled)).toEqual([]);
  });

  test('that are due count before a change at once', async () => {
    const { clock, nowMs, setPrice, listed, launched, world } = await openWorld(open);
    await setPrice(0.5, { fromUnixMs: nowMs() + HOUR_MS });
    clock.aheadMs += 2 * HOUR_MS;
    await expectRefused(setPrice(0.6), 'precondition_failed', /has version 2, and the request has version 1/);
    await world.running.applyPrices();
    await setPrice(0.6);
    expect(await launched()).toBe(0.6);
    expect((await listed()).map(({ prices }) => prices?.perHour)).toEqual([0.6, 0.5, 0.02]);
  });

  test('are withdrawn until they count', async () => {
    const { world, clock, nowMs, setPrice, listed, launched, quoted, withdraw } = await openWorld(open);
    const fromMs = nowMs() + HOUR_MS;
    await setPrice(0.5, { fromUnixMs: fromMs }, 'schedule');
    await setPrice(0.5, { fromUnixMs: fromMs }, 'schedule');
    await expectRefused(
      setPrice(0.6, { fromUnixMs: fromMs }),
      'not_now',
      /withdraw them with POST .*"fromUnixMs":\d+\}$/,
    );
    const withdrawn = await withdraw(fromMs, 'withdraw');
    expect(withdrawn.change).toMatchObject({ fromMs, scheduled: true, prices: { perHour: 0.5 } });
    expect(await withdraw(fromMs, 'withdraw')).toEqual(withdrawn);
    await expectRefused(withdraw(fromMs), 'not_found', /no prices are scheduled there for/);
    expect([await quoted(), (await listed()).length]).toEqual([null, 1]);
    expect(await eventsOf(world, 'prices.withdrawn')).toHaveLength(1);
    await setPrice(0.6, { fromUnixMs: fromMs });
    clock.aheadMs += HOUR_MS;
    await world.running.applyPrices();
    expect(await launched()).toBe(0.6);
    await expectRefused(withdraw(fromMs), 'not_found', /no prices are scheduled/);
  });

  test('are refused for a time that cannot be, and with other changes', async () => {
    const { nowMs, setPrice, setStorage, control, typeNow, world, listed } = await openWorld(open);
    const soon = nowMs() + HOUR_MS;
    await expectRefused(
      setPrice(0.5, { fromUnixMs: nowMs() - 1 }),
      'field_value',
      /send a later time, or leave it out/,
    );
    await expectRefused(setPrice(0.5, { fromUnixMs: 0 }), 'field_value', /1970-01-01T00:00:00.000Z/);
    const late = nowMs() + 731 * DAY_MS + HOUR_MS;
    await expectRefused(setPrice(0.5, { fromUnixMs: late }), 'field_value', /at most 731 days ahead/);
    await expectRefused(setStorage(late), 'field_value', /at most 731 days ahead/);
    await expectRefused(
      setPrice(0.5, { fromUnixMs: soon, name: 'x' }),
      'field_value',
      /dates "prices" alone, and "name"/,
    );
    await expectRefused(setStorage(soon, null), 'field_value', /send the four prices/);
    const { regionId } = world.drivers;
    const facts = { regionId, version: 1, dryRun: false, storagePrices, fromUnixMs: soon, name: 'x' };
    const renamed = control.regionAdministration.update(world.caller, facts, null);
    await expectRefused(renamed, 'field_value', /dates "storagePrices" alone, and "name"/);
    const { instanceTypeId } = await typeNow();
    const none = control.offeredTypes.update(
      world.caller,
      { instanceTypeId, version: 1, dryRun: false, fromUnixMs: soon },
      null,
    );
    await expectRefused(none, 'field_missing', /"prices"/);
    expect(await listed()).toHaveLength(1);
    await setPrice(0.5, { fromUnixMs: nowMs() + 730 * DAY_MS });
  });
});
