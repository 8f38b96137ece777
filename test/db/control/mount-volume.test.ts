/** A request for files mounts its volume when the disk's turn comes, and is told to come again when that is far away. */
import { expect, test } from 'vitest';
import { withDiskMutex } from '../../../src/control/volumes/disk-mutex.ts';
import { makeMountVolume } from '../../../src/control/volumes/mount-volume.ts';
import { regionId, volumeId } from '../../../src/domain/ids.ts';
import type { Storage } from '../../../src/storage/contract.ts';

const volume = { id: volumeId('v'), regionId: regionId('r') };
const disk = { kind: 'volume', id: volume.id } as const;
const never = new AbortController().signal;

function room() {
  const late = new AbortController();
  const did: string[] = [];
  const storage: Pick<Storage, 'mount'> = {
    async mount({ id }) {
      did.push('mount');
      return `/disks/${id}/files`;
    },
  };
  const located = { ...disk, storage: storage as Storage };
  const mount = makeMountVolume({ locate: async () => located, time: { deadline: () => late.signal } });
  return { mount, did, late, before: (deed: () => Promise<void>) => withDiskMutex(located.storage, disk, deed, never) };
}

test('it comes after what is being done with the disk', async () => {
  const { mount, did, before } = room();
  const { promise, resolve } = Promise.withResolvers<void>();
  const grow = before(() => promise.then(() => void did.push('grow')));
  const mounted = mount(volume, never);
  resolve();
  expect(await mounted).toBe('/disks/v/files');
  await grow;
  expect(did).toEqual(['grow', 'mount']);
});

test('when that lasts too long it is refused with when to come again, and mounts nothing later', async () => {
  const { mount, did, late, before } = room();
  const { promise, resolve } = Promise.withResolvers<void>();
  const copy = before(() => promise);
  const mounted = mount(volume, never);
  late.abort(new Error('too late'));
  await expect(mounted).rejects.toMatchObject({ code: 'unavailable', retryAfterS: 5 });
  resolve();
  await copy;
  await before(async () => void did.push('next'));
  expect(did).toEqual(['next']);
});

test('who is cut off while it waits is told why', async () => {
  const { mount, before } = room();
  const { promise, resolve } = Promise.withResolvers<void>();
  const copy = before(() => promise);
  const cut = new AbortController();
  const mounted = mount(volume, cut.signal);
  cut.abort(new Error('it is being deleted'));
  await expect(mounted).rejects.toThrow('it is being deleted');
  resolve();
  await copy;
});
