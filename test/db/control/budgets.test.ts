/** Budgets of accounts: what counts, what they refuse and stop, and who may change them. */
import { expect, test } from 'vitest';
import { countingRows } from '../../../src/async/rows-read.ts';
import { realTime } from '../../../src/control/kernel/time.ts';
import type { BudgetInput } from '../../../src/control/money/budgets.ts';
import type { Caller } from '../../../src/control/index.ts';
import { NOTHING_SETTLED } from '../../../src/control/money/count-budget.ts';
import { makeFollowBudgets, noteBudget } from '../../../src/control/money/follow-budgets.ts';
import { makeMetering } from '../../../src/control/money/metering.ts';
import type { LaunchInput } from '../../../src/control/compute/instances/instances.ts';
import { fromDollars } from '../../../src/domain/regions/catalog.ts';
import { DAY_MS, HOUR_MS } from '../../../src/domain/kernel/durations.ts';
import { budgetNamed } from '../../../src/store/tables/budgets.ts';
import { plainEntry, writeEntries } from '../../../src/store/tables/ledger.ts';
import type { Store } from '../../../src/store/store.ts';
import { eventually, hasStatus, makeWorld, type World } from '../../fixtures/control.ts';
import { onBothEngines, onEngine } from '../../fixtures/store.ts';
import { billingRows } from '../store/billing-rows.ts';
import { accountRow, instanceRow, regionRow } from '../store/rows.ts';
import { expectRefused } from './access-fixture.ts';

/** Intervals of the booking, the budgets, and the sweep. */
const TASKS_MS = [10_000, 25_000];
const time = { every: (ms: number, fn: () => void) => realTime.every(TASKS_MS.includes(ms) ? 30 : ms, fn) };
/** No task counts a budget within a test. */
const unhurried = { every: (ms: number, fn: () => void) => realTime.every(ms, fn) };
const ignore = (): void => {};
const silent = { debug: ignore, info: ignore, warn: ignore, error: ignore };
const team = { label: { key: 'team', value: 'physics' } };
const timeZone = 'UTC';

async function movable(store: Store, tasks = time) {
  const clock = { aheadMs: 0 };
  // The middle of a month: no test crosses its end by chance.
  const { year, month } = { year: new Date().getUTCFullYear(), month: new Date().getUTCMonth() };
  clock.aheadMs = Date.UTC(year, month + 1, 15) - Date.now();
  const world = await makeWorld(store, { clock, time: tasks });
  const { control } = world.running;
  const caller = await world.account('ann');
  return {
    world,
    clock,
    caller,
    control,
    set: (body: Omit<BudgetInput, 'timeZone'>) => control.budgets.set(caller, { timeZone, ...body }, null),
    launch: (over: Partial<LaunchInput> = {}) => control.instances.launch(caller, world.launchInput(over), null),
    /** Writes a charge as a booking does. */
    charge: (dollars: number, subjectId: string, atMs = Date.now() + clock.aheadMs, kind = 'charge') =>
      store.write((tx) =>
        writeEntries(tx, [
          {
            ...plainEntry,
            accountId: caller.accountId,
            atMs,
            kind,
            fromLedger: kind === 'refund' ? 'revenue' : 'cash',
            toLedger: kind === 'refund' ? 'cash' : 'revenue',
            amountMicros: Number(fromDollars(dollars)),
            subjectId,
          },
        ]),
      ),
  };
}

async function eventsOf({ store }: World, { accountId }: Caller): Promise<string[]> {
  const events = store.read.selectFrom('event').select('kind').where('accountId', '=', accountId).orderBy('seq');
  return (await events.execute()).map(({ kind }) => kind).filter((kind) => kind.startsWith('billing.budget'));
}

onBothEngines('a budget', (open) => {
  test('tells once a month of its soft limit, and stops and refuses at its hard one in its scope alone', async () => {
    const { world, clock, caller, control, set, launch, charge } = await movable(await open());
    const inside = (await launch({ labels: { team: 'physics' } })).instanceId;
    const outside = (await launch({ name: 'other' })).instanceId;
    for (const id of [inside, outside]) await world.until(id, hasStatus('Running'));
    await set({ name: 'physics', scope: team, soft: 5, hard: 10 });
    await charge(6, outside);
    await charge(6, inside);
    clock.aheadMs += 61_000;
    await eventually(async () => (await eventsOf(world, caller)).includes('billing.budgetSoft'));
    expect((await control.budgets.list(caller)).budgets).toMatchObject([
      { name: 'physics', scope: team, soft: 5, hard: 10, softReached: true, hardReached: false, setBy: 'owner' },
    ]);
    await charge(4, inside);
    clock.aheadMs += 61_000;
    const stopped = await world.until(inside, hasStatus('Stopped'));
    expect(stopped.instanceRuntimeInfo).toMatchObject({ diagnosisReason: 'BudgetReached' });
    const refusal = /budget "physics" of \$10 a month for team=physics is reached/;
    await expectRefused(launch({ name: 'third', labels: { team: 'physics' } }), 'no_balance', refusal);
    await expectRefused(control.instances.start(caller, { instanceId: inside }, null), 'no_balance', refusal);
    expect((await world.instance(outside)).instanceRuntimeInfo.status).toBe('Running');
    const { instanceId } = await launch({ name: 'fourth', labels: { team: 'chemistry' } });
    await world.until(instanceId, hasStatus('Running'));
    expect(await eventsOf(world, caller)).toEqual(['billing.budgetSet', 'billing.budgetSoft', 'billing.budgetHard']);

    clock.aheadMs += 25 * DAY_MS;
    await control.instances.start(caller, { instanceId: inside }, null);
    await world.until(inside, hasStatus('Running'));
    expect((await control.budgets.list(caller)).budgets).toMatchObject([{ softReached: false, hardReached: false }]);
  });

  test('refuses at once what would pay ahead more than is left of its hard limit, in its scope alone', async () => {
    const { set, launch } = await movable(await open());
    await set({ name: 'physics', scope: team, hard: 15 });
    const month = (team: string) => launch({ billing: { chargeMode: 'perMonth', duration: 1 }, labels: { team } });
    await month('physics');
    const refusal =
      /the launch pays \$10\.08 ahead, and budget "physics" of \$15 a month for team=physics has \$4\.92 left/;
    await expectRefused(month('physics'), 'no_balance', refusal);
    await set({ name: 'physics', scope: team, hard: 5 });
    await set({ name: 'maths', scope: { label: { key: 'team', value: 'maths' } }, hard: 10.08 });
    await month('maths');
    await month('chemistry');
    await month('chemistry');
  });

  test('counts charges and purchases less refunds of its month, settled and new', async () => {
    const { world, caller, control, set, charge, clock } = await movable(await open(), unhurried);
    const nowMs = Date.now() + clock.aheadMs;
    await charge(100, 'x', nowMs - 20 * DAY_MS);
    await charge(1, 'x', nowMs - 10 * DAY_MS);
    await charge(2, 'x', nowMs - 2 * DAY_MS, 'prepayment');
    await charge(0.5, 'x', nowMs, 'refund');
    await set({ name: 'all', soft: 50 });
    const spent = async () => (await control.budgets.list(caller)).budgets[0]?.spent;
    expect(await spent()).toBe(2.5);
    await charge(4, 'x', nowMs);
    expect(await spent()).toBe(6.5);
    expect(await control.budgets.forecast(caller)).toMatchObject({ monthToDate: 6.5, step: 'none', burnRate: 0 });
    expect(await eventsOf(world, caller)).toEqual(['billing.budgetSet']);
  });

  test('sums settled hours again when its scope or time zone changes, not when its limits do', async () => {
    const { world, caller, control, set, charge, clock } = await movable(await open(), unhurried);
    const nowMs = Date.now() + clock.aheadMs;
    const paid = {
      ...plainEntry,
      accountId: caller.accountId,
      kind: 'charge',
      fromLedger: 'cash',
      toLedger: 'revenue',
    };
    const entry = { ...paid, atMs: nowMs - 3 * DAY_MS, amountMicros: 1_000_000, subjectId: 'x' };
    const few = Array.from({ length: 500 }, () => entry);
    for (let part = 0; part < 8; part += 1) await world.store.write((tx) => writeEntries(tx, few));
    await charge(1, 'y', nowMs - 3 * DAY_MS);
    const rowsOf = async (body: Parameters<typeof set>[0], zone = timeZone): Promise<number> => {
      let rows = 0;
      await countingRows(
        (more) => (rows += more),
        () => control.budgets.set(caller, { timeZone: zone, ...body }, null),
      );
      return rows;
    };
    const spent = async () => (await control.budgets.list(caller)).budgets.map((one) => one.spent);
    expect(await rowsOf({ name: 'all', soft: 5_000 })).toBeGreaterThan(400);
    expect(await rowsOf({ name: 'all', soft: 6_000, hard: 7_000 })).toBeLessThan(300);
    expect(await spent()).toEqual([4_001]);
    const label = { ownerId: caller.accountId, subjectId: 'y', key: 'team', value: 'physics' };
    await world.store.write((tx) => tx.insertInto('label').values(label).execute());
    await set({ name: 'all', scope: team, soft: 6_000 });
    expect(await spent()).toEqual([1]);
    await set({ name: 'all', soft: 6_000 });
    expect(await spent()).toEqual([4_001]);
    expect(await rowsOf({ name: 'all', soft: 6_000 }, 'Asia/Tokyo')).toBeGreaterThan(400);
  });

  test('counts its new scope alone when that changes during a count', async () => {
    const { world, clock, caller, control, set, charge } = await movable(await open(), unhurried);
    const nowMs = Date.now() + clock.aheadMs;
    await set({ name: 'all', soft: 10 });
    const former = await budgetNamed(world.store.read, caller.accountId, 'all');
    await charge(4, 'x', nowMs - DAY_MS);
    await set({ name: 'all', scope: team, soft: 10 });
    const counting = { store: world.store, time: realTime, nowMs };
    if (former) await noteBudget(counting, { ...former, ...NOTHING_SETTLED });
    expect((await control.budgets.list(caller)).budgets).toMatchObject([{ scope: team, spent: 0 }]);
  });

  test('is forecast to the end of the month by what runs now, of its scope and of all', async () => {
    const { world, clock, caller, control, set, launch } = await movable(await open());
    const { instanceId } = await launch({ labels: { team: 'physics' } });
    await world.until(instanceId, hasStatus('Running'));
    await set({ name: 'physics', scope: team, hard: 1_000_000 });
    await set({ name: 'others', scope: { label: { key: 'team', value: 'none' } }, hard: 1_000_000 });
    const price = Number(world.types[0]?.pricesMicros.perHour ?? 0n) / 1e6;
    const now = new Date(Date.now() + clock.aheadMs);
    const hoursLeft = (Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1) - now.getTime()) / 3_600_000;
    const { budgets } = await control.budgets.list(caller);
    expect(budgets.map(({ name }) => name)).toEqual(['physics', 'others']);
    expect(budgets[0]?.forecast).toBeCloseTo(price * hoursLeft, 2);
    expect(budgets[1]?.forecast).toBe(0);
    const { burnRate, lastsUntilUnixMs, monthForecast } = await control.budgets.forecast(caller);
    expect(burnRate).toBe(price);
    expect(((lastsUntilUnixMs ?? 0) - now.getTime()) / 3_600_000).toBeCloseTo(1_000 / price, 0);
    expect(monthForecast).toBeGreaterThan(0);
  });

  test('stops neither what is paid ahead nor the instances of others', async () => {
    const { world, clock, caller, control, set, launch, charge } = await movable(await open());
    const ahead = (await launch({ name: 'ahead', billing: { chargeMode: 'perDay', duration: 1 } })).instanceId;
    const hourly = (await launch()).instanceId;
    const foreign = (await control.instances.launch(world.caller, world.launchInput(), null)).instanceId;
    for (const id of [ahead, hourly, foreign]) await world.until(id, hasStatus('Running'));
    await set({ name: 'all', hard: 10_000 });
    await charge(10_000, hourly);
    clock.aheadMs += 61_000;
    await world.until(hourly, hasStatus('Stopped'));
    await eventually(async () => (await eventsOf(world, caller)).includes('billing.budgetHard'));
    const running = world.store.read.selectFrom('instance').select('id').where('desired', '=', 'running');
    expect((await running.execute()).map(({ id }) => id).toSorted()).toEqual([ahead, foreign].toSorted());
  });

  test('tells of its soft limit once though a refund comes between, and starts each month with nothing', async () => {
    const { world, clock, caller, control, set, charge } = await movable(await open());
    await set({ name: 'all', soft: 5 });
    const settles = async (): Promise<void> => {
      const settledUntilMs = async () => (await budgetNamed(world.store.read, caller.accountId, 'all'))?.settledUntilMs;
      const before = await settledUntilMs();
      clock.aheadMs += 4 * HOUR_MS;
      await eventually(async () => (await settledUntilMs()) !== before);
    };
    await charge(6, 'x');
    await settles();
    await charge(3, 'x', Date.now() + clock.aheadMs, 'refund');
    await settles();
    await charge(3, 'x');
    await settles();
    expect(await eventsOf(world, caller)).toEqual(['billing.budgetSet', 'billing.budgetSoft']);
    expect((await control.budgets.list(caller)).budgets).toMatchObject([{ spent: 6 }]);
    clock.aheadMs += 25 * DAY_MS;
    expect((await control.budgets.list(caller)).budgets).toMatchObject([{ spent: 0, softReached: false }]);
  });

  test('counts a charge for the labels that its resource has when the charge is three hours old', async () => {
    const { world, clock, caller, control, set, charge } = await movable(await open());
    const nowMs = Date.now() + clock.aheadMs;
    await charge(1, 'x', nowMs - 5 * HOUR_MS);
    await charge(2, 'x', nowMs - 2 * HOUR_MS);
    await set({ name: 'physics', scope: team, soft: 50 });
    const label = { ownerId: caller.accountId, subjectId: 'x', key: 'team', value: 'physics' };
    await world.store.write((tx) => tx.insertInto('label').values(label).execute());
    expect((await control.budgets.list(caller)).budgets).toMatchObject([{ spent: 2 }]);
  });

  test('that was raised while it was counted is not reached by the former limit', async () => {
    const { world, clock, caller, set, launch, charge } = await movable(await open(), unhurried);
    await set({ name: 'all', hard: 10 });
    const former = await budgetNamed(world.store.read, caller.accountId, 'all');
    await charge(10, 'x');
    await set({ name: 'all', hard: 11 });
    const nowMs = Date.now() + clock.aheadMs;
    if (former) await noteBudget({ store: world.store, time: { ...realTime, now: () => nowMs }, nowMs }, former);
    await launch();
    expect(await eventsOf(world, caller)).not.toContain('billing.budgetHard');
  });

  test('tells nothing of a former soft limit that was raised while it was counted', async () => {
    const { world, clock, caller, set, charge } = await movable(await open(), unhurried);
    await set({ name: 'all', soft: 10, hard: 100 });
    const former = await budgetNamed(world.store.read, caller.accountId, 'all');
    await charge(10, 'x');
    await set({ name: 'all', soft: 11, hard: 100 });
    const nowMs = Date.now() + clock.aheadMs;
    if (former) await noteBudget({ store: world.store, time: { ...realTime, now: () => nowMs }, nowMs }, former);
    expect(await eventsOf(world, caller)).toEqual(['billing.budgetSet', 'billing.budgetSet']);
  });

  test('is no longer reached once a refund takes its spending below the hard limit', async () => {
    const { world, clock, caller, set, launch, charge } = await movable(await open());
    await charge(10, 'x');
    await set({ name: 'all', hard: 10 });
    await expectRefused(launch(), 'no_balance', /budget "all"/);
    await charge(1, 'x', Date.now() + clock.aheadMs, 'refund');
    clock.aheadMs += 61_000;
    await eventually(async () => (await budgetNamed(world.store.read, caller.accountId, 'all'))?.hardReached === 0);
    await launch();
  });

  test('that was reached in the former month stops nothing, also before the new one is counted', async () => {
    const store = await open();
    const owner = { ownerId: 'ann', regionId: 'here' };
    await store.write(async (tx) => {
      await tx
        .insertInto('region')
        .values(regionRow({ id: 'here' }))
        .execute();
      await tx
        .insertInto('account')
        .values(accountRow({ id: 'ann' }))
        .execute();
      const running = instanceRow({ ...owner, id: 'i' });
      await tx
        .insertInto('instance')
        .values({ ...running, desired: 'running' })
        .execute();
      const limits = { softMicros: null, hardMicros: 0, month: '', settledUntilMs: 0, settledMicros: 0 };
      await tx
        .insertInto('budget')
        .values({ ...billingRows.budget, ...limits, hardReached: 0, softReached: 0 })
        .execute();
    });
    const clock = { nowMs: Date.UTC(2026, 11, 1) - 20_000 };
    const now = (): number => clock.nowMs;
    const time = { ...realTime, now, elapsed: now };
    const stopped: string[] = [];
    const follow = makeFollowBudgets({
      store,
      time,
      log: silent,
      metering: makeMetering({
        time,
        regions: { of: () => ({ health: { probe: null, answers: true, text: '' } }) },
        isBilled: true,
      }),
      stopAutomatically: async ({ id }) => stopped.push(id) > 0,
    });
    await follow();
    expect(stopped).toEqual(['i']);
    clock.nowMs += 40_000;
    await follow();
    expect(stopped).toEqual(['i']);
  });

  test('counts at once when it is set, and no more when it is raised or deleted', async () => {
    const { caller, control, set, launch, charge } = await movable(await open(), unhurried);
    await charge(10, 'x');
    await set({ name: 'all', hard: 10 });
    await expectRefused(launch(), 'no_balance', /budget "all"/);
    await set({ name: 'all', hard: 11 });
    await launch();
    await set({ name: 'all', hard: 5 });
    await expectRefused(launch({ name: 'second' }), 'no_balance', /raise or delete it/);
    await control.budgets.delete(caller, { name: 'all' }, null);
    await launch({ name: 'second' });
  });

  test('shows the owner what an administrator set, and only administrators change that', async () => {
    const { world, caller, control, set, launch, charge } = await movable(await open(), unhurried);
    await charge(10, 'x');
    const of = { username: 'ann', name: 'cap', timeZone };
    await control.budgets.setFor(world.caller, { ...of, hard: 10 }, null);
    expect((await control.budgets.list(caller)).budgets).toMatchObject([{ name: 'cap', setBy: 'administrator' }]);
    await expectRefused(launch(), 'no_balance', /ask an administrator to raise it/);
    await expectRefused(set({ name: 'cap', hard: 100 }), 'name_taken', /only administrators change it/);
    await expectRefused(control.budgets.delete(caller, { name: 'cap' }, null), 'name_taken', /administrator/);
    await set({ name: 'own', hard: 100 });
    const other = control.budgets.setFor(world.caller, { ...of, name: 'own', hard: 1 }, null);
    await expectRefused(other, 'name_taken', /of its own/);
    await expectRefused(control.budgets.setFor(caller, { ...of, hard: 11 }, null), 'forbidden', /administrators/);
    await control.budgets.deleteFor(world.caller, { username: 'ann', name: 'cap' }, null);
    await launch();
    expect((await control.budgets.listFor('ann')).budgets).toMatchObject([{ name: 'own' }]);
  });

  test('is refused without a limit, with a soft one above the hard, and beyond twenty', async () => {
    const { world, caller, control, set } = await movable(await open());
    await expectRefused(set({ name: 'none' }), 'field_missing', /"soft"/);
    await expectRefused(set({ name: 'crossed', soft: 2, hard: 1 }), 'field_value', /at most that/);
    await set({ name: 'b0', soft: 1, hard: 1 });
    await expectRefused(control.budgets.delete(caller, { name: 'nobody' }, null), 'not_found', /"nobody" not found/);
    await Promise.all(Array.from({ length: 20 }, (_, at) => set({ name: `b${at}`, soft: at })));
    await expectRefused(set({ name: 'b20', soft: 1 }), 'over_quota', /20 budgets/);
    const own = { username: 'ann', name: 'cap', timeZone, hard: 1_000 };
    await control.budgets.setFor(world.caller, own, null);
    await set({ name: 'b7', soft: 700 });
    expect((await control.budgets.list(caller)).budgets).toHaveLength(21);
  });
});

onEngine('sqlite', 'a budget', (open) => {
  test('that is set has no past day left to a launch, which counts within its transaction', async () => {
    const { world, clock, caller, set, charge } = await movable(await open(), unhurried);
    const nowMs = Date.now() + clock.aheadMs;
    await charge(4, 'x', nowMs - DAY_MS);
    const settled: unknown[] = [];
    world.store.onCommit?.(() => {
      settled.push(budgetNamed(world.store.read, caller.accountId, 'all').then((row) => row?.settledMicros));
    });
    await set({ name: 'all', hard: 10 });
    const first = (await Promise.all(settled)).find((one) => one !== undefined);
    expect(first).toBe(4_000_000);
  });

  test('sums each day by a query of its own, when it is set or forecast', async () => {
    const { caller, control, set } = await movable(await open(), unhurried);
    const queriesOf = async (work: () => Promise<unknown>): Promise<number> => {
      let queries = 0;
      await countingRows(() => (queries += 1), work);
      return queries;
    };
    expect(await queriesOf(() => set({ name: 'all', soft: 10 }))).toBeGreaterThanOrEqual(14);
    expect(await queriesOf(() => control.budgets.forecast(caller))).toBeGreaterThanOrEqual(14);
  });
});
