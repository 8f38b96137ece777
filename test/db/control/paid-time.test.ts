/** Time paid ahead: launch, end, renewal, refunds and changes of type, with their entries. */
import { expect, test } from 'vitest';
import { realTime } from '../../../src/control/kernel/time.ts';
import type { StopAutomatically } from '../../../src/control/kernel/deps.ts';
import { makeRenewPaidTime } from '../../../src/control/money/renew-paid-time.ts';
import { addCalendar } from '../../../src/domain/kernel/calendar.ts';
import { instanceFromRow } from '../../../src/store/tables/instances.ts';
import { eventually, hasStatus } from '../../fixtures/control.ts';
import { atLevel } from '../../fixtures/level.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { billingRows } from '../store/billing-rows.ts';
import { expectRefused } from './access-fixture.ts';
import {
  DAY_MS,
  entriesOf,
  eventsOf,
  expectBalanced,
  moved,
  openPaidWorld,
  prices,
  ZONE,
} from './paid-time-fixture.ts';

onBothEngines('time paid ahead', (open) => {
  test('is paid whole at the launch from vouchers, credits and cash, and begins when it is Running', async () => {
    const { world, ann, launch, give, balance, paid, running, instances } = await openPaidWorld(open);
    await give('voucher', 5, { scope: { meter: 'compute' } });
    await give('voucher', 50, { scope: { meter: 'volume' } });
    await give('credit', 7);
    const id = await launch({ chargeMode: 'perWeek', duration: 2 });
    expect(await moved(world, id)).toEqual([
      'prepayment voucher revenue 5',
      'prepayment credit revenue 7',
      'prepayment cash revenue 12',
    ]);
    expect(await balance()).toEqual({ cash: 88, voucher: 50, credit: 0 });
    const endsAtMs = await running(id);
    const startsAtMs = (await paid(id))?.anchorMs ?? 0;
    expect(endsAtMs).toBe(addCalendar(startsAtMs, 2, 'week', ZONE));
    const period = await world.store.read
      .selectFrom('usagePeriod')
      .select('openedAtMs')
      .where('subjectId', '=', id)
      .where('state', '=', 'paidAhead')
      .executeTakeFirstOrThrow();
    expect(Math.abs(period.openedAtMs - startsAtMs)).toBeLessThan(60_000);
    const { billing } = await instances.get(ann, { instanceId: id });
    expect(billing.paidTime).toEqual({ units: 2, price: 12, startsAtUnixMs: startsAtMs, endsAtUnixMs: endsAtMs });
    expect(await eventsOf(world, id, 'instance.paidTimeBegan')).toEqual([{ startsAtMs, endsAtMs, timeZone: ZONE }]);
    await expectBalanced(world);
  });

  test('costs nothing more for a stop, a start and a restart, and runs on meanwhile', async () => {
    const { world, ann, launch, running, clock, instances } = await openPaidWorld(open);
    const id = await launch({ chargeMode: 'perDay', duration: 3 });
    const endsAtMs = await running(id);
    clock.aheadMs += DAY_MS;
    await instances.stop(ann, { instanceId: id }, null);
    await world.until(id, hasStatus('Stopped'));
    await instances.start(ann, { instanceId: id }, null);
    expect(await running(id)).toBe(endsAtMs);
    await instances.restart(ann, { instanceId: id }, null);
    expect(await running(id)).toBe(endsAtMs);
    expect(await moved(world, id)).toEqual(['prepayment cash revenue 6']);
  });

  test('is refused without the whole money, with what is missing and what would work', async () => {
    const { world, ann, types, launch, balance } = await openPaidWorld(open, { start: false });
    await expectRefused(
      launch({ chargeMode: 'perMonth', duration: 3 }),
      'no_balance',
      /needs \$120 for 3 months ahead and \$100 is available; \$20 is missing: top up the account, or send "chargeMode" "perMonth" with "duration" 2 for \$80$/,
    );
    const dear = { instanceTypeId: types.large.id };
    await world.running.control.credits.setOverdraft(world.caller, { username: 'ann', overdraft: 80 }, null);
    const id = await launch({ chargeMode: 'perMonth', duration: 2 }, dear);
    expect(await balance()).toMatchObject({ cash: -80 });
    await expectRefused(launch({ chargeMode: 'perDay', duration: 1 }), 'no_balance', /or choose a cheaper type$/);
    expect(await world.store.read.selectFrom('instance').select('id').execute()).toEqual([{ id }]);
    expect(await world.store.read.selectFrom('paidTime').select('accountId').execute()).toEqual([
      { accountId: ann.accountId },
    ]);
    await expectBalanced(world);
  });

  test('a launch by the hour needs an hour, for which fitting vouchers count', async () => {
    const { launch, world } = await openPaidWorld(open, { start: false });
    const bob = await world.account('bob', 0.05);
    const byHour = () => launch({ chargeMode: 'perHour', duration: 1 }, {}, bob);
    await expectRefused(
      byHour(),
      'no_balance',
      /needs \$0\.1 for an hour and \$0\.05 is available; \$0\.05 is missing/,
    );
    const { credits } = world.running.control;
    const voucher = { username: 'bob', amount: 1, kind: 'voucher', reason: 'test' } as const;
    await credits.give(world.caller, { ...voucher, scope: { meter: 'volume' } }, null);
    await expectRefused(byHour(), 'no_balance');
    await credits.give(world.caller, { ...voucher, scope: { meter: 'compute' } }, null);
    await byHour();
  });

  test('a restart at a higher price by the hour needs the money that a start needs', async () => {
    const { world, launch, types, instances } = await openPaidWorld(open);
    const bob = await world.account('bob', 0.5);
    const dearer = async (name: string): Promise<string> => {
      const instanceId = await launch({ chargeMode: 'perHour', duration: 1 }, { name }, bob);
      await world.until(instanceId, hasStatus('Running'));
      await instances.update(bob, { instanceId, instanceTypeId: types.large.id }, null);
      return instanceId;
    };
    const [one, two] = [await dearer('one'), await dearer('two')];
    await instances.restart(bob, { instanceId: one }, null);
    const refusal = /with this restart the account would spend \$0\.6 an hour, and \$0\.[45]\d* is available/;
    await expectRefused(instances.restart(bob, { instanceId: two }, null), 'no_balance', refusal);
    expect((await world.instance(two)).instanceRuntimeInfo.status).toBe('Running');
  });

  test('spot types are refused', async () => {
    const { launch, types } = await openPaidWorld(open, { start: false });
    const spot = { instanceTypeId: types.spot.id, isSpotInstance: true };
    await expectRefused(
      launch({ chargeMode: 'perDay', duration: 1 }, spot),
      'field_value',
      /^field "billing\.chargeMode" is "perDay", but spot is a spot type.*send "perHour" or "tidePerHour"$/,
    );
    await launch({ chargeMode: 'perHour', duration: 1 }, spot);
  });

  test('a total beyond the largest sum is refused, never rounded', async () => {
    const { launch, types, world } = await openPaidWorld(open, { start: false });
    const huge = JSON.stringify(Object.fromEntries(Object.keys(prices).map((mode) => [mode, 9e15])));
    await world.store.write((tx) =>
      tx.updateTable('instanceType').set({ prices: huge }).where('id', '=', types.large.id).execute(),
    );
    await expectRefused(
      launch({ chargeMode: 'perMonth', duration: 120 }, { instanceTypeId: types.large.id }),
      'field_value',
      /^field "billing\.duration" is 120: 120 months cost \$1080000000000, and an account may hold \$9000000000;/,
    );
    expect(await world.store.read.selectFrom('paidTime').selectAll().execute()).toEqual([]);
  });

  test('at the end stops the instance, and the next start buys the time again', async () => {
    const { world, ann, launch, running, passTo, paid, nowMs, instances } = await openPaidWorld(open);
    const id = await launch({ chargeMode: 'perDay', duration: 1 });
    passTo(await running(id));
    const stopped = await world.until(id, hasStatus('Stopped'));
    expect(stopped.instanceRuntimeInfo.diagnosisReason).toBe('PaidTimeEnded');
    expect(stopped.instanceRuntimeInfo.diagnosisMessage).toMatch(/^The paid time is over, and was not renewed/);
    await eventually(async () => (await eventsOf(world, id, 'instance.paidTimeEnded')).length === 1);
    expect(await paid(id)).toMatchObject({ dueAtMs: null });
    expect(await moved(world, id)).toHaveLength(1);
    await instances.start(ann, { instanceId: id }, null);
    expect(await moved(world, id)).toEqual(['prepayment cash revenue 2', 'prepayment cash revenue 2']);
    expect((await paid(id))?.anchorMs).toBeNull();
    expect(await running(id)).toBeGreaterThan(nowMs() + DAY_MS - 3_700_000);
    await expectBalanced(world);
  });

  test('a start after the end is refused without the money, and the instance stays as it is', async () => {
    const { world, launch, running, passTo } = await openPaidWorld(open);
    const bob = await world.account('bob', 3);
    const id = await launch({ chargeMode: 'perDay', duration: 1 }, {}, bob);
    passTo(await running(id));
    await world.until(id, hasStatus('Stopped'));
    const start = world.running.control.instances.start(bob, { instanceId: id }, null);
    await expectRefused(
      start,
      'no_balance',
      /^the start needs \$2 for 1 day, because the paid time is over, and \$1 is available; \$1 is missing: top up the account$/,
    );
    expect((await world.instance(id)).instanceRuntimeInfo.status).toBe('Stopped');
    expect(await moved(world, id)).toHaveLength(1);
  });

  test('warns before the end of what follows, and renews at the former end for as long as there is money', async () => {
    const { world, launch, running, passTo, paid } = await openPaidWorld(open);
    const bob = await world.account('bob', 5);
    const id = await launch({ chargeMode: 'perDay', duration: 1, autoRenew: true }, {}, bob);
    const endsAtMs = await running(id);
    const warnings = () => eventsOf(world, id, 'instance.paidTimeEnding');
    passTo(endsAtMs - 3_700_000);
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(await warnings()).toEqual([]);
    passTo(endsAtMs - 3_599_000);
    await eventually(async () => (await warnings()).length === 1);
    passTo(endsAtMs + 60_000);
    await eventually(async () => (await moved(world, id)).length === 2);
    const nextMs = addCalendar((await paid(id))?.anchorMs ?? 0, 2, 'day', ZONE);
    expect((await paid(id))?.endsAtMs).toBe(nextMs);
    passTo(nextMs - 3_599_000);
    await eventually(async () => (await warnings()).length === 2);
    expect(await warnings()).toEqual([
      { endsAtMs, follows: 'renewal', autoRenew: true, price: 2, missing: 0 },
      { endsAtMs: nextMs, follows: 'stop', autoRenew: true, price: 2, missing: 1 },
    ]);
    expect((await world.instance(id)).instanceRuntimeInfo.status).toBe('Running');
    passTo(nextMs);
    const stopped = await world.until(id, hasStatus('Stopped'));
    expect(stopped.instanceRuntimeInfo.diagnosisReason).toBe('PaidTimeEnded');
    expect(await eventsOf(world, id, 'instance.stopWished')).toMatchObject([{ cause: 'PaidTimeEnded', missing: 1 }]);
    expect(await moved(world, id)).toHaveLength(2);
    await expectBalanced(world);
  });

  test('is not renewed while the instance is stopped', async () => {
    const { world, ann, launch, running, passTo, instances } = await openPaidWorld(open);
    const id = await launch({ chargeMode: 'perDay', duration: 1, autoRenew: true });
    const endsAtMs = await running(id);
    await instances.stop(ann, { instanceId: id }, null);
    await world.until(id, hasStatus('Stopped'));
    passTo(endsAtMs);
    await eventually(async () => (await eventsOf(world, id, 'instance.paidTimeEnded')).length === 1);
    expect(await moved(world, id)).toHaveLength(1);
  });

  test('terminate refunds an instance that never ran in full, to the sources that paid', async () => {
    const { world, ann, launch, give, balance, clock, nowMs, instances, paid } = await openPaidWorld(open, {
      start: false,
    });
    await give('voucher', 5, { expiresAt: nowMs() + 60_000 });
    await give('credit', 7);
    const id = await launch({ chargeMode: 'perWeek', duration: 2 });
    clock.aheadMs += 120_000;
    await instances.terminate(ann, { instanceId: id }, null);
    expect((await moved(world, id)).slice(3)).toEqual([
      'refund revenue cash 12',
      'refund revenue credit 7',
      'refund revenue voucher 5',
    ]);
    const entries = await entriesOf(world, id);
    expect(entries.slice(3).map(({ reversesId }) => reversesId)).toEqual([2, 1, 0].map((at) => entries[at]?.id));
    // The voucher has expired meanwhile, and its refund with it.
    expect(await balance()).toEqual({ cash: 100, voucher: 0, credit: 7 });
    expect(await paid(id)).toBeNull();
    await expectBalanced(world);
  });

  test('terminate refunds the units that have not begun, and a stop nothing', async () => {
    const { world, ann, launch, running, clock, instances } = await openPaidWorld(open);
    const id = await launch({ chargeMode: 'perDay', duration: 4 });
    await running(id);
    clock.aheadMs += DAY_MS + 2 * 3_600_000;
    await instances.stop(ann, { instanceId: id }, null);
    await world.until(id, hasStatus('Stopped'));
    expect(await moved(world, id)).toHaveLength(1);
    await instances.terminate(ann, { instanceId: id }, null);
    expect((await moved(world, id)).slice(1)).toEqual(['refund revenue cash 4']);
    expect(await eventsOf(world, id, 'instance.paidTimeRefunded')).toEqual([
      { units: 2, amount: 4, reason: 'terminate' },
    ]);
    await expectBalanced(world);
  });

  test('a change of type charges or refunds the difference for the time that is left', async () => {
    const { world, ann, launch, running, types, instances, paid, clock } = await openPaidWorld(open);
    const id = await launch({ chargeMode: 'perDay', duration: 2 });
    const endsAtMs = await running(id);
    const change = async (instanceTypeId: string): Promise<void> => {
      clock.aheadMs += 60_000;
      await instances.update(ann, { instanceId: id, instanceTypeId }, null);
      await instances.restart(ann, { instanceId: id }, null);
      expect(await running(id)).toBe(endsAtMs);
    };
    await change(types.large.id);
    const entries = await entriesOf(world, id);
    expect(entries.map(({ kind, reason }) => `${kind} ${reason}`)).toEqual([
      'prepayment launch',
      'prepayment change of type',
    ]);
    const [, difference] = entries;
    // A minute of the first day has passed.
    expect(difference?.amountMicros).toBeGreaterThan(5_990_000);
    expect(difference?.amountMicros).toBeLessThan(6_000_000);
    expect(await paid(id)).toMatchObject({ priceMicros: 5_000_000n });
    await change(types.small.id);
    const [refund] = (await entriesOf(world, id)).slice(2);
    expect(refund).toMatchObject({ kind: 'refund', reversesId: difference?.id, reason: 'change of type' });
    expect(refund?.amountMicros).toBeLessThanOrEqual(difference?.amountMicros ?? 0);
    expect(refund?.amountMicros).toBeGreaterThan(5_980_000);
    await instances.terminate(ann, { instanceId: id }, null);
    expect(await eventsOf(world, id, 'instance.paidTimeRefunded')).toEqual([
      { units: 1, amount: 2, reason: 'terminate' },
    ]);
    const all = await entriesOf(world, id);
    for (const paidBy of all.filter(({ kind }) => kind === 'prepayment')) {
      const back = all.filter(({ reversesId }) => reversesId === paidBy.id);
      expect(back.reduce((sum, { amountMicros }) => sum + amountMicros, 0)).toBeLessThanOrEqual(paidBy.amountMicros);
    }
    await expectBalanced(world);
  });

  test('terminate refunds what a change from a type without a price has charged', async () => {
    const { world, ann, launch, running, types, instances, clock } = await openPaidWorld(open);
    const id = await launch({ chargeMode: 'perDay', duration: 2 }, { instanceTypeId: types.free.id });
    await running(id);
    clock.aheadMs += 60_000;
    await instances.update(ann, { instanceId: id, instanceTypeId: types.small.id }, null);
    await instances.restart(ann, { instanceId: id }, null);
    await running(id);
    const [charged] = await entriesOf(world, id);
    expect(charged).toMatchObject({ kind: 'prepayment', reason: 'change of type' });
    await instances.terminate(ann, { instanceId: id }, null);
    expect(await moved(world, id)).toContain('refund revenue cash 2');
    expect((await entriesOf(world, id))[1]).toMatchObject({ reversesId: charged?.id });
    await expectBalanced(world);
  });

  test('a change of type that cannot be paid is refused when it is asked for, and by the restart', async () => {
    const { world, launch, running, types, clock } = await openPaidWorld(open);
    const { instances, credits } = world.running.control;
    const bob = await world.account('bob', 9);
    const id = await launch({ chargeMode: 'perDay', duration: 2 }, {}, bob);
    await running(id);
    clock.aheadMs += 3_600_000;
    const change = () => instances.update(bob, { instanceId: id, instanceTypeId: types.large.id }, null);
    await expectRefused(
      change(),
      'no_balance',
      /^the type large needs \$5\.87\d*, the difference for the paid time that is left, and \$5 is available; \$0\.87/,
    );
    const { entry } = await credits.give(
      world.caller,
      { username: 'bob', amount: 1, kind: 'credit', reason: 'test' },
      null,
    );
    await change();
    await credits.reverse(world.caller, { entryId: entry.entryId, reason: 'test' }, null);
    await expectRefused(
      instances.restart(bob, { instanceId: id }, null),
      'no_balance',
      /^the change to large needs \$5\.8.* or change it back$/,
    );
    expect((await world.instance(id)).instanceRuntimeInfo.status).toBe('Running');
    expect(await moved(world, id)).toHaveLength(1);
  });

  test('a start after the end buys a pending type at its own price', async () => {
    const { world, ann, launch, running, types, passTo, instances } = await openPaidWorld(open);
    const id = await launch({ chargeMode: 'perDay', duration: 2 });
    passTo(await running(id));
    await world.until(id, hasStatus('Stopped'));
    await instances.update(ann, { instanceId: id, instanceTypeId: types.large.id }, null);
    await instances.start(ann, { instanceId: id }, null);
    expect((await moved(world, id)).slice(1)).toEqual(['prepayment cash revenue 10']);
  });

  test('runs the same while billing is off, and nothing is paid, refunded or charged later', async () => {
    const billing = { isBilled: false };
    const { world, ann, launch, running, paid, balance, types, instances } = await openPaidWorld(open, { billing });
    const bob = await world.account('bob', 0);
    const id = await launch({ chargeMode: 'perMonth', duration: 2, autoRenew: true }, {}, bob);
    const other = await launch({ chargeMode: 'perDay', duration: 2 });
    expect(await running(id)).toBe(addCalendar((await paid(id))?.anchorMs ?? 0, 2, 'month', ZONE));
    await running(other);
    billing.isBilled = true;
    await world.again();
    await instances.update(ann, { instanceId: other, instanceTypeId: types.large.id }, null);
    await world.running.control.instances.restart(ann, { instanceId: other }, null);
    await world.running.control.instances.terminate(ann, { instanceId: other }, null);
    await world.running.control.instances.terminate(bob, { instanceId: id }, null);
    expect([await moved(world, id), await moved(world, other)]).toEqual([[], []]);
    expect(await balance()).toMatchObject({ cash: 100 });
  });

  const LAUNCHES = atLevel({ short: 12, long: 100 });

  test('many launches at once with money for three are three', async () => {
    const { world, launch } = await openPaidWorld(open, {
      start: false,
      machine: { cpuCores: 200, memoryMiB: 400 * 1024, architecture: 'amd64', gpus: [] },
    });
    const bob = await world.account('bob', 40);
    const results = await Promise.allSettled(
      Array.from({ length: LAUNCHES }, () => launch({ chargeMode: 'perWeek', duration: 1 }, {}, bob)),
    );
    const refused = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []));
    expect(refused).toHaveLength(LAUNCHES - 3);
    for (const reason of refused) expect(reason).toMatchObject({ code: 'no_balance' });
    expect(await world.store.read.selectFrom('paidTime').select('instanceId').execute()).toHaveLength(3);
    await expectBalanced(world);
  });
});

onBothEngines('concurrent ends of paid time', { postgres: 'always' }, (open) => {
  const SERVERS = atLevel({ short: 4, long: 20 });

  async function atTheEnd(autoRenew = true, stopAutomatically: StopAutomatically = async () => false) {
    const opened = await openPaidWorld(open);
    const { world, launch, running, passTo, nowMs } = opened;
    const id = await launch({ chargeMode: 'perDay', duration: 2, autoRenew });
    const endsAtMs = await running(id);
    await world.running.stop();
    passTo(endsAtMs);
    const renew = makeRenewPaidTime({
      store: world.store,
      time: { ...realTime, now: nowMs },
      metering: { isBilled: true },
      stopAutomatically,
    });
    return { ...opened, id, renew: () => renew({ id, ownerId: opened.ann.accountId }) };
  }

  test('delete rows without an instance', async () => {
    const store = await open();
    const nowMs = 1_000_000;
    const ids = Array.from({ length: 45 }, (_, at) => `i-${at}`);
    const row = { ...billingRows.paidTime, anchorMs: 1, endsAtMs: nowMs, firstEntryId: 0 };
    const rows = ids.map((instanceId, at) => ({ ...row, instanceId, dueAtMs: nowMs - (at % 3) }));
    await store.write((tx) => tx.insertInto('paidTime').values(rows).execute());
    const deps = { store, time: { ...realTime, now: () => nowMs }, metering: { isBilled: true } };
    const renew = makeRenewPaidTime({ ...deps, stopAutomatically: async () => false });
    expect(await Promise.all(rows.map((of) => renew({ id: of.instanceId, ownerId: of.accountId })))).toEqual(
      rows.map(() => null),
    );
    expect(await store.read.selectFrom('paidTime').selectAll().execute()).toEqual([]);
  });

  test('buy the time once, however many servers see the end', async () => {
    const { world, id, renew } = await atTheEnd();
    await Promise.all(Array.from({ length: SERVERS }, renew));
    expect(await moved(world, id)).toEqual(['prepayment cash revenue 4', 'prepayment cash revenue 4']);
    expect(await eventsOf(world, id, 'instance.paidTimeBought')).toHaveLength(2);
    expect(await eventsOf(world, id, 'instance.paidTimeEnding')).toEqual([]);
    await expectBalanced(world);
  });

  test('stop nothing that was started again or is to be renewed since the end was found', async () => {
    const decisions: unknown[] = [];
    const opened = await atTheEnd(false, async (_, decide) => {
      const { world, ann, id, instances, nowMs } = opened;
      const read = async () =>
        instanceFromRow(
          await world.store.read.selectFrom('instance').selectAll().where('id', '=', id).executeTakeFirstOrThrow(),
        );
      const ended = await read();
      decisions.push(decide(ended, nowMs())?.cause);
      decisions.push(decide({ ...ended, generation: ended.generation + 1 }, nowMs()));
      await instances.setBilling(ann, { instanceId: id, autoRenew: true }, null);
      decisions.push(decide(await read(), nowMs()));
      return false;
    });
    await opened.renew();
    expect(decisions).toEqual(['PaidTimeEnded', null, null]);
    await opened.renew();
    expect(await moved(opened.world, opened.id)).toHaveLength(2);
  });

  test('leave nothing of a terminated instance, and refund what was renewed and has not begun', async () => {
    const { world, ann, id, instances, renew, paid } = await atTheEnd();
    await Promise.all([...Array.from({ length: SERVERS }, renew), instances.terminate(ann, { instanceId: id }, null)]);
    expect(await paid(id)).toBeNull();
    const renewed = ['prepayment cash revenue 4', 'refund revenue cash 2'];
    const [launched, ...rest] = await moved(world, id);
    expect(launched).toBe('prepayment cash revenue 4');
    expect(rest).toEqual(rest.length === 0 ? [] : renewed);
    await expectBalanced(world);
  });
});
