/** The disks that an instance has in the storage of its region, beside the volumes that it mounts. */
import type { InstanceId } from '../domain/ids.ts';
import type { Instance } from '../domain/instance.ts';
import type { DiskId } from '../storage/contract.ts';

export const dataDisk = (id: InstanceId): DiskId => ({ kind: 'data', id });

/** One of all the account's instances in a region. */
export const sharedDisk = ({ ownerId, spec }: Pick<Instance, 'ownerId' | 'spec'>): DiskId => ({
  kind: 'shared',
  id: `${ownerId}/${spec.regionId}`,
});
