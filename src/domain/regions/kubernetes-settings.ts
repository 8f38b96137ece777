/** Settings of a region that is a Kubernetes cluster. Its secret is stored apart, sealed. */
import type { GpuSlice } from './catalog.ts';
import type { NodePlacement } from './node-placement.ts';

/** Source of connections that reach instances, such as the gateway: a range or a namespace. */
export interface ClusterPeer {
  /** Either a range, or a namespace. */
  cidr?: string | undefined;
  namespace?: string | undefined;
}

export interface KubernetesEngineSettings extends NodePlacement {
  /**
   * `token`: the secret is a bearer token for `apiUrl`. `kubeconfig`: the secret is the text of the
   * file. `inCluster`: the service account of the Pod that Berth runs in.
   */
  login: 'token' | 'kubeconfig' | 'inCluster';
  apiUrl?: string | undefined;
  /** Authority of the API server in PEM; absent: those of the system. */
  ca?: string | undefined;
  /** All objects of the region are in this namespace, which exists. */
  namespace: string;
  /** Way to ports of instances. `podAddress` needs a route to the addresses of Pods. */
  reach: 'podAddress' | 'portForward';
  /** Whether the network of the cluster enforces NetworkPolicies. */
  networkPolicies: boolean;
  /** Ranges of the addresses of Pods: node ports are closed to them. */
  podRanges?: string[] | undefined;
  /**
   * Ranges that open egress does not reach, besides link-local addresses, `podRanges` and nodes;
   * absent: private ranges.
   */
  closedRanges?: string[] | undefined;
  /** Besides the instances of its account, those that may connect to an instance. */
  peers?: ClusterPeer[] | undefined;
  /** Runs root inside as an unprivileged id of the node; the nodes must support it. */
  userNamespaces: boolean;
  /** Processors of instances over those of their nodes that they hold. Default: 1. */
  cpuOvercommit?: number | undefined;
  /** GPUs as extended resources. Without them and `deviceClaims` instances have no GPUs. */
  gpus?: GpusOfCluster | undefined;
  /** GPUs by Dynamic Resource Allocation, instead of `gpus`. */
  deviceClaims?: DeviceClaim[] | undefined;
  /** PriorityClasses of instances; absent: the cluster's default. */
  priorityClass?: string | undefined;
  spotPriorityClass?: string | undefined;
  /** Time between the notice and the end of a preempted spot instance. */
  preemptionGraceSeconds?: number | undefined;
  /** RuntimeClasses that instance types may name. */
  runtimeClasses?: string[] | undefined;
  /** Image of a Docker daemon that runs privileged beside an instance; absent: no Docker inside. */
  privilegedDocker?: { image: string } | undefined;
  /**
   * Image with a shell and `node`, version 22 or newer, such as `node:24-slim`: runs beside
   * instances whose network Berth joins, as for ssh. Absent: no ssh for images without sshd.
   */
  networkImage?: string | undefined;
  /** Nodes of the cluster's autoscaler. Absent: no node is added. */
  autoscaling?: Autoscaling | undefined;
}

export interface Autoscaling {
  nodePools: NodePool[];
  /** Longest wait of a Pod for a node. Default: 10. */
  patienceMinutes?: number | undefined;
  /** Time without use until the autoscaler may end an instance; absent: never. */
  idleMinutes?: number | undefined;
}

/** Nodes of one size, in cores, memory and GPUs for instances. */
export interface NodePool {
  cpuCores: number;
  memoryGB: number;
  gpuNum?: number | undefined;
  gpuName?: string | undefined;
  /** Present nodes included. */
  maxNodes: number;
}

export interface DeviceClaim extends NodePlacement {
  deviceClass: string;
  /** CEL, as in a ResourceClaim; absent: each device of the class. */
  selector?: string | undefined;
  /** Attribute that names the model of a device, such as `gpu.nvidia.com/productName`. */
  modelAttribute: string;
  part?: { name: string; kind: GpuSlice } | undefined;
}

export interface GpusOfCluster extends NodePlacement {
  /** Extended resource, such as `nvidia.com/gpu`. */
  resource: string;
  /** Label of a node that names its GPUs, such as `nvidia.com/gpu.product`. */
  nameLabel: string;
  /** Resources of parts of cards, such as `nvidia.com/mig-1g.5gb` with the name `MIG 1g.5gb`. */
  parts?: { resource: string; name: string; kind: GpuSlice }[] | undefined;
}
