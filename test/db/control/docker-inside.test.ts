import { poolNamed } from '../../../src/control/storage/disks.ts';
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { sweepRegion } from '../../../src/control/compute/orphans/sweep.ts';
import { instanceId, userId, type InstanceId } from '../../../src/domain/kernel/ids.ts';
import { dockerName } from '../../../src/engines/labels.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectRefused } from './access-fixture.ts';
import { settled } from './consistency.ts';
import { eventually, hasStatus, makeWorld, type World, type WorldOptions } from '../../fixtures/control.ts';
import { containersOf, listOf, makeOrphan, reporting, sweeping } from './sweeping.ts';

const soon = (): AbortSignal => AbortSignal.timeout(120_000);

/** Disks with enforced sizes, as Docker needs, unless `hard` is false. */
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
  test('refuses Docker, with the reason, where the engine lacks support', async () => {
    const why = { dockerInside: false, whyNoDocker: 'its engine is a rowing boat' };
    const without = await makeDockerWorld(await open(), { capabilities: why });
    const { instances } = without.running.control;
    await expectRefused(
      instances.launch(without.caller, launchInputOf(without), null),
      'unsupported',
      /a rowing boat; send false/,
    );
  });

  test('refuses Docker on pools without disk sizes, with a remedy', async () => {
    const soft = await makeDockerWorld(await open(), {}, false);
    const refused = soft.running.control.instances.launch(soft.caller, launchInputOf(soft), null);
    await expectRefused(refused, 'unsupported', /plain folders, which cannot limit the disk of a Docker.*; send false/);
  });

  test('lists the regions with the same answer, and the same reason', async () => {
    const capabilitiesOf = async (world: World) => (await world.running.control.catalog.regions())[0]?.capabilities;
    const hard = await makeDockerWorld(await open());
    expect(await capabilitiesOf(hard)).toMatchObject({ dockerInside: true });
    expect(await capabilitiesOf(hard)).not.toHaveProperty('whyNoDocker');
    const soft = await makeDockerWorld(await open(), {}, false);
    expect(await capabilitiesOf(soft)).toMatchObject({
      dockerInside: false,
      whyNoDocker: expect.stringContaining('plain folders, which cannot limit the disk of a Docker'),
    });
  });

  test('restarts a lost sidecar at once', async () => {
    const world = await makeDockerWorld(await open());
    const id = await launch(world);
    expect(await dockerOf(world, id)).toBe('running');
    world.engine.host.setDocker(id, 'stopped');
    await eventually(async () => (await dockerOf(world, id)) === 'running');
  });

  test('the sweep finds a lost sidecar without a hint', async () => {
    const world = await makeDockerWorld(await open());
    deaf(world);
    const id = await launch(world);
    await settled(world);
    world.engine.host.setDocker(id, 'stopped');
    expect(await dockerOf(world, id)).toBe('stopped');
    await sweepRegion(sweeping(world).deps, world.drivers);
    await eventually(async () => (await dockerOf(world, id)) === 'running');
  });

  test('stops with its instance; the sweep halts a sidecar that outlived its instance', async () => {
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

  test('ends with the main process of a crash loop, and comes back with the next start', async () => {
    const world = await makeDockerWorld(await open(), { limits: { backOffBaseMs: 600_000, backOffMaxMs: 600_000 } });
    const { instances } = world.running.control;
    const id = await launch(world);
    await world.engine.host.crash(id, 1);
    await world.until(id, ({ instanceRuntimeInfo }) => instanceRuntimeInfo.diagnosisReason === 'ContainerExited');
    expect(await dockerOf(world, id)).toBe('stopped');
    await instances.stop(world.caller, { instanceId: id }, null);
    await world.until(id, hasStatus('Stopped'));
    await instances.start(world.caller, { instanceId: id }, null);
    await world.until(id, hasStatus('Running'));
    expect(await dockerOf(world, id)).toBe('running');
  });

  test("waits for both images: the instance's and its own", async () => {
    const dockerImageRef = 'berth.local/docker-inside:1';
    const world = await makeDockerWorld(await open(), { engine: { dockerImageRef } });
    await launch(world);
    expect(world.engine.host.image(dockerImageRef)).toBeDefined();
  });

  test('removes an orphaned sidecar by the policy, with its disk', async () => {
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
