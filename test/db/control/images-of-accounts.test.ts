/** Images of accounts: who can list, launch and pull them. */
import { expect, test } from 'vitest';
import type { Caller } from '../../../src/control/index.ts';
import { defaultImages } from '../../../src/engines/simulated/images.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectConsistent, settled } from './consistency.ts';
import { eventually, hasStatus, IMAGE_REF, makeWorld, type World } from '../../fixtures/control.ts';

/** A registry that accepts any credentials; see `engines/simulated/images.ts`. */
const SERVER = 'private.invalid';
const REF = `${SERVER}/team/tool:1`;
const pager = { currentPage: 1, pageSize: 100 };
const credentials = { server: SERVER, username: 'ada', secret: 'harbour' };

const namesOf = async (world: World, caller: Caller): Promise<string[]> =>
  (await world.running.control.images.list(caller, pager)).images.map(({ name }) => name);

const idOf = async (world: World, name: string): Promise<string> =>
  (await world.running.control.images.list(world.caller, pager)).images.find((image) => image.name === name)?.imageId ??
  '';

const launch = (world: World, imageId: string, caller = world.caller): Promise<{ instanceId: string }> =>
  world.running.control.instances.launch(caller, world.launchInput({ imageId }), null);

const waitsForImage = (world: World, id: string) =>
  world.until(id, ({ instanceRuntimeInfo }) => instanceRuntimeInfo.diagnosisReason === 'BackOff');

/** Creates an image that its registry denies from then on. */
async function createDenied(world: World, caller = world.caller): Promise<{ imageId: string }> {
  const { images, registries } = world.running.control;
  const { registry } = await registries.create(caller, credentials, null);
  const created = await images.create(caller, { name: 'tool', ref: REF }, null);
  await registries.delete(caller, { id: registry.id }, null);
  return created;
}

/** An engine that records image calls, and whose registry can go away. */
function watched() {
  const registered = { pulls: [] as string[], away: false, gone: false };
  const images: typeof defaultImages = (ref, given) => {
    registered.pulls.push(`${ref} ${given?.username ?? '-'}`);
    if (registered.gone) return { kind: 'not_found' };
    return registered.away ? { kind: 'unreachable' } : defaultImages(ref, given);
  };
  return { registered, engine: { images } };
}

onBothEngines('a reference of an image', (open) => {
  test.each([
    ['missing.invalid/team/tool', /^field "ref" is "missing\.invalid\/team\/tool": .*check its name and tag$/],
    [REF, /"ref".*register credentials for private\.invalid with POST \/api\/registry\/create$/],
  ])('is refused when its registry has no %s for the account', async (ref, message) => {
    const world = await makeWorld(await open());
    const { images } = world.running.control;
    const idempotency = { key: 'k', bodyHash: 'b', route: 'r' };
    const refused = images.create(world.caller, { name: 'tool', ref }, idempotency);
    await expect(refused).rejects.toMatchObject({ code: 'field_value', message: expect.stringMatching(message) });
    expect(await namesOf(world, world.caller)).toEqual(['test image']);
  });

  test('gets its first answer again when its image is gone meanwhile', async () => {
    const { registered, engine } = watched();
    const world = await makeWorld(await open(), { engine });
    const { images } = world.running.control;
    const idempotency = { key: 'k', bodyHash: 'b', route: 'r' };
    const create = () => images.create(world.caller, { name: 'tool', ref: 'quay.io/a/one' }, idempotency);
    const first = await create();
    registered.gone = true;
    expect(await create()).toEqual(first);
  });

  test('is accepted while its registry is away, says so, and is checked again', async () => {
    const { registered, engine } = watched();
    const world = await makeWorld(await open(), { engine, limits: { imageRecheckMs: 20 } });
    const { images } = world.running.control;
    registered.away = true;
    await images.create(world.caller, { name: 'one', ref: 'quay.io/a/one' }, null);
    await images.create(world.caller, { name: 'two', ref: 'missing.invalid/a/two' }, null);
    const stateOf = async (name: string) => {
      const found = (await images.list(world.caller, pager)).images.find((image) => image.name === name);
      return [found?.state, found?.stateText];
    };
    const unchecked = /^not checked yet: .*does not answer/;
    expect(await stateOf('one')).toEqual(['Absent', expect.stringMatching(unchecked)]);
    const before = registered.pulls.length;
    await eventually(() => registered.pulls.length > before + 3);
    expect(await stateOf('one')).toEqual(['Absent', expect.stringMatching(unchecked)]);
    registered.away = false;
    await eventually(async () => (await stateOf('one'))[1] === '');
    await eventually(async () => (await stateOf('two'))[0] === 'Failed');
    expect(await stateOf('two')).toEqual(['Failed', expect.stringMatching(/check its name and tag/)]);
    expect(await stateOf('one')).toEqual(['Absent', '']);
    const asked = registered.pulls.length;
    await world.until((await launch(world, await idOf(world, 'one'))).instanceId, hasStatus('Running'));
    expect(registered.pulls.slice(asked), 'no more checks').toHaveLength(1);
  });

  test('is accepted without an engine that answers', async () => {
    const world = await makeWorld(await open(), { start: false });
    const { images } = world.running.control;
    await images.create(world.caller, { name: 'one', ref: 'missing.invalid/a/one' }, null);
    expect((await images.list(world.caller, pager)).images.at(-1)).toMatchObject({
      stateText: 'not checked yet: the container engine does not answer',
    });
  });

  test('is accepted when its registry stays silent', async () => {
    const world = await makeWorld(await open(), { limits: { imageCheckMs: 50 } });
    world.engine.checkImage = (_ref, signal) =>
      new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('aborted'))));
    const { images } = world.running.control;
    await images.create(world.caller, { name: 'one', ref: 'quay.io/a/one' }, null);
    expect((await images.list(world.caller, pager)).images.at(-1)).toMatchObject({
      stateText: 'not checked yet: the registry did not answer within 0.05 s',
    });
  });
});

onBothEngines('an image of an account', (open) => {
  test('is listed for its account only, after the catalog, page by page', async () => {
    const clock = { aheadMs: 0 };
    const world = await makeWorld(await open(), { start: false, clock });
    const other = await world.account('bob');
    const { images } = world.running.control;
    await images.create(world.caller, { name: 'one', ref: 'quay.io/a/one' }, null);
    clock.aheadMs += 1_000;
    await images.create(world.caller, { name: 'two', ref: 'quay.io/a/two:2' }, null);
    expect(await namesOf(world, world.caller)).toEqual(['test image', 'one', 'two']);
    expect(await namesOf(world, other)).toEqual(['test image']);
    const pages = await Promise.all(
      [1, 2, 3, 4].map((currentPage) => images.list(world.caller, { currentPage, pageSize: 1 })),
    );
    expect(pages.map(({ images: page }) => page.map(({ name }) => name))).toEqual([
      ['test image'],
      ['one'],
      ['two'],
      [],
    ]);
    expect(new Set(pages.map(({ totalEntries }) => totalEntries))).toEqual(new Set([3]));
    expect(pages[1]?.images[0]).toMatchObject({ isPublic: 'false', ref: 'quay.io/a/one:latest', state: 'Absent' });
  });

  test('can be launched by its account, and is not found for another', async () => {
    const world = await makeWorld(await open());
    const other = await world.account('bob');
    const { imageId } = await world.running.control.images.create(
      world.caller,
      { name: 'one', ref: 'quay.io/a/one' },
      null,
    );
    const message = `image ${imageId} not found; POST /api/image/list lists the available images`;
    const unknown = { code: 'not_found', message: message.replace(imageId, 'nothing') };
    await expect(launch(world, 'nothing', other)).rejects.toMatchObject(unknown);
    await expect(launch(world, imageId, other)).rejects.toMatchObject({ code: 'not_found', message });
    const deleted = world.running.control.images.delete(other, { imageId }, null);
    await expect(deleted).rejects.toMatchObject({ code: 'not_found', message });
    const { instanceId } = await launch(world, imageId);
    const running = await world.until(instanceId, hasStatus('Running'));
    expect(running.instanceSpecInfo.imageInfo).toMatchObject({ name: 'one', isPublic: 'false' });
    await settled(world);
    await expectConsistent(world);
  });

  test.each([
    ['berth.local/test:1', /berth\.local is not a registry/],
    ['registry.example.org/kept/archive/notebook-1:2', /the path is reserved for saved root disks/],
    ['registry.example.org/kept/saved/1:1', /the path is reserved for saved root disks/],
    ['registry.example.org:443/kept/saved/1:1', /the path is reserved for saved root disks/],
    ['Registry.Example.org:80/kept/archive/x:1', /the path is reserved for saved root disks/],
    ['127.0.0.1:28481/x', /loopback or link-local address.*BERTH_LOCAL_REGISTRIES/],
    ['localhost/x', /loopback or link-local address/],
    ['[::1]:5000/x', /loopback or link-local address/],
    ['two words', /is not an image name/],
  ])('is refused under the name %s', async (ref, why) => {
    const world = await makeWorld(await open(), { start: false });
    world.drivers.archivePrefix = 'registry.example.org/kept/archive';
    world.drivers.savedPrefix = 'registry.example.org/kept/saved';
    const refused = world.running.control.images.create(world.caller, { name: 'one', ref }, null);
    await expect(refused).rejects.toMatchObject({ code: 'field_value', message: expect.stringMatching(why) });
    expect(await namesOf(world, world.caller)).toEqual(['test image']);
  });

  test('names the credentials to register when denied, and is pulled once they are', async () => {
    const world = await makeWorld(await open());
    const { images, registries } = world.running.control;
    const { imageId } = await createDenied(world);
    const { instanceId } = await launch(world, imageId);
    const waiting = await waitsForImage(world, instanceId);
    expect(waiting.instanceRuntimeInfo).toMatchObject({
      status: 'Starting',
      phase: 'DownloadImage',
      diagnosisMessage: expect.stringMatching(
        /register credentials for private\.invalid with POST \/api\/registry\/create/,
      ),
    });
    const { registry } = await registries.create(world.caller, { ...credentials, secret: 'wrong' }, null);
    await world.until(instanceId, ({ instanceRuntimeInfo }) =>
      /delete the credentials for private\.invalid \(user ada\)/.test(instanceRuntimeInfo.diagnosisMessage),
    );
    await registries.delete(world.caller, { id: registry.id }, null);
    await registries.create(world.caller, credentials, null);
    await world.until(instanceId, hasStatus('Running'));
    const { images: listed } = await images.list(world.caller, pager);
    expect(listed.find((image) => image.imageId === imageId)).toMatchObject({ state: 'Ready' });
  });

  test('fails as ImageDenied when it stays denied, and runs once started with credentials', async () => {
    const world = await makeWorld(await open(), { limits: { imageDeadlineMs: 500, maxAttempts: 2 } });
    const { registries, instances } = world.running.control;
    const { imageId } = await createDenied(world);
    const { instanceId } = await launch(world, imageId);
    const failed = await world.until(instanceId, hasStatus('StartingFailed'));
    expect(failed.instanceRuntimeInfo).toMatchObject({
      diagnosisReason: 'ImageDenied',
      diagnosisMessage: expect.stringMatching(/register credentials for private\.invalid/),
    });
    await registries.create(world.caller, credentials, null);
    await instances.start(world.caller, { instanceId }, null);
    await world.until(instanceId, hasStatus('Running'));
  });

  test('is authorized for each account although the engine has it', async () => {
    const { registered, engine } = watched();
    const world = await makeWorld(await open(), { engine });
    const { images, registries } = world.running.control;
    await registries.create(world.caller, credentials, null);
    const mine = await images.create(world.caller, { name: 'tool', ref: REF }, null);
    await world.until((await launch(world, mine.imageId)).instanceId, hasStatus('Running'));
    expect(world.engine.host.image(REF), 'the host has the image').toBeDefined();

    const thief = await world.account('thief');
    const theirs = await createDenied(world, thief);
    const { instanceId } = await launch(world, theirs.imageId, thief);
    await waitsForImage(world, instanceId);
    const before = registered.pulls.length;
    await eventually(() => registered.pulls.length > before + 3);
    expect((await world.instance(instanceId)).instanceRuntimeInfo.status).toBe('Starting');
    expect(registered.pulls).toContain(`${REF} -`);
    const { images: listed } = await images.list(thief, pager);
    expect(listed.at(-1)?.state, 'the state reveals no pull of another account').not.toBe('Ready');
  });

  test('starts with the login of its own account, and none for a public image', async () => {
    const world = await makeWorld(await open());
    const given = new Map<string, string>();
    world.drivers.engine = {
      ...world.engine,
      ensure(spec, signal) {
        const login = `${spec.imageRef} ${spec.imageCredentials?.username ?? '-'}`;
        if (!given.has(spec.id)) given.set(spec.id, login);
        return world.engine.ensure(spec, signal);
      },
    };
    const { images, registries } = world.running.control;
    const bob = await world.account('bob');
    for (const [caller, username] of [[world.caller, 'ada'] as const, [bob, 'bob'] as const]) {
      await registries.create(caller, { ...credentials, username }, null);
      const { imageId } = await images.create(caller, { name: 'tool', ref: REF }, null);
      const { instanceId } = await launch(world, imageId, caller);
      await world.until(instanceId, hasStatus('Running'));
    }
    const { instanceId } = await world.running.control.instances.launch(bob, world.launchInput(), null);
    await world.until(instanceId, hasStatus('Running'));
    expect([...given.values()]).toEqual([`${REF} ada`, `${REF} bob`, `${IMAGE_REF} -`]);
  });

  test('is not shared with a pull of another account', async () => {
    const { registered, engine } = watched();
    const world = await makeWorld(await open(), { engine: { ...engine, times: { pull: 400 } } });
    const { images, registries } = world.running.control;
    await registries.create(world.caller, credentials, null);
    const thief = await world.account('thief');
    const mine = await images.create(world.caller, { name: 'tool', ref: REF }, null);
    const theirs = await createDenied(world, thief);
    const first = await launch(world, mine.imageId);
    await eventually(() => registered.pulls.includes(`${REF} ada`));
    const second = await launch(world, theirs.imageId, thief);
    await waitsForImage(world, second.instanceId);
    await world.until(first.instanceId, hasStatus('Running'));
    expect((await world.instance(second.instanceId)).instanceRuntimeInfo.status).toBe('Starting');
  });

  test('that the registry gave the account once is launched without it, and an existing container starts', async () => {
    const { registered, engine } = watched();
    const world = await makeWorld(await open(), { engine });
    const { images, registries, instances } = world.running.control;
    await registries.create(world.caller, credentials, null);
    const { imageId } = await images.create(world.caller, { name: 'tool', ref: REF }, null);
    const { instanceId } = await launch(world, imageId);
    await world.until(instanceId, hasStatus('Running'));
    registered.away = true;
    await instances.stop(world.caller, { instanceId }, null);
    await world.until(instanceId, hasStatus('Stopped'));
    const before = registered.pulls.length;
    await instances.start(world.caller, { instanceId }, null);
    await world.until(instanceId, hasStatus('Running'));
    expect(registered.pulls.length).toBe(before);

    const second = await launch(world, imageId);
    const { instanceRuntimeInfo } = await world.until(second.instanceId, hasStatus('Running'));
    expect(instanceRuntimeInfo.message).toContain('the registry gave no image now');
  });

  test('is pulled once for concurrent instances of its account', async () => {
    const { registered, engine } = watched();
    const world = await makeWorld(await open(), { engine });
    const { imageId } = await world.running.control.images.create(
      world.caller,
      { name: 'one', ref: 'quay.io/a/one' },
      null,
    );
    registered.pulls.length = 0; // the check
    const held = Promise.withResolvers<void>();
    const { ensureImage } = world.engine;
    world.engine.ensureImage = (...request) => held.promise.then(() => ensureImage(...request));
    const all = await Promise.all([1, 2, 3].map(() => launch(world, imageId)));
    for (const { instanceId } of all)
      await world.until(instanceId, ({ instanceRuntimeInfo: { phase } }) => phase === 'DownloadImage');
    held.resolve();
    for (const { instanceId } of all) await world.until(instanceId, hasStatus('Running'));
    expect(registered.pulls.filter((pull) => pull.startsWith('quay.io/a/one'))).toHaveLength(1);
  });

  test('can be deleted while in use: instances keep its name, and start from it', async () => {
    const world = await makeWorld(await open());
    const { images, instances } = world.running.control;
    const { imageId } = await images.create(world.caller, { name: 'one', ref: 'quay.io/a/one' }, null);
    const { instanceId } = await launch(world, imageId);
    await world.until(instanceId, hasStatus('Running'));
    expect(await images.delete(world.caller, { imageId }, null)).toMatchObject({ imageId });
    expect(await namesOf(world, world.caller)).toEqual(['test image']);
    await expect(launch(world, imageId)).rejects.toMatchObject({ code: 'not_found' });
    await expect(images.delete(world.caller, { imageId }, null)).rejects.toMatchObject({ code: 'not_found' });
    await instances.stop(world.caller, { instanceId }, null);
    await world.until(instanceId, hasStatus('Stopped'));
    await world.engine.host.forgetAll();
    await world.until(instanceId, ({ instanceRuntimeInfo: now }) => now.diagnosisReason === 'RootDiskLost');
    await instances.start(world.caller, { instanceId, newRootDisk: true }, null);
    await world.until(instanceId, hasStatus('Running'));
  });

  test("can't be deleted by an account when the operator registered it", async () => {
    const world = await makeWorld(await open(), { start: false });
    const refused = world.running.control.images.delete(world.caller, { imageId: world.imageId }, null);
    await expect(refused).rejects.toMatchObject({
      code: 'forbidden',
      message: expect.stringMatching(/belongs to the operator/),
    });
    expect(await namesOf(world, world.caller)).toEqual(['test image']);
  });

  test('is limited to 200 per account; the same key creates it once', async () => {
    const world = await makeWorld(await open(), { start: false });
    const { images } = world.running.control;
    const body = { name: 'one', ref: 'quay.io/a/one' };
    const key = { key: 'k', route: '/image/create', bodyHash: 'h' };
    const first = await images.create(world.caller, body, key);
    expect(await images.create(world.caller, body, key)).toEqual(first);
    const row = await world.store.read
      .selectFrom('image')
      .selectAll()
      .where('id', '=', first.imageId)
      .executeTakeFirstOrThrow();
    const more = Array.from({ length: 198 }, (_, index) => ({ ...row, id: `more-${index}` }));
    await world.store.write((tx) => tx.insertInto('image').values(more).execute());
    const outcomes = await Promise.allSettled([1, 2, 3].map(() => images.create(world.caller, body, null)));
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    await expect(images.create(world.caller, body, null)).rejects.toMatchObject({
      code: 'over_quota',
      message: expect.stringMatching(/images of its own.* limit is 200.*delete images/),
    });
  });
});
