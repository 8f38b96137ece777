import { readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { StorageFault } from '../../../src/storage/contract.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectRefused } from './access-fixture.ts';
import { expectConsistent, settled } from './consistency.ts';
import { eventually, makeWorld } from '../../fixtures/control.ts';
import {
  boundVolume,
  createVolume,
  listedSnapshots,
  operationOf,
  restore,
  snapshotIs,
  takeSnapshot,
  usedGB,
  volumeIs,
} from './storage-fixture.ts';

const files = (world: { folder: string }, kind: 'volume' | 'snapshot', id: string): string =>
  join(world.folder, kind, id, 'files');

onBothEngines('a snapshot', (open) => {
  test("holds the volume's files, is counted at its size, outlives it, and restores to a new volume", async () => {
    const world = await makeWorld(await open());
    const { volumes, snapshots, operations } = world.running.control;
    const { id } = await boundVolume(world, 'data', 4);
    await writeFile(join(files(world, 'volume', id), 'file'), 'first');
    const before = await usedGB(world);
    const taken = await takeSnapshot(world, id, 'monday');
    expect(taken).toMatchObject({
      snapshotName: 'monday',
      volumeId: id,
      volumeName: 'data',
      sizeGB: 4,
      status: 'Pending',
      consistency: 'live',
      reason: '',
      username: 'admin',
    });
    await snapshotIs(world, taken.id, 'Ready');
    expect((await usedGB(world)) - before).toBe(4);
    await writeFile(join(files(world, 'volume', id), 'file'), 'second');
    await volumes.delete(world.caller, { id }, null);
    await settled(world);
    const restored = await restore(world, { id: taken.id, name: 'data', sizeGB: 6 });
    expect(restored).toMatchObject({ volumeName: 'data', sizeGB: 6, volumeType: 'filesystem', status: 'Pending' });
    await volumeIs(world, restored.id, 'Bound');
    expect(await readFile(join(files(world, 'volume', restored.id), 'file'), 'utf8')).toBe('first');
    await snapshots.delete(world.caller, { id: taken.id }, null);
    await settled(world);
    expect(await readdir(join(world.folder, 'snapshot'))).toEqual([]);
    expect(await readFile(join(files(world, 'volume', restored.id), 'file'), 'utf8')).toBe('first');
    const past = await operations.list(world.caller, { snapshotId: taken.id }, { currentPage: 1, pageSize: 9 });
    expect(past.operations.map(({ kind, state }) => [kind, state])).toEqual([
      ['deleteSnapshot', 'Succeeded'],
      ['createSnapshot', 'Succeeded'],
    ]);
    await expectConsistent(world);
  });

  test('refuses a taken name, also to twenty concurrent requests; a deleted one frees its name', async () => {
    const world = await makeWorld(await open());
    const { id } = await boundVolume(world, 'data');
    const tries = await Promise.allSettled(Array.from({ length: 20 }, () => takeSnapshot(world, id, 'one')));
    const made = tries.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    expect(made).toHaveLength(1);
    for (const each of tries)
      if (each.status === 'rejected')
        expect(each.reason).toMatchObject({ code: 'name_taken', message: 'Snapshot already exists' });
    await world.running.control.snapshots.delete(world.caller, { id: made[0]?.id ?? '' }, null);
    await takeSnapshot(world, id, 'one');
    await settled(world);
    expect(await listedSnapshots(world)).toHaveLength(1);
    await expectConsistent(world);
  });

  test('is deleted after a restore in progress, which is complete; refuses new restores meanwhile', async () => {
    const world = await makeWorld(await open());
    const { snapshots } = world.running.control;
    const { id } = await boundVolume(world, 'data');
    await writeFile(join(files(world, 'volume', id), 'file'), 'x');
    const taken = await takeSnapshot(world, id, 's');
    await snapshotIs(world, taken.id, 'Ready');
    const { create } = world.storage;
    let goOn = (): void => {};
    const blocked = new Promise<void>((resolve) => (goOn = resolve));
    world.storage.create = async (...given) => blocked.then(() => create(...given));
    const restored = await restore(world, { id: taken.id, name: 'restored' });
    const gone = await snapshots.delete(world.caller, { id: taken.id }, null);
    expect(await listedSnapshots(world)).toEqual([]);
    await expectRefused(restore(world, { id: taken.id, name: 'late' }), 'not_found', new RegExp(taken.id));
    const putOff = async (): Promise<boolean> => {
      const row = await world.store.read.selectFrom('snapshot').select(['leaseOwner', 'dueAtMs']).executeTakeFirst();
      return row?.leaseOwner === null && (row.dueAtMs ?? 0) > Date.now() + 100;
    };
    await eventually(putOff);
    expect(await readdir(join(world.folder, 'snapshot'))).toEqual([taken.id]);
    goOn();
    await volumeIs(world, restored.id, 'Bound');
    expect(await readFile(join(files(world, 'volume', restored.id), 'file'), 'utf8')).toBe('x');
    await eventually(async () => (await operationOf(world, gone.operationId)).state === 'Succeeded');
    await settled(world);
    expect(await readdir(join(world.folder, 'snapshot'))).toEqual([]);
    await expectConsistent(world);
  });

  test('races a restore with a delete: a restore that was accepted is complete', async () => {
    const world = await makeWorld(await open());
    const { snapshots } = world.running.control;
    const { id } = await boundVolume(world, 'data');
    await writeFile(join(files(world, 'volume', id), 'file'), 'x');
    const outcomes = new Set<string>();
    for (let round = 0; round < 20; round++) {
      const taken = await takeSnapshot(world, id, `s${round}`);
      await snapshotIs(world, taken.id, 'Ready');
      const afterMicrotasks = async (count: number): Promise<void> => {
        for (let index = 0; index < count; index++) await Promise.resolve();
      };
      const restored = (): Promise<string> =>
        restore(world, { id: taken.id, name: `v${round}` }).then(
          (made) => made.id,
          (error: { code: string }) => error.code,
        );
      const deleted = () => snapshots.delete(world.caller, { id: taken.id }, null);
      const [first, second] = round % 2 === 0 ? [0, round] : [round, 0];
      const [volume] = await Promise.all([
        afterMicrotasks(first).then(restored),
        afterMicrotasks(second).then(deleted),
      ]);
      if (volume === 'not_found') {
        outcomes.add('deleted');
        continue;
      }
      outcomes.add('restored');
      await volumeIs(world, volume, 'Bound');
      expect(await readdir(files(world, 'volume', volume))).toEqual(['file']);
    }
    expect([...outcomes].toSorted()).toEqual(['deleted', 'restored']);
    await settled(world);
    expect(await readdir(join(world.folder, 'snapshot'))).toEqual([]);
    await expectConsistent(world);
  });

  test("fails with the storage's message when full, leaves nothing, and can be deleted", async () => {
    const world = await makeWorld(await open());
    const { id } = await boundVolume(world, 'data');
    const before = await usedGB(world);
    const { create } = world.storage;
    world.storage.create = async () => {
      throw new StorageFault('full', 'there is no room for a copy');
    };
    const taken = await takeSnapshot(world, id, 's');
    expect(await snapshotIs(world, taken.id, 'Failed')).toMatchObject({ reason: 'there is no room for a copy' });
    expect(await usedGB(world)).toBe(before);
    await expectRefused(restore(world, { id: taken.id, name: 'x' }), 'not_now', /it has no files/);
    world.storage.create = create;
    await world.running.control.snapshots.delete(world.caller, { id: taken.id }, null);
    await eventually(async () => (await world.store.read.selectFrom('snapshot').selectAll().execute()).length === 0);
    await settled(world);
    await expectConsistent(world);
  });

  test('refuses an unbound volume, a pending snapshot, another account, and a full pool', async () => {
    const world = await makeWorld(await open(), { start: false });
    const { snapshots } = world.running.control;
    const { id } = await createVolume(world, 'data');
    await expectRefused(takeSnapshot(world, id, 's'), 'not_now', /Pending/);
    await world.running.start();
    await volumeIs(world, id, 'Bound');
    const otherAccount = await world.account('stranger');
    await expectRefused(snapshots.create(otherAccount, { volumeId: id, name: 's' }, null), 'not_found', new RegExp(id));
    const taken = await takeSnapshot(world, id, 's');
    await snapshotIs(world, taken.id, 'Ready');
    const gone = snapshots.delete(otherAccount, { id: taken.id }, null);
    await expectRefused(gone, 'not_found', new RegExp(taken.id));
    const restored = snapshots.restore(otherAccount, { id: taken.id, name: 'x' }, null);
    await expectRefused(restored, 'not_found', new RegExp(taken.id));
    await expectRefused(
      restore(world, { id: taken.id, name: 'x', sizeGB: 1 }),
      'field_value',
      /a copy cannot be smaller/,
    );
    await world.store.write((tx) => tx.updateTable('pool').set({ limitGB: 7 }).execute());
    await expectRefused(takeSnapshot(world, id, 't'), 'no_capacity', /needs 3 GB, but the pool default has 1 GB free/);
    await expectRefused(
      restore(world, { id: taken.id, name: 'x' }),
      'no_capacity',
      /needs 3 GB, but the pool default has 1 GB free/,
    );
    await settled(world);
    await expectConsistent(world);
  });

  test("fails when the volume's backing vanishes meanwhile", async () => {
    const world = await makeWorld(await open());
    const { id } = await boundVolume(world, 'data');
    await rename(join(world.folder, 'volume', id), join(world.folder, 'elsewhere'));
    const taken = await takeSnapshot(world, id, 's');
    expect(await snapshotIs(world, taken.id, 'Failed')).toMatchObject({ reason: expect.stringContaining(id) });
  });

  test('refuses a restore to another pool, with an alternative', async () => {
    const world = await makeWorld(await open());
    const { id } = await boundVolume(world, 'data');
    const taken = await takeSnapshot(world, id, 's');
    await snapshotIs(world, taken.id, 'Ready');
    const [only] = world.drivers.pools;
    if (!only) throw new Error('there is a pool');
    world.drivers.pools = [only, { ...only, name: 'highspeedstorage' }];
    await expectRefused(
      restore(world, { id: taken.id, name: 'x', volumeType: 'highspeedstorage' }),
      'unsupported',
      /are in the pool highspeedstorage, and snapshot .* is in default/,
    );
    await volumeIs(world, (await restore(world, { id: taken.id, name: 'x' })).id, 'Bound');
  });
});
