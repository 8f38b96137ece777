import { expect, test } from 'vitest';
import type { LaunchInput } from '../../../src/control/compute/instances/instances.ts';
import { makeHealthChecks } from '../../../src/control/compute/instances/health.ts';
import { makeSampler } from '../../../src/control/compute/inside/metrics/sampler.ts';
import { SAMPLE_MS } from '../../../src/domain/compute/metrics.ts';
import { lostGpuOf, type Instance } from '../../../src/domain/compute/instance.ts';
import type { PublicInstance } from '../../../src/domain/compute/public-instance.ts';
import { instanceFromRow } from '../../../src/store/tables/instances.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { machineOf, makeSizedWorld } from './capacity-fixture.ts';
import { expectConsistent, settled } from './consistency.ts';
import { eventually, hasStatus, makeWorld } from '../../fixtures/control.ts';
import { sweeping } from './sweeping.ts';
import { DAY_MS, entriesOf, eventsOf } from './paid-time-fixture.ts';
import { countWatchWrites } from './watch-writes.ts';

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

  test('tells the owner of processes that the kernel killed for want of memory, once each, in that run', async () => {
    const world = await makeWorld(await open(), { hurry: 100 });
    const { instances } = world.running.control;
    const { instanceId } = await instances.launch(world.caller, world.launchInput(), null);
    await world.until(instanceId, hasStatus('Running'));
    const says = (text: RegExp) =>
      world.until(instanceId, ({ instanceRuntimeInfo: { message } }) => text.test(message));
    const { memoryKills } = world.engine.host;
    memoryKills.set(instanceId, 1);
    const killed = await says(
      /^a program was killed at \d{4}-\d\d-\d\d \d\d:\d\d UTC: the instance's memory of [\d.]+ GB was full$/,
    );
    expect(killed.instanceRuntimeInfo).toMatchObject({ status: 'Running', diagnosisReason: '', healthy: true });
    expect((await world.running.control.metrics.read(world.caller, instanceId, {})).now?.usage.memoryKills).toBe(1);
    memoryKills.set(instanceId, 4);
    await says(/^4 programs were killed, the last at /);
    await settled(world);
    const events = await eventsOf(world, instanceId, 'instance.outOfMemory');
    expect(events).toMatchObject([{ killed: 1 }, { killed: 3, memoryGB: expect.any(Number) }]);
    memoryKills.delete(instanceId);
    await instances.restart(world.caller, { instanceId }, null);
    await world.until(instanceId, hasStatus('Restarting'));
    const again = await world.until(instanceId, hasStatus('Running'));
    expect(again.instanceRuntimeInfo.message).toBe('');
    await settled(world);
    expect(await eventsOf(world, instanceId, 'instance.outOfMemory')).toHaveLength(2);
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

  test('counts a silence that the process before has seen, and writes it once', async () => {
    const store = await open();
    const world = await makeWorld(store);
    const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    await world.until(instanceId, (one) => hasStatus('Running')(one) && isHealthy(true)(one));
    await settled(world);
    await world.running.stop();
    const { deps } = sweeping(world);
    const row = () =>
      store.read.selectFrom('instance').selectAll().where('id', '=', instanceId).executeTakeFirstOrThrow();
    const silences = () => store.read.selectFrom('watch').selectAll().where('kind', '=', 'silent').execute();
    const another = async () => {
      const health = makeHealthChecks({
        ...deps,
        sampler: { latestOf: () => null, lackingGpu: () => [], takeKilled: () => [] },
      });
      await health.takeOver();
      await health.check();
      return { health, says: health.answers(instanceFromRow(await row())) };
    };
    world.engine.misbehave(({ verb }) => (verb === 'dial' ? { mode: 'failBefore', kind: 'busy' } : undefined));
    expect((await another()).says).toBeUndefined();
    expect(await silences()).toMatchObject([{ subjectId: instanceId, regionId: world.drivers.regionId }]);
    const written = await countWatchWrites(store);
    const { health, says } = await another();
    expect(says).toBe(false);
    expect((await row()).dueAtMs).not.toBeNull();
    for (let times = 0; times < 3; times++) await health.check();
    expect(await written()).toBe(0);
    await store.write((tx) => tx.updateTable('watch').set({ sinceMs: 0 }).where('kind', '=', 'seen').execute());
    expect((await another()).says, 'nobody looked for a long time').toBeUndefined();
    world.engine.misbehave(undefined);
    await health.check();
    expect(await silences()).toEqual([]);
  });

  /** The host takes the GPU of each instance while `isTaken` is true. */
  async function makeGpuWorld() {
    const sizes = { 'gpu.1': { cpuCores: 1, memoryGB: 2, gpuCount: 1 }, 'cpu.2': { cpuCores: 2, memoryGB: 2 } };
    const world = await makeSizedWorld(await open(), machineOf(4, 8, 1), sizes, { hurry: 100 });
    const { engine } = world.drivers;
    const usage = engine.usage.bind(engine);
    const host = { isTaken: false };
    engine.usage = async (...given) =>
      new Map(
        [...(await usage(...given))].map(([id, one]) => {
          const gpus = one.gpus?.map((gpu) => ({ ...gpu, ...(host.isTaken && { isTaken: true as const }) })) ?? null;
          return [id, { ...one, gpus }];
        }),
      );
    const reason = ({ instanceRuntimeInfo }: PublicInstance): string => instanceRuntimeInfo.diagnosisReason;
    const { instances } = world.running.control;
    const row = async (id: string): Promise<Instance> =>
      instanceFromRow(
        await world.store.read.selectFrom('instance').selectAll().where('id', '=', id).executeTakeFirstOrThrow(),
      );
    return {
      world,
      row,
      async launch(billing: LaunchInput['billing']) {
        const one = await instances.launch(world.caller, world.of('gpu.1', { billing }), null);
        await world.until(one.instanceId, hasStatus('Running'));
        return one;
      },
      async loseGpu(one: { instanceId: string }) {
        host.isTaken = true;
        return world.until(one.instanceId, (instance) => reason(instance) === 'GpuLost');
      },
      async restart(one: { instanceId: string }): Promise<void> {
        host.isTaken = false;
        await instances.restart(world.caller, one, null);
        await world.until(one.instanceId, hasStatus('Restarting'));
        await world.until(one.instanceId, (instance) => hasStatus('Running')(instance) && reason(instance) === '');
        await settled(world);
      },
    };
  }

  test('finds a lost GPU by the next check after a sample, not once a round', async () => {
    const world = await makeSizedWorld(await open(), machineOf(4, 8, 1), {
      'gpu.1': { cpuCores: 1, memoryGB: 2, gpuCount: 1 },
    });
    const { instanceId } = await world.running.control.instances.launch(world.caller, world.of('gpu.1'), null);
    await world.until(instanceId, hasStatus('Running'));
    const { deps } = sweeping(world);
    const clock = { ms: Date.now() };
    const due: unknown[] = [];
    const time = { ...deps.time, now: () => clock.ms, elapsed: () => 0 };
    const taken = { isTaken: true } as const;
    const { engine } = world.drivers;
    const usage = engine.usage.bind(engine);
    const sampler = makeSampler({ ...deps, time });
    const checks = makeHealthChecks({
      ...deps,
      time,
      sampler,
      changes: { publish: (change) => void due.push(change) },
    });
    await sampler.tick();
    await checks.check();
    expect(due).toEqual([]);
    engine.usage = async (...given) =>
      new Map(
        [...(await usage(...given))].map(([id, one]) => [
          id,
          { ...one, gpus: one.gpus?.map((gpu) => ({ ...gpu, ...taken })) ?? null },
        ]),
      );
    clock.ms += SAMPLE_MS;
    await sampler.tick();
    await checks.check();
    expect(due).toEqual([{ subject: 'instance', isDue: true }]);
  });

  test('names a GPU that the host has taken, once, and charges for none until the next run', async () => {
    const { world, row, launch, loseGpu, restart } = await makeGpuWorld();
    const one = await launch({ chargeMode: 'perHour', duration: 1 });
    const ill = await loseGpu(one);
    expect(ill.instanceRuntimeInfo).toMatchObject({ status: 'Running', healthy: true });
    expect(ill.instanceSpecInfo.instanceBillingInfo.price).toBe(0.01);
    expect(ill.actions).toContain('restart');
    const { sinceMs = 0 } = (await row(one.instanceId)).observed.lostGpu ?? {};
    const { store } = world;
    const charged = await store.read
      .selectFrom('usagePeriod')
      .select(['priceMicros', 'openedAtMs', 'closedAtMs', 'chargedUntilMs'])
      .where('subjectId', '=', one.instanceId)
      .where('state', '=', 'charged')
      .orderBy('id')
      .execute();
    const [whole, without] = charged;
    expect(charged.map(({ priceMicros }) => priceMicros)).toEqual([20_000, 10_000]);
    expect(without?.openedAtMs).toBe(Math.max(sinceMs, whole?.openedAtMs ?? 0));
    expect(whole?.closedAtMs).toBe(without?.openedAtMs);
    const noticesOf = (): Promise<unknown[]> => eventsOf(world, world.drivers.regionId, 'card.lost');
    await eventually(async () => (await noticesOf()).length > 0);
    expect(await noticesOf()).toEqual([{ instanceId: one.instanceId, ownerName: world.caller.username, sinceMs }]);
    await restart(one);
    expect((await row(one.instanceId)).observed.lostGpu).toMatchObject({ sinceMs });
    expect(lostGpuOf(await row(one.instanceId))).toBeNull();
    const events = await store.read
      .selectFrom('event')
      .select('data')
      .where('subjectId', '=', one.instanceId)
      .where('data', 'like', '%GpuLost%')
      .execute();
    expect(events).toHaveLength(1);
    const last = await store.read
      .selectFrom('usagePeriod')
      .select('priceMicros')
      .where('subjectId', '=', one.instanceId)
      .where('closedAtMs', 'is', null)
      .executeTakeFirst();
    expect(last?.priceMicros).toBe(20_000);
    await expectConsistent(world);
  });

  test('refunds the paid time in which the host had taken the GPU', async () => {
    const { world, row, launch, loseGpu, restart } = await makeGpuWorld();
    const one = await launch({ chargeMode: 'perDay', duration: 1 });
    await loseGpu(one);
    const { sinceMs = 0 } = (await row(one.instanceId)).observed.lostGpu ?? {};
    const { priceMicros } = await row(one.instanceId);
    await restart(one);
    const [refund, ...more] = await entriesOf(world, one.instanceId).then((entries) =>
      entries.filter(({ kind }) => kind === 'refund'),
    );
    expect(more).toEqual([]);
    expect(refund?.reason).toBe('GpuLost');
    const [began] = await eventsOf(world, one.instanceId, 'instance.paidTimeBegan');
    // A sample has the time of its step, which may begin before the paid time.
    const lostMs = (refund?.atMs ?? 0) - Math.max(sinceMs, Number(began?.['startsAtMs']));
    expect(refund?.amountMicros).toBeGreaterThan(0);
    expect(Math.abs((refund?.amountMicros ?? 0) - (Number(priceMicros) * lostMs) / DAY_MS)).toBeLessThanOrEqual(1);
    expect(await eventsOf(world, one.instanceId, 'instance.paidTimeRefunded')).toEqual([
      { units: 0, amount: (refund?.amountMicros ?? 0) / 1e6, reason: 'GpuLost' },
    ]);
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
