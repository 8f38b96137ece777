/** When the books count: times of periods, the order of a minute's bookings, days of a budget. */
import { expect, test } from 'vitest';
import { realTime } from '../../../src/control/kernel/time.ts';
import { countBudget, NOTHING_SETTLED } from '../../../src/control/money/count-budget.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../src/domain/kernel/durations.ts';
import { instanceId as asInstanceId } from '../../../src/domain/kernel/ids.ts';
import { STORAGE_UNIT_MS } from '../../../src/domain/money/meter.ts';
import { plainEntry, writeEntries } from '../../../src/store/tables/ledger.ts';
import { insertPeriod } from '../../../src/store/tables/usage-periods.ts';
import { hasStatus, makeWorld } from '../../fixtures/control.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { accountRow, instanceRow, regionRow } from '../store/rows.ts';
import { chargingAt } from './charging.ts';
import { settled } from './consistency.ts';

const START_MS = Date.UTC(2026, 10, 15);

onBothEngines('the books', (open) => {
  test('begin and end a period at the time of its event or container, however late they are written', async () => {
    let lateMs = 0;
    // Every look at the clock is later than the one before.
    const now = () => Date.now() + (lateMs += 3);
    const world = await makeWorld(await open(), {
      time: { ...realTime, now, elapsed: () => performance.now() + lateMs },
    });
    const { control } = world.running;
    const { instanceId } = await control.instances.launch(world.caller, world.launchInput(), null);
    await world.until(instanceId, hasStatus('Running'));
    await settled(world);
    await control.instances.stop(world.caller, { instanceId }, null);
    await world.until(instanceId, hasStatus('Stopped'));
    await settled(world);
    const periods = await world.store.read.selectFrom('usagePeriod').selectAll().orderBy('id').execute();
    const events = await world.store.read.selectFrom('event').select(['seq', 'atMs']).execute();
    const timeOf = new Map(events.map(({ seq, atMs }) => [seq, atMs]));
    const at = periods.findIndex(({ meter, state }) => meter === 'compute' && state === 'charged');
    const [free, run] = [periods[at - 1], periods[at]];
    const id = asInstanceId(instanceId);
    const container = (await world.engine.observe([id], AbortSignal.timeout(60_000))).get(id);
    if (!free || !run || container?.kind !== 'present') throw new Error('the instance did not run');
    // The clock of the engine is behind: the run begins no sooner than the free time before it.
    const startedAtMs = Math.max(container.startedAtMs, free.openedAtMs);
    expect(startedAtMs).toBeLessThan(timeOf.get(run.openSeq) ?? 0);
    timeOf.set(run.openSeq, startedAtMs);
    expect(periods.length).toBeGreaterThan(2);
    for (const { openSeq, openedAtMs, closeSeq, closedAtMs } of periods) {
      expect(openedAtMs).toBe(timeOf.get(openSeq));
      if (closeSeq !== null) expect(closedAtMs).toBe(timeOf.get(closeSeq));
    }
  });

  test('book compute of a minute before the other meters', async () => {
    const store = await open();
    await store.write(async (tx) => {
      await tx
        .insertInto('account')
        .values(accountRow({ id: 'ann', balanceMicros: 5_000 }))
        .execute();
      await tx
        .insertInto('region')
        .values(regionRow({ id: 'here' }))
        .execute();
      await tx
        .insertInto('instance')
        .values(instanceRow({ id: 'compute', ownerId: 'ann', regionId: 'here' }))
        .execute();
    });
    for (const [meter, unitMs] of [
      ['volume', STORAGE_UNIT_MS],
      ['compute', HOUR_MS],
    ] as const)
      await store.write((tx) =>
        insertPeriod(tx, {
          accountId: 'ann',
          subjectId: meter,
          subjectName: '',
          meter,
          state: 'charged',
          regionId: 'here',
          typeId: '',
          priceMicros: 300_000 * (unitMs / HOUR_MS),
          quantity: 1,
          unitMs,
          openedAtMs: START_MS,
          closedAtMs: null,
          openSeq: 1,
          closeSeq: null,
          chargedUntilMs: START_MS,
          carry: 0,
          isCharging: 1,
        }),
      );
    const { clock, metering, charge } = chargingAt(store, START_MS);
    const booked = async () => {
      const entries = store.read.selectFrom('entry').select(['meter', 'fromLedger', 'amountMicros']).orderBy('id');
      return (await entries.execute()).map(
        ({ meter, fromLedger, amountMicros }) => `${meter} ${fromLedger} ${amountMicros}`,
      );
    };
    metering.saw('here', START_MS + MINUTE_MS - 8_000);
    clock.nowMs = START_MS + MINUTE_MS + 2_000;
    await charge();
    expect(await booked(), 'storage waits for the sweep').toEqual([]);
    metering.saw('here', clock.nowMs);
    await charge();
    // What the money does not pay is the volume's.
    expect(await booked()).toEqual(['compute cash 5000', 'volume uncollected 5000']);
  });

  test('are read day by day for a budget: past days once, and none that has not come', async () => {
    const store = await open();
    await store.write((tx) =>
      tx
        .insertInto('account')
        .values(accountRow({ id: 'ann' }))
        .execute(),
    );
    let spans = 0;
    const read = store.read.withPlugin({
      transformQuery({ node }) {
        spans += 1;
        return node;
      },
      transformResult: async ({ result }) => result,
    });
    const entry = { ...plainEntry, accountId: 'ann', kind: 'charge', fromLedger: 'cash', toLedger: 'revenue' };
    for (const atMs of [START_MS - 9 * DAY_MS, START_MS - 2 * DAY_MS, START_MS])
      await store.write((tx) => writeEntries(tx, [{ ...entry, atMs, amountMicros: 7, subjectId: 'x' }]));
    const scope = { accountId: 'ann', labelKey: '', labelValue: '', timeZone: 'UTC' };
    const first = await countBudget(read, { ...scope, ...NOTHING_SETTLED }, START_MS + HOUR_MS);
    expect(first).toMatchObject({ spentMicros: 21, settledMicros: 14 });
    expect(spans, 'fourteen days, and the rest of today').toBe(15);
    expect(await countBudget(read, { ...scope, ...first }, START_MS + 2 * HOUR_MS)).toMatchObject({ spentMicros: 21 });
    expect(spans - 15, 'the settled hours since, and the rest').toBe(2);
  });
});
