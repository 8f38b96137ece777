import { expect, test } from 'vitest';
import type { DiskId } from '../../../src/domain/storage/disk.ts';
import { makeDue } from '../../../src/store/tables/instances.ts';
import { StorageFault } from '../../../src/storage/contract.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { eventually, hasStatus } from '../../fixtures/control.ts';
import { atRest, diskFixture } from './disk-fixture.ts';

onBothEngines('disks on the host', (open) => {
  test('are unmounted when no instance is to run with them, and mounted again by a start', async () => {
    const fixture = await diskFixture(await open());
    const volume = await fixture.volume('data', 10);
    const [one, other] = [await fixture.running(volume), await fixture.running(volume)];
    const mounted = () => [...fixture.memory.mounted].toSorted();
    const becomes = async (disks: string[], inUse?: (disk: DiskId) => boolean): Promise<void> => {
      await fixture.unmount(inUse);
      expect(mounted()).toEqual(disks.toSorted());
    };
    const [shared, v] = [`shared/${fixture.sharedId}`, `volume/${volume}`];
    const all = [`data/${one}`, `data/${other}`, shared, v].toSorted();
    await fixture.unmount();
    expect(mounted()).toEqual(all);

    await fixture.rest(one);
    // A stopped instance has no container, also while its next reconcile is due.
    await fixture.world.store.write((tx) => makeDue(tx, [one], Date.now() + 3_600_000));
    await becomes([`data/${other}`, shared, v]);
    await fixture.rest(other);
    await becomes([v], (disk) => disk.kind === 'volume');
    await becomes([]);

    const { instances } = fixture.world.running.control;
    await instances.start(fixture.world.caller, { instanceId: one }, null);
    await fixture.world.until(one, hasStatus('Running'));
    await fixture.unmount();
    await becomes([`data/${one}`, shared, v]);
  });

  test('are unmounted in a region where no instance of the account runs', async () => {
    const fixture = await diskFixture(await open());
    const id = await fixture.running();
    const { accountId } = fixture.world.caller;
    const elsewhere = { kind: 'shared', id: `${accountId}/00000002-0000-4000-8000-000000000002` } as const;
    await fixture.memory.create(elsewhere, 20, new AbortController().signal);
    await fixture.memory.mount(elsewhere);
    await fixture.unmount();
    expect([...fixture.memory.mounted].toSorted()).toEqual([`data/${id}`, `shared/${fixture.sharedId}`]);
  });

  test('are mounted when an instance runs, stopped and started many times under the sweep', async () => {
    const fixture = await diskFixture(await open());
    const id = await fixture.running();
    const { instances } = fixture.world.running.control;
    let over = false;
    const sweeping = (async () => {
      while (!over) {
        await fixture.unmount();
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    })();
    for (let round = 0; round < 10; round++) {
      await fixture.rest(id);
      await instances.start(fixture.world.caller, { instanceId: id }, null);
      await fixture.world.until(id, hasStatus('Running'));
      expect([...fixture.memory.mounted].toSorted()).toEqual([`data/${id}`, `shared/${fixture.sharedId}`]);
      await atRest(fixture.world, id);
    }
    over = true;
    await sweeping;
  });

  test('are skipped while in use; failures are logged and retried', async () => {
    const fixture = await diskFixture(await open());
    const id = await fixture.running();
    const { unmount } = fixture.memory;
    await fixture.rest(id);
    fixture.memory.unmount = async ({ kind }) => {
      throw kind === 'data' ? new StorageFault('busy', 'somebody works in it') : new Error('broken');
    };
    await eventually(async () => {
      await fixture.unmount();
      return fixture.warned.length > 0;
    });
    expect(new Set(fixture.warned)).toEqual(new Set(['could not unmount a disk; Berth retries']));
    expect(fixture.memory.mounted.size).toBe(2);
    fixture.memory.unmount = unmount;
    await eventually(async () => {
      await fixture.unmount();
      return fixture.memory.mounted.size === 0;
    });
  });
});
