/** An instance with a Docker: launched where there can be one, and its daemon kept to the wish whatever becomes of it. */
import { poolNamed } from '../../../src/control/volumes/disks.ts';
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { sweepRegion } from '../../../src/control/orphans/sweep.ts';
import { instanceId, userId, type InstanceId } from '../../../src/domain/ids.ts';
import { dockerName } from '../../../src/engines/labels.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectRefused } from './access-fixture.ts';
import { settled } from './consistency.ts';
import { eventually, hasStatus, makeWorld, type World, type WorldOptions } from '../../fixtures/control.ts';
import { containersOf, listOf, makeOrphan, reporting, sweeping } from './sweeping.ts';

const soon = (): AbortSignal => AbortSignal.timeout(5_000);

/** Its disks are of a kind that a Docker can have one of, unless it is said otherwise. */
async function makeDockerWorld(store: Parameters<typeof makeWorld>[0], options: WorldOptions = {}, hard = true) {
  const world = await makeWorld(store, options);
  const { storage } = world;
  poolNamed(world.drivers, 'default').storage = {
    ...storage,
    capabilities: () => ({ ...storage.capabilities(), dockerInside: hard }),
  };
  await eventually(() => world.drivers.health.answers);
  return world;
}

const launchInputOf = (world: World) => {
  const request = world.launchInput();
  return { ...request, instanceConfiguration: { ...request.instanceConfiguration, enableDocker: true } };
};

async function launch(world: World): Promise<InstanceId> {
  const launched = await world.running.control.instances.launch(world.caller, launchInputOf(world), null);
  await world.until(launched.instanceId, hasStatus('Running'));
  return instanceId(launched.instanceId);
}

const dockerOf = async (world: World, id: InstanceId): Promise<string | undefined> => {
  const seen = (await world.engine.observe([id], soon())).get(id);
  return seen?.kind === 'present' ? seen.docker : undefined;
};
const deaf = (world: World): void =>
  world.engine.misbehave(({ verb }) => (verb === 'watch' ? { mode: 'lost' } : undefined));

onBothEngines('a Docker inside', (open) => {
  test('is refused where the engine can have none, with its reason', async () => {
    const why = { dockerInside: false, whyNoDocker: 'its engine is a rowing boat' };
    const without = await makeDockerWorld(await open(), { capabilities: why });
    const { instances } = without.running.control;
    await expectRefused(
      instances.launch(without.caller, launchInputOf(without), null),
      'unsupported',
      /a rowing boat; send false/,
    );
  });

  test('is refused where disks have no size, with what would help', async () => {
    const soft = await makeDockerWorld(await open(), {}, false);
    const refused = soft.running.control.instances.launch(soft.caller, launchInputOf(soft), null);
    await expectRefused(refused, 'unsupported', /folders without a size.*; send false/);
  });

  test('lost is brought back at once', async () => {
    const world = await makeDockerWorld(await open());
    const id = await launch(world);
    expect(await dockerOf(world, id)).toBe('running');
    world.engine.host.setDocker(id, 'stopped');
    await eventually(async () => (await dockerOf(world, id)) === 'running');
  });

  test('lost without a hint that told of it is found by the sweep', async () => {
    const world = await makeDockerWorld(await open());
    deaf(world);
    const id = await launch(world);
    await settled(world);
    world.engine.host.setDocker(id, 'stopped');
    expect(await dockerOf(world, id)).toBe('stopped');
    await sweepRegion(sweeping(world).deps, world.drivers);
    await eventually(async () => (await dockerOf(world, id)) === 'running');
  });

  test('stops with its instance, and what runs on beside one that stopped is found and halted', async () => {
    const world = await makeDockerWorld(await open());
    deaf(world);
    const id = await launch(world);
    await world.running.control.instances.stop(world.caller, { instanceId: id }, null);
    await world.until(id, hasStatus('Stopped'));
    expect(await dockerOf(world, id)).toBe('stopped');
    await settled(world);
    world.engine.host.setDocker(id, 'running');
    await sweepRegion(sweeping(world).deps, world.drivers);
    await eventually(async () => (await dockerOf(world, id)) === 'stopped');
  });

  test('needs its image beside that of the instance, and waits for both', async () => {
    const dockerImageRef = 'berth.local/docker-inside:1';
    const world = await makeDockerWorld(await open(), { engine: { dockerImageRef } });
    await launch(world);
    expect(world.engine.host.image(dockerImageRef)).toBeDefined();
  });

  test('of nobody’s instance is a stray, removed by the policy, and leaves with its disk what it kept', async () => {
    const world = await makeDockerWorld(await open());
    const id = await makeOrphan(world, { docker: { storage: '/nowhere' }, ownerId: userId(randomUUID()) });
    const look = sweeping(world, { policy: reporting });
    await look.sweep();
    await look.sweep();
    expect((await listOf(world)).map(({ kind, engineName }) => [kind, engineName])).toContainEqual([
      'docker',
      dockerName(id),
    ]);
    await sweeping(world).sweep();
    await eventually(async () => (await dockerOf(world, id)) !== 'running');
    expect((await containersOf(world)).has(id)).toBe(true);
  });
});
