/** Capabilities of an engine, and how it keeps instances from each other and from its host. */
import type { InstanceId } from '../domain/kernel/ids.ts';

/** Optional features: shown by the API, and checked before a launch is accepted. */
export interface Capabilities {
  /** Past the size of a root disk: `hard`: writes fail; `ends`: the engine ends the instance. */
  rootDiskLimit: 'hard' | 'ends' | 'none';
  /** The root disk and the console of an instance outlive `halt`. Reasons: as `whyNoDocker`. */
  keepsRootDisk: boolean;
  whyNoRootDisk?: string;
  dockerInside: boolean;
  /** Why `dockerInside` is false, and what would help: the end of a sentence about the region. */
  whyNoDocker?: string;
  saveImage: boolean;
  whyNoSaveImage?: string;
  gpus: boolean;
  whyNoGpus?: string;
  /** `dial` reaches any port of an instance. */
  dial: boolean;
  /** `joinNetwork` connects and listens within an instance's network, loopback included. */
  joinNetwork: boolean;
  whyNoJoinNetwork?: string;
  listenUnix: boolean;
  whyNoListenUnix?: string;
  /** `pidsLimit` of a spec holds. */
  processLimit: boolean;
  whyNoProcessLimit?: string;
  /** Protection of the host and of other instances. Reasons are written as `whyNoDocker`. */
  isolation: {
    /** No instance can use up a limit of the kernel that all share. */
    kernelLimits: boolean;
    whyNoKernelLimits?: string;
    /** Processor, memory and processes are kept for the host's programs. */
    hostReserve: boolean;
    whyNoHostReserve?: string;
    /** No account can fill the host's table of connections. */
    connectionLimit: boolean;
    whyNoConnectionLimit?: string;
    /** Instances cannot reach link-local addresses, such as the metadata service of a cloud. */
    linkLocalClosed: boolean;
    whyLinkLocalOpen?: string;
    /** `setEgress` can limit what instances connect to. */
    egressPolicy: boolean;
    whyNoEgressPolicy?: string;
    /** System calls that no program inside needs are refused, vsock and io_uring among them. */
    callFilter: boolean;
    whyNoCallFilter?: string;
    /** A profile of AppArmor or SELinux confines instances. */
    securityModule: boolean;
    whyNoSecurityModule?: string;
    /** `shared`: root inside is an unprivileged id of the host, the same for all instances. */
    userNamespaces: 'none' | 'shared';
    /** Names of the container runtimes that an instance type may have. */
    runtimes: string[];
  };
  /** Whether programs inside see the size of the instance. Reasons are written as `whyNoDocker`. */
  sizes: {
    /** Instances with whole processors run on a set of that size. */
    processors: boolean;
    whyNoProcessors?: string;
    /** `/proc` shows the memory, swap and processors of the instance. */
    memory: boolean;
    whyNoMemory?: string;
  };
}

export type Isolation = Capabilities['isolation'];

/** Protection of runs from an autoscaler, which ends runs to save a host; absent: no such end. */
export interface Protection {
  /** Time without use until a run loses the protection. */
  idleMs: number;
  /** Changes the present run; a new run is protected, unless spot. Fault: `not_found`. */
  set(id: InstanceId, isOn: boolean, signal: AbortSignal): Promise<void>;
}
