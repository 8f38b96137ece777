import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { realTime } from '../../../src/control/kernel/time.ts';
import { EngineFault } from '../../../src/domain/regions/engine-fault.ts';
import { instanceId as asInstanceId } from '../../../src/domain/kernel/ids.ts';
import type { PublicInstance } from '../../../src/domain/compute/public-instance.ts';
import type { SimulatedFault, Verb } from '../../../src/engines/simulated/injected-faults.ts';
import { makeDue } from '../../../src/store/tables/instances.ts';
import { onEngine } from '../../fixtures/store.ts';
import { expectConsistent, settled } from './consistency.ts';
import { IMAGE_REF, eventually, hasStatus, makeWorld, quickLimits, type World } from '../../fixtures/control.ts';

const now = (): AbortSignal => AbortSignal.timeout(120_000);
const scripted = (world: World, text: string) => ({
  instanceConfiguration: { ...world.launchInput().instanceConfiguration, initScript: `# berth-sim: ${text}` },
});
const reasonIs =
  (reason: string) =>
  ({ instanceRuntimeInfo }: { instanceRuntimeInfo: { diagnosisReason: string } }): boolean =>
    instanceRuntimeInfo.diagnosisReason === reason;

/** The first `times` calls of a verb meet the fault; `met` counts. */
function trouble(world: World, verb: Verb, fault: SimulatedFault, times = 1): { met: number } {
  const count = { met: 0 };
  world.engine.misbehave((call) => {
    if (call.verb !== verb || count.met >= times) return undefined;
    count.met += 1;
    return fault;
  });
  return count;
}

const faults: SimulatedFault[] = [
  { mode: 'failBefore' },
  { mode: 'failAfter' },
  { mode: 'lost' },
  { mode: 'late', ms: 50 },
  { mode: 'slow', ms: 50 },
  { mode: 'halfway' },
  { mode: 'lying' },
  { mode: 'unreachable', ms: 100 },
];

onEngine('sqlite', 'trouble with the engine', (open) => {
  for (const fault of faults) {
    test(`${fault.mode} in any verb: launch, stop, start, restart and terminate still succeed`, async () => {
      const world = await makeWorld(await open());
      const { instances } = world.running.control;
      for (const verb of ['ensureImage', 'ensure', 'observe', 'dial', 'halt', 'destroy'] as const) {
        // Pulls have a longer deadline: `images.test.ts` has a hanging one.
        if (verb === 'ensureImage' && fault.mode === 'lost') continue;
        const count = trouble(world, verb, fault, verb === 'ensure' || verb === 'halt' ? 2 : 1);
        const one = await instances.launch(world.caller, world.launchInput(), null);
        await world.until(one.instanceId, hasStatus('Running'));
        await settled(world);
        await instances.stop(world.caller, one, null);
        await world.until(one.instanceId, hasStatus('Stopped'));
        await instances.start(world.caller, one, null);
        await world.until(one.instanceId, hasStatus('Running'));
        await instances.restart(world.caller, one, null);
        await world.until(one.instanceId, hasStatus('Running'));
        await settled(world);
        await expectConsistent(world);
        expect((await world.instance(one.instanceId)).instanceRuntimeInfo.diagnosisReason).toBe('');
        await instances.terminate(world.caller, one, null);
        await settled(world);
        expect(count.met).toBeGreaterThan(0);
        world.engine.misbehave(undefined);
        // The sweep finds a container reported as gone.
        if (verb === 'destroy' && fault.mode === 'lying') continue;
        await expectConsistent(world);
        expect(await world.engine.listOwned(now())).toEqual([]);
      }
    });
  }

  test('recreates a container lost while Running that has no root disk of its own, and reports it', async () => {
    const limits = { backOffBaseMs: 100, backOffMaxMs: 100 };
    const world = await makeWorld(await open(), { limits, capabilities: { keepsRootDisk: false } });
    const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    await world.until(instanceId, hasStatus('Running'));
    await world.engine.host.forget(instanceId as never);
    const waiting = await world.until(instanceId, reasonIs('ContainerExited'));
    expect(waiting.instanceRuntimeInfo).toMatchObject({
      status: 'Starting',
      healthy: false,
      diagnosisMessage: 'the container was removed from the engine',
    });
    const again = await world.until(instanceId, hasStatus('Running'));
    expect(again.instanceRuntimeInfo).toMatchObject({ diagnosisReason: '', healthy: true });
    await settled(world);
    await expectConsistent(world);
  });

  test('shows an image that a node still downloads as a pull, however often it asks', async () => {
    const world = await makeWorld(await open(), { limits: { maxAttempts: 1 } });
    let [tries, isThere] = [0, false];
    let ours: string | undefined;
    const text = 'a node of the cluster still downloads big:1';
    world.drivers.engine = {
      ...world.engine,
      async ensure(spec, signal) {
        if (isThere || (ours ??= spec.id) !== spec.id) return world.engine.ensure(spec, signal);
        tries += 1;
        throw new EngineFault('busy', text, { retry: true, reason: 'imagePending' });
      },
    };
    const { instances } = world.running.control;
    const { instanceId } = await instances.launch(world.caller, world.launchInput(), null);
    // A launch wakes the loop, as a hint of the engine does.
    const wake = async (): Promise<void> => {
      await world.store.write((tx) => makeDue(tx, [instanceId], Date.now()));
      await instances.launch(world.caller, world.launchInput(), null);
    };
    for (let asked = 1; asked <= 3; asked++) {
      await eventually(() => tries >= asked);
      const waiting = await world.until(instanceId, hasStatus('PullingImage'));
      expect(waiting.instanceRuntimeInfo).toMatchObject({
        phase: 'DownloadImage',
        message: text,
        diagnosisReason: '',
      });
      isThere = asked === 3;
      await wake();
    }
    await world.until(instanceId, hasStatus('Running'));
  });

  test('waits for a node that a cluster may add, as often as it takes, and reports its words', async () => {
    const world = await makeWorld(await open(), { limits: { engineRetryMs: 5 } });
    const most = 3 * quickLimits.maxAttempts;
    const text = 'a node is being added to the cluster (Nominated: Pod should schedule on: nodeclaim/a)';
    let tries = 0;
    let isThere = false;
    world.drivers.engine = {
      ...world.engine,
      async ensure(spec, signal) {
        tries += 1;
        if (isThere) return world.engine.ensure(spec, signal);
        throw new EngineFault('busy', text, { retry: true, reason: 'nodePending' });
      },
    };
    const { instances } = world.running.control;
    const { instanceId } = await instances.launch(world.caller, world.launchInput(), null);
    await eventually(() => tries > most);
    const waiting = await world.until(instanceId, (one) => one.instanceRuntimeInfo.diagnosisReason === 'NoCapacity');
    expect(waiting.instanceRuntimeInfo).toMatchObject({ phase: 'CreateContainer', diagnosisMessage: text });
    isThere = true;
    await world.until(instanceId, hasStatus('Running'));
    const charged = world.store.read.selectFrom('usagePeriod').selectAll().where('subjectId', '=', instanceId);
    const periods = await charged.where('meter', '=', 'compute').where('state', '=', 'charged').execute();
    expect(periods, 'a wait is free').toHaveLength(1);
  });

  test('limits retries of an engine that reports a container it never created', async () => {
    const world = await makeWorld(await open());
    const count = trouble(world, 'ensure', { mode: 'lying' }, Infinity);
    const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    const failed = await world.until(instanceId, hasStatus('StartingFailed'));
    expect(failed.instanceRuntimeInfo.diagnosisReason).toBe('CrashLoop');
    expect(count.met).toBe(6);
  });

  test('keeps the back-off of a failed try, however often the row is woken', async () => {
    const world = await makeWorld(await open(), { limits: { backOffBaseMs: 300, backOffMaxMs: 300 } });
    const triedAtMs: number[] = [];
    let ours: string | undefined;
    world.engine.misbehave(({ verb, about }) => {
      if (verb !== 'ensure' || (ours ??= about) !== about) return undefined;
      return triedAtMs.push(performance.now()) > 3 ? undefined : { mode: 'failBefore', kind: 'busy' };
    });
    const { instances } = world.running.control;
    const { instanceId } = await instances.launch(world.caller, world.launchInput(), null);
    // Each launch wakes the loop, as engine hints do.
    while (triedAtMs.length < 4) {
      await world.store.write((tx) => makeDue(tx, [instanceId], Date.now()));
      if (triedAtMs.length > 0) await instances.launch(world.caller, world.launchInput(), null).catch(() => {});
      await sleep(10);
    }
    await world.until(instanceId, hasStatus('Running'));
    const pausesMs = triedAtMs.slice(1).map((atMs, index) => atMs - (triedAtMs[index] ?? 0));
    expect(Math.min(...pausesMs)).toBeGreaterThanOrEqual(299);
  });

  test('a new request skips the back-off of the one before', async () => {
    const world = await makeWorld(await open(), { limits: { backOffBaseMs: 3_600_000, backOffMaxMs: 3_600_000 } });
    const { instances } = world.running.control;
    const count = trouble(world, 'ensure', { mode: 'failBefore', kind: 'busy' });
    const one = await instances.launch(world.caller, world.launchInput(), null);
    await eventually(() => count.met === 1);
    await instances.stop(world.caller, one, null);
    await world.until(one.instanceId, hasStatus('Stopped'));
    await instances.start(world.caller, one, null);
    const { instanceRuntimeInfo } = await world.until(one.instanceId, hasStatus('Running'));
    expect(instanceRuntimeInfo.diagnosisReason).toBe('');
  });

  test('retries an ineffective halt at intervals, while the stop waits', async () => {
    const world = await makeWorld(await open());
    const { instances } = world.running.control;
    const one = await instances.launch(world.caller, world.launchInput(), null);
    await world.until(one.instanceId, hasStatus('Running'));
    const count = trouble(world, 'halt', { mode: 'lying' }, Infinity);
    await instances.stop(world.caller, one, null);
    const beganMs = Date.now();
    await eventually(() => count.met >= 4);
    expect(Date.now() - beganMs).toBeGreaterThan(2 * 25);
    expect((await world.instance(one.instanceId)).instanceRuntimeInfo).toMatchObject({
      status: 'Running',
      phase: 'Stopping',
    });
    world.engine.misbehave(undefined);
    await world.until(one.instanceId, hasStatus('Stopped'));
  });

  test('fails permanently with the exit code after repeated crashes, and frees the capacity', async () => {
    const world = await makeWorld(await open(), { limits: { maxAttempts: 3 } });
    let starts = 0;
    world.engine.misbehave(({ verb }) => void (starts += verb === 'ensure' ? 1 : 0));
    const { instanceId } = await world.running.control.instances.launch(
      world.caller,
      world.launchInput(scripted(world, 'crash after 30ms exit 3')),
      null,
    );
    const failed = await world.until(instanceId, hasStatus('StartingFailed'));
    expect(failed.instanceRuntimeInfo).toMatchObject({
      diagnosisReason: 'CrashLoop',
      diagnosisMessage: 'the main process exited with code 3, 4 times in a row',
      healthy: false,
    });
    expect(starts).toBe(4);
    await settled(world);
    await expectConsistent(world);
  });

  test('retries the node port of a former run until the deadline', async () => {
    const limits = { maxAttempts: 3, startDeadlineMs: 60_000 };
    const world = await makeWorld(await open(), { limits });
    const { instances } = world.running.control;
    const one = await instances.launch(world.caller, world.launchInput(), null);
    const { instanceSpecInfo } = await world.until(one.instanceId, hasStatus('Running'));
    const nodePort = instanceSpecInfo.nodePorts[0]?.nodePort ?? 0;
    await instances.stop(world.caller, one, null);
    await world.until(one.instanceId, hasStatus('Stopped'));
    world.engine.host.takePort(nodePort);
    let starts = 0;
    world.engine.misbehave(({ verb }) => void (starts += verb === 'ensure' ? 1 : 0));
    await instances.start(world.caller, one, null);
    await eventually(() => starts > 3 * limits.maxAttempts);
    const waits = await world.until(one.instanceId, reasonIs('PortTaken'));
    expect(waits.instanceRuntimeInfo).toMatchObject({
      status: 'Starting',
      diagnosisMessage: `node port ${nodePort} is taken by another program of the host`,
    });
    world.engine.host.freePort(nodePort);
    const again = await world.until(one.instanceId, hasStatus('Running'));
    expect(again.instanceSpecInfo.nodePorts).toEqual(instanceSpecInfo.nodePorts);

    await instances.stop(world.caller, one, null);
    await world.until(one.instanceId, hasStatus('Stopped'));
    world.engine.host.takePort(nodePort);
    limits.startDeadlineMs = 300;
    await world.again();
    await instances.start(world.caller, one, null);
    const failed = await world.until(one.instanceId, hasStatus('StartingFailed'));
    expect(failed.instanceRuntimeInfo).toMatchObject({
      diagnosisReason: 'PortsUsedUp',
      diagnosisMessage: expect.stringMatching(/is taken by another program of the host \(still Starting .*\)/),
    });
  });

  test('reports OutOfMemory as the reason', async () => {
    const world = await makeWorld(await open(), { limits: { maxAttempts: 1 } });
    const { instanceId } = await world.running.control.instances.launch(
      world.caller,
      world.launchInput(scripted(world, 'crash after 30ms out of memory')),
      null,
    );
    const failed = await world.until(instanceId, hasStatus('StartingFailed'));
    expect(failed.instanceRuntimeInfo.diagnosisReason).toBe('OutOfMemory');
  });

  test('restarts after one crash', async () => {
    const world = await makeWorld(await open());
    const { instanceId } = await world.running.control.instances.launch(
      world.caller,
      world.launchInput(scripted(world, 'crash once after 60ms exit 9')),
      null,
    );
    const crashed = async (): Promise<boolean> =>
      (await world.store.read.selectFrom('instance').select('attempts').executeTakeFirstOrThrow()).attempts === 1;
    await eventually(crashed);
    await world.until(instanceId, hasStatus('Running'));
    await settled(world);
    await expectConsistent(world);
  });

  test('halts and fails an instance that never becomes ready, at its deadline', async () => {
    const world = await makeWorld(await open(), { limits: { readyDeadlineMs: 50 } });
    const { instanceId } = await world.running.control.instances.launch(
      world.caller,
      world.launchInput(scripted(world, 'never ready')),
      null,
    );
    const failed = await world.until(instanceId, hasStatus('StartingFailed'));
    expect(failed.instanceRuntimeInfo.diagnosisReason).toBe('StartTimeout');
    await settled(world);
    await expectConsistent(world);
  });

  test('exchanges a node port held by another program', async () => {
    const world = await makeWorld(await open(), {
      nodePorts: { first: 30_000, last: 30_009 },
      limits: { maxAttempts: 50 },
    });
    for (let port = 30_000; port < 30_005; port++) world.engine.host.takePort(port);
    const { instanceId } = await world.running.control.instances.launch(
      world.caller,
      world.launchInput({ nodePorts: [8000] }),
      null,
    );
    const running = await world.until(instanceId, hasStatus('Running'));
    for (const { nodePort } of running.instanceSpecInfo.nodePorts) expect(nodePort).toBeGreaterThanOrEqual(30_005);
    await settled(world);
    await expectConsistent(world);
  });

  test('fails with the reason when other programs hold all node ports', async () => {
    const world = await makeWorld(await open(), { nodePorts: { first: 30_000, last: 30_001 } });
    for (const port of [30_000, 30_001]) world.engine.host.takePort(port);
    const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    const failed = await world.until(instanceId, hasStatus('InitializationFailed', 'StartingFailed'));
    expect(failed.instanceRuntimeInfo).toMatchObject({
      diagnosisReason: 'PortsUsedUp',
      diagnosisMessage: expect.stringMatching(/node port 3000\d is taken/),
    });
    await settled(world);
    await expectConsistent(world);
  });

  test('fails a rejected launch as InitializationFailed with the reason, frees the capacity, and allows a start', async () => {
    const world = await makeWorld(await open());
    const { instances } = world.running.control;
    // After the pull the status is Starting, so the failure is StartingFailed.
    world.engine.host.addImage(IMAGE_REF);
    trouble(world, 'ensure', { mode: 'failBefore', kind: 'rejected' });
    const one = await instances.launch(world.caller, world.launchInput(), null);
    const failed = await world.until(one.instanceId, hasStatus('InitializationFailed'));
    expect(failed.instanceRuntimeInfo).toMatchObject({
      phase: 'Failed',
      diagnosisReason: 'EngineRejected',
      diagnosisMessage: expect.stringContaining('ensure failed'),
    });
    await settled(world);
    await expectConsistent(world);
    await instances.start(world.caller, one, null);
    expect((await world.instance(one.instanceId)).instanceRuntimeInfo.status).toMatch(/Initializing|Running/);
    await world.until(one.instanceId, hasStatus('Running'));
  });

  test('retries without engine capacity, then fails with the shortfall', async () => {
    const world = await makeWorld(await open());
    const count = trouble(world, 'ensure', { mode: 'failBefore', kind: 'no_capacity' }, Infinity);
    const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    await world.until(instanceId, hasStatus('InitializationFailed', 'StartingFailed'));
    expect(count.met).toBe(6);
  });

  test('pulls an image again that vanished between pull and start', async () => {
    const world = await makeWorld(await open());
    const count = trouble(world, 'ensure', { mode: 'failBefore', kind: 'not_found' }, 2);
    const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    await world.until(instanceId, hasStatus('Running'));
    expect(count.met).toBe(2);
  });

  test('restores all running instances after a power cut of the host', async () => {
    const world = await makeWorld(await open());
    const ids: string[] = [];
    for (let count = 0; count < 3; count++)
      ids.push((await world.running.control.instances.launch(world.caller, world.launchInput(), null)).instanceId);
    for (const id of ids) await world.until(id, hasStatus('Running'));
    await settled(world);
    await world.engine.host.reboot();
    await eventually(
      async () =>
        (await world.engine.listOwned(now())).filter(({ kind, running }) => kind === 'instance' && running).length ===
        3,
    );
    await settled(world);
    await expectConsistent(world);
  });

  test("fails disks that can't be created, without host details in the message", async () => {
    const world = await makeWorld(await open(), { mayFail: /storage of the region could not provide/ });
    world.engine.host.addImage(IMAGE_REF);
    const { create } = world.storage;
    world.storage.create = async () => {
      throw new Error("ENOSPC: no space left on device, mkdir '/srv/secret'");
    };
    const { instances } = world.running.control;
    const one = await instances.launch(world.caller, world.launchInput(), null);
    const failed = await world.until(one.instanceId, hasStatus('InitializationFailed'));
    expect(failed.instanceRuntimeInfo).toMatchObject({
      diagnosisReason: 'DisksFailed',
      diagnosisMessage: expect.not.stringContaining('secret'),
    });
    world.storage.create = create;
    await instances.start(world.caller, one, null);
    await world.until(one.instanceId, hasStatus('Running'));
  });

  test('retries a storage that never answers, reports it, and allows a terminate meanwhile', async () => {
    const world = await makeWorld(await open(), {
      limits: { storageDeadlineMs: 50, maxAttempts: 1_000 },
      mayFail: /storage of the region could not provide/,
    });
    const { create } = world.storage;
    let answer = (): void => {};
    const answered = new Promise<void>((resolve) => (answer = resolve));
    world.storage.create = async (...given) => {
      await answered;
      return create(...given);
    };
    const { instances } = world.running.control;
    const one = await instances.launch(world.caller, world.launchInput(), null);
    const waiting = await world.until(one.instanceId, reasonIs('DisksFailed'));
    expect(waiting.instanceRuntimeInfo.phase).toBe('PrepareDisks');
    await instances.terminate(world.caller, one, null);
    const phaseIs = (phase: string) => (seen: PublicInstance) => seen.instanceRuntimeInfo.phase === phase;
    const gone = await world.until(one.instanceId, phaseIs('RemovingDisks'));
    expect(gone.instanceRuntimeInfo.status).toBe('Released');
    // The former request finishes first, and leaves nothing.
    answer();
    await world.until(one.instanceId, phaseIs('Cleaned'));
    expect((await world.storage.listOwned()).filter(({ kind }) => kind === 'data')).toEqual([]);
  });

  test("shows the engine's words for a refused stop, and retries until it succeeds", async () => {
    const world = await makeWorld(await open());
    const { instances } = world.running.control;
    const one = await instances.launch(world.caller, world.launchInput(), null);
    await world.until(one.instanceId, hasStatus('Running'));
    const count = trouble(world, 'halt', { mode: 'failBefore', kind: 'rejected' }, 3);
    await instances.stop(world.caller, one, null);
    const refused = await world.until(one.instanceId, reasonIs('StopDelayed'));
    expect(refused.instanceRuntimeInfo).toMatchObject({
      status: 'Running',
      phase: 'Stopping',
      diagnosisMessage: expect.stringContaining('halt failed'),
    });
    expect(refused.actions).toContain('terminate');
    const stopped = await world.until(one.instanceId, hasStatus('Stopped'));
    expect(stopped.instanceRuntimeInfo.diagnosisReason).toBe('');
    expect(count.met).toBe(3);
  });

  test('kills without grace after the deadline of a stop', async () => {
    const world = await makeWorld(await open(), {
      limits: { stopDeadlineMs: 50, stopGraceMs: 60_000, callDeadlineMs: 100 },
    });
    const { instances } = world.running.control;
    const configuration = { ...world.launchInput().instanceConfiguration, initScript: '# berth-sim: ignore TERM' };
    const one = await instances.launch(world.caller, world.launchInput({ instanceConfiguration: configuration }), null);
    await world.until(one.instanceId, hasStatus('Running'));
    await instances.stop(world.caller, one, null);
    const stopped = await world.until(one.instanceId, hasStatus('Stopped'));
    expect(stopped.instanceRuntimeInfo).toMatchObject({ diagnosisReason: '', healthy: false });
    const id = asInstanceId(one.instanceId);
    const seen = (await world.engine.observe([id], AbortSignal.timeout(120_000))).get(id);
    // 137 is SIGKILL: ignored stop signal, without a wait for the minute of grace.
    expect(seen).toMatchObject({ running: false, exitCode: 137 });
  });

  test('bounds all tries of an image by one deadline', async () => {
    let timerMs = 0;
    const world = await makeWorld(await open(), {
      limits: { imageDeadlineMs: 2_000, maxAttempts: 1, backOffBaseMs: 1_200, backOffMaxMs: 1_200 },
      time: { after: (ms, fn) => realTime.after((timerMs = ms), fn) },
    });
    /** Deadline timers of the tries. */
    const allowedMs: number[] = [];
    let tries = 0;
    world.engine.misbehave(({ verb }) => {
      if (verb !== 'ensureImage') return undefined;
      tries += 1;
      allowedMs.push(timerMs);
      return tries === 1 ? { mode: 'failBefore', kind: 'unreachable' } : { mode: 'lost' };
    });
    const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    const failed = await world.until(instanceId, hasStatus('StartingFailed'));
    expect(failed.instanceRuntimeInfo.diagnosisReason).toBe('ImageFailed');
    expect(tries).toBe(2);
    expect(allowedMs[1]).toBeLessThanOrEqual(2_000 - 1_200);
  });
});
