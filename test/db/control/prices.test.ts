/** Prices of storage, the history of all prices, and what a change leaves alone. */
import { expect, test } from 'vitest';
import { onBothEngines } from '../../fixtures/store.ts';
import { eventually, hasStatus, makeWorld, type World } from '../../fixtures/control.ts';

const HOUR_MS = 3_600_000;
const page = { currentPage: 1, pageSize: 100 };
const storagePrices = { filesystem: 0.2, highspeedstorage: 0.3, snapshot: 0.1, keptDisk: 0.000001 };
const defaults = { filesystem: 0.05, highspeedstorage: 0.1, snapshot: 0.03, keptDisk: 0.05 };

const regionVersion = async ({ running, drivers: { regionId } }: World): Promise<number> =>
  (await running.control.regionAdministration.get(regionId)).region.version;

async function setStorage(world: World, prices: typeof storagePrices | null, dryRun = false) {
  const { regionId } = world.drivers;
  const change = { regionId, version: await regionVersion(world), dryRun, storagePrices: prices };
  return world.running.control.regionAdministration.update(world.caller, change, null);
}

async function setPrice(world: World, perHour: number, more: { name?: string; dryRun?: boolean } = {}) {
  const { offeredTypes } = world.running.control;
  const [type] = (await offeredTypes.list(page)).types;
  if (!type) throw new Error('no type is offered');
  const { instanceTypeId, version } = type;
  const change = { instanceTypeId, version, dryRun: false, prices: { ...type.prices, perHour }, ...more };
  await offeredTypes.update(world.caller, change, null);
  return instanceTypeId;
}

const openPeriods = ({ store }: World) =>
  store.read.selectFrom('usagePeriod').selectAll().where('closedAtMs', 'is', null).orderBy('id').execute();

onBothEngines('prices', (open) => {
  test('shows prices of storage to administrators and users, and takes the defaults back', async () => {
    const world = await makeWorld(await open(), { start: false });
    const { regionAdministration, catalog } = world.running.control;
    const shown = async () => {
      const { region } = await regionAdministration.get(world.drivers.regionId);
      const [listed] = await catalog.regions();
      const [family] = await catalog.families();
      expect(listed?.storagePrices).toEqual(region.storagePrices);
      expect(family?.regionInfos[0]?.storagePrices).toEqual(region.storagePrices);
      return [region.storagePrices, region.storagePricesFrom];
    };
    expect(await shown()).toEqual([defaults, 'default']);
    await setStorage(world, storagePrices, true);
    expect(await shown()).toEqual([defaults, 'default']);
    await setStorage(world, storagePrices);
    expect(await shown()).toEqual([storagePrices, 'administrator']);
    await setStorage(world, null);
    expect(await shown()).toEqual([defaults, 'default']);
  });

  test('records first prices and each change, newest first, and nothing else', async () => {
    const clock = { aheadMs: 0 };
    const world = await makeWorld(await open(), { clock, start: false });
    const { priceHistory } = world.running.control;
    const { regionId } = world.drivers;
    const first = await priceHistory.list({}, page);
    expect(first.totalEntries).toBe(world.types.length + 1);
    expect(first.changes.map(({ instanceTypeId }) => instanceTypeId)).toEqual(
      expect.arrayContaining([null, ...world.types.map(({ id }) => id)]),
    );
    clock.aheadMs += HOUR_MS;
    const instanceTypeId = await setPrice(world, 0.5);
    await setPrice(world, 0.5, { name: 'renamed' });
    await setPrice(world, 0.7, { dryRun: true });
    await setStorage(world, storagePrices);
    await setStorage(world, storagePrices);
    const { changes, totalEntries } = await priceHistory.list({}, { currentPage: 1, pageSize: 2 });
    expect(totalEntries).toBe(first.totalEntries + 2);
    expect(changes).toEqual([
      {
        fromMs: expect.any(Number),
        regionId,
        instanceTypeId: null,
        prices: null,
        storagePrices,
        byAccountId: world.caller.accountId,
        scheduled: false,
      },
      expect.objectContaining({ instanceTypeId, storagePrices: null, byAccountId: world.caller.accountId }),
    ]);
    expect(changes[1]?.prices?.perHour).toBe(0.5);
    const ofType = await priceHistory.list({ instanceTypeId }, page);
    expect(ofType.changes.map(({ prices }) => prices?.perHour)).toEqual([0.5, 0.02]);
    expect((ofType.changes[0]?.fromMs ?? 0) - (ofType.changes[1]?.fromMs ?? 0)).toBeGreaterThanOrEqual(HOUR_MS);
    expect((await priceHistory.list({ regionId: 'nowhere' }, page)).totalEntries).toBe(0);
  });

  test('a change of prices alters nothing that runs or is stored, and counts for what comes after', async () => {
    const clock = { aheadMs: 0 };
    const world = await makeWorld(await open(), { clock });
    const { instances, volumes } = world.running.control;
    const launch = async (name: string): Promise<string> => {
      const { instanceId } = await instances.launch(world.caller, world.launchInput({ name }), null);
      await world.until(instanceId, hasStatus('Running'));
      await eventually(async () =>
        (await openPeriods(world)).some(({ subjectName, state }) => subjectName === name && state === 'charged'),
      );
      return instanceId;
    };
    const newVolume = (name: string) => {
      const body = { name, sizeGB: 1, region: world.drivers.regionId, volumeType: 'filesystem' as const };
      return volumes.create(world.caller, body, null);
    };
    const priceOf = async (name: string, meter: string): Promise<number | undefined> =>
      (await openPeriods(world)).find((one) => one.subjectName === name && one.meter === meter)?.priceMicros;
    const instanceId = await launch('old');
    await newVolume('old');
    await setPrice(world, 9);
    await setStorage(world, storagePrices);
    clock.aheadMs += 60_000;
    await instances.restart(world.caller, { instanceId }, null);
    await world.until(instanceId, hasStatus('Running'));
    await launch('new');
    await newVolume('new');
    const priced = ['old', 'new'].map(async (name) => [await priceOf(name, 'compute'), await priceOf(name, 'volume')]);
    expect(await Promise.all(priced)).toEqual([
      [20_000, 50_000],
      [9_000_000, 200_000],
    ]);
    await instances.stop(world.caller, { instanceId }, null);
    await eventually(async () => (await priceOf('old', 'disks')) === 1);
  });
});
