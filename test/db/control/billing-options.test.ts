import { expect, test } from 'vitest';
import { onBothEngines } from '../../fixtures/store.ts';
import { makeWorld } from '../../fixtures/control.ts';

onBothEngines('billing options', (open) => {
  test('are set by the launch and at any time after it, once by a key, with one event a change', async () => {
    const world = await makeWorld(await open(), { start: false });
    const { instances } = world.running.control;
    const launch = world.launchInput({ billing: { chargeMode: 'perDay', duration: 2, autoRenew: true } });
    const { instanceId } = await instances.launch(world.caller, launch, null);
    const shown = async () => {
      const { billing } = await instances.get(world.caller, { instanceId });
      return { autoRenew: billing.autoRenew, resume: billing.resume };
    };
    expect(await shown()).toEqual({ autoRenew: true, resume: false });
    const set = (autoRenew: boolean, key: string) =>
      instances.setBilling(world.caller, { instanceId, autoRenew }, { key, route: 'POST /x', bodyHash: key });
    expect(await set(false, 'a')).toEqual({ instanceId, autoRenew: false, resume: false });
    await set(false, 'b');
    await set(true, 'c');
    await set(false, 'a');
    expect(await shown()).toEqual({ autoRenew: true, resume: false });
    const events = await world.store.read
      .selectFrom('event')
      .select('data')
      .where('subjectId', '=', instanceId)
      .where('kind', '=', 'instance.billingSet')
      .orderBy('seq')
      .execute();
    expect(events.map(({ data }) => JSON.parse(data))).toEqual([
      { autoRenew: false, resume: false },
      { autoRenew: true, resume: false },
    ]);
  });

  test.each([
    ['perHour', { autoRenew: true }, /^field "autoRenew" is true: it must be false for perHour; only perDay/],
    ['perHour', { resume: true }, /^field "resume" is true: it must be false for perHour; only tidePerHour and spot/],
    ['perWeek', { resume: true }, /^field "resume" is true: it must be false for perWeek/],
    ['perDay', {}, /^field "autoRenew" is not set; or send "resume"$/],
  ] as const)('refuses for %s: %j', async (chargeMode, options, why) => {
    const world = await makeWorld(await open(), { start: false });
    const { instances } = world.running.control;
    const launch = world.launchInput({ billing: { chargeMode, duration: 1 } });
    const { instanceId } = await instances.launch(world.caller, launch, null);
    await expect(instances.setBilling(world.caller, { instanceId, ...options }, null)).rejects.toThrow(why);
    expect((await instances.get(world.caller, { instanceId })).billing).toMatchObject({
      autoRenew: false,
      resume: false,
    });
  });

  test("does not change another account's instance", async () => {
    const world = await makeWorld(await open(), { start: false });
    const { instances } = world.running.control;
    const { instanceId } = await instances.launch(
      world.caller,
      world.launchInput({ billing: { chargeMode: 'perDay', duration: 1 } }),
      null,
    );
    const bob = await world.account('bob');
    await expect(instances.setBilling(bob, { instanceId, autoRenew: true }, null)).rejects.toThrow(/not found/);
  });
});
