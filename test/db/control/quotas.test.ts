/** Quotas hold exactly under concurrent requests, and count what rows use. */
import { expect, test } from 'vitest';
import { hasStatus } from '../../fixtures/control.ts';
import { atLevel } from '../../fixtures/level.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectRefused } from './access-fixture.ts';
import { machineOf, makeSizedWorld, outcomesOf, type SizedWorld } from './capacity-fixture.ts';
import { expectConsistent, settled } from './consistency.ts';

const REQUESTS = atLevel({ short: 60, long: 1_000, soak: 1_000 });

const types = {
  'cpu.1': { cpuCores: 1, memoryGB: 2 },
  'cpu.2': { cpuCores: 2, memoryGB: 4 },
  'gpu.1': { cpuCores: 1, memoryGB: 2, gpuCount: 1 },
};

const worldOf = async (open: () => Promise<SizedWorld['store']>, machine = machineOf(4_000, 8_000, 8)) => {
  const world = await makeSizedWorld(await open(), machine, types);
  const { control } = world.running;
  const caller = await world.account('rich', 1_000_000);
  const admin = { ...caller, roles: ['admin'] };
  return {
    world,
    caller,
    control,
    limit: (limits: Record<string, number | null>, accountId: string | undefined = caller.accountId) =>
      control.quotas.set(admin, { accountId, limits }, null),
    launch: (type: keyof typeof types = 'cpu.1', waitMs: number | null = null) =>
      control.instances.launch(caller, world.of(type), null, waitMs),
    async used(): Promise<Record<string, number | null>> {
      const { quotas } = await control.quotas.get(caller.accountId);
      return Object.fromEntries(quotas.flatMap(({ name, used }) => (used === 0 ? [] : [[name, used]])));
    },
  };
};

onBothEngines('a quota', (open) => {
  for (const [name, limit, most] of [
    ['instances', 7, 7],
    ['cpus', 9, 9],
  ] as const)
    test(`lets exactly ${most} of many concurrent launches pass with ${limit} ${name}`, async () => {
      const { world, control, caller, limit: set, used } = await worldOf(open);
      await set({ [name]: limit });
      const { done, refused } = await outcomesOf(
        Array.from({ length: REQUESTS }, () => control.instances.launch(caller, world.of('cpu.1'), null)),
      );
      expect(done).toHaveLength(most);
      expect(new Set(refused.map(({ code }) => code))).toEqual(new Set(['over_quota']));
      expect(refused).toHaveLength(REQUESTS - most);
      expect(await used()).toMatchObject({ instances: most, cpus: most });
      for (const { instanceId } of done) await world.until(instanceId, hasStatus('Running'));
      await settled(world);
      await expectConsistent(world);
    });

  test('holds for volumes, GB and snapshots under concurrent requests', async () => {
    const { world, control, caller, limit, used } = await worldOf(open);
    await limit({ volumes: 3, diskGB: 50, snapshots: 1 });
    const region = world.drivers.regionId;
    const create = (name: string, sizeGB: number) =>
      control.volumes.create(caller, { name, sizeGB, region, volumeType: 'filesystem' }, null);
    const { done } = await outcomesOf(Array.from({ length: 30 }, (_, at) => create(`v${at}`, 10)));
    expect(done).toHaveLength(3);
    await expectRefused(
      create('more', 1),
      'over_quota',
      /"volumes" \(volumes\) is reached: the limit is 3, the account uses 3, and the request asks for 1 more; delete volumes, or ask an administrator/,
    );
    await settled(world);
    const { id } = JSON.parse(done[0]?.volumeText ?? '') as { id: string };
    await control.snapshots.create(caller, { volumeId: id, name: 'first' }, null);
    await settled(world);
    await expectRefused(
      control.snapshots.create(caller, { volumeId: id, name: 'second' }, null),
      'over_quota',
      /"diskGB"|"snapshots"/,
    );
    await expectRefused(
      control.volumes.expand(caller, { id, sizeGB: 30 }, null),
      'over_quota',
      /\(GB of disk\) is reached: the limit is 50, the account uses 40, and the request asks for 20 more/,
    );
    await settled(world);
    expect(await used()).toMatchObject({ volumes: 3, diskGB: 40, snapshots: 1 });
    await control.volumes.delete(caller, { id }, null);
    await create('again', 10);
    await settled(world);
    await expectConsistent(world);
  });
});

onBothEngines('the use of a quota', (open) => {
  test('shrinks by CPUs, memory and GPUs at a stop, by the root disk at an archive, to nothing at the end', async () => {
    const { world, control, caller, launch, used, limit } = await worldOf(open);
    const { instanceId } = await launch('gpu.1');
    await world.until(instanceId, hasStatus('Running'));
    await settled(world);
    const running = { instances: 1, cpus: 1, memoryGB: 2, gpus: 1, 'gpus/A100': 1, diskGB: 40, nodePorts: 1 };
    expect(await used()).toEqual({ ...running, terminals: null, eventStreams: null, requestsPerSecond: null });
    await control.instances.stop(caller, { instanceId }, null);
    await world.until(instanceId, hasStatus('Stopped'));
    await settled(world);
    expect(await used()).toMatchObject({ instances: 1, diskGB: 40 });
    for (const name of ['cpus', 'memoryGB', 'gpus', 'gpus/A100']) expect((await used())[name]).toBeUndefined();
    await limit({ 'gpus/A100': 0 });
    await expectRefused(
      control.instances.start(caller, { instanceId }, null),
      'over_quota',
      /GPUs of the type A100\) is reached: the limit is 0/,
    );
    await limit({ 'gpus/A100': null });
    await control.instances.archive(caller, { instanceId }, null);
    await world.until(instanceId, hasStatus('Archived'));
    await settled(world);
    expect(await used()).toMatchObject({ instances: 1, diskGB: 20 });
    await control.instances.terminate(caller, { instanceId }, null);
    expect((await used()).instances).toBeUndefined();
    await settled(world);
    await expectConsistent(world);
  });

  test('has a part of a card as its share of one', async () => {
    const { world, launch, limit, used } = await worldOf(open, machineOf(8, 16, 7));
    const devices = Array.from({ length: 7 }, (_, nth) => ({
      kind: 'gpu',
      id: String(nth),
      name: 'A100',
      share: 1 / 7,
    }));
    Object.assign(world.drivers.health.probe ?? {}, { devices });
    await limit({ gpus: 1 });
    for (let count = 0; count < 7; count += 1) await launch('gpu.1');
    expect(await used()).toMatchObject({ gpus: 0.994, 'gpus/A100': 7 });
    await settled(world);
    await expectConsistent(world);
  });

  test('includes a launch that waits for capacity', async () => {
    const { world, launch, limit, used } = await worldOf(open, machineOf(1, 2));
    await limit({ cpus: 2 });
    const { instanceId } = await launch();
    await world.until(instanceId, hasStatus('Running'));
    await launch('cpu.1', 60_000);
    expect(await used()).toMatchObject({ instances: 2, cpus: 2, queuedInstances: 1 });
    await expectRefused(launch('cpu.1', 60_000), 'over_quota', /"cpus"/);
    await limit({ cpus: 100, queuedInstances: 1 });
    await expectRefused(
      launch('cpu.1', 60_000),
      'over_quota',
      /in the capacity queue of a region\) .* the account uses 1/,
    );
    await expectConsistent(world);
  });

  test('includes operations under way, and refuses no stop', async () => {
    const { world, control, caller, launch, limit } = await worldOf(open);
    const { instanceId } = await launch();
    await world.until(instanceId, hasStatus('Running'));
    await settled(world);
    await limit({ operations: 0 });
    await expectRefused(launch(), 'over_quota', /"operations" \(operations under way\) is reached: the limit is 0/);
    await expectRefused(control.instances.restart(caller, { instanceId }, null), 'over_quota', /"operations"/);
    await control.instances.stop(caller, { instanceId }, null);
    await world.until(instanceId, hasStatus('Stopped'));
    await settled(world);
    await limit({ operations: 1 });
    await launch();
    await settled(world);
    await expectConsistent(world);
  });

  test('ends nothing above a lowered limit, and refuses more; the installation limits those without one', async () => {
    const { world, caller, control, launch, limit } = await worldOf(open);
    await launch();
    await launch();
    await control.quotas.set({ ...caller, roles: ['admin'] }, { limits: { instances: 1 } }, null);
    await expectRefused(launch(), 'over_quota', /limit is 1, the account uses 2/);
    await limit({ instances: 3 });
    await launch();
    await limit({ instances: null });
    await expectRefused(launch(), 'over_quota', /limit is 1, the account uses 3/);
    await control.quotas.set({ ...caller, roles: ['admin'] }, { limits: { instances: null } }, null);
    await launch();
    await settled(world);
    await expectConsistent(world);
    await expectRefused(
      limit({ instances: 1 }, 'nobody'),
      'not_found',
      /account "nobody" not found; administrators find/,
    );
  });
});
