/** Tags that move in a registry: who gets which image, and what lists say. */
import { expect, test } from 'vitest';
import type { ImageFacts } from '../../../src/domain/regions/image-facts.ts';
import type { ImageSource } from '../../../src/engines/simulated/images.ts';
import { onEngine } from '../../fixtures/store.ts';
import { eventually, hasStatus, makeWorld, type World } from '../../fixtures/control.ts';

const REF = 'quay.io/team/app:latest';
const pager = { currentPage: 1, pageSize: 100 };

/** A registry whose tag can move, and which can go away, in words of the engine. */
function movingTag() {
  const registry = {
    digest: 'sha256:one',
    facts: {} as Partial<ImageFacts>,
    answer: 'found' as 'found' | 'unreachable' | 'denied' | 'not_found',
    asked: 0,
  };
  const images: ImageSource = (ref) => {
    if (ref.startsWith('berth.local/')) return { kind: 'found', bytes: 1 };
    registry.asked += 1;
    if (registry.answer !== 'found') return { kind: registry.answer };
    return { kind: 'found', bytes: 1, facts: { digests: [registry.digest], ...registry.facts } };
  };
  return { registry, engine: { images } };
}

const owners = ['operator', 'account'] as const;

async function offer(world: World, owner: (typeof owners)[number]): Promise<string> {
  const { images, offeredImages } = world.running.control;
  if (owner === 'account') return (await images.create(world.caller, { name: 'app', ref: REF }, null)).imageId;
  const { image } = await offeredImages.create(world.caller, { name: 'app', ref: REF, tags: [] }, null);
  return image.imageId;
}

const listed = async (world: World, imageId: string, caller = world.caller) => {
  const { images } = await world.running.control.images.list(caller, pager);
  return images.find((image) => image.imageId === imageId) ?? expect.fail();
};

async function run(world: World, imageId: string, caller = world.caller) {
  const input = world.launchInput({ imageId });
  const { instanceId } = await world.running.control.instances.launch(caller, input, null);
  return world.until(instanceId, hasStatus('Running'));
}

const digestOnHost = async (world: World): Promise<string | undefined> =>
  (await world.engine.describeImage(REF, AbortSignal.timeout(10_000)))?.digests[0];

onEngine('sqlite', 'a tag of a registry', (open) => {
  test.each(owners)('that moved is followed by the next launch of an image of the %s', async (owner) => {
    const { registry, engine } = movingTag();
    const world = await makeWorld(await open(), { engine });
    const imageId = await offer(world, owner);
    const first = await run(world, imageId);
    expect(await listed(world, imageId)).toMatchObject({ digest: 'sha256:one', isNewerAvailable: false });

    registry.digest = 'sha256:two';
    const { instanceId } = first.instanceMetadata;
    const before = registry.asked;
    await world.running.control.instances.stop(world.caller, { instanceId }, null);
    await world.until(instanceId, hasStatus('Stopped'));
    await world.running.control.instances.start(world.caller, { instanceId }, null);
    await world.until(instanceId, hasStatus('Running'));
    expect(registry.asked, 'a start asks no registry').toBe(before);
    expect(await digestOnHost(world)).toBe('sha256:one');

    await run(world, imageId);
    expect(await digestOnHost(world)).toBe('sha256:two');
    expect(await listed(world, imageId)).toMatchObject({
      digest: 'sha256:two',
      isNewerAvailable: false,
      regions: [{ digest: 'sha256:two', isNewerAvailable: false }],
    });
  });

  test.each(owners)(
    'is not needed by a launch while the host has the image of the %s, which says so',
    async (owner) => {
      const { registry, engine } = movingTag();
      const world = await makeWorld(await open(), { engine });
      const imageId = await offer(world, owner);
      await run(world, imageId);
      registry.answer = 'unreachable';
      const { instanceRuntimeInfo } = await run(world, imageId);
      expect(instanceRuntimeInfo.message).toMatch(/^the registry gave no image now.*sha256:one.*does not answer/);
      expect((await listed(world, imageId)).stateText).toBe(instanceRuntimeInfo.message);
      registry.answer = 'found';
      expect((await run(world, imageId)).instanceRuntimeInfo.message).toBe('');
    },
  );

  test('is not needed either while its registry stays silent', async () => {
    const { engine } = movingTag();
    const world = await makeWorld(await open(), { engine, limits: { imageCheckMs: 20 } });
    const imageId = await offer(world, 'operator');
    await run(world, imageId);
    const { ensureImage } = world.engine;
    world.engine.ensureImage = (ref, ...more) => (ref === REF ? new Promise(() => {}) : ensureImage(ref, ...more));
    const { instanceRuntimeInfo } = await run(world, imageId);
    expect(instanceRuntimeInfo.message).toContain('did not answer within 0.02 s');
  });

  test('gives an account no image of the host that its registry never gave it', async () => {
    const { registry, engine } = movingTag();
    const world = await makeWorld(await open(), { engine });
    const imageId = await offer(world, 'account');
    await run(world, imageId);
    const bob = await world.account('bob');
    const ofBob = await world.running.control.images.create(bob, { name: 'app', ref: REF }, null);
    registry.digest = 'sha256:two';
    await run(world, ofBob.imageId, bob);
    registry.answer = 'unreachable';
    const { instanceId } = await world.running.control.instances.launch(
      world.caller,
      world.launchInput({ imageId }),
      null,
    );
    await world.until(instanceId, ({ instanceRuntimeInfo }) => instanceRuntimeInfo.diagnosisReason === 'BackOff');
    expect((await run(world, ofBob.imageId, bob)).instanceRuntimeInfo.message).toContain('sha256:two');
  });

  test.each(['denied', 'not_found'] as const)(
    'that its registry answers with %s leaves the image of the operator, and none to an account',
    async (answer) => {
      const { registry, engine } = movingTag();
      const world = await makeWorld(await open(), { engine });
      const [ofOperator, own] = [await offer(world, 'operator'), await offer(world, 'account')];
      await run(world, ofOperator);
      await run(world, own);
      registry.answer = answer;
      expect((await run(world, ofOperator)).instanceRuntimeInfo.message).toContain('the registry gave no image now');
      const input = world.launchInput({ imageId: own });
      const { instanceId } = await world.running.control.instances.launch(world.caller, input, null);
      await world.until(instanceId, ({ instanceRuntimeInfo }) => instanceRuntimeInfo.diagnosisReason === 'BackOff');
    },
  );

  test('is never asked for an image that was built on the host', async () => {
    const { registry, engine } = movingTag();
    const world = await makeWorld(await open(), { engine });
    registry.facts = { digests: [] };
    const imageId = await offer(world, 'operator');
    await run(world, imageId);
    const before = registry.asked;
    registry.answer = 'denied';
    expect((await run(world, imageId)).instanceRuntimeInfo.message).toBe('');
    expect(registry.asked).toBe(before);
  });

  test.each(owners)('that moved is seen once a day, and fetched by a refresh of the image of the %s', async (owner) => {
    const { registry, engine } = movingTag();
    const clock = { aheadMs: 0 };
    const world = await makeWorld(await open(), { engine, clock });
    const imageId = await offer(world, owner);
    await run(world, imageId);
    registry.digest = 'sha256:two';
    const other = await world.running.control.images.create(world.caller, { name: 'other', ref: REF }, null);
    await world.store.write((tx) => tx.updateTable('image').set({ dueAtMs: 0 }).where('id', '=', imageId).execute());
    // Wakes the loop, which otherwise looks every half minute.
    await world.running.control.images.delete(world.caller, { imageId: other.imageId }, null);
    await eventually(async () => (await listed(world, imageId)).isNewerAvailable);
    expect(await listed(world, imageId)).toMatchObject({
      digest: 'sha256:one',
      regions: [{ digest: 'sha256:one', isNewerAvailable: true }],
    });
    const { images, offeredImages } = world.running.control;
    await (owner === 'account' ? images : offeredImages).refresh(world.caller, { imageId }, null);
    await eventually(async () => (await listed(world, imageId)).digest === 'sha256:two');
    expect(await listed(world, imageId)).toMatchObject({ isNewerAvailable: false, state: 'Ready' });
    const { dueAtMs } = await world.store.read
      .selectFrom('image')
      .select('dueAtMs')
      .where('id', '=', imageId)
      .executeTakeFirstOrThrow();
    expect(dueAtMs).not.toBeNull();
  });

  test('is fetched before the first launch by a refresh, which says what the image is', async () => {
    const { registry, engine } = movingTag();
    registry.facts = { contains: { shell: true, sshd: false, jupyter: true } };
    const world = await makeWorld(await open(), { engine });
    const imageId = await offer(world, 'account');
    expect(await listed(world, imageId)).toMatchObject({ digest: 'sha256:one', details: null });
    await world.running.control.images.refresh(world.caller, { imageId }, null);
    await eventually(async () => (await listed(world, imageId)).details !== null);
    expect((await listed(world, imageId)).details).toMatchObject({ shell: true, sshd: false, jupyter: true });
  });

  test('that cannot be fetched fails its refresh with the reason, and changes nothing', async () => {
    const { registry, engine } = movingTag();
    const world = await makeWorld(await open(), { engine });
    const imageId = await offer(world, 'account');
    await run(world, imageId);
    registry.answer = 'denied';
    const { operationId } = await world.running.control.images.refresh(world.caller, { imageId }, null);
    const operation = () => world.running.control.operations.read(world.caller, { operationId });
    await eventually(async () => (await operation()).state === 'Failed');
    expect((await operation()).error?.message).toContain('POST /api/registry/create');
    expect(await listed(world, imageId)).toMatchObject({ digest: 'sha256:one' });
  });

  test('facts stay with their reference, which the operator changes', async () => {
    const { engine } = movingTag();
    const world = await makeWorld(await open(), { engine });
    const { offeredImages } = world.running.control;
    const imageId = await offer(world, 'operator');
    await run(world, imageId);
    const changed = { imageId, version: 1, dryRun: false, ref: 'quay.io/team/other:1' };
    await offeredImages.update(world.caller, changed, null);
    await eventually(async () => (await listed(world, imageId)).digest === '');
    expect(await listed(world, imageId)).toMatchObject({ details: null, isNewerAvailable: false });
  });
});

onEngine('sqlite', 'an image without a shell', (open) => {
  test('is refused at its first launch, with the reason and without another try', async () => {
    const { registry, engine } = movingTag();
    registry.facts = { contains: { shell: false, sshd: false, jupyter: false } };
    const world = await makeWorld(await open(), { engine });
    const imageId = await offer(world, 'operator');
    const { instanceId } = await world.running.control.instances.launch(
      world.caller,
      world.launchInput({ imageId }),
      null,
    );
    const failed = await world.until(instanceId, hasStatus('InitializationFailed', 'StartingFailed'));
    expect(failed.instanceRuntimeInfo).toMatchObject({
      diagnosisReason: 'ImageUnfit',
      diagnosisMessage: expect.stringMatching(/^this image has no \/bin\/sh, and Berth needs one/),
    });
    expect(
      (await world.engine.observe([failed.instanceMetadata.instanceId as never], AbortSignal.timeout(10_000)))
        .values()
        .next().value,
    ).toEqual({ kind: 'absent' });
  });
});
