import { expect, test } from 'vitest';
import { handleOrphans } from '../../../src/control/compute/orphans/handle-orphans.ts';
import { idlePolicy } from '../../../src/domain/compute/idle.ts';
import { regionsWithUsage } from '../../../src/store/tables/catalog.ts';
import { instanceFromRow } from '../../../src/store/tables/instances.ts';
import type { Store } from '../../../src/store/store.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { notebookTokens } from '../../fixtures/test-seal.ts';
import { expectConsistent, settled } from './consistency.ts';
import { eventually, hasStatus, makeWorld } from '../../fixtures/control.ts';
import { adoptAs, containersOf, handle, knownOrphan, listOf, orphanIdOf, sweeping, tableOf } from './sweeping.ts';

const soon = (): AbortSignal => AbortSignal.timeout(120_000);

onBothEngines('adopting an orphan', (open) => {
  for (const runs of [true, false]) {
    test(`makes a ${runs ? 'running' : 'stopped'} container an instance with the container's ports`, async () => {
      const world = await makeWorld(await open());
      const { instances } = world.running.control;
      const ports = [
        { port: 22, nodePort: 30_100 },
        { port: 8000, nodePort: 30_101 },
      ];
      const files = [{ name: 'notebook-token', content: `${'t'.repeat(43)}\n`, mode: 0o600 }];
      const id = await knownOrphan(world, { nodePorts: ports, files, generation: 4 });
      if (!runs) await world.engine.halt(id, 100, soon());
      const answer = await handle(world, id, { ...adoptAs(world), name: 'found again' });
      expect(answer).toEqual({ strayId: orphanIdOf(world, id), instanceId: id });
      const [adopted] = await Promise.all([world.until(id, hasStatus(runs ? 'Running' : 'Stopped')), settled(world)]);
      expect(adopted.instanceSpecInfo).toMatchObject({
        name: 'found again',
        imageInfo: { name: 'test image' },
        instanceBillingInfo: { chargeMode: 'perHour', price: 0.02 },
      });
      expect(await listOf(world)).toEqual([]);
      await expectConsistent(world);
      const counted = (await regionsWithUsage(world.store.read))[0]?.used;
      expect(counted).toMatchObject({ cpuMilli: runs ? 1_000 : 0, nodePorts: 2 });
      const row = await world.store.read
        .selectFrom('instance')
        .selectAll()
        .where('id', '=', id)
        .executeTakeFirstOrThrow();
      expect(JSON.parse(row.nodePorts)).toEqual(ports);
      if (runs) expect(notebookTokens.open(row)).toBe('t'.repeat(43));
      const { sweep } = sweeping(world, { policy: { action: 'delete', retentionMs: 0 } });
      for (let again = 0; again < 3; again++) await sweep();
      expect([...(await containersOf(world)).keys()]).toEqual([id]);

      const one = { instanceId: id };
      if (runs) {
        await instances.stop(world.caller, one, null);
        await world.until(id, hasStatus('Stopped'));
      }
      await instances.start(world.caller, one, null);
      const again = await world.until(id, hasStatus('Running'));
      expect(again.instanceSpecInfo.nodePorts.map(({ nodePort }) => nodePort)).toEqual([30_100, 30_101]);
      await instances.archive(world.caller, one, null);
      await world.until(id, hasStatus('Archived'));
      await instances.start(world.caller, one, null);
      await world.until(id, hasStatus('Running'));
      await settled(world);
      await expectConsistent(world);
      await instances.terminate(world.caller, one, null);
      await settled(world);
      expect(await world.engine.listOwned(soon())).toEqual([]);
      await expectConsistent(world);
    });
  }

  test('keeps a saved image from being deleted when the adopted container was made from it', async () => {
    const world = await makeWorld(await open());
    const { images, instances } = world.running.control;
    const from = await instances.launch(world.caller, world.launchInput(), null);
    await world.until(from.instanceId, hasStatus('Running'));
    const { imageId } = await images.save(world.caller, { instanceId: from.instanceId, name: 'mine' }, null);
    const rowOf = () =>
      world.store.read.selectFrom('image').selectAll().where('id', '=', imageId).executeTakeFirstOrThrow();
    await eventually(async () => (await rowOf()).state === 'Ready');
    const id = await knownOrphan(world, { imageRef: (await rowOf()).ref });
    await handle(world, id, adoptAs(world));
    const adopted = await world.until(id, hasStatus('Running'));
    expect(adopted.instanceSpecInfo.imageInfo).toMatchObject({ name: 'mine' });
    await expect(images.delete(world.caller, { imageId }, null)).rejects.toMatchObject({
      code: 'in_use',
      message: expect.stringContaining(id),
    });
    await settled(world);
    await expectConsistent(world);
  });

  test("sets the operator's default stop policy", async () => {
    const HOUR_MS = 3_600_000;
    const idle = idlePolicy(HOUR_MS);
    const world = await makeWorld(await open(), { stopPolicyRules: { capRunMs: 8 * HOUR_MS, idle } });
    const id = await knownOrphan(world);
    await handle(world, id, adoptAs(world));
    const adopted = await world.until(id, hasStatus('Running'));
    const row = await world.store.read
      .selectFrom('instance')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    const { stopPolicy, observed } = instanceFromRow(row);
    expect(stopPolicy).toEqual({ stopAtMs: null, maxRunMs: 8 * HOUR_MS, idle, keepAliveUntilMs: 0 });
    expect(adopted.instanceRuntimeInfo.scheduledStopTimestamp).toBe(observed.runningSinceMs + 8 * HOUR_MS);
  });

  test('requires a named account when the one on the label is gone, and refuses another while it exists', async () => {
    const world = await makeWorld(await open());
    const ada = await world.account('ada');
    const mine = await knownOrphan(world);
    const nobodys = await knownOrphan(world, { ownerId: 'gone' as never });
    await expect(handle(world, mine, adoptAs(world, { username: 'ada' }))).rejects.toMatchObject({
      code: 'field_value',
      message: expect.stringContaining('belongs to admin and mounts disks of that account'),
    });
    const operator = { ...ada, roles: ['operator' as const] };
    const toOperator = adoptAs(world, { username: 'ada' });
    await expect(handle(world, nobodys, toOperator, operator)).rejects.toMatchObject({
      code: 'forbidden',
      message: expect.stringContaining('only an administrator'),
    });
    await expect(handle(world, nobodys, adoptAs(world))).rejects.toMatchObject({ code: 'field_missing' });
    await expect(handle(world, nobodys, adoptAs(world, { username: 'nobody' }))).rejects.toMatchObject({
      code: 'not_found',
    });
    await handle(world, nobodys, adoptAs(world, { username: 'ada' }));
    await world.until(nobodys, hasStatus('Running'));
    await settled(world);
    const { totalEntries } = await world.running.control.instances.list(ada, { currentPage: 1, pageSize: 10 });
    expect(totalEntries).toBe(1);
  });

  test('refuses with the reason and changes nothing', async () => {
    const world = await makeWorld(await open(), { nodePorts: { first: 30_000, last: 30_009 } });
    const { instanceId: other } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    await world.until(other, hasStatus('Running'));
    await settled(world);
    const taken = [{ port: 22, nodePort: 31_000 }];
    const id = await knownOrphan(world, { nodePorts: taken });
    await world.engine.halt(id, 100, soon());
    const { instanceTypeId: _, ...untyped } = adoptAs(world);
    const before = await tableOf(world);
    const refused = async (request: Parameters<typeof handle>[2], code: string): Promise<void> => {
      await expect(handle(world, id, request)).rejects.toMatchObject({ code });
      expect(await tableOf(world)).toEqual(before);
      expect(await world.store.read.selectFrom('instance').select('id').where('id', '=', id).execute()).toEqual([]);
    };
    await refused(untyped, 'field_missing');
    await refused({ ...untyped, instanceTypeId: 'none' }, 'not_found');
    await expect(handle(world, 'notebook-unknown', adoptAs(world))).rejects.toMatchObject({ code: 'not_found' });
    world.engine.host.goAway(60_000);
    await refused(adoptAs(world), 'unavailable');
    world.engine.host.comeBack();
    // The engine accepts two containers with one port while only one of them runs.
    await world.store.write((tx) =>
      tx
        .insertInto('nodePort')
        .values({ regionId: world.drivers.regionId, nodePort: 31_000, instanceId: other, port: 8000 })
        .execute(),
    );
    await refused(adoptAs(world), 'in_use');
    await world.store.write((tx) => tx.deleteFrom('nodePort').where('nodePort', '=', 31_000).execute());
    await world.store.write((tx) => tx.updateTable('region').set({ nodePortsUsed: 10 }).execute());
    await refused(adoptAs(world), 'no_capacity');
    await world.store.write((tx) => tx.updateTable('region').set({ nodePortsUsed: 1 }).execute());
    await world.engine.destroy(id, soon());
    await refused(adoptAs(world), 'not_found');
  });

  test('counts a running container, and refuses without capacity', async () => {
    const world = await makeWorld(await open(), {
      machine: { cpuCores: 1, memoryMiB: 3 * 1024, architecture: 'amd64', gpus: [] },
    });
    const { instanceId: first } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    await world.until(first, hasStatus('Running'));
    const id = await knownOrphan(world);
    await expect(handle(world, id, adoptAs(world))).rejects.toMatchObject({
      code: 'no_capacity',
      message: expect.stringMatching(/short of .*choose a smaller type/),
    });
    await settled(world);
    expect(await listOf(world)).toHaveLength(1);
  });

  test('accepts one of two concurrent adoptions, and names the winner to the other', async () => {
    const world = await makeWorld(await open());
    const id = await knownOrphan(world);
    const both = await Promise.allSettled([handle(world, id, adoptAs(world)), handle(world, id, adoptAs(world))]);
    expect(both.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    expect(both.find(({ status }) => status === 'rejected')).toMatchObject({
      reason: {
        code: 'not_now',
        message: expect.stringMatching(`^stray .* is already adopted, as instance ${id} of admin$`),
      },
    });
    await world.until(id, hasStatus('Running'));
    await settled(world);
    await expectConsistent(world);
  });

  test('races a deletion: the instance stays, or the adoption is refused', async () => {
    const world = await makeWorld(await open(), {
      machine: { cpuCores: 64, memoryMiB: 2 ** 18, architecture: 'amd64', gpus: [] },
    });
    const ended = { adopted: 0, deleted: 0 };
    for (let round = 0; round < 12; round++) {
      const id = await knownOrphan(world);
      const { sweep } = sweeping(world, { policy: { action: 'delete', retentionMs: 0 } });
      const late = async <T>(ms: number, fn: () => Promise<T>): Promise<T> => {
        await new Promise((resolve) => setTimeout(resolve, ms));
        return fn();
      };
      const [adoption] = await Promise.allSettled([
        late(round % 4, () => handle(world, id, adoptAs(world))),
        late((round + 1) % 3, sweep),
      ]);
      await settled(world);
      await sweep();
      const there = (await containersOf(world)).has(id);
      expect(there).toBe(adoption.status === 'fulfilled');
      if (there) ended.adopted += 1;
      else ended.deleted += 1;
      await expectConsistent(world);
    }
    expect(ended.adopted + ended.deleted).toBe(12);
  });

  test('stops a sweep that was about to delete the orphan', async () => {
    const world = await makeWorld(await open());
    const id = await knownOrphan(world);
    const { store } = world;
    const { deps } = sweeping(world, { policy: { action: 'delete', retentionMs: 0 } });
    let adopted = false;
    let discards = 0;
    world.engine.misbehave(({ verb }) => void (discards += verb === 'discard' ? 1 : 0));
    const slowToWrite: Store = {
      kind: store.kind,
      read: store.read,
      versionOf: (account) => store.versionOf(account),
      ping: () => store.ping(),
      stop: () => store.stop(),
      async write(work) {
        if (!adopted) await handle(world, id, adoptAs(world));
        adopted = true;
        return store.write(work);
      },
    };
    await handleOrphans({ ...deps, store: slowToWrite }, world.drivers);
    expect({ adopted, discards }).toEqual({ adopted: true, discards: 0 });
    await world.until(id, hasStatus('Running'));
    await settled(world);
    await expectConsistent(world);
  });

  test('is refused when a deletion is requested while the engine is observed', async () => {
    const world = await makeWorld(await open());
    const id = await knownOrphan(world);
    world.drivers.engine = {
      ...world.engine,
      async observe(ids, signal) {
        world.drivers.engine = world.engine;
        world.engine.misbehave(({ verb }) => (verb === 'discard' ? { mode: 'failBefore' } : undefined));
        await handle(world, id, { action: 'delete' });
        return world.engine.observe(ids, signal);
      },
    };
    await expect(handle(world, id, adoptAs(world))).rejects.toMatchObject({ code: 'not_now' });
    expect(await world.store.read.selectFrom('instance').select('id').execute()).toEqual([]);
  });

  test('is refused for an orphan being deleted', async () => {
    const world = await makeWorld(await open());
    const id = await knownOrphan(world);
    world.engine.misbehave(({ verb }) => (verb === 'discard' ? { mode: 'failBefore' } : undefined));
    await handle(world, id, { action: 'delete' });
    await expect(handle(world, id, adoptAs(world))).rejects.toMatchObject({ code: 'not_now' });
    world.engine.misbehave(undefined);
    await sweeping(world).sweep();
    expect([...(await containersOf(world)).keys()]).toEqual([]);
    await expect(handle(world, id, adoptAs(world))).rejects.toMatchObject({ code: 'not_found' });
  });
});
