import { expect, test } from 'vitest';
import { makeImagePulls } from '../../../src/control/regions/images/image-pulls.ts';
import { realTime } from '../../../src/control/kernel/time.ts';
import type { ImageProgress } from '../../../src/engines/contract.ts';
import { makeSimulatedEngine } from '../../../src/engines/simulated/simulated.ts';
import { onEngine } from '../../fixtures/store.ts';
import { expectConsistent, settled } from './consistency.ts';
import { eventually, hasStatus, makeWorld } from '../../fixtures/control.ts';

type Source = ReturnType<NonNullable<NonNullable<Parameters<typeof makeSimulatedEngine>[0]>['images']>>;
const found: Source = { kind: 'found', bytes: 200_000_000 };

/** A registry with a settable state. */
const registry = (state: Source) => {
  const reported = { state };
  return { reported, engine: { images: () => reported.state, times: { pull: 20 } } };
};

onEngine('sqlite', 'an image', (open) => {
  test.each(['not_found', 'denied', 'unreachable'] as const)(
    'shows BackOff with its cause and is retried while %s; the instance runs once the registry recovers',
    async (kind) => {
      const { reported, engine } = registry({ kind });
      const world = await makeWorld(await open(), { engine });
      const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
      const waiting = await world.until(
        instanceId,
        ({ instanceRuntimeInfo }) => instanceRuntimeInfo.diagnosisReason === 'BackOff',
      );
      expect(waiting.instanceRuntimeInfo).toMatchObject({
        status: 'Starting',
        phase: 'DownloadImage',
        diagnosisMessage: expect.stringContaining('berth.local/test:1'),
      });
      const tries = async (): Promise<number> =>
        (await world.store.read.selectFrom('instance').select('attempts').executeTakeFirstOrThrow()).attempts;
      // More attempts than for a container: only the deadline ends the attempts for an image.
      await eventually(async () => (await tries()) > 7);
      const { images } = await world.running.control.images.list(world.caller, { currentPage: 1, pageSize: 10 });
      expect(images[0]).toMatchObject({ state: 'Failed', stateText: expect.stringContaining('berth.local/test:1') });
      reported.state = found;
      await world.until(instanceId, hasStatus('Running'));
      // Attempts for the image count as one for the container.
      expect(await tries()).toBe(1);
      await settled(world);
      await expectConsistent(world);
    },
  );

  test("fails as StartingFailed when it can't be pulled in time, releases its capacity, and can be started again", async () => {
    const { reported, engine } = registry({ kind: 'not_found' });
    const world = await makeWorld(await open(), { engine, limits: { imageDeadlineMs: 500, maxAttempts: 2 } });
    const { instances } = world.running.control;
    const { instanceId } = await instances.launch(world.caller, world.launchInput(), null);
    const failed = await world.until(instanceId, hasStatus('StartingFailed'));
    expect(failed.instanceRuntimeInfo).toMatchObject({
      phase: 'Failed',
      diagnosisReason: 'ImageFailed',
      healthy: false,
      diagnosisMessage: expect.stringContaining('no image'),
    });
    expect(failed.instanceRuntimeInfo.stopTimestamp).toBeGreaterThan(0);
    await settled(world);
    await expectConsistent(world);
    reported.state = found;
    await instances.start(world.caller, { instanceId }, null);
    await world.until(instanceId, hasStatus('Running'));
  });

  test('fails after its deadline when the pull hangs', async () => {
    const world = await makeWorld(await open(), {
      engine: { times: { pull: 60_000 } },
      limits: { imageDeadlineMs: 100 },
    });
    const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    const failed = await world.until(instanceId, hasStatus('StartingFailed'));
    expect(failed.instanceRuntimeInfo).toMatchObject({
      diagnosisReason: 'ImageFailed',
      diagnosisMessage: expect.stringContaining('was not ready after'),
    });
  });

  test('reports the failure of the earlier attempt when the pull hangs at the deadline', async () => {
    const world = await makeWorld(await open(), { limits: { imageDeadlineMs: 300 } });
    world.engine.misbehave(({ verb, nth }) => {
      if (verb !== 'ensureImage') return undefined;
      return nth === 1 ? { mode: 'failBefore', kind: 'not_found' } : { mode: 'slow', ms: 60_000 };
    });
    const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    const failed = await world.until(instanceId, hasStatus('StartingFailed'));
    expect(failed.instanceRuntimeInfo.diagnosisMessage).toMatch(
      /was not ready after \d+ s; the last failure was: .*ensureImage/,
    );
  });

  test('is pulled again when the engine lost it long after the request', async () => {
    const { reported, engine } = registry(found);
    const clock = { aheadMs: 0 };
    const world = await makeWorld(await open(), { engine, clock, capabilities: { keepsRootDisk: false } });
    const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    await world.until(instanceId, hasStatus('Running'));
    clock.aheadMs = 3 * 3_600_000;
    reported.state = { kind: 'unreachable' };
    await world.engine.host.forgetAll();
    await world.until(instanceId, ({ instanceRuntimeInfo }) => instanceRuntimeInfo.diagnosisReason === 'BackOff');
    reported.state = found;
    const again = await world.until(instanceId, hasStatus('Running'));
    expect(again.instanceRuntimeInfo.diagnosisReason).toBe('');
  });

  test('shows PullingImage with progress, in the list of images too', async () => {
    const world = await makeWorld(await open(), { engine: { times: { pull: 600 } } });
    const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    const pulling = await world.until(instanceId, hasStatus('PullingImage'));
    expect(pulling.instanceRuntimeInfo).toMatchObject({
      phase: 'DownloadImage',
      message: expect.stringMatching(/berth\.local\/test:1/),
      diagnosisReason: '',
    });
    const { images } = await world.running.control.images.list(world.caller, { currentPage: 1, pageSize: 10 });
    expect(images[0]).toMatchObject({ state: 'Preparing', stateText: expect.stringContaining('Downloading') });
    const running = await world.until(instanceId, hasStatus('Running'));
    expect(running.instanceRuntimeInfo.message).toBe('');
  });

  test('is pulled once for all callers', async () => {
    const world = await makeWorld(await open(), { engine: { times: { pull: 50 } } });
    let pulls = 0;
    world.engine.misbehave(({ verb }) => {
      if (verb === 'ensureImage') pulls += 1;
      return undefined;
    });
    const launches = Array.from({ length: 4 }, () =>
      world.running.control.instances.launch(world.caller, world.launchInput(), null),
    );
    for (const { instanceId } of await Promise.all(launches)) await world.until(instanceId, hasStatus('Running'));
    expect(pulls).toBe(1);
  });
});

test('an abandoned pull is aborted, and does not abort a later one', async () => {
  let pulls = 0;
  const fails: (() => void)[] = [];
  const work = makeImagePulls({ time: realTime, askMs: 1_000, onEnsured: async () => {} });
  const engine = makeSimulatedEngine({ installation: 'x' });
  const aborted: boolean[] = [];
  engine.ensureImage = (_ref: string, _onProgress: (progress: ImageProgress) => void, signal: AbortSignal) => {
    pulls += 1;
    signal.addEventListener('abort', () => aborted.push(true));
    return new Promise((_, reject) => {
      fails.push(() => reject(new Error('failed')));
      signal.addEventListener('abort', () => reject(signal.reason));
    });
  };
  const never = new AbortController();
  const wait = (signal: AbortSignal): Promise<unknown> =>
    work.ensure(engine, { ref: 'r' }, () => {}, signal).catch((error: unknown) => error);
  const leaving = new AbortController();
  const left = wait(leaving.signal);
  leaving.abort(new Error('left'));
  expect(await left).toMatchObject({ message: 'left' });
  expect(aborted).toEqual([true]);

  // A failed pull is forgotten at once; a caller during an abort starts a new pull, shared by the
  // next.
  const first = wait(never.signal);
  fails.at(-1)?.();
  await Promise.resolve();
  await Promise.resolve();
  const second = wait(never.signal);
  await first;
  const third = wait(never.signal);
  const begun = pulls;
  expect(begun).toBeLessThanOrEqual(3);
  fails.at(-1)?.();
  await Promise.all([second, third]);
  expect(pulls).toBe(begun);
  await engine.stop();
});
