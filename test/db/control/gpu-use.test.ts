/** GPU time of accounts, added up by the sampler and read by spans. */
import { expect, test } from 'vitest';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../src/domain/kernel/durations.ts';
import { SAMPLE_MS } from '../../../src/domain/compute/metrics.ts';
import type { GpuUsage } from '../../../src/engines/contract.ts';
import type { Store } from '../../../src/store/store.ts';
import { addGpuUse } from '../../../src/store/tables/gpu-use.ts';
import { makeWorld } from '../../fixtures/control.ts';
import { makeGpuSampling } from '../../fixtures/gpu-sampling.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectRefused } from './access-fixture.ts';

/** Midnight of UTC. */
const START_MS = Date.UTC(2026, 10, 2);

async function makeFixture(store: Store, startMs = START_MS) {
  const world = await makeWorld(store, { start: false });
  const sampling = await makeGpuSampling(store, { regionId: world.drivers.regionId, startMs });
  const rows = () => store.read.selectFrom('gpuUse').selectAll().orderBy('accountId').orderBy('atMs').execute();
  const rowsOf = async (accountId: string) =>
    (await rows()).flatMap(({ accountId: owner, ...row }) => (owner === accountId ? [row] : []));
  return { world, ...sampling, rows, rowsOf };
}

/** Changes the GPUs of each reading. */
function rewriteGpus(
  { engine }: Pick<Awaited<ReturnType<typeof makeFixture>>, 'engine'>,
  rewrite: (gpus: GpuUsage[]) => GpuUsage[] | null,
) {
  const { usage } = engine;
  engine.usage = async (...asked) => {
    const found = await usage(...asked);
    return new Map([...found].map(([id, one]) => [id, { ...one, gpus: one.gpus && rewrite(one.gpus) }]));
  };
}

onBothEngines('GPU time of an account', { postgres: 'always' }, (open) => {
  test('sums its instances by the hour, over the border of an hour, and leaves out those without GPUs', async () => {
    const { world, launch, begin, pass, rowsOf } = await makeFixture(await open(), START_MS - 2 * MINUTE_MS);
    const [ann, bob, eve] = [await world.account('ann'), await world.account('bob'), await world.account('eve')];
    await launch({ ownerId: ann.accountId, gpus: 2, busyPercent: 50 });
    await launch({ ownerId: ann.accountId, gpus: 1, busyPercent: 100 });
    await launch({ ownerId: ann.accountId, gpus: 0 });
    await launch({ ownerId: bob.accountId, gpus: 1 });
    await launch({ ownerId: eve.accountId, gpus: 0 });
    await begin();
    await pass(5 * MINUTE_MS + SAMPLE_MS);
    const time = (gpus: number, busy: number, minutes: number) => ({
      heldMs: gpus * minutes * MINUTE_MS,
      measuredMs: gpus * minutes * MINUTE_MS,
      busyMs: busy * minutes * MINUTE_MS,
    });
    const hours = (gpus: number, busy: number) => [
      { atMs: START_MS - HOUR_MS, ...time(gpus, busy, 2) },
      { atMs: START_MS, ...time(gpus, busy, 3) },
    ];
    expect(await rowsOf(ann.accountId)).toEqual(hours(3, 2));
    expect(await rowsOf(bob.accountId)).toEqual(hours(1, 0));
    expect(await rowsOf(eve.accountId)).toEqual([]);
    const { gpuUse } = world.running.control;
    const range = { fromMs: START_MS - 1, untilMs: START_MS + 1, timeZone: 'UTC' };
    expect(await gpuUse.read(ann, { ...range, by: 'day' })).toEqual([
      { fromMs: START_MS - DAY_MS, untilMs: START_MS, ...time(3, 2, 2) },
      { fromMs: START_MS, untilMs: START_MS + DAY_MS, ...time(3, 2, 3) },
    ]);
    expect(await gpuUse.read(ann, { ...range, by: 'month' })).toMatchObject([time(3, 2, 5)]);
    // Midnight of UTC is within a day of Berlin.
    expect(await gpuUse.read(bob, { ...range, by: 'day', timeZone: 'Europe/Berlin' })).toMatchObject([time(1, 0, 5)]);
    expect(await gpuUse.read(eve, { ...range, by: 'week' })).toMatchObject([time(0, 0, 0), time(0, 0, 0)]);
    const long = { fromMs: 0, untilMs: START_MS, timeZone: 'UTC', by: 'day' } as const;
    await expectRefused(gpuUse.read(eve, long), 'field_value', /more than 750 spans by day/);
  });

  test('has an instance that was terminated within its first minutes', async () => {
    const { world, launch, begin, pass, rowsOf, terminate } = await makeFixture(await open());
    const { accountId } = world.caller;
    const id = await launch({ ownerId: accountId, gpus: 1, busyPercent: 10 });
    await begin();
    await pass(MINUTE_MS + 2 * SAMPLE_MS);
    await terminate(id);
    await pass(3 * MINUTE_MS);
    const heldMs = 6 * SAMPLE_MS;
    expect(await rowsOf(accountId)).toEqual([{ atMs: START_MS, heldMs, measuredMs: heldMs, busyMs: heldMs / 10 }]);
  });

  test('counts a minute once that a clock which was set back writes again', async () => {
    const { world, launch, begin, pass, rowsOf, date } = await makeFixture(await open());
    const { accountId } = world.caller;
    await launch({ ownerId: accountId, gpus: 1 });
    await begin();
    await pass(3 * MINUTE_MS + SAMPLE_MS);
    date.aheadMs = -3 * MINUTE_MS;
    await pass(4 * MINUTE_MS);
    expect(await rowsOf(accountId)).toMatchObject([{ atMs: START_MS, heldMs: 4 * MINUTE_MS }]);
  });

  test('is held and not measured where the utilization is unknown', async () => {
    const fixture = await makeFixture(await open());
    const { world, launch, begin, pass, rowsOf } = fixture;
    const [mute, half] = [world.caller.accountId, (await world.account('half')).accountId];
    await launch({ ownerId: mute, gpus: 1, busyPercent: 50 });
    await launch({ ownerId: half, gpus: 2, busyPercent: 50 });
    rewriteGpus(fixture, (gpus) =>
      gpus.length === 1 ? null : gpus.map((gpu, nth) => (nth === 0 ? { ...gpu, busyPercent: null } : gpu)),
    );
    await begin();
    await pass(MINUTE_MS + SAMPLE_MS);
    expect(await rowsOf(mute)).toMatchObject([{ heldMs: MINUTE_MS, measuredMs: 0, busyMs: 0 }]);
    expect(await rowsOf(half)).toMatchObject([{ heldMs: 2 * MINUTE_MS, measuredMs: MINUTE_MS, busyMs: MINUTE_MS / 2 }]);
  });

  test('counts a part of a card as its share', async () => {
    const { world, launch, begin, pass, rowsOf } = await makeFixture(await open());
    const { accountId } = world.caller;
    await launch({ ownerId: accountId, gpus: 1, busyPercent: 100, share: 0.25 });
    await begin();
    await pass(MINUTE_MS + SAMPLE_MS);
    const quarterMs = MINUTE_MS / 4;
    expect(await rowsOf(accountId)).toMatchObject([{ heldMs: quarterMs, measuredMs: quarterMs, busyMs: quarterMs }]);
  });

  test('is kept for 13 months', async () => {
    const store = await open();
    const { begin, pass, rows } = await makeFixture(store);
    const time = { heldMs: 1, measuredMs: 1, busyMs: 0 };
    for (const days of [397, 395])
      await store.write((tx) => addGpuUse(tx, START_MS - days * DAY_MS, new Map([['x', time]])));
    await begin();
    await pass(MINUTE_MS + SAMPLE_MS);
    expect(await rows()).toEqual([{ accountId: 'x', atMs: START_MS - 395 * DAY_MS, ...time }]);
  });
});
