import { makeVolumeDue } from '../../../src/store/tables/volumes.ts';
import { measuring } from './measuring.ts';
import { mkdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { PublicVolume } from '../../../src/domain/storage/volume.ts';
import { onBothEngines, onEngine } from '../../fixtures/store.ts';
import { expectRefused } from './access-fixture.ts';
import { expectConsistent, settled } from './consistency.ts';
import { eventually, hasStatus, makeWorld, textOf, type World } from '../../fixtures/control.ts';

async function create(world: World, name: string): Promise<PublicVolume> {
  const body = { name, sizeGB: 3, region: world.drivers.regionId, volumeType: 'filesystem' } as const;
  const { volumeText } = await world.running.control.volumes.create(world.caller, body, null);
  return JSON.parse(volumeText);
}

async function listed(world: World): Promise<PublicVolume[]> {
  const { texts } = await world.running.control.volumes.list(world.caller, { currentPage: 1, pageSize: 100 });
  return texts.map((text): PublicVolume => JSON.parse(textOf(text)));
}

const statusOf = async (world: World, id: string): Promise<string | undefined> =>
  (await listed(world)).find((volume) => volume.id === id)?.status;
const bound = (world: World, id: string): Promise<void> =>
  eventually(async () => (await statusOf(world, id)) === 'Bound');
const folderOf = (world: World, id: string): string => join(world.folder, 'volume', id);
const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

const mounting = (world: World, ...ids: string[]) =>
  world.launchInput({
    remoteStorages: ids.map((id, index) => ({
      mountPath: `/root/v${index}`,
      remoteStorageName: 'v',
      remoteStorageId: id,
      type: 'filesystem',
    })),
  });

/** Measures all disks now; a new volume's wake makes the loop look at what became due. */
const measure = (world: World): Promise<void> =>
  measuring(world, () => void create(world, `wake ${Math.random()}`)).measure();

/** Some turns of the microtask queue later, so that either request may reach the store first. */
async function later<T>(microtasks: number, fn: () => Promise<T>): Promise<T> {
  for (let index = 0; index < microtasks; index++) await Promise.resolve();
  return fn();
}

onBothEngines('a volume', (open) => {
  test('is Pending without usage at first, then Bound with a folder', async () => {
    const world = await makeWorld(await open());
    const volume = await create(world, 'data');
    expect(volume).toMatchObject({ volumeName: 'data', status: 'Pending', usageGB: 0, sizeGB: 3, username: 'admin' });
    await bound(world, volume.id);
    expect((await stat(folderOf(world, volume.id))).isDirectory()).toBe(true);
    await settled(world);
    await expectConsistent(world);
  });

  test('refuses a taken name, also to fifty concurrent requests; other accounts and deleted volumes do not hold it', async () => {
    const world = await makeWorld(await open());
    const results = await Promise.allSettled(Array.from({ length: 50 }, () => create(world, 'one')));
    const made = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
    expect(made).toHaveLength(1);
    for (const result of results)
      if (result.status === 'rejected')
        expect(result.reason).toMatchObject({ code: 'name_taken', message: 'Volume already exists' });
    const otherAccount = await world.account('stranger');
    await world.running.control.volumes.create(
      otherAccount,
      { name: 'one', sizeGB: 1, region: world.drivers.regionId, volumeType: 'highspeedstorage' },
      null,
    );
    await world.running.control.volumes.delete(world.caller, { id: made[0]?.id ?? '' }, null);
    await create(world, 'one');
    await settled(world);
    await expectConsistent(world);
  });

  test('refuses a delete while mounted, naming the instances; its files go after the container', async () => {
    const world = await makeWorld(await open());
    const { instances, volumes } = world.running.control;
    const { id } = await create(world, 'data');
    const one = await instances.launch(world.caller, mounting(world, id), null);
    await world.until(one.instanceId, hasStatus('Running'));
    await expectRefused(volumes.delete(world.caller, { id }, null), 'in_use', new RegExp(one.instanceId));
    await instances.stop(world.caller, one, null);
    await expectRefused(volumes.delete(world.caller, { id }, null), 'in_use', new RegExp(one.instanceId));
    await world.until(one.instanceId, hasStatus('Stopped'));

    world.engine.host.goAway(60_000);
    await instances.terminate(world.caller, one, null);
    await volumes.delete(world.caller, { id }, null);
    expect(await listed(world)).toEqual([]);
    const putOff = async (): Promise<boolean> => {
      const { leaseOwner, dueAtMs } = await world.store.read
        .selectFrom('volume')
        .select(['leaseOwner', 'dueAtMs'])
        .executeTakeFirstOrThrow();
      return leaseOwner === null && dueAtMs !== null && dueAtMs > Date.now() + 100;
    };
    await eventually(putOff);
    expect(await exists(folderOf(world, id))).toBe(true);
    world.engine.host.comeBack();
    await eventually(async () => (await world.store.read.selectFrom('volume').selectAll().execute()).length === 0);
    expect(await exists(folderOf(world, id))).toBe(false);
    await settled(world);
    await expectConsistent(world);
    await expectRefused(volumes.delete(world.caller, { id }, null), 'not_found', new RegExp(id));
  });

  test('leaves nothing when deleted during its creation', async () => {
    const world = await makeWorld(await open());
    const { create: make } = world.storage;
    const { promise: goOn, resolve } = Promise.withResolvers<void>();
    const { promise: began, resolve: begin } = Promise.withResolvers<void>();
    const { promise: made, resolve: isMade } = Promise.withResolvers<void>();
    world.storage.create = async (disk, sizeGB, signal) => {
      begin();
      await goOn;
      await make(disk, sizeGB, signal);
      isMade();
    };
    const { id } = await create(world, 'overtaken');
    await began;
    await world.running.control.volumes.delete(world.caller, { id }, null);
    // The time that a reconcile would need to observe the absence and delete the row.
    await new Promise((done) => setTimeout(done, 100));
    resolve();
    await made;
    await eventually(async () => (await world.store.read.selectFrom('volume').selectAll().execute()).length === 0);
    expect(await exists(folderOf(world, id))).toBe(false);
    await settled(world);
    await expectConsistent(world);
  });

  test("is not found for another account's delete", async () => {
    const world = await makeWorld(await open());
    const { id } = await create(world, 'data');
    await expectRefused(
      world.running.control.volumes.delete(await world.account('stranger'), { id }, null),
      'not_found',
      new RegExp(id),
    );
    await bound(world, id);
  });

  test('refuses one of a concurrent delete and launch', async () => {
    const world = await makeWorld(await open(), { start: false });
    const { instances, volumes } = world.running.control;
    const outcomes = new Set<string>();
    for (let round = 0; round < 100; round++) {
      const { id } = await create(world, `v${round}`);
      const launch = (): Promise<string> =>
        instances.launch(world.caller, mounting(world, id), null).then(
          (one) => one.instanceId,
          (error: { code: string }) => error.code,
        );
      const remove = (): Promise<string> =>
        volumes.delete(world.caller, { id }, null).then(
          () => 'deleted',
          (error: { code: string }) => error.code,
        );
      const microtasks = round % 10;
      const [launched, deleted] = await Promise.all([launch(), later(microtasks, remove)]);
      const mounts = await world.store.read.selectFrom('mount').selectAll().where('volumeId', '=', id).execute();
      const { status } = await world.store.read
        .selectFrom('volume')
        .select('status')
        .where('id', '=', id)
        .executeTakeFirstOrThrow();
      if (deleted === 'deleted') {
        expect({ launched, mounts, status }).toEqual({ launched: 'not_found', mounts: [], status: 'Terminating' });
        outcomes.add('deleted');
      } else {
        expect({ deleted, mounts: mounts.length, status }).toEqual({ deleted: 'in_use', mounts: 1, status: 'Pending' });
        await instances.terminate(world.caller, { instanceId: launched }, null);
        outcomes.add('launched');
      }
    }
    expect(outcomes.size).toBe(2);
  });

  test('keeps an instance waiting, with the reason, until Bound', async () => {
    const world = await makeWorld(await open());
    const { observe } = world.storage;
    world.storage.observe = async () => ({ kind: 'unknown', reason: 'not mounted' });
    const { id } = await create(world, 'late');
    const { instanceId } = await world.running.control.instances.launch(world.caller, mounting(world, id), null);
    const waiting = await world.until(
      instanceId,
      ({ instanceRuntimeInfo }) => instanceRuntimeInfo.diagnosisReason === 'VolumePending',
    );
    expect(waiting.instanceRuntimeInfo).toMatchObject({
      status: 'Starting',
      phase: 'PrepareDisks',
      diagnosisMessage: expect.stringContaining('late'),
    });
    world.storage.observe = observe;
    await world.store.write((tx) => tx.updateTable('volume').set({ dueAtMs: Date.now() }).execute());
    await create(world, 'wakes the loop');
    await world.until(instanceId, hasStatus('Running'));
  });
});

onEngine('sqlite', 'the backing of a volume', (open) => {
  test('is Lost when its backing vanished: refused to a launch, reported to a start, Bound when it is back', async () => {
    const world = await makeWorld(await open());
    const { instances } = world.running.control;
    const { id } = await create(world, 'data');
    const one = await instances.launch(world.caller, mounting(world, id), null);
    await world.until(one.instanceId, hasStatus('Running'));
    await instances.stop(world.caller, one, null);
    await world.until(one.instanceId, hasStatus('Stopped'));
    await rename(folderOf(world, id), join(world.folder, 'elsewhere'));
    await measure(world);
    await eventually(async () => (await statusOf(world, id)) === 'Lost');
    await expectRefused(instances.launch(world.caller, mounting(world, id), null), 'not_now', /Lost/);
    await instances.start(world.caller, one, null);
    const failed = await world.until(one.instanceId, hasStatus('StartingFailed'));
    expect(failed.instanceRuntimeInfo.diagnosisReason).toBe('VolumeLost');
    await rename(join(world.folder, 'elsewhere'), folderOf(world, id));
    await measure(world);
    await bound(world, id);
    await instances.start(world.caller, one, null);
    await world.until(one.instanceId, hasStatus('Running'));
    await settled(world);
    await expectConsistent(world);
  });

  test('is unknown when its root is missing: nothing is Lost or recreated', async () => {
    const world = await makeWorld(await open());
    const { id } = await create(world, 'data');
    await bound(world, id);
    await settled(world);
    await rename(world.folder, `${world.folder}-away`);
    await measure(world);
    await world.store.write((tx) => makeVolumeDue(tx, id, Date.now()));
    await create(world, 'wake');
    await eventually(async () => {
      const { dueAtMs } = await world.store.read
        .selectFrom('volume')
        .select('dueAtMs')
        .where('id', '=', id)
        .executeTakeFirstOrThrow();
      return dueAtMs !== null && dueAtMs > Date.now() + 1_000;
    });
    expect(await statusOf(world, id)).toBe('Bound');
    expect(await exists(world.folder)).toBe(false);
    await rename(`${world.folder}-away`, world.folder);
  });

  test('is measured, and shows its usage', async () => {
    const world = await makeWorld(await open());
    const { id } = await create(world, 'data');
    await bound(world, id);
    await mkdir(join(folderOf(world, id), 'files', 'deep'));
    await writeFile(join(folderOf(world, id), 'files', 'deep', 'file'), Buffer.alloc(8 * 1024 ** 2, 1));
    await measure(world);
    await eventually(async () => ((await listed(world)).find((volume) => volume.id === id)?.usageGB ?? 0) >= 0.007);
    await rm(join(folderOf(world, id), 'files', 'deep'), { recursive: true });
    await measure(world);
    await eventually(async () => (await listed(world)).find((volume) => volume.id === id)?.usageGB === 0);
    await settled(world);
    await expectConsistent(world);
  });
});
