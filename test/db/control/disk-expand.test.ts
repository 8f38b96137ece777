import { expect, test } from 'vitest';
import type { DiskSizes } from '../../../src/domain/desired-state.ts';
import { poolsOf } from '../../../src/store/tables/pools.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectRefused, keyed } from './access-fixture.ts';
import { expectConsistent, settled } from './consistency.ts';
import { atRest, diskRoom, type DiskRoom } from './disk-fixture.ts';
import { eventually, hasStatus } from '../../fixtures/control.ts';

const expand = ({ world }: DiskRoom, instanceId: string, sizes: DiskSizes, key: string | null = null) =>
  world.running.control.instances.expandDisk(
    world.caller,
    { instanceId, ...sizes },
    key === null ? null : keyed(key, '/instance/disk/expand'),
  );

const sizeOf = async (room: DiskRoom, id: string): Promise<number> =>
  (await room.get(id)).disks.find(({ disk }) => disk === 'data')?.sizeGB ?? 0;

const stateOf = async ({ world }: DiskRoom, operationId: string | undefined): Promise<string> =>
  (await world.running.control.operations.read(world.caller, { operationId: operationId ?? '' })).state;

onBothEngines('a data disk', (open) => {
  test('grows while its instance runs or is stopped, and changes nothing else', async () => {
    const room = await diskRoom(await open());
    const id = await room.running();
    const hadGB = await sizeOf(room, id);
    const [pool] = await poolsOf(room.world.store.read, room.world.drivers.regionId);
    const { operationId } = await expand(room, id, { dataDiskGB: hadGB + 7 });
    const text = await room.world.instance(id);
    expect(text.instanceRuntimeInfo).toMatchObject({
      status: 'Running',
      phase: 'Ready',
      instanceDiskAmountInfo: { dataDiskAmountGi: hadGB + 7 },
    });
    expect(text.instanceSpecInfo.instanceConfiguration.InstanceDiskAmountRequest.dataDiskAmountGiReq).toBe(hadGB + 7);
    await eventually(async () => (await stateOf(room, operationId)) === 'Succeeded');
    expect(room.memory.there.get(`data/${id}`)).toBe(hadGB + 7);
    const [now] = await poolsOf(room.world.store.read, room.world.drivers.regionId);
    expect((now?.usedGB ?? 0) - (pool?.usedGB ?? 0)).toBe(7);

    await room.rest(id);
    const stopped = await expand(room, id, { dataDiskGB: hadGB + 9 });
    await eventually(async () => (await stateOf(room, stopped.operationId)) === 'Succeeded');
    expect(room.memory.there.get(`data/${id}`)).toBe(hadGB + 9);
    expect((await room.world.instance(id)).instanceRuntimeInfo.status).toBe('Stopped');
    await atRest(room.world, id);
    await room.world.running.control.instances.start(room.world.caller, { instanceId: id }, null);
    await room.world.until(id, hasStatus('Running'));
    await settled(room.world);
    await expectConsistent(room.world);
  });

  test('refuses to shrink or to exceed its pool, with the reason, and writes nothing', async () => {
    const room = await diskRoom(await open());
    const id = await room.running();
    const hadGB = await sizeOf(room, id);
    await expectRefused(expand(room, id, { dataDiskGB: hadGB - 1 }), 'field_value', /can not be made smaller/);
    await expectRefused(expand(room, id, { dataDiskGB: hadGB }), 'field_value', /which it is already/);
    await expectRefused(expand(room, id, {}), 'field_missing', /dataDiskGB/);
    await expectRefused(expand(room, id, { dockerStorageGB: 20 }), 'field_value', /without Docker inside/);
    await expectRefused(expand(room, id, { dataDiskGB: 99_999_999 }), 'no_capacity', /GB are free in the pool/);
    const stranger = { ...room.world, caller: await room.world.account('stranger') };
    await expectRefused(expand({ ...room, world: stranger }, id, { dataDiskGB: hadGB + 1 }), 'not_found');
    expect(await sizeOf(room, id)).toBe(hadGB);
    const { generation } = await room.world.store.read
      .selectFrom('instance')
      .select('generation')
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    expect(generation).toBe(1);
    await settled(room.world);
    await expectConsistent(room.world);
  });

  test('refuses to grow during another operation; a repeated request is one', async () => {
    const room = await diskRoom(await open());
    const id = await room.running();
    const hadGB = await sizeOf(room, id);
    const first = await expand(room, id, { dataDiskGB: hadGB + 1 }, 'once');
    expect(await expand(room, id, { dataDiskGB: hadGB + 1 }, 'once')).toEqual(first);
    await eventually(async () => (await stateOf(room, first.operationId)) === 'Succeeded');
    await room.world.running.control.instances.restart(room.world.caller, { instanceId: id }, null);
    await expectRefused(expand(room, id, { dataDiskGB: hadGB + 2 }), 'not_now', /restart is under way/);
    await room.world.until(id, hasStatus('Running'));
  });

  test('grows once its storage can, without delaying a stop', async () => {
    const room = await diskRoom(await open());
    const id = await room.running();
    const hadGB = await sizeOf(room, id);
    const { grow } = room.memory;
    room.memory.grow = async () => {
      throw new Error('it does not answer');
    };
    const { operationId } = await expand(room, id, { dataDiskGB: hadGB + 1 });
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(await stateOf(room, operationId)).toBe('Running');
    expect((await room.world.instance(id)).instanceRuntimeInfo.status).toBe('Running');
    await room.rest(id);
    room.memory.grow = grow;
    expect(await stateOf(room, operationId)).toBe('Cancelled');
    await room.world.running.control.instances.start(room.world.caller, { instanceId: id }, null);
    await room.world.until(id, hasStatus('Running'));
    expect(room.memory.there.get(`data/${id}`)).toBe(hadGB + 1);
  });
});
