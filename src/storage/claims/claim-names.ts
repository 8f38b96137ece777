/** Names, labels and annotations of the cluster's objects that are disks, or serve them. */
import { createHash } from 'node:crypto';
import type { ApiObject, ObjectMeta } from '../../kubernetes/api-objects.ts';
import { diskKey, diskKinds, isDiskId, type DiskId } from '../../domain/disk.ts';
import { requireDiskId } from '../layout.ts';

export const diskLabels = {
  installation: 'berth.installation',
  /** Kind of the disk, or `files` for a Pod that serves its files. */
  kind: 'berth.kind',
  id: 'berth.id',
  pool: 'berth.pool',
} as const;

/** The disk's key: label values may not have slashes. */
const DISK = 'berth.disk';

/** Leaves room for the endings below: a Pod's host name has at most 63 characters. */
const MAX_NAME = 56;
const PLAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const HASH_LENGTH = 10;

/** The id where it fits a name of the cluster, else a readable part of it with its hash. */
export function objectName(disk: DiskId): string {
  requireDiskId(disk);
  const plain = `berth-${disk.kind}-${disk.id}`;
  if (PLAIN.test(disk.id) && plain.length <= MAX_NAME) return plain;
  const hash = createHash('sha256').update(disk.id).digest('hex').slice(0, HASH_LENGTH);
  const readable = disk.id.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-');
  return `${`berth-${disk.kind}-${readable}`.slice(0, MAX_NAME - HASH_LENGTH - 1).replace(/-+$/, '')}-${hash}`;
}

/** Name of the Pod that serves the disk's files. */
export const filesPodName = (disk: DiskId): string => `${objectName(disk)}-files`;

/** Name of the snapshot that a copy is made from, until the copy is complete. */
export const copySourceName = (copy: DiskId): string => `${objectName(copy)}-from`;

export interface Owner {
  installation: string;
  pool: string;
}

export const diskMeta = (
  { installation, pool }: Owner,
  disk: DiskId,
  name: string,
  kind: string = disk.kind,
): ObjectMeta => ({
  name,
  labels: {
    [diskLabels.installation]: installation,
    [diskLabels.kind]: kind,
    [diskLabels.id]: objectName(disk),
    [diskLabels.pool]: pool,
  },
  annotations: { [DISK]: diskKey(disk) },
});

export const installationSelector = (installation: string): string => `${diskLabels.installation}=${installation}`;

export const isOwned = ({ metadata }: ApiObject, { installation, pool }: Owner): boolean =>
  metadata?.labels?.[diskLabels.installation] === installation && metadata.labels[diskLabels.pool] === pool;

export const isFilesPod = ({ metadata }: ApiObject): boolean => metadata?.labels?.[diskLabels.kind] === 'files';

/** Null for an object that is no disk and serves none. */
export function diskOf({ metadata }: ApiObject): DiskId | null {
  const [kindText = '', ...rest] = (metadata?.annotations?.[DISK] ?? '').split('/');
  const kind = diskKinds.find((known) => known === kindText);
  const disk = kind && { kind, id: rest.join('/') };
  return disk && isDiskId(disk) ? disk : null;
}
