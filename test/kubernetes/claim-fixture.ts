/** Storages of claims in a real cluster, with Pods that mount disks as instances do. */
import { randomUUID } from 'node:crypto';
import { buffer, text } from 'node:stream/consumers';
import { expect, onTestFinished } from 'vitest';
import type { DiskId } from '../../src/domain/storage/disk.ts';
import type { Pod } from '../../src/kubernetes/api-objects.ts';
import { resources } from '../../src/kubernetes/api-resources.ts';
import type { Cluster } from '../../src/kubernetes/cluster.ts';
import type { Storage } from '../../src/storage/contract.ts';
import { makeClaimStorage, type ClaimOptions } from '../../src/storage/claims/claims.ts';
import { objectName } from '../../src/storage/claims/claim-names.ts';
import { soon, type StorageFixture } from '../conformance/storage.ts';

export const image = 'berth.test/busybox:1';

/** For instances and for access to files. */
export const applets =
  'sh awk cat chmod cut date dd df du echo find grep head ln ls mkdir mv readlink rm rmdir sha256sum sleep stat sync touch tr truncate xargs ['.split(
    ' ',
  );

export interface ClaimFixture extends StorageFixture {
  options: ClaimOptions;
  /** Ends the instance that mounts the disk. */
  leave(disk: DiskId): Promise<void>;
  /** The storage as it is, without `leave` before `destroy`. */
  bare: Storage;
}

export function makeClaimFixture(cluster: Cluster, more: Partial<ClaimOptions> = {}): ClaimFixture {
  const options: ClaimOptions = {
    cluster,
    installation: randomUUID(),
    pool: 'default',
    storageClass: 'disk',
    accessMode: 'ReadWriteOnce',
    sizeGB: 100,
    sizeLimit: 'hard',
    dockerInside: true,
    filesImage: image,
    usageAgeMs: 500,
    ...more,
  };
  const bare = makeClaimStorage(options);
  const podNames = new Set<string>();

  async function leave(disk: DiskId): Promise<void> {
    const name = instanceName(disk);
    if (!podNames.delete(name)) return;
    await cluster.remove(resources.pods, name, soon());
    await expect.poll(() => cluster.get(resources.pods, name, soon()), { timeout: 30_000 }).toBeNull();
  }

  async function ensureInstance(disk: DiskId): Promise<string> {
    const name = instanceName(disk);
    if (podNames.has(name)) return name;
    await cluster.create(resources.pods, instancePod(options.installation, disk, await bare.mount(disk)), soon());
    podNames.add(name);
    const isRunning = async () => (await cluster.get(resources.pods, name, soon()))?.status?.phase;
    await expect.poll(isRunning, { timeout: 60_000 }).toBe('Running');
    return name;
  }

  async function destroyAll(): Promise<void> {
    for (const disk of await bare.listOwned()) {
      await leave(disk);
      await bare.destroy(disk);
    }
  }
  onTestFinished(destroyAll);

  return {
    options,
    bare,
    leave,
    storage: {
      ...bare,
      async destroy(disk) {
        await leave(disk);
        await bare.destroy(disk);
      },
    },
    inside: async (disk, script) => commandIn(cluster, await ensureInstance(disk), script),
  };
}

export async function commandIn(cluster: Cluster, pod: string, script: string): Promise<string> {
  const command = ['sh', '-c', `cd /disk && ${script}`];
  const exec = await cluster.exec(pod, { container: 'main', command }, soon());
  exec.stdin.end();
  const [stdout, stderr, code] = await Promise.all([buffer(exec.stdout), text(exec.stderr), exec.exited]);
  if (code !== 0) throw new Error(`${script} ended with ${code}: ${stderr}`);
  return stdout.toString();
}

const instanceName = (disk: DiskId): string => `${objectName(disk)}-i`;

export const instancePod = (installation: string, disk: DiskId, claimName: string): Pod => ({
  metadata: {
    name: instanceName(disk),
    labels: { 'berth.installation': installation, 'berth.kind': 'instance' },
  },
  spec: {
    terminationGracePeriodSeconds: 1,
    containers: [
      {
        name: 'main',
        image,
        command: ['sh', '-c', 'trap exit TERM; sleep 3600 & wait'],
        volumeMounts: [{ name: 'disk', mountPath: '/disk' }],
      },
    ],
    volumes: [{ name: 'disk', persistentVolumeClaim: { claimName } }],
  },
});
