import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import type { DiskId } from '../../../src/domain/disk.ts';
import { instanceIdOf } from '../../../src/domain/ids.ts';
import { StorageFault } from '../../../src/storage/contract.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectRefused } from './access-fixture.ts';
import { diskRoom, type DiskRoom } from './disk-fixture.ts';
import { listOf, makeOrphan, sweeping } from './sweeping.ts';

const soon = (): AbortSignal => AbortSignal.timeout(120_000);

async function leave(room: DiskRoom, disk: DiskId): Promise<string> {
  await room.memory.create(disk, 1, soon());
  return `${room.world.drivers.regionId}/disk/default/${disk.kind}/${disk.id}`;
}

const handle = ({ world }: DiskRoom, strayId: string, action: 'adopt' | 'stop' | 'delete') =>
  world.running.control.orphans.handle(world.caller, { strayId, action });

onBothEngines('orphaned disks', (open) => {
  test('are reported after two sweeps, and never deleted by a policy; disks with a row are not orphans', async () => {
    const room = await diskRoom(await open());
    await room.running(await room.volume('data', 1));
    const id = randomUUID();
    const strayId = await leave(room, { kind: 'volume', id });
    await room.sweep();
    expect(await listOf(room.world)).toEqual([]);
    await room.sweep();
    const { sweep } = sweeping(room.world, { policy: { action: 'delete', retentionMs: 0 } });
    for (let round = 0; round < 3; round++) {
      await sweep();
      await room.sweep();
    }
    expect(await listOf(room.world)).toEqual([
      expect.objectContaining({ strayId, kind: 'disk', subjectId: id, deletedInSeconds: null }),
    ]);
    expect(room.memory.there.has(`volume/${id}`)).toBe(true);
    const events = await room.world.store.read
      .selectFrom('event')
      .select('data')
      .where('kind', '=', 'stray.found')
      .execute();
    expect(events.map(({ data }) => JSON.parse(data))).toEqual([{ count: 1, strayIds: [strayId] }]);
    await room.memory.destroy({ kind: 'volume', id });
    await room.sweep();
    expect(await listOf(room.world)).toEqual([]);
  });

  test("are deleted on an administrator's request, and neither stopped nor adopted", async () => {
    const room = await diskRoom(await open());
    const disk: DiskId = { kind: 'shared', id: `${randomUUID()}/${room.world.drivers.regionId}` };
    const [strayId, kept] = [await leave(room, disk), await leave(room, { kind: 'volume', id: randomUUID() })];
    await room.sweep();
    await room.sweep();
    await expectRefused(handle(room, strayId, 'stop'), 'unsupported', /delete it/);
    await expectRefused(handle(room, strayId, 'adopt'), 'unsupported', /delete it/);
    const { destroy } = room.memory;
    room.memory.destroy = async () => {
      throw new StorageFault('busy', 'an instance still uses the disk');
    };
    await handle(room, strayId, 'delete');
    await room.sweep();
    expect((await listOf(room.world)).map(({ note }) => note)).toContain('an instance still uses the disk');
    room.memory.destroy = destroy;
    // A sweep of the server may have listed the disk before it was deleted.
    const left = async (): Promise<string[]> => {
      await room.sweep();
      return (await listOf(room.world)).map((one) => one.strayId);
    };
    await expect.poll(left).toEqual([kept]);
    expect(room.memory.there.has(`shared/${disk.id}`)).toBe(false);
  });

  test('stay while their container is an orphan too', async () => {
    const room = await diskRoom(await open());
    const id = await makeOrphan(room.world);
    const strayId = await leave(room, { kind: 'data', id });
    const { sweep } = sweeping(room.world, { policy: { action: 'report', retentionMs: 0 } });
    for (let round = 0; round < 2; round++) {
      await sweep();
      await room.sweep();
    }
    await handle(room, strayId, 'delete');
    await room.sweep();
    expect(room.memory.there.has(`data/${id}`)).toBe(true);
    const notes = new Map((await listOf(room.world)).map((one) => [one.strayId, one.note]));
    expect(notes.get(strayId)).toMatch(/its instance is a stray too/);
    await room.world.engine.destroy(id, soon());
    await sweep();
    await room.sweep();
    expect(room.memory.there.has(`data/${id}`)).toBe(false);
  });

  test('need a row of their own pool; a storage that does not answer changes nothing', async () => {
    const room = await diskRoom(await open());
    const id = instanceIdOf(randomUUID());
    const strayId = await leave(room, { kind: 'data', id });
    await room.sweep();
    const { listOwned } = room.memory;
    room.memory.listOwned = async () => {
      throw new Error('it does not answer');
    };
    await expect(room.sweep()).rejects.toThrow();
    room.memory.listOwned = listOwned;
    await room.sweep();
    expect((await listOf(room.world)).map((one) => one.strayId)).toEqual([strayId]);
    const { regionId } = room.world.drivers;
    const row = { kind: 'data', subjectId: id, regionId, ownerId: 'somebody', sizeGB: 1 };
    const has = (pool: string) =>
      room.world.store.write(async (tx) => {
        await tx.deleteFrom('disk').where('subjectId', '=', id).execute();
        await tx
          .insertInto('disk')
          .values({ ...row, id: `data/${id}`, pool })
          .execute();
      });
    await has('filesystem');
    await room.sweep();
    expect(await listOf(room.world)).toHaveLength(1);
    await has('default');
    await room.sweep();
    expect(await listOf(room.world)).toEqual([]);
  });
});
