/** Metrics of the simulated engine, sampled on its clock, in both stores. */
import { describe, expect, test } from 'vitest';
import { makeFigures } from '../../../src/control/compute/inside/metrics/figures.ts';
import { makeMetrics } from '../../../src/control/compute/inside/metrics/metrics.ts';
import { makeSampler, type Sampler } from '../../../src/control/compute/inside/metrics/sampler.ts';
import { makeRegions } from '../../../src/control/kernel/regions.ts';
import { MINUTE_MS, HOUR_MS } from '../../../src/domain/kernel/durations.ts';
import { SAMPLE_MS, figureNames, type FigureName } from '../../../src/domain/compute/metrics.ts';
import { instanceId as idOf, instanceIdOf, userId, type InstanceId } from '../../../src/domain/kernel/ids.ts';
import type { EngineSpec } from '../../../src/engines/contract.ts';
import { makeVirtualClock } from '../../fixtures/virtual-clock.ts';
import { regionWithUsage } from '../../../src/store/tables/catalog.ts';
import { insertInstance } from '../../../src/store/tables/instances.ts';
import { allotNodePort } from '../../../src/store/tables/ports.ts';
import { insertEntry, plainEntry } from '../../../src/store/tables/ledger.ts';
import { insertPeriod } from '../../../src/store/tables/usage-periods.ts';
import { realTime } from '../../../src/control/kernel/time.ts';
import type { Store } from '../../../src/store/store.ts';
import { anInstance } from '../../unit/domain/instance-fixture.ts';
import { noSignal, specOf } from '../../unit/engines/simulated-spec.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { eventually, hasStatus, makeWorld } from '../../fixtures/control.ts';
import { sweeping } from './sweeping.ts';

/** A full hour, for readable times. */
const START = 1_700_002_800_000;
const DAY_MS = 24 * HOUR_MS;

/** Running instances, and a sampler driven by the test. */
async function makeFixture(store: Store, count = 1) {
  const clock = makeVirtualClock(START);
  const world = await makeWorld(store, { start: false, engine: { clock } });
  const { engine, drivers } = world;
  const region = (await regionWithUsage(store.read, drivers.regionId))?.region ?? expect.fail();
  const regions = makeRegions([{ ...drivers, health: { probe: null, answers: true, text: '' } }]);
  const date = { aheadMs: 0 };
  const now = (): number => clock.now() + date.aheadMs;
  const deps = { ...sweeping(world, { now }).deps, regions };
  const specs = new Map<InstanceId, EngineSpec>();
  for (let at = 0; at < count; at++) {
    const id = instanceIdOf(`0f8fad5b-d9cb-469f-a165-${String(at).padStart(12, '0')}`);
    const spec = { ...specOf(''), id, imageRef: 'berth.local/test:1' };
    specs.set(id, spec);
    const { spec: requested, observed } = anInstance();
    const one = anInstance({
      id,
      ownerId: userId(world.caller.accountId),
      spec: { ...requested, regionId: region.id },
      observed: { ...observed, status: 'Running' },
    });
    await store.write(async (tx) => {
      await insertInstance(tx, one, region, { notebookToken: '', dueAtMs: null });
      await allotNodePort(tx, region.id, 30_000 + at, id, 22);
    });
    await clock.run(engine.ensureImage(spec.imageRef, () => {}, noSignal()));
    await clock.run(engine.ensure(spec, noSignal()));
  }
  // Just after the start of an hour.
  const begunMs = Math.ceil(clock.now() / HOUR_MS) * HOUR_MS;
  await clock.advance(begunMs + 300 - clock.now());
  const ids = [...specs.keys()];
  const id = ids[0] ?? expect.fail();
  let sampler = makeSampler(deps);
  const metrics = () => makeMetrics({ store, time: { now }, sampler });
  return {
    world,
    engine,
    store,
    clock,
    date,
    begunMs,
    ids,
    id,
    get sampler(): Sampler {
      return sampler;
    },
    /** A restarted server has nothing but the store. */
    again() {
      sampler = makeSampler(deps);
    },
    async pass(ms: number): Promise<void> {
      const endMs = clock.now() + ms;
      for (; clock.now() < endMs; await clock.advance(SAMPLE_MS)) await sampler.tick();
    },
    halt: (one: InstanceId) => clock.run(engine.halt(one, 0, noSignal())),
    async restart(one: InstanceId): Promise<void> {
      await clock.run(engine.halt(one, 0, noSignal()));
      await clock.run(engine.ensure(specs.get(one) ?? expect.fail(), noSignal()));
    },
    read: (request: { fromMs?: number; toMs?: number; stepMs?: number } = {}, of = id) =>
      metrics().read(world.caller, of, request),
    /** Means of a figure by step. */
    async series(name: FigureName, request: { fromMs?: number; toMs?: number; stepMs?: number } = {}, of = id) {
      const { steps } = await metrics().read(world.caller, of, request);
      return steps.map((step) => {
        const value = step?.mean[figureNames.indexOf(name)] ?? Number.NaN;
        return Number.isNaN(value) ? null : value;
      });
    },
    count: async (table: 'metricMinute' | 'metricHour') =>
      (await store.read.selectFrom(table).selectAll().execute()).length,
  };
}

const rates = { receivedBytesPerSecond: 6_000, sentBytesPerSecond: 4_000, readBytesPerSecond: 1_000 } as const;

onBothEngines('figures of many instances', (open) => {
  test('have the load of a day by quarters of an hour, the same after a restart of the server', async () => {
    const fixture = await makeFixture(await open(), 2);
    const { world, ids, begunMs } = fixture;
    const figuresOf = () => {
      const time = { ...realTime, now: fixture.clock.now };
      return makeFigures({ store: fixture.store, time, sampler: fixture.sampler });
    };
    const figures = figuresOf();
    const read = (from = figures) => from.read(world.caller, [...ids, 'unknown', ids[0] ?? '']);
    const known = async (from = figures) => {
      const all = await read(from);
      return all.map(({ fromUnixMs, stepSeconds, cpuPercent, ...rest }) => ({
        ...rest,
        steps: cpuPercent.flatMap((value, nth) =>
          value === null ? [] : [[fromUnixMs + nth * stepSeconds * 1_000 - begunMs, value]],
        ),
      }));
    };
    await fixture.pass(HOUR_MS + 20 * MINUTE_MS);
    const first = await read();
    expect(first.map(({ instanceId }) => instanceId)).toEqual(ids);
    expect(first[0]).toMatchObject({ stepSeconds: 900, gpuPercent: [] });
    expect(first[0]?.cpuPercent).toHaveLength(96);
    const quarters = (count: number) => Array.from({ length: count }, (_, nth) => [nth * 15 * MINUTE_MS, 2]);
    expect((await known())[0]?.steps).toEqual(quarters(6));
    // Now some steps are final, and the rows of their hours are not read again.
    await fixture.pass(3 * HOUR_MS);
    const [kept, fresh] = [await known(), await known(figuresOf())];
    expect(kept).toEqual(fresh);
    expect(kept[1]?.steps).toEqual(quarters(18));
    fixture.again();
    await fixture.pass(SAMPLE_MS);
    expect((await known(figuresOf()))[0]?.steps).toEqual(quarters(18));
    expect(await figures.read(await world.account('mallory'), ids)).toEqual([]);
  });

  test('have what was charged since midnight, and since the launch', async () => {
    const fixture = await makeFixture(await open(), 2);
    const { world, store, id, clock } = fixture;
    const { accountId } = world.caller;
    const entry = {
      ...plainEntry,
      accountId,
      kind: 'prepayment',
      fromLedger: 'cash',
      toLedger: 'revenue',
      subjectId: id,
      meter: 'compute',
    };
    await store.write(async (tx) => {
      await insertEntry(tx, { ...entry, atMs: clock.now() - 2 * DAY_MS, amountMicros: 3_000_000 });
      await insertEntry(tx, { ...entry, atMs: clock.now(), amountMicros: 500_000 });
      const refund = { ...entry, kind: 'refund', fromLedger: 'revenue', toLedger: 'cash', amountMicros: 100_000 };
      await insertEntry(tx, { ...refund, atMs: clock.now() });
      await insertPeriod(tx, {
        accountId,
        subjectId: id,
        subjectName: 'a',
        meter: 'compute',
        state: 'charged',
        regionId: world.drivers.regionId,
        typeId: 't',
        priceMicros: 1,
        quantity: 1,
        unitMs: HOUR_MS,
        openedAtMs: clock.now() - 3 * DAY_MS,
        closedAtMs: clock.now() - 2 * DAY_MS,
        openSeq: 1,
        closeSeq: 2,
        chargedUntilMs: clock.now() - 2 * DAY_MS,
        carry: 0,
        isCharging: 0,
      });
      await tx.updateTable('usagePeriod').set({ chargedMicros: 7_000_000 }).where('subjectId', '=', id).execute();
    });
    const time = { ...realTime, now: clock.now };
    const figures = makeFigures({ store, time, sampler: fixture.sampler });
    expect(await figures.read(world.caller, fixture.ids)).toMatchObject([
      { instanceId: id, costToday: 0.4, costSoFar: 10.4 },
      { costToday: 0, costSoFar: 0 },
    ]);
  });
});

onBothEngines('figures of a running instance', (open) => {
  test('has a sample every 15 seconds, with rates', async () => {
    const fixture = await makeFixture(await open());
    await fixture.pass(5 * MINUTE_MS);
    const of = { fromMs: fixture.begunMs, toMs: fixture.begunMs + 5 * MINUTE_MS };
    for (const [name, rate] of Object.entries(rates)) {
      const series = await fixture.series(name as keyof typeof rates, of);
      expect(series, name).toHaveLength(20);
      expect(series.slice(1), name).toEqual(Array(19).fill(rate));
    }
    expect((await fixture.series('cpuMilli', of)).at(-1)).toBe(20);
    expect(await fixture.series('receivedBytesPerSecond', { ...of, stepMs: MINUTE_MS })).toEqual(Array(5).fill(6_000));
    const { now, cpuLimitMilli, gpuCount, stepMs } = await fixture.read();
    expect({ cpuLimitMilli, gpuCount, stepMs }).toEqual({ cpuLimitMilli: 1_000, gpuCount: 0, stepMs: SAMPLE_MS });
    expect(now).toMatchObject({ usage: { processLimit: 100, memoryLimitBytes: 1024 ** 3 } });
    expect(fixture.clock.now() - (now?.atMs ?? 0)).toBeLessThanOrEqual(2 * SAMPLE_MS);
  });

  test('has a gap, never zeros, during an engine outage', async () => {
    const fixture = await makeFixture(await open());
    await fixture.pass(MINUTE_MS);
    fixture.engine.host.goAway(2 * MINUTE_MS);
    await fixture.pass(MINUTE_MS);
    expect((await fixture.read()).now, 'no current sample').toBeNull();
    await fixture.pass(MINUTE_MS);
    fixture.engine.host.comeBack();
    await fixture.pass(MINUTE_MS);
    const of = { fromMs: fixture.begunMs, toMs: fixture.begunMs + 4 * MINUTE_MS };
    const [memory, received] = [
      await fixture.series('memoryBytes', of),
      await fixture.series('receivedBytesPerSecond', of),
    ];
    expect(memory.map((value) => value !== null)).toEqual([...all(4, true), ...all(8, false), ...all(4, true)]);
    expect(received.slice(1)).toEqual([...all(3, 6_000), ...all(8, null), null, ...all(3, 6_000)]);
    expect(await fixture.series('memoryBytes', { ...of, stepMs: MINUTE_MS })).toEqual([
      expect.any(Number),
      null,
      null,
      expect.any(Number),
    ]);
  });

  test('has a gap while nothing runs, even before the row shows it', async () => {
    const fixture = await makeFixture(await open());
    await fixture.pass(MINUTE_MS);
    await fixture.halt(fixture.id);
    await fixture.pass(MINUTE_MS);
    const series = await fixture.series('memoryBytes', { fromMs: fixture.begunMs, stepMs: MINUTE_MS });
    expect(series.slice(0, 2)).toEqual([expect.any(Number), null]);
  });

  test('continues after a restart of the instance resets its counters', async () => {
    const fixture = await makeFixture(await open());
    await fixture.pass(MINUTE_MS);
    await fixture.restart(fixture.id);
    await fixture.pass(2 * MINUTE_MS);
    const series = await fixture.series('receivedBytesPerSecond', { fromMs: fixture.begunMs + SAMPLE_MS });
    const reported = series.filter((value) => value !== null);
    expect(reported.length).toBeGreaterThanOrEqual(10);
    for (const value of reported) expect(value).toBe(6_000);
  });

  test('survives a server restart, except for the current minute', async () => {
    const fixture = await makeFixture(await open(), 2);
    await fixture.pass(10 * MINUTE_MS);
    await fixture.pass(MINUTE_MS / 2);
    const of = { fromMs: fixture.begunMs, toMs: fixture.begunMs + 12 * MINUTE_MS };
    const before = await fixture.series('memoryBytes', { ...of, toMs: fixture.clock.now() });
    fixture.again();
    await fixture.pass(MINUTE_MS / 2);
    const after = await fixture.series('memoryBytes', { ...of, toMs: fixture.clock.now() });
    expect(after.slice(0, 40)).toEqual(before.slice(0, 40));
    expect(after.slice(0, 40)).not.toContain(null);
    expect(after.slice(40, 42), 'the current minute').toEqual([null, null]);
    expect(after.at(42)).not.toBeNull();
    await fixture.pass(MINUTE_MS);
    const minutes = await fixture.series('memoryBytes', { ...of, stepMs: MINUTE_MS }, fixture.ids[1]);
    expect(minutes).not.toContain(null);
  });

  test('keeps hours by the minute in few rows, across restarts, each written once', async () => {
    const fixture = await makeFixture(await open(), 3);
    await fixture.pass(3 * HOUR_MS + 5 * MINUTE_MS);
    const of = { fromMs: fixture.begunMs, toMs: fixture.begunMs + 3 * HOUR_MS + 4 * MINUTE_MS, stepMs: MINUTE_MS };
    const series = await fixture.series('receivedBytesPerSecond', of);
    expect(series).toEqual(all(184, 6_000));
    expect(await fixture.count('metricHour')).toBe(3 * 3);
    expect(await fixture.count('metricMinute')).toBeLessThanOrEqual(121);
    expect(fixture.sampler.samplesOf(fixture.id).length).toBeLessThanOrEqual(63 * 4);
    expect(fixture.sampler.samplesOf(fixture.id).length).toBeGreaterThanOrEqual(60 * 4);
    const [memory, peak] = await Promise.all([fixture.read(of), fixture.read({ ...of, stepMs: HOUR_MS })]);
    const at = figureNames.indexOf('memoryBytes');
    const most = Math.max(...memory.steps.slice(0, 60).map((step) => step?.max[at] ?? 0));
    expect(peak.steps[0]?.max[at]).toBe(most);
    expect(most).toBeGreaterThan(peak.steps[0]?.mean[at] ?? Infinity);
    fixture.again();
    await fixture.pass(3 * MINUTE_MS);
    expect(await fixture.read(of), 'as before').toEqual({ ...memory, now: expect.anything() });
    expect(await fixture.count('metricHour')).toBe(3 * 3);
  });

  test('deletes samples older than a day', async () => {
    const fixture = await makeFixture(await open());
    await fixture.pass(2 * HOUR_MS + 2 * MINUTE_MS);
    expect(await fixture.count('metricHour')).toBe(2);
    await fixture.clock.advance(DAY_MS);
    await fixture.pass(2 * MINUTE_MS);
    expect(await fixture.count('metricHour')).toBe(1); // its last minutes are a day old
    await fixture.clock.advance(HOUR_MS);
    await fixture.pass(2 * MINUTE_MS);
    expect(await fixture.count('metricHour')).toBe(1); // rows of the current day
    expect(await fixture.count('metricMinute')).toBeLessThanOrEqual(4);
    const old = (await fixture.store.read.selectFrom('metricHour').select('atMs').execute()).map(({ atMs }) => atMs);
    expect(old.every((atMs) => atMs > fixture.begunMs + DAY_MS)).toBe(true);
  });

  test('deletes samples of a terminated instance within a minute, and no others', async () => {
    const fixture = await makeFixture(await open(), 2);
    const [gone, stays] = [fixture.ids[0] ?? '', fixture.ids[1] ?? ''];
    await fixture.pass(HOUR_MS + 2 * MINUTE_MS);
    expect(await fixture.count('metricHour')).toBe(2);
    await fixture.store.write(async (tx) => {
      const released = { desired: 'released', status: 'Terminated', releasedAtMs: fixture.clock.now() };
      await tx.updateTable('instance').set(released).where('id', '=', gone).execute();
    });
    await fixture.pass(MINUTE_MS);
    expect(fixture.sampler.samplesOf(gone)).toEqual([]);
    expect(fixture.sampler.samplesOf(stays).length).toBeGreaterThan(200);
    const rows = await fixture.store.read.selectFrom('metricHour').select('instanceId').execute();
    expect(rows).toEqual([{ instanceId: stays }]);
    await expect(fixture.read({}, idOf(gone))).rejects.toMatchObject({ code: 'not_found' });
  });

  test('survives a clock step back by dropping later samples', async () => {
    const fixture = await makeFixture(await open());
    await fixture.pass(10 * MINUTE_MS);
    fixture.date.aheadMs = -5 * MINUTE_MS;
    await fixture.pass(2 * MINUTE_MS);
    const nowMs = fixture.clock.now() - 5 * MINUTE_MS;
    const times = fixture.sampler.samplesOf(fixture.id).map(({ atMs }) => atMs);
    expect(times).toEqual([...new Set(times)].toSorted((one, other) => one - other));
    expect(times.at(-1)).toBeLessThanOrEqual(nowMs);
    const minutes = await fixture.sampler.minutesOf(fixture.id, fixture.begunMs);
    expect(minutes.map(({ atMs }) => (atMs - fixture.begunMs) / MINUTE_MS)).toEqual([0, 1, 2, 3, 4, 5, 6]);
  });

  test('asks the engine once for all running instances', async () => {
    const calls: number[] = [];
    const fixture = await makeFixture(await open(), 5);
    const { usage } = fixture.engine;
    fixture.engine.usage = (ids, ...more) => {
      calls.push(ids.length);
      return usage(ids, ...more);
    };
    await fixture.pass(MINUTE_MS);
    expect(calls).toEqual(all(4, 5));
  });
});

const all = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value);

describe('metrics of running control', () => {
  onBothEngines('figures', (open) => {
    test('answers from the first sample on, to the owner alone', async () => {
      const clock = { aheadMs: 0 };
      const world = await makeWorld(await open(), { clock, hurry: 20 });
      const { control } = world.running;
      const { instanceId } = await control.instances.launch(world.caller, world.launchInput(), null);
      await world.until(instanceId, hasStatus('Running'));
      clock.aheadMs += SAMPLE_MS;
      const now = async () => (await control.metrics.read(world.caller, instanceId, {})).now;
      await eventually(async () => (await now()) !== null);
      expect((await now())?.usage.memoryBytes).toBeGreaterThan(0);
      const otherAccount = await world.account('stranger');
      for (const id of [instanceId, 'notebook-00000000-0000-4000-8000-000000000000'])
        await expect(control.metrics.read(otherAccount, id, {})).rejects.toMatchObject({ code: 'not_found' });
      await expect(control.metrics.read(world.caller, instanceId, { fromMs: 1 })).rejects.toMatchObject({
        code: 'field_value',
        message: expect.stringMatching(/samples are stored for 24 hours/),
      });
      await control.instances.stop(world.caller, { instanceId }, null);
      await world.until(instanceId, hasStatus('Stopped'));
      expect(await now(), 'a stopped instance has no current sample').toBeNull();
      const { steps } = await control.metrics.read(world.caller, instanceId, {});
      expect(
        steps.some((step) => step !== null),
        'earlier samples remain',
      ).toBe(true);
    });
  });
});
