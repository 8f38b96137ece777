/** Disks that neither grow nor are copied: requests are refused early, with the reason. */
import { expect, test } from 'vitest';
import { onBothEngines } from '../../fixtures/store.ts';
import { hasStatus, makeWorld } from '../../fixtures/control.ts';
import { expectRefused } from './access-fixture.ts';
import { expectConsistent, settled } from './consistency.ts';
import { boundVolume, snapshotIs, takeSnapshot, usedGB } from './storage-fixture.ts';

const whyNoGrowth = 'the storage class has volumes of one size';
const whyNoCopies = 'the cluster has no snapshot class';

onBothEngines('a storage with limits', (open) => {
  test('is shown with its reasons, and refuses what it cannot do', async () => {
    const world = await makeWorld(await open());
    const { volumes, snapshots, instances, catalog } = world.running.control;
    const { id } = await boundVolume(world, 'data', 5);
    const taken = await takeSnapshot(world, id, 'before');
    await snapshotIs(world, taken.id, 'Ready');
    const { instanceId } = await instances.launch(world.caller, world.launchInput(), null);
    await world.until(instanceId, hasStatus('Running'));
    const before = await usedGB(world);
    const capabilities = world.storage.capabilities();
    world.storage.capabilities = () => ({ ...capabilities, whyNoGrowth, whyNoCopies });

    const [region] = await catalog.regions();
    expect(region?.volumeTypes).toMatchObject([
      { whyNoGrowth, whyNoCopies },
      { whyNoGrowth, whyNoCopies },
    ]);
    const larger = { id, sizeGB: 7 };
    await expectRefused(volumes.expand(world.caller, larger, null), 'unsupported', /volumes of one size/);
    const disk = { instanceId, dataDiskGB: 500 };
    await expectRefused(instances.expandDisk(world.caller, disk, null), 'unsupported', /volumes of one size/);
    for (const call of [
      snapshots.create(world.caller, { volumeId: id, name: 'after' }, null),
      snapshots.restore(world.caller, { id: taken.id, name: 'restored' }, null),
      volumes.copy(world.caller, { id, name: 'copy' }, null),
    ])
      await expectRefused(call, 'unsupported', /no snapshot class; create a volume, and copy the files/);
    await volumes.expand(world.caller, { id, sizeGB: 5 }, null);
    expect(await usedGB(world)).toBe(before);
    await settled(world);
    await expectConsistent(world);
  });
});
