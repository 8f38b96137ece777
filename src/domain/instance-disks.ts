/** An instance's own disks: data, the account's shared folder, Docker's data root. */
import type { DiskId } from './disk.ts';
import type { InstanceId } from './ids.ts';
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
