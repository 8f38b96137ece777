import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import type { DiskId } from '../../../src/domain/storage/disk.ts';
import { instanceIdOf } from '../../../src/domain/kernel/ids.ts';
import { StorageFault } from '../../../src/storage/contract.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectRefused } from './access-fixture.ts';
import { diskFixture, type DiskFixture } from './disk-fixture.ts';
import { listOf, makeOrphan, sweeping } from './sweeping.ts';

const soon = (): AbortSignal => AbortSignal.timeout(120_000);

async function leave(fixture: DiskFixture, disk: DiskId): Promise<string> {
  await fixture.memory.create(disk, 1, soon());
  return `${fixture.world.drivers.regionId}/disk/default/${disk.kind}/${disk.id}`;
}

const handle = ({ world }: DiskFixture, strayId: string, action: 'adopt' | 'stop' | 'delete') =>
  world.running.control.orphans.handle(world.caller, { strayId, action });

onBothEngines('orphaned disks', (open) => {
  test('are reported after two sweeps, and never deleted by a policy; disks with a row are not orphans', async () => {
    const fixture = await diskFixture(await open());
    await fixture.running(await fixture.volume('data', 1));
    const id = randomUUID();
    const strayId = await leave(fixture, { kind: 'volume', id });
    await fixture.sweep();
    expect(await listOf(fixture.world)).toEqual([]);
    await fixture.sweep();
    const { sweep } = sweeping(fixture.world, { policy: { action: 'delete', retentionMs: 0 } });
    for (let round = 0; round < 3; round++) {
      await sweep();
      await fixture.sweep();
    }
    expect(await listOf(fixture.world)).toEqual([
      expect.objectContaining({ strayId, kind: 'disk', subjectId: id, deletedInSeconds: null }),
    ]);
    expect(fixture.memory.there.has(`volume/${id}`)).toBe(true);
    const events = await fixture.world.store.read
      .selectFrom('event')
      .select('data')
      .where('kind', '=', 'stray.found')
      .execute();
    expect(events.map(({ data }) => JSON.parse(data))).toEqual([{ count: 1, strayIds: [strayId] }]);
    await fixture.memory.destroy({ kind: 'volume', id });
    await fixture.sweep();
    expect(await listOf(fixture.world)).toEqual([]);
  });

  test("are deleted on an administrator's request, and neither stopped nor adopted", async () => {
    const fixture = await diskFixture(await open());
    const disk: DiskId = { kind: 'shared', id: `${randomUUID()}/${fixture.world.drivers.regionId}` };
    const [strayId, volumeOrphan] = [
      await leave(fixture, disk),
      await leave(fixture, { kind: 'volume', id: randomUUID() }),
    ];
    await fixture.sweep();
    await fixture.sweep();
    await expectRefused(handle(fixture, strayId, 'stop'), 'unsupported', /delete it/);
    await expectRefused(handle(fixture, strayId, 'adopt'), 'unsupported', /delete it/);
    const { destroy } = fixture.memory;
    fixture.memory.destroy = async () => {
      throw new StorageFault('busy', 'an instance still uses the disk');
    };
    await handle(fixture, strayId, 'delete');
    await fixture.sweep();
    expect((await listOf(fixture.world)).map(({ note }) => note)).toContain('an instance still uses the disk');
    fixture.memory.destroy = destroy;
    // A sweep of the server may have listed the disk before it was deleted.
    const left = async (): Promise<string[]> => {
      await fixture.sweep();
      return (await listOf(fixture.world)).map((one) => one.strayId);
    };
    await expect.poll(left).toEqual([volumeOrphan]);
    expect(fixture.memory.there.has(`shared/${disk.id}`)).toBe(false);
  });

  test('stay while their container is an orphan too', async () => {
    const fixture = await diskFixture(await open());
    const id = await makeOrphan(fixture.world);
    const strayId = await leave(fixture, { kind: 'data', id });
    const { sweep } = sweeping(fixture.world, { policy: { action: 'report', retentionMs: 0 } });
    for (let round = 0; round < 2; round++) {
      await sweep();
      await fixture.sweep();
    }
    await handle(fixture, strayId, 'delete');
    await fixture.sweep();
    expect(fixture.memory.there.has(`data/${id}`)).toBe(true);
    const notes = new Map((await listOf(fixture.world)).map((one) => [one.strayId, one.note]));
    expect(notes.get(strayId)).toMatch(/its instance is a stray, too/);
    await fixture.world.engine.destroy(id, soon());
    await sweep();
    await fixture.sweep();
    expect(fixture.memory.there.has(`data/${id}`)).toBe(false);
  });

  test('need a row of their own pool; a storage that does not answer changes nothing', async () => {
    const fixture = await diskFixture(await open());
    const id = instanceIdOf(randomUUID());
    const strayId = await leave(fixture, { kind: 'data', id });
    await fixture.sweep();
    const { listOwned } = fixture.memory;
    fixture.memory.listOwned = async () => {
      throw new Error('it does not answer');
    };
    await expect(fixture.sweep()).rejects.toThrow();
    fixture.memory.listOwned = listOwned;
    await fixture.sweep();
    expect((await listOf(fixture.world)).map((one) => one.strayId)).toEqual([strayId]);
    const { regionId } = fixture.world.drivers;
    const row = { kind: 'data', subjectId: id, regionId, ownerId: 'somebody', sizeGB: 1 };
    const has = (pool: string) =>
      fixture.world.store.write(async (tx) => {
        await tx.deleteFrom('disk').where('subjectId', '=', id).execute();
        await tx
          .insertInto('disk')
          .values({ ...row, id: `data/${id}`, pool })
          .execute();
      });
    await has('filesystem');
    await fixture.sweep();
    expect(await listOf(fixture.world)).toHaveLength(1);
    await has('default');
    await fixture.sweep();
    expect(await listOf(fixture.world)).toEqual([]);
  });
});
