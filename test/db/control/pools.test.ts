import { expect, test } from 'vitest';
import type { Caller } from '../../../src/control/index.ts';
import type { CountedSpace } from '../../../src/domain/storage/disk.ts';
import type { Space } from '../../../src/domain/storage/pool.ts';
import { readConfig } from '../../../src/main/config.ts';
import { poolsOf } from '../../../src/store/tables/pools.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectRefused } from './access-fixture.ts';
import { expectConsistent, settled } from './consistency.ts';
import { eventually, hasStatus, makeWorld, textOf, type World } from '../../fixtures/control.ts';

const GB = 1024 ** 3;

const create = (world: World, name: string, sizeGB: number) =>
  world.running.control.volumes.create(
    world.caller,
    { name, sizeGB, region: world.drivers.regionId, volumeType: 'filesystem' },
    null,
  );

const used = async ({ store, drivers }: World): Promise<number | undefined> =>
  (await poolsOf(store.read, drivers.regionId))[0]?.usedGB;

async function counted({ store, drivers }: World): Promise<CountedSpace> {
  const [pool] = await poolsOf(store.read, drivers.regionId);
  return { promisedGB: pool?.usedGB ?? 0, bestEffortGB: pool?.bestEffortGB ?? 0 };
}

async function volumes(world: World, caller: Caller = world.caller): Promise<{ id: string; status: string }[]> {
  const { texts } = await world.running.control.volumes.list(caller, { currentPage: 1, pageSize: 100 });
  return texts.map((text) => JSON.parse(textOf(text)));
}

const bound = (world: World): Promise<void> =>
  eventually(async () => (await volumes(world)).every(({ status }) => status === 'Bound'));

async function publishedEvents(world: World): Promise<string[]> {
  const rows = await world.store.read
    .selectFrom('event')
    .select('kind')
    .where('kind', 'like', 'pool.%')
    .where('accountId', '=', world.caller.accountId)
    .orderBy('seq')
    .execute();
  return rows.map(({ kind }) => kind);
}

onBothEngines('pools', (open) => {
  test('refuses a volume larger than the free capacity, names that, and writes nothing', async () => {
    const world = await makeWorld(await open(), { pool: { sizeGB: 10 } });
    await create(world, 'first', 7);
    await expectRefused(
      create(world, 'second', 4),
      'no_capacity',
      /needs 4 GB, but the pool default has 3 GB free: request at most 3 GB, .*\(BERTH_POOL\)/,
    );
    expect(await volumes(world)).toHaveLength(1);
    expect(await used(world)).toBe(7);
    await create(world, 'third', 3);
    await bound(world);
    await expectConsistent(world);
  });

  test('gives the last capacity to one of two concurrent requests', async () => {
    const world = await makeWorld(await open(), { pool: { sizeGB: 10 } });
    for (let round = 0; round < 20; round++) {
      const both = await Promise.allSettled([create(world, 'one', 6), create(world, 'two', 6)]);
      expect(both.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
      expect(await used(world)).toBe(6);
      const [{ id } = { id: '' }] = await volumes(world);
      await world.running.control.volumes.delete(world.caller, { id }, null);
      await eventually(async () => (await used(world)) === 0);
    }
  });

  test("counts an instance's disks with its launch, and releases all but the shared one afterwards", async () => {
    const world = await makeWorld(await open(), { pool: { sizeGB: 1_000 } });
    const { instances } = world.running.control;
    const request = world.launchInput();
    const { instanceConfiguration } = request;
    const larger = { ...request, instanceConfiguration: { ...instanceConfiguration, extraDataDiskSizeDB: 30 } };
    const [root, data, shared] = [20, 20, 20];
    const one = await instances.launch(world.caller, larger, null);
    expect(await counted(world)).toEqual({ promisedGB: data + 30, bestEffortGB: root + shared });
    await instances.launch(world.caller, request, null);
    const both = { promisedGB: data + 30, bestEffortGB: root + shared + root + data };
    expect(await counted(world)).toEqual(both);
    await world.until(one.instanceId, hasStatus('Running'));
    await instances.stop(world.caller, one, null);
    await world.until(one.instanceId, hasStatus('Stopped'));
    expect(await counted(world)).toEqual(both);
    await instances.terminate(world.caller, one, null);
    await eventually(async () => (await used(world)) === 0);
    expect(await counted(world)).toEqual({ promisedGB: 0, bestEffortGB: shared + root + data });
    await settled(world);
    await expectConsistent(world);
  });

  test('refuses a launch whose disks do not fit, and allots nothing', async () => {
    const world = await makeWorld(await open(), { pool: { sizeGB: 29 } });
    const launch = world.running.control.instances.launch(world.caller, world.launchInput(), null);
    await expectRefused(
      launch,
      'no_capacity',
      /needs a data disk of 20 GB and a root disk of 20 GB, counted as 20 GB, but the pool default has 19 GB free: send a "dataDiskGB" of at most 18, delete .*\(BERTH_DISK_OVERCOMMIT, now 2\)$/,
    );
    expect(await counted(world)).toEqual({ promisedGB: 0, bestEffortGB: 0 });
    const smaller = { ...world.launchInput().instanceConfiguration, dataDiskGB: 18 };
    const request = { ...world.launchInput(), instanceConfiguration: smaller };
    const { instanceId } = await world.running.control.instances.launch(world.caller, request, null);
    await world.until(instanceId, hasStatus('Running'));
    expect(await counted(world)).toEqual({ promisedGB: 0, bestEffortGB: 18 + 20 + 20 });
    await settled(world);
    await expectConsistent(world);
  });

  test('twenty stopped instances of an empty host with 70 GB free leave space for more', async () => {
    const world = await makeWorld(await open(), {
      pool: { sizeGB: 60, diskOvercommit: readConfig({}).diskOvercommit },
    });
    const { instances } = world.running.control;
    for (let count = 1; count <= 20; count++) {
      const { instanceId } = await instances.launch(world.caller, world.launchInput({ name: `n-${count}` }), null);
      await world.until(instanceId, hasStatus('Running'));
      await instances.stop(world.caller, { instanceId }, null);
      await world.until(instanceId, hasStatus('Stopped'));
    }
    await create(world, 'data', 40);
    await bound(world);
    expect(await counted(world)).toEqual({ promisedGB: 40, bestEffortGB: 20 + 20 * (20 + 20) });
  });

  test('one account with all the volumes it may have closes the pool to nobody', async () => {
    const world = await makeWorld(await open(), { pool: { sizeGB: 200, accountShare: 0.8 } });
    await expectRefused(
      create(world, 'all', 200),
      'over_quota',
      /needs 200 GB, and the account would hold 200 GB of the pool default: an account may hold 160 GB there now, 80 %/,
    );
    await create(world, 'most', 160);
    await expectRefused(create(world, 'one more', 1), 'over_quota', /may hold 160 GB/);
    const other = await world.account('other');
    const request = { name: 'own', sizeGB: 1, region: world.drivers.regionId, volumeType: 'filesystem' } as const;
    await world.running.control.volumes.create(other, request, null);
    const { instanceId } = await world.running.control.instances.launch(other, world.launchInput(), null);
    await world.until(instanceId, hasStatus('Running'));
    await settled(world);
    await expectConsistent(world);
  });

  test('follows the file system when no size is configured', async () => {
    const space: Space = { totalBytes: 100 * GB, freeBytes: 60 * GB };
    const world = await makeWorld(await open(), { pool: { sizeGB: null } });
    world.storage.space = async () => space;
    const limit = async (): Promise<number | undefined> => {
      await world.running.freeSpace.measure();
      return (await poolsOf(world.store.read, world.drivers.regionId))[0]?.limitGB;
    };
    expect(await limit()).toBe(55);
    space.freeBytes = 30 * GB;
    expect(await limit()).toBe(25);
    await expectRefused(create(world, 'large', 26), 'no_capacity', /has 25 GB free/);
  });

  test.each(['the pool', 'the database'])(
    'refuses launches and volumes while the file system of %s is nearly full; existing instances stop and start',
    async (which) => {
      const space: Space = { totalBytes: 100 * GB, freeBytes: 60 * GB };
      const dataSpace = async (): Promise<Space> =>
        which === 'the database' ? space : { ...space, freeBytes: 60 * GB };
      const world = await makeWorld(await open(), { dataSpace });
      if (which === 'the pool') world.storage.space = async () => space;
      const { instances } = world.running.control;
      const one = await instances.launch(world.caller, world.launchInput(), null);
      await world.until(one.instanceId, hasStatus('Running'));
      space.freeBytes = 4 * GB;
      await world.running.freeSpace.measure();
      await expectRefused(create(world, 'one', 1), 'no_capacity', /nearly full/);
      await expectRefused(instances.launch(world.caller, world.launchInput(), null), 'no_capacity', /nearly full/);
      await instances.stop(world.caller, one, null);
      await world.until(one.instanceId, hasStatus('Stopped'));
      await instances.start(world.caller, one, null);
      await world.until(one.instanceId, hasStatus('Running'));
      space.freeBytes = 40 * GB;
      await world.running.freeSpace.measure();
      await create(world, 'one', 1);
    },
  );

  test('keeps the share free that the operator sets: of limits, new disks and warnings', async () => {
    const space: Space = { totalBytes: 100 * GB, freeBytes: 60 * GB };
    const world = await makeWorld(await open(), { pool: { sizeGB: null }, diskReserveShare: 0.3 });
    world.storage.space = async () => space;
    await world.running.freeSpace.measure();
    expect((await poolsOf(world.store.read, world.drivers.regionId))[0]?.limitGB).toBe(30);
    space.freeBytes = 29 * GB;
    await world.running.freeSpace.measure();
    await expectRefused(create(world, 'one', 1), 'no_capacity', /nearly full/);
    expect(await publishedEvents(world)).toEqual(['pool.nearlyFull']);
  });

  test('notifies administrators once when a pool is nearly full, and once when it has space again', async () => {
    const world = await makeWorld(await open(), { pool: { sizeGB: 10 } });
    const { freeSpace } = world.running;
    await create(world, 'most', 9);
    await Promise.all([freeSpace.measure(), freeSpace.measure()]);
    await freeSpace.measure();
    expect(await publishedEvents(world)).toEqual(['pool.nearlyFull']);
    const [{ id } = { id: '' }] = await volumes(world);
    await world.running.control.volumes.delete(world.caller, { id }, null);
    await eventually(async () => (await used(world)) === 0);
    await freeSpace.measure();
    await freeSpace.measure();
    expect(await publishedEvents(world)).toEqual(['pool.nearlyFull', 'pool.hasRoom']);
  });

  test('does not treat a missing file system as a full one', async () => {
    const world = await makeWorld(await open(), { pool: { sizeGB: null }, mayFail: /./ });
    const before = await poolsOf(world.store.read, world.drivers.regionId);
    world.storage.space = () => Promise.reject(new Error('not mounted'));
    await world.running.freeSpace.measure();
    expect(await poolsOf(world.store.read, world.drivers.regionId)).toEqual(before);
  });
});
