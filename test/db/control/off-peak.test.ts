/** Instances of the mode `tidePerHour`, in windows that the test moves with its clock. */
import { expect, test } from 'vitest';
import {
  defaultOffPeak,
  ENDING_NOTICE_MS,
  NEVER_MS,
  type OffPeak,
  weekdays,
} from '../../../src/domain/regions/off-peak.ts';
import { saveDefaultRegion, thisMachine } from '../../../src/main/first-run.ts';
import { instanceFromRow } from '../../../src/store/tables/instances.ts';
import { regionsWithUsage } from '../../../src/store/tables/catalog.ts';
import type { Store } from '../../../src/store/store.ts';
import { eventually, hasStatus, makeWorld, type World } from '../../fixtures/control.ts';
import { aRegion } from '../../fixtures/region.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectRefused } from './access-fixture.ts';
import { expectConsistent, settled } from './consistency.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const tide = { chargeMode: 'tidePerHour', duration: 1 } as const;

const clockText = (ms: number): string => new Date(ms).toISOString().slice(11, 16);
/** Every day between two times of the day, in UTC. */
const daily = (fromMs: number, toMs: number): OffPeak => ({
  timeZone: 'UTC',
  windows: [{ days: [...weekdays], start: clockText(fromMs), end: clockText(toMs) }],
});

/** The window opens in two hours, for two hours. */
async function makeTideWorld(store: Store) {
  const clock = { aheadMs: 0 };
  const world = await makeWorld(store, { clock, hurry: 20 });
  const opensAtMs = Math.ceil(world.now() / MINUTE_MS) * MINUTE_MS + 2 * HOUR_MS;
  const setWindows = async (offPeak: OffPeak): Promise<void> => {
    const { regionId } = world.drivers;
    const { update, get } = world.running.control.regionAdministration;
    const { version } = (await get(regionId)).region;
    await update(world.caller, { regionId, version, dryRun: false, offPeak }, null);
  };
  await setWindows(daily(opensAtMs, opensAtMs + 2 * HOUR_MS));
  const { instances } = world.running.control;
  return {
    world,
    opensAtMs,
    closesAtMs: opensAtMs + 2 * HOUR_MS,
    setWindows,
    goTo: (atMs: number): void => void (clock.aheadMs += Math.max(0, atMs - world.now())),
    launch: async (more: { resume?: boolean } = {}): Promise<string> => {
      const input = world.launchInput({ billing: { ...tide, ...more } });
      return (await instances.launch(world.caller, input, null)).instanceId;
    },
    start: (instanceId: string) => instances.start(world.caller, { instanceId }, null),
    stop: (instanceId: string) => instances.stop(world.caller, { instanceId }, null),
    row: async (id: string) =>
      instanceFromRow(
        await world.store.read.selectFrom('instance').selectAll().where('id', '=', id).executeTakeFirstOrThrow(),
      ),
    used: async () => (await regionsWithUsage(world.store.read))[0]?.used.cpuMilli,
    events: async (id: string, kind: string) => {
      const found = world.store.read.selectFrom('event').select('data').where('subjectId', '=', id);
      return (await found.where('kind', '=', kind).orderBy('id').execute()).map(({ data }) => JSON.parse(data));
    },
    states: async (id: string) => {
      const found = world.store.read.selectFrom('usagePeriod').select(['meter', 'state']).where('subjectId', '=', id);
      return (await found.orderBy('id').execute()).map(({ meter, state }) => `${meter} ${state}`);
    },
  };
}

async function noticeIn({ running, caller }: World, instanceId: string): Promise<unknown> {
  const request = { instanceId, command: ['cat', '/run/berth/notice.json'], env: [], stdin: Buffer.of() };
  const limits = { limitMs: 60_000, maxOutputBytes: 1_000 };
  const { stdout } = await running.control.commands.run(caller, { ...request, ...limits }, AbortSignal.timeout(60_000));
  return JSON.parse(stdout.bytes.toString());
}

const waits = hasReason('OffPeakWait');

function hasReason(reason: string) {
  return ({ instanceRuntimeInfo }: { instanceRuntimeInfo: { diagnosisReason: string } }): boolean =>
    instanceRuntimeInfo.diagnosisReason === reason;
}

onBothEngines('off-peak', (open) => {
  test('waits outside of the window without capacity, queue or charge, and starts when it opens', async () => {
    const { world, opensAtMs, closesAtMs, goTo, launch, row, used, states } = await makeTideWorld(await open());
    const id = await launch();
    const shown = (await world.until(id, waits)).instanceRuntimeInfo;
    expect(shown).toMatchObject({ status: 'Initializing', phase: 'Queued' });
    expect(shown.diagnosisMessage).toContain(new Date(opensAtMs).toISOString().replace('.000Z', 'Z'));
    expect(shown.diagnosisMessage).toContain('UTC');
    expect(await row(id)).toMatchObject({ notBeforeMs: opensAtMs, waitsSinceMs: null });
    expect(await used()).toBe(0);
    expect(await world.store.read.selectFrom('instance').select(['id', 'holdsCapacity']).execute()).toEqual([
      { id, holdsCapacity: 0 },
    ]);
    // The start's deadlines count from the opening.
    goTo(opensAtMs - MINUTE_MS);
    await new Promise((resolve) => setTimeout(resolve, 150));
    expect((await world.instance(id)).instanceRuntimeInfo.diagnosisReason).toBe('OffPeakWait');
    expect(await states(id)).toEqual(['compute waiting']);
    goTo(opensAtMs);
    await world.until(id, hasStatus('Running'));
    await settled(world);
    expect(await used()).toBe(1_000);
    expect((await row(id)).requestedAtMs).toBeGreaterThanOrEqual(opensAtMs);
    expect((await states(id)).filter((state) => state === 'compute charged')).toHaveLength(1);
    expect(await noticeIn(world, id)).toEqual({});
    expect((await row(id)).observed.runningSinceMs).toBeLessThan(closesAtMs);
    await expectConsistent(world);
  });

  test('moves the waits with the windows, within seconds', async () => {
    const { world, opensAtMs, closesAtMs, setWindows, launch, row } = await makeTideWorld(await open());
    const id = await launch();
    await world.until(id, waits);
    await setWindows(daily(opensAtMs + HOUR_MS, closesAtMs));
    await eventually(async () => (await row(id)).notBeforeMs === opensAtMs + HOUR_MS);
    await setWindows({ timeZone: 'UTC', windows: [] });
    await eventually(async () => (await row(id)).notBeforeMs === NEVER_MS);
    await setWindows(daily(opensAtMs - 4 * HOUR_MS, closesAtMs));
    await world.until(id, hasStatus('Running'));
    expect(await row(id)).toMatchObject({ notBeforeMs: null });
  });

  test('announces the end of the window, stops then, and starts in the next one where asked', async () => {
    const tideWorld = await makeTideWorld(await open());
    const { world, opensAtMs, closesAtMs, goTo, launch, stop, row, events, states } = tideWorld;
    const [once, daily, stopped] = [await launch(), await launch({ resume: true }), await launch({ resume: true })];
    goTo(opensAtMs);
    for (const id of [once, daily, stopped]) await world.until(id, hasStatus('Running'));
    goTo(closesAtMs - 11 * MINUTE_MS);
    await settled(world);
    expect(await events(once, 'instance.offPeakEnding')).toEqual([]);
    goTo(closesAtMs - 10 * MINUTE_MS);
    await eventually(async () => (await events(once, 'instance.offPeakEnding')).length === 1);
    expect(await events(once, 'instance.offPeakEnding')).toEqual([
      { stopsAtUnixMs: closesAtMs, reason: expect.any(String) },
    ]);
    await eventually(async () => JSON.stringify(await noticeIn(world, once)) !== '{}');
    expect(await noticeIn(world, once)).toEqual({
      kind: 'OffPeakEnded',
      atUnixMs: closesAtMs,
      reason: 'the off-peak window of the region ends',
    });
    goTo(closesAtMs);
    for (const id of [once, daily, stopped]) {
      const { instanceRuntimeInfo } = await world.until(id, hasStatus('Stopped'));
      expect(instanceRuntimeInfo.diagnosisReason).toBe('OffPeakEnded');
      expect((await row(id)).operation).toMatchObject({ kind: 'stop', cause: 'OffPeakEnded' });
    }
    expect((await states(once)).at(-1)).toBe('disks charged');
    // The owner starts one, which waits, and stops it: it stays stopped.
    await tideWorld.start(stopped);
    await world.until(stopped, waits);
    expect(await row(stopped)).toMatchObject({ windowEndsAtMs: null });
    await stop(stopped);
    await world.until(stopped, hasStatus('Stopped'));
    goTo(opensAtMs + 24 * HOUR_MS);
    await world.until(daily, hasStatus('Running'));
    expect((await row(daily)).operation).toMatchObject({ kind: 'start', cause: 'resume' });
    expect(await noticeIn(world, daily)).toEqual({});
    expect((await world.instance(once)).instanceRuntimeInfo.status).toBe('Stopped');
    expect((await world.instance(stopped)).instanceRuntimeInfo.status).toBe('Stopped');
    expect(await events(once, 'instance.offPeakEnding')).toHaveLength(1);
    await settled(world);
    await expectConsistent(world);
  });

  test('takes an announcement back when the window is prolonged', async () => {
    const { world, opensAtMs, closesAtMs, setWindows, goTo, launch, row } = await makeTideWorld(await open());
    const id = await launch();
    goTo(opensAtMs);
    await world.until(id, hasStatus('Running'));
    goTo(closesAtMs - ENDING_NOTICE_MS);
    await eventually(async () => (await row(id)).windowEndsAtMs === closesAtMs);
    await setWindows(daily(opensAtMs, closesAtMs + HOUR_MS));
    await eventually(async () => (await row(id)).windowEndsAtMs === null);
    await eventually(async () => JSON.stringify(await noticeIn(world, id)) === '{}');
    goTo(closesAtMs + MINUTE_MS);
    await settled(world);
    expect((await world.instance(id)).instanceRuntimeInfo.status).toBe('Running');
  });

  test('stops and terminates an instance that waits, and frees what it had', async () => {
    const { world, opensAtMs, goTo, launch, stop, start, row } = await makeTideWorld(await open());
    const [one, other] = [await launch(), await launch()];
    await world.until(one, waits);
    await stop(one);
    await world.until(one, hasStatus('Stopped'));
    await world.running.control.instances.terminate(world.caller, { instanceId: other }, null);
    await world.until(other, ({ instanceRuntimeInfo }) => instanceRuntimeInfo.phase === 'Cleaned');
    goTo(opensAtMs);
    await settled(world);
    await expectConsistent(world);
    expect(await row(one)).toMatchObject({ desired: 'stopped', notBeforeMs: null });
    await start(one);
    await world.until(one, hasStatus('Running'));
  });

  test('goes back from the capacity queue to the wait for the next window', async () => {
    const { world, opensAtMs, closesAtMs, goTo, launch, row } = await makeTideWorld(await open());
    const large = world.types.find(({ cpuCores }) => cpuCores === 4)?.id ?? '';
    const { instances } = world.running.control;
    const { instanceId: holder } = await instances.launch(
      world.caller,
      world.launchInput({ instanceTypeId: large }),
      null,
    );
    // A start that lasts over the jump of hours fails, and frees its place.
    await world.until(holder, hasStatus('Running'));
    const id = await launch();
    goTo(opensAtMs);
    await world.until(id, hasReason('NoCapacity'));
    expect(await row(id)).toMatchObject({ notBeforeMs: null, waitsUntilMs: null });
    goTo(closesAtMs);
    await world.until(id, waits);
    expect(await row(id)).toMatchObject({ notBeforeMs: opensAtMs + 24 * HOUR_MS, waitsSinceMs: null });
    await instances.terminate(world.caller, { instanceId: holder }, null);
    goTo(opensAtMs + 24 * HOUR_MS);
    await world.until(id, hasStatus('Running'));
    await settled(world);
    await expectConsistent(world);
  });

  test('refuses the mode where an administrator removed the windows, and says what works', async () => {
    const { world, setWindows, launch, stop, start } = await makeTideWorld(await open());
    const id = await launch();
    await stop(id);
    await world.until(id, hasStatus('Stopped'));
    await setWindows({ timeZone: 'UTC', windows: [] });
    await expectRefused(launch(), 'field_value', /tidePerHour.*no off-peak windows; send perHour/);
    await expectRefused(start(id), 'not_now', /no off-peak windows; ask an administrator/);
  });

  test('gives a region the nights of the host at its first run, and never again', async () => {
    const store = await open();
    const world = await makeWorld(store, { start: false });
    const { regionId } = world.drivers;
    const { update, get } = world.running.control.regionAdministration;
    const runAgain = (): Promise<void> =>
      saveDefaultRegion(store, aRegion({ id: regionId }), thisMachine(), {
        nodePorts: { first: 30_000, last: 30_999 },
        cpuOvercommit: 1,
      });
    const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
    expect((await get(regionId)).region.offPeak).toMatchObject(defaultOffPeak(timeZone));
    for (const offPeak of [null, { timeZone: 'UTC', windows: [] }]) {
      const { version } = (await get(regionId)).region;
      await update(world.caller, { regionId, version, dryRun: false, offPeak }, null);
      await runAgain();
      expect((await get(regionId)).region.offPeak?.windows ?? []).toEqual([]);
    }
  });
});
