/**
 * Two concurrent requests: the second is judged by what the first left, and the last accepted one
 * holds at rest. Tries every pair of verbs from each legal state: 24 times at level long, 300 at
 * level soak.
 */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { atLevel } from '../../fixtures/level.ts';
import type { Idempotency } from '../../../src/control/index.ts';
import { actions, type Action } from '../../../src/domain/compute/instance-states.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { A_DAY_MS, machineOf, makeSizedWorld, outcomesOf, volumeOf, type SizedWorld } from './capacity-fixture.ts';
import { becomesConsistent, settled } from './consistency.ts';
import { eventually, hasStatus, makeWorld, textOf, type World } from '../../fixtures/control.ts';

const ROUNDS = atLevel({ short: 3, long: 24, soak: 300 });
/** Concurrent rounds. */
const AT_ONCE = 24;
const TIMEOUT_MS = 60_000 + ROUNDS * 2_000;

const cpus = { 'cpu.1': { cpuCores: 1, memoryGB: 2 } };
const keyed = (key: string, bodyHash: string): Idempotency => ({ key, route: 'POST /instance/create', bodyHash });

type Outcome = { ok: true } | { ok: false; code: string };

/** Outcome; any error but a refusal throws. */
async function outcomeOf(attempt: Promise<unknown>): Promise<Outcome> {
  const { refused } = await outcomesOf([attempt]);
  return refused[0] ? { ok: false, code: refused[0].code } : { ok: true };
}

/** Delays by some microtask turns, so that either may reach the store first. */
async function later<T>(microtasks: number, attempt: () => Promise<T>): Promise<T> {
  for (let index = 0; index < microtasks; index++) await Promise.resolve();
  return attempt();
}

/** Runs both at once in `ROUNDS` rounds, in alternating order. */
async function race(
  count: number,
  round: (
    first: <T>(attempt: () => Promise<T>) => Promise<T>,
    second: <T>(attempt: () => Promise<T>) => Promise<T>,
  ) => Promise<void>,
): Promise<void> {
  for (let from = 0; from < count; from += AT_ONCE) {
    const rounds = Array.from({ length: Math.min(AT_ONCE, count - from) }, (_, index) => {
      const microtasks = (from + index) % 12;
      const ahead = (from + index) % 2 === 0;
      return round(
        (attempt) => later(ahead ? 0 : microtasks, attempt),
        (attempt) => later(ahead ? microtasks : 0, attempt),
      );
    });
    await Promise.all(rounds);
  }
}

const atRest = { running: 'Running', stopped: 'Stopped', archived: 'Archived', released: 'Released' } as const;
const desiredOf: Record<Action, keyof typeof atRest> = {
  start: 'running',
  restart: 'running',
  stop: 'stopped',
  archive: 'archived',
  terminate: 'released',
};

onBothEngines('two concurrent actions', { postgres: 'always' }, (open) => {
  // A round costs three times as much on PostgreSQL, and there are thirty pairs.
  const rounds = open.kind === 'postgres' ? ROUNDS / 2 : ROUNDS;
  for (const from of ['Running', 'Stopped'] as const) {
    test(
      `the last accepted request wins, for every pair on a ${from} instance`,
      async () => {
        const world = await makeSizedWorld(await open(), machineOf(rounds, rounds * 2), cpus);
        const { instances } = world.running.control;
        const rich = await world.account('rich', 10_000_000);
        const act = (action: Action, one: { instanceId: string }) => instances[action](rich, one, null);
        const isAt = async (instanceId: string): Promise<string> => {
          const { desired, status } = await world.store.read
            .selectFrom('instance')
            .select(['desired', 'status'])
            .where('id', '=', instanceId)
            .executeTakeFirstOrThrow();
          return `${desired} ${status}`;
        };
        /** Instances at rest in that state. */
        const standing = async (count: number): Promise<{ instanceId: string }[]> => {
          const all = await Promise.all(
            Array.from({ length: count }, () => instances.launch(rich, world.of('cpu.1'), null)),
          );
          await settled(world);
          if (from === 'Stopped') await Promise.all(all.map((one) => act('stop', one)));
          await settled(world);
          for (const { instanceId } of all) expect(await isAt(instanceId)).toBe(`${from.toLowerCase()} ${from}`);
          return all;
        };
        for (const [index, one] of actions.entries())
          for (const other of actions.slice(index)) {
            const raced: { instanceId: string; accepted: Action[] }[] = [];
            const ready = await standing(rounds);
            await race(rounds, async (first, second) => {
              const mine = ready.pop();
              if (!mine) throw new Error('there are more rounds than instances');
              const outcomes = await Promise.all([
                outcomeOf(first(() => act(one, mine))),
                outcomeOf(second(() => act(other, mine))),
              ]);
              for (const outcome of outcomes) if (!outcome.ok) expect(['not_now', 'not_found']).toContain(outcome.code);
              raced.push({ ...mine, accepted: [one, other].filter((_, which) => outcomes[which]?.ok) });
            });
            await settled(world);
            for (const { instanceId, accepted } of raced) {
              const ends: (keyof typeof atRest)[] = accepted.map((action) => desiredOf[action]);
              const before = from === 'Running' ? 'running' : 'stopped';
              const may = ends.includes('released')
                ? ['released' as const]
                : ends.length > 0
                  ? ends
                  : [before as keyof typeof atRest];
              expect(may.map((end) => `${end} ${atRest[end]}`)).toContain(await isAt(instanceId));
            }
            const left = raced.filter(({ accepted }) => !accepted.includes('terminate'));
            await Promise.all(left.map((last) => act('terminate', last)));
            await settled(world);
          }
        await becomesConsistent(world);
        expect(await world.engine.listOwned(AbortSignal.timeout(120_000))).toEqual([]);
      },
      TIMEOUT_MS,
    );
  }
});

onBothEngines('the end of an instance ahead of a queued entry', { postgres: 'always' }, (open) => {
  /** Capacity for one instance, taken by an instance, with a queued entry. */
  const taken = async (world: SizedWorld, at: { first?: string }) => {
    const holding = {
      instanceId:
        at.first ?? (await world.running.control.instances.launch(world.caller, world.of('cpu.1'), null)).instanceId,
    };
    await world.until(holding.instanceId, hasStatus('Running'));
    const waiting = await world.running.control.instances.launch(world.caller, world.of('cpu.1'), null, A_DAY_MS);
    return { holding, waiting };
  };

  for (const what of ['stop', 'terminate'] as const)
    test(
      `counts the capacity once when ${what} races with the queued entry`,
      async () => {
        const world = await makeSizedWorld(await open(), machineOf(1, 2), cpus);
        const { instances } = world.running.control;
        for (let round = 0; round < ROUNDS; round++) {
          const { holding, waiting } = await taken(world, {});
          await Promise.all([
            later(round % 7, () => instances.terminate(world.caller, holding, null)),
            later((round * 5) % 11, () => instances[what](world.caller, waiting, null)),
          ]);
          expect(await world.capacityQueue()).toEqual([]);
          await world.until(waiting.instanceId, hasStatus('Stopped', 'Released'));
          await eventually(async () => (await world.counts()).used.cpuMilli === 0);
          if (what === 'stop') await instances.terminate(world.caller, waiting, null);
        }
        await becomesConsistent(world);
        expect((await world.counts()).used).toEqual({ cpuMilli: 0, memoryMiB: 0, gpus: {}, nodePorts: 0 });
      },
      TIMEOUT_MS,
    );

  test(
    'gives freed capacity to the queued entry before any newcomer',
    async () => {
      const world = await makeSizedWorld(await open(), machineOf(1, 2), cpus);
      const { instances } = world.running.control;
      let first: string | undefined;
      for (let round = 0; round < ROUNDS; round++) {
        const { holding, waiting } = await taken(world, first === undefined ? {} : { first });
        const [, outcome] = await Promise.all([
          later(round % 7, () => instances.terminate(world.caller, holding, null)),
          outcomeOf(later((round * 5) % 11, () => instances.launch(world.caller, world.of('cpu.1'), null))),
        ]);
        expect(outcome).toEqual({ ok: false, code: 'no_capacity' });
        await world.until(waiting.instanceId, hasStatus('Running'));
        first = waiting.instanceId;
      }
      await becomesConsistent(world);
    },
    TIMEOUT_MS,
  );
});

onBothEngines('two concurrent requests for one volume', { postgres: 'always' }, (open) => {
  const mounting = (world: World, id: string) =>
    world.launchInput({
      remoteStorages: [{ mountPath: '/root/v', remoteStorageName: 'v', remoteStorageId: id, type: 'filesystem' }],
    });
  const listed = async (world: World): Promise<{ id: string; volumeName: string }[]> => {
    const { texts } = await world.running.control.volumes.list(world.caller, { currentPage: 1, pageSize: 500 });
    return texts.map((text): { id: string; volumeName: string } => JSON.parse(textOf(text)));
  };

  test(
    'creates and deletes a volume once in any pair of requests',
    async () => {
      const world = await makeWorld(await open());
      const { volumes } = world.running.control;
      await race(ROUNDS, async (first, second) => {
        const name = randomUUID();
        const twice = [first, second].map((index) => outcomeOf(index(() => volumeOf(world, world.caller, name))));
        const made = await Promise.all(twice);
        expect(made.filter(({ ok }) => ok)).toHaveLength(1);
        expect(made).toContainEqual({ ok: false, code: 'name_taken' });
        const id = (await listed(world)).find(({ volumeName }) => volumeName === name)?.id ?? '';
        const [removed, again] = await Promise.all([
          outcomeOf(first(() => volumes.delete(world.caller, { id }, null))),
          outcomeOf(second(() => volumeOf(world, world.caller, name))),
        ]);
        expect(removed).toEqual({ ok: true });
        if (!again.ok) expect(again.code).toBe('name_taken');
        const now = (await listed(world)).filter(({ volumeName }) => volumeName === name);
        expect(now).toHaveLength(again.ok ? 1 : 0);
        const last = now[0] ?? { id: await volumeOf(world, world.caller, name) };
        const gone = await Promise.all(
          [first, second].map((index) => outcomeOf(index(() => volumes.delete(world.caller, { id: last.id }, null)))),
        );
        expect(gone.filter(({ ok }) => ok)).toHaveLength(1);
        expect(gone).toContainEqual({ ok: false, code: 'not_found' });
      });
      await settled(world);
      await becomesConsistent(world);
      expect(await listed(world)).toEqual([]);
    },
    TIMEOUT_MS,
  );

  test(
    'never deletes a volume under a container',
    async () => {
      const world = await makeSizedWorld(await open(), machineOf(64, 128), cpus);
      const { instances, volumes } = world.running.control;
      await race(ROUNDS, async (first, second) => {
        const id = await volumeOf(world, world.caller, randomUUID());
        const request = { ...mounting(world, id), instanceTypeId: world.typeId('cpu.1') };
        const one = await instances.launch(world.caller, request, null);
        await world.until(one.instanceId, hasStatus('Running'));
        const [ended, removed] = await Promise.all([
          outcomeOf(first(() => instances.terminate(world.caller, one, null))),
          outcomeOf(second(() => volumes.delete(world.caller, { id }, null))),
        ]);
        expect(ended).toEqual({ ok: true });
        if (removed.ok) {
          const events = await world.store.read
            .selectFrom('event')
            .select('kind')
            .where('kind', 'in', ['instance.released', 'volume.deleted'])
            .where('subjectId', 'in', [id, one.instanceId])
            .orderBy('seq')
            .execute();
          expect(events.map(({ kind }) => kind)).toEqual(['instance.released', 'volume.deleted']);
        } else expect(removed.code).toBe('in_use');

        const other = await volumeOf(world, world.caller, randomUUID());
        const secondLaunch = { ...mounting(world, other), instanceTypeId: world.typeId('cpu.1') };
        const [launched, gone] = await Promise.all([
          outcomeOf(first(() => instances.launch(world.caller, secondLaunch, null))),
          outcomeOf(second(() => volumes.delete(world.caller, { id: other }, null))),
        ]);
        expect([launched, gone]).toContainEqual({ ok: true });
        expect([launched, gone]).toContainEqual({ ok: false, code: launched.ok ? 'in_use' : 'not_found' });
      });
      await becomesConsistent(world);
    },
    TIMEOUT_MS,
  );
});

onBothEngines('a hundred concurrent requests', { postgres: 'always' }, (open) => {
  test('allots distinct node ports, and no more than there are', async () => {
    const world = await makeSizedWorld(await open(), machineOf(128, 256), cpus, {
      nodePorts: { first: 30_000, last: 30_119 },
    });
    const asked = Array.from({ length: 100 }, () =>
      world.running.control.instances.launch(world.caller, world.of('cpu.1', { nodePorts: [8000] }), null),
    );
    const { done, refused } = await outcomesOf(asked);
    expect([done.length, refused.length]).toEqual([60, 40]);
    for (const { message } of refused) expect(message).toMatch(/0 free node ports, and the launch needs 2/);
    for (const { instanceId } of done) await world.until(instanceId, hasStatus('Running'));
    const ports = await world.store.read.selectFrom('nodePort').select('nodePort').execute();
    expect(new Set(ports.map(({ nodePort }) => nodePort)).size).toBe(120);
    await becomesConsistent(world);
  });

  test('create one volume per name', async () => {
    const world = await makeWorld(await open());
    const { done, refused } = await outcomesOf(Array.from({ length: 100 }, () => volumeOf(world, world.caller, 'one')));
    expect(done).toHaveLength(1);
    expect(new Set(refused.map(({ code }) => code))).toEqual(new Set(['name_taken']));
    await settled(world);
    await becomesConsistent(world);
  });

  test(
    'run once per idempotency key, half with another body, also after a crash; another account runs its own',
    async () => {
      const world = await makeSizedWorld(await open(), machineOf(64, 128), cpus);
      const otherAccount = await world.account('stranger');
      for (let round = 0; round < Math.max(3, ROUNDS / 12); round++) {
        const key = `key-${round}`;
        const send = (caller: World['caller'], body: string): Promise<{ instanceId: string }> =>
          world.running.control.instances.launch(caller, world.of('cpu.1', { name: body }), keyed(key, body));
        const { done, refused } = await outcomesOf(
          Array.from({ length: 200 }, (_, index) => send(world.caller, index % 2 === 0 ? 'one' : 'other')),
        );
        expect([done.length, refused.length]).toEqual([100, 100]);
        expect(new Set(refused.map(({ code }) => code))).toEqual(new Set(['idempotency_mismatch']));
        const [first, ...others] = new Set(done.map(({ instanceId }) => instanceId));
        expect(others).toEqual([]);
        const { instanceSpecInfo } = await world.instance(first ?? '');
        await world.again();
        expect(await send(world.caller, instanceSpecInfo.name)).toMatchObject({ instanceId: first });
        const theirs = await send(otherAccount, 'other');
        expect(theirs.instanceId).not.toBe(first);
        for (const instanceId of [first ?? '', theirs.instanceId]) await world.until(instanceId, hasStatus('Running'));
      }
      const { length } = await world.store.read.selectFrom('instance').select('id').execute();
      expect(length).toBe(2 * Math.max(3, ROUNDS / 12));
      await becomesConsistent(world);
    },
    TIMEOUT_MS,
  );
});
