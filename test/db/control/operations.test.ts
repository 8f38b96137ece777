/** Operations from request to end, after superseding ones, and after their subject is gone. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import type { Idempotency } from '../../../src/control/index.ts';
import { deleteExpired } from '../../fixtures/delete-expired.ts';
import { diagnoses } from '../../../src/domain/compute/instance-states.ts';
import type { PublicOperation } from '../../../src/domain/compute/public-operation.ts';
import { latestSeq } from '../../../src/store/tables/events.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { expectRefused } from './access-fixture.ts';
import { expectConsistent, settled } from './consistency.ts';
import { eventually, hasStatus, makeWorld, type World } from '../../fixtures/control.ts';
import { realTime } from '../../../src/control/kernel/time.ts';

const pager = { currentPage: 1, pageSize: 50 };

const launch = async (world: World, initScript = ''): Promise<{ instanceId: string }> => {
  const { instanceConfiguration } = world.launchInput();
  const request = world.launchInput({ instanceConfiguration: { ...instanceConfiguration, initScript } });
  return world.running.control.instances.launch(world.caller, request, null);
};

const read = (world: World, operationId = ''): Promise<PublicOperation> =>
  world.running.control.operations.read(world.caller, { operationId });

async function ended(world: World, operationId = ''): Promise<PublicOperation> {
  let last: PublicOperation | null = null;
  const hasEnded = async (): Promise<boolean> => (last = await read(world, operationId)).endedAtUnixMs !== null;
  await eventually(hasEnded, () => JSON.stringify(last));
  return read(world, operationId);
}

const listOf = async (world: World, instanceId: string): Promise<string[]> => {
  const { operations } = await world.running.control.operations.list(world.caller, { instanceId }, pager);
  return operations.map(
    ({ operationId, kind, state }) => `${operationId.slice(instanceId.length + 1)} ${kind} ${state}`,
  );
};

const keyed = (key: string): Idempotency => ({ key, route: '/x', bodyHash: 'x' });

/** Stages of each kind without faults and with the image present. */
const courseOf = {
  start: ['Queued', 'Placed', 'Image', 'Disks', 'Container', 'Readiness'],
  restart: ['Stop', 'Image', 'Disks', 'Container', 'Readiness'],
  stop: ['Stop'],
  archive: ['Stop', 'Archive'],
  terminate: ['Clean'],
};

const volumeRequest = (world: World) =>
  ({ name: 'data', sizeGB: 1, region: world.drivers.regionId, volumeType: 'filesystem' }) as const;

onBothEngines('operations', (open) => {
  test('reports each kind from request to end; the history keeps their order', async () => {
    const world = await makeWorld(await open());
    const { instances } = world.running.control;
    const one = await launch(world, 'true');
    const launched = await ended(world, `${one.instanceId}.1`);
    expect(launched).toMatchObject({ kind: 'launch', cause: 'user', state: 'Succeeded', percent: 100, error: null });
    const image = launched.stages.find(({ name }) => name === 'Image');
    expect(image).toMatchObject({ done: 200_000_000, total: 200_000_000, unit: 'bytes' });
    expect(image?.text).toBe('the image is ready: 200.0 of 200.0 MB');
    await world.until(one.instanceId, ({ instanceRuntimeInfo }) =>
      instanceRuntimeInfo.message.includes('exited with code'),
    );
    const timeline = (await instances.get(world.caller, one)).timeline;
    expect(timeline.map(({ name }) => name)).toEqual([
      'Queued',
      'Placed',
      'Image',
      'Disks',
      'Container',
      'Readiness',
      'InitScript',
    ]);
    expect(timeline.every(({ endedAtUnixMs }) => endedAtUnixMs !== null)).toBe(true);

    for (const [action, number] of [
      ['restart', 2],
      ['stop', 3],
      ['start', 4],
      ['archive', 5],
      ['start', 6],
      ['terminate', 7],
    ] as const) {
      const desired = await instances[action](world.caller, one, null);
      expect(desired).toEqual({ ...one, operationId: `${one.instanceId}.${number}` });
      const done = await ended(world, desired.operationId);
      expect(done).toMatchObject({ kind: action, state: 'Succeeded', percent: 100 });
      expect([action, done.stages.map(({ name }) => name)]).toEqual([action, courseOf[action]]);
      await settled(world);
    }
    expect(await listOf(world, one.instanceId)).toEqual([
      '7 terminate Succeeded',
      '6 start Succeeded',
      '5 archive Succeeded',
      '4 start Succeeded',
      '3 stop Succeeded',
      '2 restart Succeeded',
      '1 launch Succeeded',
    ]);
    // The released instance's last bring-up, while listed.
    expect((await instances.get(world.caller, one)).operationId).toBe(`${one.instanceId}.6`);
    await expectConsistent(world);
  });

  test('pages through each past operation once, with the exact total', async () => {
    const world = await makeWorld(await open());
    const { instances, operations } = world.running.control;
    const one = await launch(world);
    await world.until(one.instanceId, hasStatus('Running'));
    for (let round = 0; round < 4; round++) {
      await instances.restart(world.caller, one, null);
      await world.until(one.instanceId, hasStatus('Running'));
    }
    const seen: string[] = [];
    for (let currentPage = 1; currentPage <= 4; currentPage++) {
      const page = await operations.list(world.caller, one, { currentPage, pageSize: 2 });
      expect(page.totalEntries).toBe(5);
      seen.push(...page.operations.map(({ operationId }) => operationId));
    }
    expect(seen).toEqual([5, 4, 3, 2, 1].map((number) => `${one.instanceId}.${number}`));
  });

  test('a superseded request is Cancelled permanently', async () => {
    const world = await makeWorld(await open(), { engine: { times: { pull: 60_000 } } });
    const one = await launch(world);
    await world.until(one.instanceId, hasStatus('PullingImage'));
    const under = await read(world, `${one.instanceId}.1`);
    expect(under).toMatchObject({ state: 'Running', endedAtUnixMs: null, cancellable: true });
    expect(under.stages.at(-1)?.text).toMatch(/^preparing the image: [\d.]+ of 200\.0 MB$/);
    await world.running.control.instances.stop(world.caller, one, null);
    await world.until(one.instanceId, hasStatus('Stopped'));
    const cut = await read(world, `${one.instanceId}.1`);
    expect(cut).toMatchObject({ state: 'Cancelled', error: null, cancellable: false });
    expect(cut.stages.at(-1)?.text).toMatch(/^not finished: preparing the image/);
    expect(await listOf(world, one.instanceId)).toEqual(['2 stop Succeeded', '1 launch Cancelled']);
  });

  test('a failed operation keeps its reason and next step across a server crash', async () => {
    const world = await makeWorld(await open(), { limits: { readyDeadlineMs: 100 } });
    const one = await launch(world, '# berth-sim: never ready');
    const failed = await ended(world, `${one.instanceId}.1`);
    expect(failed).toMatchObject({
      state: 'Failed',
      error: { reason: 'StartTimeout', whatToDo: diagnoses.StartTimeout, message: expect.stringMatching(/not ready/) },
    });
    expect(failed.percent).toBeLessThan(100);
    await settled(world);
    await world.again();
    expect(await read(world, `${one.instanceId}.1`)).toEqual(failed);
  });

  test('a failed archive is a failed operation of a Stopped instance', async () => {
    const world = await makeWorld(await open(), { limits: { maxAttempts: 0 } });
    const one = await launch(world);
    await world.until(one.instanceId, hasStatus('Running'));
    world.engine.misbehave(({ verb }) => (verb === 'saveImage' ? { mode: 'failBefore', kind: 'rejected' } : undefined));
    const { operationId } = await world.running.control.instances.archive(world.caller, one, null);
    expect(await ended(world, operationId)).toMatchObject({
      kind: 'archive',
      state: 'Failed',
      error: { reason: 'ArchiveFailed', whatToDo: diagnoses.ArchiveFailed },
    });
    await world.until(one.instanceId, hasStatus('Stopped'));
  });

  test('volumes: a create ends with Bound; a delete is reported after the row is gone', async () => {
    const world = await makeWorld(await open());
    const { volumes, operations } = world.running.control;
    const made = await volumes.create(world.caller, volumeRequest(world), null);
    const { id: volumeId }: { id: string } = JSON.parse(made.volumeText);
    expect(made.operationId).toBe(`${volumeId}.1`);
    expect(await ended(world, made.operationId)).toMatchObject({ kind: 'createVolume', state: 'Succeeded' });
    const gone = await volumes.delete(world.caller, { id: volumeId }, null);
    expect(gone).toEqual({ id: volumeId, operationId: `${volumeId}.2` });
    expect(await ended(world, gone.operationId)).toMatchObject({ kind: 'deleteVolume', state: 'Succeeded' });
    const rows = world.store.read.selectFrom('volume').select('id');
    await eventually(async () => (await rows.execute()).length === 0);
    const page = await operations.list(world.caller, { volumeId }, pager);
    expect(page.operations.map(({ kind, state }) => [kind, state])).toEqual([
      ['deleteVolume', 'Succeeded'],
      ['createVolume', 'Succeeded'],
    ]);
    expect(page.totalEntries).toBe(2);
  });

  test('images: a delete is reported during and after the removal', async () => {
    const world = await makeWorld(await open());
    const { images, operations } = world.running.control;
    const one = await launch(world);
    await world.until(one.instanceId, hasStatus('Running'));
    const saved = await images.save(world.caller, { ...one, name: 'mine' }, null);
    const { imageId } = saved;
    await ended(world, saved.operationId);
    world.engine.misbehave(({ verb }) => (verb === 'removeImage' ? { mode: 'failBefore', kind: 'busy' } : undefined));
    const gone = await images.delete(world.caller, { imageId }, keyed('gone'));
    expect(gone).toEqual({ imageId, operationId: `${imageId}.2` });
    expect(await images.delete(world.caller, { imageId }, keyed('gone'))).toEqual(gone);
    expect(await read(world, gone.operationId)).toMatchObject({
      kind: 'deleteImage',
      state: 'Running',
      stages: [{ name: 'Clean', endedAtUnixMs: null }],
      cancellable: false,
    });
    await expectRefused(
      operations.cancel(world.caller, { operationId: `${imageId}.2` }, null),
      'not_now',
      /a deletion cannot be undone/,
    );
    world.engine.misbehave(undefined);
    expect(await ended(world, gone.operationId)).toMatchObject({ kind: 'deleteImage', state: 'Succeeded' });
    const rows = world.store.read.selectFrom('image').select('id').where('id', '=', imageId);
    await eventually(async () => (await rows.execute()).length === 0);
    const page = await operations.list(world.caller, { imageId }, pager);
    expect(page.operations.map(({ kind, state }) => [kind, state])).toEqual([
      ['deleteImage', 'Succeeded'],
      ['saveImage', 'Succeeded'],
    ]);
  });

  test('images: deleting a registry image succeeds at once', async () => {
    const world = await makeWorld(await open());
    const { images } = world.running.control;
    const { imageId } = await images.create(world.caller, { name: 'theirs', ref: 'registry.example.org/a:1' }, null);
    const { operationId } = await images.delete(world.caller, { imageId }, null);
    expect(await read(world, operationId)).toMatchObject({
      subjectId: imageId,
      kind: 'deleteImage',
      state: 'Succeeded',
    });
  });

  test('deleting a volume before its creation cancels the create', async () => {
    const world = await makeWorld(await open(), { start: false });
    const { volumes } = world.running.control;
    const made = await volumes.create(world.caller, volumeRequest(world), null);
    const id = made.operationId?.slice(0, -2) ?? '';
    expect(await read(world, made.operationId)).toMatchObject({ state: 'Running', cancellable: false });
    await volumes.delete(world.caller, { id }, null);
    expect(await read(world, made.operationId)).toMatchObject({ state: 'Cancelled' });
  });

  test('a repeated keyed request names the first operation', async () => {
    const world = await makeWorld(await open());
    const { instances, volumes } = world.running.control;
    const one = await launch(world);
    await world.until(one.instanceId, hasStatus('Running'));
    const first = await instances.stop(world.caller, one, keyed('a'));
    await world.until(one.instanceId, hasStatus('Stopped'));
    expect(await instances.stop(world.caller, one, keyed('a'))).toEqual(first);
    const made = await volumes.create(world.caller, volumeRequest(world), keyed('b'));
    expect(await volumes.create(world.caller, volumeRequest(world), keyed('b'))).toEqual(made);
  });

  test('cancel terminates a launch', async () => {
    const world = await makeWorld(await open(), { engine: { times: { pull: 60_000 } } });
    const one = await launch(world);
    await world.until(one.instanceId, hasStatus('PullingImage'));
    const { operations } = world.running.control;
    const cancel = () => operations.cancel(world.caller, { operationId: `${one.instanceId}.1` }, keyed('once'));
    const cancelled = await cancel();
    expect(cancelled).toMatchObject({
      operationId: `${one.instanceId}.2`,
      operation: { operationId: `${one.instanceId}.1`, state: 'Cancelled', cancellable: false },
    });
    expect(await cancel()).toEqual(cancelled);
    expect(await read(world, `${one.instanceId}.1`)).toEqual(cancelled.operation);
    expect(await ended(world, `${one.instanceId}.2`)).toMatchObject({ kind: 'terminate', state: 'Succeeded' });
    await world.until(one.instanceId, hasStatus('Released'));
    await settled(world);
    await expectConsistent(world);
  });

  test('a queued operation is Pending; cancel removes it from the queue', async () => {
    const machine = { cpuCores: 1, memoryMiB: 4 * 1024, gpus: [], architecture: 'amd64' };
    const world = await makeWorld(await open(), { machine });
    const { instances, operations } = world.running.control;
    await launch(world);
    const one = await instances.launch(world.caller, world.launchInput(), null, 60_000);
    const operationId = `${one.instanceId}.1`;
    const waiting = await read(world, operationId);
    expect(waiting).toMatchObject({ state: 'Pending', percent: 0, cancellable: true });
    expect(waiting.stages.map(({ name, text }) => [name, text])).toEqual([['Queued', 'waiting to be scheduled']]);
    await operations.cancel(world.caller, { operationId }, null);
    expect(await read(world, operationId)).toMatchObject({ state: 'Cancelled' });
    await settled(world);
    await expectConsistent(world);
  });

  test('cancel stops a restart, a start or an archive, which keeps the disk', async () => {
    const world = await makeWorld(await open());
    const { instances, operations } = world.running.control;
    const one = await launch(world);
    await world.until(one.instanceId, hasStatus('Running'));
    world.engine.misbehave(({ verb }) =>
      verb === 'ensure' || verb === 'saveImage' ? { mode: 'slow', ms: 60_000 } : undefined,
    );
    for (const action of ['restart', 'start', 'archive'] as const) {
      const { operationId } = await instances[action](world.caller, one, null);
      expect(await read(world, operationId)).toMatchObject({ kind: action, cancellable: true });
      const { operationId: desired } = await operations.cancel(world.caller, { operationId }, null);
      expect(await read(world, operationId)).toMatchObject({ state: 'Cancelled' });
      expect(await ended(world, desired)).toMatchObject({ kind: 'stop', state: 'Succeeded' });
      await world.until(one.instanceId, hasStatus('Stopped'));
    }
    world.engine.misbehave(undefined);
    await instances.start(world.caller, one, null);
    await world.until(one.instanceId, hasStatus('Running'));
    await settled(world);
    await expectConsistent(world);
  });

  test('refuses to cancel with the reason, and changes nothing', async () => {
    const world = await makeWorld(await open(), { start: false });
    const { instances, operations, volumes } = world.running.control;
    const one = await launch(world);
    const cancel = (operationId = '') => operations.cancel(world.caller, { operationId }, null);
    const { operationId: stop } = await instances.stop(world.caller, one, null);
    await expectRefused(cancel(`${one.instanceId}.1`), 'not_now', /already ended \(Cancelled\)/);
    await expectRefused(cancel(stop), 'not_now', /wait until the instance is Stopped/);
    const { operationId: terminate } = await instances.terminate(world.caller, one, null);
    await expectRefused(cancel(terminate), 'not_now', /launch another instance/);
    const made = await volumes.create(world.caller, volumeRequest(world), null);
    await expectRefused(cancel(made.operationId), 'not_now', /delete the volume with POST/);
    const events = await latestSeq(world.store.read, world.caller.accountId);
    await expectRefused(cancel(terminate), 'not_now', /cannot be undone/);
    expect(await latestSeq(world.store.read, world.caller.accountId)).toBe(events);
  });

  test('accepts one of fifty concurrent cancels and stops, and refuses the others with the reason', async () => {
    const world = await makeWorld(await open(), { engine: { times: { pull: 60_000 } } });
    const one = await launch(world);
    const { instances, operations } = world.running.control;
    const results = await Promise.allSettled(
      Array.from({ length: 50 }, (_, index) =>
        index % 2 === 0
          ? operations.cancel(world.caller, { operationId: `${one.instanceId}.1` }, null)
          : instances.stop(world.caller, one, null),
      ),
    );
    expect(results.filter(({ status }) => status === 'fulfilled')).not.toEqual([]);
    for (const result of results)
      if (result.status === 'rejected')
        expect(result.reason).toMatchObject({ code: expect.stringMatching(/not_now|not_found/) });
    const launched = await read(world, `${one.instanceId}.1`);
    expect(launched.state).toBe('Cancelled');
    await settled(world);
    await expectConsistent(world);
  });

  test("hides other accounts' operations like unknown ones", async () => {
    const world = await makeWorld(await open(), { start: false });
    const { operations, instances, volumes } = world.running.control;
    const one = await launch(world);
    await instances.stop(world.caller, one, null);
    const made = await volumes.create(world.caller, volumeRequest(world), null);
    const otherAccount = await world.account('mallory');
    const never = `notebook-${randomUUID()}.1`;
    const words = async (promise: Promise<unknown>): Promise<unknown> =>
      promise.then(
        () => 'not refused',
        (error: unknown) => (error instanceof Error ? { ...error, message: error.message } : error),
      );
    const say = (text: unknown, id: string): string => JSON.stringify(text).replaceAll(id, '<id>');
    for (const id of [`${one.instanceId}.1`, `${one.instanceId}.2`, made.operationId ?? '']) {
      for (const ask of [
        (operationId: string) => operations.read(otherAccount, { operationId }),
        (operationId: string) => operations.cancel(otherAccount, { operationId }, null),
      ]) {
        const theirs = say(await words(ask(id)), id);
        expect(theirs).toContain('not_found');
        expect(theirs).toBe(say(await words(ask(never)), never));
      }
    }
    await expectRefused(operations.list(otherAccount, one, pager), 'not_found', /^ent: instance not found$/);
    await expectRefused(instances.get(otherAccount, one), 'not_found', /^ent: instance not found$/);
    for (const operationId of ['', '.', 'x', `${one.instanceId}.0`, `${one.instanceId}.99`, `${one.instanceId}.1e3`])
      await expectRefused(operations.read(world.caller, { operationId }), 'not_found', /not found/);
  });

  test('deletes old history and events, oldest first; event numbers continue', async () => {
    const clock = { aheadMs: 0 };
    const world = await makeWorld(await open(), { clock, start: false });
    const { caller, store } = world;
    const { instances, operations } = world.running.control;
    const one = await launch(world);
    await instances.stop(caller, one, null);
    const old = await latestSeq(store.read, caller.accountId);
    clock.aheadMs = 2 * 86_400_000;
    await instances.terminate(caller, one, null);
    const tidyUp = (days: number) =>
      deleteExpired({
        store,
        time: { ...realTime, now: () => Date.now() + clock.aheadMs },
        releasedListedMs: 1,
        eventRetentionMs: days * 86_400_000,
      });
    const seqs = async (): Promise<number[]> =>
      (
        await store.read
          .selectFrom('event')
          .select('seq')
          .where('accountId', '=', caller.accountId)
          .orderBy('seq')
          .execute()
      ).map(({ seq }) => seq);
    await tidyUp(3);
    expect(await seqs()).toEqual(Array.from({ length: old + 1 }, (_, index) => index + 1));
    await tidyUp(1);
    expect(await seqs()).toEqual([old + 1]);
    // The launch became history two days ago, the stop just now.
    expect((await operations.list(caller, one, pager)).operations.map(({ kind }) => kind)).toEqual([
      'terminate',
      'stop',
    ]);
    clock.aheadMs = 4 * 86_400_000;
    await tidyUp(1);
    expect(await seqs()).toEqual([]);
    await launch(world);
    expect(await seqs()).toEqual([old + 2]);
  });

  test('deletes old events in batches until none is left', async () => {
    const store = await open();
    const world = await makeWorld(store, { start: false });
    const { caller } = world;
    await store.write(async (tx) => {
      await tx.deleteFrom('event').execute();
      await tx.updateTable('account').set({ eventSeq: 1_500 }).where('id', '=', caller.accountId).execute();
      const rows = Array.from({ length: 1_500 }, (_, index) => ({
        accountId: caller.accountId,
        seq: index + 1,
        // An event has a clock that was ahead: later events stay, so that no gap appears.
        atMs: index === 1_200 ? 9_000 : index,
        kind: 'x',
        subjectId: 'x',
        data: '{}',
      }));
      for (let at = 0; at < rows.length; at += 500)
        await tx
          .insertInto('event')
          .values(rows.slice(at, at + 500))
          .execute();
    });
    await deleteExpired({
      store,
      time: { ...realTime, now: () => 5_000 },
      releasedListedMs: 1,
      eventRetentionMs: 1_000,
    });
    const left = await store.read.selectFrom('event').select('seq').orderBy('seq').execute();
    expect(left.map(({ seq }) => seq)).toEqual(Array.from({ length: 300 }, (_, index) => 1_201 + index));
  });
});
