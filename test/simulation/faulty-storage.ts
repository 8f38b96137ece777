/**
 * Storage from the view of one server run: slow and unreliable. Calls must follow from committed
 * rows.
 */
import type { DiskId } from '../../src/domain/storage/disk.ts';
import { StorageFault, type Storage } from '../../src/storage/contract.ts';
import type { StorageCall } from './call-outcomes.ts';
import type { ServerRun } from './server-run.ts';
import type { SimulatedRegion } from './simulated-region.ts';
import { nameOf } from './storage.ts';

/** Of the client of a cluster, for verbs without a signal. */
const CLIENT_DEADLINE_MS = 30_000;

export function faultyStorage(life: ServerRun, region: SimulatedRegion): Storage {
  const { world } = life;
  const { schedule } = world;
  const { storage, preconditions } = region;

  /** Calls the storage unless the region is lost. */
  const reach = <T>(fn: () => Promise<T>, signal?: AbortSignal): Promise<T> => {
    if (region.lost === null) return fn();
    return new Promise((_, reject) => {
      const afterMs = region.lost === 'silent' ? CLIENT_DEADLINE_MS : schedule.between(0, 3);
      life.later(afterMs, () => reject(new Error(`the storage of ${region.region.name} does not answer`)));
      signal?.addEventListener('abort', () => reject(signal.reason), { once: true });
    });
  };

  /** Sometimes full: then the created object fails permanently. */
  const refusal = (verb: StorageCall['verb'], about: string): Error =>
    (verb === 'create' || verb === 'grow') && schedule.chance(0.4)
      ? new StorageFault('full', `no room to ${verb} ${about}`)
      : new Error(`the storage could not ${verb} ${about}`);

  const ask = <T>(verb: StorageCall['verb'], about: string, fn: () => Promise<T>, unknown?: T): Promise<T> =>
    new Promise((resolve, reject) => {
      if (!life.step(`storage ${verb} ${about}`)) return;
      preconditions.mayAskStorage(verb, about);
      const mishap = world.nextStorageFault(verb, about);
      if (mishap) schedule.say(`… ${mishap.mode} ${mishap.ms}`);
      const answer = (deliver: () => void, ms = schedule.between(0, 3)): void =>
        void life.later(ms, () => {
          if (life.step(`storage ${verb} ${about} answers`)) deliver();
        });
      const broken = new Error(`the storage could not ${verb} ${about}`);
      // Reaches the storage even after a kill.
      schedule.later(schedule.between(0, 3), () => {
        if (mishap?.mode === 'failBefore') return answer(() => reject(refusal(verb, about)));
        if (mishap?.mode === 'unknown' && unknown !== undefined) return answer(() => resolve(unknown));
        reach(fn).then(
          (value) => {
            if (mishap?.mode === 'failAfter') answer(() => reject(broken));
            else answer(() => resolve(value), mishap?.mode === 'late' ? mishap.ms : undefined);
          },
          (error: unknown) => answer(() => reject(error)),
        );
      });
    });

  /** Takes time. An abort ends the copy, a kill leaves an incomplete one. */
  async function copying(disk: DiskId, signal: AbortSignal): Promise<void> {
    storage.begun.add(nameOf(disk));
    await new Promise<void>((resolve) => {
      schedule.later(schedule.spread(1, 3_000), () => life.alive && resolve());
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    if (!signal.aborted) return;
    storage.begun.delete(nameOf(disk));
    throw signal.reason;
  }

  return {
    capabilities: () => storage.capabilities(),
    create(disk, sizeGB, signal, from) {
      preconditions.mayCreateDisk(disk);
      if (from === undefined) return ask('create', nameOf(disk), () => storage.create(disk, sizeGB, signal));
      return ask('create', nameOf(disk), async () => {
        await copying(disk, signal);
        return storage.create(disk, sizeGB, signal, from);
      });
    },
    grow: (disk, sizeGB) => ask('grow', nameOf(disk), () => storage.grow(disk, sizeGB)),
    unmount(disk) {
      preconditions.mayUnmount(disk);
      return ask('unmount', nameOf(disk), () => storage.unmount(disk));
    },
    mount: (disk) => ask('mount', nameOf(disk), () => storage.mount(disk)),
    files: (disk) => ask('mount', nameOf(disk), () => storage.files(disk)),
    observe: (disk) =>
      ask('observe', nameOf(disk), () => storage.observe(disk), { kind: 'unknown', reason: 'it does not answer' }),
    usage: (disk, signal) => ask('usage', nameOf(disk), () => storage.usage(disk, signal)),
    allocation: (disk) => reach(() => storage.allocation(disk)),
    largestEntries: (disk, signal) => reach(() => storage.largestEntries(disk, signal), signal),
    destroy(disk) {
      preconditions.mayDestroyDisk(disk);
      return ask('destroy', nameOf(disk), () => storage.destroy(disk));
    },
    listOwned: () =>
      region.looked(
        'listDisks',
        reach(() => storage.listOwned()),
      ),
    listMounted: () =>
      region.looked(
        'listMounted',
        reach(() => storage.listMounted()),
      ),
    space: () =>
      region.looked(
        'space',
        reach(() => storage.space()),
      ),
  };
}
