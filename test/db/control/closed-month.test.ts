/** A month that is over, disturbed in every way that the API has, reads the same in every view. */
import { expect, test } from 'vitest';
import { makeChargeUsage } from '../../../src/control/money/charge-usage.ts';
import { makeMetering } from '../../../src/control/money/metering.ts';
import { realTime } from '../../../src/control/kernel/time.ts';
import { HOUR_MS, MINUTE_MS } from '../../../src/domain/kernel/durations.ts';
import { deleteAccountRows } from '../../../src/store/tables/account-rows.ts';
import { eventually, makeWorld, type World } from '../../fixtures/control.ts';
import { onBothEngines, type Open } from '../../fixtures/store.ts';
import { expectConsistent } from './consistency.ts';
import { expectViewsAgree, viewsOf } from './month-views.ts';

const ignore = () => {};
const silent = { debug: ignore, info: ignore, warn: ignore, error: ignore };
/** Interval of the tasks of money: the test books itself. */
const CHARGE_INTERVAL_MS = 10_000;
const [JANUARY_ENDS, DAY_MS] = [Date.UTC(2027, 1, 1), 24 * HOUR_MS];
const january = {
  month: '2027-01',
  timeZone: 'UTC',
  hours: { fromMs: JANUARY_ENDS - DAY_MS, untilMs: JANUARY_ENDS },
};
const february = { ...january, month: '2027-02', hours: { fromMs: JANUARY_ENDS, untilMs: JANUARY_ENDS + 2 * DAY_MS } };

/** A world whose clock moves when the test moves it, and while reconcilers have work. */
async function stillWorld(open: Open, startMs: number) {
  const clock = { ms: 0 };
  const every: typeof realTime.every = (ms, fn) => (ms === CHARGE_INTERVAL_MS ? ignore : realTime.every(ms, fn));
  const time = { ...realTime, now: () => startMs + clock.ms, elapsed: () => clock.ms, every };
  const world = await makeWorld(await open(), { time, limits: { stopGraceMs: 200 } });
  // A step of the clock in the middle of a probe is a long silence of the engine.
  const drivers = { ...world.drivers, health: { ...world.drivers.health, answers: true } };
  const regions = { all: () => [drivers], of: () => drivers };
  const metering = makeMetering({ time, regions, isBilled: true });
  const charge = makeChargeUsage({ store: world.store, regions, metering, log: silent, time });
  const isBusy = async (): Promise<boolean> => {
    for (const table of ['instance', 'volume'] as const) {
      const rows = world.store.read.selectFrom(table).select('id');
      const busy = rows.where((eb) => eb.or([eb('dueAtMs', 'is not', null), eb('leaseOwner', 'is not', null)]));
      if (await busy.executeTakeFirst()) return true;
    }
    return false;
  };
  const settle = async (): Promise<void> => {
    for (let tries = 0; tries < 10_000 && (await isBusy()); tries++) {
      clock.ms += 7;
      await new Promise((resolve) => setTimeout(resolve, 4));
    }
  };
  const book = async (): Promise<void> => {
    metering.saw(world.drivers.regionId, time.now());
    await charge();
  };
  /** In steps after which all is booked. */
  const pass = async (ms: number): Promise<void> => {
    for (const endMs = clock.ms + ms; clock.ms < endMs;) {
      clock.ms = Math.min(endMs, clock.ms + 25 * MINUTE_MS);
      await book();
    }
  };
  return { world, clock, settle, book, pass };
}

const idOf = (volumeText: string): string => (JSON.parse(volumeText) as { id: string }).id;

async function reprice({ running, caller, types, drivers }: World, price: number): Promise<void> {
  const { offeredTypes, regionAdministration } = running.control;
  const { types: listed } = await offeredTypes.list({ currentPage: 1, pageSize: 10 });
  const type = listed.find(({ instanceTypeId }) => instanceTypeId === types[0]?.id);
  if (!type) throw new Error('the type of launches is not offered');
  const { instanceTypeId, version, prices } = type;
  await offeredTypes.update(
    caller,
    { instanceTypeId, version, dryRun: false, prices: { ...prices, perHour: price } },
    null,
  );
  const { regionId } = drivers;
  const { region } = await regionAdministration.get(regionId);
  const storagePrices = { filesystem: price, highspeedstorage: price, snapshot: price, keptDisk: price };
  await regionAdministration.update(caller, { regionId, version: region.version, dryRun: false, storagePrices }, null);
}

async function renameRegion({ running, caller, drivers: { regionId } }: World, name: string): Promise<void> {
  const { regionAdministration } = running.control;
  const { region } = await regionAdministration.get(regionId);
  await regionAdministration.update(caller, { regionId, version: region.version, dryRun: false, name }, null);
}

onBothEngines('a month that is over', { postgres: 'always' }, (open) => {
  test('is not final while an event of its last minute may still be written', async () => {
    const { world, clock } = await stillWorld(open, Date.UTC(2027, 0, 31, 23));
    const anna = await world.account('anna', 100);
    const finalAfter = async (ms: number): Promise<boolean> => {
      clock.ms = HOUR_MS + ms;
      return (await world.running.control.statements.page(anna, january, { currentPage: 1, pageSize: 1 })).isFinal;
    };
    expect(await finalAfter(90_000)).toBe(false);
    expect(await finalAfter(120_000)).toBe(true);
  });

  test('is final once its charges are booked, and reads the same whatever follows', async () => {
    const { world, clock, settle, book, pass } = await stillWorld(open, Date.UTC(2027, 0, 31, 16, 0, 7));
    const { instances, volumes, credits, statements, usage } = world.running.control;
    const anna = await world.account('anna', 100);
    const labels = { team: 'red' };
    const launch = async (name: string, more = {}): Promise<string> =>
      (await instances.launch(anna, world.launchInput({ name, labels, ...more }), null)).instanceId;
    const [hourly, other] = [await launch('hourly'), await launch('other')];
    const bought = await launch('bought', { billing: { chargeMode: 'perDay', duration: 4 } });
    const region = world.drivers.regionId;
    const disk = { sizeGB: 100, region, volumeType: 'filesystem' as const, labels };
    const data = idOf((await volumes.create(anna, { ...disk, name: 'data' }, null)).volumeText);
    await settle();
    await pass(90 * MINUTE_MS);
    clock.ms += 2 * HOUR_MS;
    await book();
    const final = async () => (await statements.page(anna, january, { currentPage: 1, pageSize: 1 })).isFinal;
    clock.ms = Date.UTC(2027, 1, 1) - Date.UTC(2027, 0, 31, 16, 0, 7) - 30 * MINUTE_MS;
    await pass(25 * MINUTE_MS);
    expect(await final(), 'before its end').toBe(false);
    clock.ms += 10 * MINUTE_MS;
    expect(await final(), 'with charges to book').toBe(false);
    // A booking waits for the reconcile of its instance.
    await eventually(async () => {
      await settle();
      await book();
      return final();
    });
    const before = await viewsOf(world, anna, january);
    await expectViewsAgree(world, anna, january);

    const span = { fromMs: Date.UTC(2027, 0, 31), untilMs: Date.UTC(2027, 1, 1) };
    const request = { ...span, by: 'hour', timeZone: 'UTC', groupBy: 'resource' } as const;
    const { rows } = await usage.rows(anna, request, { currentPage: 1, pageSize: 1_000 });
    const gaps = rows
      .filter(({ subjectId, ms }) => subjectId === data && ms.gap)
      .map(({ fromMs }) => new Date(fromMs).getUTCHours());
    expect(gaps).toEqual([17, 18, 19, 20, 21, 22, 23]);
    for (const { ms } of rows)
      expect(Object.values(ms).reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(HOUR_MS);

    const disturbances: Record<string, () => Promise<unknown>> = {
      'an end': async () => {
        await instances.stop(anna, { instanceId: other }, null);
        await settle();
        await instances.terminate(anna, { instanceId: other }, null);
      },
      'labels and names': async () => {
        await instances.update(anna, { instanceId: hourly, name: 'renamed', labels: { team: 'blue' } }, null);
        await instances.update(anna, { instanceId: bought, name: 'renamed too', labels: {} }, null);
        await volumes.setLabels(anna, { id: data, labels: { team: 'blue' } });
        await volumes.rename(anna, { id: data, name: 'renamed' }, null);
      },
      'a name of the region': () => renameRegion(world, 'renamed'),
      prices: () => reprice(world, 0.77),
      'a stop and a start': async () => {
        await instances.stop(anna, { instanceId: hourly }, null);
        await settle();
        await instances.start(anna, { instanceId: hourly }, null);
      },
      'a gap of hours': async () => void (clock.ms += 3 * HOUR_MS),
      'money given and taken back': async () => {
        const given = { username: 'anna', amount: 5, kind: 'credit' as const, reason: 'test' };
        const { entry } = await credits.give(world.caller, given, null);
        await credits.reverse(world.caller, { entryId: entry.entryId, reason: 'test' }, null);
      },
      'a refund': () => instances.terminate(anna, { instanceId: bought }, null),
      expansion: () => volumes.expand(anna, { id: data, sizeGB: 120 }, null),
      'the end of a volume': () => volumes.delete(anna, { id: data }, null),
    };
    for (const [what, disturb] of Object.entries(disturbances)) {
      await disturb();
      await settle();
      await pass(70 * MINUTE_MS);
      const after = await viewsOf(world, anna, january);
      for (const [view, text] of Object.entries(before)) expect(after[view], `${view} after ${what}`).toBe(text);
    }
    await expectConsistent(world);
    await expectViewsAgree(world, anna, february);
    await instances.terminate(anna, { instanceId: hourly }, null);
    await settle();
    await world.store.write((tx) => deleteAccountRows(tx, anna.accountId, 0));
    const { focusOfAll } = await viewsOf(world, world.caller, january);
    expect(focusOfAll, 'after the account was deleted').toBe(before['focusOfAll']);
  });
});
