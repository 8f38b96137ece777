/**
 * Disks: all that outlives a container. Each is a kind and an id, lies in a pool of its region, and has a size that is promised from
 * when it is asked for until nothing of it is left.
 */
import type { InstanceId, RegionId, UserId } from './ids.ts';
import type { Instance } from './instance.ts';
import type { PoolName } from './pool.ts';

export const diskKinds = ['volume', 'snapshot', 'data', 'shared', 'docker'] as const;
export type DiskKind = (typeof diskKinds)[number];

export interface DiskId {
  kind: DiskKind;
  /** Volume id, snapshot id, instance id, or `<userId>/<regionId>` of a shared folder. */
  id: string;
}

export interface Disk extends DiskId {
  regionId: RegionId;
  pool: PoolName;
  ownerId: UserId;
  /** Whole units of 2³⁰ bytes. */
  sizeGB: number;
  /** An instance's own was there once: one that is gone since is lost, and not made anew. Of volumes their status says it. */
  provisioned: boolean;
  /** As last measured. */
  usageBytes: number;
  /** The highest of `WARN_AT_PERCENT` that its owner was told of since it was below. */
  warnedPercent: number;
}

/** A folder or a file of a disk, by its path below the disk's own folder. */
export interface DiskEntry {
  path: string;
  bytes: number;
}

/** A disk of an instance that is all but full. */
export interface FullDisk {
  disk: 'root' | DiskKind;
  mountPath: string;
  percent: number;
  /** What takes most of it; empty while that is not known. */
  biggest: DiskEntry[];
}

/** What the disks of one instance hold, as last measured. */
export interface DiskUsage {
  rootBytes: number;
  dataBytes: number;
  dockerBytes: number;
  /** As a disk's own `warnedPercent`: the root disk lies in no pool, and has no row. */
  rootWarnedPercent: number;
  full: FullDisk[];
}

export const noUsage: DiskUsage = { rootBytes: 0, dataBytes: 0, dockerBytes: 0, rootWarnedPercent: 0, full: [] };

export const BYTES_PER_GB = 1024 ** 3;

/** As answers say it: to a thousandth. */
export const inGB = (bytes: number): number => Math.round((bytes / BYTES_PER_GB) * 1000) / 1000;

/** Of the account's own instances and of nobody else; found by the kind and the id alone. */
export const diskKey = ({ kind, id }: DiskId): string => `${kind}/${id}`;

export const dataDisk = (id: InstanceId): DiskId => ({ kind: 'data', id });

/** Holds what a Docker inside keeps: images, containers, its volumes. */
export const dockerDisk = (id: InstanceId): DiskId => ({ kind: 'docker', id });

/** One of all the account's instances in a region. */
export const sharedDisk = ({ ownerId, spec }: Pick<Instance, 'ownerId' | 'spec'>): DiskId => ({
  kind: 'shared',
  id: `${ownerId}/${spec.regionId}`,
});

/** Where an instance sees its own disks; of a Docker inside, where that keeps what it has. */
export const ownMountPaths: Readonly<Record<'data' | 'shared' | 'docker', string>> = {
  data: '/root/dataDisk',
  shared: '/root/sharedDisk',
  docker: '/var/lib/docker',
};

/** Of a Docker inside whose launch did not say how much. */
const DOCKER_GB = 20;

export const dockerDiskGB = ({ dockerStorageGB }: Instance['spec']): number => dockerStorageGB || DOCKER_GB;

export const dataDiskGB = ({ type, extraDataDiskGB }: Instance['spec']): number => type.dataDiskGB + extraDataDiskGB;

/** Disks that an instance brings with it, and how large each is to be; volumes are their own. */
export function ownDisks(
  instance: Pick<Instance, 'id' | 'ownerId' | 'spec'>,
  sharedGB: number,
): (DiskId & { sizeGB: number })[] {
  const { id, spec } = instance;
  return [
    { ...dataDisk(id), sizeGB: dataDiskGB(spec) },
    { ...sharedDisk(instance), sizeGB: sharedGB },
    ...(spec.enableDocker ? [{ ...dockerDisk(id), sizeGB: dockerDiskGB(spec) }] : []),
  ];
}
