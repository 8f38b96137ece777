/** Regions that administrators add: their engine, pools and node ports. */
import type { PoolName, SizeLimit } from '../storage/disk.ts';
import type { KubernetesEngineSettings } from './kubernetes-settings.ts';

export interface SimulatedEngineSettings {
  cpuCores: number;
  memoryGB: number;
  gpus: number;
}

/** Docker engine on another host. */
export interface DockerEngineSettings {
  /** `tcp://host:port`, always with TLS, or `ssh://user@host[:port][/path/of/docker.sock]`. */
  endpoint: string;
  /** Authority of the engine's certificate, in PEM; with TLS. */
  ca?: string | undefined;
  /** Public key of the host; with ssh. */
  hostKey?: string | undefined;
  /** Image with a shell and the tools of BusyBox, for files and connections of instances. */
  helperImage: string;
  /** Address of the host that node ports are published on; default: all. */
  nodePortBind?: string | undefined;
  cpuOvercommit?: number | undefined;
}

export const accessModes = ['ReadWriteOnce', 'ReadWriteMany'] as const;

export interface PoolSettings {
  name: PoolName;
  sizeGB: number;
  /** Class of the pool's claims, in a cluster. */
  claims?: PoolOfClaims | undefined;
}

export interface PoolOfClaims {
  storageClass: string;
  /** Whether instances on several nodes may mount a volume at once. */
  accessMode: (typeof accessModes)[number];
  /** Absent: the default one of the driver, or its only one. */
  snapshotClass?: string | undefined;
  sizeLimit: SizeLimit;
  /** Image with a shell and the tools of BusyBox, for access to files without an instance. */
  filesImage: string;
}

/** A region of the settings of the server has none. */
export interface RegionSettings {
  /** One engine. */
  simulated?: SimulatedEngineSettings | undefined;
  kubernetes?: KubernetesEngineSettings | undefined;
  docker?: DockerEngineSettings | undefined;
  /** `default` among them. */
  pools: PoolSettings[];
  nodePorts: { first: number; last: number };
  /** False: instances mount no shared folder of their account. */
  sharedFolder?: boolean | undefined;
}

export const engineKindOf = ({ kubernetes, docker }: RegionSettings): 'simulated' | 'kubernetes' | 'docker' =>
  kubernetes !== undefined ? 'kubernetes' : docker !== undefined ? 'docker' : 'simulated';

/** Null, or what is wrong and what works. */
export function faultOfRegionSettings(settings: RegionSettings): string | null {
  const { simulated, kubernetes, docker, pools, nodePorts } = settings;
  if ([simulated, kubernetes, docker].filter((engine) => engine !== undefined).length !== 1)
    return 'field "settings" has not one engine; send "simulated", "kubernetes" or "docker"';
  const names = pools.map(({ name }) => name);
  if (!names.includes('default')) return 'field "settings.pools" has no pool named "default"; add one';
  if (new Set(names).size < names.length) return 'field "settings.pools" names a pool twice; name each once';
  const odd = pools.find(({ claims }) => (claims === undefined) === (kubernetes !== undefined));
  if (odd && kubernetes)
    return `field "settings.pools" has no "claims" for ${odd.name}; send the storage class of its claims`;
  if (odd) return `field "settings.pools" has "claims" for ${odd.name}, but only Kubernetes has claims; leave them out`;
  if (kubernetes && (kubernetes.apiUrl !== undefined) !== (kubernetes.login === 'token'))
    return 'field "settings.kubernetes.apiUrl" belongs to "login": "token"; a kubeconfig and a service account have their own';
  const peer = kubernetes?.peers?.find(({ cidr, namespace }) => (cidr === undefined) === (namespace === undefined));
  if (peer)
    return 'field "settings.kubernetes.peers" has a member without one address; send "cidr" or "namespace" in each';
  if (nodePorts.first > nodePorts.last)
    return `field "settings.nodePorts.first" is ${nodePorts.first}, after "last", ${nodePorts.last}; exchange them`;
  return null;
}
