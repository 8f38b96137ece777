/** A root disk that somebody removed outside of Berth: never replaced without the owner's word. */
import { expect, test } from 'vitest';
import { instanceId as idOf, type InstanceId } from '../../../src/domain/kernel/ids.ts';
import { defaultImages, type ImageSource } from '../../../src/engines/simulated/images.ts';
import { instanceFromRow, instanceRow } from '../../../src/store/tables/instances.ts';
import { eventually, hasStatus, makeWorld, type World, type WorldOptions } from '../../fixtures/control.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { NEVER_MS } from '../../../src/domain/regions/off-peak.ts';
import { becomesConsistent } from './consistency.ts';
import { sweeping } from './sweeping.ts';

const FILE = '/root/kept';
const signal = (): AbortSignal => AbortSignal.timeout(120_000);

const launched = async (world: World, over: Parameters<World['launchInput']>[0] = {}): Promise<InstanceId> => {
  const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(over), null);
  await world.until(instanceId, hasStatus('Running'));
  await world.engine.exec(idOf(instanceId), ['touch', FILE], signal());
  return idOf(instanceId);
};

type Action = 'archive' | 'start' | 'stop' | 'restart' | 'terminate';
const act = (world: World, id: InstanceId, action: Action, more: { newRootDisk?: boolean } = {}) =>
  world.running.control.instances[action](world.caller, { instanceId: id, ...more }, null);

async function bring(world: World, id: InstanceId, action: Action, status: string): Promise<void> {
  await act(world, id, action);
  await world.until(id, hasStatus(status));
}

const rowOf = async (world: World, id: InstanceId) => {
  const row = await instanceRow(world.store.read, id);
  if (!row) throw new Error(`no row of ${id}`);
  return instanceFromRow(row);
};

const lostIn = (world: World, id: InstanceId, status: string) =>
  world.until(
    id,
    ({ instanceRuntimeInfo: { diagnosisReason, status: now } }) => diagnosisReason === 'RootDiskLost' && now === status,
  );

const hasFile = async (world: World, id: InstanceId): Promise<boolean> =>
  (await world.engine.exec(id, ['ls', FILE], signal())).exitCode === 0;

const eventsOf = (world: World, kind: string) =>
  world.store.read.selectFrom('event').select(['subjectId', 'data']).where('kind', '=', kind).execute();

const quiet = async (world: World, work: () => Promise<void>): Promise<void> => {
  world.engine.misbehave(({ verb }) => (verb === 'watch' ? { mode: 'lost' } : undefined));
  await work();
  world.engine.misbehave(() => undefined);
};

/** The container is gone, a start is refused until it agrees to a new root disk, once. */
async function replacesOnce(world: World, id: InstanceId): Promise<void> {
  for (const more of [{}, { newRootDisk: false }])
    await expect(act(world, id, 'start', more)).rejects.toMatchObject({
      code: 'not_now',
      message: expect.stringMatching(/root disk is lost.*Send "newRootDisk": true to start from the image test image/),
    });
  await expect(act(world, id, 'archive')).rejects.toMatchObject({ code: 'not_now', message: /nothing to save/ });
  const save = world.running.control.images.save(world.caller, { instanceId: id, name: 'saved' }, null);
  await expect(save).rejects.toMatchObject({ code: 'not_now', message: /root disk is lost/ });
  expect((await world.instance(id)).actions).toEqual(['start', 'terminate']);
  await act(world, id, 'start', { newRootDisk: true });
  await world.until(id, hasStatus('Running'));
  expect(await hasFile(world, id)).toBe(false);
  expect((await rowOf(world, id)).rootDisk).toBe('kept');
  expect((await eventsOf(world, 'instance.startWished')).at(-1)?.data).toContain('"newRootDisk":true');
}

onBothEngines('a container that is removed outside of Berth', (open) => {
  const makeSmall = async (options: WorldOptions = {}) => makeWorld(await open(), options);

  test('ends a running instance with RootDiskLost, frees its capacity and tells owner and administrators', async () => {
    const world = await makeSmall({ machine: { cpuCores: 1, memoryMiB: 3 * 1024, architecture: 'amd64', gpus: [] } });
    const id = await launched(world);
    await world.engine.host.forget(id);
    const failed = await lostIn(world, id, 'StartingFailed');
    expect(failed.instanceRuntimeInfo.diagnosisMessage).toMatch(/removed outside of Berth.*newRootDisk/);
    expect((await rowOf(world, id)).desired).toBe('stopped');
    await eventually(async () => (await eventsOf(world, 'rootDisk.lost')).length > 0);
    const [own] = await eventsOf(world, 'instance.rootDiskLost');
    expect(own?.subjectId).toBe(id);
    expect((await eventsOf(world, 'rootDisk.lost'))[0]).toMatchObject({
      subjectId: world.drivers.regionId,
      data: expect.stringContaining(id),
    });
    expect(world.engine.host.holds(id)).toBe(false);
    const other = await launched(world);
    await bring(world, other, 'terminate', 'Released');
    await replacesOnce(world, id);
    await becomesConsistent(world);
    await world.engine.host.forget(id);
    await lostIn(world, id, 'StartingFailed');
  });

  test('leaves a stopped instance Stopped, with the reason, and without a start of its own', async () => {
    const world = await makeSmall();
    const id = await launched(world);
    await bring(world, id, 'stop', 'Stopped');
    await world.engine.host.forget(id);
    const { instanceRuntimeInfo: now } = await lostIn(world, id, 'Stopped');
    expect(now).toMatchObject({ phase: 'Stopped', healthy: false });
    await replacesOnce(world, id);
  });

  test('is found by the sweep where the notice of the engine is lost', async () => {
    const world = await makeSmall();
    const id = await launched(world);
    await bring(world, id, 'stop', 'Stopped');
    await quiet(world, () => world.engine.host.forget(id));
    await sweeping(world).sweep();
    await lostIn(world, id, 'Stopped');
    expect(world.engine.host.holds(id)).toBe(false);
  });

  test('fails a start that came before the notice, and makes no other container', async () => {
    const world = await makeSmall();
    const id = await launched(world);
    await bring(world, id, 'stop', 'Stopped');
    await quiet(world, () => world.engine.host.forget(id));
    const { operationId } = await act(world, id, 'start', { newRootDisk: true });
    await lostIn(world, id, 'StartingFailed');
    expect(world.engine.host.holds(id)).toBe(false);
    const operation = await world.running.control.operations.read(world.caller, { operationId });
    expect(operation).toMatchObject({ state: 'Failed', error: { reason: 'RootDiskLost' } });
    await replacesOnce(world, id);
  });

  test('is found while Berth is away, and while a stop, a restart or an archive is requested', async () => {
    for (const action of ['stop', 'restart', 'archive'] as const) {
      const world = await makeSmall();
      const id = await launched(world);
      await quiet(world, () => world.engine.host.forget(id));
      await act(world, id, action);
      await lostIn(world, id, action === 'restart' ? 'StartingFailed' : 'Stopped');
      const { operation, archive } = await rowOf(world, id);
      expect(operation.state).toBe(action === 'stop' ? 'Succeeded' : 'Failed');
      expect(archive).toBeNull();
      await replacesOnce(world, id);
    }
    const world = await makeSmall();
    const id = await launched(world);
    await world.running.stop();
    await world.engine.host.forget(id);
    await world.again();
    await sweeping(world).sweep();
    await lostIn(world, id, 'StartingFailed');
    expect(world.engine.host.holds(id)).toBe(false);
  });

  test('gives the root disk back to the instance when the container is there again', async () => {
    const world = await makeSmall();
    const id = await launched(world);
    await bring(world, id, 'stop', 'Stopped');
    const state = world.engine.host.saveState();
    await world.engine.host.forget(id);
    await lostIn(world, id, 'Stopped');
    await world.engine.host.restoreState(state);
    await world.until(id, ({ instanceRuntimeInfo }) => instanceRuntimeInfo.diagnosisReason === '');
    await bring(world, id, 'start', 'Running');
    expect(await hasFile(world, id)).toBe(true);
  });

  test('starts from the last archive when the owner agrees, and from the image once that is gone, too', async () => {
    const images: ImageSource = (ref) => (ref.includes('/archive/') ? { kind: 'not_found' } : defaultImages(ref));
    const world = await makeSmall({ engine: { images } });
    const id = await launched(world);
    await bring(world, id, 'archive', 'Archived');
    expect((await rowOf(world, id)).rootDisk).toBe('saved');
    await bring(world, id, 'start', 'Running');
    await world.engine.host.forget(id);
    await lostIn(world, id, 'StartingFailed');
    await expect(act(world, id, 'start')).rejects.toMatchObject({ message: /to start from its last archive/ });
    await act(world, id, 'start', { newRootDisk: true });
    await world.until(id, hasStatus('Running'));
    expect(await hasFile(world, id)).toBe(true);

    await bring(world, id, 'archive', 'Archived');
    world.engine.host.dropImage((await rowOf(world, id)).archive?.ref ?? '');
    await act(world, id, 'start');
    const lost = await lostIn(world, id, 'StartingFailed');
    expect(lost.instanceRuntimeInfo.diagnosisMessage).toMatch(/image of the archived root disk was removed/);
    await replacesOnce(world, id);
  });

  test('runs the init script again on a new root disk', async () => {
    const world = await makeSmall();
    const id = await launched(world, {
      instanceConfiguration: {
        extraDataDiskSizeDB: 0,
        enableCommonData: false,
        enableDocker: false,
        dockerStorageSize: 0,
        initScript: 'true',
      },
    });
    await world.until(id, ({ instanceRuntimeInfo: { message } }) => /init script exited with code 0/.test(message));
    await world.engine.host.forget(id);
    await lostIn(world, id, 'StartingFailed');
    await act(world, id, 'start', { newRootDisk: true });
    await world.until(id, hasStatus('Running'));
    await world.until(id, ({ instanceRuntimeInfo: { message } }) => /init script exited with code 0/.test(message));
    expect((await rowOf(world, id)).operation.stages.map(({ name }) => name)).toContain('InitScript');
  });

  test('loses nothing to tell where the engine keeps no root disks', async () => {
    const world = await makeSmall({ capabilities: { keepsRootDisk: false } });
    const id = await launched(world);
    expect((await rowOf(world, id)).rootDisk).toBe('none');
    await world.engine.host.forget(id);
    await eventually(async () => world.engine.host.find((await installationOf(world)) ?? '', id)?.starts === 1);
    await world.until(id, hasStatus('Running'));
    expect(await eventsOf(world, 'instance.rootDiskLost')).toEqual([]);
  });
});

const installationOf = async (world: World): Promise<string | undefined> =>
  (await world.store.read.selectFrom('setting').select('value').where('name', '=', 'installation').executeTakeFirst())
    ?.value;

const HOUR_MS = 3_600_000;

onBothEngines('a setting for the root disks of long stops', (open) => {
  test('archives what is stopped for so long, once, and nothing else', async () => {
    const clock = { aheadMs: 0 };
    const options = { clock, saveRootDiskAfterMs: 24 * HOUR_MS };
    const world = await makeWorld(await open(), options);
    const [stopped, running] = [await launched(world), await launched(world)];
    await bring(world, stopped, 'stop', 'Stopped');
    clock.aheadMs = 23 * HOUR_MS;
    await eventually(async () => (await dueOf(world, stopped)) > Date.now() + 23 * HOUR_MS);
    expect((await world.instance(stopped)).instanceRuntimeInfo.status).toBe('Stopped');
    clock.aheadMs = 25 * HOUR_MS;
    await world.until(stopped, hasStatus('Archived'));
    expect((await rowOf(world, stopped)).operation).toMatchObject({ kind: 'archive', cause: 'LongStop' });
    expect((await eventsOf(world, 'instance.archiveWished')).at(-1)?.data).toContain('LongStop');
    expect((await world.instance(running)).instanceRuntimeInfo.status).toBe('Running');
    await bring(world, stopped, 'start', 'Running');
    expect(await hasFile(world, stopped)).toBe(true);
    expect(await dueOf(world, stopped)).toBe(-1);
    await becomesConsistent(world);
  });

  test('is off by default, and counts from the next start of Berth', async () => {
    const clock = { aheadMs: 0 };
    const options: WorldOptions = { clock };
    const world = await makeWorld(await open(), options);
    const id = await launched(world);
    await bring(world, id, 'stop', 'Stopped');
    await eventually(async () => (await dueOf(world, id)) === NEVER_MS);
    clock.aheadMs = 1_000 * HOUR_MS;
    options.saveRootDiskAfterMs = HOUR_MS;
    await world.again();
    await world.until(id, hasStatus('Archived'));
    expect((await rowOf(world, id)).rootDisk).toBe('saved');
  });
});

/** Time of the act; -1: there is none. */
const dueOf = async (world: World, id: InstanceId): Promise<number> => {
  const act = world.store.read.selectFrom('dueAct').select('dueAtMs').where('id', '=', `saveRootDisk/${id}`);
  return (await act.executeTakeFirst())?.dueAtMs ?? -1;
};
