import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { sweepRegion } from '../../../src/control/compute/orphans/sweep.ts';
import { instanceId } from '../../../src/domain/kernel/ids.ts';
import type { OwnedObject } from '../../../src/engines/contract.ts';
import { setOrphanHandling } from '../../../src/store/tables/orphans.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectConsistent, settled } from './consistency.ts';
import { eventually, hasStatus, makeWorld, type World } from '../../fixtures/control.ts';
import {
  adoptAs,
  containersOf,
  handle,
  knownOrphan,
  listOf,
  makeOrphan,
  reporting,
  specOf,
  orphanIdOf,
  sweeping,
  tableOf,
} from './sweeping.ts';

const soon = (): AbortSignal => AbortSignal.timeout(120_000);

/** The engine also lists these, and records what it discards. */
function alsoHolding(world: World, more: OwnedObject[]): { discarded: string[] } {
  const discarded: string[] = [];
  world.drivers.engine = {
    ...world.engine,
    listOwned: async (signal) => [...(await world.engine.listOwned(signal)), ...more],
    async discard({ engineName }) {
      discarded.push(engineName);
      more.splice(0, more.length, ...more.filter((one) => one.engineName !== engineName));
    },
  };
  return { discarded };
}

const owned = (kind: OwnedObject['kind'], id: string, engineName: string): OwnedObject => ({
  kind,
  id,
  ownerId: 'somebody',
  generation: 0,
  running: false,
  engineName,
  createdAtMs: 1_000,
  imageRef: null,
});

onBothEngines('orphans', (open) => {
  test('are listed after two sweeps, notified once, and unlisted with their container', async () => {
    const world = await makeWorld(await open());
    await world.account('somebody-else');
    const id = await makeOrphan(world);
    const { sweep, warned } = sweeping(world, { policy: reporting });
    await sweep();
    expect(await listOf(world)).toEqual([]);
    await sweep();
    const [listed, ...others] = await listOf(world);
    expect(others).toEqual([]);
    expect(listed).toMatchObject({
      strayId: orphanIdOf(world, id),
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
      { accountId: world.caller.accountId, data: { count: 1, strayIds: [orphanIdOf(world, id)] } },
    ]);
    expect(warned).toHaveLength(1);
    await world.engine.destroy(id, soon());
    await sweep();
    expect(await tableOf(world)).toEqual([]);
  });

  test('are never objects of a launch, archive, start or terminate in progress', async () => {
    const world = await makeWorld(await open(), { engine: { times: { create: 15, start: 15, pull: 15 } } });
    // The engine is slow before it looks, and before it answers.
    world.engine.misbehave(({ verb, nth }) => {
      if (verb !== 'listOwned') return undefined;
      return nth % 2 === 0 ? { mode: 'slow', ms: 60 } : { mode: 'late', ms: 8 };
    });
    const { deps, warned } = sweeping(world);
    const seen = new Set<string>();
    const sweeps = { count: 0, over: false };
    const sweepAllTheTime = async (): Promise<void> => {
      while (!sweeps.over) {
        await sweepRegion(deps, world.drivers);
        for (const id of await tableOf(world)) seen.add(id);
        sweeps.count += 1;
      }
    };
    const sweepingNow = sweepAllTheTime();
    const { instances } = world.running.control;
    const life = async (): Promise<void> => {
      const one = await instances.launch(world.caller, world.launchInput(), null);
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
    expect(sweeps.count).toBeGreaterThan(5);
    expect([...seen]).toEqual([]);
    expect(warned).toEqual([]);
    expect(await world.engine.listOwned(soon())).toEqual([]);
    await expectConsistent(world);
  });

  test('are not archives and saved images in use; an unused image is one, and so is a second container', async () => {
    const world = await makeWorld(await open());
    const { instances, images } = world.running.control;
    const retained = await instances.launch(world.caller, world.launchInput(), null);
    const copied = await instances.launch(world.caller, world.launchInput(), null);
    for (const { instanceId: id } of [retained, copied]) await world.until(id, hasStatus('Running'));
    await instances.archive(world.caller, retained, null);
    await world.until(retained.instanceId, hasStatus('Archived'));
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
    expect(listed.find(({ kind }) => kind === 'instance')?.note).toMatch(/so Berth cannot stop it; delete it/);
    for (const { strayId, kind } of listed) {
      const adopting = world.running.control.orphans.handle(world.caller, { strayId, ...adoptAs(world) });
      await expect(adopting).rejects.toMatchObject({ code: 'unsupported' });
      if (kind === 'instance') continue;
      const stopping = world.running.control.orphans.handle(world.caller, { strayId, action: 'stop' });
      await expect(stopping).rejects.toMatchObject({ code: 'unsupported' });
    }
    expect(discarded).toEqual([]);
    await sweeping(world, { policy: { action: 'delete', retentionMs: 0 } }).sweep();
    expect(discarded.toSorted()).toEqual([
      'berth-network-of-nobody',
      'berth.local/archive/lost:7',
      'somebody-renamed-it',
    ]);
  });

  test.each(['archive', 'terminate'] as const)(
    'stay listed with their handling during %s of the labelled instance, whose own objects are no orphans',
    async (action) => {
      const world = await makeWorld(await open(), { engine: { times: { save: 300 } } });
      const { instances } = world.running.control;
      const { instanceId: id } = await instances.launch(world.caller, world.launchInput(), null);
      await world.until(id, hasStatus('Running'));
      await world.engine.saveImage(instanceId(id), 'berth.local/archive/lost:7', soon());
      const { deps } = sweeping(world);
      const sweepOnce = (): Promise<unknown> => sweepRegion(deps, world.drivers);
      for (let again = 0; again < 2; again++) await sweepOnce();
      const strayId = `${world.drivers.regionId}/image/berth.local/archive/lost:7`;
      // Marked by an operator, not yet carried out.
      await world.store.write((tx) => setOrphanHandling(tx, strayId, { from: ['policy'], to: 'delete', note: '' }));
      const [known] = await listOf(world);
      expect(known).toMatchObject({ strayId, handling: 'delete' });

      await instances[action](world.caller, { instanceId: id }, null);
      const seen = new Set<string>();
      const isThere = async (): Promise<boolean> => {
        await sweepOnce();
        for (const one of await listOf(world)) seen.add(`${one.strayId} ${one.handling} ${one.firstSeenAt}`);
        expect(await listOf(world)).toHaveLength(1);
        const { phase } = (await world.instance(id)).instanceRuntimeInfo;
        return phase === 'Archived' || phase === 'Cleaned';
      };
      await eventually(isThere);
      expect([...seen]).toEqual([`${strayId} delete ${known?.firstSeenAt}`]);
      await settled(world);
    },
  );

  test('are stopped at once and deleted after the watch period, not after a clock step', async () => {
    const world = await makeWorld(await open());
    const ahead = { ms: 0 };
    const now = (): number => Date.now() + ahead.ms;
    const id = await makeOrphan(world);
    const { sweep } = sweeping(world, { now, policy: { action: 'stop', retentionMs: 150_000 } });
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

  test("stay as they are when the engine can't be asked or can't act", async () => {
    const world = await makeWorld(await open());
    const id = await makeOrphan(world);
    const { sweep } = sweeping(world);
    await sweep();
    world.engine.host.goAway(60_000);
    await expect(sweep()).rejects.toMatchObject({ kind: 'unreachable' });
    expect(await tableOf(world)).toEqual([orphanIdOf(world, id)]);
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

  test('are watched from the start when recreated under the same name', async () => {
    const world = await makeWorld(await open());
    const id = await knownOrphan(world);
    await world.engine.destroy(id, soon());
    await new Promise((resolve) => setTimeout(resolve, 2));
    await world.engine.ensure(specOf(id), soon());
    const { sweep } = sweeping(world, { policy: { action: 'delete', retentionMs: 0 } });
    await sweep();
    expect((await containersOf(world)).get(id)).toBe(true);
    expect(await listOf(world)).toEqual([]);
  });

  test('are kept when an operator stops them, and deleted by the requested sweep', async () => {
    const world = await makeWorld(await open());
    const stopped = await knownOrphan(world);
    const deleted = await knownOrphan(world);
    await handle(world, stopped, { action: 'stop' });
    await handle(world, deleted, { action: 'delete' });
    await eventually(async () => {
      const there = await containersOf(world);
      return there.get(stopped) === false && !there.has(deleted);
    });
    await sweeping(world, { policy: { action: 'delete', retentionMs: 0 } }).sweep();
    expect([...(await containersOf(world)).keys()]).toEqual([stopped]);
    expect(await listOf(world)).toMatchObject([{ subjectId: stopped, handling: 'stop', deletedInSeconds: null }]);
  });
});

test('documents every orphan policy', async () => {
  const manual = await readFile('docs/operate.md', 'utf8');
  for (const word of ['BERTH_STRAYS', 'BERTH_STRAY_HOURS', '/admin/stray/list', '/admin/stray/handle']) {
    expect(manual).toContain(word);
  }
});
