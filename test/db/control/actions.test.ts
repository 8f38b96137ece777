import { expect, test } from 'vitest';
import { actions, type Action } from '../../../src/domain/compute/instance-states.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectRefused } from './access-fixture.ts';
import { expectConsistent, settled } from './consistency.ts';
import { eventually, hasStatus, makeWorld, type World, type WorldOptions } from '../../fixtures/control.ts';

const phaseIs =
  (phase: string) =>
  ({ instanceRuntimeInfo }: { instanceRuntimeInfo: { phase: string } }): boolean =>
    instanceRuntimeInfo.phase === phase;

const launched = async (
  world: World,
  over: Parameters<World['launchInput']>[0] = {},
): Promise<{ instanceId: string }> =>
  world.running.control.instances.launch(world.caller, world.launchInput(over), null);

const withScript = (world: World, initScript: string) => ({
  instanceConfiguration: { ...world.launchInput().instanceConfiguration, initScript },
});

const legality: {
  state: string;
  reach: (world: World) => Promise<{ instanceId: string }>;
  legal: Action[];
  options?: WorldOptions;
}[] = [
  {
    state: 'Initializing',
    options: { engine: { times: { pull: 60_000 } } },
    reach: launched,
    legal: ['stop', 'terminate'],
  },
  {
    state: 'Starting',
    reach: async (world) => {
      const one = await launched(world, withScript(world, '# berth-sim: never ready'));
      await world.until(one.instanceId, hasStatus('Starting'));
      return one;
    },
    legal: ['stop', 'terminate'],
  },
  {
    state: 'Running',
    reach: async (world) => {
      const one = await launched(world);
      await world.until(one.instanceId, hasStatus('Running'));
      return one;
    },
    legal: ['stop', 'restart', 'archive', 'terminate'],
  },
  {
    state: 'stopping',
    options: { limits: { stopGraceMs: 60_000, callDeadlineMs: 60_000 } },
    reach: async (world) => {
      const one = await launched(world, withScript(world, '# berth-sim: ignore TERM'));
      await world.until(one.instanceId, hasStatus('Running'));
      await world.running.control.instances.stop(world.caller, one, null);
      return one;
    },
    legal: ['archive', 'terminate'],
  },
  {
    state: 'Stopped',
    reach: async (world) => {
      const one = await launched(world);
      await world.until(one.instanceId, hasStatus('Running'));
      await world.running.control.instances.stop(world.caller, one, null);
      await world.until(one.instanceId, hasStatus('Stopped'));
      return one;
    },
    legal: ['start', 'archive', 'terminate'],
  },
  {
    state: 'StartingFailed',
    options: { limits: { readyDeadlineMs: 1 } },
    reach: async (world) => {
      const one = await launched(world, withScript(world, '# berth-sim: never ready'));
      await world.until(one.instanceId, hasStatus('StartingFailed'));
      return one;
    },
    legal: ['start', 'archive', 'terminate'],
  },
  {
    state: 'Archived',
    reach: async (world) => {
      const one = await launched(world);
      await world.until(one.instanceId, hasStatus('Running'));
      await world.running.control.instances.archive(world.caller, one, null);
      await world.until(one.instanceId, hasStatus('Archived'));
      return one;
    },
    legal: ['start', 'terminate'],
  },
];

onBothEngines('an action', (open) => {
  for (const { state, reach, legal, options } of legality) {
    test(`accepts ${legal.join(', ')} and nothing else while ${state}`, async () => {
      const world = await makeWorld(await open(), options);
      const one = await reach(world);
      expect((await world.instance(one.instanceId)).actions).toEqual(legal);
      for (const action of actions.filter((action) => !legal.includes(action))) {
        await expectRefused(
          world.running.control.instances[action](world.caller, one, null),
          'not_now',
          new RegExp(`cannot ${action} instance ${one.instanceId}: the instance is`),
        );
      }
      for (const action of legal.filter((action) => action !== 'terminate').slice(0, 1))
        await world.running.control.instances[action](world.caller, one, null);
      await world.running.control.instances.terminate(world.caller, one, null);
      await world.until(one.instanceId, phaseIs('Cleaned'));
      for (const action of actions) {
        await expectRefused(
          world.running.control.instances[action](world.caller, one, null),
          'not_found',
          /^ent: instance not found$/,
        );
      }
      await settled(world);
      await expectConsistent(world);
    });
  }

  test('hides instances of other accounts', async () => {
    const world = await makeWorld(await open());
    const otherAccount = await world.account('stranger');
    const one = await launched(world);
    for (const action of actions)
      await expectRefused(
        world.running.control.instances[action](otherAccount, one, null),
        'not_found',
        /^ent: instance not found$/,
      );
    await world.until(one.instanceId, hasStatus('Running'));
  });

  test('terminate at any moment of a launch frees the capacity at once and leaves nothing', async () => {
    const world = await makeWorld(await open(), {
      machine: { cpuCores: 1, memoryMiB: 4 * 1024, gpus: [], architecture: 'amd64' },
    });
    const { instances } = world.running.control;
    for (let round = 0; round < 12; round++) {
      // A single place: free although the former instance may still be cleaned up.
      const one = await launched(world);
      await new Promise((resolve) => setTimeout(resolve, round * 4));
      await instances.terminate(world.caller, one, null);
      expect((await world.instance(one.instanceId)).instanceRuntimeInfo).toMatchObject({
        status: 'Released',
        healthy: false,
      });
    }
    await settled(world);
    await expectConsistent(world);
    expect(await world.engine.listOwned(AbortSignal.timeout(120_000))).toEqual([]);
    expect((await world.storage.listOwned()).filter(({ kind }) => kind === 'data')).toEqual([]);
  });

  test('terminate during a pull aborts the pull', async () => {
    const world = await makeWorld(await open(), { engine: { times: { pull: 3_600_000 } } });
    const one = await launched(world);
    await world.until(one.instanceId, hasStatus('PullingImage'));
    await world.running.control.instances.terminate(world.caller, one, null);
    await world.until(one.instanceId, phaseIs('Cleaned'));
    const { images } = await world.running.control.images.list(world.caller, { currentPage: 1, pageSize: 10 });
    expect(images[0]).toMatchObject({ state: 'Absent' });
  });

  test('accepts terminate during an engine outage, frees the capacity at once, and cleans up after the outage', async () => {
    const world = await makeWorld(await open(), {
      machine: { cpuCores: 1, memoryMiB: 4 * 1024, gpus: [], architecture: 'amd64' },
    });
    const one = await launched(world);
    await world.until(one.instanceId, hasStatus('Running'));
    world.engine.host.goAway(60_000);
    await world.running.control.instances.terminate(world.caller, one, null);
    const waiting = await world.until(
      one.instanceId,
      ({ instanceRuntimeInfo }) => instanceRuntimeInfo.diagnosisReason === 'EngineUnreachable',
    );
    expect(waiting.instanceRuntimeInfo).toMatchObject({ status: 'Released', phase: 'Cleaning' });
    const next = await launched(world);
    world.engine.host.comeBack();
    const cleaned = await world.until(one.instanceId, phaseIs('Cleaned'));
    expect(cleaned.instanceRuntimeInfo).toMatchObject({ diagnosisReason: '', diagnosisMessage: '' });
    await world.until(next.instanceId, hasStatus('Running'));
    await settled(world);
    await expectConsistent(world);
  });

  test('stop during a start ends in Stopped', async () => {
    const world = await makeWorld(await open());
    for (let round = 0; round < 6; round++) {
      const one = await launched(world);
      await new Promise((resolve) => setTimeout(resolve, round * 8));
      await world.running.control.instances.stop(world.caller, one, null);
      const { instanceRuntimeInfo } = await world.until(one.instanceId, hasStatus('Stopped'));
      expect(instanceRuntimeInfo).toMatchObject({ phase: 'Stopped', diagnosisReason: '', message: '' });
      await world.running.control.instances.terminate(world.caller, one, null);
    }
    await settled(world);
    await expectConsistent(world);
  });

  test('restart just after the container exited starts it once and reports no crash', async () => {
    const world = await makeWorld(await open(), { limits: { backOffBaseMs: 60_000, backOffMaxMs: 60_000 } });
    const one = await launched(world);
    await world.until(one.instanceId, hasStatus('Running'));
    await settled(world);
    world.engine.misbehave(({ verb }) => (verb === 'watch' ? { mode: 'lost' } : undefined));
    await world.engine.host.reboot();
    await world.running.control.instances.restart(world.caller, one, null);
    await world.until(one.instanceId, hasStatus('Running'));
    await settled(world);
    const events = await world.store.read
      .selectFrom('event')
      .select('data')
      .where('subjectId', '=', one.instanceId)
      .execute();
    expect(events.filter(({ data }) => data.includes('ContainerExited'))).toEqual([]);
  });

  test('start waits for capacity that others reserved', async () => {
    const world = await makeWorld(await open(), {
      machine: { cpuCores: 1, memoryMiB: 4 * 1024, gpus: [], architecture: 'amd64' },
    });
    const { instances } = world.running.control;
    const one = await launched(world);
    await world.until(one.instanceId, hasStatus('Running'));
    await instances.stop(world.caller, one, null);
    await world.until(one.instanceId, hasStatus('Stopped'));
    const other = await launched(world);
    await expectRefused(instances.start(world.caller, one, null), 'no_capacity', /no stock of cpu\.1/);
    await instances.terminate(world.caller, other, null);
    await instances.start(world.caller, one, null);
    await world.until(one.instanceId, hasStatus('Running'));
  });

  test('fifty concurrent mixed actions on one instance end in a consistent state', async () => {
    const world = await makeWorld(await open());
    const one = await launched(world);
    await world.until(one.instanceId, hasStatus('Running'));
    const mixed = Array.from(
      { length: 50 },
      (_, index) => (['stop', 'start', 'restart'] as const)[index % 3] ?? 'stop',
    );
    const results = await Promise.allSettled(
      mixed.map((action) => world.running.control.instances[action](world.caller, one, null)),
    );
    for (const result of results)
      if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'not_now' });
    await settled(world);
    await expectConsistent(world);
    const row = await world.store.read.selectFrom('instance').select(['desired', 'status']).executeTakeFirstOrThrow();
    expect(row.status).toBe(row.desired === 'running' ? 'Running' : 'Stopped');
    await world.running.control.instances.terminate(world.caller, one, null);
    await eventually(async () => (await world.engine.listOwned(AbortSignal.timeout(120_000))).length === 0);
    await settled(world);
    await expectConsistent(world);
  });
});
