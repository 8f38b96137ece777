import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { makeSimulatedEngine } from '../../../src/engines/simulated/simulated.ts';
import * as firstRun from '../../../src/main/first-run.ts';
import { regionsWithUsage } from '../../../src/store/tables/catalog.ts';
import { capacityOfSpec } from '../../../src/domain/regions/catalog.ts';
import { adjustCapacity } from '../../../src/store/tables/capacity.ts';
import { instanceFromRow } from '../../../src/store/tables/instances.ts';
import { onEngine, type Open } from '../../fixtures/store.ts';
import { expectConsistent, pictureOf, settled } from './consistency.ts';
import { eventually, hasStatus, makeWorld, type World, type WorldOptions } from '../../fixtures/control.ts';
import type { RunningControl } from '../../../src/main/control.ts';
import { realTime } from '../../../src/control/kernel/time.ts';

interface Pair {
  world: World;
  other: RunningControl;
  otherEngine: ReturnType<typeof makeSimulatedEngine>;
}

/** Two processes, each with its own store and engine object, on one database and host. */
async function twoProcesses(open: Open, options: WorldOptions = {}): Promise<Pair> {
  const store = await open();
  const world = await makeWorld(store, { start: false, ...options });
  const installation = await firstRun.installationId(store, '');
  const otherEngine = makeSimulatedEngine({ installation, host: world.engine.host });
  const drivers = { ...world.drivers, engine: otherEngine, health: { probe: null, answers: false, text: '' } };
  const other = world.startAnother({ store: await open.again(store), drivers });
  return { world, other, otherEngine };
}

/** The first probe of a process may make a row due again between a rest and its picture. */
async function pictureAtRest(world: World): Promise<Record<string, string[]>> {
  for (;;) {
    await settled(world);
    const picture = await pictureOf(world.store);
    if (picture['instance']?.every((row) => JSON.parse(row).dueAtMs === null)) return picture;
  }
}

onEngine('postgres', 'two control processes', (open) => {
  test('share the work, and never create one container twice', async () => {
    const { world, other, otherEngine } = await twoProcesses(open, {
      machine: { cpuCores: 64, memoryMiB: 512 * 1024, gpus: [], architecture: 'amd64' },
    });
    const inside = new Map<string, number>();
    const asked = { mine: 0, other: 0 };
    let most = 0;
    const counting = (engine: World['engine'], who: keyof typeof asked): void => {
      const { ensure } = engine;
      engine.ensure = async (spec, signal) => {
        asked[who] += 1;
        const now = (inside.get(spec.id) ?? 0) + 1;
        inside.set(spec.id, now);
        most = Math.max(most, now);
        try {
          return await ensure(spec, signal);
        } finally {
          inside.set(spec.id, (inside.get(spec.id) ?? 1) - 1);
        }
      };
    };
    counting(world.engine, 'mine');
    counting(otherEngine, 'other');
    await Promise.all([world.running.start(), other.start()]);
    const accounts = await Promise.all(['a', 'b', 'c'].map((name) => world.account(name)));
    const launches = Array.from({ length: 30 }, (_, index) => {
      const { instances } = (index % 2 === 0 ? world.running : other).control;
      return instances.launch(accounts[index % 3] ?? world.caller, world.launchInput(), null);
    });
    for (const { instanceId } of await Promise.all(launches)) await world.until(instanceId, hasStatus('Running'));
    await settled(world);
    await expectConsistent(world);
    expect(most).toBe(1);
    expect(asked.mine).toBeGreaterThan(0);
    expect(asked.other).toBeGreaterThan(0);
  });

  test('accept requests for one instance concurrently, and end in a consistent state', async () => {
    const { world, other } = await twoProcesses(open);
    await Promise.all([world.running.start(), other.start()]);
    const one = await world.running.control.instances.launch(
      world.caller,
      world.launchInput({ nodePorts: [8000, 9000] }),
      null,
    );
    const rounds = Array.from({ length: 60 }, async (_, index) => {
      await new Promise((resolve) => setTimeout(resolve, index * 5));
      const { instances } = (index % 2 === 0 ? world.running : other).control;
      await instances[(['stop', 'start', 'restart'] as const)[index % 3] ?? 'stop'](world.caller, one, null).catch(
        () => {},
      );
    });
    await Promise.all(rounds);
    await settled(world);
    await expectConsistent(world);
    await other.control.instances.terminate(world.caller, one, null);
    await settled(world);
    await expectConsistent(world);
    expect(await world.engine.listOwned(AbortSignal.timeout(120_000))).toEqual([]);
  });

  test("an action waits for a reconcile's write, then overwrites it", async () => {
    const { world } = await twoProcesses(open);
    const one = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    const { spec } = instanceFromRow(
      await world.store.read.selectFrom('instance').selectAll().executeTakeFirstOrThrow(),
    );
    const nodePorts = [{ port: 22, nodePort: 30_500 }];
    const [written, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    // Effects of a reconcile that observes the stop: released capacity, allotted ports in the row.
    const passing = world.store.write(async (tx) => {
      await tx
        .updateTable('instance')
        .set({ holdsCapacity: 0, everEnsured: 1, nodePorts: JSON.stringify(nodePorts) })
        .execute();
      await adjustCapacity(tx, spec.regionId, capacityOfSpec(spec), -1);
      written.resolve();
      await gate.promise;
    });
    await written.promise;
    const acting = world.running.control.instances.terminate(world.caller, one, null);
    const isWaiting = async (): Promise<boolean> => {
      const { rows } =
        await sql`select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`.execute(
          world.store.read,
        );
      return rows.length > 0;
    };
    await eventually(isWaiting);
    gate.resolve();
    await Promise.all([passing, acting]);
    const row = await world.store.read.selectFrom('instance').selectAll().executeTakeFirstOrThrow();
    expect(instanceFromRow(row)).toMatchObject({ desired: 'released', everEnsured: true, nodePorts });
    const [counted] = await regionsWithUsage(world.store.read);
    expect(counted?.used).toMatchObject({ cpuMilli: 0, memoryMiB: 0 });
  });

  test('takes over rows of a dead process after its lease, not before', async () => {
    const clock = { aheadMs: 0 };
    const { world, other } = await twoProcesses(open, { clock });
    const one = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    // Remains of a process that died during a reconcile.
    const lease = {
      leaseOwner: 'dead',
      leaseToken: 'dead',
      leaseUntilMs: Date.now() + 30_000,
      dueAtMs: Date.now() + 30_000,
      everEnsured: 1 as const,
    };
    await world.store.write((tx) => tx.updateTable('instance').set(lease).execute());
    await other.start();
    for (let tries = 0; tries < 10; tries++)
      await other.control.volumes.create(
        world.caller,
        { name: `wakes ${tries}`, sizeGB: 1, region: world.drivers.regionId, volumeType: 'filesystem' },
        null,
      );
    expect(await world.store.read.selectFrom('instance').select(['leaseOwner', 'status']).execute()).toEqual([
      { leaseOwner: 'dead', status: 'Initializing' },
    ]);
    clock.aheadMs = 31_000;
    await other.control.instances.launch(world.caller, world.launchInput(), null);
    await world.until(one.instanceId, hasStatus('Running'));
    await settled(world);
    await expectConsistent(world);
  });

  test('drops the late result of a process that lost its lease', async () => {
    const clock = { aheadMs: 0 };
    const { world, other, otherEngine } = await twoProcesses(open, { clock, limits: { callDeadlineMs: 5_000 } });
    let letGo = (): void => {};
    // No hint wakes the loops: this loop would see the new lease and stop, the other one at rest.
    for (const engine of [world.engine, otherEngine])
      engine.misbehave(({ verb }) => (verb === 'watch' ? { mode: 'lost' } : undefined));
    const { ensure } = world.engine;
    world.engine.ensure = async (spec, signal) => {
      await new Promise<void>((resolve) => (letGo = resolve));
      return ensure(spec, signal);
    };
    await world.running.start();
    const one = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    const inHand = async (): Promise<boolean> =>
      (await world.instance(one.instanceId)).instanceRuntimeInfo.phase === 'CreateContainer';
    await eventually(inHand);
    // Stalls like a sleeping machine: its lease ends, and the other process brings the row up.
    await world.store.write((tx) =>
      tx
        .updateTable('instance')
        .set({ leaseUntilMs: Date.now() - 1, dueAtMs: Date.now() - 1, leaseOwner: 'asleep' })
        .execute(),
    );
    await other.start();
    await world.until(one.instanceId, hasStatus('Running'));
    const before = await pictureAtRest(world);
    let writes = 0;
    const { write } = world.store;
    world.store.write = (work) => write(work).finally(() => (writes += 1));
    letGo();
    // Its result, then its lease: both are refused by their guards.
    await eventually(() => writes >= 2);
    expect(await pictureOf(world.store)).toEqual(before);
    await expectConsistent(world);
  });

  test('unlist released instances once in total', async () => {
    const clock = { aheadMs: 0 };
    const { world } = await twoProcesses(open, { clock });
    for (let count = 0; count < 5; count++) {
      const one = await world.running.control.instances.launch(
        world.caller,
        world.launchInput({ name: `n${count}` }),
        null,
      );
      await world.running.control.instances.terminate(world.caller, one, null);
    }
    const { deleteExpired } = await import('../../fixtures/delete-expired.ts');
    const stores = [world.store, await open.again(world.store), await open.again(world.store)];
    const deps = stores.map((store) => ({
      store,
      time: { ...realTime, now: () => Date.now() + 2 * 3_600_000 },
      releasedListedMs: 3_600_000,
    }));
    await Promise.all([...deps, ...deps].map((one) => deleteExpired(one)));
    const account = await world.store.read
      .selectFrom('account')
      .select('instanceCount')
      .where('id', '=', world.caller.accountId)
      .executeTakeFirstOrThrow();
    expect(account.instanceCount).toBe(0);
  });
});
