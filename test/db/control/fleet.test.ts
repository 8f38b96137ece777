/** The fleet of operators: capacity, GPUs with their holders, pools, and what fits. */
import { expect, test } from 'vitest';
import { hasStatus } from '../../fixtures/control.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { machineOf, makeSizedWorld } from './capacity-fixture.ts';

const sizes = {
  'cpu.1': { cpuCores: 1, memoryGB: 2 },
  'gpu.1': { cpuCores: 2, memoryGB: 4, gpuCount: 1 },
};
const A_DAY_MS = 86_400_000;

onBothEngines('the fleet', (open) => {
  test('has promised and free capacity, the holder of each GPU, pools, and what would fit now', async () => {
    const world = await makeSizedWorld(await open(), machineOf(8, 16, 2), sizes);
    const { fleet, instances } = world.running.control;
    const ann = await world.account('ann');
    const launched = await instances.launch(ann, world.of('gpu.1', { name: 'train' }), null);
    await world.until(launched.instanceId, hasStatus('Running'));
    const [region, ...others] = await fleet.read();
    expect(others).toEqual([]);
    expect(region).toMatchObject({ isRetired: false, drain: null, holding: 1, waiting: 0, hosts: null });
    expect(region?.engine.answers).toBe(true);
    expect(region?.resources).toMatchObject({
      cpuMilli: { total: 8_000, promised: 2_000, free: 6_000 },
      memoryMiB: { promised: 4_096 },
      gpus: { total: 2, promised: 1, free: 1 },
    });
    expect(region?.gpus.map(({ holder }) => holder && [holder.instanceId, holder.name, holder.ownerName])).toEqual([
      [launched.instanceId, 'train', 'ann'],
      null,
    ]);
    const fits = region?.types.map(({ type, fitsNow }) => [type.name, fitsNow]);
    expect(fits).toEqual([
      ['cpu.1', 6],
      ['gpu.1', 1],
    ]);
    const [pool] = region?.pools ?? [];
    expect(pool?.promisedGB).toBeGreaterThan(0);
    expect((pool?.promisedGB ?? 0) + (pool?.freeGB ?? 0)).toBeCloseTo(pool?.totalGB ?? 0);
  });

  test('has the readings of the host for a GPU that nobody holds', async () => {
    const world = await makeSizedWorld(await open(), machineOf(8, 16, 1), sizes);
    const { engine } = world.drivers;
    const probe = engine.probe.bind(engine);
    const figures = {
      busyPercent: 7,
      memoryUsedBytes: 1,
      memoryTotalBytes: 2,
      powerMilliwatts: 3,
      temperatureCelsius: 4,
    };
    engine.probe = async (signal) => {
      const answer = await probe(signal);
      const devices = answer.devices.map((one) => ({ ...one, figures, uuid: 'GPU-1', slice: 'mig' as const }));
      return { ...answer, devices };
    };
    await world.becomes({});
    const [region] = await world.running.control.fleet.read();
    expect(region?.gpus).toMatchObject([{ holder: null, uuid: 'GPU-1', slice: 'mig', figures, quarantine: [] }]);
  });

  test('frees the GPU of a stopped instance, and offers a drained region to nobody', async () => {
    const world = await makeSizedWorld(await open(), machineOf(8, 16, 1), sizes);
    const { fleet, instances, operator } = world.running.control;
    const { instanceId } = await instances.launch(world.caller, world.of('gpu.1'), null);
    await world.until(instanceId, hasStatus('Running'));
    await instances.launch(world.caller, world.of('gpu.1', { name: 'next' }), null, A_DAY_MS);
    expect(await fleet.read()).toMatchObject([{ holding: 1, waiting: 1 }]);
    const { regionId } = world.drivers;
    await operator.drain(world.caller, { regionId, drain: true, reason: 'memory' }, null);
    await instances.stop(world.caller, { instanceId }, null);
    await world.until(instanceId, hasStatus('Stopped'));
    const [region] = await fleet.read();
    expect(region).toMatchObject({ holding: 0, waiting: 1, drain: { reason: 'memory' } });
    expect(region?.gpus.map(({ holder }) => holder)).toEqual([null]);
    expect(region?.types.map(({ fitsNow }) => fitsNow)).toEqual([0, 0]);
  });
});
