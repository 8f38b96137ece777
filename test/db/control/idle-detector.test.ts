import { describe, expect, onTestFinished, test } from 'vitest';
import { makeIdleDetector } from '../../../src/control/compute/auto-stop/idle-detector.ts';
import { makeTraffic } from '../../../src/control/access/routing/traffic.ts';
import type { LaunchInput } from '../../../src/control/compute/instances/instances.ts';
import { noStopPolicy } from '../../../src/domain/compute/stop-policy.ts';
import { idlePolicy, type IdleLimits, type IdlePolicy } from '../../../src/domain/compute/idle.ts';
import type { InstanceId } from '../../../src/domain/kernel/ids.ts';
import { instanceId as idOf, instanceIdOf, userId } from '../../../src/domain/kernel/ids.ts';
import { makeHttpService, type Service } from '../../../src/engines/simulated/services.ts';
import { regionWithUsage } from '../../../src/store/tables/catalog.ts';
import { insertInstance } from '../../../src/store/tables/instances.ts';
import { anInstance } from '../../unit/domain/instance-fixture.ts';
import { onBothEngines, openTempStore } from '../../fixtures/store.ts';
import { notebookTokens } from '../../fixtures/test-seal.ts';
import { expectConsistent, settled } from './consistency.ts';
import { eventually, hasStatus, makeWorld, type World, type WorldOptions } from '../../fixtures/control.ts';
import { sweeping } from './sweeping.ts';
import { countWatchWrites } from './watch-writes.ts';

/** Real idle limits, a thousand times faster. */
const idleLimits: IdleLimits = {
  checkEveryMs: 40,
  staleMs: 2_000,
  recentMs: 60,
  longestWarningMs: 60_000,
  probeMs: 40,
};
const AFTER_MS = 600;
const quick = (more: Partial<IdlePolicy> = {}): IdlePolicy => idlePolicy(AFTER_MS, more);

/** A single database suffices where the store doesn't matter. */
async function open(): Promise<Store> {
  const { store, remove } = await openTempStore();
  onTestFinished(remove);
  return store;
}

/** Other software listens on the notebook's port. */
const refuses: Service = (stream) => {
  stream.once('data', () => stream.end('HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n'));
};

type Store = Parameters<typeof makeWorld>[0];
const watching = (store: Store, options: WorldOptions = {}): Promise<World> =>
  makeWorld(store, { idleLimits, ...options });

async function running(
  world: World,
  script = '',
  nodePorts: number[] = [],
  more: Partial<LaunchInput> = {},
): Promise<InstanceId> {
  const instanceConfiguration = {
    ...world.launchInput().instanceConfiguration,
    initScript: script && `# berth-sim: ${script}\n`,
  };
  const request = world.launchInput({ instanceConfiguration, nodePorts, ...more });
  const { instanceId } = await world.running.control.instances.launch(world.caller, request, null);
  await world.until(instanceId, hasStatus('Running'));
  return idOf(instanceId);
}

const setIdle = (world: World, id: string, idle: IdlePolicy | null) =>
  world.running.control.stopPolicies.set(world.caller, id, { idle });
const activity = (world: World, id: string) => world.running.control.stopPolicies.idleStatus(world.caller, id);
const reason = async (world: World, id: string): Promise<string> => {
  const { state, because } = await activity(world, id);
  return `${state}: ${because}`;
};
/** Waits for the reason, and fails with the one reported instead. */
async function untilSaid(world: World, id: string, words: RegExp): Promise<void> {
  let said = '';
  await eventually(
    async () => words.test((said = await reason(world, id))),
    () => said,
  );
}
const eventsOf = (world: World, id: string) =>
  world.store.read.selectFrom('event').selectAll().where('subjectId', '=', id).orderBy('id').execute();
const kindsOf = async (world: World, id: string, ...kinds: string[]) =>
  (await eventsOf(world, id)).filter(({ kind }) => kinds.includes(kind));

const idleRows = ({ store }: World) => store.read.selectFrom('watch').selectAll().where('kind', '=', 'idle').execute();

/** Waits for checks over a longer time than idleness needs to stop it. */
async function waitForChecks(world: World, id: string, times = 2): Promise<void> {
  await eventually(async () => (await activity(world, id)).checkedAtMs !== null);
  const fromMs = (await activity(world, id)).checkedAtMs ?? 0;
  await eventually(async () => ((await activity(world, id)).checkedAtMs ?? 0) > fromMs + times * AFTER_MS);
}

onBothEngines('an idle instance', (open) => {
  test('warns, then stops, with the reason in both events', async () => {
    const world = await watching(await open());
    const id = await running(world);
    await setIdle(world, id, quick());
    await untilSaid(world, id, /^idle: nothing uses the instance$/);
    const { idleSinceMs, willStopAtMs, signals } = await activity(world, id);
    expect(willStopAtMs).toBeGreaterThanOrEqual((idleSinceMs ?? 0) + AFTER_MS);
    expect(signals.map(({ name, says, text }) => `${name} ${says}: ${text}`)).toEqual([
      'keepAlive idle: no keep-alive call is active',
      'kernel idle: no kernel is open',
      'terminal idle: no terminal is open',
      'ssh idle: no ssh session is open',
      'http idle: no request came through the gateway',
      expect.stringMatching(/^cpu idle: the instance uses \d % of one CPU$/),
    ]);
    const stopped = await world.until(id, hasStatus('Stopped'));
    expect(stopped.instanceRuntimeInfo).toMatchObject({ diagnosisReason: 'IdleStop', phase: 'Stopped' });
    expect(stopped.instanceRuntimeInfo.diagnosisMessage).toMatch(/nothing used it/);
    const reported = await kindsOf(world, id, 'instance.idleWarning', 'instance.stopWished');
    expect(reported.map(({ kind }) => kind)).toEqual(['instance.idleWarning', 'instance.stopWished']);
    const [warning, stop] = reported.map(({ data, atMs }) => ({ ...JSON.parse(data), atMs }));
    expect(warning.willStopAt - warning.atMs).toBeLessThanOrEqual(AFTER_MS / 3);
    expect(stop).toMatchObject({ cause: 'IdleStop', idleSince: warning.idleSince });
    expect(stop.because).toMatch(/^nothing has used the instance for \d+ s/);
    expect(stop.atMs).toBeGreaterThanOrEqual(warning.willStopAt);
    await settled(world);
    await expectConsistent(world);
    expect(await reason(world, id)).toMatch(/^off: the instance is Stopped/);
  });

  /** Stops the server, moves the row of its last sweep by the absence, and starts another. */
  async function anotherAfter(world: World, awayMs: number): Promise<void> {
    await world.running.stop();
    await world.store.write((tx) =>
      tx
        .updateTable('watch')
        .set({ sinceMs: Date.now() - awayMs })
        .where('kind', '=', 'seen')
        .execute(),
    );
    await world.again();
  }

  test('stays idle since the same time under another server, and is warned of once', async () => {
    const world = await watching(await open());
    const id = await running(world);
    await settled(world);
    await setIdle(world, id, idlePolicy(4 * AFTER_MS));
    await eventually(async () => (await kindsOf(world, id, 'instance.idleWarning')).length === 1);
    await anotherAfter(world, 0);
    await world.until(id, hasStatus('Stopped'));
    const [warning, stop, ...more] = await kindsOf(world, id, 'instance.idleWarning', 'instance.stopWished');
    expect(more).toEqual([]);
    const { idleSince, willStopAt } = JSON.parse(warning?.data ?? '{}');
    expect(JSON.parse(stop?.data ?? '{}')).toMatchObject({ cause: 'IdleStop', idleSince });
    expect(stop?.atMs).toBeGreaterThanOrEqual(willStopAt);
    await eventually(async () => (await idleRows(world)).length === 0);
  });

  test('is watched from scratch after an absence that is longer than a check may be late', async () => {
    const world = await watching(await open());
    const id = await running(world);
    await setIdle(world, id, idlePolicy(3_600_000));
    await untilSaid(world, id, /^idle/);
    const restartMs = Date.now();
    await anotherAfter(world, idleLimits.staleMs + 1);
    await untilSaid(world, id, /^idle/);
    expect((await activity(world, id)).idleSinceMs).toBeGreaterThanOrEqual(restartMs);
  });

  test('has a row while it is idle, which checks do not write again, and which a use ends', async () => {
    const store = await open();
    const world = await watching(store);
    const id = await running(world, '', [80]);
    await settled(world);
    await setIdle(world, id, idlePolicy(3_600_000));
    await eventually(async () => (await idleRows(world)).length === 1);
    const before = await idleRows(world);
    const written = await countWatchWrites(store);
    await waitForChecks(world, id);
    expect(await written()).toBe(0);
    expect(await idleRows(world)).toEqual(before);
    const end = world.running.control.forwarding.beginTraffic(id, 'use');
    await eventually(async () => (await idleRows(world)).length === 0);
    end();
    await eventually(async () => (await idleRows(world)).length === 1);
    expect((await idleRows(world))[0]?.usedAtMs).toBeGreaterThan(before[0]?.sinceMs ?? 0);
    await setIdle(world, id, null);
    await eventually(async () => (await idleRows(world)).length === 0);
  });
});

test('stops at the announced time at any check interval', async () => {
  const world = await watching(await open(), {
    idleLimits: { ...idleLimits, checkEveryMs: 6_000, staleMs: 18_000 },
  });
  const id = await running(world);
  await setIdle(world, id, idlePolicy(6_500));
  await world.until(id, hasStatus('Stopped'));
  const [warning, stop] = await kindsOf(world, id, 'instance.idleWarning', 'instance.stopWished');
  const { willStopAt } = JSON.parse(warning?.data ?? '{}');
  expect(stop?.atMs).toBeGreaterThanOrEqual(willStopAt);
  // The next check would be later.
  expect((stop?.atMs ?? 0) - willStopAt).toBeLessThan(5_000);
});

test("unresponsive notebooks of one account are unknown, and delay no other account's idle stop", async () => {
  const mute = new Set<string>();
  const answers = makeHttpService();
  const notebook: Service = (stream, about) =>
    mute.has(about.instanceId) ? void stream.resume() : answers(stream, about);
  const machine = { cpuCores: 64, memoryMiB: 256 * 1024, architecture: 'amd64', gpus: [] };
  const world = await watching(await open(), { machine, engine: { services: { 8888: notebook } } });
  const { control } = world.running;
  const slow = await world.account('slow');
  const launches = Array.from({ length: 24 }, () => control.instances.launch(slow, world.launchInput(), null));
  const ids = (await Promise.all(launches)).map(({ instanceId }) => instanceId);
  for (const id of ids) {
    mute.add(id);
    await world.until(id, hasStatus('Running'));
    await control.stopPolicies.set(slow, id, { idle: quick() });
  }
  const isUnknown = async (id: string): Promise<boolean> =>
    (await control.stopPolicies.idleStatus(slow, id)).signals.some(
      ({ name, says }) => name === 'kernel' && says === 'stale',
    );
  const good = await running(world);
  await setIdle(world, good, quick());
  expect((await world.until(good, hasStatus('Stopped'))).instanceRuntimeInfo.diagnosisReason).toBe('IdleStop');
  await eventually(async () => (await Promise.all(ids.map(isUnknown))).includes(true));
  for (const id of ids) expect((await world.instance(id)).instanceRuntimeInfo.status).toBe('Running');
});

describe('an instance in use keeps running, with the reason reported:', () => {
  const uses: [script: string, words: RegExp][] = [
    ['kernel busy for 3600s', /^active: a kernel is busy \(notebook train\.ipynb\)$/],
    ['terminal used for 3600s', /^active: a terminal was used \d+ s ago$/],
    ['ssh sessions 1 for 3600s', /^active: an ssh session is open$/],
    ['ssh sessions 3 for 3600s', /^active: 3 ssh sessions are open$/],
    ['cpu 85% for 3600s', /^active: the instance uses 85 % of one CPU$/],
  ];
  for (const [script, words] of uses) {
    test(`${script}; stopped once it is over`, async () => {
      const clock = { aheadMs: 0 };
      const world = await watching(await open(), { clock });
      const id = await running(world, script);
      await setIdle(world, id, quick());
      await untilSaid(world, id, words);
      await waitForChecks(world, id);
      expect(await kindsOf(world, id, 'instance.idleWarning', 'instance.stopWished')).toEqual([]);
      clock.aheadMs = 2 * 3_600_000;
      expect((await world.until(id, hasStatus('Stopped'))).instanceRuntimeInfo.diagnosisReason).toBe('IdleStop');
    });
  }

  test('a request or WebSocket through the gateway', async () => {
    const world = await watching(await open());
    const id = await running(world);
    const done = world.running.control.forwarding.beginTraffic(id, 'use');
    await setIdle(world, id, quick());
    await untilSaid(world, id, /^active: 1 request or WebSocket is open through the gateway$/);
    await waitForChecks(world, id);
    expect((await world.instance(id)).instanceRuntimeInfo.status).toBe('Running');
    done();
    await world.until(id, hasStatus('Stopped'));
  });

  test("polls of an open notebook page don't count when the notebook server reports its use", async () => {
    const world = await watching(await open());
    const id = await running(world);
    world.running.control.forwarding.beginTraffic(id, 'poll');
    await setIdle(world, id, quick());
    expect((await world.until(id, hasStatus('Stopped'))).instanceRuntimeInfo.diagnosisReason).toBe('IdleStop');
  });

  test('polls count without a notebook server', async () => {
    const world = await watching(await open(), { engine: { services: { 8888: refuses } } });
    const id = await running(world);
    world.running.control.forwarding.beginTraffic(id, 'poll');
    await setIdle(world, id, quick());
    await untilSaid(world, id, /^active: 1 request or WebSocket/);
    expect((await activity(world, id)).signals.find(({ name }) => name === 'kernel')?.text).toBe(
      'no notebook server answers',
    );
  });

  test('a keep-alive call, until it expires or is withdrawn', async () => {
    const world = await watching(await open());
    const { stopPolicies } = world.running.control;
    const id = await running(world);
    const { keepAliveUntilMs } = await stopPolicies.keepAlive(world.caller, id, 3_600_000);
    expect(keepAliveUntilMs).toBeGreaterThan(Date.now());
    expect(
      (await stopPolicies.keepAlive(world.caller, id, 1_000)).keepAliveUntilMs,
      'a shorter call does not shorten a longer one',
    ).toBe(keepAliveUntilMs);
    await setIdle(world, id, quick());
    await untilSaid(world, id, /^active: a keep-alive call prevents the stop until 2/);
    await waitForChecks(world, id);
    expect((await stopPolicies.keepAlive(world.caller, id, 0)).keepAliveUntilMs).toBeNull();
    await world.until(id, hasStatus('Stopped'));
  });

  test('a request just before the stop is written', async () => {
    const store = await open();
    const world = await watching(store);
    const id = await running(world);
    await settled(world);
    // Time to replace `write` between warning and stop on a busy machine.
    await setIdle(world, id, idlePolicy(3 * AFTER_MS));
    await eventually(async () => (await kindsOf(world, id, 'instance.idleWarning')).length === 1);
    const [warning] = await kindsOf(world, id, 'instance.idleWarning');
    const { willStopAt } = JSON.parse(warning?.data ?? '{}');
    const { write } = store;
    let usedMs = 0;
    store.write = (work) => {
      if (usedMs === 0 && Date.now() >= willStopAt) {
        usedMs = Date.now();
        world.running.control.forwarding.beginTraffic(id, 'use')();
      }
      return write(work);
    };
    await world.until(id, hasStatus('Stopped'));
    const [stop] = await kindsOf(world, id, 'instance.stopWished');
    expect(usedMs).toBeGreaterThan(0);
    // The monotonic time of the use is converted to the clock's: each rounds to a millisecond.
    const { idleSince } = JSON.parse(stop?.data ?? '{}');
    expect(idleSince, 'the stop counts later idle time').toBeGreaterThanOrEqual(usedMs - 1);
  });

  test('unless the policy ignores that signal', async () => {
    const world = await watching(await open());
    const id = await running(world, 'ssh sessions 1');
    await setIdle(world, id, quick({ ignore: ['ssh'] }));
    expect((await world.until(id, hasStatus('Stopped'))).instanceRuntimeInfo.diagnosisReason).toBe('IdleStop');
  });
});

describe('unknown signals never stop an instance:', () => {
  for (const verb of ['exec', 'dial', 'usage'] as const) {
    test(`an engine that fails ${verb} prevents the stop; idle time restarts afterwards`, async () => {
      const world = await watching(await open(), { idleLimits: { ...idleLimits, staleMs: 300 } });
      const id = await running(world);
      await settled(world);
      await setIdle(world, id, quick());
      await untilSaid(world, id, /^idle/);
      world.engine.misbehave((call) => (call.verb === verb ? { mode: 'failBefore' } : undefined));
      await untilSaid(world, id, /^unknown: no recent reading of /);
      await waitForChecks(world, id);
      expect((await world.instance(id)).instanceRuntimeInfo.status).toBe('Running');
      const backMs = Date.now();
      world.engine.misbehave(undefined);
      await world.until(id, hasStatus('Stopped'));
      const [stop] = await kindsOf(world, id, 'instance.stopWished');
      expect(JSON.parse(stop?.data ?? '{}').idleSince).toBeGreaterThanOrEqual(backMs);
    });
  }

  test('a clock step of a day stops nothing', async () => {
    const clock = { aheadMs: 0 };
    const world = await watching(await open(), { clock });
    const id = await running(world);
    await setIdle(world, id, idlePolicy(3_600_000));
    for (const jumpMs of [24 * 3_600_000, -12 * 3_600_000]) {
      await untilSaid(world, id, /^idle/);
      clock.aheadMs += jumpMs;
      const jumpedMs = Date.now() + clock.aheadMs;
      await eventually(async () => Math.abs(((await activity(world, id)).idleSinceMs ?? 0) - jumpedMs) < 3_000_000);
    }
    expect(await kindsOf(world, id, 'instance.idleWarning', 'instance.stopWished')).toEqual([]);
  });

  test('checks nothing without a policy, and otherwise at the set interval', async () => {
    let execs = 0;
    const world = await watching(await open(), {
      idleLimits: { ...idleLimits, checkEveryMs: 300 },
      engine: { faults: ({ verb }) => void (verb === 'usage' && execs++) },
    });
    const [watched, other] = [await running(world), await running(world)];
    expect(await reason(world, other)).toBe('off: no idle stop is set; /instance/ends sets one');
    const fromMs = Date.now();
    await setIdle(world, watched, idlePolicy(3_600_000));
    await waitForChecks(world, watched);
    // Metrics sampling adds one every 15 seconds.
    const most = 2 + Math.ceil((Date.now() - fromMs) / 300);
    expect(execs).toBeGreaterThan(2);
    expect(execs).toBeLessThanOrEqual(most);
    await setIdle(world, watched, null);
    expect(await reason(world, watched)).toMatch(/^off/);
  });
});

test('protects a run from an autoscaler while it is used, with and without an idle stop', async () => {
  const world = await watching(await open());
  const calls: string[] = [];
  let isAway = true;
  world.drivers.engine = {
    ...world.engine,
    protection: {
      idleMs: AFTER_MS,
      async set(id, isOn) {
        if (isAway) throw new Error('the cluster is away');
        calls.push(`${id} ${isOn ? 'on' : 'off'}`);
      },
    },
  };
  const { offeredTypes } = world.running.control;
  const [first] = (await offeredTypes.list({ currentPage: 1, pageSize: 1 })).types;
  const spotType = { ...(first ?? expect.fail()), name: 'spot', isSpot: true };
  const { instanceTypeId } = (await offeredTypes.create(world.caller, spotType, null)).type;
  const [id, spot] = [await running(world), await running(world, '', [], { instanceTypeId, isSpotInstance: true })];
  const end = world.running.control.forwarding.beginTraffic(id, 'use');
  isAway = false;
  await eventually(() => calls.length === 1);
  end();
  await eventually(() => calls.length === 2);
  const endAgain = world.running.control.forwarding.beginTraffic(id, 'use');
  await eventually(() => calls.length === 3);
  endAgain();
  await eventually(() => calls.length === 4);
  const owned = { ownerId: world.caller.accountId, instanceId: id };
  expect((await world.running.control.notebookBar.read(owned)).stopsInMs, 'no stop is due').toBeNull();
  // Another policy restarts the idle time.
  await setIdle(world, id, idlePolicy(3_600_000));
  await eventually(() => calls.length === 6);
  expect(calls).toEqual(['on', 'off', 'on', 'off', 'on', 'off'].map((state) => `${id} ${state}`));
  expect(await kindsOf(world, id, 'instance.idleWarning', 'instance.stopWished')).toEqual([]);
  expect(await reason(world, spot), 'no owner sees a policy of the region').toMatch(/^off/);
  expect((await world.instance(id)).instanceRuntimeInfo.status).toBe('Running');
});

test('visits all watched instances over successive ticks', async () => {
  const world = await watching(await open(), { start: false });
  const { deps } = sweeping(world);
  const activity = makeIdleDetector({
    ...deps,
    idleLimits: { ...idleLimits, checkEveryMs: 3_600_000 },
    traffic: makeTraffic(() => performance.now()),
    stopAutomatically: async () => false,
    notebookTokens,
  });
  const ownerId = userId(world.caller.accountId);
  const region = (await regionWithUsage(world.store.read, world.drivers.regionId))?.region ?? expect.fail();
  const { spec, observed } = anInstance();
  const all = Array.from({ length: 501 }, (_, at) =>
    anInstance({
      id: instanceIdOf(`0000-${String(at).padStart(3, '0')}`),
      ownerId,
      spec: { ...spec, regionId: region.id },
      observed: { ...observed, status: 'Running' },
      stopPolicy: { ...noStopPolicy, idle: quick() },
    }),
  );
  await world.store.write(async (tx) => {
    for (const one of all) await insertInstance(tx, one, region, { notebookToken: '', dueAtMs: null });
  });
  const seen = (): number => all.filter((one) => activity.report(one) !== null).length;
  await activity.tick();
  await activity.settled();
  expect(seen()).toBe(500);
  await activity.tick();
  await activity.settled();
  expect(seen()).toBe(501);
  const [first, last] = [all.at(0), all.at(-1)].map((one) => one ?? expect.fail());
  for (const one of [first, last])
    await world.store.write((tx) =>
      tx
        .updateTable('instance')
        .set({ idleAfterMs: null })
        .where('id', '=', one?.id ?? '')
        .execute(),
    );
  // The others move up, so no page is full.
  await activity.tick();
  await activity.settled();
  expect(all.filter((one) => activity.report(one) === null)).toEqual([first, last]);
});
