/** A run whose end was requested is charged until its container ends, at most for the grace. */
import { expect, test } from 'vitest';
import type { Caller } from '../../../src/control/index.ts';
import type { LaunchInput } from '../../../src/control/compute/instances/instances.ts';
import { EngineFault } from '../../../src/domain/regions/engine-fault.ts';
import { STOP_GRACE_MS, type Limits } from '../../../src/domain/compute/instance-states.ts';
import { worthMicros } from '../../../src/domain/money/paid-time.ts';
import { eventually, hasStatus } from '../../fixtures/control.ts';
import { onBothEngines, type Open } from '../../fixtures/store.ts';
import { expectConsistent, settled } from './consistency.ts';
import { eventsOf, expectBalanced, openPaidWorld } from './paid-time-fixture.ts';

const byHour = { chargeMode: 'perHour', duration: 1 } as const;
const byMonth = { chargeMode: 'perMonth', duration: 2 } as const;
const DEAF = '# berth-sim: ignore TERM';
const GRACE_MS = 400;

async function openWorld(open: Open, limits: Partial<Limits> = {}) {
  const opened = await openPaidWorld(open, { limits: { stopGraceMs: GRACE_MS, callDeadlineMs: 5_000, ...limits } });
  const { world, launch, ann } = opened;
  const periodsOf = (id: string) =>
    world.store.read.selectFrom('usagePeriod').selectAll().where('subjectId', '=', id).orderBy('id').execute();
  return {
    ...opened,
    periodsOf,
    runsOf: async (id: string) =>
      (await periodsOf(id)).filter(
        ({ state, meter }) => meter === 'compute' && ['charged', 'paidAhead'].includes(state),
      ),
    requestedAt: async (id: string, kind: string) =>
      (
        await world.store.read
          .selectFrom('event')
          .select('atMs')
          .where('subjectId', '=', id)
          .where('kind', '=', kind)
          .executeTakeFirstOrThrow()
      ).atMs,
    async running(billing: LaunchInput['billing'], initScript = DEAF, caller: Caller = ann, instanceTypeId?: string) {
      const { instanceConfiguration } = world.launchInput();
      const type = instanceTypeId === undefined ? {} : { instanceTypeId };
      const more = { instanceConfiguration: { ...instanceConfiguration, initScript }, ...type };
      const id = await launch(billing, more, caller);
      await world.until(id, hasStatus('Running'));
      return id;
    },
  };
}

onBothEngines('the end of a run', { postgres: 'always' }, (open) => {
  test('is charged with the grace that its programs use', async () => {
    const { world, ann, running, runsOf, periodsOf, requestedAt, instances } = await openWorld(open);
    const id = await running(byHour);
    await instances.restart(ann, { instanceId: id }, null);
    await world.until(id, hasStatus('Running'));
    const [first] = await runsOf(id);
    const restartedMs = (first?.closedAtMs ?? 0) - (await requestedAt(id, 'instance.restartWished'));
    expect(restartedMs).toBeGreaterThanOrEqual(GRACE_MS);
    await instances.stop(ann, { instanceId: id }, null);
    await world.until(id, hasStatus('Stopped'));
    const [, second, ...others] = await runsOf(id);
    expect(others).toEqual([]);
    const stoppedMs = (second?.closedAtMs ?? 0) - (await requestedAt(id, 'instance.stopWished'));
    expect(stoppedMs).toBeGreaterThanOrEqual(GRACE_MS);
    expect(second?.chargedUntilMs).toBe(second?.closedAtMs);
    expect((await periodsOf(id)).at(-1)).toMatchObject({ meter: 'disks', openedAtMs: second?.closedAtMs });
    await settled(world);
    await expectConsistent(world);
    await expectBalanced(world);
  });

  test('is charged at the price of the run, though a restart changes the type', async () => {
    const { world, ann, running, periodsOf, requestedAt, instances, types } = await openWorld(open);
    const id = await running(byHour, DEAF, ann, types.large.id);
    await instances.update(ann, { instanceId: id, instanceTypeId: types.small.id }, null);
    await instances.restart(ann, { instanceId: id }, null);
    await world.until(id, hasStatus('Running'));
    const [large, ...others] = (await periodsOf(id)).filter(({ state }) => state === 'charged');
    expect(large).toMatchObject({ typeId: types.large.id, priceMicros: 300_000 });
    const restartedAtMs = await requestedAt(id, 'instance.restartWished');
    expect((large?.closedAtMs ?? 0) - restartedAtMs).toBeGreaterThanOrEqual(GRACE_MS);
    expect(others).toMatchObject([{ typeId: types.small.id, priceMicros: 100_000 }]);
    await settled(world);
    await expectConsistent(world);
  });

  test('is charged for the grace at most, however late its container ends', async () => {
    const { world, ann, running, runsOf, periodsOf, requestedAt, instances, clock } = await openWorld(open);
    const id = await running(byHour, '');
    const { engine } = world;
    const halt = engine.halt.bind(engine);
    let mayHalt = false;
    engine.halt = (...given) =>
      mayHalt ? halt(...given) : Promise.reject(new EngineFault('busy', 'the host is too busy', { retry: true }));
    await instances.stop(ann, { instanceId: id }, null);
    clock.aheadMs += 3 * 60_000;
    await eventually(async () => (await runsOf(id))[0]?.closedAtMs !== null);
    mayHalt = true;
    await world.until(id, hasStatus('Stopped'));
    const [run] = await runsOf(id);
    const capMs = (await requestedAt(id, 'instance.stopWished')) + STOP_GRACE_MS;
    expect([run?.chargedUntilMs, run?.closedAtMs]).toEqual([capMs, capMs]);
    expect((await periodsOf(id)).at(-1)).toMatchObject({ meter: 'disks', openedAtMs: capMs });
    await settled(world);
    await expectConsistent(world);
  });

  test('is not put off by further requests', async () => {
    // Enough for the requests on a busy machine, and for the 5 s by which the loop puts off its
    // next check if the jump of the clock made the last one look slow.
    const LEFT_MS = 7_000;
    const { world, ann, running, runsOf, requestedAt, instances, clock } = await openWorld(open, {
      stopGraceMs: STOP_GRACE_MS,
      callDeadlineMs: 60_000,
    });
    const id = await running(byHour);
    const { engine } = world;
    const halt = engine.halt.bind(engine);
    const graces: number[] = [];
    engine.halt = (halted, graceMs, signal) => {
      graces.push(graceMs);
      return halt(halted, graceMs, signal);
    };
    await instances.stop(ann, { instanceId: id }, null);
    await eventually(() => graces.length === 1);
    clock.aheadMs += STOP_GRACE_MS - LEFT_MS;
    // The loop may have called again meanwhile.
    const before = graces.length;
    await instances.archive(ann, { instanceId: id }, null);
    await instances.stop(ann, { instanceId: id }, null);
    await world.until(id, hasStatus('Stopped'));
    expect(graces.slice(before).filter((graceMs) => graceMs > LEFT_MS)).toEqual([]);
    const [run, ...others] = await runsOf(id);
    expect(others).toEqual([]);
    const lastedMs = (run?.closedAtMs ?? 0) - (await requestedAt(id, 'instance.stopWished'));
    // A second grace would end no sooner; a busy machine ends the first one late.
    expect(lastedMs).toBeLessThan(2 * STOP_GRACE_MS - LEFT_MS);
    await settled(world);
    await expectConsistent(world);
  });

  test('comes before the next start, though a failed start left its container', async () => {
    const limits = { stopGraceMs: 2_000, readyDeadlineMs: 1_000 };
    const { world, ann, launch, types, instances } = await openWorld(open, limits);
    const { instanceConfiguration } = world.launchInput();
    const initScript = `${DEAF}\n# berth-sim: never ready`;
    const more = { instanceTypeId: types.large.id, instanceConfiguration: { ...instanceConfiguration, initScript } };
    const id = await launch(byHour, more);
    await world.until(id, ({ instanceRuntimeInfo: { phase } }) => phase === 'WaitReady');
    const { engine } = world;
    const ensure = engine.ensure.bind(engine);
    const ensured: number[] = [];
    engine.ensure = (spec, signal) => {
      ensured.push(spec.cpuMilli);
      return ensure(spec, signal);
    };
    await world.until(id, hasStatus('StartingFailed'));
    await instances.update(ann, { instanceId: id, instanceTypeId: types.small.id }, null);
    await instances.start(ann, { instanceId: id }, null);
    await world.until(id, ({ instanceRuntimeInfo: { phase } }) => phase === 'WaitReady');
    expect(ensured, 'the container has the limits of its type').toEqual([1_000]);
    await settled(world);
    await expectConsistent(world);
  });

  test('is paid ahead with its grace, though a restart changes to a cheaper type', async () => {
    const { world, ann, running, paid, requestedAt, instances, types } = await openWorld(open);
    const id = await running({ chargeMode: 'perDay', duration: 1 }, DEAF, ann, types.large.id);
    const before = await paid(id);
    await instances.update(ann, { instanceId: id, instanceTypeId: types.small.id }, null);
    await instances.restart(ann, { instanceId: id }, null);
    const fromMs = (await requestedAt(id, 'instance.restartWished')) + STOP_GRACE_MS;
    const [changed] = await eventsOf(world, id, 'instance.paidTimeChanged');
    if (before === null) throw new Error('nothing was paid');
    const refunded = worthMicros(before, before.priceMicros, fromMs) - worthMicros(before, 2_000_000n, fromMs);
    expect(changed).toEqual({ price: 2, difference: -Number(refunded) / 1e6, fromMs });
    await world.until(id, hasStatus('Running'));
    await settled(world);
    await expectConsistent(world);
    await expectBalanced(world);
  });

  test('is charged though the stop came before Berth knew that the container runs', async () => {
    const { world, ann, launch, runsOf, requestedAt, instances, paid } = await openWorld(open);
    const { engine } = world;
    const ensure = engine.ensure.bind(engine);
    const launched = Promise.withResolvers<string>();
    engine.ensure = async (...given) => {
      const observation = await ensure(...given);
      await instances.stop(ann, { instanceId: await launched.promise }, null);
      return observation;
    };
    const { instanceConfiguration } = world.launchInput();
    const id = await launch(byMonth, { instanceConfiguration: { ...instanceConfiguration, initScript: DEAF } });
    launched.resolve(id);
    await world.until(id, hasStatus('Stopped'));
    const [run, ...others] = await runsOf(id);
    expect(others).toEqual([]);
    const stoppedAtMs = await requestedAt(id, 'instance.stopWished');
    expect((run?.closedAtMs ?? 0) - stoppedAtMs).toBeGreaterThanOrEqual(GRACE_MS);
    // The container ran before.
    expect((await paid(id))?.anchorMs).toBeLessThanOrEqual(run?.openedAtMs ?? 0);
    expect((await paid(id))?.anchorMs).toBeGreaterThan(0);
    await settled(world);
    await expectConsistent(world);
  });
});
