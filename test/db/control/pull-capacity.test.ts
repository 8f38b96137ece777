/** A pull holds no capacity after its first failure, or for longer than `pullHoldMs`. */
import { expect, test } from 'vitest';
import type { Limits } from '../../../src/domain/compute/instance-states.ts';
import { eventually, hasStatus } from '../../fixtures/control.ts';
import { onBothEngines, type Open } from '../../fixtures/store.ts';
import { machineOf, makeSizedWorld } from './capacity-fixture.ts';
import { becomesConsistent } from './consistency.ts';

type Reported = { kind: 'found'; bytes: number } | { kind: 'not_found' };
const found: Reported = { kind: 'found', bytes: 200_000_000 };

/** A region with a place for one instance, whose registry says what `reported.state` is. */
async function worldOfOne(open: Open, pullMs: number, pullHoldMs: number, limits: Partial<Limits> = {}) {
  const reported: { state: Reported } = { state: found };
  const engine = { images: () => reported.state, times: { pull: pullMs } };
  const options = { engine, limits: { pullHoldMs, ...limits } };
  const world = await makeSizedWorld(await open(), machineOf(2, 4), { big: { cpuCores: 2, memoryGB: 4 } }, options);
  const { instances } = world.running.control;
  const launch = async (name: string): Promise<string> =>
    (await instances.launch(world.caller, world.of('big', { name }), null)).instanceId;
  const holders = async (): Promise<string[]> => {
    const held = world.store.read.selectFrom('instance').select('id').where('holdsCapacity', '=', 1);
    return (await held.execute()).map(({ id }) => id);
  };
  return { world, instances, reported, launch, holders };
}

onBothEngines('a pull', { postgres: 'always' }, (open) => {
  test('gives its capacity back after its first failure, and queues again with the image', async () => {
    const { world, instances, reported, launch, holders } = await worldOfOne(open, 20, 300_000);
    reported.state = { kind: 'not_found' };
    const one = await launch('one');
    await world.until(one, ({ instanceRuntimeInfo: { diagnosisReason } }) => diagnosisReason === 'BackOff');
    expect(await holders()).toEqual([]);
    const two = await launch('two');
    reported.state = found;
    await eventually(async () => (await holders()).length === 1 && (await world.capacityQueue()).length === 1);
    const [first = ''] = await holders();
    const second = first === one ? two : one;
    await world.until(first, hasStatus('Running'));
    const waiting = await world.instance(second);
    expect(waiting.instanceRuntimeInfo).toMatchObject({ diagnosisReason: 'NoCapacity', phase: 'Queued' });
    await instances.terminate(world.caller, { instanceId: first }, null);
    await world.until(second, hasStatus('Running'));
    await becomesConsistent(world);
  });

  test('gives its capacity back while it takes long, goes on, and queues again with the image', async () => {
    const { world, instances, launch, holders } = await worldOfOne(open, 3_000, 200);
    let pulls = 0;
    world.engine.misbehave(({ verb }) => {
      if (verb === 'ensureImage') pulls += 1;
      return undefined;
    });
    const one = await launch('one');
    await eventually(async () => (await holders()).length === 0);
    expect((await world.instance(one)).instanceRuntimeInfo).toMatchObject({ phase: 'DownloadImage' });
    expect(pulls, 'the pull goes on').toBe(1);
    const two = await launch('two');
    await eventually(
      async () =>
        (await world.instance(two)).instanceRuntimeInfo.status === 'Running' ||
        (await world.instance(one)).instanceRuntimeInfo.status === 'Running',
    );
    const isOne = (await world.instance(one)).instanceRuntimeInfo.status === 'Running';
    await instances.terminate(world.caller, { instanceId: isOne ? one : two }, null);
    await world.until(isOne ? two : one, hasStatus('Running'));
    await becomesConsistent(world);
  });

  test('without capacity ends with its instance', async () => {
    const { world, instances, reported, launch, holders } = await worldOfOne(open, 20, 300_000);
    reported.state = { kind: 'not_found' };
    const one = await launch('one');
    await world.until(one, ({ instanceRuntimeInfo: { diagnosisReason } }) => diagnosisReason === 'BackOff');
    await instances.stop(world.caller, { instanceId: one }, null);
    await world.until(one, hasStatus('Stopped'));
    await instances.start(world.caller, { instanceId: one }, null);
    await world.until(one, ({ instanceRuntimeInfo: { diagnosisReason } }) => diagnosisReason === 'BackOff');
    await instances.terminate(world.caller, { instanceId: one }, null);
    expect(await holders()).toEqual([]);
    await becomesConsistent(world);
  });

  test('without capacity fails after its deadline, and then waits for nothing', async () => {
    const limits = { imageDeadlineMs: 500, maxAttempts: 2 };
    const { world, reported, launch, holders } = await worldOfOne(open, 20, 300_000, limits);
    reported.state = { kind: 'not_found' };
    const one = await launch('one');
    const failed = await world.until(one, hasStatus('StartingFailed'));
    expect(failed.instanceRuntimeInfo.diagnosisReason).toBe('ImageFailed');
    const row = world.store.read.selectFrom('instance').select(['notBeforeMs', 'waitsSinceMs']).where('id', '=', one);
    expect(await row.executeTakeFirst()).toEqual({ notBeforeMs: null, waitsSinceMs: null });
    expect(await holders()).toEqual([]);
    await becomesConsistent(world);
  });
});
