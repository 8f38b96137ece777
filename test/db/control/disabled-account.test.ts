/** What a disable does to the instances of an account, and to those who reach them. */
import { expect, test } from 'vitest';
import type { RouteUpdate } from '../../../src/control/index.ts';
import { eventually, hasStatus, makeWorld, type World } from '../../fixtures/control.ts';
import { onBothEngines } from '../../fixtures/store.ts';

const HOUR_MS = 3_600_000;

async function launchedBy(world: World, name: string) {
  const owner = await world.account(name);
  const { control } = world.running;
  const { instanceId } = await control.instances.launch(owner, world.launchInput({ nodePorts: [8000] }), null);
  await world.until(instanceId, hasStatus('Running'));
  return { owner, instanceId };
}

onBothEngines('a disabled account', (open) => {
  test('loses its routes at once, links and public ports included, and its instances stop', async () => {
    const world = await makeWorld(await open());
    const { control } = world.running;
    const { owner, instanceId } = await launchedBy(world, 'anna');
    const other = await launchedBy(world, 'ben');
    await control.ports.setAccess(owner, { instanceId, port: 8000, access: 'public' });
    const link = await control.ports.share(owner, { instanceId, port: 8000, forMs: HOUR_MS, name: '' }, null);
    const ended: object[] = [];
    const gone: string[] = [];
    control.forwarding.onRevoked((subject) => ended.push(subject));
    const following = new AbortController();
    const onUpdate = (update: RouteUpdate): void => void gone.push(...update.gone);
    const follows = control.routeTable.follow(onUpdate, following.signal, { onlyRunning: true });
    expect(await control.forwarding.route(instanceId)).toMatchObject({ running: true });

    await control.accounts.disable(world.caller, { accountId: owner.accountId, reason: 'unpaid' }, null);
    expect(await control.forwarding.route(instanceId)).toBeNull();
    expect(await control.forwarding.share(link.token)).toBeNull();
    expect(ended).toEqual(expect.arrayContaining([{ accountId: owner.accountId }, { instanceId }]));
    // The fronts of ssh, and gateways of their own process, follow this table.
    await eventually(() => gone.includes(instanceId));
    const stopped = await world.until(instanceId, hasStatus('Stopped'));
    expect(stopped.instanceRuntimeInfo).toMatchObject({ diagnosisReason: 'AccountDisabled' });
    expect(await control.forwarding.route(other.instanceId)).toMatchObject({ running: true });

    await control.accounts.enable(world.caller, { accountId: owner.accountId }, null);
    expect(await control.forwarding.route(instanceId)).toMatchObject({ running: false });
    await control.instances.start(owner, { instanceId }, null);
    await world.until(instanceId, hasStatus('Running'));
    following.abort();
    await follows;
  });

  test('keeps no instance that a request under way starts after the disable', async () => {
    const world = await makeWorld(await open());
    const { owner, instanceId } = await launchedBy(world, 'anna');
    const { control } = world.running;
    await control.accounts.disable(world.caller, { accountId: owner.accountId, reason: '' }, null);
    await world.until(instanceId, hasStatus('Stopped'));
    const start = control.instances.start(owner, { instanceId }, null);
    await expect(start).rejects.toThrow(/disabled/);
    const launch = control.instances.launch(owner, world.launchInput(), null);
    await expect(launch).rejects.toThrow(/disabled/);
    expect((await world.instance(instanceId)).instanceRuntimeInfo.status).toBe('Stopped');
  });
});
