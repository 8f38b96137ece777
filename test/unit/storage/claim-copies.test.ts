/** Copies of claims, against a stand-in for the API server that keeps objects. */
import { expect, test } from 'vitest';
import { startApiServer, refusal } from '../../fixtures/api-server.ts';
import { StorageFault } from '../../../src/storage/contract.ts';
import { makeClaimCopies } from '../../../src/storage/claims/claim-copies.ts';
import type { ClaimClass } from '../../../src/storage/claims/claim-manifests.ts';

const at: ClaimClass = { installation: 'ours', pool: 'default', storageClass: 'slow', accessMode: 'ReadWriteOnce' };
const volume = { kind: 'volume', id: 'vol-copy' } as const;
const snapshot = { kind: 'snapshot', id: 'snap-1' } as const;
const owned = { 'berth.installation': 'ours', 'berth.pool': 'default' };

/** The driver makes the volume of a claim when the test says so; each look at it takes `lookMs`. */
async function fixture({ lookMs }: { lookMs: number }) {
  const objects = new Map<string, Record<string, unknown>>();
  const { cluster, calls } = await startApiServer({
    answer({ method, path, body }) {
      if (method === 'POST') {
        const object = body as { metadata: { name: string } };
        const name = `${path}/${object.metadata.name}`;
        if (objects.has(name)) return refusal(409, 'AlreadyExists', 'it exists');
        objects.set(name, object);
        return { body: object };
      }
      const found = objects.get(path);
      if (method === 'DELETE') objects.delete(path);
      return found ? { body: found } : refusal(404, 'NotFound', 'gone');
    },
  });
  const name = '/apis/snapshot.storage.k8s.io/v1/namespaces/berth/volumesnapshots/berth-snapshot-snap-1';
  objects.set(name, { metadata: { name: 'berth-snapshot-snap-1', labels: owned }, status: { readyToUse: true } });
  let nowMs = 0;
  const copies = makeClaimCopies({
    cluster,
    claimClass: at,
    facts: { read: async () => ({ bindsAtUse: false, snapshotClass: 'snaps' }) },
    pods: { start: async () => {}, end: async () => {}, untilGone: async () => {} },
    elapsed: () => (nowMs += lookMs),
  });
  const named = (plural: string): string[] => [...objects.keys()].filter((name) => name.includes(`/${plural}/`));
  return { copies, calls, objects, named };
}

test('a copy that its driver makes slowly is waited for again, and not begun again', async () => {
  const { copies, calls, objects, named } = await fixture({ lookMs: 10_000 });
  const copy = () => copies.copy(volume, 1, snapshot, AbortSignal.timeout(30_000));
  await expect(copy()).rejects.toMatchObject({ kind: 'away', message: expect.stringContaining('Berth retries') });
  const [claim = ''] = named('persistentvolumeclaims');
  expect(named('persistentvolumeclaims'), 'the claim stays, and its driver goes on').toHaveLength(1);
  objects.set(claim, { ...objects.get(claim), status: { phase: 'Bound' } });
  await copy();
  expect(calls.filter(({ method }) => method === 'DELETE')).toEqual([]);
});

test('a copy that fails or is aborted leaves no claim', async () => {
  const { copies, named } = await fixture({ lookMs: 0 });
  const aborting = new AbortController();
  const copying = copies.copy(volume, 1, snapshot, aborting.signal);
  await expect.poll(() => named('persistentvolumeclaims')).toHaveLength(1);
  aborting.abort();
  await expect(copying).rejects.not.toBeInstanceOf(StorageFault);
  expect(named('persistentvolumeclaims')).toEqual([]);
});
