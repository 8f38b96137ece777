/** Volumes between create and delete: expand, rename, copy, get. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { onBothEngines } from '../../fixtures/store.ts';
import { StorageFault } from '../../../src/storage/contract.ts';
import { expectRefused } from './access-fixture.ts';
import { expectConsistent, settled } from './consistency.ts';
import { eventually, hasStatus, makeWorld } from '../../fixtures/control.ts';
import {
  boundVolume,
  copyVolume,
  createVolume,
  listedVolumes,
  operationOf,
  takeSnapshot,
  snapshotIs,
  usedGB,
  volumeIs,
} from './storage-fixture.ts';

const files = (world: { folder: string }, kind: 'volume' | 'snapshot', id: string): string =>
  join(world.folder, kind, id, 'files');

onBothEngines('a volume', (open) => {
  test('grows while mounted, allots its pool, and ends its operation; the same size changes nothing', async () => {
    const world = await makeWorld(await open());
    const { volumes, instances } = world.running.control;
    const { id } = await boundVolume(world, 'data');
    const mount = { mountPath: '/root/v', remoteStorageName: 'v', remoteStorageId: id, type: 'filesystem' };
    const one = await instances.launch(world.caller, world.launchInput({ remoteStorages: [mount] }), null);
    await world.until(one.instanceId, hasStatus('Running'));
    // The size changes only by growing on a storage with size limits.
    const grown: number[] = [];
    let hasGB = 3;
    world.storage.observe = async () => ({ kind: 'present', sizeGB: hasGB });
    world.storage.grow = async (_, sizeGB) => void grown.push((hasGB = sizeGB));
    const before = await usedGB(world);
    const larger = await volumes.expand(world.caller, { id, sizeGB: 7 }, null);
    expect(JSON.parse(larger.volumeText)).toMatchObject({ id, sizeGB: 7, status: 'Bound' });
    expect(larger.sizeLimit).toBe('soft');
    await eventually(async () => (await operationOf(world, larger.operationId)).state === 'Succeeded');
    expect(grown).toEqual([7]);
    expect((await usedGB(world)) - before).toBe(4);
    const again = await volumes.expand(world.caller, { id, sizeGB: 7 }, null);
    expect(again).toEqual(larger);
    await settled(world);
    expect(grown).toEqual([7]);
    await expectConsistent(world);
  });

  test('refuses to shrink, to exceed its pool, or to grow while not Bound, with an alternative', async () => {
    const world = await makeWorld(await open(), { start: false });
    const { volumes } = world.running.control;
    const { id } = await createVolume(world, 'data', 5);
    await expectRefused(volumes.expand(world.caller, { id, sizeGB: 7 }, null), 'not_now', /Pending/);
    await world.running.start();
    await volumeIs(world, id, 'Bound');
    const before = await usedGB(world);
    await expectRefused(
      volumes.expand(world.caller, { id, sizeGB: 4 }, null),
      'field_value',
      /cannot shrink.*copy the files/,
    );
    await expectRefused(
      volumes.expand(world.caller, { id, sizeGB: 99_999_999 }, null),
      'no_capacity',
      /the pool default has -?\d+ GB free/,
    );
    await expectRefused(
      volumes.expand(await world.account('stranger'), { id, sizeGB: 7 }, null),
      'not_found',
      new RegExp(id),
    );
    await volumes.delete(world.caller, { id }, null);
    await expectRefused(volumes.expand(world.caller, { id, sizeGB: 7 }, null), 'not_found', new RegExp(id));
    await settled(world);
    expect(await usedGB(world)).toBe(before - 5);
    await expectConsistent(world);
  });

  test("keeps its size and releases the capacity when its storage can't grow", async () => {
    const world = await makeWorld(await open());
    const { id } = await boundVolume(world, 'data', 5);
    world.storage.observe = async () => ({ kind: 'present', sizeGB: 5 });
    world.storage.grow = async () => {
      throw new StorageFault('full', 'there is no room');
    };
    const before = await usedGB(world);
    const { operationId } = await world.running.control.volumes.expand(world.caller, { id, sizeGB: 9 }, null);
    await eventually(async () => (await operationOf(world, operationId)).state === 'Failed');
    expect((await operationOf(world, operationId)).error).toMatchObject({
      reason: 'StorageFull',
      message: 'there is no room',
    });
    expect(await volumeIs(world, id, 'Bound')).toMatchObject({ sizeGB: 5 });
    expect(await usedGB(world)).toBe(before);
    await settled(world);
    await expectConsistent(world);
  });

  test('is renamed at once; one of many concurrent requests gets the name', async () => {
    const world = await makeWorld(await open());
    const { volumes } = world.running.control;
    const ids = [];
    for (const name of ['a', 'b', 'c', 'd', 'e']) ids.push((await boundVolume(world, name)).id);
    const tries = await Promise.allSettled([
      ...ids.map((id) => volumes.rename(world.caller, { id, name: 'one' }, null)),
      createVolume(world, 'one'),
      copyVolume(world, { id: ids[0] ?? '', name: 'one' }),
    ]);
    const refused = tries.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []));
    expect(refused).toHaveLength(tries.length - 1);
    for (const reason of refused)
      expect(reason).toMatchObject({ code: 'name_taken', message: 'Volume already exists' });
    expect((await listedVolumes(world)).filter(({ volumeName }) => volumeName === 'one')).toHaveLength(1);
    const [id = ''] = ids;
    await volumes.rename(world.caller, { id, name: 'mine' }, null);
    await volumes.rename(world.caller, { id, name: 'mine' }, null);
    // The earlier names are free again.
    await createVolume(world, 'a');
    await expectRefused(
      volumes.rename(await world.account('stranger'), { id, name: 'x' }, null),
      'not_found',
      new RegExp(id),
    );
    await settled(world);
    await expectConsistent(world);
  });

  test('keeps a new name given during a reconcile', async () => {
    const world = await makeWorld(await open());
    const { create } = world.storage;
    let goOn = (): void => {};
    const blocked = new Promise<void>((resolve) => (goOn = resolve));
    let asked = false;
    world.storage.create = async (...given) => {
      asked = true;
      await blocked;
      return create(...given);
    };
    const { id } = await createVolume(world, 'before');
    await eventually(() => asked);
    await world.running.control.volumes.rename(world.caller, { id, name: 'after' }, null);
    goOn();
    expect(await volumeIs(world, id, 'Bound')).toMatchObject({ volumeName: 'after' });
    await settled(world);
    await expectConsistent(world);
  });

  test('grows only after a copy of it is complete', async () => {
    const world = await makeWorld(await open());
    const { volumes } = world.running.control;
    const { id } = await boundVolume(world, 'data');
    const { create } = world.storage;
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    world.storage.create = async (...given) => {
      await released;
      await create(...given);
    };
    const { volumeText } = await volumes.copy(world.caller, { id, name: 'copy' }, null);
    await expectRefused(volumes.expand(world.caller, { id, sizeGB: 9 }, null), 'not_now', /being copied/);
    release();
    await volumeIs(world, JSON.parse(volumeText).id, 'Bound');
    await volumes.expand(world.caller, { id, sizeGB: 9 }, null);
    await settled(world);
    await expectConsistent(world);
  });

  test('is copied with all its files at an equal or larger size; the copy is independent', async () => {
    const world = await makeWorld(await open());
    const { volumes } = world.running.control;
    const { id } = await boundVolume(world, 'data');
    await writeFile(join(files(world, 'volume', id), 'file'), 'first');
    const copy = await copyVolume(world, { id, name: 'copy', sizeGB: 5, volumeType: 'highspeedstorage' });
    expect(copy).toMatchObject({ volumeName: 'copy', sizeGB: 5, volumeType: 'highspeedstorage', status: 'Pending' });
    await volumeIs(world, copy.id, 'Bound');
    await writeFile(join(files(world, 'volume', id), 'file'), 'second');
    expect(await readFile(join(files(world, 'volume', copy.id), 'file'), 'utf8')).toBe('first');
    expect(await volumes.get(world.caller, { id: copy.id })).toMatchObject({ madeFrom: { kind: 'volume', id } });
    await expectRefused(copyVolume(world, { id, name: 'less', sizeGB: 2 }), 'field_value', /a copy cannot be smaller/);
    await volumes.delete(world.caller, { id }, null);
    await settled(world);
    expect(await readFile(join(files(world, 'volume', copy.id), 'file'), 'utf8')).toBe('first');
    await expectConsistent(world);
  });

  test('is deleted only after a copy of it is complete', async () => {
    const world = await makeWorld(await open());
    const { id } = await boundVolume(world, 'data');
    await writeFile(join(files(world, 'volume', id), 'file'), 'x');
    const { create } = world.storage;
    let goOn = (): void => {};
    const blocked = new Promise<void>((resolve) => (goOn = resolve));
    world.storage.create = async (...given) => blocked.then(() => create(...given));
    const copy = await copyVolume(world, { id, name: 'copy' });
    const gone = await world.running.control.volumes.delete(world.caller, { id }, null);
    const looked = async (): Promise<boolean> => {
      const row = await world.store.read
        .selectFrom('volume')
        .select(['leaseOwner', 'dueAtMs'])
        .where('id', '=', id)
        .executeTakeFirst();
      return row?.leaseOwner === null && (row.dueAtMs ?? 0) > Date.now() + 100;
    };
    await eventually(looked);
    expect(await readFile(join(files(world, 'volume', id), 'file'), 'utf8')).toBe('x');
    goOn();
    await volumeIs(world, copy.id, 'Bound');
    expect(await readFile(join(files(world, 'volume', copy.id), 'file'), 'utf8')).toBe('x');
    await eventually(async () => (await operationOf(world, gone.operationId)).state === 'Succeeded');
    await settled(world);
    await expectConsistent(world);
  });

  test("fails with the reason, releases its capacity, can't be mounted, and can be deleted", async () => {
    const world = await makeWorld(await open());
    const { volumes, instances } = world.running.control;
    const before = await usedGB(world);
    const { create } = world.storage;
    world.storage.create = async (disk, ...rest) => {
      if (disk.kind === 'volume') throw new StorageFault('full', 'there is no room');
      return create(disk, ...rest);
    };
    const { id } = await createVolume(world, 'data');
    await volumeIs(world, id, 'Failed');
    expect(await usedGB(world)).toBe(before);
    expect(await volumes.get(world.caller, { id })).toMatchObject({
      operation: { state: 'Failed', error: { reason: 'StorageFull', message: 'there is no room' } },
    });
    const mount = { mountPath: '/root/v', remoteStorageName: 'v', remoteStorageId: id, type: 'filesystem' };
    await expectRefused(
      instances.launch(world.caller, world.launchInput({ remoteStorages: [mount] }), null),
      'not_now',
      /Failed/,
    );
    await expectRefused(takeSnapshot(world, id, 's'), 'not_now', /Failed/);
    await expectRefused(copyVolume(world, { id, name: 'copy' }), 'not_now', /Failed/);
    await settled(world);
    await expectConsistent(world);
    await volumes.delete(world.caller, { id }, null);
    await eventually(async () => (await world.store.read.selectFrom('volume').selectAll().execute()).length === 0);
    await settled(world);
    await expectConsistent(world);
  });

  test('shows mounting instances, snapshots and its last operation, to its owner only', async () => {
    const world = await makeWorld(await open());
    const { volumes, instances } = world.running.control;
    const { id } = await boundVolume(world, 'data');
    const mount = { mountPath: '/root/v', remoteStorageName: 'v', remoteStorageId: id, type: 'filesystem' };
    const one = await instances.launch(world.caller, world.launchInput({ remoteStorages: [mount] }), null);
    const first = await takeSnapshot(world, id, 'first');
    await snapshotIs(world, first.id, 'Ready');
    const second = await takeSnapshot(world, id, 'second');
    await snapshotIs(world, second.id, 'Ready');
    const facts = await volumes.get(world.caller, { id });
    expect(facts).toMatchObject({
      pool: 'default',
      sizeLimit: 'soft',
      copies: 'live',
      mountedBy: [one.instanceId],
      madeFrom: null,
      operation: { kind: 'createVolume', state: 'Succeeded' },
    });
    expect(facts.snapshotTexts.map((text) => JSON.parse(text).snapshotName)).toEqual(['second', 'first']);
    await expectRefused(volumes.get(await world.account('stranger'), { id }), 'not_found', new RegExp(id));
  });
});
