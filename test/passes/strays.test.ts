import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { sweepRegion } from '../../src/control/passes/sweep.ts';
import { instanceId, type InstanceId } from '../../src/domain/ids.ts';
import { msUntilDeleted, strayStep, watchedOn, type StrayPolicy } from '../../src/domain/stray.ts';
import type { Owned } from '../../src/engines/contract.ts';
import { countedRegions } from '../../src/store/catalog.ts';
import { onBothEngines } from '../store/harness.ts';
import { expectConsistent, settled } from './consistency.ts';
import { eventually, hasStatus, makeWorld, type World } from './harness.ts';
import { containersOf, listOf, makeStray, specOf, sweeping, tableOf } from './sweeping.ts';

const reporting: StrayPolicy = { does: 'report', keptMs: 0 };
const soon = (): AbortSignal => AbortSignal.timeout(5_000);
const strayIdOf = ({ hands }: World, id: string): string => `${hands.regionId}/instance/berth-${id}`;

/** The engine also tells of these, and remembers what it was asked to discard. */
function alsoHolding(world: World, more: Owned[]): { discarded: string[] } {
  const discarded: string[] = [];
  world.hands.engine = {
    ...world.engine,
    listOwned: async (signal) => [...(await world.engine.listOwned(signal)), ...more],
    async discard({ engineName }) {
      discarded.push(engineName);
      more.splice(0, more.length, ...more.filter((one) => one.engineName !== engineName));
    },
  };
  return { discarded };
}

const owned = (kind: Owned['kind'], id: string, engineName: string): Owned => ({
  kind,
  id,
  ownerId: 'somebody',
  generation: 0,
  running: false,
  engineName,
  createdAtMs: 1_000,
  imageRef: null,
});

/** A stray that is known, and nothing has been done with it. */
async function knownStray(world: World, more: Parameters<typeof makeStray>[1] = {}): Promise<InstanceId> {
  const id = await makeStray(world, more);
  const { sweep } = sweeping(world, { policy: reporting });
  await sweep();
  await sweep();
  expect(await tableOf(world)).toContain(strayIdOf(world, id));
  return id;
}

const handle = (world: World, id: string, wish: { action: 'adopt' | 'stop' | 'delete'; [more: string]: string }) =>
  world.running.control.strays.handle(world.caller, { strayId: strayIdOf(world, id), ...wish });

const adoptAs = (world: World, over: Record<string, string> = {}) => ({
  action: 'adopt' as const,
  instanceTypeId: world.types[0]?.id ?? '',
  ...over,
});

describe('what the policy does', () => {
  const stray = { kind: 'instance', running: true, handling: 'policy', watchedMs: 50_000 } as const;
  const stop: StrayPolicy = { does: 'stop', keptMs: 100_000 };
  test.each([
    ['stops at once what runs', stray, stop, 'halt'],
    ['leaves what was seen only once', { ...stray, watchedMs: 0 }, { does: 'delete', keptMs: 0 }, 'leave'],
    ['leaves what stands still until it was watched long enough', { ...stray, running: false }, stop, 'leave'],
    ['deletes it then', { ...stray, watchedMs: 100_000 }, stop, 'discard'],
    [
      'keeps what its operator had stopped',
      { ...stray, handling: 'stop', running: false, watchedMs: 1e12 },
      stop,
      'leave',
    ],
    ['stops it again when it runs', { ...stray, handling: 'stop', watchedMs: 1e12 }, reporting, 'halt'],
    ['deletes what its operator wants deleted', { ...stray, handling: 'delete' }, reporting, 'discard'],
    ['touches nothing when it is to report', { ...stray, watchedMs: 1e12 }, reporting, 'leave'],
    ['deletes at once when it is to delete', stray, { does: 'delete', keptMs: 1e9 }, 'discard'],
    ['has nothing to stop in a network', { ...stray, kind: 'network' }, stop, 'leave'],
  ] as const)('%s', (_, one, policy, step) => {
    expect(strayStep(one, policy)).toBe(step);
  });

  test('counts only the time in which it was watched, however the clock jumps', () => {
    const day = 24 * 3_600_000;
    const at = (watchedMs: number) => ({ watchedMs, lastSeenAtMs: 1_000_000 });
    expect(watchedOn(at(0), 1_000_000 + 30 * day)).toBe(60_000);
    expect(watchedOn(at(500), 1_000_000 - day)).toBe(501);
    expect(watchedOn(at(500), 1_025_000)).toBe(25_500);
    expect(msUntilDeleted({ ...stray, watchedMs: 40_000 }, stop)).toBe(60_000);
    expect(msUntilDeleted(stray, reporting)).toBeNull();
  });
});

onBothEngines('strays', (open) => {
  test('are listed when they were seen twice, told to administrators once, and gone from the list with their container', async () => {
    const world = await makeWorld(await open());
    await world.account('somebody-else');
    const id = await makeStray(world);
    const { sweep, warned } = sweeping(world, { policy: reporting });
    await sweep();
    expect(await listOf(world)).toEqual([]);
    await sweep();
    const [listed, ...others] = await listOf(world);
    expect(others).toEqual([]);
    expect(listed).toMatchObject({
      strayId: strayIdOf(world, id),
      kind: 'instance',
      engineName: `berth-${id}`,
      subjectId: id,
      ownerId: world.caller.accountId,
      ownerName: 'admin',
      imageRef: 'berth.local/test:1',
      running: true,
      handling: 'policy',
      deletedInSeconds: 24 * 3_600,
      note: '',
    });
    for (let again = 0; again < 3; again++) await sweep();
    const events = await world.store.read.selectFrom('event').selectAll().where('kind', '=', 'stray.found').execute();
    expect(events.map(({ accountId, data }) => ({ accountId, data: JSON.parse(data) }))).toEqual([
      { accountId: world.caller.accountId, data: { count: 1, strayIds: [strayIdOf(world, id)] } },
    ]);
    expect(warned).toHaveLength(1);
    await world.engine.destroy(id, soon());
    await sweep();
    expect(await tableOf(world)).toEqual([]);
  });

  test('are never what a launch, an archive, a start or a terminate is about to finish', async () => {
    const world = await makeWorld(await open(), { engine: { times: { create: 15, start: 15, pull: 15 } } });
    // What is listed is told late, when the store has moved on.
    world.engine.misbehave(({ verb }) => (verb === 'listOwned' ? { mode: 'late', ms: 8 } : undefined));
    const { needs, warned } = sweeping(world);
    const seen = new Set<string>();
    const sweeps = { count: 0, over: false };
    const sweepAllTheTime = async (): Promise<void> => {
      while (!sweeps.over) {
        await sweepRegion(needs, world.hands);
        for (const id of await tableOf(world)) seen.add(id);
        sweeps.count += 1;
      }
    };
    const sweepingNow = sweepAllTheTime();
    const { instances } = world.running.control;
    const life = async (): Promise<void> => {
      const one = await instances.launch(world.caller, world.wish(), null);
      await world.until(one.instanceId, hasStatus('Running'));
      for (let again = 0; again < 2; again++) {
        await instances.archive(world.caller, one, null);
        await world.until(one.instanceId, hasStatus('Archived'));
        await instances.start(world.caller, one, null);
        await world.until(one.instanceId, hasStatus('Running'));
      }
      await instances.terminate(world.caller, one, null);
    };
    await Promise.all([life(), life(), life()]);
    await settled(world);
    sweeps.over = true;
    await sweepingNow;
    expect(sweeps.count).toBeGreaterThan(20);
    expect([...seen]).toEqual([]);
    expect(warned).toEqual([]);
    expect(await world.engine.listOwned(soon())).toEqual([]);
    await expectConsistent(world);
  });

  test('are not archives and saved images that somebody has; an image that nobody has is one, and so is a second container of an instance', async () => {
    const world = await makeWorld(await open());
    const { instances, images } = world.running.control;
    const kept = await instances.launch(world.caller, world.wish(), null);
    const copied = await instances.launch(world.caller, world.wish(), null);
    for (const { instanceId: id } of [kept, copied]) await world.until(id, hasStatus('Running'));
    await instances.archive(world.caller, kept, null);
    await world.until(kept.instanceId, hasStatus('Archived'));
    await images.save(world.caller, { instanceId: copied.instanceId, name: 'copy' }, null);
    await eventually(
      async () => (await world.engine.listOwned(soon())).filter(({ kind }) => kind === 'image').length === 2,
    );
    await world.engine.saveImage(instanceId(copied.instanceId), 'berth.local/archive/lost:7', soon());
    const second = owned('instance', copied.instanceId, 'somebody-renamed-it');
    const network = owned('network', 'nobody', 'berth-network-of-nobody');
    const { discarded } = alsoHolding(world, [
      { ...second, running: true },
      network,
      owned('network', world.caller.accountId, 'berth-network-of-admin'),
    ]);
    const { sweep } = sweeping(world);
    for (let again = 0; again < 3; again++) await sweep();
    const listed = await listOf(world);
    expect(listed.map(({ kind, engineName }) => `${kind} ${engineName}`).toSorted()).toEqual([
      'image berth.local/archive/lost:7',
      'instance somebody-renamed-it',
      'network berth-network-of-nobody',
    ]);
    // A halt goes by the id, and would stop the instance itself.
    expect((await containersOf(world)).get(instanceId(copied.instanceId))).toBe(true);
    expect(listed.find(({ kind }) => kind === 'instance')?.note).toMatch(/can not be stopped; it can be deleted/);
    for (const { strayId, kind } of listed) {
      const adopting = world.running.control.strays.handle(world.caller, { strayId, ...adoptAs(world) });
      await expect(adopting).rejects.toMatchObject({ code: 'unsupported' });
      if (kind === 'instance') continue;
      const stopping = world.running.control.strays.handle(world.caller, { strayId, action: 'stop' });
      await expect(stopping).rejects.toMatchObject({ code: 'unsupported' });
    }
    expect(discarded).toEqual([]);
    await sweeping(world, { policy: { does: 'delete', keptMs: 0 } }).sweep();
    expect(discarded.toSorted()).toEqual([
      'berth-network-of-nobody',
      'berth.local/archive/lost:7',
      'somebody-renamed-it',
    ]);
  });

  test('are stopped at once and deleted when they were watched long enough, not when the clock jumps', async () => {
    const world = await makeWorld(await open());
    const ahead = { ms: 0 };
    const now = (): number => Date.now() + ahead.ms;
    const id = await makeStray(world);
    const { sweep } = sweeping(world, { now, policy: { does: 'stop', keptMs: 150_000 } });
    await sweep();
    expect((await containersOf(world)).get(id)).toBe(true);
    await sweep();
    expect((await containersOf(world)).get(id)).toBe(false);
    expect(await listOf(world)).toMatchObject([{ note: 'was stopped' }]);
    ahead.ms += 30 * 24 * 3_600_000;
    await sweep();
    expect(await listOf(world)).toMatchObject([{ running: false, deletedInSeconds: 24 * 3_600 - 60 }]);
    ahead.ms += 60_000;
    await sweep();
    expect([...(await containersOf(world)).keys()]).toEqual([id]);
    ahead.ms += 60_000;
    await sweep();
    expect([...(await containersOf(world)).keys()]).toEqual([]);
    expect(await tableOf(world)).toEqual([]);
  });

  test('are left as they are when nothing can be told of them, or nothing be done', async () => {
    const world = await makeWorld(await open());
    const id = await makeStray(world);
    const { sweep } = sweeping(world);
    await sweep();
    world.engine.host.goAway(60_000);
    await expect(sweep()).rejects.toMatchObject({ kind: 'unreachable' });
    expect(await tableOf(world)).toEqual([strayIdOf(world, id)]);
    expect(await listOf(world)).toEqual([]);
    world.engine.host.comeBack();
    world.engine.misbehave(({ verb }) => (verb === 'halt' ? { mode: 'failBefore' } : undefined));
    await sweep();
    expect((await containersOf(world)).get(id)).toBe(true);
    expect(await listOf(world)).toMatchObject([{ running: true, note: expect.stringMatching(/./) }]);
    world.engine.misbehave(undefined);
    await sweep();
    expect((await containersOf(world)).get(id)).toBe(false);
  });

  test('a container made anew under the name of a stray is watched from the beginning', async () => {
    const world = await makeWorld(await open());
    const id = await knownStray(world);
    await world.engine.destroy(id, soon());
    await new Promise((resolve) => setTimeout(resolve, 2));
    await world.engine.ensure(specOf(id), soon());
    const { sweep } = sweeping(world, { policy: { does: 'delete', keptMs: 0 } });
    await sweep();
    expect((await containersOf(world)).get(id)).toBe(true);
    expect(await listOf(world)).toEqual([]);
  });

  test('one that an operator stops is kept, one that is to be deleted goes, by the sweep that is asked for', async () => {
    const world = await makeWorld(await open());
    const stopped = await knownStray(world);
    const deleted = await knownStray(world);
    await handle(world, stopped, { action: 'stop' });
    await handle(world, deleted, { action: 'delete' });
    await eventually(async () => {
      const there = await containersOf(world);
      return there.get(stopped) === false && !there.has(deleted);
    });
    await sweeping(world, { policy: { does: 'delete', keptMs: 0 } }).sweep();
    expect([...(await containersOf(world)).keys()]).toEqual([stopped]);
    expect(await listOf(world)).toMatchObject([{ subjectId: stopped, handling: 'stop', deletedInSeconds: null }]);
  });
});

onBothEngines('adopting a stray', (open) => {
  for (const runs of [true, false]) {
    test(`that ${runs ? 'runs' : 'stands still'} makes it an instance as any other, with the ports it has`, async () => {
      const world = await makeWorld(await open());
      const { instances } = world.running.control;
      const ports = [
        { port: 22, nodePort: 30_100 },
        { port: 8000, nodePort: 30_101 },
      ];
      const files = [{ name: 'notebook-token', content: `${'t'.repeat(43)}\n`, mode: 0o600 }];
      const id = await knownStray(world, { nodePorts: ports, files, generation: 4 });
      if (!runs) await world.engine.halt(id, 100, soon());
      const answer = await handle(world, id, { ...adoptAs(world), name: 'found again' });
      expect(answer).toEqual({ strayId: strayIdOf(world, id), instanceId: id });
      const [adopted] = await Promise.all([world.until(id, hasStatus(runs ? 'Running' : 'Stopped')), settled(world)]);
      expect(adopted.instanceSpecInfo).toMatchObject({
        name: 'found again',
        imageInfo: { name: 'test image' },
        instanceBillingInfo: { chargeMode: 'perHour', price: 0.02 },
      });
      expect(await listOf(world)).toEqual([]);
      await expectConsistent(world);
      const counted = (await countedRegions(world.store.read))[0]?.used;
      expect(counted).toMatchObject({ cpuMilli: runs ? 1_000 : 0, nodePorts: 2 });
      const row = await world.store.read
        .selectFrom('instance')
        .selectAll()
        .where('id', '=', id)
        .executeTakeFirstOrThrow();
      expect(JSON.parse(row.nodePorts)).toEqual(ports);
      if (runs) expect(row.notebookToken).toBe('t'.repeat(43));
      const { sweep } = sweeping(world, { policy: { does: 'delete', keptMs: 0 } });
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

  test('gives it to the account that is named when the one on its label is gone, and to no other while there is one', async () => {
    const world = await makeWorld(await open());
    const ada = await world.account('ada');
    const mine = await knownStray(world);
    const nobodys = await knownStray(world, { ownerId: 'gone' as never });
    await expect(handle(world, mine, adoptAs(world, { username: 'ada' }))).rejects.toMatchObject({
      code: 'field_value',
      message: expect.stringContaining("is admin's, whose disks it has mounted"),
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

  test('is refused with the reason, and changes nothing, when it can not be', async () => {
    const world = await makeWorld(await open(), { nodePorts: { first: 30_000, last: 30_009 } });
    const { instanceId: other } = await world.running.control.instances.launch(world.caller, world.wish(), null);
    await world.until(other, hasStatus('Running'));
    await settled(world);
    const taken = [{ port: 22, nodePort: 31_000 }];
    const id = await knownStray(world, { nodePorts: taken });
    await world.engine.halt(id, 100, soon());
    const { instanceTypeId: _, ...untyped } = adoptAs(world);
    const before = await tableOf(world);
    const refused = async (wish: Parameters<typeof handle>[2], code: string): Promise<void> => {
      await expect(handle(world, id, wish)).rejects.toMatchObject({ code });
      expect(await tableOf(world)).toEqual(before);
      expect(await world.store.read.selectFrom('instance').select('id').where('id', '=', id).execute()).toEqual([]);
    };
    await refused(untyped, 'field_missing');
    await refused({ ...untyped, instanceTypeId: 'none' }, 'not_found');
    await expect(handle(world, 'notebook-unknown', adoptAs(world))).rejects.toMatchObject({ code: 'not_found' });
    world.engine.host.goAway(60_000);
    await refused(adoptAs(world), 'unavailable');
    world.engine.host.comeBack();
    // The engine lets two stand with one port as long as only one of them runs.
    await world.store.write((tx) =>
      tx
        .insertInto('nodePort')
        .values({ regionId: world.hands.regionId, nodePort: 31_000, instanceId: other, port: 8000 })
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

  test('counts a running one, and refuses it where there is no room', async () => {
    const world = await makeWorld(await open(), {
      machine: { cpuCores: 1, memoryMiB: 3 * 1024, architecture: 'amd64', gpus: [] },
    });
    const { instanceId: first } = await world.running.control.instances.launch(world.caller, world.wish(), null);
    await world.until(first, hasStatus('Running'));
    const id = await knownStray(world);
    await expect(handle(world, id, adoptAs(world))).rejects.toMatchObject({
      code: 'no_capacity',
      message: expect.stringMatching(/short of .*name a smaller type/),
    });
    await settled(world);
    expect(await listOf(world)).toHaveLength(1);
  });

  test('of two operators at once one has it, and the other is told who', async () => {
    const world = await makeWorld(await open());
    const id = await knownStray(world);
    const both = await Promise.allSettled([handle(world, id, adoptAs(world)), handle(world, id, adoptAs(world))]);
    expect(both.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    expect(both.find(({ status }) => status === 'rejected')).toMatchObject({
      reason: { code: 'not_now', message: `it was adopted already: instance ${id} of admin` },
    });
    await world.until(id, hasStatus('Running'));
    await settled(world);
    await expectConsistent(world);
  });

  test('races a deletion: either it is an instance and stays, or it is gone and the adoption is refused', async () => {
    const world = await makeWorld(await open(), {
      machine: { cpuCores: 64, memoryMiB: 2 ** 18, architecture: 'amd64', gpus: [] },
    });
    const ended = { adopted: 0, deleted: 0 };
    for (let round = 0; round < 12; round++) {
      const id = await knownStray(world);
      const { sweep } = sweeping(world, { policy: { does: 'delete', keptMs: 0 } });
      const late = async <T>(ms: number, deed: () => Promise<T>): Promise<T> => {
        await new Promise((resolve) => setTimeout(resolve, ms));
        return deed();
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

  test('comes too late for one that is being deleted', async () => {
    const world = await makeWorld(await open());
    const id = await knownStray(world);
    world.engine.misbehave(({ verb }) => (verb === 'discard' ? { mode: 'failBefore' } : undefined));
    await handle(world, id, { action: 'delete' });
    await expect(handle(world, id, adoptAs(world))).rejects.toMatchObject({ code: 'not_now' });
    world.engine.misbehave(undefined);
    await sweeping(world).sweep();
    expect([...(await containersOf(world)).keys()]).toEqual([]);
    await expect(handle(world, id, adoptAs(world))).rejects.toMatchObject({ code: 'not_found' });
  });
});

test('the operator reads of every policy in the manual', async () => {
  const manual = await readFile('docs/operations.md', 'utf8');
  for (const word of ['BERTH_STRAYS', 'BERTH_STRAY_HOURS', '/admin/stray/list', '/admin/stray/handle']) {
    expect(manual).toContain(word);
  }
});
