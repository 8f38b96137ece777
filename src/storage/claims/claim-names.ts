/** Names, labels and annotations of the cluster's objects that are disks, or serve them. */
import type { ApiObject, ObjectMeta } from '../../kubernetes/api-objects.ts';
import { diskKey, type DiskId } from '../../domain/storage/disk.ts';
import { DISK_KEY, diskLabels, diskOfKey, objectName, type Owner } from '../disk-names.ts';

export { objectName, type Owner } from '../disk-names.ts';

/** Name of the Pod that serves the disk's files. */
export const filesPodName = (disk: DiskId): string => `${objectName(disk)}-files`;

/** Name of the snapshot that a copy is made from, until the copy is complete. */
export const copySourceName = (copy: DiskId): string => `${objectName(copy)}-from`;

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
  annotations: { [DISK_KEY]: diskKey(disk) },
});

export const installationSelector = (installation: string): string => `${diskLabels.installation}=${installation}`;

export const isOwned = ({ metadata }: ApiObject, { installation, pool }: Owner): boolean =>
  metadata?.labels?.[diskLabels.installation] === installation && metadata.labels[diskLabels.pool] === pool;

export const isFilesPod = ({ metadata }: ApiObject): boolean => metadata?.labels?.[diskLabels.kind] === 'files';

/** Null for an object that is no disk and serves none. */
export const diskOf = ({ metadata }: ApiObject): DiskId | null => diskOfKey(metadata?.annotations?.[DISK_KEY]);
