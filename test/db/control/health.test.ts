import { expect, test } from 'vitest';
import type { PublicInstance } from '../../../src/domain/compute/public-instance.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { machineOf, makeSizedWorld } from './capacity-fixture.ts';
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

  test('names a GPU that the host has taken, once, until the next run', async () => {
    const store = await open();
    const sizes = { 'gpu.1': { cpuCores: 1, memoryGB: 2, gpuCount: 1 } };
    const world = await makeSizedWorld(store, machineOf(4, 8, 1), sizes, { hurry: 100 });
    const { engine } = world.drivers;
    const usage = engine.usage.bind(engine);
    let isTaken = true;
    engine.usage = async (...given) =>
      new Map(
        [...(await usage(...given))].map(([id, one]) => {
          const gpus = one.gpus?.map((gpu) => ({ ...gpu, ...(isTaken && { isTaken }) })) ?? null;
          return [id, { ...one, gpus }];
        }),
      );
    const { instances } = world.running.control;
    const one = await instances.launch(world.caller, world.of('gpu.1'), null);
    const reason = ({ instanceRuntimeInfo }: PublicInstance): string => instanceRuntimeInfo.diagnosisReason;
    const ill = await world.until(one.instanceId, (instance) => reason(instance) === 'GpuLost');
    expect(ill.instanceRuntimeInfo).toMatchObject({ status: 'Running', healthy: true });
    expect(ill.actions).toContain('restart');
    isTaken = false;
    await instances.restart(world.caller, one, null);
    await world.until(one.instanceId, hasStatus('Restarting'));
    await world.until(one.instanceId, (instance) => hasStatus('Running')(instance) && reason(instance) === '');
    const events = await store.read
      .selectFrom('event')
      .select('data')
      .where('subjectId', '=', one.instanceId)
      .where('data', 'like', '%GpuLost%')
      .execute();
    expect(events).toHaveLength(1);
    await settled(world);
    await expectConsistent(world);
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
