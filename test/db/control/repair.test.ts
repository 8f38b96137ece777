/** Start-up repair after a reboot of the host or engine: the desired state, and nothing twice. */
import { expect, test } from 'vitest';
import { instanceId, type InstanceId } from '../../../src/domain/kernel/ids.ts';
import { instanceFromRow, instanceRow } from '../../../src/store/tables/instances.ts';
import { atLevel } from '../../fixtures/level.ts';
import { onBothEngines, onEngine } from '../../fixtures/store.ts';
import { expectConsistent, settled } from './consistency.ts';
import { eventually, hasStatus, makeWorld, type World } from '../../fixtures/control.ts';
import { containersOf, specOf, sweeping, tableOf } from './sweeping.ts';

const HURRY = 20;
const REBOOTED = atLevel({ short: 100, long: 1_000 });
const roomy = { cpuCores: 64, memoryMiB: 2 ** 20, architecture: 'amd64', gpus: [] };
const soon = (): AbortSignal => AbortSignal.timeout(120_000);

interface Kinds {
  running: InstanceId[];
  stopped: InstanceId[];
  released: InstanceId[];
}

async function populate(world: World, count: number): Promise<Kinds> {
  const { instances } = world.running.control;
  const launch = async (): Promise<InstanceId> =>
    instanceId((await instances.launch(world.caller, world.launchInput({ nodePorts: [8000] }), null)).instanceId);
  const all = await Promise.all(Array.from({ length: 3 * count }, launch));
  await Promise.all(all.map((id) => world.until(id, hasStatus('Running'))));
  const [running, stopped, released] = [0, 1, 2].map((third) => all.slice(third * count, (third + 1) * count));
  for (const id of stopped ?? []) await instances.stop(world.caller, { instanceId: id }, null);
  for (const id of released ?? []) await instances.terminate(world.caller, { instanceId: id }, null);
  await settled(world);
  return { running: running ?? [], stopped: stopped ?? [], released: released ?? [] };
}

/** Every instance has its desired state and its ports, and none failed permanently. */
async function expectRepaired(world: World, { running, stopped }: Kinds): Promise<void> {
  await Promise.all(running.map((id) => world.until(id, hasStatus('Running'))));
  await settled(world);
  const there = await containersOf(world);
  for (const id of running) expect(there.get(id)).toBe(true);
  for (const id of stopped) {
    expect(there.get(id) ?? false).toBe(false);
    expect((await world.instance(id)).instanceRuntimeInfo).toMatchObject({ status: 'Stopped', diagnosisReason: '' });
  }
  expect(there.size).toBeLessThanOrEqual(running.length + stopped.length);
  // A sweep may have listed a disk just before it was destroyed; the next one forgets the disk.
  await eventually(async () => (await tableOf(world)).length === 0);
  await expectConsistent(world);
}

/** Starts an instance whose root disk is lost, with another one. */
async function startWithNewDisk(world: World, id: InstanceId): Promise<void> {
  await world.until(id, ({ instanceRuntimeInfo: now }) => now.diagnosisReason === 'RootDiskLost');
  await world.running.control.instances.start(world.caller, { instanceId: id, newRootDisk: true }, null);
  await world.until(id, hasStatus('Running'));
}

const startsOf = async (world: World, id: InstanceId): Promise<number> => {
  const row = await world.store.read
    .selectFrom('setting')
    .select('value')
    .where('name', '=', 'installation')
    .executeTakeFirst();
  return world.engine.host.find(row?.value ?? '', id)?.starts ?? 0;
};

onBothEngines('start-up repair', (open) => {
  test('starts running instances once after a reboot of the host, with an engine later than Berth; leaves stopped ones', async () => {
    const world = await makeWorld(await open(), { machine: roomy, hurry: HURRY });
    const kinds = await populate(world, 6);
    await world.running.stop();
    // A sweep may have listed a disk just before it was destroyed.
    const before = await tableOf(world);
    await world.engine.host.reboot();
    world.engine.host.goAway(3_600_000);
    await world.again();
    await eventually(() => !world.drivers.health.answers);
    const [first] = kinds.running;
    if (first === undefined) throw new Error('nothing runs');
    // No conclusion from silence: the last observation was Running.
    expect((await world.instance(first)).instanceRuntimeInfo).toMatchObject({ status: 'Running' });
    expect(before).toEqual(expect.arrayContaining(await tableOf(world)));
    world.engine.host.comeBack();
    await eventually(async () => (await startsOf(world, first)) === 2);
    await expectRepaired(world, kinds);
    for (const id of kinds.running) expect(await startsOf(world, id)).toBe(2);
    for (const id of kinds.stopped) expect(await startsOf(world, id)).toBe(1);
  });

  test('finds a restarted engine by the next probe', async () => {
    const world = await makeWorld(await open(), { machine: roomy });
    const kinds = await populate(world, 4);
    const { deps } = sweeping(world);
    // No hint reports what ends while the engine is away.
    world.engine.misbehave(({ verb }) => (verb === 'watch' ? { mode: 'lost' } : undefined));
    world.engine.host.goAway(3_600_000);
    const { makeProbe } = await import('../../../src/control/regions/capacity/probe.ts');
    const probe = makeProbe(deps);
    await probe();
    expect(world.drivers.health.answers).toBe(false);
    await world.engine.host.reboot();
    world.engine.host.comeBack();
    await probe();
    const [first] = kinds.running;
    await eventually(async () => first !== undefined && (await startsOf(world, first)) === 2);
    await expectRepaired(world, kinds);
  });

  test('removes released containers, names lost ones and stops stopped ones after the engine was restored from a backup', async () => {
    const world = await makeWorld(await open(), { machine: roomy, hurry: HURRY });
    const kinds = await populate(world, 4);
    world.engine.host.goAway(3_600_000);
    await eventually(() => !world.drivers.health.answers);
    const portsOf = async (id: InstanceId) => {
      const row = await instanceRow(world.store.read, id);
      if (!row) throw new Error(`${id} has no row`);
      return instanceFromRow(row).nodePorts;
    };
    const [lost, alsoLost] = kinds.running;
    const [back, alsoBack] = kinds.released;
    const [woken] = kinds.stopped;
    if (!lost || !alsoLost || !back || !alsoBack || !woken) throw new Error('too few');
    const before = await Promise.all(kinds.running.map(portsOf));
    for (const id of [lost, alsoLost]) await world.engine.host.forget(id);
    world.engine.leaveHalfMade(specOf(back));
    world.engine.leaveHalfMade(specOf(alsoBack));
    const row = await world.store.read
      .selectFrom('setting')
      .select('value')
      .where('name', '=', 'installation')
      .executeTakeFirst();
    for (const id of [woken, alsoBack]) {
      const container = world.engine.host.find(row?.value ?? '', id);
      if (!container) throw new Error(`${id} is not there`);
      await world.engine.host.start(container);
    }
    world.engine.host.comeBack();
    await eventually(async () => {
      const there = await containersOf(world);
      const gone = !there.has(back) && !there.has(alsoBack) && there.get(woken) === false;
      return gone && !there.has(lost) && !there.has(alsoLost);
    });
    for (const id of [lost, alsoLost]) await startWithNewDisk(world, id);
    await expectRepaired(world, kinds);
    expect(await Promise.all(kinds.running.map(portsOf))).toEqual(before);
  });

  test('names every instance after the engine lost everything, images too; all stay startable', async () => {
    const world = await makeWorld(await open(), { machine: roomy, hurry: HURRY });
    const kinds = await populate(world, 4);
    await world.running.stop();
    await world.engine.host.forgetAll();
    await world.again();
    for (const id of [...kinds.stopped, ...kinds.running])
      await world.until(id, ({ instanceRuntimeInfo: now }) => now.diagnosisReason === 'RootDiskLost');
    for (const id of kinds.running) await startWithNewDisk(world, id);
    const [stopped] = kinds.stopped;
    if (!stopped) throw new Error('too few');
    await startWithNewDisk(world, stopped);
    await settled(world);
    await expectConsistent(world);
    expect(await world.engine.listOwned(soon())).toHaveLength(4 + 1 + 1);
  });
});

onEngine('sqlite', 'start-up repair', (open) => {
  test(`bounds concurrent starts after a reboot of ${REBOOTED} instances`, async () => {
    const width = 8;
    const world = await makeWorld(await open(), {
      machine: { ...roomy, cpuCores: 4_096, memoryMiB: 2 ** 22 },
      engineWidth: width,
      engine: { times: { create: 0, start: 1, pull: 0, ready: 0 } },
      nodePorts: { first: 20_000, last: 32_000 },
      // An aborted call is repeated. All instances of an account queue for its shared disk.
      limits: { callDeadlineMs: 240_000, storageDeadlineMs: 240_000 },
    });
    const { instances } = world.running.control;
    const caller = await world.account('rich', 1_000_000);
    const ids = await Promise.all(
      Array.from({ length: REBOOTED }, async () =>
        instanceId((await instances.launch(caller, world.launchInput(), null)).instanceId),
      ),
    );
    await eventually(async () => {
      const there = await containersOf(world);
      return ids.every((id) => there.get(id) === true);
    });
    await settled(world);
    await world.running.stop();
    await world.engine.host.reboot();
    const asked = { now: 0, most: 0, all: 0 };
    // On a loaded machine a start would be over before the next one begins.
    const two = Promise.withResolvers<void>();
    world.drivers.engine = {
      ...world.engine,
      async ensure(spec, signal) {
        asked.all += 1;
        asked.now += 1;
        asked.most = Math.max(asked.most, asked.now);
        if (asked.now > 1) two.resolve();
        try {
          await two.promise;
          return await world.engine.ensure(spec, signal);
        } finally {
          asked.now -= 1;
        }
      },
    };
    world.drivers.health = { ...world.drivers.health, answers: false };
    await world.again();
    await eventually(async () => {
      const there = await containersOf(world);
      return ids.every((id) => there.get(id) === true);
    });
    await settled(world);
    expect(asked.most).toBeLessThanOrEqual(width);
    expect(asked.most).toBeGreaterThan(1);
    expect(asked.all).toBe(REBOOTED);
    for (const id of ids) expect(await startsOf(world, id)).toBe(2);
    await expectConsistent(world);
  });
});
