import { expect, test } from 'vitest';
import type { DiskSizes } from '../../../src/domain/compute/desired-state.ts';
import type { Limits } from '../../../src/domain/compute/instance-states.ts';
import { StorageFault } from '../../../src/storage/contract.ts';
import { poolsOf } from '../../../src/store/tables/pools.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectRefused, keyed } from './access-fixture.ts';
import { expectConsistent, settled } from './consistency.ts';
import { atRest, diskFixture, type DiskFixture } from './disk-fixture.ts';
import { eventually, hasStatus } from '../../fixtures/control.ts';

const expand = ({ world }: DiskFixture, instanceId: string, sizes: DiskSizes, key: string | null = null) =>
  world.running.control.instances.expandDisk(
    world.caller,
    { instanceId, ...sizes },
    key === null ? null : keyed(key, '/instance/disk/expand'),
  );

const sizeOf = async (fixture: DiskFixture, id: string): Promise<number> =>
  (await fixture.get(id)).disks.find(({ disk }) => disk === 'data')?.sizeGB ?? 0;

const stateOf = async ({ world }: DiskFixture, operationId: string | undefined): Promise<string> =>
  (await world.running.control.operations.read(world.caller, { operationId: operationId ?? '' })).state;

async function poolOf({ world }: DiskFixture): Promise<{ usedGB: number; bestEffortGB: number }> {
  const [pool] = await poolsOf(world.store.read, world.drivers.regionId);
  return { usedGB: pool?.usedGB ?? 0, bestEffortGB: pool?.bestEffortGB ?? 0 };
}

onBothEngines('a data disk', (open) => {
  test('grows while its instance runs or is stopped, and changes nothing else', async () => {
    const fixture = await diskFixture(await open());
    const id = await fixture.running();
    const hadGB = await sizeOf(fixture, id);
    const [pool] = await poolsOf(fixture.world.store.read, fixture.world.drivers.regionId);
    const { operationId } = await expand(fixture, id, { dataDiskGB: hadGB + 7 });
    const text = await fixture.world.instance(id);
    expect(text.instanceRuntimeInfo).toMatchObject({
      status: 'Running',
      phase: 'Ready',
      instanceDiskAmountInfo: { dataDiskAmountGi: hadGB + 7 },
    });
    expect(text.instanceSpecInfo.instanceConfiguration.InstanceDiskAmountRequest.dataDiskAmountGiReq).toBe(hadGB + 7);
    await eventually(async () => (await stateOf(fixture, operationId)) === 'Succeeded');
    expect(fixture.memory.there.get(`data/${id}`)).toBe(hadGB + 7);
    const [now] = await poolsOf(fixture.world.store.read, fixture.world.drivers.regionId);
    expect((now?.usedGB ?? 0) - (pool?.usedGB ?? 0), 'promised').toBe(hadGB + 7);
    expect((now?.bestEffortGB ?? 0) - (pool?.bestEffortGB ?? 0)).toBe(-hadGB);

    await fixture.rest(id);
    const stopped = await expand(fixture, id, { dataDiskGB: hadGB + 9 });
    await eventually(async () => (await stateOf(fixture, stopped.operationId)) === 'Succeeded');
    expect(fixture.memory.there.get(`data/${id}`)).toBe(hadGB + 9);
    expect((await fixture.world.instance(id)).instanceRuntimeInfo.status).toBe('Stopped');
    await atRest(fixture.world, id);
    await fixture.world.running.control.instances.start(fixture.world.caller, { instanceId: id }, null);
    await fixture.world.until(id, hasStatus('Running'));
    await settled(fixture.world);
    await expectConsistent(fixture.world);
  });

  test('refuses to shrink or to exceed its pool, with the reason, and writes nothing', async () => {
    const fixture = await diskFixture(await open());
    const id = await fixture.running();
    const hadGB = await sizeOf(fixture, id);
    await expectRefused(expand(fixture, id, { dataDiskGB: hadGB - 1 }), 'field_value', /a disk cannot shrink/);
    await expectRefused(
      expand(fixture, id, { dataDiskGB: hadGB }),
      'field_value',
      /but the disk has 20 GB; send more than 20/,
    );
    await expectRefused(expand(fixture, id, {}), 'field_missing', /dataDiskGB/);
    await expectRefused(expand(fixture, id, { dockerStorageGB: 20 }), 'field_value', /without Docker inside/);
    await expectRefused(
      expand(fixture, id, { dataDiskGB: 99_999_999 }),
      'no_capacity',
      /but the pool default has -?\d+ GB free/,
    );
    const otherAccount = { ...fixture.world, caller: await fixture.world.account('stranger') };
    await expectRefused(expand({ ...fixture, world: otherAccount }, id, { dataDiskGB: hadGB + 1 }), 'not_found');
    expect(await sizeOf(fixture, id)).toBe(hadGB);
    const { generation } = await fixture.world.store.read
      .selectFrom('instance')
      .select('generation')
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    expect(generation).toBe(1);
    await settled(fixture.world);
    await expectConsistent(fixture.world);
  });

  test('refuses to grow during another operation; a repeated request is one', async () => {
    const fixture = await diskFixture(await open());
    const id = await fixture.running();
    const hadGB = await sizeOf(fixture, id);
    const first = await expand(fixture, id, { dataDiskGB: hadGB + 1 }, 'once');
    expect(await expand(fixture, id, { dataDiskGB: hadGB + 1 }, 'once')).toEqual(first);
    await eventually(async () => (await stateOf(fixture, first.operationId)) === 'Succeeded');
    await fixture.world.running.control.instances.restart(fixture.world.caller, { instanceId: id }, null);
    await expectRefused(expand(fixture, id, { dataDiskGB: hadGB + 2 }), 'not_now', /its operation restart is running/);
    await fixture.world.until(id, hasStatus('Running'));
  });

  test.each<[string, reason: string, limits: Partial<Limits>, fault: () => Error]>([
    ['its storage is full', 'StorageFull', {}, () => new StorageFault('full', 'too little space')],
    [
      'its storage failed for too long',
      'StorageFailed',
      { disksDeadlineMs: 200 },
      () => new Error('/srv/secret: no answer'),
    ],
  ])('keeps its size and releases the rest when %s', async (_, reason, limits, fault) => {
    const fixture = await diskFixture(await open(), { limits, mayFail: /./ });
    const { world, memory } = fixture;
    const id = await fixture.running();
    const hadGB = await sizeOf(fixture, id);
    const before = await poolOf(fixture);
    const { grow } = memory;
    memory.grow = () => Promise.reject(fault());
    const { operationId } = await expand(fixture, id, { dataDiskGB: hadGB + 7 });
    expect((await poolOf(fixture)).usedGB).toBe(before.usedGB + hadGB + 7);
    await eventually(async () => (await stateOf(fixture, operationId)) === 'Failed');
    const { error } = await world.running.control.operations.read(world.caller, { operationId: operationId ?? '' });
    expect(error).toMatchObject({ reason, message: expect.not.stringContaining('secret') });
    expect(await poolOf(fixture)).toEqual(before);
    expect(await sizeOf(fixture, id)).toBe(hadGB);
    const { instanceRuntimeInfo } = await world.instance(id);
    expect(instanceRuntimeInfo).toMatchObject({
      status: 'Running',
      instanceDiskAmountInfo: { dataDiskAmountGi: hadGB },
    });
    memory.grow = grow;
    const again = await expand(fixture, id, { dataDiskGB: hadGB + 1 });
    await eventually(async () => (await stateOf(fixture, again.operationId)) === 'Succeeded');
    await settled(world);
    await expectConsistent(world);
  });

  test('starts at its size when a growth that a stop canceled fails at every attempt', async () => {
    const fixture = await diskFixture(await open(), { mayFail: /./ });
    const { world, memory } = fixture;
    const id = await fixture.running();
    const hadGB = await sizeOf(fixture, id);
    const before = await poolOf(fixture);
    const { grow } = memory;
    memory.grow = (disk, sizeGB) => (sizeGB > hadGB ? Promise.reject(new Error('no answer')) : grow(disk, sizeGB));
    await expand(fixture, id, { dataDiskGB: hadGB + 7 });
    await fixture.rest(id);
    await world.running.control.instances.start(world.caller, { instanceId: id }, null);
    await world.until(id, hasStatus('Running'));
    expect(await sizeOf(fixture, id)).toBe(hadGB);
    expect(await poolOf(fixture)).toEqual(before);
    await settled(world);
    await expectConsistent(world);
  });

  test('grows once its storage can, without delaying a stop', async () => {
    const fixture = await diskFixture(await open());
    const id = await fixture.running();
    const hadGB = await sizeOf(fixture, id);
    const { grow } = fixture.memory;
    fixture.memory.grow = async () => {
      throw new Error('it does not answer');
    };
    const { operationId } = await expand(fixture, id, { dataDiskGB: hadGB + 1 });
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(await stateOf(fixture, operationId)).toBe('Running');
    expect((await fixture.world.instance(id)).instanceRuntimeInfo.status).toBe('Running');
    await fixture.rest(id);
    fixture.memory.grow = grow;
    expect(await stateOf(fixture, operationId)).toBe('Cancelled');
    await fixture.world.running.control.instances.start(fixture.world.caller, { instanceId: id }, null);
    await fixture.world.until(id, hasStatus('Running'));
    expect(fixture.memory.there.get(`data/${id}`)).toBe(hadGB + 1);
  });
});
