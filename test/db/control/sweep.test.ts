import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { makeProbe } from '../../../src/control/regions/capacity/probe.ts';
import { sweepRegion } from '../../../src/control/compute/orphans/sweep.ts';
import { deleteExpired } from '../../fixtures/delete-expired.ts';
import { instanceId, instanceIdOf } from '../../../src/domain/kernel/ids.ts';
import { makeSimulatedEngine } from '../../../src/engines/simulated/simulated.ts';
import { makeDue } from '../../../src/store/tables/instances.ts';
import type { Store } from '../../../src/store/store.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectConsistent, settled } from './consistency.ts';
import { eventually, hasStatus, makeWorld, textOf, type World } from '../../fixtures/control.ts';
import { containersOf, specOf, sweeping, tableOf } from './sweeping.ts';

/** A world whose engine gives no hints. */
async function deafWorld(store: Store): Promise<World> {
  const world = await makeWorld(store, { start: false });
  world.engine.misbehave(({ verb }) => (verb === 'watch' ? { mode: 'lost' } : undefined));
  await world.running.start();
  return world;
}

onBothEngines('the sweep', (open) => {
  test('finds a missing container and one that should not run, without hints', async () => {
    const world = await deafWorld(await open());
    const { deps } = sweeping(world);
    const { instances } = world.running.control;
    const gone = await instances.launch(world.caller, world.launchInput(), null);
    const stopped = await instances.launch(world.caller, world.launchInput(), null);
    for (const { instanceId: id } of [gone, stopped]) await world.until(id, hasStatus('Running'));
    await instances.stop(world.caller, stopped, null);
    await world.until(stopped.instanceId, hasStatus('Stopped'));
    await settled(world);
    await world.engine.host.forget(instanceId(gone.instanceId));
    const container = world.engine.host.find(await installationOf(world), instanceId(stopped.instanceId));
    if (!container) throw new Error('it is gone');
    await world.engine.host.start(container);
    expect(await settledNow(world)).toBe(true);
    await sweepRegion(deps, world.drivers);
    await world.until(gone.instanceId, ({ instanceRuntimeInfo: now }) => now.diagnosisReason === 'RootDiskLost');
    await eventually(() => container.state === 'exited');
    await settled(world);
    await expectConsistent(world);
  });

  test('removes a container of a released instance that came back, and counts its node ports once', async () => {
    const world = await makeWorld(await open());
    const { deps } = sweeping(world);
    const { instances } = world.running.control;
    const one = await instances.launch(world.caller, world.launchInput({ nodePorts: [8000] }), null);
    await world.until(one.instanceId, hasStatus('Running'));
    await instances.terminate(world.caller, one, null);
    await settled(world);
    world.engine.leaveHalfMade(specOf(instanceId(one.instanceId)));
    await sweepRegion(deps, world.drivers);
    await eventually(async () => !(await containersOf(world)).has(instanceId(one.instanceId)));
    await settled(world);
    await expectConsistent(world);
  });

  test('leaves orphans and foreign objects, and reports orphans once', async () => {
    const world = await makeWorld(await open());
    const { deps, warned } = sweeping(world);
    const { instanceId: id } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    await world.until(id, hasStatus('Running'));
    const unknown = instanceIdOf(randomUUID());
    const theirs = instanceIdOf(randomUUID());
    world.engine.leaveHalfMade(specOf(unknown));
    const neighbour = makeSimulatedEngine({ installation: 'another', host: world.engine.host });
    await neighbour.ensure(specOf(theirs), AbortSignal.timeout(120_000));
    await sweepRegion(deps, world.drivers);
    expect(warned).toEqual([]);
    for (let again = 0; again < 3; again++) await sweepRegion(deps, world.drivers);
    await settled(world);
    const orphans = [`${world.drivers.regionId}/instance/berth-${unknown}`];
    expect(warned).toEqual([
      {
        facts: { region: world.drivers.regionId, orphans },
        text: expect.stringContaining('orphaned resources on the engine'),
      },
    ]);
    expect(await tableOf(world)).toEqual(orphans);
    expect([...(await containersOf(world)).keys()].toSorted()).toEqual([unknown, instanceId(id)].toSorted());
    expect((await neighbour.observe([theirs], AbortSignal.timeout(120_000))).get(theirs)).toMatchObject({
      kind: 'present',
      running: true,
    });
  });

  test('changes nothing when all is in order or the engine does not answer', async () => {
    const world = await deafWorld(await open()); // a late hint would reconcile it
    const { deps } = sweeping(world);
    const { instanceId: id } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    await world.until(id, hasStatus('Running'));
    await settled(world);
    const before = await world.store.read.selectFrom('instance').selectAll().execute();
    await sweepRegion(deps, world.drivers);
    world.engine.host.goAway(60_000);
    await expect(sweepRegion(deps, world.drivers)).rejects.toMatchObject({ kind: 'unreachable' });
    await makeProbe(deps)();
    expect(world.drivers.health).toMatchObject({ answers: false, text: 'the simulated host does not answer' });
    expect(await world.running.control.health()).toMatchObject({
      ready: true,
      text: 'the simulated host does not answer',
    });
    expect(await world.store.read.selectFrom('instance').selectAll().execute()).toEqual(before);
  });

  test('does not judge a resting row by a sweep from before an outage', async () => {
    const world = await makeWorld(await open());
    const { instances } = world.running.control;
    const one = await instances.launch(world.caller, world.launchInput(), null);
    await world.until(one.instanceId, hasStatus('Running'));
    await instances.stop(world.caller, one, null);
    await world.until(one.instanceId, hasStatus('Stopped'));
    await settled(world);
    world.engine.host.goAway(60_000);
    await world.store.write((tx) => makeDue(tx, [one.instanceId], Date.now()));
    sweeping(world).deps.changes.publish({ subject: 'instance', isDue: true });
    await world.until(
      one.instanceId,
      ({ instanceRuntimeInfo }) => instanceRuntimeInfo.diagnosisReason === 'EngineUnreachable',
    );
    world.engine.host.comeBack();
    const after = await world.until(
      one.instanceId,
      ({ instanceRuntimeInfo }) => instanceRuntimeInfo.diagnosisReason === '',
    );
    expect(after.instanceRuntimeInfo).toMatchObject({ status: 'Stopped', phase: 'Stopped' });
  });
});

onBothEngines('released instances', (open) => {
  test('are listed for an hour, with exact totals, over several batches', async () => {
    const world = await makeWorld(await open(), { start: false });
    const { instances } = world.running.control;
    const ahead = { ms: 0 };
    const { deps } = sweeping(world, { now: () => Date.now() + ahead.ms });
    for (let count = 0; count < 3; count++)
      await instances.terminate(world.caller, await instances.launch(world.caller, world.launchInput(), null), null);
    const stays = await instances.launch(world.caller, world.launchInput(), null);
    const page = { currentPage: 1, pageSize: 500 };
    expect((await instances.list(world.caller, page)).totalEntries).toBe(4);
    ahead.ms = 3_590_000;
    await deleteExpired(deps);
    expect((await instances.list(world.caller, page)).totalEntries).toBe(4);
    const version = await world.running.control.versionOf(world.caller.accountId);
    ahead.ms = 3_601_000;
    await deleteExpired(deps);
    const { texts, totalEntries } = await instances.list(world.caller, page);
    expect(totalEntries).toBe(1);
    expect(texts.map((text) => JSON.parse(textOf(text)).instanceMetadata.instanceId)).toEqual([stays.instanceId]);
    expect(await world.running.control.versionOf(world.caller.accountId)).toBeGreaterThan(version);
    expect(await instances.list(world.caller, { currentPage: 2, pageSize: 500 })).toEqual({
      texts: [],
      totalEntries: 1,
    });

    const template = await world.store.read
      .selectFrom('instance')
      .selectAll()
      .where('id', '=', stays.instanceId)
      .executeTakeFirstOrThrow();
    const rows = Array.from({ length: 1_100 }, () => ({
      ...template,
      id: instanceIdOf(randomUUID()),
      desired: 'released',
      releasedAtMs: Date.now(),
      holdsCapacity: 0 as const,
      dueAtMs: null,
    }));
    await world.store.write(async (tx) => {
      for (let from = 0; from < rows.length; from += 100)
        await tx
          .insertInto('instance')
          .values(rows.slice(from, from + 100))
          .execute();
      await tx
        .updateTable('account')
        .set({ instanceCount: 1 + rows.length })
        .where('id', '=', world.caller.accountId)
        .execute();
    });
    await deleteExpired(deps);
    expect((await instances.list(world.caller, page)).totalEntries).toBe(1);
  });
});

const settledNow = async ({ store }: World): Promise<boolean> =>
  (await store.read.selectFrom('instance').select('id').where('dueAtMs', 'is not', null).execute()).length === 0;

async function installationOf({ store }: World): Promise<string> {
  return (
    await store.read.selectFrom('setting').select('value').where('name', '=', 'installation').executeTakeFirstOrThrow()
  ).value;
}
