/** Figures of the bar in a notebook, and its Stop. */
import { expect, test } from 'vitest';
import { auditAfter } from '../../../src/store/tables/audit.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { hasStatus, makeWorld } from '../../fixtures/control.ts';

const HOUR_MS = 3_600_000;
const visitor = { address: '192.0.2.7', userAgent: 'browser', credential: 'link' as const };

onBothEngines('the bar of a notebook', (open) => {
  test('has name, costs and the next automatic stop for the owner, and stops with a record', async () => {
    const world = await makeWorld(await open());
    const { notebookBar, instances, stopPolicies } = world.running.control;
    const { instanceId } = await instances.launch(world.caller, world.launchInput({ name: 'mine' }), null);
    await world.until(instanceId, hasStatus('Running'));
    await stopPolicies.set(world.caller, instanceId, { stopAtMs: world.now() + HOUR_MS });
    const owned = { ownerId: world.caller.accountId, instanceId };
    const price = (await world.instance(instanceId)).instanceSpecInfo.instanceBillingInfo.price;
    const figures = await notebookBar.read(owned);
    expect(figures).toMatchObject({ name: 'mine', status: 'Running', pricePerHour: price, gpus: null });
    expect(figures.costSoFar).toBeGreaterThanOrEqual(0);
    expect(HOUR_MS - (figures.stopsInMs ?? 0)).toBeLessThan(60_000);

    const other = { ...owned, ownerId: (await world.account('other')).accountId };
    await expect(notebookBar.read(other)).rejects.toMatchObject({ code: 'not_found' });
    await expect(notebookBar.stop(other, visitor)).rejects.toMatchObject({ code: 'not_found' });
    await notebookBar.stop(owned, visitor);
    await world.until(instanceId, hasStatus('Stopped'));
    expect(await notebookBar.read(owned)).toMatchObject({ status: 'Stopped', stopsInMs: null });
    await expect(notebookBar.stop(owned, visitor)).rejects.toMatchObject({ code: 'not_now' });
    await expect
      .poll(async () => (await auditAfter(world.store.read, 0, 10)).filter(({ route }) => route === 'notebookStop'))
      .toMatchObject([
        { accountId: other.ownerId, outcome: 'not_found' },
        { accountId: owned.ownerId, outcome: 'ok', credential: 'link', address: '192.0.2.7', userAgent: 'browser' },
        { accountId: owned.ownerId, outcome: 'not_now' },
      ]);
  });
});
