/** An instance's own disks: data, the account's shared folder, Docker's data root. */
import { bestEffort, type CountedSpace, type DiskId } from '../storage/disk.ts';
import type { InstanceId } from '../kernel/ids.ts';
import type { Instance } from './instance.ts';

export const dataDisk = (id: InstanceId): DiskId => ({ kind: 'data', id });

/** The data root of Docker inside the instance. */
export const dockerDisk = (id: InstanceId): DiskId => ({ kind: 'docker', id });

export const sharedDisk = ({ ownerId, spec }: Pick<Instance, 'ownerId' | 'spec'>): DiskId => ({
  kind: 'shared',
  id: `${ownerId}/${spec.regionId}`,
});

export const ownMountPaths: Readonly<Record<'data' | 'shared' | 'docker', string>> = {
  data: '/root/dataDisk',
  shared: '/root/sharedDisk',
  docker: '/var/lib/docker',
};

const DOCKER_GB = 20;

export const dockerDiskGB = ({ dockerStorageGB }: Instance['spec']): number => dockerStorageGB || DOCKER_GB;

export const dataDiskGB = ({ type, extraDataDiskGB }: Instance['spec']): number => type.dataDiskGB + extraDataDiskGB;

/**
 * GB beyond the type's data disk, negative below. Null: the request has both sizes, which exclude
 * each other.
 */
export function requestedExtraGB(
  type: Pick<Instance['spec']['type'], 'dataDiskGB'>,
  {
    dataDiskGB: totalGB,
    extraDataDiskSizeDB: extraGB,
  }: { dataDiskGB?: number | undefined; extraDataDiskSizeDB: number },
): number | null {
  if (totalGB === undefined) return extraGB;
  return extraGB === 0 ? totalGB - type.dataDiskGB : null;
}

/** Largest data disk that counts at most `freeGB` with its root disk; 0 if none does. */
export function largestDataDiskGB(
  { rootDiskGB, dataDiskGB: typeGB }: Pick<Instance['spec']['type'], 'rootDiskGB' | 'dataDiskGB'>,
  freeGB: number,
  diskOvercommit: number,
): number {
  const promisedGB = Math.floor(freeGB - rootDiskGB / diskOvercommit);
  return promisedGB > typeGB
    ? promisedGB
    : Math.max(0, Math.min(typeGB, Math.floor(freeGB * diskOvercommit - rootDiskGB)));
}

type OwnDisk = DiskId & CountedSpace & { sizeGB: number };

/**
 * Best effort, except a data disk that was asked to be larger than its type's. `sharedGB`: null in
 * a region without shared folders.
 */
export function ownDisks(instance: Pick<Instance, 'id' | 'ownerId' | 'spec'>, sharedGB: number | null): OwnDisk[] {
  const { id, spec } = instance;
  const { rootDiskGB } = spec.type;
  const dataGB = dataDiskGB(spec);
  const data =
    spec.extraDataDiskGB > 0
      ? { sizeGB: dataGB, promisedGB: dataGB, bestEffortGB: rootDiskGB }
      : { sizeGB: dataGB, promisedGB: 0, bestEffortGB: dataGB + rootDiskGB };
  return [
    { ...dataDisk(id), ...data },
    ...(sharedGB === null ? [] : [{ ...sharedDisk(instance), ...bestEffort(sharedGB) }]),
    ...(spec.enableDocker ? [{ ...dockerDisk(id), ...bestEffort(dockerDiskGB(spec)) }] : []),
  ];
}
