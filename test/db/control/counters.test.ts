/** Counters are exact at rest, after any order of actions and faults. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { makeRandomFaults } from '../../fixtures/seeded-random.ts';
import { atLevel } from '../../fixtures/level.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { becomesConsistent } from './consistency.ts';
import { makeWorld } from '../../fixtures/control.ts';

const operation = fc.record({
  what: fc.constantFrom('launch', 'launch', 'stop', 'start', 'restart', 'terminate', 'volume', 'unvolume', 'key'),
  owner: fc.nat(1),
  which: fc.nat(5),
  ports: fc.uniqueArray(fc.integer({ min: 1, max: 65_535 }), { maxLength: 3 }),
  script: fc.constantFrom(
    '',
    '',
    '# berth-sim: crash after 20ms exit 2',
    '# berth-sim: never ready',
    '# berth-sim: exit 1 after 10ms',
  ),
  waitMs: fc.integer({ min: 0, max: 12 }),
});

onBothEngines('counters', (open) => {
  test('stay exact after any mix of launches, actions, volumes and faults', async () => {
    const sound = await open();
    await fc.assert(
      fc.asyncProperty(fc.array(operation, { minLength: 5, maxLength: 25 }), fc.string(), async (operations, seed) => {
        const world = await shared(sound);
        world.engine.misbehave(
          makeRandomFaults({
            seed,
            rates: {
              ensure: troubles,
              halt: troubles,
              destroy: { failBefore: 0.1, failAfter: 0.1, halfway: 0.1 },
              observe: { failBefore: 0.1 },
              ensureImage: { failBefore: 0.2 },
            },
            ms: 20,
          }),
        );
        const launched: string[][] = [[], []];
        const volumes: string[][] = [[], []];
        const waiting: Promise<unknown>[] = [];
        for (const { what, owner, which, ports, script, waitMs } of operations) {
          const caller = world.callers[owner] ?? world.caller;
          const mine = launched[owner] ?? [];
          const { instances, volumes: storage } = world.running.control;
          const instanceId = mine[which % Math.max(1, mine.length)] ?? 'notebook-none';
          const volumeId = volumes[owner]?.[0];
          const remoteStorages =
            volumeId && which === 0
              ? [{ mountPath: '/root/v', remoteStorageName: 'v', remoteStorageId: volumeId, type: 'filesystem' }]
              : [];
          const act = (): Promise<unknown> => {
            switch (what) {
              case 'launch':
                return instances
                  .launch(
                    caller,
                    world.launchInput({
                      nodePorts: ports,
                      remoteStorages,
                      instanceConfiguration: { ...world.launchInput().instanceConfiguration, initScript: script },
                    }),
                    null,
                  )
                  .then((one) => mine.push(one.instanceId));
              case 'volume':
                return storage
                  .create(
                    caller,
                    { name: `v${which}`, sizeGB: 1, region: world.drivers.regionId, volumeType: 'filesystem' },
                    null,
                  )
                  .then(({ volumeText }) => volumes[owner]?.push(JSON.parse(volumeText).id));
              case 'unvolume':
                return storage.delete(caller, { id: volumeId ?? 'none' }, null);
              case 'key':
                return world.running.control.access.listSshKeys(caller);
              default:
                return instances[what](caller, { instanceId }, null);
            }
          };
          waiting.push(act().catch(expectRefusal));
          if (waitMs > 3) await new Promise((resolve) => setTimeout(resolve, waitMs));
        }
        await Promise.all(waiting);
        world.engine.misbehave(undefined);
        await becomesConsistent(world);
        for (const [owner, ids] of launched.entries()) {
          for (const instanceId of ids)
            await world.running.control.instances
              .terminate(world.callers[owner] ?? world.caller, { instanceId }, null)
              .catch(expectRefusal);
        }
        await becomesConsistent(world);
      }),
      { numRuns: atLevel({ short: 4, long: 16 }), endOnFailure: true },
    );
    const world = await shared(sound);
    expect(await world.engine.listOwned(AbortSignal.timeout(120_000))).toEqual([]);
  });
});

const troubles = { failBefore: 0.1, failAfter: 0.1, halfway: 0.1, slow: 0.1, late: 0.1, forgetful: 0.05 };

const expectRefusal = (error: { name?: string }): void => {
  if (error.name !== 'Refusal') throw error;
};

type Shared = Awaited<ReturnType<typeof makeWorld>> & {
  callers: Awaited<ReturnType<Awaited<ReturnType<typeof makeWorld>>['account']>>[];
};
const worlds = new WeakMap<object, Promise<Shared>>();

/** All runs on a store share a world, so the counters must be exact over all of them. */
function shared(store: Parameters<typeof makeWorld>[0]): Promise<Shared> {
  const made = async (): Promise<Shared> => {
    const world = await makeWorld(store, {
      limits: { maxAttempts: 3, readyDeadlineMs: 150 },
      nodePorts: { first: 30_000, last: 30_020 },
    });
    return Object.assign(world, { callers: [await world.account('anna'), await world.account('bert')] });
  };
  const cached = worlds.get(store) ?? made();
  worlds.set(store, cached);
  return cached;
}
