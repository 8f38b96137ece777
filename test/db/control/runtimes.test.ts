/** Container runtimes of instance types. */
import { expect, test } from 'vitest';
import type { EngineSpec } from '../../../src/engines/contract.ts';
import { catalogInstanceTypes } from '../../../src/store/tables/catalog.ts';
import { eventually, hasStatus, makeWorld, type World, type WorldOptions } from '../../fixtures/control.ts';
import { isolated } from '../../fixtures/isolation.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectRefused } from './access-fixture.ts';

const machine = { cpuCores: 3, memoryMiB: 9_216, architecture: 'amd64', gpus: [], runtimes: { 'cpu.1': 'runsc' } };

const withRuntimes = (...runtimes: string[]): WorldOptions => ({
  machine,
  capabilities: { isolation: { ...isolated, runtimes } },
});

function inputOf(world: World, typeName: string) {
  const type = world.types.find(({ name }) => name === typeName);
  return world.launchInput({ instanceTypeId: type?.id ?? expect.fail(`no type ${typeName}`) });
}

onBothEngines('the container runtime of an instance type', (open) => {
  test('is stored, shown in the capabilities, and given to the engine', async () => {
    const world = await makeWorld(await open(), withRuntimes('runc', 'runsc'));
    await eventually(() => world.drivers.health.answers);
    expect((await catalogInstanceTypes(world.store.read)).map(({ name, runtime }) => [name, runtime])).toEqual([
      ['cpu.1', 'runsc'],
      ['cpu.2', undefined],
    ]);
    const { catalog, instances } = world.running.control;
    expect((await catalog.regions())[0]?.capabilities['isolation']).toMatchObject({
      runtimes: ['runc', 'runsc'],
      instanceTypes: { 'cpu.1': 'runsc' },
    });
    const specs: EngineSpec[] = [];
    const { ensure } = world.engine;
    world.engine.ensure = (spec, signal) => (specs.push(spec), ensure(spec, signal));
    for (const type of ['cpu.1', 'cpu.2']) {
      const { instanceId } = await instances.launch(world.caller, inputOf(world, type), null);
      await world.until(instanceId, hasStatus('Running'));
    }
    expect(specs.map(({ runtime }) => runtime)).toEqual(['runsc', undefined]);
  });

  test('refuses a launch where the engine lacks the runtime, and no other type', async () => {
    const world = await makeWorld(await open(), withRuntimes('runc', 'crun'));
    await eventually(() => world.drivers.health.answers);
    const { instances } = world.running.control;
    await expectRefused(
      instances.launch(world.caller, inputOf(world, 'cpu.1'), null),
      'unsupported',
      /cpu\.1 needs the container runtime runsc, which the engine of region \S+ lacks \(it has: runc, crun\); choose another type/,
    );
    await instances.launch(world.caller, inputOf(world, 'cpu.2'), null);
  });

  test('refuses a launch while the engine has not said which runtimes are there', async () => {
    const world = await makeWorld(await open(), { ...withRuntimes('runsc'), start: false });
    const attempt = world.running.control.instances.launch(world.caller, inputOf(world, 'cpu.1'), null);
    await expectRefused(attempt, 'unavailable', /runsc, but the engine of region \S+ does not answer/);
  });
});
