import { isDeepStrictEqual } from 'node:util';
import { expect, test } from 'vitest';
import type { DiskId } from '../../../src/domain/disk.ts';
import { StorageFault } from '../../../src/storage/contract.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { eventually, hasStatus } from '../../fixtures/control.ts';
import { atRest, diskRoom } from './disk-fixture.ts';

onBothEngines('disks on the host', (open) => {
  test('are unmounted when no instance is to run with them, and mounted again by a start', async () => {
    const room = await diskRoom(await open());
    const volume = await room.volume('data', 10);
    const [one, other] = [await room.running(volume), await room.running(volume)];
    const mounted = () => [...room.memory.mounted].toSorted();
    /** A late hint may lease the instance just then: its disks are skipped until the next run. */
    const becomes = (disks: string[], inUse?: (disk: DiskId) => boolean): Promise<void> =>
      eventually(async () => {
        await room.unmount(inUse);
        return isDeepStrictEqual(mounted(), disks.toSorted());
      }, mounted);
    const [shared, v] = [`shared/${room.sharedId}`, `volume/${volume}`];
    const all = [`data/${one}`, `data/${other}`, shared, v].toSorted();
    await room.unmount();
    expect(mounted()).toEqual(all);

    await room.rest(one);
    await becomes([`data/${other}`, shared, v]);
    await room.rest(other);
    await becomes([v], (disk) => disk.kind === 'volume');
    await becomes([]);

    const { instances } = room.world.running.control;
    await instances.start(room.world.caller, { instanceId: one }, null);
    await room.world.until(one, hasStatus('Running'));
    await room.unmount();
    await becomes([`data/${one}`, shared, v]);
  });

  test('are mounted when an instance runs, stopped and started many times under the sweep', async () => {
    const room = await diskRoom(await open());
    const id = await room.running();
    const { instances } = room.world.running.control;
    let over = false;
    const sweeping = (async () => {
      while (!over) {
        await room.unmount();
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    })();
    for (let round = 0; round < 10; round++) {
      await room.rest(id);
      await instances.start(room.world.caller, { instanceId: id }, null);
      await room.world.until(id, hasStatus('Running'));
      expect([...room.memory.mounted].toSorted()).toEqual([`data/${id}`, `shared/${room.sharedId}`]);
      await atRest(room.world, id);
    }
    over = true;
    await sweeping;
  });

  test('are skipped while in use; failures are logged and retried', async () => {
    const room = await diskRoom(await open());
    const id = await room.running();
    const { unmount } = room.memory;
    await room.rest(id);
    room.memory.unmount = async ({ kind }) => {
      throw kind === 'data' ? new StorageFault('busy', 'somebody works in it') : new Error('broken');
    };
    await eventually(async () => {
      await room.unmount();
      return room.warned.length > 0;
    });
    expect(new Set(room.warned)).toEqual(new Set(['could not unmount a disk; will retry']));
    expect(room.memory.mounted.size).toBe(2);
    room.memory.unmount = unmount;
    await eventually(async () => {
      await room.unmount();
      return room.memory.mounted.size === 0;
    });
  });
});
