/** Starts by requests at the gateway: who may, how often, and what they never do. */
import { expect, test } from 'vitest';
import type { WakeRequest } from '../../../src/control/index.ts';
import { instanceId as idOf } from '../../../src/domain/kernel/ids.ts';
import { weekdays } from '../../../src/domain/regions/off-peak.ts';
import { hasStatus, makeWorld, type World } from '../../fixtures/control.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectRefused } from './access-fixture.ts';

const HOUR_MS = 3_600_000;
type By = 'off' | 'owner' | 'visitors';

onBothEngines('wake on request', (open) => {
  interface Before {
    launch?: Parameters<World['launchInput']>[0];
    prepare?: (world: World) => Promise<void>;
  }

  async function stopped(by: By, { launch, prepare }: Before = {}) {
    const clock = { aheadMs: 0 };
    const world = await makeWorld(await open(), { clock });
    await prepare?.(world);
    const { instances, wakes } = world.running.control;
    const { instanceId } = await instances.launch(world.caller, world.launchInput(launch), null);
    await world.until(instanceId, hasStatus('Running'));
    const stop = async (): Promise<void> => {
      await instances.stop(world.caller, { instanceId }, null);
      await world.until(instanceId, hasStatus('Stopped'));
    };
    await stop();
    await wakes.set(world.caller, { instanceId, by });
    const request = (more: Partial<WakeRequest> = {}) =>
      wakes.request({
        instanceId: idOf(instanceId),
        accountId: world.caller.accountId,
        credential: 'login',
        visitor: { address: '192.0.2.7', userAgent: 'curl/8' },
        starts: true,
        ...more,
      });
    const visit = () => request({ accountId: null, credential: 'none' });
    const status = async () => (await world.instance(instanceId)).instanceRuntimeInfo.status;
    return { world, clock, instanceId, stop, request, visit, status };
  }

  test('the setting is off at first, changes while the instance is stopped, and says what visitors used', async () => {
    const { world, instanceId, request } = await stopped('off');
    const { wakes, forwarding } = world.running.control;
    const nothing = { by: 'off', visitorsPerDay: 3, visitorsToday: 0 };
    expect(await wakes.set(world.caller, { instanceId })).toEqual({ instanceId, ...nothing });
    await expectRefused(request(), 'forbidden', /lets no request of yours start it/);
    const changed = { by: 'visitors', visitorsPerDay: 5, visitorsToday: 0 };
    expect(await wakes.set(world.caller, { instanceId, by: 'visitors', visitorsPerDay: 5 })).toEqual({
      instanceId,
      ...changed,
    });
    await expect.poll(async () => (await forwarding.route(instanceId))?.wake).toBe('visitors');
    const other = await world.account('mallory');
    await expectRefused(wakes.set(other, { instanceId, by: 'off' }), 'not_found', /./);
  });

  test("an owner's request starts it as any start does, and says price and seconds", async () => {
    const { world, instanceId, request } = await stopped('owner');
    const offer = await request({ starts: false });
    expect(offer).toEqual({ dollarsPerHour: expect.any(Number), expectedMs: expect.any(Number) });
    expect((await world.instance(instanceId)).instanceRuntimeInfo.status).toBe('Stopped');
    expect(await request()).toEqual(offer);
    await world.until(instanceId, hasStatus('Running'));
    // Another does nothing.
    expect(await request()).toEqual(offer);
    const events = await world.store.read
      .selectFrom('event')
      .select(['kind', 'data'])
      .where('subjectId', '=', instanceId)
      .execute();
    const started = events.filter(({ kind }) => kind === 'instance.startWished');
    expect(started.map(({ data }) => JSON.parse(data))).toEqual([
      expect.objectContaining({ cause: 'wake', by: 'owner' }),
    ]);
  });

  test('visitors start it as often a day as its owner allows', async () => {
    const { world, clock, instanceId, stop, visit, status } = await stopped('visitors');
    await world.running.control.wakes.set(world.caller, { instanceId, visitorsPerDay: 1 });
    expect(await visit()).toMatchObject({ dollarsPerHour: null });
    await world.until(instanceId, hasStatus('Running'));
    await stop();
    const refused = await visit().catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: 'too_many_requests', message: expect.stringMatching(/1 times in 24 hours/) });
    expect(await status()).toBe('Stopped');
    clock.aheadMs += 24 * HOUR_MS;
    await visit();
    await world.until(instanceId, hasStatus('Running'));
  });

  test('visitors start nothing that the owner kept, nor learn why a start is refused', async () => {
    const { world, instanceId, visit, request } = await stopped('owner');
    await expectRefused(visit(), 'unavailable', /its owner can start it/);
    const other = await world.account('mallory');
    await expectRefused(request({ accountId: other.accountId }), 'unavailable', /its owner can start it/);
    expect((await world.instance(instanceId)).instanceRuntimeInfo.status).toBe('Stopped');
  });

  test('no request starts what was stopped by an operator', async () => {
    const { world, instanceId, request } = await stopped('owner');
    await world.running.control.instances.start(world.caller, { instanceId }, null);
    await world.until(instanceId, hasStatus('Running'));
    await world.running.control.operator.stop(world.caller, { instanceId, reason: 'maintenance' }, null);
    await world.until(instanceId, hasStatus('Stopped'));
    await expectRefused(request(), 'not_now', /stopped with the reason OperatorStop/);
  });

  test('no request starts what has lost its root disk', async () => {
    const { world, instanceId, request, status } = await stopped('owner');
    await world.engine.host.forget(idOf(instanceId));
    await world.until(instanceId, ({ instanceRuntimeInfo }) => instanceRuntimeInfo.diagnosisReason === 'RootDiskLost');
    await expectRefused(request(), 'not_now', /newRootDisk/);
    expect(await status()).toBe('Stopped');
  });

  test('a request outside of the off-peak window starts nothing, and says when it opens', async () => {
    // Open for two hours from now on.
    const prepare = async (world: World): Promise<void> => {
      const { regionId } = world.drivers;
      const { update, get } = world.running.control.regionAdministration;
      const { version } = (await get(regionId)).region;
      const [start, end] = [0, 2 * HOUR_MS].map((ms) => new Date(world.now() + ms).toISOString().slice(11, 16));
      const windows = [{ days: [...weekdays], start: start ?? '', end: end ?? '' }];
      await update(world.caller, { regionId, version, dryRun: false, offPeak: { timeZone: 'UTC', windows } }, null);
    };
    const launch = { billing: { chargeMode: 'tidePerHour', duration: 1 } } as const;
    const { world, clock, request, instanceId } = await stopped('owner', { launch, prepare });
    clock.aheadMs += 3 * HOUR_MS;
    const refused = await request().catch((error: unknown) => error);
    expect(refused).toMatchObject({
      code: 'not_now',
      message: expect.stringMatching(/waiting for the off-peak window/),
      retryAfterS: expect.any(Number),
    });
    clock.aheadMs += 22 * HOUR_MS;
    await request();
    await world.until(instanceId, hasStatus('Running'));
  });

  test('a drained region refuses', async () => {
    const { world, request, status } = await stopped('owner');
    const { regionId } = world.drivers;
    const drained = { regionId, drain: true, reason: 'maintenance' };
    await world.running.control.operator.drain(world.caller, drained, null);
    await expectRefused(request(), 'no_capacity', /drained|maintenance/);
    expect(await status()).toBe('Stopped');
  });

  test('the audit log has who started it, and who tried', async () => {
    const { world, instanceId, visit, request } = await stopped('owner');
    await visit().catch(() => {});
    await request({ credential: 'apiKey' });
    await world.until(instanceId, hasStatus('Running'));
    const { audit } = world.running.control;
    await expect
      .poll(async () => {
        const { records } = await audit.list({ route: 'gatewayWake' }, { currentPage: 1, pageSize: 10 });
        return records.map(({ username, credential, outcome, subjects, address }) => ({
          username,
          credential,
          outcome,
          subjects,
          address,
        }));
      })
      .toEqual([
        {
          username: world.caller.username,
          credential: 'apiKey',
          outcome: 'ok',
          subjects: [instanceId],
          address: '192.0.2.7',
        },
        { username: '', credential: 'none', outcome: 'forbidden', subjects: [instanceId], address: '192.0.2.7' },
      ]);
  });
});
