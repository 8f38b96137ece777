/** What happens when the money of an account ends, and when it comes back. */
import { expect, test } from 'vitest';
import { DAY_MS, HOUR_MS } from '../../../src/domain/kernel/durations.ts';
import { instanceId as idOf } from '../../../src/domain/kernel/ids.ts';
import type { MoneyRules } from '../../../src/domain/money/money-ladder.ts';
import { makeFollowMoney, onlyWithoutMoney, type FollowMoneyDeps } from '../../../src/control/money/follow-money.ts';
import { makeMetering } from '../../../src/control/money/metering.ts';
import { realTime } from '../../../src/control/kernel/time.ts';
import type { Caller } from '../../../src/control/index.ts';
import type { Store } from '../../../src/store/store.ts';
import { setting } from '../../../src/store/tables/catalog.ts';
import { simulatedFault } from '../../../src/engines/simulated/injected-faults.ts';
import { eventually, hasStatus, makeWorld, type World, type WorldOptions } from '../../fixtures/control.ts';
import { atLevel } from '../../fixtures/level.ts';
import { onBothEngines, quietLog } from '../../fixtures/store.ts';
import { billingRows } from '../store/billing-rows.ts';
import { expectRefused } from './access-fixture.ts';
import { outcomesOf } from './capacity-fixture.ts';
import { settled } from './consistency.ts';

const MINUTE_MS = 60_000;
/** Intervals of the booking, the ladder, and the sweep that sees what runs. */
const TASKS_MS = [10_000, 25_000];

const moneyRules: Partial<MoneyRules> = {
  forecastMs: 50 * MINUTE_MS,
  warnMs: 40 * MINUTE_MS,
  noStartsMs: 20 * MINUTE_MS,
};

/** The events of all steps are counted. */
const eventRetentionMs = 365 * 24 * 60 * MINUTE_MS;

/** Runs these tasks without a wait. */
const time = { every: (ms: number, fn: () => void) => realTime.every(TASKS_MS.includes(ms) ? 30 : ms, fn) };

async function movable(store: Store, options: WorldOptions = {}) {
  const clock = { aheadMs: 0 };
  const world = await makeWorld(store, { clock, time, billing: { moneyRules, eventRetentionMs }, ...options });
  const price = world.types[0]?.pricesMicros.perHour ?? 0n;
  return { world, clock, price, hours: (count: number): number => (Number(price) * count) / 1e6 };
}

const accountOf = ({ store }: World, { accountId }: Caller) =>
  store.read.selectFrom('account').selectAll().where('id', '=', accountId).executeTakeFirstOrThrow();

async function kindsOf({ store }: World, { accountId }: Caller): Promise<string[]> {
  const events = store.read.selectFrom('event').select('kind').where('accountId', '=', accountId).orderBy('seq');
  return (await events.execute()).map(({ kind }) => kind).filter((kind) => kind.startsWith('billing.'));
}

const reaches = (world: World, caller: Caller, step: string): Promise<void> =>
  eventually(
    async () => (await accountOf(world, caller)).moneyStep === step,
    async () => JSON.stringify(await accountOf(world, caller)),
  );

/** Spends the money of an hour. Each jump waits for a booking: a gap of an hour is free. */
async function runsOut(world: World, caller: Caller, clock: { aheadMs: number }): Promise<void> {
  const { balanceMicros } = await accountOf(world, caller);
  clock.aheadMs += 40 * MINUTE_MS;
  await eventually(async () => (await accountOf(world, caller)).balanceMicros < balanceMicros / 2);
  clock.aheadMs += 25 * MINUTE_MS;
  await reaches(world, caller, 'stop');
}

/** A later jump of the clock is no time in which Berth was off. */
async function ladderRuns(world: World, clock: { aheadMs: number }): Promise<void> {
  clock.aheadMs += 2 * MINUTE_MS;
  const nowMs = Date.now() + clock.aheadMs;
  await eventually(async () => Number(await setting(world.store.read, 'billing.ladderRanAt')) >= nowMs);
}

/** The money is spent, and the date of the archive has come. */
function reachesArchive({ store }: World, { accountId }: Caller): Promise<unknown> {
  const nowMs = Date.now();
  return store.write((tx) =>
    tx
      .updateTable('account')
      .set({ balanceMicros: 0, moneyStep: 'stop', moneyArchiveAtMs: nowMs, moneyDeleteAtMs: nowMs + 30 * DAY_MS })
      .where('id', '=', accountId)
      .execute(),
  );
}

const setMoney = ({ store }: World, { accountId }: Caller, dollars: number) =>
  store.write((tx) =>
    tx
      .updateTable('account')
      .set({ balanceMicros: Math.round(dollars * 1e6) })
      .where('id', '=', accountId)
      .execute(),
  );

async function launched(world: World, caller: Caller): Promise<string> {
  const { instanceId } = await world.running.control.instances.launch(caller, world.launchInput(), null);
  await world.until(instanceId, hasStatus('Running'));
  return instanceId;
}

const volumeOf = (world: World, caller: Caller, name: string) =>
  world.running.control.volumes.create(
    caller,
    { name, sizeGB: 1, region: world.drivers.regionId, volumeType: 'filesystem' },
    null,
  );

onBothEngines('an account whose money ends', (open) => {
  test('goes from step to step to the deletion at the written date, and each is an event', async () => {
    const { world, clock, hours } = await movable(await open());
    const { control } = world.running;
    const caller = await world.account('poor', hours(65 / 60));
    const { id: volumeId } = JSON.parse((await volumeOf(world, caller, 'data')).volumeText) as { id: string };
    await settled(world);
    const id = await launched(world, caller);
    for (const [minutes, step] of [
      [20, 'forecast'],
      [10, 'warn'],
      [20, 'noStarts'],
    ] as const) {
      clock.aheadMs += minutes * MINUTE_MS;
      await reaches(world, caller, step);
    }
    await expectRefused(control.instances.launch(caller, world.launchInput(), null), 'no_balance', /missing/);
    clock.aheadMs += 30 * MINUTE_MS;
    await reaches(world, caller, 'stop');
    const stopped = await world.until(id, hasStatus('Stopped'));
    expect(stopped.instanceRuntimeInfo).toMatchObject({ diagnosisReason: 'NoMoney' });
    expect(await accountOf(world, caller)).toMatchObject({ balanceMicros: 0 });
    await expectRefused(control.instances.start(caller, { instanceId: id }, null), 'no_balance', /missing/);
    await expectRefused(volumeOf(world, caller, 'more'), 'no_balance', /top up the account/);
    await expectRefused(control.volumes.expand(caller, { id: volumeId, sizeGB: 2 }, null), 'no_balance', /top up/);
    await expectRefused(control.snapshots.create(caller, { volumeId, name: 's' }, null), 'no_balance', /top up/);
    expect(await control.files.list(caller, { id: volumeId, path: '', limit: 5 })).toBeDefined();

    await ladderRuns(world, clock);
    clock.aheadMs += 7 * DAY_MS + MINUTE_MS;
    await reaches(world, caller, 'archive');
    await world.until(id, hasStatus('Archived'));
    clock.aheadMs += 22 * DAY_MS;
    await eventually(async () => (await kindsOf(world, caller)).includes('billing.deletionWarned'));
    expect(await control.volumes.get(caller, { id: volumeId })).toBeDefined();
    const { moneyDeleteAtMs } = await accountOf(world, caller);
    clock.aheadMs = (moneyDeleteAtMs ?? 0) - Date.now() - MINUTE_MS;
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect((await accountOf(world, caller)).moneyStep).toBe('archive');
    clock.aheadMs += 3 * MINUTE_MS;
    await world.until(id, hasStatus('Released'));
    await eventually(() =>
      control.volumes.get(caller, { id: volumeId }).then(
        () => false,
        () => true,
      ),
    );
    expect((await kindsOf(world, caller)).slice(0, 7)).toEqual([
      'billing.forecast',
      'billing.warned',
      'billing.startsRefused',
      'billing.stopped',
      'billing.archived',
      'billing.deletionWarned',
      'billing.deleted',
    ]);
  });

  test('returns at once with money, and then starts again', async () => {
    const { world, clock, hours } = await movable(await open());
    const caller = await world.account('poor', hours(1));
    const id = await launched(world, caller);
    await runsOut(world, caller, clock);
    await world.until(id, hasStatus('Stopped'));
    await setMoney(world, caller, 1_000);
    await world.running.control.instances.start(caller, { instanceId: id }, null);
    await reaches(world, caller, 'none');
    await world.until(id, hasStatus('Running'));
    expect((await kindsOf(world, caller)).at(-1)).toBe('billing.recovered');
    const { moneyArchiveAtMs, moneyDeleteAtMs } = await accountOf(world, caller);
    expect([moneyArchiveAtMs, moneyDeleteAtMs]).toEqual([null, null]);
  });

  test('keeps what it paid ahead', async () => {
    const { world, clock, hours } = await movable(await open());
    const caller = await world.account('poor', hours(1) + 1_000);
    const ahead = { ...world.launchInput(), billing: { chargeMode: 'perDay' as const, duration: 1 } };
    const { instanceId: paid } = await world.running.control.instances.launch(caller, ahead, null);
    await world.until(paid, hasStatus('Running'));
    await setMoney(world, caller, hours(1));
    const id = await launched(world, caller);
    await runsOut(world, caller, clock);
    await world.until(id, hasStatus('Stopped'));
    await new Promise((resolve) => setTimeout(resolve, 200));
    const row = world.store.read.selectFrom('instance').select('desired').where('id', '=', paid);
    expect(await row.executeTakeFirstOrThrow()).toEqual({ desired: 'running' });
  });

  test('loses snapshots, volumes and what is stopped at the deletion, but not what it paid ahead', async () => {
    const { world } = await movable(await open());
    const { control } = world.running;
    const caller = await world.account('poor', 1_000);
    const ahead = { ...world.launchInput(), billing: { chargeMode: 'perDay' as const, duration: 1 } };
    const { instanceId: paid } = await control.instances.launch(caller, ahead, null);
    const id = await launched(world, caller);
    await world.until(paid, hasStatus('Running'));
    const { id: volumeId } = JSON.parse((await volumeOf(world, caller, 'data')).volumeText) as { id: string };
    await settled(world);
    await control.snapshots.create(caller, { volumeId, name: 's' }, null);
    await settled(world);
    const [atMs, balanceMicros] = [Date.now() - DAY_MS, 0];
    const dates = { moneyArchiveAtMs: atMs, moneyDeleteAtMs: atMs, moneyDeleteWarnedAtMs: atMs };
    await world.store.write((tx) =>
      tx
        .updateTable('account')
        .set({ balanceMicros, moneyStep: 'archive', ...dates })
        .where('id', '=', caller.accountId)
        .execute(),
    );
    await world.until(id, hasStatus('Released'));
    const left = (table: 'snapshot' | 'volume') =>
      world.store.read.selectFrom(table).select('id').where('ownerId', '=', caller.accountId).execute();
    await eventually(async () => [...(await left('snapshot')), ...(await left('volume'))].length === 0);
    const running = world.store.read.selectFrom('instance').select('id').where('desired', '=', 'running');
    expect(await running.execute()).toEqual([{ id: paid }]);
  });

  test('is found by all of its costs, however many resources it has', async () => {
    const { world } = await movable(await open());
    // All of it lasts 45 minutes, and a third of it longer than any step.
    const caller = await world.account('poor', 1.125);
    const price = { meter: 'volume', state: 'charged', priceMicros: 1_000, quantity: 1, unitMs: HOUR_MS } as const;
    const { accountId } = caller;
    const nowMs = Date.now();
    const none = { carry: 0, chargedMicros: 0 };
    const since = { accountId, openedAtMs: nowMs, chargedUntilMs: nowMs };
    const period = { ...billingRows.usagePeriod, ...price, ...none, ...since };
    const rows = Array.from({ length: 1_500 }, (_, at) => ({ ...period, id: at + 1_000, subjectId: `v-${at}` }));
    await world.store.write(async (tx) => {
      for (let at = 0; at < rows.length; at += 500)
        await tx
          .insertInto('usagePeriod')
          .values(rows.slice(at, at + 500))
          .execute();
    });
    await reaches(world, caller, 'forecast');
    expect(await kindsOf(world, caller)).toEqual(['billing.forecast']);
  });

  test('loses nothing to a stop or deletion during which money comes', async () => {
    const { world } = await movable(await open());
    const caller = await world.account('poor', 1);
    const regions = { of: () => world.drivers };
    const metering = onlyWithoutMoney(makeMetering({ time: realTime, regions, isBilled: true }));
    const event = { accountId: caller.accountId, atMs: 1, kind: 'billing.tried', subjectId: 'x', data: {} };
    const subject = { name: 'x', regionId: world.drivers.regionId, typeId: '' };
    const append = () =>
      world.store.write((tx) => metering.appendEvent(tx, event, subject, { before: null, after: null }));
    await expectRefused(append(), 'not_now', /money again/);
    expect(await kindsOf(world, caller)).toEqual([]);
    await setMoney(world, caller, 0);
    await append();
    expect(await kindsOf(world, caller)).toEqual(['billing.tried']);
  });

  test('reads the limits of an account before it writes: a look that changes nothing begins no transaction', async () => {
    const { world } = await movable(await open());
    const caller = await world.account('poor', 1);
    await setMoney(world, caller, 0);
    const period = { ...billingRows.usagePeriod, id: 1, accountId: caller.accountId, priceMicros: 1_000_000 };
    await world.store.write((tx) =>
      tx
        .insertInto('usagePeriod')
        .values({ ...period, unitMs: HOUR_MS })
        .execute(),
    );
    let writes = 0;
    const store: Store = { ...world.store, write: (work) => ((writes += 1), world.store.write(work)) };
    const regions = { of: () => world.drivers, all: () => [world.drivers] };
    const metering = makeMetering({ time: realTime, regions, isBilled: true });
    const deps: unknown = { store, metering, regions, time: realTime, log: quietLog };
    // Nothing runs, so that no other part is asked.
    const follow = makeFollowMoney(deps as FollowMoneyDeps);
    await follow();
    expect((await accountOf(world, caller)).moneyStep).toBe('stop');
    await follow();
    writes = 0;
    await follow();
    expect(writes).toBe(0);
  });

  test('has an archive tried once: an instance that could not be saved stays Stopped with its files', async () => {
    const { world } = await movable(await open(), { limits: { maxAttempts: 1 } });
    const { control } = world.running;
    const caller = await world.account('poor', 1_000);
    const ahead = { ...world.launchInput(), billing: { chargeMode: 'perDay' as const, duration: 1 } };
    const { instanceId: later } = await control.instances.launch(caller, ahead, null);
    await world.until(later, hasStatus('Running'));
    const id = await launched(world, caller);
    await control.instances.stop(caller, { instanceId: id }, null);
    await world.until(id, hasStatus('Stopped'));
    const { saveImage } = world.engine;
    world.engine.saveImage = () =>
      Promise.reject(simulatedFault('no_capacity', 'the disk is full', { reason: 'diskFull' }));
    await reachesArchive(world, caller);
    await world.until(
      id,
      ({ instanceRuntimeInfo: { phase, diagnosisReason } }) =>
        phase === 'Stopped' && diagnosisReason === 'ArchiveFailed',
    );
    world.engine.saveImage = saveImage;
    // A later run of the ladder archives what stops now, and passes by what failed.
    await control.instances.stop(caller, { instanceId: later }, null);
    await world.until(later, hasStatus('Archived'));
    expect((await world.instance(id)).instanceRuntimeInfo).toMatchObject({
      status: 'Stopped',
      diagnosisReason: 'ArchiveFailed',
    });
  });

  test('has instances archived that failed to start', async () => {
    const { world } = await movable(await open(), { limits: { maxAttempts: 1 } });
    const caller = await world.account('poor', 1_000);
    const id = await launched(world, caller);
    const { ensure } = world.engine;
    world.engine.ensure = () => Promise.reject(simulatedFault('rejected', 'no more'));
    await world.engine.host.crash(idOf(id));
    await world.until(id, hasStatus('StartingFailed'));
    world.engine.ensure = ensure;
    await reachesArchive(world, caller);
    const archived = await world.until(id, hasStatus('Archived'));
    expect(archived.instanceRuntimeInfo).toMatchObject({ phase: 'Archived', diagnosisReason: '' });
  });

  test('keeps instances where the engine cannot save them', async () => {
    const { world, clock } = await movable(await open(), { capabilities: { saveImage: false } });
    const caller = await world.account('poor', 1_000);
    const id = await launched(world, caller);
    await world.running.control.instances.stop(caller, { instanceId: id }, null);
    await world.until(id, hasStatus('Stopped'));
    await reachesArchive(world, caller);
    await reaches(world, caller, 'archive');
    await ladderRuns(world, clock);
    expect((await world.instance(id)).instanceRuntimeInfo).toMatchObject({ status: 'Stopped', phase: 'Stopped' });
  });

  test('gets its days again for time in which Berth was off', async () => {
    const { world, clock, hours } = await movable(await open());
    const caller = await world.account('poor', hours(1));
    const id = await launched(world, caller);
    await runsOut(world, caller, clock);
    await world.until(id, hasStatus('Stopped'));
    const before = await accountOf(world, caller);
    await world.running.stop();
    clock.aheadMs += 40 * DAY_MS;
    await world.again();
    await eventually(async () => (await kindsOf(world, caller)).includes('billing.postponed'));
    const after = await accountOf(world, caller);
    expect(after.moneyStep).toBe('stop');
    expect((after.moneyDeleteAtMs ?? 0) - (before.moneyDeleteAtMs ?? 0)).toBeGreaterThan(39.9 * DAY_MS);
    expect((await world.instance(id)).instanceRuntimeInfo.status).toBe('Stopped');
  });

  test('loses nothing when the system clock is set far ahead', async () => {
    const step = { ms: 0 };
    const clock = { aheadMs: 0 };
    const now = (): number => Date.now() + clock.aheadMs + step.ms;
    const { world, hours } = await movable(await open(), { clock, time: { ...time, now } });
    const caller = await world.account('poor', hours(1));
    const id = await launched(world, caller);
    await runsOut(world, caller, clock);
    await world.until(id, hasStatus('Stopped'));
    const before = await accountOf(world, caller);
    step.ms = 60 * DAY_MS;
    await eventually(
      async () => ((await accountOf(world, caller)).moneyDeleteAtMs ?? 0) > (before.moneyDeleteAtMs ?? 0),
    );
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect((await accountOf(world, caller)).moneyStep).toBe('stop');
  });

  test('launches no more instances at once than its money carries', async () => {
    const { world, hours, price } = await movable(await open(), {
      machine: { cpuCores: 2_000, memoryMiB: 9_000 * 1024, architecture: 'amd64', gpus: [] },
      nodePorts: { first: 30_000, last: 39_999 },
    });
    const { control } = world.running;
    // Three instances last 20 minutes, and a launch needs an hour of one.
    const caller = await world.account('poor', hours(1));
    const launch = () => control.instances.launch(caller, world.launchInput(), null);
    const { done, refused } = await outcomesOf(Array.from({ length: atLevel({ short: 100, long: 1_000 }) }, launch));
    expect(done).toHaveLength(3);
    expect(new Set(refused.map(({ code }) => code))).toEqual(new Set(['no_balance']));
    expect((await accountOf(world, caller)).balanceMicros).toBeLessThanOrEqual(Number(price));
    await settled(world);
  });

  test('launches no more at once than last the time, whatever their price', async () => {
    const { world, hours } = await movable(await open(), {
      billing: { moneyRules: { ...moneyRules, noStartsMs: 3_000 * MINUTE_MS } },
    });
    const { control } = world.running;
    // Two instances last 50.5 hours, and 50 are needed.
    const caller = await world.account('rich', hours(101));
    const { done, refused } = await outcomesOf(
      Array.from({ length: 8 }, () => control.instances.launch(caller, world.launchInput(), null)),
    );
    expect(done).toHaveLength(2);
    expect(new Set(refused.map(({ code }) => code))).toEqual(new Set(['no_balance']));
    await settled(world);
  });

  test('launches no more by the money that it had at an earlier launch', async () => {
    const { world, hours } = await movable(await open());
    const { control } = world.running;
    const caller = await world.account('ann', hours(1_000));
    for (let at = 0; at < 3; at++) await launched(world, caller);
    // Four instances last 16.5 minutes, and 20 are needed.
    await setMoney(world, caller, hours(1.1));
    await expectRefused(control.instances.launch(caller, world.launchInput(), null), 'no_balance', /\$\S+ is missing/);
    await settled(world);
  });

  test('keeps no instance that is launched at the moment of the stop', async () => {
    const { world, hours } = await movable(await open());
    const { control } = world.running;
    const caller = await world.account('poor', hours(2));
    const launches = outcomesOf(
      Array.from({ length: 3 }, () => control.instances.launch(caller, world.launchInput(), null)),
    );
    await setMoney(world, caller, 0);
    const { done } = await launches;
    await reaches(world, caller, done.length > 0 ? 'stop' : 'none');
    for (const { instanceId } of done) await world.until(instanceId, hasStatus('Stopped', 'InitializationFailed'));
    expect((await accountOf(world, caller)).balanceMicros).toBe(0);
  });
});

onBothEngines('billing that is off', (open) => {
  test('refuses nothing for money, ends each step, and is not charged for when it is on again', async () => {
    const billing = { isBilled: true, moneyRules };
    const { world, clock, hours } = await movable(await open(), { billing });
    const caller = await world.account('poor', hours(2));
    const id = await launched(world, caller);
    clock.aheadMs += 30 * MINUTE_MS;
    const charged = async (): Promise<number> => hours(2) * 1e6 - (await accountOf(world, caller)).balanceMicros;
    await eventually(async () => (await charged()) >= hours(29 / 60) * 1e6);
    const before = await charged();
    await world.running.stop();
    billing.isBilled = false;
    await world.again();
    // A gap of more than an hour would be free anyway.
    clock.aheadMs += 40 * MINUTE_MS;
    await setMoney(world, caller, 0);
    await launched(world, caller);
    await volumeOf(world, caller, 'free');
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(await kindsOf(world, caller)).not.toContain('billing.stopped');
    await setMoney(world, caller, hours(2) - before / 1e6);
    await world.running.stop();
    billing.isBilled = true;
    await world.again();
    // An instance that is due is not charged: the clock must not run ahead of its reconcile.
    await settled(world);
    clock.aheadMs += 3 * MINUTE_MS;
    await eventually(async () => (await charged()) > before + hours(1 / 60) * 1e6);
    expect((await charged()) - before).toBeLessThan(hours(20 / 60) * 1e6);
    const compute = world.store.read.selectFrom('usagePeriod').select('chargedMicros').where('subjectId', '=', id);
    const [first] = await compute.where('chargedMicros', '>', 0).execute();
    expect(first?.chargedMicros).toBeLessThan(hours(42 / 60) * 1e6);
  });
});
