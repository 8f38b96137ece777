/** Spot instances, reclaimed for launches and starts at full price. */
import { expect, test } from 'vitest';
import { instanceFromRow } from '../../../src/store/tables/instances.ts';
import type { Store } from '../../../src/store/store.ts';
import { eventually, hasStatus } from '../../fixtures/control.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectRefused } from './access-fixture.ts';
import { machineOf, makeSizedWorld, type SizedWorld } from './capacity-fixture.ts';
import { expectConsistent, settled } from './consistency.ts';

const GRACE_MS = 120_000;
const sizes = {
  full1: { cpuCores: 1, memoryGB: 1 },
  full2: { cpuCores: 2, memoryGB: 2 },
  full4: { cpuCores: 4, memoryGB: 4 },
  spot1: { cpuCores: 1, memoryGB: 1, isSpot: true },
  spot2: { cpuCores: 2, memoryGB: 2, isSpot: true },
};

/** A machine of four cores. */
async function makeSpotWorld(store: Store) {
  const clock = { aheadMs: 0 };
  const world = await makeSizedWorld(store, machineOf(4, 4), sizes, { clock, hurry: 20 });
  const { instances } = world.running.control;
  const request = async (type: keyof typeof sizes, resume = false, waitMs: number | null = null): Promise<string> => {
    const billing = { chargeMode: 'perHour', duration: 1, ...(resume ? { resume } : {}) } as const;
    const input = world.of(type, { isSpotInstance: type.startsWith('spot'), billing });
    return (await instances.launch(world.caller, input, null, waitMs)).instanceId;
  };
  const row = async (id: string) =>
    instanceFromRow(
      await world.store.read.selectFrom('instance').selectAll().where('id', '=', id).executeTakeFirstOrThrow(),
    );
  return {
    world,
    clock,
    request,
    row,
    /** Each a second newer than the one before. */
    async launch(type: keyof typeof sizes, resume = false): Promise<string> {
      const id = await request(type, resume);
      await world.until(id, hasStatus('Running'));
      await settled(world);
      clock.aheadMs += 1_000;
      return id;
    },
    stop: (instanceId: string) => instances.stop(world.caller, { instanceId }, null),
    async reclaimed(): Promise<string[]> {
      const found = world.store.read.selectFrom('event').select('subjectId').where('kind', '=', 'instance.reclaimed');
      return (await found.orderBy('id').execute()).map(({ subjectId }) => subjectId);
    },
  };
}

const reasonOf = async ({ instance }: SizedWorld, id: string): Promise<string> =>
  (await instance(id)).instanceRuntimeInfo.diagnosisReason;

/** Some runs of the tasks. */
const pause = () => new Promise((resolve) => setTimeout(resolve, 250));

onBothEngines('spot', (open) => {
  test('reclaims the newest runs for a launch at full price, exactly as many as needed', async () => {
    const { world, clock, request, launch, row, reclaimed } = await makeSpotWorld(await open());
    const [first, second, third, fourth] = [
      await launch('spot1'),
      await launch('spot1'),
      await launch('spot1'),
      await launch('spot1'),
    ];
    // Without the header that waits.
    const full = await request('full2');
    await eventually(async () => (await reclaimed()).length === 2);
    expect(await reclaimed()).toEqual([fourth, third]);
    expect(await reasonOf(world, full)).toBe('NoCapacity');
    const { reclaimAtMs } = await row(fourth);
    expect(reclaimAtMs).toBeGreaterThan(Date.now() + clock.aheadMs + GRACE_MS - 10_000);
    const noticed = async (): Promise<string> => {
      const command = { instanceId: fourth, command: ['cat', '/run/berth/notice.json'], env: [], stdin: Buffer.of() };
      const limits = { limitMs: 60_000, maxOutputBytes: 1_000 };
      const { commands } = world.running.control;
      const { stdout } = await commands.run(world.caller, { ...command, ...limits }, AbortSignal.timeout(60_000));
      return stdout.bytes.toString();
    };
    await eventually(async () => (await noticed()).includes('SpotReclaimed'), noticed);
    expect(JSON.parse(await noticed())).toMatchObject({ kind: 'SpotReclaimed', atUnixMs: reclaimAtMs });
    // They run on, and are paid, for the grace time.
    await pause();
    expect((await world.instance(fourth)).instanceRuntimeInfo.status).toBe('Running');
    expect(await reclaimed()).toHaveLength(2);
    clock.aheadMs += GRACE_MS;
    for (const id of [third, fourth]) {
      expect((await world.until(id, hasStatus('Stopped'))).instanceRuntimeInfo.diagnosisReason).toBe('SpotReclaimed');
      expect((await row(id)).operation).toMatchObject({ kind: 'stop', cause: 'SpotReclaimed' });
    }
    await world.until(full, hasStatus('Running'));
    for (const id of [first, second]) expect((await world.instance(id)).instanceRuntimeInfo.status).toBe('Running');
    await settled(world);
    await expectConsistent(world);
    const chargedOf = (id: string) =>
      world.store.read
        .selectFrom('usagePeriod')
        .selectAll()
        .where('subjectId', '=', id)
        .where('meter', '=', 'compute')
        .where('state', '=', 'charged')
        .executeTakeFirst();
    const charged = await chargedOf(fourth);
    const next = await chargedOf(full);
    expect(charged?.closedAtMs, 'nobody pays for capacity that another has').toBeLessThanOrEqual(next?.openedAtMs ?? 0);
    expect((charged?.closedAtMs ?? 0) - (charged?.openedAtMs ?? 0)).toBeGreaterThan(GRACE_MS / 2);
  });

  test('reclaims no more for those that come while reclaims are under way', async () => {
    const { world, clock, request, launch, reclaimed } = await makeSpotWorld(await open());
    const large = await launch('spot2');
    const small = await launch('spot1');
    await launch('full1');
    // The first needs both; the second fits beside it, in what they leave.
    const two = await request('full2');
    await eventually(async () => (await reclaimed()).length === 1);
    expect(await reclaimed()).toEqual([large]);
    await pause();
    expect(await reclaimed()).toEqual([large]);
    const one = await request('full1');
    await eventually(async () => (await reclaimed()).length === 2);
    expect(await reclaimed()).toEqual([large, small]);
    await expectRefused(request('full1'), 'no_capacity');
    clock.aheadMs += GRACE_MS;
    for (const id of [two, one]) await world.until(id, hasStatus('Running'));
    await settled(world);
    expect(await reclaimed()).toHaveLength(2);
    await expectConsistent(world);
  });

  test('reclaims nothing where it would not suffice, nor for spot instances', async () => {
    const { launch, request, reclaimed } = await makeSpotWorld(await open());
    await launch('full2');
    await launch('spot2');
    await expectRefused(request('full4'), 'no_capacity', /no stock of full4/);
    await expectRefused(request('spot1'), 'no_capacity');
    await pause();
    expect(await reclaimed()).toEqual([]);
  });

  test('serves earlier requests of the queue first', async () => {
    const { world, clock, request, launch, reclaimed } = await makeSpotWorld(await open());
    await launch('spot2');
    const stays = await launch('full2');
    const early = await request('full2', false, 3_600_000);
    // The spot instance is promised to the earlier one.
    await expectRefused(request('full2'), 'no_capacity');
    await eventually(async () => (await reclaimed()).length === 1);
    clock.aheadMs += GRACE_MS;
    await world.until(early, hasStatus('Running'));
    expect((await world.instance(stays)).instanceRuntimeInfo.status).toBe('Running');
  });

  test('resumes in the capacity queue, behind all at full price', async () => {
    const { world, clock, request, launch, stop, row, reclaimed } = await makeSpotWorld(await open());
    const spot = await launch('spot2', true);
    const other = await launch('full2');
    const full = await request('full2');
    await eventually(async () => (await reclaimed()).length === 1);
    clock.aheadMs += GRACE_MS;
    await world.until(full, hasStatus('Running'));
    await world.until(spot, ({ instanceRuntimeInfo }) => instanceRuntimeInfo.diagnosisReason === 'NoCapacity');
    expect(await row(spot)).toMatchObject({ desired: 'running', reclaimAtMs: null, waitsUntilMs: null });
    // A later request at full price comes first, although the queue is not empty.
    const later = await request('full2', false, 3_600_000);
    await stop(other);
    await world.until(later, hasStatus('Running'));
    expect(await reasonOf(world, spot)).toBe('NoCapacity');
    await stop(full);
    await world.until(spot, hasStatus('Running'));
    expect((await row(spot)).operation).toMatchObject({ kind: 'start', cause: 'resume' });
    await settled(world);
    await expectConsistent(world);
  });

  test('lets a reclaimed instance stop within the grace time, and does not resume it', async () => {
    const { world, clock, request, launch, stop, row, reclaimed } = await makeSpotWorld(await open());
    const spot = await launch('spot2', true);
    await launch('full2');
    const full = await request('full2');
    await eventually(async () => (await reclaimed()).length === 1);
    await stop(spot);
    await world.until(full, hasStatus('Running'));
    clock.aheadMs += GRACE_MS;
    await settled(world);
    expect(await row(spot)).toMatchObject({ desired: 'stopped', operation: { cause: 'user' } });
    expect(await reclaimed()).toEqual([spot]);
    await expectConsistent(world);
  });

  test('refuses spot types in modes that are paid ahead', async () => {
    const { world } = await makeSpotWorld(await open());
    const billing = { chargeMode: 'perDay', duration: 1 } as const;
    const launched = world.running.control.instances.launch(
      world.caller,
      world.of('spot1', { isSpotInstance: true, billing }),
      null,
    );
    await expectRefused(launched, 'field_value', /perDay.*spot1 is a spot type.*"perHour" or "tidePerHour"/);
  });
});
