/** Parts that the verbs share. */
import type { EgressPolicies } from '../../domain/regions/egress.ts';
import type { InstanceId } from '../../domain/kernel/ids.ts';
import type { KubernetesEngineSettings } from '../../domain/regions/kubernetes-settings.ts';
import type { KeyedMutex } from '../../async/mutex.ts';
import type { Cluster } from '../../kubernetes/cluster.ts';
import type { NetworkPolicy, Node, Pod, StatefulSet } from '../../kubernetes/api-objects.ts';
import type { ObjectList } from '../../kubernetes/object-list.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import { notRunning } from './cluster-faults.ts';
import { isOwned, objectName, podName } from './manifests/object-names.ts';
import type { ClusterFeatures } from './manifests/pod-template.ts';
import type { PodChanges } from './state/pod-changes.ts';
import { isRunning } from './state/run-state.ts';

export interface ClusterLog {
  debug(facts: Record<string, unknown>, text: string): void;
}

/** Reads all nodes of the cluster, at most as old as that; default: a minute. */
export type NodeReader = (signal: AbortSignal, maxAgeMs?: number) => Promise<Node[]>;

export interface OwnedLists {
  sets: ObjectList<StatefulSet>;
  pods: ObjectList<Pod>;
  /** Rules of accounts. */
  policies: ObjectList<NetworkPolicy>;
}

export interface ClusterContext {
  cluster: Cluster;
  installation: string;
  settings: KubernetesEngineSettings;
  pods: PodChanges;
  features: (signal: AbortSignal) => Promise<ClusterFeatures>;
  /** Objects of the installation. */
  lists: OwnedLists;
  /** One change of an instance at a time. */
  instances: KeyedMutex<InstanceId>;
  /** One change of an account's NetworkPolicy at a time. */
  accounts: KeyedMutex<string>;
  /** Ranges closed to open egress. */
  closedRanges: (signal: AbortSignal) => Promise<readonly string[]>;
  /** Last policies of `setEgress`, null before the first, and the ranges that they close. */
  egress: { policies: EgressPolicies | null; closed?: string };
  /** Ports of the gateway at the peers of the region. */
  gatewayPorts: readonly number[];
  /** Monotonic milliseconds at which Berth first saw each Pod of a download, by uid. */
  pullersSince: ReadonlyMap<string, number>;
  log: ClusterLog;
  /** Aborts when the driver stops. */
  stopping: AbortSignal;
}

/** StatefulSet of the instance; null if absent or foreign. */
export async function ownSet(
  { cluster, installation }: Pick<ClusterContext, 'cluster' | 'installation'>,
  id: InstanceId,
  signal: AbortSignal,
): Promise<StatefulSet | null> {
  const set = await cluster.get(resources.statefulSets, objectName(id), signal);
  return isOwned(set?.metadata, installation, 'instance', id) ? set : null;
}

export async function ownPod(
  { cluster, installation }: Pick<ClusterContext, 'cluster' | 'installation'>,
  id: InstanceId,
  signal: AbortSignal,
): Promise<Pod | null> {
  const pod = await cluster.get(resources.pods, podName(id), signal);
  return isOwned(pod?.metadata, installation, 'instance', id) ? pod : null;
}

/** Fault `not_found` without a running Pod. */
export async function runningPod(context: ClusterContext, id: InstanceId, signal: AbortSignal): Promise<Pod> {
  const pod = await ownPod(context, id, signal);
  if (pod === null || !isRunning(pod)) throw notRunning();
  return pod;
}
