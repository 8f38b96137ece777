import { expect, test } from 'vitest';
import type { StopPolicyRequest } from '../../../src/domain/compute/stop-policy.ts';
import { instanceFromRow } from '../../../src/store/tables/instances.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectRefused } from './access-fixture.ts';
import { expectConsistent, settled } from './consistency.ts';
import { hasStatus, makeWorld, type World, type WorldOptions } from '../../fixtures/control.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** World with a clock moved by the test. */
async function movable(store: Parameters<typeof makeWorld>[0], options: WorldOptions = {}) {
  const clock = { aheadMs: 0 };
  const world = await makeWorld(store, { clock, ...options });
  return { world, clock, nowMs: () => Date.now() + clock.aheadMs };
}

async function running(world: World): Promise<string> {
  const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
  await world.until(instanceId, hasStatus('Running'));
  return instanceId;
}

const set = (world: World, id: string, request: StopPolicyRequest) =>
  world.running.control.stopPolicies.set(world.caller, id, request);
const rowOf = (world: World, id: string) =>
  world.store.read.selectFrom('instance').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
/** Without due time and lease, which any reconcile may change. */
async function lastingRowOf(world: World, id: string) {
  const {
    dueAtMs: _,
    leaseOwner: _owner,
    leaseToken: _token,
    leaseUntilMs: _until,
    ...lasting
  } = await rowOf(world, id);
  return lasting;
}
const endsOf = async (world: World, id: string) => instanceFromRow(await rowOf(world, id)).stopPolicy;
const eventsOf = (world: World, id: string, kind: string) =>
  world.store.read.selectFrom('event').selectAll().where('subjectId', '=', id).where('kind', '=', kind).execute();

onBothEngines('stop policy', (open) => {
  test('stops at the scheduled time with the reason, which a start removes', async () => {
    const { world, clock, nowMs } = await movable(await open());
    const id = await running(world);
    const stopAtMs = nowMs() + HOUR_MS;
    expect(await set(world, id, { stopAtMs })).toMatchObject({
      stopAtMs,
      maxRunMs: null,
      idle: null,
      endsAtMs: stopAtMs,
    });
    expect((await world.instance(id)).instanceRuntimeInfo.scheduledStopTimestamp).toBe(stopAtMs);
    clock.aheadMs += HOUR_MS;
    const stopped = await world.until(id, hasStatus('Stopped'));
    expect(stopped.instanceRuntimeInfo).toMatchObject({
      phase: 'Stopped',
      diagnosisReason: 'ScheduledStop',
      scheduledStopTimestamp: 0,
    });
    expect((await eventsOf(world, id, 'instance.stopWished')).map(({ data }) => JSON.parse(data))).toMatchObject([
      { cause: 'ScheduledStop', dueAt: stopAtMs },
    ]);
    await settled(world);
    await expectConsistent(world);

    await world.running.control.instances.start(world.caller, { instanceId: id }, null);
    expect(await endsOf(world, id)).toMatchObject({ stopAtMs: null });
    await world.until(id, hasStatus('Running'));
    clock.aheadMs += HOUR_MS;
    // Another instance is stopped meanwhile.
    const other = await running(world);
    await set(world, other, { stopAtMs: nowMs() + MINUTE_MS });
    clock.aheadMs += MINUTE_MS;
    await world.until(other, hasStatus('Stopped'));
    expect((await world.instance(id)).instanceRuntimeInfo).toMatchObject({ status: 'Running', diagnosisReason: '' });
  });

  test('counts the longest run from Running, again after each start', async () => {
    const { world, clock } = await movable(await open());
    const id = await running(world);
    const runningSinceMs = instanceFromRow(await rowOf(world, id)).observed.runningSinceMs;
    const { endsAtMs } = await set(world, id, { maxRunMs: 30 * MINUTE_MS });
    expect(endsAtMs).toBe(runningSinceMs + 30 * MINUTE_MS);
    clock.aheadMs += 30 * MINUTE_MS;
    const stopped = await world.until(id, hasStatus('Stopped'));
    expect(stopped.instanceRuntimeInfo.diagnosisReason).toBe('MaxRunTime');
    await world.running.control.instances.start(world.caller, { instanceId: id }, null);
    const again = await world.until(id, hasStatus('Running'));
    const since = instanceFromRow(await rowOf(world, id)).observed.runningSinceMs;
    expect(again.instanceRuntimeInfo.scheduledStopTimestamp).toBe(since + 30 * MINUTE_MS);
    clock.aheadMs += 30 * MINUTE_MS;
    await world.until(id, hasStatus('Stopped'));
  });

  test('stops at the earlier of both times, which lists show', async () => {
    const { world, clock, nowMs } = await movable(await open());
    const id = await running(world);
    const stopAtMs = nowMs() + 10 * MINUTE_MS;
    const both = await set(world, id, { stopAtMs, maxRunMs: HOUR_MS });
    expect(both.endsAtMs).toBe(stopAtMs);
    const later = await set(world, id, { stopAtMs: nowMs() + 2 * HOUR_MS });
    expect((await world.instance(id)).instanceRuntimeInfo.scheduledStopTimestamp).toBe(later.endsAtMs);
    expect(later.endsAtMs).toBeLessThan(nowMs() + HOUR_MS + 1);
    const none = await set(world, id, { stopAtMs: null, maxRunMs: null });
    expect(none).toMatchObject({ stopAtMs: null, maxRunMs: null, endsAtMs: null });
    expect((await world.instance(id)).instanceRuntimeInfo.scheduledStopTimestamp).toBe(0);
    await set(world, id, { stopAtMs: nowMs() + MINUTE_MS, maxRunMs: HOUR_MS });
    clock.aheadMs += HOUR_MS;
    expect((await world.until(id, hasStatus('Stopped'))).instanceRuntimeInfo.diagnosisReason).toBe('ScheduledStop');
  });

  test('stops at once after a server outage past the stop time', async () => {
    const { world, clock, nowMs } = await movable(await open());
    const id = await running(world);
    await set(world, id, { stopAtMs: nowMs() + HOUR_MS });
    await world.running.stop();
    clock.aheadMs += 24 * HOUR_MS;
    await world.again();
    expect((await world.until(id, hasStatus('Stopped'))).instanceRuntimeInfo.diagnosisReason).toBe('ScheduledStop');
  });

  test('stops an instance that is still starting', async () => {
    const { world, clock, nowMs } = await movable(await open(), { engine: { times: { pull: 600_000 } } });
    const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
    await set(world, instanceId, { stopAtMs: nowMs() + MINUTE_MS });
    clock.aheadMs += MINUTE_MS;
    await world.until(instanceId, hasStatus('Stopped'));
    await settled(world);
    await expectConsistent(world);
  });

  test("a setting and a concurrent reconcile don't overwrite each other", async () => {
    const { world, nowMs } = await movable(await open());
    const { instances } = world.running.control;
    const launches = Array.from({ length: 6 }, () =>
      instances.launch(world.caller, { ...world.launchInput(), name: 'raced' }, null),
    );
    const ids = (await Promise.allSettled(launches)).flatMap((one) =>
      one.status === 'fulfilled' ? [one.value.instanceId] : [],
    );
    expect(ids.length).toBeGreaterThan(2);
    const last = new Map<string, number>();
    let going = true;
    const setting = ids.map(async (id) => {
      for (let round = 1; going; round++) {
        const stopAtMs = nowMs() + HOUR_MS + round;
        await set(world, id, { stopAtMs });
        last.set(id, stopAtMs);
        expect(await endsOf(world, id), 'the acknowledged setting holds').toMatchObject({ stopAtMs });
      }
    });
    for (const id of ids) await world.until(id, hasStatus('Running'));
    await settled(world);
    going = false;
    await Promise.all(setting);
    for (const id of ids) {
      const row = await rowOf(world, id);
      expect(row).toMatchObject({ generation: 1, status: 'Running' });
      const act = world.store.read.selectFrom('dueAct').select('dueAtMs').where('id', '=', `stop/${id}`);
      expect(await act.execute()).toEqual([{ dueAtMs: last.get(id) }]);
      expect((await world.instance(id)).instanceRuntimeInfo.scheduledStopTimestamp).toBe(last.get(id));
    }
    await expectConsistent(world);
  });

  test('refuses past or absurd times with a message, and changes nothing', async () => {
    const { world, clock, nowMs } = await movable(await open());
    const id = await running(world);
    clock.aheadMs += HOUR_MS;
    await settled(world);
    const before = await lastingRowOf(world, id);
    const refusals: [StopPolicyRequest, RegExp][] = [
      [
        { stopAtMs: nowMs() - 1 },
        /^field "stopAtUnixMs" is \d+: it must be after \d+, the time now; to stop at once, use \/instance\/stop$/,
      ],
      [{ stopAtMs: 0 }, /it must be after/],
      [{ stopAtMs: nowMs() + 367 * 24 * HOUR_MS }, /within a year/],
      [
        { maxRunMs: 30 * MINUTE_MS },
        /^field "maxRunMinutes" is 30: it must be more than 60, the minutes that the instance has already run/,
      ],
    ];
    for (const [request, words] of refusals) await expectRefused(set(world, id, request), 'field_value', words);
    expect(await lastingRowOf(world, id)).toEqual(before);
  });

  test('is allowed in every state but Released, and only to the owner', async () => {
    const { world, nowMs } = await movable(await open());
    const otherAccount = await world.account('stranger');
    const id = await running(world);
    const request = { stopAtMs: nowMs() + HOUR_MS, maxRunMs: HOUR_MS };
    const { control } = world.running;
    await expectRefused(control.stopPolicies.set(otherAccount, id, request), 'not_found', /^ent: instance not found$/);
    await expectRefused(
      control.stopPolicies.keepAlive(otherAccount, id, HOUR_MS),
      'not_found',
      /^ent: instance not found$/,
    );
    await expectRefused(control.stopPolicies.idleStatus(otherAccount, id), 'not_found', /^ent: instance not found$/);
    await control.instances.stop(world.caller, { instanceId: id }, null);
    await set(world, id, request);
    await world.until(id, hasStatus('Stopped'));
    expect(await set(world, id, request)).toMatchObject({ ...request, endsAtMs: null });
    await control.instances.terminate(world.caller, { instanceId: id }, null);
    await expectRefused(set(world, id, request), 'not_found', /^ent: instance not found$/);
  });

  test('a thousand keep-alive calls within a minute make one event and one write', async () => {
    const { world, clock, nowMs } = await movable(await open());
    const { stopPolicies } = world.running.control;
    const id = await running(world);
    await settled(world);
    clock.aheadMs += MINUTE_MS - (nowMs() % MINUTE_MS) + 1;
    const beganMs = nowMs();
    const first = await stopPolicies.keepAlive(world.caller, id, HOUR_MS);
    expect(first.keepAliveUntilMs).toBeGreaterThanOrEqual(beganMs + HOUR_MS);
    expect(first.keepAliveUntilMs).toBeLessThanOrEqual(beganMs + HOUR_MS + MINUTE_MS);
    const [row, version] = [
      await lastingRowOf(world, id),
      await world.running.control.versionOf(world.caller.accountId),
    ];
    for (let call = 1; call < 1_000; call++) {
      if (call % 100 === 0) clock.aheadMs += 2_000;
      expect(await stopPolicies.keepAlive(world.caller, id, HOUR_MS)).toEqual(first);
    }
    expect(await eventsOf(world, id, 'instance.keepAlive')).toHaveLength(1);
    expect(await lastingRowOf(world, id)).toEqual(row);
    expect(await world.running.control.versionOf(world.caller.accountId)).toBe(version);
  });

  test("new instances get the operator's idle rules and bound, which can't be exceeded", async () => {
    const idle = { afterMs: HOUR_MS, ignore: [], cpuPercent: 10, gpuPercent: 5 };
    const { world } = await movable(await open(), { stopPolicyRules: { capRunMs: 8 * HOUR_MS, idle } });
    const id = await running(world);
    expect(await set(world, id, {})).toMatchObject({ maxRunMs: 8 * HOUR_MS, idle });
    await expectRefused(
      set(world, id, { maxRunMs: 9 * HOUR_MS }),
      'field_value',
      /must be at most 480, the limit of the operator/,
    );
    expect(await set(world, id, { maxRunMs: HOUR_MS })).toMatchObject({ maxRunMs: HOUR_MS });
    expect(await set(world, id, { maxRunMs: null, idle: null })).toMatchObject({ maxRunMs: 8 * HOUR_MS, idle: null });
  });

  test('reading changes nothing and makes no event', async () => {
    const { world } = await movable(await open());
    const id = await running(world);
    await settled(world);
    const before = await lastingRowOf(world, id);
    await set(world, id, {});
    expect(await lastingRowOf(world, id)).toEqual(before);
    expect(await eventsOf(world, id, 'instance.endsSet')).toEqual([]);
  });
});
