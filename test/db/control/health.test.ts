import { expect, test } from 'vitest';
import type { PublicInstance } from '../../../src/domain/compute/public-instance.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectConsistent, settled } from './consistency.ts';
import { eventually, hasStatus, makeWorld } from '../../fixtures/control.ts';

const isHealthy =
  (healthy: boolean) =>
  ({ instanceRuntimeInfo }: PublicInstance): boolean =>
    instanceRuntimeInfo.healthy === healthy;

onBothEngines('health', (open) => {
  test('marks a Running instance unhealthy when it stops answering, and healthy again after', async () => {
    const world = await makeWorld(await open(), { hurry: 100 });
    const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    await world.until(instanceId, (one) => hasStatus('Running')(one) && isHealthy(true)(one));
    world.engine.misbehave(({ verb }) => (verb === 'dial' ? { mode: 'failBefore', kind: 'busy' } : undefined));
    const ill = await world.until(instanceId, isHealthy(false));
    expect(ill.instanceRuntimeInfo).toMatchObject({ status: 'Running', phase: 'Ready', diagnosisReason: 'Unhealthy' });
    expect(ill.instanceRuntimeInfo.diagnosisMessage).toMatch(/restart/i);
    expect(ill.actions).toContain('restart');
    world.engine.misbehave(undefined);
    const well = await world.until(instanceId, isHealthy(true));
    expect(well.instanceRuntimeInfo).toMatchObject({ status: 'Running', diagnosisReason: '', diagnosisMessage: '' });
    await settled(world);
    await expectConsistent(world);
  });

  test('ignores a single silence and an unreachable engine', async () => {
    const world = await makeWorld(await open(), { hurry: 100 });
    const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    await world.until(instanceId, hasStatus('Running'));
    let silences = 1;
    let asked = 0;
    world.engine.misbehave(({ verb }) => {
      if (verb !== 'dial') return undefined;
      asked += 1;
      // First silence of ssh and the notebook.
      if (silences > -1) return (silences--, { mode: 'failBefore', kind: 'busy' });
      return asked < 12 ? { mode: 'failBefore', kind: 'unreachable' } : undefined;
    });
    await eventually(() => asked > 14);
    expect((await world.instance(instanceId)).instanceRuntimeInfo).toMatchObject({
      healthy: true,
      diagnosisReason: '',
    });
  });

  test('drops the unhealthy reason when stopped', async () => {
    const world = await makeWorld(await open(), { hurry: 100 });
    const { instances } = world.running.control;
    const one = await instances.launch(world.caller, world.launchInput(), null);
    await world.until(one.instanceId, hasStatus('Running'));
    world.engine.misbehave(({ verb }) => (verb === 'dial' ? { mode: 'failBefore', kind: 'busy' } : undefined));
    await world.until(one.instanceId, isHealthy(false));
    world.engine.misbehave(undefined);
    await instances.stop(world.caller, one, null);
    const stopped = await world.until(one.instanceId, hasStatus('Stopped'));
    expect(stopped.instanceRuntimeInfo).toMatchObject({ healthy: false, diagnosisReason: '' });
    await instances.start(world.caller, one, null);
    await world.until(one.instanceId, (now) => hasStatus('Running')(now) && isHealthy(true)(now));
  });
});
