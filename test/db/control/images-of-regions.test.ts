/** Facts of an image that regions have each for themselves. */
import { expect, test } from 'vitest';
import { eventually, hasStatus, makeWorld, type World } from '../../fixtures/control.ts';
import { onEngine } from '../../fixtures/store.ts';

const annex = {
  name: 'Annex',
  value: 'annex',
  location: 'cellar',
  sshAddress: '192.0.2.7',
  settings: {
    simulated: { cpuCores: 8, memoryGB: 16, gpus: 0 },
    pools: [{ name: 'default' as const, sizeGB: 500 }],
    nodePorts: { first: 31_000, last: 31_099 },
  },
  dryRun: false,
};

/** A world of two regions with other processors each. */
async function twoRegions(world: World) {
  const { control } = world.running;
  const { region } = await control.regionAdministration.create(world.caller, annex, null);
  await eventually(async () => (await control.catalog.regions()).every(({ engine: { answers } }) => answers));
  const imageOf = async (id: string) =>
    (await control.images.list(world.caller, { currentPage: 1, pageSize: 100 })).images.find(
      ({ imageId }) => imageId === id,
    );
  return { here: world.drivers.regionId, there: region.regionId, imageOf };
}

onEngine('sqlite', 'an image in two regions', (open) => {
  test('is Ready where it was pulled alone, and has the processors of each region', async () => {
    const world = await makeWorld(await open(), { engine: { architecture: 'arm64' } });
    const { here, there, imageOf } = await twoRegions(world);
    const { imageId } = await world.running.control.images.create(
      world.caller,
      { name: 'own', ref: 'quay.io/a/b' },
      null,
    );
    expect(await imageOf(imageId)).toMatchObject({ state: 'Absent', architecture: '' });
    for (const id of [imageId, world.imageId]) {
      const input = world.launchInput({ imageId: id, region: here });
      const { instanceId } = await world.running.control.instances.launch(world.caller, input, null);
      await world.until(instanceId, hasStatus('Running'));
      expect((await world.instance(instanceId)).instanceSpecInfo.imageInfo).toMatchObject({ architecture: 'arm64' });
      const found = await imageOf(id);
      expect(found).toMatchObject({ state: 'Ready' });
      expect(found?.regions.toSorted((a, b) => Number(a.region === there) - Number(b.region === there))).toMatchObject([
        { region: here, architecture: 'arm64', state: 'Ready', stateText: '', progressPercent: 0 },
        { region: there, architecture: 'amd64', state: 'Absent', stateText: '', progressPercent: 0 },
      ]);
    }
  });
});
