/** Saved images: created once, launched with their files, and removed in the end. */
import { expect, test } from 'vitest';
import { instanceId as idOf } from '../../../src/domain/kernel/ids.ts';
import type { Operation } from '../../../src/domain/compute/operation.ts';
import { simulatedFault } from '../../../src/engines/simulated/injected-faults.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectConsistent, settled } from './consistency.ts';
import { eventually, hasStatus, makeWorld, type World } from '../../fixtures/control.ts';

const pager = { currentPage: 1, pageSize: 100 };
const FILE = '/root/kept';

const rowOf = (world: World, id: string) =>
  world.store.read.selectFrom('image').selectAll().where('id', '=', id).executeTakeFirst();

/** Waits until the image is at rest. */
async function untilState(world: World, id: string, state: 'Ready' | 'Failed'): Promise<void> {
  let last: unknown;
  const isSo = async (): Promise<boolean> => {
    const row = await rowOf(world, id);
    last = row;
    return row?.state === state && row.dueAtMs === null;
  };
  await eventually(isSo, () => JSON.stringify(last));
}

async function launched(world: World, imageId = world.imageId): Promise<string> {
  const { instanceId } = await world.running.control.instances.launch(
    world.caller,
    world.launchInput({ imageId }),
    null,
  );
  await world.until(instanceId, hasStatus('Running'));
  return instanceId;
}

const exec = (world: World, id: string, ...command: string[]) =>
  world.engine.exec(idOf(id), command, AbortSignal.timeout(120_000));

const hasFile = async (world: World, id: string): Promise<boolean> =>
  (await exec(world, id, 'ls', FILE)).exitCode === 0;

/** Launches an instance with a file of its own. */
async function withFile(world: World): Promise<string> {
  const id = await launched(world);
  await exec(world, id, 'touch', FILE);
  return id;
}

const stop = async (world: World, instanceId: string): Promise<void> => {
  await world.running.control.instances.stop(world.caller, { instanceId }, null);
  await world.until(instanceId, hasStatus('Stopped'));
};

const save = async (world: World, instanceId: string): Promise<string> =>
  (await world.running.control.images.save(world.caller, { instanceId, name: 'mine' }, null)).imageId;

/** Starts a save whose engine calls all end as given. */
async function saving(world: World, instanceId: string, mode: 'failBefore' | 'lost'): Promise<string> {
  let asked = false;
  world.engine.misbehave(({ verb }) => {
    if (verb !== 'saveImage') return undefined;
    asked = true;
    return { mode };
  });
  const imageId = await save(world, instanceId);
  await eventually(() => asked);
  return imageId;
}

const savedOnHost = async (world: World): Promise<string[]> =>
  (await world.engine.listOwned(AbortSignal.timeout(120_000))).flatMap(({ kind, engineName }) =>
    kind === 'image' ? [engineName] : [],
  );

onBothEngines('an instance saved as an image', (open) => {
  test('keeps running, and instances of the image have its files', async () => {
    const world = await makeWorld(await open());
    const id = await withFile(world);
    const { imageId, operationId } = await world.running.control.images.save(
      world.caller,
      { instanceId: id, name: 'mine' },
      null,
    );
    expect(operationId).toBe(`${imageId}.1`);
    await untilState(world, imageId, 'Ready');
    expect((await world.instance(id)).instanceRuntimeInfo.status).toBe('Running');
    const row = await rowOf(world, imageId);
    expect(row).toMatchObject({ ref: `berth.local/saved/${imageId}:1`, dueAtMs: null, leaseOwner: null });
    expect(row?.sizeBytes).toBeGreaterThan(0);
    const operation: Operation = JSON.parse(row?.operation ?? 'null');
    expect(operation).toMatchObject({ kind: 'saveImage', state: 'Succeeded' });
    const { images } = await world.running.control.images.list(world.caller, pager);
    expect(images.at(-1)).toMatchObject({
      imageId,
      name: 'mine',
      state: 'Ready',
      isPublic: 'false',
      sizeBytes: row?.sizeBytes,
    });
    expect(await hasFile(world, await launched(world, imageId))).toBe(true);
    expect(await hasFile(world, await launched(world))).toBe(false);
    await settled(world);
    await expectConsistent(world);
  });

  test('can be stopped, and the image outlives it', async () => {
    const world = await makeWorld(await open());
    const id = await withFile(world);
    await stop(world, id);
    const imageId = await save(world, id);
    await untilState(world, imageId, 'Ready');
    await world.running.control.instances.terminate(world.caller, { instanceId: id }, null);
    await world.until(id, ({ instanceRuntimeInfo }) => instanceRuntimeInfo.phase === 'Cleaned');
    expect(await hasFile(world, await launched(world, imageId))).toBe(true);
  });

  test('is refused without a container, when archived, foreign or unknown, and nothing changes', async () => {
    const world = await makeWorld(await open(), { engine: { times: { pull: 60_000 } } });
    const { instances, images } = world.running.control;
    const { instanceId } = await instances.launch(world.caller, world.launchInput(), null);
    await world.until(instanceId, hasStatus('PullingImage'));
    const request = { instanceId, name: 'mine' };
    await expect(images.save(world.caller, request, null)).rejects.toMatchObject({
      code: 'not_now',
      message: expect.stringMatching(/the instance is PullingImage; only an instance that is Running, or Stopped/),
    });
    await stop(world, instanceId);
    await expect(images.save(world.caller, request, null)).rejects.toMatchObject({ code: 'not_now' });
    const other = await world.account('bob');
    const unknown = await images.save(other, { ...request, instanceId: 'nothing' }, null).catch(String);
    expect(await images.save(other, request, null).catch(String)).toBe(unknown);
    await instances.archive(world.caller, { instanceId }, null);
    await world.until(instanceId, hasStatus('Archived'));
    await expect(images.save(world.caller, request, null)).rejects.toMatchObject({
      code: 'not_now',
      message: expect.stringMatching(/start it first/),
    });
    expect((await images.list(world.caller, pager)).totalEntries).toBe(1);
  });

  test("is refused on an engine that can't save, with an alternative", async () => {
    const world = await makeWorld(await open(), { capabilities: { saveImage: false } });
    const id = await launched(world);
    await eventually(() => world.drivers.health.probe !== null);
    await expect(save(world, id)).rejects.toMatchObject({
      code: 'unsupported',
      message: expect.stringMatching(/volume/),
    });
  });

  test("can't be launched while it is being saved", async () => {
    const world = await makeWorld(await open());
    const id = await withFile(world);
    world.engine.misbehave(({ verb }) => (verb === 'saveImage' ? { mode: 'lost' } : undefined));
    const imageId = await save(world, id);
    const early = world.running.control.instances.launch(world.caller, world.launchInput({ imageId }), null);
    await expect(early).rejects.toMatchObject({
      code: 'not_now',
      message: expect.stringMatching(/not ready: it is still being saved/),
    });
    expect((await rowOf(world, imageId))?.state).toBe('Saving');
  });

  test('fails with the reason when the instance is terminated meanwhile', async () => {
    const world = await makeWorld(await open());
    const id = await withFile(world);
    const imageId = await saving(world, id, 'failBefore');
    await world.running.control.instances.terminate(world.caller, { instanceId: id }, null);
    await untilState(world, imageId, 'Failed');
    const row = await rowOf(world, imageId);
    expect(row?.stateText).toMatch(/terminated/);
    expect(JSON.parse(row?.operation ?? 'null')).toMatchObject({ state: 'Failed', error: { reason: 'InstanceGone' } });
    await expect(
      world.running.control.instances.launch(world.caller, world.launchInput({ imageId }), null),
    ).rejects.toMatchObject({
      code: 'not_now',
      message: expect.stringMatching(/could not be saved.*terminated.*delete it/),
    });
    await world.running.control.images.delete(world.caller, { imageId }, null);
    await eventually(async () => (await rowOf(world, imageId)) === undefined);
    expect(await savedOnHost(world)).toEqual([]);
  });

  test("is retried after a temporary fault, and fails with the engine's message after a permanent one", async () => {
    const world = await makeWorld(await open(), { limits: { maxAttempts: 3 } });
    const id = await withFile(world);
    let tries = 0;
    const { saveImage } = world.engine;
    const full = simulatedFault('no_capacity', 'the disk is full', { reason: 'diskFull' });
    world.engine.saveImage = async (...given) => {
      tries += 1;
      if (tries <= 3) throw full;
      return saveImage(...given);
    };
    const healed = await save(world, id);
    await untilState(world, healed, 'Ready');
    expect(tries).toBe(4);

    world.engine.saveImage = async () => {
      tries += 1;
      throw full;
    };
    tries = 0;
    const hopeless = await save(world, id);
    await untilState(world, hopeless, 'Failed');
    expect(tries).toBe(4);
    expect(await rowOf(world, hopeless)).toMatchObject({ stateText: 'the disk is full', dueAtMs: null });

    world.engine.saveImage = async () => {
      throw simulatedFault('rejected', 'it keeps a VOLUME');
    };
    const refused = await save(world, id);
    await untilState(world, refused, 'Failed');
    expect(await rowOf(world, refused)).toMatchObject({ stateText: 'it keeps a VOLUME', attempts: 0 });
    expect((await world.instance(id)).instanceRuntimeInfo.status).toBe('Running');
  });

  test('fails after as many attempts as any step when copies exceed their deadline', async () => {
    const world = await makeWorld(await open(), { limits: { maxAttempts: 2, copyDeadlineMs: 50 } });
    const id = await withFile(world);
    let tries = 0;
    world.engine.misbehave(({ verb }) => {
      if (verb !== 'saveImage') return undefined;
      tries += 1;
      return { mode: 'slow', ms: 60_000 };
    });
    const imageId = await save(world, id);
    await untilState(world, imageId, 'Failed');
    expect(tries).toBe(3);
    const row = await rowOf(world, imageId);
    expect(row?.stateText).toMatch(/^the root disk was not copied within/);
    expect(JSON.parse(row?.operation ?? 'null')).toMatchObject({ state: 'Failed', error: { reason: 'SaveFailed' } });
  });

  test('never fails because the engine is away', async () => {
    const world = await makeWorld(await open(), { limits: { maxAttempts: 2 } });
    const id = await withFile(world);
    world.engine.host.goAway(60_000);
    let asked = 0;
    const { saveImage } = world.engine;
    world.engine.saveImage = (...given) => {
      asked += 1;
      return saveImage(...given);
    };
    const imageId = await save(world, id);
    await eventually(() => asked > 5);
    expect((await rowOf(world, imageId))?.state).toBe('Saving');
    world.engine.host.comeBack();
    await untilState(world, imageId, 'Ready');
  });

  test.each(['failBefore', 'failAfter', 'lost'] as const)(
    'is one image in the end when a save ends as %s and the server is killed',
    async (mode) => {
      const world = await makeWorld(await open());
      const id = await withFile(world);
      let asked = false;
      world.engine.misbehave(({ verb }) => {
        if (verb !== 'saveImage' || asked) return undefined;
        asked = true;
        return { mode };
      });
      const imageId = await save(world, id);
      await eventually(() => asked);
      await world.again();
      await untilState(world, imageId, 'Ready');
      expect(await savedOnHost(world)).toEqual([`berth.local/saved/${imageId}:1`]);
      expect(await hasFile(world, await launched(world, imageId))).toBe(true);
    },
  );

  test("can't be deleted while an instance needs it, and is removed from the engine afterwards", async () => {
    const world = await makeWorld(await open());
    const imageId = await save(world, await withFile(world));
    await untilState(world, imageId, 'Ready');
    const user = await launched(world, imageId);
    const { images, instances } = world.running.control;
    await expect(images.delete(world.caller, { imageId }, null)).rejects.toMatchObject({
      code: 'in_use',
      message: expect.stringContaining(user),
    });
    await stop(world, user);
    await expect(images.delete(world.caller, { imageId }, null)).rejects.toMatchObject({ code: 'in_use' });
    expect((await rowOf(world, imageId))?.state).toBe('Ready');
    // The container holds the layers a moment longer than the instance is released.
    await instances.terminate(world.caller, { instanceId: user }, null);
    await images.delete(world.caller, { imageId }, null);
    expect((await images.list(world.caller, pager)).totalEntries).toBe(1);
    await eventually(async () => (await rowOf(world, imageId)) === undefined);
    expect(await savedOnHost(world)).toEqual([]);
    await settled(world);
    await expectConsistent(world);
  });

  test('is either deleted or launched when both are requested concurrently', async () => {
    const world = await makeWorld(await open());
    const id = await withFile(world);
    const { images, instances } = world.running.control;
    for (let round = 0; round < 12; round++) {
      const imageId = await save(world, id);
      await untilState(world, imageId, 'Ready');
      const requests = [
        () => images.delete(world.caller, { imageId }, null),
        () => instances.launch(world.caller, world.launchInput({ imageId }), null),
      ];
      const both = round % 2 === 0 ? requests : requests.toReversed();
      const outcomes = await Promise.allSettled(both.map((request) => request()));
      expect(outcomes.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
      for (const outcome of outcomes) {
        if (outcome.status === 'rejected') expect(['in_use', 'not_found']).toContain(outcome.reason.code);
        else if ('instanceId' in outcome.value) {
          const { instanceId } = outcome.value;
          await world.until(instanceId, hasStatus('Running'));
          await instances.terminate(world.caller, { instanceId }, null);
          await images.delete(world.caller, { imageId }, null);
        }
      }
    }
  });

  test('is not needed by an instance with an archived root disk', async () => {
    const world = await makeWorld(await open());
    const imageId = await save(world, await withFile(world));
    await untilState(world, imageId, 'Ready');
    const user = await launched(world, imageId);
    const { images, instances } = world.running.control;
    await instances.archive(world.caller, { instanceId: user }, null);
    await world.until(user, hasStatus('Archived'));
    await images.delete(world.caller, { imageId }, null);
    await eventually(async () => (await rowOf(world, imageId)) === undefined);
    await instances.start(world.caller, { instanceId: user }, null);
    await world.until(user, hasStatus('Running'));
    expect(await hasFile(world, user)).toBe(true);
  });

  test('leaves nothing when deleted during a copy that the engine finishes', async () => {
    const world = await makeWorld(await open(), { engine: { times: { save: 500 } } });
    const id = await withFile(world);
    const { saveImage } = world.engine;
    const asked = Promise.withResolvers<void>();
    world.engine.saveImage = (...given) => {
      asked.resolve();
      return saveImage(...given);
    };
    const imageId = await save(world, id);
    await asked.promise;
    await world.running.control.images.delete(world.caller, { imageId }, null);
    await eventually(async () => (await rowOf(world, imageId)) === undefined);
    await world.engine.halt(idOf(id), 0, AbortSignal.timeout(120_000)); // after the save
    expect(await savedOnHost(world)).toEqual([]);
  });

  test('leaves nothing when deleted while it is saved', async () => {
    const world = await makeWorld(await open());
    const imageId = await saving(world, await withFile(world), 'lost');
    await world.running.control.images.delete(world.caller, { imageId }, null);
    await eventually(async () => (await rowOf(world, imageId)) === undefined);
    expect(await savedOnHost(world)).toEqual([]);
    const stored = await world.store.read
      .selectFrom('operation')
      .selectAll()
      .where('subjectId', '=', imageId)
      .orderBy('generation')
      .execute();
    expect(stored.map(({ operation }) => JSON.parse(operation))).toMatchObject([
      { kind: 'saveImage', state: 'Cancelled' },
      { kind: 'deleteImage', state: 'Succeeded' },
    ]);
  });

  test("is pushed to the operator's registry and pulled with the operator's credentials", async () => {
    const pulls: string[] = [];
    const world = await makeWorld(await open(), {
      start: false,
      engine: {
        images: (ref, given) => {
          if (!ref.startsWith('private.invalid/')) return { kind: 'found', bytes: 1_000_000 };
          pulls.push(`${ref} ${given?.username ?? '-'}`);
          return given?.secret === 'harbour' ? { kind: 'not_found' } : { kind: 'denied' };
        },
      },
    });
    Object.assign(world.drivers, {
      savedPrefix: 'private.invalid/kept/saved',
      archivePrefix: 'private.invalid/kept/archive',
      archivePushed: true,
      archiveCredentials: { username: 'operator', secret: 'harbour' },
    });
    await world.running.start();
    const imageId = await save(world, await withFile(world));
    const ref = `private.invalid/kept/saved/${imageId}:1`;
    await untilState(world, imageId, 'Ready');
    expect(world.engine.host.pushed(ref)).toBeDefined();
    expect(await savedOnHost(world)).toEqual([]);
    expect(await hasFile(world, await launched(world, imageId))).toBe(true);
    expect(new Set(pulls)).toEqual(new Set([`${ref} operator`]));
  });

  test('fails when the registry stays away, and leaves the instance unharmed', async () => {
    const world = await makeWorld(await open(), {
      start: false,
      limits: { maxAttempts: 2 },
      engine: {
        images: (ref) => (ref.startsWith('away.invalid/') ? { kind: 'unreachable' } : { kind: 'found', bytes: 1 }),
      },
    });
    Object.assign(world.drivers, { savedPrefix: 'away.invalid/saved', archivePushed: true });
    await world.running.start();
    const id = await withFile(world);
    const imageId = await save(world, id);
    await untilState(world, imageId, 'Failed');
    expect((await rowOf(world, imageId))?.stateText).toMatch(/does not answer/);
    expect((await world.instance(id)).instanceRuntimeInfo.status).toBe('Running');
    await world.running.control.images.delete(world.caller, { imageId }, null);
    await eventually(async () => (await rowOf(world, imageId)) === undefined);
    expect(await savedOnHost(world)).toEqual([]);
  });
});
