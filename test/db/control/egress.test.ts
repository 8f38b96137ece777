/** Egress policies in control: who has which, and when an engine learns them. */
import { expect, test } from 'vitest';
import type { EgressPolicy } from '../../../src/domain/regions/egress.ts';
import { isolated } from '../../fixtures/isolation.ts';
import { eventually, makeWorld, type World } from '../../fixtures/control.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectRefused } from './access-fixture.ts';

const none: EgressPolicy = { mode: 'none' };
const list: EgressPolicy = { mode: 'list', allow: [{ cidr: '203.0.113.0/24', ports: ['443'] }] };

const known = async (world: World, shown: object): Promise<void> => {
  await eventually(
    () => JSON.stringify(shown) === JSON.stringify(shownBy(world)),
    () => JSON.stringify(shownBy(world)),
  );
};
const shownBy = (world: World): object => {
  const policies = world.engine.egress();
  return { region: policies?.default, accounts: Object.fromEntries(policies?.accounts ?? []) };
};

onBothEngines('egress policies', (open) => {
  test('reach the engine at a change and after a restart, of the region and of accounts', async () => {
    const world = await makeWorld(await open());
    const ann = await world.account('ann');
    const { egress } = world.running.control;
    const { regionId } = world.drivers;
    await eventually(() => world.running.control.health().then(() => world.drivers.health.answers));
    await known(world, { region: { mode: 'open' }, accounts: {} });
    const key = { key: 'k', route: '/admin/egress/set', bodyHash: 'h' };
    const answer = { regionId: null, accountId: ann.accountId, policy: list };
    expect(await egress.set(world.caller, { account: 'ann', policy: list }, key)).toEqual(answer);
    expect(await egress.set(world.caller, { account: 'ann', policy: list }, key)).toEqual(answer);
    await egress.set(world.caller, { regionId, policy: none }, null);
    await known(world, { region: none, accounts: { [ann.accountId]: list } });
    expect(await egress.get({ account: ann.accountId })).toEqual(answer);
    expect(await egress.get({ account: 'admin' })).toMatchObject({ policy: null });
    const events = await world.store.read
      .selectFrom('event')
      .selectAll()
      .where('kind', '=', 'egress.changed')
      .orderBy('id')
      .execute();
    expect(events.map(({ accountId, subjectId, data }) => [accountId, subjectId, JSON.parse(data)])).toEqual([
      [ann.accountId, ann.accountId, { policy: list }],
      [world.caller.accountId, regionId, { policy: none }],
    ]);
    await world.engine.setEgress({ default: { mode: 'open' }, accounts: new Map() }, AbortSignal.timeout(1_000));
    await world.again();
    expect(shownBy(world), 'before an instance starts').toEqual({ region: none, accounts: { [ann.accountId]: list } });
    await world.running.control.egress.set(world.caller, { regionId, policy: null }, null);
    await known(world, { region: { mode: 'open' }, accounts: { [ann.accountId]: list } });
  });

  test('are refused without a holder, with two, and by an engine that cannot enforce them', async () => {
    const isolation = { ...isolated, egressPolicy: false, whyNoEgressPolicy: 'its engine is Podman' };
    const world = await makeWorld(await open(), { capabilities: { isolation } });
    await eventually(() => world.drivers.health.answers);
    const { egress } = world.running.control;
    const { regionId } = world.drivers;
    const set = (body: Parameters<typeof egress.set>[1]) => egress.set(world.caller, body, null);
    await expectRefused(set({ policy: none }), 'field_missing', /"regionId" is not set; or send "account"/);
    await expectRefused(egress.get({ regionId, account: 'admin' }), 'field_value', /exclude each other/);
    await expectRefused(egress.get({ regionId: 'none' }), 'not_found', /region none not found/);
    await expectRefused(egress.get({ account: 'carl' }), 'not_found', /account "carl" not found; administrators find/);
    for (const holder of [{ regionId }, { account: 'admin' }])
      await expectRefused(set({ ...holder, policy: none }), 'unsupported', /cannot enforce .* its engine is Podman/);
    expect(await set({ regionId, policy: { mode: 'open' } })).toMatchObject({ policy: { mode: 'open' } });
    world.drivers.health = { probe: null, answers: false, text: '' };
    await expectRefused(set({ regionId, policy: none }), 'unavailable', /does not answer, so it is unknown/);
  });
});
