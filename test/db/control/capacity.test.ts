/** Capacity is reserved once, under any number of concurrent requests and any engine report. */
import { expect, test } from 'vitest';
import { atLevel } from '../../fixtures/level.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectRefused } from './access-fixture.ts';
import { A_DAY_MS, machineOf, makeSizedWorld, outcomesOf, type SizedWorld } from './capacity-fixture.ts';
import { expectConsistent, settled } from './consistency.ts';
import { eventually, hasStatus, quickLimits } from '../../fixtures/control.ts';

const ROUNDS = atLevel({ short: 1, long: 1, soak: 200 });
/** Concurrent requests of a round. */
const REQUESTS = atLevel({ short: 100, long: 1_000 });

const cpus = { 'cpu.1': { cpuCores: 1, memoryGB: 2 }, 'cpu.2': { cpuCores: 2, memoryGB: 4 } };
const withGpus = { ...cpus, 'gpu.1': { cpuCores: 2, memoryGB: 4, gpuCount: 1 } };

const many = (world: SizedWorld, count: number, type: string) =>
  outcomesOf(
    Array.from({ length: count }, () => world.running.control.instances.launch(world.caller, world.of(type), null)),
  );

onBothEngines('the last free capacity', { postgres: 'always' }, (open) => {
  for (const { cores, nearest } of [
    { cores: 3, nearest: /short of 1 CPU core and 2048 MiB of memory; cpu\.1 \([0-9a-f-]{36}\) would fit now/ },
    { cores: 2, nearest: /short of 2 CPU cores and 4096 MiB of memory; no type fits now/ },
  ])
    test(`gives ${cores} cores to one of many concurrent requests for two; all other refusals name a type that fits`, async () => {
      const world = await makeSizedWorld(await open(), machineOf(cores, cores * 2), cpus);
      const { done, refused } = await many(world, REQUESTS / 2, 'cpu.2');
      expect(done).toHaveLength(1);
      expect(refused).toHaveLength(REQUESTS / 2 - 1);
      for (const { code, message } of refused) {
        expect(code).toBe('no_capacity');
        expect(message).toMatch(nearest);
        expect(message).toContain('"X-Berth-Wait-For-Capacity: true"');
      }
      expect((await world.counts()).used).toEqual({ cpuMilli: 2_000, memoryMiB: 4_096, gpus: {}, nodePorts: 1 });
      await world.until(done[0]?.instanceId ?? '', hasStatus('Running'));
      await settled(world);
      await expectConsistent(world);
    });

  for (const stock of [1, atLevel({ short: 25, long: 100 })])
    test(
      `gives ${stock} to exactly as many of ${REQUESTS} concurrent requests, across a killed server`,
      async () => {
        const world = await makeSizedWorld(await open(), machineOf(stock, stock * 2), { 'cpu.1': cpus['cpu.1'] });
        const rich = await world.account('rich', 1_000_000);
        for (let round = 0; round < ROUNDS; round++) {
          const asked: ReturnType<typeof many>[] = [];
          for (let quarter = 0; quarter < 4; quarter++) {
            const { instances } = world.running.control;
            asked.push(
              outcomesOf(Array.from({ length: REQUESTS / 4 }, () => instances.launch(rich, world.of('cpu.1'), null))),
            );
            await world.again();
          }
          const answers = await Promise.all(asked);
          const done = answers.flatMap((one) => one.done);
          expect(done).toHaveLength(stock);
          expect(answers.flatMap(({ refused }) => refused.map(({ code }) => code))).toEqual(
            Array.from({ length: REQUESTS - stock }, () => 'no_capacity'),
          );
          const { used, total } = await world.counts();
          expect(used).toMatchObject({ cpuMilli: total.cpuMilli, memoryMiB: total.memoryMiB });
          for (const { instanceId } of done) await world.until(instanceId, hasStatus('Running'));
          await settled(world);
          await expectConsistent(world);
          await Promise.all(done.map((one) => world.running.control.instances.terminate(rich, one, null)));
          await settled(world);
        }
      },
      ROUNDS * 240_000,
    );

  test('comes back from a failed start once its container has ended, not before', async () => {
    const clock = { aheadMs: 0 };
    const world = await makeSizedWorld(await open(), machineOf(2, 4), cpus, { clock });
    const { instances } = world.running.control;
    const { instanceConfiguration } = world.launchInput();
    const neverReady = { ...instanceConfiguration, initScript: '# berth-sim: never ready' };
    world.engine.misbehave(({ verb }) => (verb === 'halt' ? { mode: 'failBefore', kind: 'busy' } : undefined));
    const one = await instances.launch(world.caller, world.of('cpu.2', { instanceConfiguration: neverReady }), null);
    await world.until(one.instanceId, ({ instanceRuntimeInfo: { phase } }) => phase === 'WaitReady');
    clock.aheadMs += quickLimits.readyDeadlineMs + 1_000;
    await world.until(one.instanceId, hasStatus('StartingFailed'));
    const other = await instances.launch(world.caller, world.of('cpu.2'), null, A_DAY_MS);
    expect(await world.capacityQueue()).toEqual([other.instanceId]);
    world.engine.misbehave(undefined);
    await world.until(other.instanceId, hasStatus('Running'));
    await settled(world);
    await expectConsistent(world);
  });
});

onBothEngines('an engine with less capacity than reserved', (open) => {
  test('revokes nothing when capacity shrinks, reserves nothing more, and nothing twice once it is back', async () => {
    const world = await makeSizedWorld(await open(), machineOf(8, 16, 2), withGpus);
    const { instances, catalog } = world.running.control;
    const launch = (type: string) => instances.launch(world.caller, world.of(type), null);
    const stock = async (): Promise<Record<string, string>> =>
      Object.fromEntries(
        (await catalog.families()).flatMap(({ regionInfos }) =>
          regionInfos.flatMap(({ instanceTypeInfos }) =>
            instanceTypeInfos.map(({ instanceTypeName, stockStatus }) => [instanceTypeName, stockStatus]),
          ),
        ),
      );
    await eventually(() => world.drivers.health.answers);
    expect(await stock()).toMatchObject({ 'gpu.1': 'InStock' });
    const [one, two] = [await launch('gpu.1'), await launch('gpu.1')];
    for (const { instanceId } of [one, two]) await world.until(instanceId, hasStatus('Running'));

    await world.becomes({ gpus: { A100: 1 } });
    expect(await world.counts()).toMatchObject({ total: { gpus: { A100: 1 } }, used: { gpus: { A100: 2 } } });
    expect(await stock()).toMatchObject({ 'cpu.1': 'InStock', 'gpu.1': 'OutOfStock' });
    await expectRefused(launch('gpu.1'), 'no_capacity', /short of 1 GPU; cpu\.2 .* would fit now/);
    await launch('cpu.1');
    for (const { instanceId } of [one, two])
      expect((await world.instance(instanceId)).instanceRuntimeInfo.status).toBe('Running');

    await instances.terminate(world.caller, one, null);
    expect((await world.counts()).used.gpus).toEqual({ A100: 1 });
    await expectRefused(launch('gpu.1'), 'no_capacity', /short of 1 GPU/);
    await world.becomes({ gpus: {} });
    await instances.terminate(world.caller, two, null);
    expect((await world.counts()).used.gpus).toEqual({});

    await world.becomes({ gpus: { A100: 2 } });
    const { done, refused } = await many(world, 50, 'gpu.1');
    expect([done.length, refused.length]).toEqual([2, 48]);
    for (const { instanceId } of done) await world.until(instanceId, hasStatus('Running'));
    await settled(world);
    await expectConsistent(world);
  });

  test('reserves nothing on an engine that reports nonsense', async () => {
    const world = await makeSizedWorld(await open(), machineOf(4, 8), cpus);
    const { instances } = world.running.control;
    const one = await instances.launch(world.caller, world.of('cpu.1'), null);
    await world.until(one.instanceId, hasStatus('Running'));
    await world.becomes({ cpuMilli: Number.NaN, memoryMiB: -5, gpus: { A100: -1 } });
    expect(await world.counts()).toMatchObject({
      total: { cpuMilli: 0, memoryMiB: 0, gpus: { A100: 0 } },
      used: { cpuMilli: 1_000, memoryMiB: 2_048, gpus: {} },
    });
    await expectRefused(instances.launch(world.caller, world.of('cpu.1'), null), 'no_capacity');
    await instances.terminate(world.caller, one, null);
    expect((await world.counts()).used).toMatchObject({ cpuMilli: 0, memoryMiB: 0 });
    await world.becomes({ cpuMilli: 4_000, memoryMiB: 9 * 1024, gpus: {} });
    await instances.launch(world.caller, world.of('cpu.2'), null);
  });
});

onBothEngines('a region with two models of GPUs', (open) => {
  test('gives each type GPUs of its name alone, in the catalog, launches and the queue', async () => {
    const gpus = [{ name: 'A100' }, { name: 'L4' }, { name: 'L4' }];
    const machine = { ...machineOf(16, 32), gpus };
    const sizes = {
      'gpu.1': { cpuCores: 1, memoryGB: 2, gpuCount: 1 },
      'l4.1': { cpuCores: 1, memoryGB: 2, gpuCount: 1, gpuName: 'L4' },
    };
    const world = await makeSizedWorld(await open(), machine, sizes);
    const { instances, fleet } = world.running.control;
    const launch = (type: string) => instances.launch(world.caller, world.of(type), null);
    await eventually(() => world.drivers.health.answers);
    const one = await launch('gpu.1');
    await expectRefused(launch('gpu.1'), 'no_capacity', /short of 1 GPU; l4\.1 .* would fit now/);
    const waits = await instances.launch(world.caller, world.of('gpu.1'), null, A_DAY_MS);
    const others = [await launch('l4.1'), await launch('l4.1')];
    for (const { instanceId } of [one, ...others]) await world.until(instanceId, hasStatus('Running'));
    expect((await world.counts()).used.gpus).toEqual({ A100: 1, L4: 2 });
    const [region] = await fleet.read();
    expect(region?.types.map(({ type, fitsNow }) => [type.name, fitsNow])).toEqual([
      ['gpu.1', 0],
      ['l4.1', 0],
    ]);
    await instances.terminate(world.caller, others[0] ?? one, null);
    await expectRefused(launch('gpu.1'), 'no_capacity');
    await instances.terminate(world.caller, one, null);
    await world.until(waits.instanceId, hasStatus('Running'));
    await settled(world);
    await expectConsistent(world);
  });

  test('gives types of GPUs that are gone no others', async () => {
    const machine = { ...machineOf(16, 32), gpus: [{ name: 'A100' }, { name: 'L4' }] };
    const world = await makeSizedWorld(await open(), machine, withGpus);
    const { instances } = world.running.control;
    await eventually(() => world.drivers.health.answers);
    await world.becomes({ gpus: { L4: 1 } });
    await expectRefused(instances.launch(world.caller, world.of('gpu.1'), null), 'no_capacity', /short of 1 GPU/);
  });
});

onBothEngines('launches without GPUs', (open) => {
  test('leave each free GPU what its smallest type takes, and say so', async () => {
    const sizes = {
      'card.1': { cpuCores: 3, memoryGB: 4, gpuCount: 1 },
      'card.2': { cpuCores: 8, memoryGB: 8, gpuCount: 2 },
      'cpu.1': { cpuCores: 1, memoryGB: 1 },
    };
    const world = await makeSizedWorld(await open(), machineOf(8, 32, 2), sizes, { reservesForGpus: true });
    const { instances, fleet } = world.running.control;
    const launch = (type: string) => instances.launch(world.caller, world.of(type), null);
    const fitting = async (): Promise<Record<string, number>> =>
      Object.fromEntries((await fleet.read())[0]?.types.map(({ type, fitsNow }) => [type.name, fitsNow]) ?? []);
    await eventually(async () => 'card.1' in (await fitting()));
    await world.becomes({});
    expect(await fitting()).toEqual({ 'card.1': 2, 'card.2': 1, 'cpu.1': 2 });
    const [one, two] = [await launch('cpu.1'), await launch('cpu.1')];
    await expectRefused(
      launch('cpu.1'),
      'no_capacity',
      /short of 1 CPU core beside what is kept for 2 free GPUs \(an operator can allow it with BERTH_GPU_RESERVE=off\); card\.1 .* would fit now, or send the header/,
    );
    const waits = await instances.launch(world.caller, world.of('cpu.1'), null, A_DAY_MS);
    const gpu = await launch('card.1');
    await launch('card.1');
    await expectRefused(
      launch('cpu.1'),
      'no_capacity',
      /short of 1 CPU core; instances ahead in the queue: 1; no type/,
    );
    for (const id of [one, two, gpu]) await world.until(id.instanceId, hasStatus('Running'));
    await instances.terminate(world.caller, gpu, null);
    expect(await world.capacityQueue()).toEqual([waits.instanceId]);
    await instances.terminate(world.caller, one, null);
    await world.until(waits.instanceId, hasStatus('Running'));
    await settled(world);
    await expectConsistent(world);
  });
});

onBothEngines('a region with several hosts', (open) => {
  const sizes = { 'cpu.2': { cpuCores: 2, memoryGB: 4 }, 'cpu.4': { cpuCores: 4, memoryGB: 8 } };
  // With the memory that a machine keeps for itself.
  const host = { cpuMilli: 3_000, memoryMiB: 7_168, gpus: {} };

  test('refuses a launch that only the sum of the hosts can hold, and names what fits', async () => {
    const world = await makeSizedWorld(await open(), machineOf(6, 12), sizes);
    await world.becomes({}, [host]);
    const { instances, catalog } = world.running.control;
    const refusal = {
      code: 'no_capacity',
      message: expect.stringMatching(
        /^instance type cpu\.4 \(4 CPU cores, 8 GB of memory and no GPU\) fits on no host of region .+, whose largest have 3 CPU cores, 6144 MiB of memory and no GPU; cpu\.2 \([0-9a-f-]{36}\) would fit$/,
      ),
    };
    await expect(instances.launch(world.caller, world.of('cpu.4'), null)).rejects.toMatchObject(refusal);
    await expect(instances.launch(world.caller, world.of('cpu.4'), null, A_DAY_MS)).rejects.toMatchObject(refusal);
    const [family] = await catalog.families();
    expect(family?.regionInfos[0]?.instanceTypeInfos.map((type) => [type.instanceTypeName, type.stockStatus])).toEqual([
      ['cpu.2', 'InStock'],
      ['cpu.4', 'OutOfStock'],
    ]);
    const { instanceId } = await instances.launch(world.caller, world.of('cpu.2'), null);
    const resize = { instanceId, instanceTypeId: world.typeId('cpu.4') };
    await expect(instances.update(world.caller, resize, null)).rejects.toMatchObject(refusal);
    await world.until(instanceId, hasStatus('Running'));
    await settled(world);
    await expectConsistent(world);
  });

  test('warns of a new type that no host can hold', async () => {
    const world = await makeSizedWorld(await open(), machineOf(6, 12), sizes);
    await world.becomes({}, [host]);
    const { offeredTypes } = world.running.control;
    const { types } = await offeredTypes.list({ currentPage: 1, pageSize: 10 });
    const [first] = types;
    if (first === undefined) throw new Error('there is no type');
    const warningsOf = async (name: string, cpuCores: number): Promise<string[]> =>
      (await offeredTypes.create(world.caller, { ...first, name, cpuCores }, null)).warnings;
    expect(await warningsOf('fits', 3)).toEqual([]);
    expect(await warningsOf('over', 4)).toEqual([
      'launches of over are refused: no host of the region has that much; the largest have 3 CPU cores, 6144 MiB of memory and no GPU',
    ]);
  });

  test('names no type as a way out of a shortage that no host can hold', async () => {
    const shapes = { 'memory.8': { cpuCores: 1, memoryGB: 8 }, 'cpu.6': { cpuCores: 6, memoryGB: 1 } };
    const world = await makeSizedWorld(await open(), machineOf(8, 10), shapes);
    await world.becomes({}, [{ ...host, cpuMilli: 4_000, memoryMiB: 10_240 }]);
    const { instances } = world.running.control;
    await instances.launch(world.caller, world.of('memory.8'), null);
    await expect(instances.launch(world.caller, world.of('memory.8'), null)).rejects.toMatchObject({
      code: 'no_capacity',
      message: expect.stringContaining('short of 6144 MiB of memory; no type fits now'),
    });
  });
});
