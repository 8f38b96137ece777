/** Changes of an instance after its launch, and starts without its GPUs. */
import { expect, test } from 'vitest';
import { instanceId as idOf, type InstanceId } from '../../../src/domain/kernel/ids.ts';
import type { UpdateInput } from '../../../src/control/compute/instances/instances.ts';
import { regionsWithUsage } from '../../../src/store/tables/catalog.ts';
import { instanceFromRow } from '../../../src/store/tables/instances.ts';
import { regionRow } from '../store/rows.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { hasStatus, makeWorld, type World, type WorldOptions } from '../../fixtures/control.ts';
import { becomesConsistent } from './consistency.ts';

const FILE = '/root/kept';
const signal = (): AbortSignal => AbortSignal.timeout(120_000);
const CPU_MACHINE = { cpuCores: 4, memoryMiB: 17 * 1024, architecture: 'amd64', gpus: [] };
const GPU_MACHINE = { ...CPU_MACHINE, cpuCores: 32, memoryMiB: 256 * 1024, gpus: [{ name: 'A100' }, { name: 'A100' }] };

async function launched(world: World, over: Parameters<World['launchInput']>[0] = {}): Promise<InstanceId> {
  const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(over), null);
  await world.until(instanceId, hasStatus('Running'));
  await world.engine.exec(idOf(instanceId), ['touch', FILE], signal());
  return idOf(instanceId);
}

const update = (world: World, instanceId: string, input: UpdateInput) =>
  world.running.control.instances.update(world.caller, { instanceId, ...input }, null);

async function bring(
  world: World,
  id: InstanceId,
  action: 'archive' | 'restart' | 'start' | 'stop',
  withoutGpu = false,
) {
  const { [action]: request } = world.running.control.instances;
  await request(world.caller, { instanceId: id, ...(action === 'start' ? { withoutGpu } : {}) }, null);
  const status = { archive: 'Archived', restart: 'Running', start: 'Running', stop: 'Stopped' }[action];
  await world.until(id, hasStatus(status));
}

const rowOf = async (world: World, id: InstanceId) =>
  instanceFromRow(
    await world.store.read.selectFrom('instance').selectAll().where('id', '=', id).executeTakeFirstOrThrow(),
  );

const hasFile = async (world: World, id: InstanceId, file = FILE): Promise<boolean> =>
  (await world.engine.exec(id, ['ls', file], signal())).exitCode === 0;

const specOf = (world: World, id: InstanceId) =>
  [...world.engine.host.saveState().containers].find(({ spec }) => spec.id === id)?.spec;

async function volume(world: World, name: string, caller = world.caller) {
  const { volumeText } = await world.running.control.volumes.create(
    caller,
    { name, sizeGB: 1, region: world.drivers.regionId, volumeType: 'filesystem' },
    null,
  );
  const { id }: { id: string } = JSON.parse(volumeText);
  return {
    id,
    at: (mountPath: string) => ({ mountPath, remoteStorageName: name, remoteStorageId: id, type: 'filesystem' }),
  };
}

const used = async (world: World) => (await regionsWithUsage(world.store.read))[0]?.used;

const eventsOf = async (world: World, kind: string) =>
  world.store.read.selectFrom('event').select('data').where('kind', '=', kind).orderBy('seq').execute();

onBothEngines('a changed instance', (open) => {
  test('has its new name at once, and gets new control files; the same name changes nothing', async () => {
    const world = await makeWorld(await open());
    const id = await launched(world, { name: 'before' });
    expect(await update(world, id, { name: 'after' })).toEqual({
      instanceId: id,
      appliesAt: 'now',
      pendingChanges: null,
    });
    expect((await world.instance(id)).instanceSpecInfo.name).toBe('after');
    await update(world, id, { name: 'after' });
    expect(await eventsOf(world, 'instance.updated')).toEqual([
      { data: JSON.stringify({ name: 'after', pendingChanges: null }) },
    ]);
    await becomesConsistent(world);
    await bring(world, id, 'restart');
    expect((await world.instance(id)).instanceSpecInfo.name).toBe('after');
  });

  test('shows pending changes, and forgets those that are revoked', async () => {
    const world = await makeWorld(await open(), { machine: CPU_MACHINE });
    const [first, second] = world.types;
    const id = await launched(world, { nodePorts: [8000] });
    const kept = await volume(world, 'kept');
    const before = (await used(world))?.nodePorts ?? 0;
    const answer = await update(world, id, {
      instanceTypeId: second?.id,
      nodePorts: [8000, 8001, 8002],
      remoteStorages: [kept.at('/mnt/kept')],
    });
    const pendingChanges = {
      instanceType: { instanceTypeId: second?.id, instanceTypeName: second?.name, price: expect.any(Number) },
      remoteStorages: [kept.at('/mnt/kept')],
      nodePorts: [22, 8000, 8001, 8002],
    };
    expect(answer).toEqual({ instanceId: id, appliesAt: 'nextStart', pendingChanges });
    expect((await world.instance(id)).pendingChanges).toEqual(pendingChanges);
    expect((await world.instance(id)).instanceSpecInfo.instanceTypeInfo.instanceId).toBe(first?.id);
    expect((await used(world))?.nodePorts).toBe(before + 2);
    await expect(world.running.control.volumes.delete(world.caller, { id: kept.id }, null)).rejects.toMatchObject({
      code: 'in_use',
    });
    await becomesConsistent(world);

    await update(world, id, { instanceTypeId: first?.id, nodePorts: [8000], remoteStorages: [] });
    expect((await world.instance(id)).pendingChanges).toBe(null);
    expect((await used(world))?.nodePorts).toBe(before);
    await world.running.control.volumes.delete(world.caller, { id: kept.id }, null);
    const { generation } = await rowOf(world, id);
    await bring(world, id, 'restart');
    // Nothing was saved: the container is the same.
    expect(await rowOf(world, id)).toMatchObject({ archive: null, generation: generation + 1 });
    await becomesConsistent(world);
  });

  test.each(['start', 'restart'] as const)(
    'gets its changes with the %s, and keeps its root disk and node ports, also over archive',
    async (action) => {
      const world = await makeWorld(await open(), { machine: CPU_MACHINE });
      const [one, two] = [await volume(world, 'one'), await volume(world, 'two')];
      const id = await launched(world, { nodePorts: [8000, 8001], remoteStorages: [one.at('/mnt/data')] });
      const ports = new Map((await rowOf(world, id)).nodePorts.map(({ port, nodePort }) => [port, nodePort]));
      if (action === 'start') await bring(world, id, 'stop');
      // The same path has another volume.
      await update(world, id, {
        instanceTypeId: world.types[1]?.id,
        nodePorts: [8001, 9000],
        remoteStorages: [two.at('/mnt/data')],
      });
      await bring(world, id, action);
      expect(await hasFile(world, id)).toBe(true);
      const now = await rowOf(world, id);
      expect(now).toMatchObject({ pending: null, oldContainer: null, unfinished: [] });
      expect(now.spec.type.id).toBe(world.types[1]?.id);
      expect(now.priceMicros).toBe(world.types[1]?.pricesMicros.perHour);
      expect(now.nodePorts.map(({ port }) => port)).toEqual([22, 8001, 9000]);
      for (const { port, nodePort } of now.nodePorts) if (port !== 9000) expect(nodePort).toBe(ports.get(port));
      const spec = specOf(world, id);
      expect(spec).toMatchObject({ cpuMilli: (world.types[1]?.cpuCores ?? 0) * 1000, nodePorts: now.nodePorts });
      expect(spec?.mounts.map(({ target }) => target)).toContain('/mnt/data');
      await world.running.control.volumes.delete(world.caller, { id: one.id }, null);
      await becomesConsistent(world);
      const { timeline } = await world.running.control.instances.get(world.caller, { instanceId: id });
      expect(timeline.map(({ name }) => name)).toContain('Archive');

      await bring(world, id, 'archive');
      await bring(world, id, 'start');
      expect((await rowOf(world, id)).nodePorts).toEqual(now.nodePorts);
      expect(await hasFile(world, id)).toBe(true);
      await becomesConsistent(world);
    },
  );

  test('releases the node ports that a change removes from an archived instance', async () => {
    const world = await makeWorld(await open());
    const id = await launched(world, { nodePorts: [8000, 8001] });
    await bring(world, id, 'archive');
    await update(world, id, { nodePorts: [8001] });
    await bring(world, id, 'start');
    expect((await rowOf(world, id)).nodePorts.map(({ port }) => port)).toEqual([22, 8001]);
    await becomesConsistent(world);
  });

  test('keeps its container when only CPU and memory change, and its disks grow but never shrink', async () => {
    const world = await makeWorld(await open(), { machine: CPU_MACHINE });
    const [small, large] = world.types;
    const id = await launched(world);
    const sizesOf = async () => (await world.instance(id)).instanceRuntimeInfo.instanceDiskAmountInfo;
    const sizes = [await sizesOf()];
    for (const type of [large, small, large, small]) {
      await update(world, id, { instanceTypeId: type?.id });
      await bring(world, id, 'restart');
      expect(specOf(world, id)?.memoryMiB).toBe((type?.memoryGB ?? 0) * 1024);
      sizes.push(await sizesOf());
    }
    expect((await rowOf(world, id)).archive).toBe(null);
    expect(await hasFile(world, id)).toBe(true);
    expect(sizes[1]?.rootDiskAmountGi).toBeGreaterThanOrEqual(sizes[0]?.rootDiskAmountGi ?? 0);
    expect(sizes.slice(2)).toEqual([sizes[1], sizes[1], sizes[1]]);
    await becomesConsistent(world);
  });

  test('refuses a start or restart into a type that lacks capacity, and says how to keep the old type', async () => {
    const world = await makeWorld(await open(), { machine: CPU_MACHINE });
    const largest = world.types.toSorted((a, b) => b.cpuCores - a.cpuCores)[0];
    const id = await launched(world);
    await launched(world);
    await update(world, id, { instanceTypeId: largest?.id });
    const refusal = { code: 'no_capacity', message: expect.stringMatching(/or keep .*instanceTypeId/) };
    await expect(bring(world, id, 'restart')).rejects.toMatchObject(refusal);
    await bring(world, id, 'stop');
    await expect(bring(world, id, 'start')).rejects.toMatchObject(refusal);
    expect((await world.instance(id)).pendingChanges?.instanceType?.instanceTypeId).toBe(largest?.id);
    await update(world, id, { instanceTypeId: world.types[0]?.id });
    await bring(world, id, 'start');
    await becomesConsistent(world);
  });

  test('cannot be given what can never fit, is not its own, or breaks a mount', async () => {
    const store = await open();
    const world = await makeWorld(store, { machine: CPU_MACHINE });
    const other = await world.account('other');
    const [own, lost, far, foreign] = [
      await volume(world, 'own'),
      await volume(world, 'lost'),
      await volume(world, 'far'),
      await volume(world, 'foreign', other),
    ];
    const id = await launched(world);
    await store.write((tx) => tx.updateTable('volume').set({ status: 'Lost' }).where('id', '=', lost.id).execute());
    await store.write(async (tx) => {
      await tx
        .insertInto('region')
        .values(regionRow({ id: 'far' }))
        .execute();
      await tx.updateTable('volume').set({ regionId: 'far' }).where('id', '=', far.id).execute();
    });
    const refused = (input: UpdateInput, refusal: object) =>
      expect(update(world, id, input)).rejects.toMatchObject(refusal);
    await refused({}, { code: 'field_missing' });
    await refused({ instanceTypeId: 'none' }, { code: 'not_found' });
    await refused({ remoteStorages: [foreign.at('/mnt/a')] }, { code: 'not_found' });
    await refused(
      { remoteStorages: [lost.at('/mnt/a')] },
      {
        code: 'not_now',
        message: expect.stringMatching(/is Lost/),
      },
    );
    await refused(
      { remoteStorages: [far.at('/mnt/a')] },
      {
        message: expect.stringMatching(/is in region far/),
      },
    );
    await refused(
      { remoteStorages: [own.at('/mnt/a'), own.at('/mnt/a/b')] },
      {
        message: expect.stringMatching(/inside/),
      },
    );
    await refused(
      { remoteStorages: [{ ...own.at('/mnt/a'), type: 'highspeedstorage' }] },
      {
        code: 'field_value',
      },
    );
    await store.write((tx) => tx.updateTable('region').set({ cpuMilliTotal: 1_500 }).execute());
    const big = world.types.find(({ cpuCores }) => cpuCores >= 2);
    await refused(
      { instanceTypeId: big?.id },
      {
        code: 'no_capacity',
        message: expect.stringMatching(/never fits .*would fit/),
      },
    );
    await expect(
      world.running.control.instances.update(other, { instanceId: id, name: 'mine' }, null),
    ).rejects.toMatchObject({ code: 'not_found' });
    expect((await world.instance(id)).pendingChanges).toBe(null);
  });

  test('answers a repeated request with the same key once', async () => {
    const world = await makeWorld(await open());
    const id = await launched(world);
    const key = { key: 'k', route: '/instance/update', bodyHash: 'h' };
    const send = () => world.running.control.instances.update(world.caller, { instanceId: id, name: 'one' }, key);
    const first = await send();
    await update(world, id, { name: 'two' });
    expect(await send()).toEqual(first);
    expect((await world.instance(id)).instanceSpecInfo.name).toBe('two');
  });

  test('needs no saved root disk where the engine keeps none: another start has whatever changed', async () => {
    const world = await makeWorld(await open(), {
      machine: CPU_MACHINE,
      capabilities: { keepsRootDisk: false, saveImage: false },
    });
    const id = await launched(world, { nodePorts: [8000] });
    const kept = await volume(world, 'kept');
    await update(world, id, { nodePorts: [8001], remoteStorages: [kept.at('/mnt/kept')] });
    await bring(world, id, 'restart');
    expect((await rowOf(world, id)).oldContainer).toBeNull();
    expect(
      specOf(world, id)
        ?.nodePorts.map(({ port }) => port)
        .toSorted(),
    ).toEqual([22, 8001]);
    expect(specOf(world, id)?.mounts.map(({ target }) => target)).toContain('/mnt/kept');
    expect(await hasFile(world, id)).toBe(false);
    await becomesConsistent(world);
  });

  test('starts with its old container after a change that cannot be saved is taken back', async () => {
    const world = await makeWorld(await open(), {
      engine: { faults: ({ verb }) => (verb === 'saveImage' ? { mode: 'failBefore', kind: 'rejected' } : undefined) },
    });
    const id = await launched(world);
    await update(world, id, { nodePorts: [8000] });
    await world.running.control.instances.restart(world.caller, { instanceId: id }, null);
    const failed = await world.until(id, hasStatus('StartingFailed'));
    expect(failed.instanceRuntimeInfo.diagnosisReason).toBe('ArchiveFailed');
    await becomesConsistent(world);
    await update(world, id, { nodePorts: [] });
    await bring(world, id, 'start');
    expect(await hasFile(world, id)).toBe(true);
    expect(await rowOf(world, id)).toMatchObject({ archive: null, oldContainer: null });
    await becomesConsistent(world);
  });
});

const gpuWorld = async (store: Parameters<typeof makeWorld>[0], more: WorldOptions = {}) => {
  const world = await makeWorld(store, { machine: GPU_MACHINE, ...more });
  const type = world.types.find(({ gpuCount, isSpot }) => gpuCount > 0 && !isSpot);
  if (!type) throw new Error('the catalog has no GPU type');
  return { world, type };
};

onBothEngines('a start without GPUs', (open) => {
  test('holds no GPU, costs its cores at the price of CPU types, and ends with the next start', async () => {
    const { world, type } = await gpuWorld(await open());
    const id = await launched(world, { instanceTypeId: type.id });
    const full = await world.instance(id);
    expect(full.withoutGpu).toBe(false);
    expect(await used(world)).toMatchObject({ gpus: { A100: type.gpuCount } });
    await bring(world, id, 'stop');
    await bring(world, id, 'start', true);
    const without = await world.instance(id);
    const perCore = Math.min(
      ...world.types
        .filter(({ gpuCount, isSpot }) => gpuCount === 0 && !isSpot)
        .map(({ pricesMicros, cpuCores }) => Number(pricesMicros.perHour) / cpuCores),
    );
    expect(without.withoutGpu).toBe(true);
    expect(without.instanceSpecInfo.instanceBillingInfo.price).toBeCloseTo((perCore * type.cpuCores) / 1e6, 5);
    expect(await used(world)).toMatchObject({ gpus: {} });
    expect(specOf(world, id)?.gpus).toBe(0);
    expect(await hasFile(world, id)).toBe(true);
    expect((await eventsOf(world, 'instance.startWished')).at(-1)?.data).toContain('withoutGpu');
    await becomesConsistent(world);
    const { archive } = await rowOf(world, id);

    await bring(world, id, 'restart');
    expect((await world.instance(id)).withoutGpu).toBe(true);
    await bring(world, id, 'stop');
    await bring(world, id, 'start', true);
    // The container stayed the same.
    expect((await rowOf(world, id)).archive).toEqual(archive);
    await bring(world, id, 'stop');
    await bring(world, id, 'start');
    const back = await world.instance(id);
    expect(back.withoutGpu).toBe(false);
    expect(back.instanceSpecInfo.instanceBillingInfo).toEqual(full.instanceSpecInfo.instanceBillingInfo);
    expect(specOf(world, id)?.gpus).toBe(type.gpuCount);
    expect(await hasFile(world, id)).toBe(true);
    await becomesConsistent(world);
  });

  test('is refused without GPUs, for a subscription, and without a CPU type in the region', async () => {
    const { world, type } = await gpuWorld(await open());
    const cpu = world.types.find(({ gpuCount }) => gpuCount === 0);
    const refused = async (over: Parameters<World['launchInput']>[0], message: RegExp) => {
      const id = await launched(world, over);
      await bring(world, id, 'stop');
      await expect(bring(world, id, 'start', true)).rejects.toMatchObject({
        code: 'field_value',
        message: expect.stringMatching(message),
      });
    };
    await refused({ instanceTypeId: cpu?.id ?? '' }, /has no GPU/);
    await refused({ instanceTypeId: type.id, billing: { chargeMode: 'perDay', duration: 1 } }, /perDay/);
  });
});
