/** GPUs in quarantine: launches, events for administrators, and returns. */
import { expect, test } from 'vitest';
import type { CardFinding } from '../../../src/domain/regions/card-health.ts';
import { hasStatus, type WorldOptions } from '../../fixtures/control.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import type { Store } from '../../../src/store/store.ts';
import { expectRefused } from './access-fixture.ts';
import { machineOf, makeSizedWorld } from './capacity-fixture.ts';

const sizes = { 'gpu.1': { cpuCores: 1, memoryGB: 2, gpuCount: 1 } };
const lost: CardFinding = { reason: 'gpuLost', evidence: '' };
const xid = (at: string): CardFinding => ({ reason: 'xid 79', evidence: at });

async function makeSickWorld(store: Store, options: WorldOptions = {}) {
  const world = await makeSizedWorld(store, machineOf(8, 16, 2), sizes, options);
  const found = new Map<string, readonly CardFinding[]>();
  const { engine } = world.drivers;
  const probe = engine.probe.bind(engine);
  const devices = (await probe(AbortSignal.timeout(60_000))).devices.map(({ id }) => id);
  engine.probe = async (signal) => {
    const answer = await probe(signal);
    return { ...answer, devices: answer.devices.map((one) => ({ ...one, findings: found.get(one.id) })) };
  };
  return {
    world,
    cards: devices,
    async find(nth: number, findings: readonly CardFinding[]) {
      found.set(devices[nth] ?? '', findings);
      await world.becomes({});
    },
    async shown() {
      const [region] = await world.running.control.fleet.read();
      return {
        total: region?.resources.gpus.total,
        reasons: region?.gpus.map(({ quarantine }) => quarantine.map(({ reason }) => reason)),
      };
    },
    async events() {
      const rows = await store.read
        .selectFrom('event')
        .select(['kind', 'data'])
        .where('kind', 'like', 'card.%')
        .where('accountId', '=', world.caller.accountId)
        .orderBy('seq')
        .execute();
      return rows.map(({ kind, data }) => ({ kind, ...JSON.parse(data) }));
    },
  };
}

onBothEngines('a GPU with a finding', (open) => {
  test('takes no launch, says why to administrators once, and returns when it is well', async () => {
    const { world, cards, find, shown, events } = await makeSickWorld(await open());
    const { instances } = world.running.control;
    const holder = await instances.launch(world.caller, world.of('gpu.1'), null);
    await world.until(holder.instanceId, hasStatus('Running'));
    await find(1, [lost]);
    await find(1, [lost]);
    expect(await shown()).toEqual({ total: 1, reasons: [[], ['gpuLost']] });
    await expectRefused(instances.launch(world.caller, world.of('gpu.1'), null), 'no_capacity', /short of 1 GPU/);
    expect((await world.instance(holder.instanceId)).instanceRuntimeInfo.status).toBe('Running');
    await find(1, []);
    expect(await shown()).toEqual({ total: 2, reasons: [[], []] });
    expect(await events()).toMatchObject([
      { kind: 'card.quarantined', cardId: cards[1], reason: 'gpuLost' },
      { kind: 'card.returned', cardId: cards[1], reasons: ['gpuLost'] },
    ]);
    await instances.launch(world.caller, world.of('gpu.1'), null);
  });

  test('that does not pass returns by an operator, until it happens again', async () => {
    const { world, cards, find, shown, events } = await makeSickWorld(await open());
    const card = { regionId: world.drivers.regionId, cardId: cards[0] ?? '' };
    const giveBack = () => world.running.control.returnCard(world.caller, { ...card, reason: 'was reset' }, null);
    await expectRefused(giveBack(), 'not_found', /is not in quarantine/);
    await find(0, [xid('100')]);
    await find(0, []);
    expect(await shown()).toEqual({ total: 1, reasons: [['xid 79'], []] });
    expect(await giveBack()).toEqual({ ...card, reasons: ['xid 79'] });
    await find(0, [xid('100')]);
    expect(await shown()).toEqual({ total: 2, reasons: [[], []] });
    await find(0, [xid('200')]);
    expect(await shown()).toEqual({ total: 1, reasons: [['xid 79'], []] });
    expect((await events()).map(({ kind, why }) => [kind, why])).toEqual([
      ['card.quarantined', undefined],
      ['card.returned', 'was reset'],
      ['card.quarantined', undefined],
    ]);
  });

  test('counts while an instance runs on it, so that the others can all be taken', async () => {
    const { world, find, shown } = await makeSickWorld(await open(), { hurry: 50 });
    const { instances } = world.running.control;
    const holder = await instances.launch(world.caller, world.of('gpu.1'), null);
    await world.until(holder.instanceId, hasStatus('Running'));
    await find(0, [lost]);
    await eventually(async () => (await shown()).total === 2);
    expect((await shown()).reasons).toEqual([['gpuLost'], []]);
    const other = await instances.launch(world.caller, world.of('gpu.1'), null);
    await world.until(other.instanceId, hasStatus('Running'));
    await instances.stop(world.caller, { instanceId: holder.instanceId }, null);
    await world.until(holder.instanceId, hasStatus('Stopped'));
    await eventually(async () => (await shown()).total === 1);
    await expectRefused(instances.launch(world.caller, world.of('gpu.1'), null), 'no_capacity', /short of 1 GPU/);
  });

  test('is kept from the starts of instances, and known after a restart of the server', async () => {
    const { world, cards, find, shown } = await makeSickWorld(await open());
    await find(0, [xid('100')]);
    await world.again();
    const kept: unknown[] = [];
    const { engine } = world.drivers;
    const ensure = engine.ensure.bind(engine);
    engine.ensure = (spec, signal) => {
      kept.push(spec.withoutGpus);
      return ensure(spec, signal);
    };
    expect(await shown()).toMatchObject({ reasons: [['xid 79'], []] });
    const { instanceId } = await world.running.control.instances.launch(world.caller, world.of('gpu.1'), null);
    await world.until(instanceId, hasStatus('Running'));
    expect(kept[0]).toEqual(new Set([cards[0]]));
  });
});
