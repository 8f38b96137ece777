/** Capacity and use of regions over time, for operators. */
import { expect, test } from 'vitest';
import { realTime } from '../../../src/control/kernel/time.ts';
import { makeFleetHistory, makeRecordUse } from '../../../src/control/regions/capacity/region-use.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../src/domain/kernel/durations.ts';
import { makeWorld } from '../../fixtures/control.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectRefused } from './access-fixture.ts';

const START_MS = 1_800_000_000_000;

onBothEngines('use of a region', { postgres: 'always' }, (open) => {
  test('is kept in steps of five minutes for 90 days, and read as means of longer ones', async () => {
    const store = await open();
    const world = await makeWorld(store, { start: false });
    const { regionId } = world.drivers;
    const [region] = await world.running.control.fleet.read();
    if (!region) throw new Error('there is no region');
    let nowMs = START_MS;
    let promised = 0;
    const time = { now: () => nowMs };
    const cpuMilli = { total: 4_000, free: 0, used: null };
    const fleet = {
      read: async () => [{ ...region, resources: { ...region.resources, cpuMilli: { ...cpuMilli, promised } } }],
    };
    const record = makeRecordUse({ store, time: { ...realTime, ...time }, fleet });
    const history = makeFleetHistory({ store, time: { ...realTime, ...time } });
    for (let count = 0; count < 12; count++) {
      nowMs = START_MS + count * 5 * MINUTE_MS + 7_000;
      promised = count * 100;
      await record();
      promised = 4_000;
      await record();
    }
    nowMs = START_MS + HOUR_MS;
    const day = await history.read({ regionId });
    expect(day.stepMs).toBe(5 * MINUTE_MS);
    expect(day.points.map((point) => [point.atMs - START_MS, point.cpuMilli.promised])).toEqual(
      Array.from({ length: 12 }, (_, count) => [count * 5 * MINUTE_MS, count * 100]),
    );
    expect(day.points[0]).toMatchObject({
      cpuMilli: { total: 4_000, used: null },
      memoryMiB: { total: 16 * 1024, promised: 0, used: 0 },
      gpuMilli: { total: 0, promised: 0, used: 0 },
    });
    const longer = await history.read({ regionId, fromUnixMs: START_MS - 14 * DAY_MS });
    expect(longer).toMatchObject({ stepMs: HOUR_MS, points: [{ atMs: START_MS, cpuMilli: { promised: 550 } }] });
    expect((await history.read({ regionId, fromUnixMs: START_MS - 89 * DAY_MS })).stepMs).toBe(6 * HOUR_MS);
    nowMs = START_MS + 90 * DAY_MS + 10 * MINUTE_MS;
    await record();
    const kept = await store.read.selectFrom('regionUse').select('atMs').distinct().orderBy('atMs').execute();
    expect(kept.map(({ atMs }) => (atMs - START_MS) / MINUTE_MS)).toEqual([
      ...Array.from({ length: 10 }, (_, count) => 10 + 5 * count),
      90 * 24 * 60 + 10,
    ]);
  });

  test('is refused for an unknown region, a time without length, and more than 90 days', async () => {
    const world = await makeWorld(await open(), { start: false });
    const { fleetHistory } = world.running.control;
    const { regionId } = world.drivers;
    await expectRefused(fleetHistory.read({ regionId: 'nowhere' }), 'not_found', /region nowhere/);
    await expectRefused(fleetHistory.read({ regionId, fromUnixMs: 5, toUnixMs: 5 }), 'field_value', /an earlier start/);
    await expectRefused(
      fleetHistory.read({ regionId, fromUnixMs: 5, toUnixMs: 6 + 90 * DAY_MS }),
      'field_value',
      /a later start/,
    );
  });
});
