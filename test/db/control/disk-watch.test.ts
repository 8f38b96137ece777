/** Root disks that fill the host: which instances stop, for which reason, and which go on. */
import { expect, test } from 'vitest';
import { diagnoses } from '../../../src/domain/compute/instance-states.ts';
import type { PublicInstance } from '../../../src/domain/compute/public-instance.ts';
import { eventually, hasStatus, makeWorld, type World } from '../../fixtures/control.ts';
import { onEngine } from '../../fixtures/store.ts';
import { expectConsistent, settled } from './consistency.ts';

const GB = 1024 ** 3;
const HURRY = 20;

async function running(world: World): Promise<string> {
  const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
  await world.until(instanceId, hasStatus('Running'));
  return instanceId;
}

/** Waits until the watch has read the file system twice more. */
async function watched(world: World): Promise<void> {
  const runs = async (): Promise<number> =>
    (await world.running.control.tasks.list()).find(({ name }) => name === 'watch disks')?.runs ?? 0;
  const before = await runs();
  await eventually(async () => (await runs()) >= before + 2);
}

const stopOf = async ({ store }: World, id: string): Promise<Record<string, unknown> | undefined> => {
  const rows = await store.read
    .selectFrom('event')
    .select('data')
    .where('subjectId', '=', id)
    .where('kind', '=', 'instance.stopWished')
    .execute();
  return rows.map(({ data }): Record<string, unknown> => JSON.parse(data)).at(-1);
};

onEngine('sqlite', 'the watch of disks', (open) => {
  test('stops an instance whose root disk grew past its size, says why, and lets it start again to delete', async () => {
    const world = await makeWorld(await open(), { hurry: HURRY });
    world.engine.host.rootDisksBytes = 1_000 * GB;
    const [grower, neighbor] = [await running(world), await running(world)];
    await watched(world);
    const { rootDiskBytes } = world.engine.host;
    rootDiskBytes.set(grower, 21 * GB);
    rootDiskBytes.set(neighbor, 10 * GB);
    await watched(world);
    expect((await world.instance(grower)).instanceRuntimeInfo.status, 'within the tolerance').toBe('Running');

    rootDiskBytes.set(grower, 23 * GB);
    const isCounted = ({ instanceRuntimeInfo: { status, instanceDiskUsageInfo: usage } }: PublicInstance): boolean =>
      status === 'Stopped' && usage.rootDiskUsedGi === 23;
    const { instanceRuntimeInfo: now } = await world.until(grower, isCounted);
    expect(now).toMatchObject({
      diagnosisReason: 'RootDiskOverSize',
      diagnosisMessage: diagnoses.RootDiskOverSize,
    });
    expect(await stopOf(world, grower)).toMatchObject({
      cause: 'RootDiskOverSize',
      rootDiskGB: 23,
      rootDiskSizeGB: 20,
    });
    expect((await world.instance(neighbor)).instanceRuntimeInfo.status).toBe('Running');

    await world.running.control.instances.start(world.caller, { instanceId: grower }, null);
    await world.until(grower, hasStatus('Running'));
    rootDiskBytes.set(neighbor, 12 * GB);
    await watched(world);
    expect((await world.instance(grower)).instanceRuntimeInfo.status).toBe('Running');
    rootDiskBytes.set(grower, 24 * GB);
    await world.until(grower, hasStatus('Stopped'));
    await settled(world);
    await expectConsistent(world);
  });

  test('stops the largest grower when the host runs short of space, and nobody else', async () => {
    const world = await makeWorld(await open(), { hurry: HURRY });
    world.engine.host.rootDisksBytes = 40 * GB;
    const [grower, other, idle] = [await running(world), await running(world), await running(world)];
    await watched(world);
    const { rootDiskBytes } = world.engine.host;
    rootDiskBytes.set(other, 2 * GB);
    await watched(world);
    rootDiskBytes.set(grower, 18 * GB);
    const { instanceRuntimeInfo: now } = await world.until(grower, hasStatus('Stopped'));
    expect(now).toMatchObject({
      diagnosisReason: 'HostNearlyFull',
      diagnosisMessage: diagnoses.HostNearlyFull,
    });
    await watched(world);
    for (const id of [other, idle]) expect((await world.instance(id)).instanceRuntimeInfo.status).toBe('Running');
  });

  test('leaves a root disk alone that the engine limits, while the host has space', async () => {
    const world = await makeWorld(await open(), { hurry: HURRY, capabilities: { rootDiskLimit: 'hard' } });
    world.engine.host.rootDisksBytes = 1_000 * GB;
    const id = await running(world);
    await watched(world);
    world.engine.host.rootDiskBytes.set(id, 25 * GB);
    await watched(world);
    expect((await world.instance(id)).instanceRuntimeInfo.status).toBe('Running');
  });

  test('warns once when root disks share a file system with the pool and the database', async () => {
    const warned: string[] = [];
    const log = { debug() {}, info() {}, error() {}, warn: (_: object, text: string) => void warned.push(text) };
    const world = await makeWorld(await open(), {
      hurry: HURRY,
      log,
      dataSpace: async () => ({ totalBytes: 1_000 * GB, freeBytes: 500 * GB, device: 1 }),
    });
    world.storage.space = async () => ({ totalBytes: 1_000 * GB, freeBytes: 500 * GB, device: 1 });
    world.engine.host.rootDisksBytes = 1_000 * GB;
    await watched(world);
    await watched(world);
    expect(warned.filter((text) => text.includes('root disks of instances share'))).toEqual([
      expect.stringContaining('with the pool default and the database:'),
    ]);
  });
});
