/** What the settings of a cluster's region reach, against a stand-in for the API server. */
import { expect, test } from 'vitest';
import type { DiskId } from '../../../src/domain/storage/disk.ts';
import { kubernetesDrivers } from '../../../src/main/kubernetes-region.ts';
import { claimManifest } from '../../../src/storage/claims/claim-manifests.ts';
import { startApiServer } from '../../fixtures/api-server.ts';

test('the Pod for files runs on nodes of instances: a volume that is made for it is bound there', async () => {
  const disk: DiskId = { kind: 'volume', id: '3f2b8c1e-5d4a-4b6f-9c7e-1a2b3c4d5e6f' };
  const claims = {
    storageClass: 'fast',
    accessMode: 'ReadWriteOnce' as const,
    sizeLimit: 'hard' as const,
    filesImage: 'busybox:1.37',
  };
  const claim = claimManifest({ installation: 'i-1', pool: 'default', ...claims }, disk, 5);
  const { url, calls } = await startApiServer({
    answer({ method, path, body }) {
      if (path.includes('/storageclasses/'))
        return { body: { provisioner: 'p', volumeBindingMode: 'WaitForFirstConsumer' } };
      if (path.includes('/persistentvolumeclaims/')) return { body: claim };
      if (method === 'POST') return { body };
      return path.endsWith('-files') ? { status: 404 } : { body: { items: [] } };
    },
  });
  const nodeSelector = { pool: 'berth' };
  const tolerations = [{ key: 'berth', operator: 'Exists' as const }];
  const { engine, pools } = await kubernetesDrivers({
    installation: 'i-1',
    settings: {
      login: 'token',
      apiUrl: url,
      namespace: 'berth',
      reach: 'podAddress',
      networkPolicies: true,
      userNamespaces: false,
      nodeSelector,
      tolerations,
    },
    pools: [{ name: 'default', sizeGB: 100, claims }],
    gatewayPorts: [],
    rulesOf: ({ name, sizeGB }) => ({
      name,
      sizeGB,
      overcommit: 1,
      diskOvercommit: 1,
      accountShare: 1,
      space: null,
      unwrittenBytes: 0,
    }),
    secret: 'token',
    log: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
  });
  const files = await pools[0]?.storage.files(disk);
  const leaving = new AbortController();
  const listed = files?.list('', { limit: 10, after: null }, leaving.signal);
  listed?.catch(() => {});
  const made = () => calls.find(({ method, path }) => method === 'POST' && path.endsWith('/pods'))?.body;
  await expect.poll(made).toMatchObject({ spec: { nodeSelector, tolerations } });
  leaving.abort();
  await engine.stop();
});
