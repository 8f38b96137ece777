import { expect, test } from 'vitest';
import { makeChargeUsage } from '../../../src/control/money/charge-usage.ts';
import { makeMetering, meteredInstance, type Metering } from '../../../src/control/money/metering.ts';
import { realTime } from '../../../src/control/kernel/time.ts';
import { rateOfInstance } from '../../../src/domain/money/meter.ts';
import { saveSweep } from '../../../src/store/tables/watches.ts';
import { instanceFromRow } from '../../../src/store/tables/instances.ts';
import type { Store } from '../../../src/store/store.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { hasStatus, makeWorld, type World } from '../../fixtures/control.ts';
import { settled } from './consistency.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

const ignore = (): void => {};
const silent = { debug: ignore, info: ignore, warn: ignore, error: ignore };

async function movable(store: Store) {
  const clock = { aheadMs: 0 };
  return { world: await makeWorld(store, { clock }), clock };
}

async function running(world: World): Promise<string> {
  const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
  await world.until(instanceId, hasStatus('Running'));
  await settled(world);
  return instanceId;
}

/** Running, with nothing in the background: each step is the test's. */
async function atRest(world: World): Promise<string> {
  const id = await running(world);
  await world.running.stop();
  return id;
}

const periodsOf = ({ store }: World, id: string) =>
  store.read.selectFrom('usagePeriod').selectAll().where('subjectId', '=', id).orderBy('id').execute();

/** Charging by a clock that the test moves, beside the world's own. */
function chargingOf(world: World, clock: { aheadMs: number }) {
  const time = {
    ...realTime,
    now: () => Date.now() + clock.aheadMs,
    elapsed: () => performance.now() + clock.aheadMs,
  };
  const regions = { all: () => [world.drivers], of: () => world.drivers };
  const metering = makeMetering({ time, regions, isBilled: true });
  const makeCharge = () => makeChargeUsage({ store: world.store, regions, metering, log: silent, time });
  return { time, metering, makeCharge };
}

/** Ends the run, and returns the time at which its charge ends, and whether a gap follows. */
async function endRun(world: World, id: string, metering: Metering, atMs: number) {
  const row = await world.store.read.selectFrom('instance').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
  const instance = instanceFromRow(row);
  const event = { accountId: row.ownerId, atMs, kind: 'instance.observed', subjectId: id, data: {} };
  const ended = { before: rateOfInstance(instance), after: null };
  await world.store.write((tx) => metering.appendEvent(tx, event, meteredInstance(instance), ended));
  const periods = await periodsOf(world, id);
  const charged = periods.findLast(({ state }) => state === 'charged');
  return { endsAtMs: charged?.closedAtMs, isGap: periods.at(-1)?.state === 'gap' };
}

onBothEngines('metering', (open) => {
  test('records free states, charges the time as Running, and charges kept disks after a stop', async () => {
    const { world, clock } = await movable(await open());
    const id = await running(world);
    clock.aheadMs += 90_500;
    await world.running.control.instances.stop(world.caller, { instanceId: id }, null);
    await world.until(id, hasStatus('Stopped'));
    const periods = await periodsOf(world, id);
    expect(periods.map(({ meter, state }) => `${meter} ${state}`)).toEqual(
      expect.arrayContaining(['compute starting', 'compute charged', 'disks charged']),
    );
    const charged = periods.find(({ meter, state }) => meter === 'compute' && state === 'charged');
    const ms = (charged?.closedAtMs ?? 0) - (charged?.openedAtMs ?? 0);
    expect(ms).toBeGreaterThanOrEqual(90_500);
    expect(charged?.chargedMicros).toBe(Math.floor(((charged?.priceMicros ?? 0) * ms) / HOUR_MS));
    expect(await world.running.control.access.balance(world.caller)).toMatchObject({
      balance: 1_000 - (charged?.chargedMicros ?? 0) / 1e6,
    });
  });

  test('books full minutes while a sweep has seen the engine, once, and no gap of more than an hour', async () => {
    const { world, clock } = await movable(await open());
    const id = await atRest(world);
    const { regionId, health } = world.drivers;
    const { time, metering, makeCharge } = chargingOf(world, clock);
    const charge = () => makeCharge()();
    const linesOf = () =>
      world.store.read.selectFrom('entry').selectAll().where('subjectId', '=', id).orderBy('id').execute();
    const bookedUntil = async () => (await linesOf()).at(-1)?.untilMs;

    clock.aheadMs += 5 * MINUTE_MS;
    await charge();
    expect(await linesOf(), 'no sweep has seen the container').toEqual([]);

    metering.saw(regionId, time.now());
    const untilMs = Math.floor(time.now() / MINUTE_MS) * MINUTE_MS;
    await charge();
    const lines = await linesOf();
    const period = (await periodsOf(world, id)).find(({ state }) => state === 'charged');
    const micros = lines.reduce((sum, { amountMicros }) => sum + amountMicros, 0);
    expect(await bookedUntil()).toBe(untilMs);
    expect(micros).toBe(Math.floor(((period?.priceMicros ?? 0) * (untilMs - (period?.openedAtMs ?? 0))) / HOUR_MS));
    metering.saw(regionId, time.now());
    await charge();
    expect(await linesOf(), 'a repeated run').toEqual(lines);

    clock.aheadMs += 2 * MINUTE_MS;
    health.answers = false;
    await charge();
    expect(await linesOf(), 'the engine is away').toEqual(lines);
    health.answers = true;
    await charge();
    expect(await linesOf(), 'the engine is back, not swept yet').toEqual(lines);
    metering.saw(regionId, time.now());
    await charge();
    expect(await bookedUntil()).toBe(untilMs + 2 * MINUTE_MS);

    clock.aheadMs += 2 * MINUTE_MS;
    metering.saw(regionId, time.now(), { unseen: new Set([id]) });
    await charge();
    expect(await bookedUntil(), 'its node does not answer').toBe(untilMs + 2 * MINUTE_MS);
    metering.saw(regionId, time.now());
    await charge();
    expect(await bookedUntil(), 'the same run went on').toBe(untilMs + 4 * MINUTE_MS);

    const before = await linesOf();
    const exact = ((period?.priceMicros ?? 0) * (untilMs + 4 * MINUTE_MS - (period?.openedAtMs ?? 0))) / HOUR_MS;
    expect(
      before.reduce((sum, { amountMicros }) => sum + amountMicros, 0),
      'rounded down once',
    ).toBe(Math.floor(exact));
    clock.aheadMs += 2 * HOUR_MS;
    metering.saw(regionId, time.now());
    await charge();
    expect(await linesOf(), 'a gap').toEqual(before);
    const last = await periodsOf(world, id);
    expect(last.slice(-3).map((one) => [one.state, one.openedAtMs, one.closedAtMs])).toEqual([
      ['charged', period?.openedAtMs, untilMs + 4 * MINUTE_MS],
      ['gap', untilMs + 4 * MINUTE_MS, untilMs + 4 * MINUTE_MS + 2 * HOUR_MS],
      ['charged', untilMs + 4 * MINUTE_MS + 2 * HOUR_MS, null],
    ]);
    const notices = await world.store.read.selectFrom('event').selectAll().where('kind', '=', 'billing.gap').execute();
    expect(notices.map(({ data }) => JSON.parse(data))).toEqual([{ periods: 1, freeHours: 2 }]);
  });

  test('books an instance that is kept due or leased two minutes later, if the sweep saw it run', async () => {
    const { world, clock } = await movable(await open());
    const id = await atRest(world);
    const { regionId } = world.drivers;
    const { time, metering, makeCharge } = chargingOf(world, clock);
    const charge = makeCharge();
    const bookedUntil = async () =>
      (await periodsOf(world, id)).findLast(({ meter }) => meter === 'compute')?.chargedUntilMs;
    metering.saw(regionId, time.now());
    await charge();
    await world.running.stop();
    for (const held of [{ dueAtMs: 1 }, { dueAtMs: null, leaseOwner: 'other', leaseToken: 't', leaseUntilMs: 1e15 }]) {
      await world.store.write((tx) => tx.updateTable('instance').set(held).where('id', '=', id).execute());
      const before = await bookedUntil();
      clock.aheadMs += 2 * MINUTE_MS;
      metering.saw(regionId, time.now(), { running: new Set([id]) });
      await charge();
      expect(await bookedUntil(), 'a reconcile may find its end').toBe(before);
      clock.aheadMs += 2 * MINUTE_MS;
      metering.saw(regionId, time.now());
      await charge();
      expect(await bookedUntil(), 'its container was not seen').toBe(before);
      clock.aheadMs += MINUTE_MS;
      metering.saw(regionId, time.now(), { running: new Set([id]) });
      await charge();
      expect(await bookedUntil()).toBe(Math.floor(time.now() / MINUTE_MS) * MINUTE_MS);
    }
  });

  test('charges what ended while the engine was away up to the last booked minute', async () => {
    const { world, clock } = await movable(await open());
    const id = await atRest(world);
    const { time, metering, makeCharge } = chargingOf(world, clock);
    const charge = makeCharge();
    clock.aheadMs += 5 * MINUTE_MS;
    metering.saw(world.drivers.regionId, time.now());
    await charge();
    const booked = (await periodsOf(world, id)).find(({ state }) => state === 'charged');
    world.drivers.health.answers = false;
    await charge();
    clock.aheadMs += 5 * MINUTE_MS;
    world.drivers.health.answers = true;
    await endRun(world, id, metering, time.now());
    const [charged, gap] = (await periodsOf(world, id)).slice(-2);
    expect(charged).toMatchObject({ closedAtMs: booked?.chargedUntilMs, chargedMicros: booked?.chargedMicros });
    expect(gap).toMatchObject({ state: 'gap', openedAtMs: booked?.chargedUntilMs, chargedMicros: 0 });
  });

  test('goes on from the last sweep of the process before, but for what it did not see', async () => {
    const { world, clock } = await movable(await open());
    const id = await atRest(world);
    const { regionId } = world.drivers;
    const { time } = chargingOf(world, clock);
    const bookedUntil = async () => (await periodsOf(world, id)).findLast(({ meter }) => meter === 'compute');
    const sweptBy = async (unseen: string[]): Promise<number> => {
      clock.aheadMs += 5 * MINUTE_MS;
      const seenAtMs = time.now();
      await world.store.write((tx) => saveSweep(tx, { regionId, seenAtMs, unseen: new Set(unseen) }));
      return seenAtMs;
    };
    const another = async () => {
      const { metering, makeCharge } = chargingOf(world, clock);
      await metering.takeOver(world.store.read);
      await makeCharge()();
      return metering;
    };
    const before = await bookedUntil();
    await sweptBy([id]);
    await another();
    expect((await bookedUntil())?.chargedUntilMs, 'its node does not answer').toBe(before?.chargedUntilMs);
    const seenAtMs = await sweptBy([]);
    clock.aheadMs += 5 * MINUTE_MS;
    const metering = await another();
    const untilMs = Math.floor(seenAtMs / MINUTE_MS) * MINUTE_MS;
    expect((await bookedUntil())?.chargedUntilMs).toBe(untilMs);
    expect(await endRun(world, id, metering, time.now()), 'nobody has looked since').toEqual({
      endsAtMs: untilMs,
      isGap: true,
    });
  });

  test('charges what the first sweep misses up to the last booked minute, though it ends later', async () => {
    const { world, clock } = await movable(await open());
    const [lost, there] = [await running(world), await atRest(world)];
    const { regionId } = world.drivers;
    const { time, metering, makeCharge } = chargingOf(world, clock);
    const runs = { running: new Set([there]), missing: new Set([lost]) };
    metering.saw(regionId, time.now(), runs);
    await makeCharge()();
    clock.aheadMs += 2 * MINUTE_MS;
    metering.saw(regionId, time.now(), runs);
    const booked = (await periodsOf(world, lost)).findLast(({ state }) => state === 'charged')?.chargedUntilMs;
    const atMs = time.now();
    expect(await endRun(world, there, metering, atMs)).toEqual({ endsAtMs: atMs, isGap: false });
    expect(await endRun(world, lost, metering, atMs)).toEqual({ endsAtMs: booked, isGap: true });
  });

  test('neither charges nor refunds a step of the system clock', async () => {
    const { world, clock } = await movable(await open());
    const id = await atRest(world);
    const steps = { aheadMs: 0 };
    const elapsed = () => performance.now() + clock.aheadMs;
    const time = { ...realTime, now: () => Date.now() + clock.aheadMs + steps.aheadMs, elapsed };
    const regions = { all: () => [world.drivers], of: () => world.drivers };
    const chargedMs = async (): Promise<number> => {
      const charged = (await periodsOf(world, id)).filter(({ state }) => state === 'charged');
      return charged.reduce((sum, one) => sum + (one.chargedMicros * HOUR_MS) / one.priceMicros, 0);
    };
    const run = async (metering: Metering): Promise<void> => {
      metering.saw(world.drivers.regionId, metering.clock.now());
      await makeChargeUsage({ store: world.store, regions, metering, log: silent, time })();
    };
    for (const stepMs of [30 * MINUTE_MS, -30 * MINUTE_MS, 3_650 * 24 * HOUR_MS, -3_660 * 24 * HOUR_MS]) {
      const metering = makeMetering({ time, regions, isBilled: true });
      const before = await chargedMs();
      steps.aheadMs += stepMs;
      clock.aheadMs += 10 * MINUTE_MS;
      await run(metering);
      await run(makeMetering({ time, regions, isBilled: true }));
      const ms = (await chargedMs()) - before;
      expect(ms).toBeGreaterThan(8 * MINUTE_MS);
      expect(ms).toBeLessThan(12 * MINUTE_MS);
    }
  });

  test('charges kept disks after a run that cost nothing from now, though the clock was set ahead meanwhile', async () => {
    const { world } = await movable(await open());
    const id = await atRest(world);
    await world.store.write((tx) =>
      tx
        .updateTable('usagePeriod')
        .set({ isCharging: 0, state: 'paidAhead' })
        .where('closedAtMs', 'is', null)
        .execute(),
    );
    const steps = { aheadMs: 0 };
    const time = { now: () => Date.now() + steps.aheadMs, elapsed: () => performance.now() };
    const metering = makeMetering({ time, regions: { of: () => world.drivers }, isBilled: true });
    const untilMs = time.now() + 10_000;
    steps.aheadMs = 5 * MINUTE_MS;
    metering.clock.applyStep(metering.clock.stepMs());
    const row = await world.store.read
      .selectFrom('instance')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    const instance = instanceFromRow(row);
    const stopped = { ...instance, desired: 'stopped', observed: { ...instance.observed, status: 'Stopped' } } as const;
    const change = { before: rateOfInstance(instance), after: rateOfInstance(stopped), untilMs };
    const atMs = time.now();
    const event = { accountId: row.ownerId, atMs, kind: 'instance.observed', subjectId: id, data: {} };
    await world.store.write((tx) => metering.appendEvent(tx, event, meteredInstance(instance), change));
    expect((await periodsOf(world, id)).at(-1)).toMatchObject({ meter: 'disks', state: 'charged', openedAtMs: atMs });
  });
});
