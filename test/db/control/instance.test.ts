import { expect, test } from 'vitest';
import { onBothEngines } from '../../fixtures/store.ts';
import { hasStatus, makeWorld } from '../../fixtures/control.ts';

onBothEngines('an instance on the simulated engine', (open) => {
  test('reaches Running with its node ports shown, and leaves the engine after terminate', async () => {
    const world = await makeWorld(await open());
    const { instances } = world.running.control;
    const { instanceId } = await instances.launch(world.caller, world.launchInput({ nodePorts: [8000] }), null);
    const running = await world.until(instanceId, hasStatus('Running'));
    const ports = running.instanceSpecInfo.nodePorts;
    expect(ports.map(({ port }) => port)).toEqual([22, 8000]);
    expect(ports.every(({ address, nodePort }) => address === '192.0.2.1' && nodePort >= 30_000)).toBe(true);
    expect(running.instanceRuntimeInfo).toMatchObject({ phase: 'Ready', healthy: true, diagnosisReason: '' });

    await instances.terminate(world.caller, { instanceId }, null);
    expect((await world.instance(instanceId)).instanceRuntimeInfo.status).toBe('Released');
    await world.until(instanceId, (instance) => instance.instanceRuntimeInfo.phase === 'Cleaned');
    expect(await world.engine.listOwned(AbortSignal.timeout(120_000))).toEqual([]);
    expect(await world.storage.listOwned()).not.toContainEqual({ kind: 'data', id: instanceId });
  });

  test('stops, starts and restarts with the same node ports', async () => {
    const world = await makeWorld(await open());
    const { instances } = world.running.control;
    const { instanceId } = await instances.launch(world.caller, world.launchInput(), null);
    const before = await world.until(instanceId, hasStatus('Running'));
    await instances.stop(world.caller, { instanceId }, null);
    const stopped = await world.until(instanceId, hasStatus('Stopped'));
    expect(stopped.instanceRuntimeInfo.stopTimestamp).toBeGreaterThan(0);
    expect(stopped.instanceSpecInfo.nodePorts).toEqual([{ port: 22, address: '', nodePort: 0 }]);
    await instances.start(world.caller, { instanceId }, null);
    const after = await world.until(instanceId, hasStatus('Running'));
    expect(after.instanceSpecInfo.nodePorts).toEqual(before.instanceSpecInfo.nodePorts);
    expect(after.instanceRuntimeInfo.stopTimestamp).toBe(0);
    await instances.restart(world.caller, { instanceId }, null);
    expect((await world.instance(instanceId)).instanceRuntimeInfo.status).toMatch(/Restarting|Running/);
    await world.until(instanceId, hasStatus('Running'));
  });

  test('a server killed at any moment of a launch is followed by one that completes it, once', async () => {
    const world = await makeWorld(await open(), { engine: { times: { create: 5, start: 5, ready: 10 } } });
    const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    for (let round = 0; round < 8; round++) {
      await new Promise((resolve) => setTimeout(resolve, round * 3));
      await world.again();
    }
    await world.until(instanceId, hasStatus('Running'));
    const owned = await world.engine.listOwned(AbortSignal.timeout(120_000));
    expect(owned.filter(({ kind }) => kind === 'instance').map(({ id }) => id)).toEqual([instanceId]);
  });

  test('gives the last capacity to one of many; the other refusals name a type that fits', async () => {
    const world = await makeWorld(await open(), {
      machine: { cpuCores: 1, memoryMiB: 3 * 1024, architecture: 'amd64', gpus: [] },
    });
    const { instances } = world.running.control;
    const launches = Array.from({ length: 50 }, () => instances.launch(world.caller, world.launchInput(), null));
    const results = await Promise.allSettled(launches);
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    for (const result of results) {
      if (result.status === 'rejected')
        expect(result.reason).toMatchObject({
          code: 'no_capacity',
          message: expect.stringMatching(/short of 1 CPU core and/),
        });
    }
  });

  test('refuses an account without money with the shortfall, and changes nothing', async () => {
    const world = await makeWorld(await open());
    const poor = await world.account('poor', 0.001);
    const before = await world.store.read.selectFrom('region').selectAll().executeTakeFirstOrThrow();
    await expect(world.running.control.instances.launch(poor, world.launchInput(), null)).rejects.toMatchObject({
      code: 'no_balance',
      message: expect.stringContaining('$0.019 is missing'),
    });
    expect(await world.store.read.selectFrom('region').selectAll().executeTakeFirstOrThrow()).toEqual(before);
    expect(await world.running.control.instances.list(poor, { currentPage: 1, pageSize: 10 })).toEqual({
      texts: [],
      totalEntries: 0,
    });
  });

  test('waits with a reason during an engine outage, and continues after it', async () => {
    const world = await makeWorld(await open());
    world.engine.misbehave(({ verb }) => (verb === 'watch' ? undefined : { mode: 'unreachable', ms: 50 }));
    const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    const waiting = await world.until(
      instanceId,
      (one) => one.instanceRuntimeInfo.diagnosisReason === 'EngineUnreachable',
    );
    expect(['Initializing', 'Starting']).toContain(waiting.instanceRuntimeInfo.status);
    world.engine.misbehave(undefined);
    await world.until(instanceId, hasStatus('Running'));
  });
});
