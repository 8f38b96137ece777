/** Regions as data of administrators: added with an engine that answers, changed, retired. */
import { expect, test } from 'vitest';
import { hasStatus, makeWorld, type World } from '../../fixtures/control.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { eventKinds, expectRefused } from './access-fixture.ts';

const simulated = { cpuCores: 8, memoryGB: 16, gpus: 0 };
const settings = {
  simulated,
  pools: [{ name: 'default' as const, sizeGB: 500 }],
  nodePorts: { first: 31_000, last: 31_099 },
};
const annex = { name: 'Annex', value: 'annex', location: 'cellar', sshAddress: '192.0.2.7', settings, dryRun: false };
const prices = { tidePerHour: 0.05, perHour: 0.1, perDay: 2, perWeek: 12, perMonth: 40 };
const size = { isSpot: false, cpuCores: 1, memoryGB: 1, gpuNum: 0, gpuName: '', rootDiskGB: 10, dataDiskGB: 5 };

const added = async (world: World) => (await administrationOf(world).create(world.caller, annex, null)).region;
const administrationOf = (world: World) => world.running.control.regionAdministration;
const typeIn = async (world: World, regionId: string): Promise<string> => {
  const type = { regionId, name: 'small', ...size, runtime: '', prices };
  return (await world.running.control.offeredTypes.create(world.caller, type, null)).type.instanceTypeId;
};
const answers = async (world: World): Promise<boolean[]> =>
  (await world.running.control.catalog.regions()).map(({ engine: { answers: one } }) => one);
const launched = async (world: World, region: string, instanceTypeId: string): Promise<string> => {
  await expect.poll(() => answers(world)).toEqual([true, true]);
  const input = world.launchInput({ region, instanceTypeId });
  const { instanceId } = await world.running.control.instances.launch(world.caller, input, null);
  await world.until(instanceId, hasStatus('Running'));
  return instanceId;
};

onBothEngines('regions of administrators', (open) => {
  test('a region is added with its engine, launches at once, and is there after a restart', async () => {
    const store = await open();
    const world = await makeWorld(store);
    const made = await administrationOf(world).create(world.caller, annex, null);
    const { regionId, ...region } = made.region;
    expect(region).toMatchObject({
      version: 1,
      retired: false,
      settings,
      hasCredentials: false,
      sshAddress: '192.0.2.7',
    });
    expect(made.engine.capacity).toEqual({ cpuMilli: 8_000, memoryMiB: 16 * 1024, gpus: 0 });
    expect(made.warnings).toEqual([expect.stringMatching(/no instance types yet/)]);
    expect(await eventKinds(store, world.caller.accountId)).toContain('region.created');
    const id = await launched(world, regionId, await typeIn(world, regionId));
    expect((await world.instance(id)).instanceSpecInfo.regionInfo).toMatchObject({ regionId });
    expect(await world.engine.listOwned(AbortSignal.timeout(5_000))).toEqual([]);
    await world.again();
    await expect.poll(() => answers(world)).toEqual([true, true]);
    await world.running.control.instances.restart(world.caller, { instanceId: id }, null);
    await world.until(id, hasStatus('Running'));
    const { volumeText } = await world.running.control.volumes.create(
      world.caller,
      { name: 'files', sizeGB: 5, region: regionId, volumeType: 'filesystem' },
      null,
    );
    const { id: volumeId } = JSON.parse(volumeText);
    const { volumes } = world.running.control;
    await expect
      .poll(async () => JSON.parse((await volumes.get(world.caller, { id: volumeId })).volumeText).status)
      .toBe('Bound');
  });

  test('a region whose engine does not answer, and settings that cannot be, are refused and leave nothing', async () => {
    const world = await makeWorld(await open());
    const { create, list } = administrationOf(world);
    const wrong = (over: object, code: 'field_value' | 'name_taken', text: RegExp) =>
      expectRefused(create(world.caller, { ...annex, ...over }, null), code, text);
    await wrong({ settings: { ...settings, simulated: undefined } }, 'field_value', /has not one engine/);
    await wrong({ settings: { ...settings, pools: [] } }, 'field_value', /no pool named "default"/);
    const twice = [...settings.pools, ...settings.pools];
    await wrong({ settings: { ...settings, pools: twice } }, 'field_value', /names a pool twice/);
    await wrong({ settings: { ...settings, nodePorts: { first: 9, last: 1 } } }, 'field_value', /nodePorts.first/);
    await wrong({ name: 'default' }, 'name_taken', /region .* has/);
    await create(world.caller, { ...annex, dryRun: true }, null);
    expect((await list({ currentPage: 1, pageSize: 10 })).totalEntries).toBe(1);
    expect(await answers(world)).toHaveLength(1);
  });

  test('a repeated request with the same key adds one region', async () => {
    const world = await makeWorld(await open());
    const key = { key: 'same', route: '/admin/region/create', bodyHash: 'same' };
    const { create, list } = administrationOf(world);
    const first = await create(world.caller, annex, key);
    expect(await create(world.caller, annex, key)).toEqual(first);
    expect((await list({ currentPage: 1, pageSize: 10 })).regions).toHaveLength(2);
  });

  test('a changed engine serves at once; the kind and the pools of a region stay', async () => {
    const world = await makeWorld(await open());
    const { update, get } = administrationOf(world);
    const { regionId } = await added(world);
    const larger = { ...settings, simulated: { ...simulated, cpuCores: 12 } };
    const change = { regionId, version: 1, dryRun: false };
    await update(world.caller, { ...change, settings: larger, credentials: 'top secret' }, null);
    expect((await get(regionId)).region).toMatchObject({ settings: larger, hasCredentials: true, version: 2 });
    const total = async () =>
      await world.store.read.selectFrom('region').selectAll().where('id', '=', regionId).executeTakeFirstOrThrow();
    await expect.poll(async () => (await total()).cpuMilliTotal).toBe(12_000);
    expect(JSON.stringify(await total())).not.toContain('top secret');
    const without = { ...settings, pools: [{ name: 'filesystem' as const, sizeGB: 5 }] };
    const second = { regionId, version: 2, dryRun: false };
    await expectRefused(update(world.caller, { ...second, settings: without }, null), 'field_value', /default/);
    await expectRefused(update(world.caller, { ...change, name: 'x' }, null), 'precondition_failed', /version 2/);
    const own = { regionId: world.drivers.regionId, version: 1, dryRun: false };
    await expectRefused(update(world.caller, { ...own, settings }, null), 'field_value', /settings of the server/);
  });

  test('a retired region takes no launches and volumes, is not listed, and keeps its instances', async () => {
    const world = await makeWorld(await open());
    const { retire } = administrationOf(world);
    const { regionId } = await added(world);
    const instanceTypeId = await typeIn(world, regionId);
    const id = await launched(world, regionId, instanceTypeId);
    const { instances, volumes } = world.running.control;
    const input = world.launchInput({ region: regionId, instanceTypeId });
    const at = { regionId, version: 1, dryRun: false };
    expect(await retire(world.caller, { ...at, retired: true }, null)).toMatchObject({
      region: { retired: true, version: 2 },
      affected: { running: 1 },
    });
    expect(await answers(world)).toHaveLength(1);
    await expectRefused(instances.launch(world.caller, input, null), 'not_found', /region Annex is retired/);
    const volume = { name: 'files', sizeGB: 5, region: regionId, volumeType: 'filesystem' as const };
    await expectRefused(volumes.create(world.caller, volume, null), 'not_found', /region Annex is retired/);
    await instances.stop(world.caller, { instanceId: id }, null);
    await world.until(id, hasStatus('Stopped'));
    await instances.start(world.caller, { instanceId: id }, null);
    await world.until(id, hasStatus('Running'));
    await retire(world.caller, { ...at, version: 2, retired: false }, null);
    await instances.launch(world.caller, input, null);
  });
});
