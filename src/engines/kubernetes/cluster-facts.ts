/** Facts of a cluster: version, nodes, capabilities. Read rarely, since clusters change slowly. */
import type { Cluster } from '../../kubernetes/cluster.ts';
import type { Node } from '../../kubernetes/api-objects.ts';
import { resources } from '../../kubernetes/api-resources.ts';
import { z } from 'zod';
import { countGpus, gpusByName } from '../../domain/regions/catalog.ts';
import { largestHosts, type Host } from '../../domain/regions/host-sizes.ts';
import { isLocalRef } from '../../domain/regions/image-ref.ts';
import { addCapacity, zeroCapacity } from '../../domain/regions/placement.ts';
import { BYTES_PER_GB } from '../../domain/storage/disk.ts';
import { EngineFault } from '../../domain/regions/engine-fault.ts';
import type { KubernetesEngineSettings } from '../../domain/regions/kubernetes-settings.ts';
import type { Capabilities, Probe } from '../contract.ts';
import { devicesByNode, noDevices, readDevices, type ClaimableDevices } from './device-slices.ts';
import { gpusOf, isPlacedOn } from './gpu-resources.ts';
import { NOT_ENFORCED } from './account-networks.ts';
import { grownCapacity, nodeOf } from './cluster-growth.ts';
import type { ClusterContext, NodeReader } from './cluster-context.ts';
import { explainedFaultOf } from './cluster-faults.ts';
import type { ClusterFeatures } from './manifests/pod-template.ts';
import { followRestartPolicies, takesRestartPolicies } from './restart-policies.ts';
import { NO_NETWORK_IMAGE } from './network/pod-network.ts';
import { milliOf, quantityOf } from '../../kubernetes/quantity.ts';

const NODES_MS = 60_000;
/** Age of nodes that is good enough before a download. */
const FRESH_MS = 2_000;
/** Kubelets report the largest images alone. */
const MOST_IMAGES_OF_A_NODE = 50;
/** Longest time until credentials that have ended are found, before the next probe. */
const ACCESS_MS = 30_000;
const VERSION_MS = 10 * 60_000;
const MIB = 2 ** 20;

export interface ClusterFacts {
  probe(signal: AbortSignal): Promise<Probe>;
  /** Whether a node reports the image. */
  hasImage(ref: string, signal: AbortSignal): Promise<boolean>;
  features(signal: AbortSignal): Promise<ClusterFeatures>;
}

const versionAnswer = z.object({ gitVersion: z.string(), minor: z.string().optional() });

export function makeClusterFacts({
  cluster,
  settings,
  pods,
  nodes: allNodes,
}: Pick<ClusterContext, 'cluster' | 'settings'> & {
  nodes: NodeReader;
  pods: Pick<ClusterContext['pods'], 'isHeard' | 'live'>;
}): ClusterFacts {
  const nodes: NodeReader = async (signal, maxAgeMs) =>
    (await allNodes(signal, maxAgeMs)).filter(({ metadata }) => isPlacedOn(metadata?.labels, settings));
  const devices = remember(NODES_MS, (signal: AbortSignal) => claimableDevices(cluster, settings, signal));
  const version = remember(VERSION_MS, async (signal: AbortSignal) =>
    versionAnswer.parse(await cluster.json('/version', signal)),
  );
  const serverTakes = remember(VERSION_MS, (signal: AbortSignal) => takesRestartPolicies(cluster, signal));
  const readPods = async (signal: AbortSignal): Promise<object> => {
    try {
      return await cluster.json(cluster.pathOf(resources.pods), signal, { limit: 1 });
    } catch (error) {
      throw await explainedFaultOf(cluster, error, signal);
    }
  };
  const access = remember(ACCESS_MS, readPods);
  return {
    async features(signal) {
      const [isTaken, all] = await Promise.all([serverTakes(signal), nodes(signal)]);
      return { restartPolicies: isTaken && followRestartPolicies(all), storageLimits: limitStorage(all) };
    },
    async probe(signal) {
      // A watch proves that the server answers, but outlives its credentials.
      await (pods.isHeard() ? access(signal) : readPods(signal));
      await pods.live(signal);
      const [ofNodes, { gitVersion }, claimed] = await Promise.all([nodes(signal), version(signal), devices(signal)]);
      return probeOf(ofNodes, gitVersion, settings, claimed);
    },
    async hasImage(ref, signal) {
      const names = namesOf(ref);
      const isReported = async (maxAgeMs?: number): Promise<boolean> =>
        (await nodes(signal, maxAgeMs)).some((node) => imagesOf(node).some((name) => names.has(name)));
      return (await isReported()) || isReported(FRESH_MS);
    },
  };
}

/** Reads again after `ms`, or the age of a call. A failure is not remembered. */
export function remember<T>(
  ms: number,
  read: (signal: AbortSignal) => Promise<T>,
): (signal: AbortSignal, maxAgeMs?: number) => Promise<T> {
  let known: { value: T; atMs: number } | undefined;
  return async (signal, maxAgeMs = ms) => {
    signal.throwIfAborted();
    if (known !== undefined && performance.now() - known.atMs < maxAgeMs) return known.value;
    const atMs = performance.now();
    const value = await read(signal);
    known = { value, atMs };
    return value;
  };
}

async function claimableDevices(
  cluster: Cluster,
  settings: KubernetesEngineSettings,
  signal: AbortSignal,
): Promise<ClaimableDevices> {
  try {
    return await readDevices(cluster, settings, signal);
  } catch (error) {
    if (!(error instanceof EngineFault)) throw error;
    return { ...noDevices, why: error.message };
  }
}

/** Nodes of the cluster, which change slowly. */
export const makeNodeReader = (cluster: Cluster): NodeReader =>
  remember(NODES_MS, (signal) => cluster.list(resources.nodes, signal));

/** Names under which a node may report an image. */
function namesOf(ref: string): Set<string> {
  const [first = ''] = ref.split('/');
  const hasServer = ref.includes('/') && (/[.:]/.test(first) || first === 'localhost');
  const full = hasServer ? ref : ref.includes('/') ? `docker.io/${ref}` : `docker.io/library/${ref}`;
  return new Set([ref, full]);
}

const imagesOf = ({ status }: Node): string[] => (status?.images ?? []).flatMap(({ names = [] }) => names ?? []);

/** Undefined where a node may have more images than it reports. */
function localImagesOf(nodes: readonly Node[]): ReadonlySet<string> | undefined {
  if (nodes.length === 0 || nodes.some(({ status }) => (status?.images?.length ?? 0) >= MOST_IMAGES_OF_A_NODE))
    return undefined;
  return new Set(nodes.flatMap(imagesOf).filter(isLocalRef));
}

const isUsable = ({ spec, status }: Node): boolean =>
  spec?.unschedulable !== true &&
  status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') === true;

/** Counts the nodes that take Pods, and nodes of the autoscaler. */
export function probeOf(
  all: readonly Node[],
  gitVersion: string,
  settings: KubernetesEngineSettings,
  claimable = noDevices,
): Probe {
  const nodes = all.filter(isUsable);
  const claimed = devicesByNode(claimable);
  const devicesOf = (node: Node): Probe['devices'] => [
    ...gpusOf(node, settings.gpus),
    ...(claimed.get(node.metadata?.name ?? '') ?? [])
      .filter(({ claim }) => isPlacedOn(node.metadata?.labels, claim))
      .map(({ gpu }) => gpu),
  ];
  const sizes = nodes.map((node) => sizeOf(node, devicesOf(node)));
  const present = sizes.reduce(addCapacity, zeroCapacity);
  const { autoscaling } = settings;
  const capacity = autoscaling === undefined ? present : grownCapacity(present, autoscaling);
  return {
    version: `Kubernetes ${gitVersion}`,
    capacity,
    ...(autoscaling === undefined ? {} : { present }),
    hosts: largestHosts([...sizes, ...(autoscaling?.nodePools ?? []).map(nodeOf)]),
    devices: nodes.flatMap(devicesOf),
    architecture: nodes[0]?.status?.nodeInfo?.architecture ?? 'amd64',
    // Nodes that an autoscaler adds may come with other images.
    localImages: autoscaling === undefined ? localImagesOf(nodes) : undefined,
    capabilities: {
      ...capabilitiesOf(settings, countGpus(capacity.gpus) > 0),
      rootDiskLimit: limitStorage(all) ? 'ends' : 'none',
      ...(claimable.why === undefined ? {} : { whyNoGpus: claimable.why }),
    },
  };
}

/** Nodes without such limits report no such resource. */
const limitStorage = (nodes: readonly Node[]): boolean =>
  nodes.every(({ status }) => status?.allocatable?.['ephemeral-storage'] !== undefined);

function sizeOf({ status }: Node, devices: Probe['devices']): Host {
  const { cpu = '0', memory = '0', 'ephemeral-storage': storage } = status?.allocatable ?? {};
  return {
    cpuMilli: milliOf(cpu),
    memoryMiB: Math.floor(quantityOf(memory) / MIB),
    ...(storage === undefined ? {} : { rootDiskGB: Math.floor(quantityOf(storage) / BYTES_PER_GB) }),
    gpus: gpusByName(devices),
  };
}

function capabilitiesOf(settings: KubernetesEngineSettings, gpus: boolean): Omit<Capabilities, 'rootDiskLimit'> {
  const { networkPolicies, privilegedDocker, networkImage, userNamespaces, runtimeClasses = [] } = settings;
  return {
    keepsRootDisk: false,
    whyNoRootDisk: 'the root disk of a Pod ends with the Pod; keep files on the data disk or on volumes',
    ...(privilegedDocker === undefined
      ? {
          dockerInside: false,
          whyNoDocker:
            'a Docker daemon in a cluster needs a privileged sidecar, which the operator must allow for the region',
        }
      : { dockerInside: true }),
    saveImage: false,
    whyNoSaveImage:
      'a cluster has no call that saves the root disk of a Pod; build images elsewhere and push them to a registry',
    gpus,
    dial: true,
    ...(networkImage === undefined
      ? { joinNetwork: false, whyNoJoinNetwork: NO_NETWORK_IMAGE }
      : { joinNetwork: true }),
    listenUnix: false,
    whyNoListenUnix: 'files of a Pod that change are mounted by its node, which is no place for sockets of Berth',
    processLimit: false,
    whyNoProcessLimit:
      'the nodes of a cluster set this limit for all Pods (podPidsLimit), and neither a Pod nor Berth, which has no rights over nodes, can read it',
    isolation: {
      kernelLimits: false,
      whyNoKernelLimits: 'limits of the kernel are those of the nodes, which Berth does not set',
      hostReserve: true,
      connectionLimit: false,
      whyNoConnectionLimit: 'the table of connections is that of the nodes, which Berth does not set',
      linkLocalClosed: networkPolicies,
      callFilter: false,
      whyNoCallFilter:
        "Pods have the filter of their node's container runtime (RuntimeDefault), and Berth cannot see whether it refuses vsock and io_uring",
      securityModule: false,
      whyNoSecurityModule: 'its nodes have AppArmor or SELinux, or not, and Berth cannot see it',
      egressPolicy: networkPolicies,
      ...(networkPolicies ? {} : { whyLinkLocalOpen: NOT_ENFORCED, whyNoEgressPolicy: NOT_ENFORCED }),
      userNamespaces: userNamespaces ? 'shared' : 'none',
      runtimes: [...runtimeClasses],
    },
    sizes: {
      processors: false,
      whyNoProcessors: 'the nodes share their processors by time, unless their CPU manager is static',
      memory: false,
      whyNoMemory: '/proc shows the memory and processors of the node',
    },
  };
}
