import { expect, test } from 'vitest';
import type { Store } from '../../../src/store/store.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { hasStatus, makeWorld, type World } from '../../fixtures/control.ts';
import { settled } from './consistency.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

async function movable(store: Store) {
  const clock = { aheadMs: 0 };
  return { world: await makeWorld(store, { clock }), clock };
}

async function running(world: World): Promise<string> {
  const { instanceId } = await world.running.control.instances.launch(world.caller, world.launchInput(), null);
  await world.until(instanceId, hasStatus('Running'));
  await settled(world);
  return instanceId;
}

const periodsOf = ({ store }: World, id: string) =>
  store.read.selectFrom('usagePeriod').selectAll().where('subjectId', '=', id).orderBy('id').execute();

onBothEngines('metering', (open) => {
  test('records free states, charges the time as Running, and charges kept disks after a stop', async () => {
    const { world, clock } = await movable(await open());
    const id = await running(world);
    clock.aheadMs += 90_500;
    await world.running.control.instances.stop(world.caller, { instanceId: id }, null);
    await world.until(id, hasStatus('Stopped'));
    const periods = await periodsOf(world, id);
    expect(periods.map(({ meter, state }) => `${meter} ${state}`)).toEqual(
      expect.arrayContaining(['compute starting', 'compute charged', 'disks charged']),
    );
    const charged = periods.find(({ meter, state }) => meter === 'compute' && state === 'charged');
    const ms = (charged?.closedAtMs ?? 0) - (charged?.openedAtMs ?? 0);
    expect(ms).toBeGreaterThanOrEqual(90_500);
    expect(charged?.chargedMicros).toBe(Math.floor(((charged?.priceMicros ?? 0) * ms) / HOUR_MS));
    expect(await world.running.control.access.balance(world.caller)).toMatchObject({
      balance: 1_000 - (charged?.chargedMicros ?? 0) / 1e6,
    });
  });
});
