/** Resources that Berth uses, each with its place in the API. */
import type {
  ApiObject,
  ClusterEvent,
  DeviceClass,
  DisruptionBudget,
  Namespace,
  NetworkPolicy,
  Node,
  PersistentVolume,
  PersistentVolumeClaim,
  Pod,
  PodMetrics,
  ResourceClaimTemplate,
  ResourceQuota,
  ResourceSlice,
  RulesReview,
  Secret,
  Service,
  StatefulSet,
  StorageClass,
  VolumeSnapshot,
  VolumeSnapshotClass,
} from './api-objects.ts';

export interface Resource<T extends ApiObject> {
  /** `v1`, or group and version. */
  apiVersion: string;
  kind: string;
  plural: string;
  namespaced: boolean;
  /** Carries the type alone. */
  readonly object?: T;
}

const define = <T extends ApiObject>(
  apiVersion: string,
  kind: string,
  plural: string,
  namespaced = true,
): Resource<T> => ({ apiVersion, kind, plural, namespaced });

export const resources = {
  pods: define<Pod>('v1', 'Pod', 'pods'),
  services: define<Service>('v1', 'Service', 'services'),
  secrets: define<Secret>('v1', 'Secret', 'secrets'),
  events: define<ClusterEvent>('v1', 'Event', 'events'),
  claims: define<PersistentVolumeClaim>('v1', 'PersistentVolumeClaim', 'persistentvolumeclaims'),
  volumes: define<PersistentVolume>('v1', 'PersistentVolume', 'persistentvolumes', false),
  quotas: define<ResourceQuota>('v1', 'ResourceQuota', 'resourcequotas'),
  nodes: define<Node>('v1', 'Node', 'nodes', false),
  namespaces: define<Namespace>('v1', 'Namespace', 'namespaces', false),
  statefulSets: define<StatefulSet>('apps/v1', 'StatefulSet', 'statefulsets'),
  networkPolicies: define<NetworkPolicy>('networking.k8s.io/v1', 'NetworkPolicy', 'networkpolicies'),
  disruptionBudgets: define<DisruptionBudget>('policy/v1', 'PodDisruptionBudget', 'poddisruptionbudgets'),
  storageClasses: define<StorageClass>('storage.k8s.io/v1', 'StorageClass', 'storageclasses', false),
  snapshots: define<VolumeSnapshot>('snapshot.storage.k8s.io/v1', 'VolumeSnapshot', 'volumesnapshots'),
  snapshotClasses: define<VolumeSnapshotClass>(
    'snapshot.storage.k8s.io/v1',
    'VolumeSnapshotClass',
    'volumesnapshotclasses',
    false,
  ),
  podMetrics: define<PodMetrics>('metrics.k8s.io/v1beta1', 'PodMetrics', 'pods'),
  deviceClasses: define<DeviceClass>('resource.k8s.io/v1', 'DeviceClass', 'deviceclasses', false),
  resourceSlices: define<ResourceSlice>('resource.k8s.io/v1', 'ResourceSlice', 'resourceslices', false),
  claimTemplates: define<ResourceClaimTemplate>(
    'resource.k8s.io/v1',
    'ResourceClaimTemplate',
    'resourceclaimtemplates',
  ),
  rulesReviews: define<RulesReview>(
    'authorization.k8s.io/v1',
    'SelfSubjectRulesReview',
    'selfsubjectrulesreviews',
    false,
  ),
} as const;

/** Path of a collection, or of one object and its subresource. */
export function pathOf(
  { apiVersion, plural, namespaced }: Resource<ApiObject>,
  namespace: string,
  ...rest: readonly string[]
): string {
  const root = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  const within = namespaced ? ['namespaces', namespace] : [];
  return [root, ...[...within, plural, ...rest].map(encodeURIComponent)].join('/');
}
