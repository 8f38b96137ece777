/** The storage as one life of the server reaches it: slowly, and not always. What it asks for must follow from what it has written down. */
import type { DiskId, Storage } from '../../src/storage/contract.ts';
import type { StorageCall } from './fate.ts';
import type { Life } from './life.ts';
import { nameOf } from './storage.ts';

export function watchedStorage(life: Life): Storage {
  const { world } = life;
  const { schedule, storage } = world;

  const ask = <T>(verb: StorageCall['verb'], about: string, deed: () => Promise<T>, unknown?: T): Promise<T> =>
    new Promise((resolve, reject) => {
      if (!life.step(`storage ${verb} ${about}`)) return;
      const mishap = world.storageMishap(verb, about);
      if (mishap) schedule.say(`… ${mishap.mode} ${mishap.ms}`);
      const answer = (deliver: () => void, ms = schedule.between(0, 3)): void =>
        void life.later(ms, () => {
          if (life.step(`storage ${verb} ${about} answers`)) deliver();
        });
      const broken = new Error(`the storage could not ${verb} ${about}`);
      // It reaches the storage even if the server dies now.
      schedule.later(schedule.between(0, 3), () => {
        if (mishap?.mode === 'failBefore') return answer(() => reject(broken));
        if (mishap?.mode === 'unknown' && unknown !== undefined) return answer(() => resolve(unknown));
        deed().then(
          (value) => {
            if (mishap?.mode === 'failAfter') answer(() => reject(broken));
            else answer(() => resolve(value), mishap?.mode === 'late' ? mishap.ms : undefined);
          },
          (error: unknown) => answer(() => reject(error)),
        );
      });
    });

  return {
    capabilities: () => storage.capabilities(),
    create: (disk, sizeGB) => ask('create', nameOf(disk), () => storage.create(disk, sizeGB)),
    mount: (disk) => ask('mount', nameOf(disk), () => storage.mount(disk)),
    observe: (disk) =>
      ask('observe', nameOf(disk), () => storage.observe(disk), { kind: 'unknown', reason: 'it does not answer' }),
    usage: (disk, signal) => ask('usage', nameOf(disk), () => storage.usage(disk, signal)),
    destroy(disk) {
      world.intents.mayDestroyDisk(disk);
      return ask('destroy', nameOf(disk), () => storage.destroy(disk));
    },
    listOwned: (): Promise<DiskId[]> => storage.listOwned(),
  };
}
