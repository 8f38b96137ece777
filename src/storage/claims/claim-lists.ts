/** Lists of the installation's objects in a cluster, shared by all pools of a region. */
import type { ApiObject, PersistentVolumeClaim, Pod, VolumeSnapshot } from '../../kubernetes/api-objects.ts';
import { resources, type Resource } from '../../kubernetes/api-resources.ts';
import type { Cluster } from '../../kubernetes/cluster.ts';
import { makeObjectList, type ObjectList } from '../../kubernetes/object-list.ts';
import { installationSelector } from './claim-names.ts';

export interface ClaimLists {
  claims: ObjectList<PersistentVolumeClaim>;
  /** Fails where the cluster has no such resource. */
  snapshots: ObjectList<VolumeSnapshot>;
  /** Pods of instances, and those that serve files. */
  pods: ObjectList<Pod>;
}

export function makeClaimLists(
  cluster: Pick<Cluster, 'list' | 'watch'>,
  installation: string,
  elapsed?: () => number,
): ClaimLists {
  const labelSelector = installationSelector(installation);
  const listOf = <T extends ApiObject>(resource: Resource<T>): ObjectList<T> =>
    makeObjectList({ cluster, resource, labelSelector, elapsed });
  return { claims: listOf(resources.claims), snapshots: listOf(resources.snapshots), pods: listOf(resources.pods) };
}
