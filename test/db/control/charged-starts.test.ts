/** Use is charged from the start of the container; a start that the host ended is refunded. */
import { expect, test } from 'vitest';
import type { Caller } from '../../../src/control/index.ts';
import type { LaunchInput } from '../../../src/control/compute/instances/instances.ts';
import { instanceId } from '../../../src/domain/kernel/ids.ts';
import { monthOf } from '../../../src/domain/money/usage-buckets.ts';
import { eventually, hasStatus, type World } from '../../fixtures/control.ts';
import { onBothEngines, type Open } from '../../fixtures/store.ts';
import { settled, wrongBooks } from './consistency.ts';
import { expectViewsAgree } from './month-views.ts';
import { eventsOf, expectBalanced, openPaidWorld } from './paid-time-fixture.ts';

const HOUR_MS = 3_600_000;
const PRICE = 100_000;
const byHour = { chargeMode: 'perHour', duration: 1 } as const;
const byDay = { chargeMode: 'perDay', duration: 2 } as const;

async function openWorld(open: Open, readyDeadlineMs = HOUR_MS) {
  const opened = await openPaidWorld(open, { limits: { readyDeadlineMs } });
  const { world, launch, ann, clock } = opened;
  const evicted = new Set<string>();
  const { engine } = world;
  const observe = engine.observe.bind(engine);
  engine.observe = async (ids, signal) => {
    const found = await observe(ids, signal);
    for (const [id, one] of found)
      if (evicted.has(id) && one.kind === 'present')
        found.set(id, { ...one, disruption: { text: 'the node is drained', graceMs: 0 } });
    return found;
  };
  const period = (id: string) =>
    world.store.read
      .selectFrom('usagePeriod')
      .selectAll()
      .where('subjectId', '=', id)
      .where('meter', '=', 'compute')
      .orderBy('id')
      .execute();
  return {
    ...opened,
    evicted,
    periodsOf: period,
    /** The container runs, and never gets ready unless the script says when. */
    async inUse(billing: LaunchInput['billing'], script = '# berth-sim: never ready', caller: Caller = ann) {
      const { instanceConfiguration } = world.launchInput();
      const id = await launch(
        billing,
        { instanceConfiguration: { ...instanceConfiguration, initScript: script } },
        caller,
      );
      await world.until(id, ({ instanceRuntimeInfo: { phase } }) => phase === 'WaitReady');
      return id;
    },
    pass(ms: number): void {
      clock.aheadMs += ms;
    },
    runsOf: async (id: string) =>
      (await period(id)).filter(({ state }) => state === 'charged' || state === 'paidAhead'),
  };
}

const entriesOf = ({ store }: World, id: string) =>
  store.read
    .selectFrom('entry')
    .selectAll()
    .where('subjectId', '=', id)
    .where('meter', '=', 'compute')
    .orderBy('id')
    .execute();

const sumOf = (entries: readonly { kind: string; amountMicros: number }[], kind: string): number =>
  entries.reduce((sum, one) => (one.kind === kind ? sum + one.amountMicros : sum), 0);

/** Kills the containers while the engine is away, as a restart of the engine does. */
async function endInOutage({ engine, until }: World, ids: readonly string[]): Promise<void> {
  engine.host.goAway(HOUR_MS);
  for (const id of ids) {
    await until(id, ({ instanceRuntimeInfo }) => instanceRuntimeInfo.diagnosisReason === 'EngineUnreachable');
    await engine.host.crash(instanceId(id));
  }
  engine.host.comeBack();
}

/** Every view of the month has the same sums, each quantity × price. */
async function expectBooksAgree(world: World, caller: Caller, nowMs: number): Promise<void> {
  // A booking between two views would make them differ.
  await world.running.stop();
  expect(await wrongBooks(world.store)).toEqual([]);
  await expectBalanced(world);
  const { month, fromMs } = monthOf(nowMs, 'UTC');
  const hourMs = Math.floor(nowMs / HOUR_MS) * HOUR_MS;
  const hours = { fromMs: Math.max(fromMs, hourMs - HOUR_MS), untilMs: hourMs + HOUR_MS };
  await expectViewsAgree(world, caller, { month, timeZone: 'UTC', hours });
}

onBothEngines('a start', { postgres: 'always' }, (open) => {
  test('is charged from the start of the container, though the instance never becomes Running', async () => {
    const { world, ann, inUse, pass, runsOf, periodsOf, nowMs, balance } = await openWorld(open, 40_000);
    const id = await inUse(byHour);
    const [run] = await runsOf(id);
    const containerId = instanceId(id);
    const container = (await world.engine.observe([containerId], AbortSignal.timeout(60_000))).get(containerId);
    expect(container).toMatchObject({ kind: 'present', startedAtMs: run?.openedAtMs });
    const { burnRate } = await world.running.control.budgets.forecast(ann);
    expect(burnRate, 'counts once').toBe(PRICE / 1e6);
    pass(41_000);
    const failed = await world.until(id, hasStatus('StartingFailed'));
    expect(failed.instanceRuntimeInfo.diagnosisReason).toBe('StartTimeout');
    await settled(world);
    const [paid, ...others] = (await periodsOf(id)).filter(({ state }) => state === 'charged');
    expect(others).toEqual([]);
    const ms = (paid?.closedAtMs ?? 0) - (paid?.openedAtMs ?? 0);
    expect(ms).toBeGreaterThanOrEqual(40_000);
    expect(paid?.chargedMicros).toBe(Math.floor((PRICE * ms) / HOUR_MS));
    expect((await balance()).cash).toBe(100 - (paid?.chargedMicros ?? 0) / 1e6);
    expect(sumOf(await entriesOf(world, id), 'refund')).toBe(0);
    await expectBooksAgree(world, ann, nowMs());
  });

  test('is paid for each container that exited by itself, and waits in between', async () => {
    const { world, ann, launch, runsOf, nowMs } = await openWorld(open);
    const { instanceConfiguration } = world.launchInput();
    const initScript = '# berth-sim: never ready\n# berth-sim: crash after 300ms exit 3';
    const id = await launch(byHour, { instanceConfiguration: { ...instanceConfiguration, initScript } });
    const failed = await world.until(id, hasStatus('StartingFailed'));
    expect(failed.instanceRuntimeInfo.diagnosisReason).toBe('CrashLoop');
    const runs = await runsOf(id);
    expect(runs.length).toBeGreaterThan(1);
    for (const { openedAtMs, closedAtMs } of runs) expect((closedAtMs ?? 0) - openedAtMs).toBeGreaterThanOrEqual(300);
    expect(sumOf(await entriesOf(world, id), 'charge')).toBeGreaterThan(0);
    expect(await eventsOf(world, id, 'instance.startRefunded')).toEqual([]);
    await expectBooksAgree(world, ann, nowMs());
  });

  test('that the host ended is refunded once, to what paid, and is a line that takes its use back', async () => {
    const { world, ann, give, inUse, pass, evicted, runsOf, balance, nowMs, instances } = await openWorld(open);
    await give('voucher', 0.0005, { expiresAtMs: nowMs() + HOUR_MS });
    await give('credit', 0.0004);
    const before = await balance();
    const id = await inUse(byHour);
    pass(50_000);
    evicted.add(id);
    await world.until(id, ({ instanceRuntimeInfo: { diagnosisReason } }) => diagnosisReason === 'Evicted');
    await world.again();
    await world.again();
    const entries = await entriesOf(world, id);
    const charges = entries.filter(({ kind }) => kind === 'charge');
    expect(new Set(charges.map(({ fromLedger }) => fromLedger))).toEqual(new Set(['cash', 'credit', 'voucher']));
    const [run] = await runsOf(id);
    expect(entries.filter(({ kind }) => kind === 'refund')).toEqual(
      charges.map(({ id: reversesId, fromLedger: toLedger, amountMicros, grantId, fromMs, untilMs }) =>
        expect.objectContaining({
          reversesId,
          fromLedger: 'revenue',
          toLedger,
          amountMicros,
          grantId,
          fromMs,
          untilMs,
          periodId: run?.id,
          meter: 'compute',
          reason: 'start: Evicted',
        }),
      ),
    );
    expect(await balance()).toEqual(before);
    const amount = sumOf(charges, 'charge') / 1e6;
    expect(await eventsOf(world, id, 'instance.startRefunded')).toEqual([
      { reason: 'Evicted', amount, paidTime: false },
    ]);
    const { month } = monthOf(nowMs(), 'UTC');
    const statement = await world.running.control.statements.page(
      ann,
      { month, timeZone: 'UTC' },
      { currentPage: 1, pageSize: 10 },
    );
    const line = statement.resources.find(({ subjectId, meter }) => subjectId === id && meter === 'compute');
    expect(line?.amountMicros).toBe(0);
    expect(line?.prices.map(({ isRefund, amountMicros }) => [isRefund, Math.sign(amountMicros)])).toEqual([
      [false, 1],
      [true, -1],
    ]);
    await instances.terminate(ann, { instanceId: id }, null);
    await settled(world);
    await expectBooksAgree(world, ann, nowMs());
  });

  test('that an outage of the engine ended is refunded, and counts as no attempt', async () => {
    const { world, ann, inUse, pass, runsOf, instances, nowMs } = await openWorld(open);
    const [hourly, daily] = [await inUse(byHour), await inUse(byDay)];
    pass(50_000);
    await endInOutage(world, [hourly, daily]);
    for (const id of [hourly, daily]) {
      await eventually(async () => (await runsOf(id)).length === 2);
      const row = await world.store.read.selectFrom('instance').selectAll().where('id', '=', id).executeTakeFirst();
      expect(row?.attempts).toBe(0);
    }
    expect(await eventsOf(world, daily, 'instance.startRefunded')).toEqual([
      { reason: 'EngineUnreachable', amount: 0, paidTime: true },
    ]);
    const [first] = await runsOf(hourly);
    const refunds = (await entriesOf(world, hourly)).filter(({ kind }) => kind === 'refund');
    expect(sumOf(refunds, 'refund')).toBe(first?.chargedMicros);
    for (const { reason, periodId } of refunds)
      expect([reason, periodId]).toEqual(['start: EngineUnreachable', first?.id]);
    for (const id of [hourly, daily]) await instances.terminate(ann, { instanceId: id }, null);
    await settled(world);
    await expectBooksAgree(world, ann, nowMs());
  });

  test('that an operator ended is refunded; one that its owner ended is paid', async () => {
    const { world, ann, inUse, pass, nowMs, instances } = await openWorld(open);
    const { operator } = world.running.control;
    const acts = {
      stop: (id: string) => instances.stop(ann, { instanceId: id }, null),
      terminate: (id: string) => instances.terminate(ann, { instanceId: id }, null),
      operatorStop: (id: string) => operator.stop(world.caller, { instanceId: id, reason: 'test' }, null),
      operatorTerminate: (id: string) => operator.terminate(world.caller, { instanceId: id, reason: 'test' }, null),
    };
    for (const [name, act] of Object.entries(acts)) {
      const id = await inUse(byHour);
      pass(30_000);
      await act(id);
      await settled(world);
      const entries = await entriesOf(world, id);
      const charged = sumOf(entries, 'charge');
      expect(charged, name).toBeGreaterThanOrEqual(Math.floor((PRICE * 30_000) / HOUR_MS));
      expect(sumOf(entries, 'refund'), name).toBe(name.startsWith('operator') ? charged : 0);
    }
    await settled(world);
    await expectBooksAgree(world, ann, nowMs());
  });

  test('is not refunded once the instance was Running', async () => {
    const { world, launch, pass, evicted } = await openWorld(open);
    const id = await launch(byHour);
    await world.until(id, hasStatus('Running'));
    pass(50_000);
    evicted.add(id);
    // As the hint of an engine does.
    await world.store.write((tx) => tx.updateTable('instance').set({ dueAtMs: 1 }).where('id', '=', id).execute());
    await eventually(async () =>
      (await eventsOf(world, id, 'instance.observed')).some((one) => one['reason'] !== undefined),
    );
    const entries = await entriesOf(world, id);
    expect(sumOf(entries, 'charge')).toBeGreaterThan(0);
    expect(sumOf(entries, 'refund')).toBe(0);
  });

  test('goes on with its period when control starts again, and becomes Running in it', async () => {
    const { world, inUse, runsOf, periodsOf } = await openWorld(open);
    const id = await inUse(byHour, '# berth-sim: ready after 2s');
    const [before] = await runsOf(id);
    await world.again();
    await world.until(id, hasStatus('Running'));
    expect((await runsOf(id)).map(({ openedAtMs, openSeq }) => ({ openedAtMs, openSeq }))).toEqual([
      { openedAtMs: before?.openedAtMs, openSeq: before?.openSeq },
    ]);
    expect((await periodsOf(id)).at(-1)?.closedAtMs).toBeNull();
  });

  test('begins paid time with the container, and takes that back when the host ends it', async () => {
    const { world, ann, inUse, pass, evicted, paid, runsOf, instances, balance, nowMs } = await openWorld(open);
    const farmed = await inUse(byDay);
    const [run] = await runsOf(farmed);
    expect(await paid(farmed)).toMatchObject({ anchorMs: run?.openedAtMs });
    await instances.terminate(ann, { instanceId: farmed }, null);
    expect(await balance(), 'the day under way is paid').toMatchObject({ cash: 98 });

    const id = await inUse(byDay);
    pass(10_000);
    evicted.add(id);
    await eventually(async () => (await eventsOf(world, id, 'instance.startRefunded')).length === 1);
    expect(await eventsOf(world, id, 'instance.startRefunded')).toEqual([
      { reason: 'Evicted', amount: 0, paidTime: true },
    ]);
    evicted.delete(id);
    await eventually(async () => (await paid(id))?.anchorMs !== null);
    expect((await eventsOf(world, id, 'instance.paidTimeBegan')).length).toBe(2);
    evicted.add(id);
    await eventually(async () => (await paid(id))?.anchorMs === null);
    await instances.terminate(ann, { instanceId: id }, null);
    expect(await balance(), 'refunded in full').toMatchObject({ cash: 98 });
    await settled(world);
    await expectBooksAgree(world, ann, nowMs());
  });
});
