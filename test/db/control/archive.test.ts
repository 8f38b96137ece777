import { expect, test } from 'vitest';
import { instanceId as idOf } from '../../../src/domain/kernel/ids.ts';
import type { InstanceId } from '../../../src/domain/kernel/ids.ts';
import { deleteExpired } from '../../fixtures/delete-expired.ts';
import { defaultLimits, MAX_COPY_MS } from '../../../src/domain/compute/instance-states.ts';
import { simulatedFault, type Verb } from '../../../src/engines/simulated/injected-faults.ts';
import { instanceFromRow } from '../../../src/store/tables/instances.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { becomesConsistent } from './consistency.ts';
import { eventually, hasStatus, makeWorld, type World } from '../../fixtures/control.ts';
import { realTime } from '../../../src/control/kernel/time.ts';

const FILE = '/root/kept';
const DATA_FILE = '/root/dataDisk/kept';
const signal = (): AbortSignal => AbortSignal.timeout(120_000);

async function launched(world: World, nodePorts: number[] = []): Promise<InstanceId> {
  const { instanceId } = await world.running.control.instances.launch(
    world.caller,
    world.launchInput({ nodePorts }),
    null,
  );
  await world.until(instanceId, hasStatus('Running'));
  return idOf(instanceId);
}

const hasFile = async (world: World, id: InstanceId, file = FILE): Promise<boolean> =>
  (await world.engine.exec(id, ['ls', file], signal())).exitCode === 0;

const touch = (world: World, id: InstanceId, ...files: string[]) =>
  world.engine.exec(id, ['touch', ...files], signal());

/** Requests the action, then waits for its status and phase. */
async function bring(
  world: World,
  id: InstanceId,
  action: 'archive' | 'start' | 'stop',
  status: string,
): Promise<void> {
  await world.running.control.instances[action](world.caller, { instanceId: id }, null);
  await world.until(id, hasStatus(status));
}

const imagesOnHost = async (world: World): Promise<string[]> =>
  (await world.engine.listOwned(signal())).flatMap(({ kind, engineName }) => (kind === 'image' ? [engineName] : []));

const rowOf = async (world: World, id: InstanceId) =>
  instanceFromRow(
    await world.store.read.selectFrom('instance').selectAll().where('id', '=', id).executeTakeFirstOrThrow(),
  );

const portsOf = (world: World, id: InstanceId) =>
  world.store.read.selectFrom('nodePort').select(['port', 'nodePort']).where('instanceId', '=', id).execute();

const containerOf = async (world: World, id: InstanceId): Promise<string | undefined> =>
  (await world.engine.observe([id], signal())).get(id)?.kind;

const whyOf = (world: World, id: InstanceId, reason: string) =>
  world.until(id, ({ instanceRuntimeInfo }) => instanceRuntimeInfo.diagnosisReason === reason);

onBothEngines('an archived instance', (open) => {
  test('releases container and capacity; a start restores its files, and its node ports stay the same', async () => {
    const machine = { cpuCores: 1, memoryMiB: 3 * 1024, architecture: 'amd64', gpus: [] };
    const world = await makeWorld(await open(), { machine });
    const id = await launched(world, [8000]);
    await touch(world, id, FILE, DATA_FILE);
    await bring(world, id, 'archive', 'Archived');
    const archived = await world.instance(id);
    expect(archived.instanceRuntimeInfo).toMatchObject({
      phase: 'Archived',
      healthy: false,
      diagnosisReason: '',
      message: '',
    });
    expect(archived.instanceRuntimeInfo.stopTimestamp).toBeGreaterThan(0);
    expect(archived.actions).toEqual(['start', 'terminate']);
    expect(await containerOf(world, id)).toBe('absent');
    const ports = await portsOf(world, id);
    expect(ports.map(({ port }) => port).toSorted()).toEqual([22, 8000]);
    const { archive, generation, operation } = await rowOf(world, id);
    expect(archive).toMatchObject({ ref: `berth.local/archive/${id}:${generation}`, generation, replaces: [] });
    expect(archive?.sizeBytes).toBeGreaterThan(0);
    expect(operation).toMatchObject({ kind: 'archive', state: 'Succeeded' });
    expect(await imagesOnHost(world)).toEqual([archive?.ref]);
    await becomesConsistent(world);

    // Capacity for one instance: it was freed.
    const other = await launched(world);
    await expect(world.running.control.instances.start(world.caller, { instanceId: id }, null)).rejects.toMatchObject({
      code: 'no_capacity',
    });
    expect((await world.instance(id)).instanceRuntimeInfo.status).toBe('Archived');
    await world.running.control.instances.terminate(world.caller, { instanceId: other }, null);
    await bring(world, id, 'start', 'Running');
    expect(await hasFile(world, id)).toBe(true);
    expect(await hasFile(world, id, DATA_FILE)).toBe(true);
    expect(await portsOf(world, id)).toEqual(ports);
    await becomesConsistent(world);
  });

  test('keeps its node ports counted, so a start never lacks one', async () => {
    const world = await makeWorld(await open(), { nodePorts: { first: 30_000, last: 30_000 } });
    const id = await launched(world);
    await bring(world, id, 'archive', 'Archived');
    await expect(launched(world)).rejects.toMatchObject({
      code: 'no_capacity',
      message: expect.stringMatching(/node ports/),
    });
    await bring(world, id, 'start', 'Running');
  });

  test('keeps its volumes mounted', async () => {
    const world = await makeWorld(await open());
    const { instances, volumes } = world.running.control;
    const { volumeText } = await volumes.create(
      world.caller,
      { name: 'v', sizeGB: 1, region: world.drivers.regionId, volumeType: 'filesystem' },
      null,
    );
    const volume: { id: string } = JSON.parse(volumeText);
    const remoteStorages = [
      { mountPath: '/mnt/v', remoteStorageName: 'v', remoteStorageId: volume.id, type: 'filesystem' },
    ];
    const { instanceId } = await instances.launch(world.caller, world.launchInput({ remoteStorages }), null);
    const id = idOf(instanceId);
    await world.until(id, hasStatus('Running'));
    await touch(world, id, '/mnt/v/kept', '/root/sharedDisk/kept');
    await bring(world, id, 'archive', 'Archived');
    await expect(volumes.delete(world.caller, { id: volume.id }, null)).rejects.toMatchObject({ code: 'in_use' });
    await bring(world, id, 'start', 'Running');
    expect(await hasFile(world, id, '/mnt/v/kept')).toBe(true);
    expect(await hasFile(world, id, '/root/sharedDisk/kept')).toBe(true);
  });

  test('archives a stopped instance', async () => {
    const world = await makeWorld(await open());
    const id = await launched(world);
    await touch(world, id, FILE);
    await bring(world, id, 'stop', 'Stopped');
    await bring(world, id, 'archive', 'Archived');
    await bring(world, id, 'start', 'Running');
    expect(await hasFile(world, id)).toBe(true);
  });

  test('keeps only the later image when archived again', async () => {
    const world = await makeWorld(await open());
    const id = await launched(world);
    await touch(world, id, FILE);
    await bring(world, id, 'archive', 'Archived');
    const first = (await rowOf(world, id)).archive?.ref;
    await bring(world, id, 'start', 'Running');
    await touch(world, id, '/root/later');
    await bring(world, id, 'archive', 'Archived');
    const second = (await rowOf(world, id)).archive?.ref;
    expect(second).not.toBe(first);
    expect(await imagesOnHost(world)).toEqual([second]);
    await bring(world, id, 'start', 'Running');
    expect(await hasFile(world, id)).toBe(true);
    expect(await hasFile(world, id, '/root/later')).toBe(true);
    await becomesConsistent(world);
  });

  test('terminate removes image and disk; the instance stays listed for an hour', async () => {
    const clock = { aheadMs: 0 };
    const world = await makeWorld(await open(), { clock });
    const id = await launched(world);
    await touch(world, id, DATA_FILE);
    await bring(world, id, 'archive', 'Archived');
    await world.running.control.instances.terminate(world.caller, { instanceId: id }, null);
    await world.until(id, ({ instanceRuntimeInfo }) => instanceRuntimeInfo.phase === 'Cleaned');
    expect(await imagesOnHost(world)).toEqual([]);
    expect(await world.storage.observe({ kind: 'data', id })).toMatchObject({ kind: 'absent' });
    expect((await rowOf(world, id)).archive).toBeNull();
    await becomesConsistent(world);

    const now = (): number => Date.now() + clock.aheadMs;
    const HOUR_MS = 3_600_000;
    const deps = {
      store: world.store,
      time: { ...realTime, now },
      releasedListedMs: HOUR_MS,
      eventRetentionMs: 30 * 24 * HOUR_MS,
    };
    const listed = async (): Promise<number> =>
      (await world.running.control.instances.list(world.caller, { currentPage: 1, pageSize: 10 })).totalEntries;
    clock.aheadMs = HOUR_MS - 60_000;
    await deleteExpired(deps);
    expect(await listed()).toBe(1);
    clock.aheadMs = HOUR_MS + 60_000;
    await deleteExpired(deps);
    expect(await listed()).toBe(0);
    const stored = async (): Promise<number> =>
      (await world.store.read.selectFrom('instance').select('id').execute()).length;
    clock.aheadMs = 61 * 24 * HOUR_MS;
    await deleteExpired(deps);
    expect(await stored()).toBe(1);
    clock.aheadMs = 63 * 24 * HOUR_MS;
    await deleteExpired(deps);
    expect(await stored()).toBe(0);
    expect(await world.store.read.selectFrom('usagePeriod').selectAll().execute()).not.toEqual([]);
  });

  test('removes a container that reappears, and keeps the saved root disk', async () => {
    const world = await makeWorld(await open());
    const id = await launched(world);
    await touch(world, id, FILE);
    await bring(world, id, 'archive', 'Archived');
    const { archive } = await rowOf(world, id);
    world.engine.leaveHalfMade({ ...(await anySpec(world)), id, imageRef: archive?.ref ?? '' });
    await world.store.write((tx) =>
      tx.updateTable('instance').set({ dueAtMs: Date.now() }).where('id', '=', id).execute(),
    );
    await world.again();
    await eventually(async () => (await containerOf(world, id)) === 'absent');
    expect((await rowOf(world, id)).archive).toEqual(archive);
    await bring(world, id, 'start', 'Running');
    expect(await hasFile(world, id)).toBe(true);
  });
});

async function anySpec(world: World) {
  const { ensure } = world.engine;
  const asked = Promise.withResolvers<Parameters<typeof ensure>[0]>();
  world.engine.ensure = (spec, given) => {
    asked.resolve(spec);
    return ensure(spec, given);
  };
  const other = await launched(world);
  world.engine.ensure = ensure;
  await world.running.control.instances.terminate(world.caller, { instanceId: other }, null);
  return asked.promise;
}

onBothEngines('an archive', (open) => {
  test('reports why a save failed; the instance is Stopped with its container', async () => {
    const world = await makeWorld(await open(), { limits: { maxAttempts: 2 } });
    const id = await launched(world);
    await touch(world, id, FILE);
    let tries = 0;
    const { saveImage } = world.engine;
    world.engine.saveImage = async () => {
      tries += 1;
      throw simulatedFault('no_capacity', 'the disk is full', { reason: 'diskFull' });
    };
    await world.running.control.instances.archive(world.caller, { instanceId: id }, null);
    await world.until(id, hasStatus('Stopped'));
    const failed = await whyOf(world, id, 'ArchiveFailed');
    expect(failed.instanceRuntimeInfo).toMatchObject({ phase: 'Stopped', diagnosisMessage: 'the disk is full' });
    expect(failed.actions).toEqual(expect.arrayContaining(['start', 'archive', 'terminate']));
    expect(tries).toBe(3);
    expect(await containerOf(world, id)).toBe('present');
    const { operation, archive } = await rowOf(world, id);
    expect(operation).toMatchObject({ kind: 'archive', state: 'Failed' });
    expect(archive).toBeNull();
    await becomesConsistent(world);

    world.engine.saveImage = saveImage;
    await bring(world, id, 'archive', 'Archived');
    expect((await world.instance(id)).instanceRuntimeInfo.diagnosisReason).toBe('');
    await bring(world, id, 'start', 'Running');
    expect(await hasFile(world, id)).toBe(true);
  });

  test('archives an instance that failed to start; a failed archive leaves it Stopped', async () => {
    const world = await makeWorld(await open(), { limits: { maxAttempts: 1 } });
    const id = await launched(world);
    await touch(world, id, FILE);
    const { saveImage, ensure } = world.engine;
    world.engine.ensure = async () => {
      throw simulatedFault('rejected', 'no more');
    };
    await world.engine.host.crash(id);
    await world.until(id, hasStatus('StartingFailed'));
    world.engine.ensure = ensure;
    world.engine.saveImage = async () => {
      throw simulatedFault('rejected', 'it keeps a VOLUME');
    };
    await bring(world, id, 'archive', 'Stopped');
    const failed = await whyOf(world, id, 'ArchiveFailed');
    expect(failed.instanceRuntimeInfo).toMatchObject({ phase: 'Stopped', diagnosisMessage: 'it keeps a VOLUME' });
    world.engine.saveImage = saveImage;
    await bring(world, id, 'archive', 'Archived');
    await bring(world, id, 'start', 'Running');
    expect(await hasFile(world, id)).toBe(true);
    await becomesConsistent(world);
  });

  test('retries a failed save where a retry helps', async () => {
    const world = await makeWorld(await open());
    const id = await launched(world);
    await touch(world, id, FILE);
    let tries = 0;
    const { saveImage } = world.engine;
    world.engine.saveImage = (...given) => {
      tries += 1;
      if (tries < 4) throw simulatedFault('busy', 'something else saves');
      return saveImage(...given);
    };
    await bring(world, id, 'archive', 'Archived');
    expect(tries).toBe(4);
    await bring(world, id, 'start', 'Running');
    expect(await hasFile(world, id)).toBe(true);
  });

  test('stop cancels an archive: Stopped, with container and files', async () => {
    const world = await makeWorld(await open());
    const id = await launched(world);
    await touch(world, id, FILE);
    let asked = false;
    world.engine.misbehave(({ verb }) => {
      if (verb !== 'saveImage') return undefined;
      asked = true;
      return { mode: 'slow', ms: 60_000 };
    });
    await world.running.control.instances.archive(world.caller, { instanceId: id }, null);
    await eventually(() => asked);
    await bring(world, id, 'stop', 'Stopped');
    await world.until(id, ({ instanceRuntimeInfo }) => instanceRuntimeInfo.phase === 'Stopped');
    expect((await world.instance(id)).instanceRuntimeInfo.diagnosisReason).toBe('');
    expect(await containerOf(world, id)).toBe('present');
    expect(await imagesOnHost(world)).toEqual([]);
    world.engine.misbehave(undefined);
    await bring(world, id, 'start', 'Running');
    expect(await hasFile(world, id)).toBe(true);
    await becomesConsistent(world);
  });

  test.each(['stop', 'terminate'] as const)(
    'writes the image name before the save, and leaves nothing when superseded by %s',
    async (action) => {
      const world = await makeWorld(await open(), { engine: { times: { save: 500 } } });
      const id = await launched(world);
      const { saveImage } = world.engine;
      const named = Promise.withResolvers<[ref: string, unfinished: string[]]>();
      world.engine.saveImage = async (saved, ref, given) => {
        named.resolve([ref, (await rowOf(world, id)).unfinished]);
        return saveImage(saved, ref, given);
      };
      await world.running.control.instances.archive(world.caller, { instanceId: id }, null);
      const [ref, unfinished] = await named.promise;
      expect(unfinished).toEqual([ref]);
      await world.running.control.instances[action](world.caller, { instanceId: id }, null);
      await world.until(id, ({ instanceRuntimeInfo }) => ['Stopped', 'Cleaned'].includes(instanceRuntimeInfo.phase));
      // The engine continues with the save; the reconciler's part follows.
      await world.engine.halt(id, 0, signal());
      await eventually(async () => (await rowOf(world, id)).unfinished.length === 0);
      expect(await imagesOnHost(world)).toEqual([]);
      await becomesConsistent(world);
    },
  );

  test.each(['saveImage', 'pushImage'] as const)(
    'counts a %s past its deadline as a failed try, even with a responsive engine',
    async (verb) => {
      const limits = { maxAttempts: 2, copyDeadlineMs: 50 };
      const world = await makeWorld(await open(), { start: false, limits });
      Object.assign(world.drivers, { archivePrefix: 'registry.example.org/kept/archive', archivePushed: true });
      await world.running.start();
      const id = await launched(world);
      await touch(world, id, FILE);
      let tries = 0;
      world.engine.misbehave((call) => {
        if (call.verb !== verb) return undefined;
        tries += 1;
        return { mode: 'slow', ms: 60_000 };
      });
      await bring(world, id, 'archive', 'Stopped');
      const failed = await whyOf(world, id, 'ArchiveFailed');
      expect(failed.instanceRuntimeInfo.diagnosisMessage).toMatch(/^the root disk was not copied within/);
      expect(tries).toBe(3);
      world.engine.misbehave(undefined);
      await bring(world, id, 'start', 'Running');
      expect(await hasFile(world, id)).toBe(true);
    },
  );

  test("waits at least as long as the engine's own deadline", () => {
    expect(defaultLimits.copyDeadlineMs).toBeGreaterThan(MAX_COPY_MS);
  });

  test('waits out an engine outage without failing', async () => {
    const world = await makeWorld(await open(), { limits: { maxAttempts: 2 } });
    const id = await launched(world);
    await touch(world, id, FILE);
    world.engine.host.goAway(60_000);
    await world.running.control.instances.archive(world.caller, { instanceId: id }, null);
    await whyOf(world, id, 'EngineUnreachable');
    world.engine.host.comeBack();
    await world.until(id, hasStatus('Archived'));
    await bring(world, id, 'start', 'Running');
    expect(await hasFile(world, id)).toBe(true);
  });

  const verbs: readonly Verb[] = ['halt', 'saveImage', 'pushImage', 'destroy', 'removeImage'];
  const steps = verbs.flatMap((verb) => (['failBefore', 'failAfter', 'lost'] as const).map((mode) => ({ verb, mode })));
  test.each(steps)('survives a server killed when $verb ends as $mode', async ({ verb, mode }) => {
    const world = await makeWorld(await open(), { start: false, limits: { copyDeadlineMs: 300 } });
    const pushed = verb === 'pushImage';
    if (pushed)
      Object.assign(world.drivers, { archivePrefix: 'registry.example.org/kept/archive', archivePushed: true });
    await world.running.start();
    const id = await launched(world);
    await touch(world, id, FILE);
    // The second archive, so that there is an image to remove.
    await bring(world, id, 'archive', 'Archived');
    await bring(world, id, 'start', 'Running');
    await touch(world, id, '/root/later');
    let asked = false;
    world.engine.misbehave((call) => {
      if (call.verb !== verb || asked) return undefined;
      asked = true;
      return { mode };
    });
    await world.running.control.instances.archive(world.caller, { instanceId: id }, null);
    await eventually(() => asked);
    await world.again();
    await world.until(id, hasStatus('Archived'));
    const { archive } = await rowOf(world, id);
    expect(await imagesOnHost(world)).toEqual(pushed ? [] : [archive?.ref]);
    expect(await containerOf(world, id)).toBe('absent');
    await becomesConsistent(world);
    await bring(world, id, 'start', 'Running');
    expect(await hasFile(world, id)).toBe(true);
    expect(await hasFile(world, id, '/root/later')).toBe(true);
  });
});

onBothEngines('an archive in the operator’s registry', (open) => {
  const REGISTRY = 'private.invalid/kept';
  const operator = { username: 'operator', secret: 'harbour' };

  async function withRegistry(open: () => Promise<World['store']>, state: { away: boolean }) {
    const asked: string[] = [];
    const world = await makeWorld(await open(), {
      start: false,
      limits: { maxAttempts: 2 },
      engine: {
        images(ref, given) {
          if (!ref.startsWith(REGISTRY)) return { kind: 'found', bytes: 1_000_000 };
          asked.push(given?.username ?? '-');
          if (state.away) return { kind: 'unreachable' };
          return given?.secret === operator.secret ? { kind: 'not_found' } : { kind: 'denied' };
        },
      },
    });
    Object.assign(world.drivers, {
      archivePrefix: `${REGISTRY}/archive`,
      archivePushed: true,
      archiveCredentials: operator,
    });
    await world.running.start();
    return { world, asked };
  }

  test('pushes the root disk to the registry, removes it from the host, and starts from the registry', async () => {
    const { world, asked } = await withRegistry(open, { away: false });
    const id = await launched(world);
    await touch(world, id, FILE);
    await bring(world, id, 'archive', 'Archived');
    const ref = (await rowOf(world, id)).archive?.ref ?? '';
    expect(ref).toMatch(/^private\.invalid\/kept\/archive\//);
    expect(world.engine.host.pushed(ref)).toBeDefined();
    expect(await imagesOnHost(world)).toEqual([]);
    await bring(world, id, 'start', 'Running');
    expect(await hasFile(world, id)).toBe(true);
    expect(new Set(asked)).toEqual(new Set(['operator']));
    await bring(world, id, 'archive', 'Archived');
    expect(await imagesOnHost(world)).toEqual([]);
    await world.running.control.instances.terminate(world.caller, { instanceId: id }, null);
    await world.until(id, ({ instanceRuntimeInfo }) => instanceRuntimeInfo.phase === 'Cleaned');
    await becomesConsistent(world);
  });

  test('fails an archive while the registry is unreachable; the instance keeps its container and files', async () => {
    const state = { away: true };
    const { world } = await withRegistry(open, state);
    const id = await launched(world);
    await touch(world, id, FILE);
    await bring(world, id, 'archive', 'Stopped');
    const failed = await whyOf(world, id, 'ArchiveFailed');
    expect(failed.instanceRuntimeInfo.diagnosisMessage).toMatch(/does not answer/);
    expect(await containerOf(world, id)).toBe('present');
    state.away = false;
    await bring(world, id, 'archive', 'Archived');
    await bring(world, id, 'start', 'Running');
    expect(await hasFile(world, id)).toBe(true);
  });
});
