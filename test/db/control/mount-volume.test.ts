/** Mounting a volume for a request waits for the disk's mutex, and is refused after too long. */
import { expect, test } from 'vitest';
import { withDiskMutex } from '../../../src/control/volumes/disks.ts';
import { makeMountVolume } from '../../../src/control/volumes/mounts.ts';
import { regionId, volumeId } from '../../../src/domain/ids.ts';
import type { Storage } from '../../../src/storage/contract.ts';

const volume = { id: volumeId('v'), regionId: regionId('r') };
const disk = { kind: 'volume', id: volume.id } as const;
const never = new AbortController().signal;

function fixture() {
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
  return { mount, did, late, before: (fn: () => Promise<void>) => withDiskMutex(located, fn, never) };
}

test("mounts after the operation that holds the disk's mutex", async () => {
  const { mount, did, before } = fixture();
  const { promise, resolve } = Promise.withResolvers<void>();
  const grow = before(() => promise.then(() => void did.push('grow')));
  const mounted = mount(volume, never);
  resolve();
  expect(await mounted).toBe('/disks/v/files');
  await grow;
  expect(did).toEqual(['grow', 'mount']);
});

test('refuses with a retry time when the mutex is held too long, and mounts nothing later', async () => {
  const { mount, did, late, before } = fixture();
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

test("rejects with the abort's reason while waiting", async () => {
  const { mount, before } = fixture();
  const { promise, resolve } = Promise.withResolvers<void>();
  const copy = before(() => promise);
  const cut = new AbortController();
  const mounted = mount(volume, cut.signal);
  cut.abort(new Error('it is being deleted'));
  await expect(mounted).rejects.toThrow('it is being deleted');
  resolve();
  await copy;
});
