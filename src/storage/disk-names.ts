/** Names and labels of objects of an engine or a cluster that are disks, or serve them. */
import { createHash } from 'node:crypto';
import { diskKinds, isDiskId, type DiskId } from '../domain/storage/disk.ts';
import { requireDiskId } from './layout.ts';

export const diskLabels = {
  installation: 'berth.installation',
  /** Kind of the disk, or `files` for what serves its files. */
  kind: 'berth.kind',
  id: 'berth.id',
  pool: 'berth.pool',
} as const;

/** The disk's key: an annotation in a cluster, whose label values may not have slashes. */
export const DISK_KEY = 'berth.disk';

/** Leaves room for the endings below: the host name of a Pod has at most 63 characters. */
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

export interface Owner {
  installation: string;
  pool: string;
}

/** Null for an object that is no disk and serves none. */
export function diskOfKey(key: string | undefined): DiskId | null {
  const [kindText = '', ...rest] = (key ?? '').split('/');
  const kind = diskKinds.find((known) => known === kindText);
  const disk = kind && { kind, id: rest.join('/') };
  return disk && isDiskId(disk) ? disk : null;
}
