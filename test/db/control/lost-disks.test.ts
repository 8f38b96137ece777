/**
 * Missing disks of instances are reported, and never replaced before the operator declares them
 * lost.
 */
import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { allowEmptyReplacements } from '../../../src/main/region-pools.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { becomesConsistent } from './consistency.ts';
import { hasStatus, makeWorld, type World } from '../../fixtures/control.ts';

const log = { warn: () => {} };

/** A stopped instance, and the files of one of its disks. */
async function stopped(world: World, kind: 'data' | 'shared'): Promise<{ id: string; disk: string; name: string }> {
  const { instances } = world.running.control;
  const { instanceId: id } = await instances.launch(world.caller, world.launchInput(), null);
  await world.until(id, hasStatus('Running'));
  const name = kind === 'data' ? id : `${world.caller.accountId}/${world.drivers.regionId}`;
  const disk = join(world.folder, kind, name);
  await writeFile(join(disk, 'files/mine'), 'kept');
  await instances.stop(world.caller, { instanceId: id }, null);
  await world.until(id, hasStatus('Stopped'));
  return { id, disk, name };
}

onBothEngines('a missing disk of an instance', (open) => {
  for (const kind of ['data', 'shared'] as const) {
    test(`is not replaced by an empty ${kind} disk; its files are there when it is back`, async () => {
      const world = await makeWorld(await open(), { mayFail: /is gone from its pool/ });
      const { id, disk } = await stopped(world, kind);
      const away = `${world.folder}-away-${kind}`;
      await rename(disk, away);
      const { instances } = world.running.control;
      await instances.start(world.caller, { instanceId: id }, null);
      const failed = await world.until(id, hasStatus('StartingFailed'));
      expect(failed.instanceRuntimeInfo).toMatchObject({
        diagnosisReason: 'DisksLost',
        diagnosisMessage: expect.stringContaining(`the ${kind} disk of the instance is gone`),
      });
      await rename(away, disk);
      await instances.start(world.caller, { instanceId: id }, null);
      await world.until(id, hasStatus('Running'));
      expect(await readFile(join(disk, 'files/mine'), 'utf8')).toBe('kept');
      await becomesConsistent(world);
    });

    test(`is recreated once the operator declares the ${kind} disk lost; others stay as they are`, async () => {
      const world = await makeWorld(await open(), { mayFail: /is gone from its pool/ });
      const { id, disk, name } = await stopped(world, kind);
      const other = await stopped(world, 'data');
      await allowEmptyReplacements(
        world.store,
        [
          { kind, id: name },
          { kind: 'data', id: other.id },
        ],
        log,
      );
      await rm(disk, { recursive: true });
      const { instances } = world.running.control;
      for (const instanceId of [id, other.id]) {
        await instances.start(world.caller, { instanceId }, null);
        await world.until(instanceId, hasStatus('Running'));
      }
      expect(await readdir(join(disk, 'files'))).toEqual([]);
      expect(await readFile(join(other.disk, 'files/mine'), 'utf8')).toBe('kept');
      await becomesConsistent(world);
    });
  }

  test('does not block terminating the instance', async () => {
    const world = await makeWorld(await open());
    const { id, disk } = await stopped(world, 'data');
    await rm(disk, { recursive: true });
    await world.running.control.instances.terminate(world.caller, { instanceId: id }, null);
    await world.until(id, ({ instanceRuntimeInfo }) => instanceRuntimeInfo.phase === 'Cleaned');
    expect(await world.store.read.selectFrom('disk').select('id').where('subjectId', '=', id).execute()).toEqual([]);
    await becomesConsistent(world);
  });
});
