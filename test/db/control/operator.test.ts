/** Operators: lists of all accounts, actions on others' instances, drains of regions. */
import { expect, test } from 'vitest';
import type { Caller } from '../../../src/control/index.ts';
import { hasStatus, makeWorld, type World } from '../../fixtures/control.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectRefused } from './access-fixture.ts';
import { expectConsistent, settled } from './consistency.ts';

const pager = { currentPage: 1, pageSize: 10 };
const REASON = 'the host gets new memory';

async function launch(world: World, caller: Caller, over = {}, waitMs: number | null = null): Promise<string> {
  const { instanceId } = await world.running.control.instances.launch(caller, world.launchInput(over), null, waitMs);
  return instanceId;
}

async function running(world: World, caller: Caller, over = {}): Promise<string> {
  const id = await launch(world, caller, over);
  await world.until(id, hasStatus('Running'));
  return id;
}

const eventsOf = async (world: World, accountId: string, ...kinds: string[]) => {
  const rows = await world.store.read
    .selectFrom('event')
    .selectAll()
    .where('accountId', '=', accountId)
    .where('kind', 'in', kinds)
    .orderBy('seq')
    .execute();
  return rows.map(({ kind, data, subjectId }) => ({ kind, subjectId, ...JSON.parse(data) }));
};

const drain = (world: World, more: Partial<Parameters<World['running']['control']['operator']['drain']>[1]> = {}) =>
  world.running.control.operator.drain(
    world.caller,
    { regionId: world.drivers.regionId, drain: true, reason: REASON, ...more },
    null,
  );

const stockOf = async (world: World): Promise<Set<string>> => {
  const families = await world.running.control.catalog.families();
  return new Set(
    families.flatMap(({ regionInfos }) =>
      regionInfos.flatMap(({ instanceTypeInfos }) => instanceTypeInfos.map(({ stockStatus }) => stockStatus)),
    ),
  );
};

onBothEngines('operators', (open) => {
  test('list the instances and volumes of all accounts, by account, region, status and name', async () => {
    const world = await makeWorld(await open());
    const [ann, bob] = [await world.account('ann'), await world.account('bob')];
    const [first, second] = [
      await running(world, ann, { name: 'Alpha' }),
      await running(world, bob, { name: 'beta', startCommand: 'export KEY=secret' }),
    ];
    const { operator, instances, volumes } = world.running.control;
    await instances.stop(ann, { instanceId: first }, null);
    await world.until(first, hasStatus('Stopped'));
    const idsOf = async (filter: Parameters<typeof operator.instances>[0], page = pager) => {
      const { rows, totalEntries } = await operator.instances(filter, page);
      return [rows.map(({ publicText }) => JSON.parse(publicText).instanceMetadata.instanceId), totalEntries];
    };
    expect(await idsOf({})).toEqual([[second, first], 2]);
    expect(await idsOf({}, { currentPage: 2, pageSize: 1 })).toEqual([[first], 2]);
    expect(await idsOf({ account: 'ann' })).toEqual([[first], 1]);
    expect(await idsOf({ account: bob.accountId })).toEqual([[second], 1]);
    expect(await idsOf({ status: ['Stopped'] })).toEqual([[first], 1]);
    expect(await idsOf({ name: 'ALPH' })).toEqual([[first], 1]);
    expect(await idsOf({ regionId: 'elsewhere' })).toEqual([[], 0]);
    await expectRefused(idsOf({ account: 'carl' }), 'not_found', /account "carl" not found; administrators find/);

    await volumes.create(
      bob,
      { name: 'data', sizeGB: 3, region: world.drivers.regionId, volumeType: 'filesystem' },
      null,
    );
    const { rows } = await operator.volumes({ account: 'bob' }, pager);
    expect(rows).toMatchObject([{ ownerId: bob.accountId, ownerName: 'bob' }]);
    expect(JSON.parse(rows[0]?.publicText ?? '')).toMatchObject({ volumeName: 'data', sizeGB: 3 });
    expect((await operator.volumes({ account: 'ann' }, pager)).rows).toEqual([]);
    expect(await operator.instance(second)).toMatchObject({ owner: { id: bob.accountId, name: 'bob' } });
    expect((await operator.instance(second)).timeline.length).toBeGreaterThan(2);
    await expectRefused(operator.instance('notebook-none'), 'not_found', /instance not found/);
  });

  test('stop, start and terminate instances of others; the owner sees the reason, and no name', async () => {
    const world = await makeWorld(await open());
    const ann = await world.account('ann');
    const id = await running(world, ann);
    const { operator, instances } = world.running.control;
    const key = { key: 'one', route: '/admin/instance/stop', bodyHash: 'hash' };
    const body = { instanceId: id, reason: REASON };
    const stop = await operator.stop(world.caller, body, key);
    expect(await operator.stop(world.caller, body, key), 'the same key').toEqual(stop);
    await expectRefused(operator.stop(world.caller, body, null), 'not_now', /already/);
    const stopped = await world.until(id, hasStatus('Stopped'));
    expect(stopped.instanceRuntimeInfo).toMatchObject({
      diagnosisReason: 'OperatorStop',
      diagnosisMessage: expect.stringContaining(REASON),
    });
    expect((await instances.get(ann, { instanceId: id })).operatorAction).toMatchObject({
      action: 'stop',
      reason: REASON,
    });
    const free = { key: 'one', route: '/instance/start', bodyHash: 'other' };
    await instances.start(ann, { instanceId: id }, free);
    await world.until(id, hasStatus('Running'));
    expect((await instances.get(ann, { instanceId: id })).operatorAction, 'after her own start').toBeNull();
    const past = await world.running.control.operations.list(ann, { instanceId: id }, pager);
    expect(past.operations.map(({ kind, cause, reason }) => [kind, cause, reason])).toEqual([
      ['start', 'user', ''],
      ['stop', 'operator', REASON],
      ['launch', 'user', ''],
    ]);
    await instances.stop(ann, { instanceId: id }, null);
    await world.until(id, hasStatus('Stopped'));
    await operator.start(world.caller, body, null);
    expect((await world.until(id, hasStatus('Running'))).instanceRuntimeInfo.diagnosisMessage).toBe('');
    await operator.terminate(world.caller, body, null);
    await world.until(id, hasStatus('Released'));
    await expectRefused(operator.terminate(world.caller, body, null), 'not_found', /instance not found/);
    const acts = ['instance.stopWished', 'instance.startWished', 'instance.released'];
    const events = await eventsOf(world, ann.accountId, ...acts);
    const starting = { meter: 'compute', state: 'starting', price: 0, quantity: 1 };
    expect(events.filter(({ cause }) => cause === 'operator')).toEqual([
      { kind: 'instance.stopWished', subjectId: id, cause: 'operator', reason: REASON },
      { kind: 'instance.startWished', subjectId: id, cause: 'operator', reason: REASON, rate: starting },
      { kind: 'instance.released', subjectId: id, cause: 'operator', reason: REASON, rate: null },
    ]);
    expect(JSON.stringify(events)).not.toContain(world.caller.accountId);
    await settled(world);
    await expectConsistent(world);
  });

  test('drain a region: no launch or start, the queue waits, running instances stay; over a restart', async () => {
    const world = await makeWorld(await open());
    const ann = await world.account('ann');
    const [id, halted] = [await running(world, ann), await running(world, ann)];
    const { instances } = world.running.control;
    await instances.stop(ann, { instanceId: halted }, null);
    await world.until(halted, hasStatus('Stopped'));
    expect(await stockOf(world)).toContain('InStock');
    expect(await drain(world)).toMatchObject({ drain: { reason: REASON, stopAtMs: null } });
    expect(await eventsOf(world, ann.accountId, 'region.drained')).toEqual([
      { kind: 'region.drained', subjectId: world.drivers.regionId, reason: REASON, stopAtUnixMs: null },
    ]);
    await world.again();
    const { control } = world.running;
    expect(await control.catalog.regions()).toMatchObject([{ drain: { reason: REASON } }]);
    expect(await stockOf(world)).toEqual(new Set(['OutOfStock']));
    const refusal = new RegExp(`drained and takes no launches and starts: ${REASON}; choose another region`);
    await expectRefused(launch(world, ann), 'no_capacity', refusal);
    await expectRefused(control.instances.start(ann, { instanceId: halted }, null), 'no_capacity', refusal);
    const act = { instanceId: halted, reason: 'try' };
    await expectRefused(control.operator.start(world.caller, act, null), 'no_capacity', refusal);
    const waiting = await launch(world, ann, {}, 60_000);
    const shown = await world.until(waiting, ({ instanceRuntimeInfo }) => instanceRuntimeInfo.diagnosisReason !== '');
    expect(shown.instanceRuntimeInfo.diagnosisMessage).toContain(REASON);
    await control.instances.restart(ann, { instanceId: id }, null);
    await world.until(id, hasStatus('Restarting', 'Starting'));
    await world.until(id, hasStatus('Running'));
    expect(hasStatus('Initializing')(await world.instance(waiting))).toBe(true);
    await drain(world, { drain: false, reason: 'done' });
    await world.until(waiting, hasStatus('Running'));
    expect(await control.catalog.regions()).toMatchObject([{ drain: null }]);
    expect(await eventsOf(world, ann.accountId, 'region.drainEnded')).toHaveLength(1);
    await running(world, ann);
    await settled(world);
    await expectConsistent(world);
  });

  test('stop what runs in a drained region after the given time', async () => {
    const clock = { aheadMs: 0 };
    const world = await makeWorld(await open(), { clock });
    const ann = await world.account('ann');
    const id = await running(world, ann);
    await drain(world, { stopRunningAfterMs: 3_600_000 });
    const waiting = await launch(world, ann, {}, 24 * 3_600_000);
    clock.aheadMs += 3_500_000;
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    expect(hasStatus('Running')(await world.instance(id)), 'before').toBe(true);
    clock.aheadMs += 100_000;
    const stopped = await world.until(id, hasStatus('Stopped'));
    expect(stopped.instanceRuntimeInfo).toMatchObject({
      diagnosisReason: 'OperatorStop',
      diagnosisMessage: expect.stringContaining(REASON),
    });
    expect(hasStatus('Initializing')(await world.instance(waiting))).toBe(true);
    await world.running.control.operator.terminate(world.caller, { instanceId: waiting, reason: REASON }, null);
    const wrong = drain(world, { drain: false, stopRunningAfterMs: 0 });
    await expectRefused(wrong, 'field_value', /"stopRunningAfterMinutes" is set, but "drain" is false/);
    await expectRefused(drain(world, { regionId: 'none' }), 'not_found', /region none not found/);
    await settled(world);
    await expectConsistent(world);
  });
});
