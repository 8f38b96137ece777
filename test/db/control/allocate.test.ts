/** Promised disks whose blocks are missing get them, by one pass over the disks of a region. */
import { expect, test } from 'vitest';
import { makeAllocator } from '../../../src/control/storage/allocate.ts';
import { measureAllocations } from '../../../src/control/storage/allocations.ts';
import { realTime } from '../../../src/control/kernel/time.ts';
import { makeWorld, type World } from '../../fixtures/control.ts';
import { onBothEngines, recordingLog } from '../../fixtures/store.ts';

const GB = 1024 ** 3;

async function create(world: World, name: string): Promise<string> {
  const { volumes } = world.running.control;
  const input = { name, sizeGB: 1, region: world.drivers.regionId, volumeType: 'filesystem' } as const;
  const { volumeText } = await volumes.create(world.caller, input, null);
  return String(JSON.parse(volumeText).id);
}

onBothEngines('promised disks with missing blocks', (open) => {
  test('get them once; one that stays thin is tried once, one that is refused is logged', async () => {
    const world = await makeWorld(await open());
    const ids: Record<string, string> = {};
    for (const name of ['whole', 'thin', 'stays', 'refused']) ids[name] = await create(world, name);
    const held = new Map(
      Object.entries({ whole: GB, thin: GB / 2, stays: 0, refused: 0 }).map(([name, bytes]) => [ids[name], bytes]),
    );
    const grown: string[] = [];
    const measured: string[] = [];
    world.storage.allocation = async ({ id }) => {
      measured.push(id);
      return { heldBytes: held.get(id) ?? 0, maxBytes: GB };
    };
    world.storage.grow = async ({ id }) => {
      grown.push(id);
      if (id === ids['refused']) throw new Error('no space left');
      if (id === ids['thin']) held.set(id, GB);
    };
    const log = recordingLog();
    const allocator = makeAllocator({
      log: { ...log, debug: () => {} },
      time: realTime,
      stopping: new AbortController().signal,
    });
    const measure = () => measureAllocations(world.store.read, world.drivers, allocator.note);

    await measure();
    await measure();
    await allocator.run();
    expect(grown.toSorted()).toEqual([ids['thin'], ids['stays'], ids['refused']].toSorted());
    expect(log.lines.map(({ facts }) => facts)).toMatchObject([{ disk: `volume/${ids['refused']}` }]);
    await measure();
    measured.length = 0;
    await allocator.run();
    expect({ measured, grown: grown.length }).toEqual({ measured: [], grown: 3 });
  });
});
