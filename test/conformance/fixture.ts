/** Interface of an engine to the conformance suite. */
import type { Duplex } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { Engine, EngineSpec, RegistryCredentials } from '../../src/engines/contract.ts';
import type { InstanceId } from '../../src/domain/kernel/ids.ts';

/** Features that an engine may lack. */
export type Need =
  /** Real commands: `sh -c <script>`. */
  | 'shell'
  /** Limits are readable under `/sys/fs/cgroup` (version 1 or 2). */
  | 'cgroupFiles'
  /** The firewall passes packets between instances of an account. */
  | 'forwarding'
  /** Node ports are published on `nodePortAddress`. */
  | 'publishedPorts'
  /** Memory can run out. */
  | 'outOfMemory'
  /** `leaveHalfMade` works. */
  | 'halfMade'
  /** Foreign containers can be created: `neighbour`. */
  | 'neighbours'
  /** Networks have names that can conflict: `neighbourNetwork`. */
  | 'neighbourNetworks'
  | 'dockerInside'
  | 'joinNetwork'
  /** Images have labels: `neighbourImage`. */
  | 'neighbourImages'
  /** Root disk and console outlive a stop. */
  | 'rootDisk'
  | 'processLimit'
  | 'saveImage'
  /** A push reports its bytes, however short it is. */
  | 'pushProgress'
  | 'listenUnix'
  /** Node ports are ports of a host, which other programs may use. */
  | 'hostPorts'
  /** `usage` counts the files of root disks. */
  | 'rootDiskUsage';

/** Foreign object on the engine's host. */
export interface Neighbour {
  /** Same object, still running (a network: present). */
  untouched(): Promise<boolean>;
  remove(): Promise<void>;
}

export interface Registries {
  /** Prefix of refs, without a slash. */
  open: string;
  closed: string;
  credentials: RegistryCredentials;
  wrongCredentials: RegistryCredentials;
}

/** Clock of the engine: real, or virtual time that advances during waits. */
export interface FixtureTime {
  /** Epoch milliseconds. */
  now(): number;
  sleep(ms: number): Promise<void>;
  /** Tolerance of deadlines: 0 in virtual time, generous on a shared machine. */
  slackMs: number;
}

export const machineTime: FixtureTime = {
  now: () => Date.now(),
  sleep: (ms) => delay(ms),
  slackMs: 30_000,
};

export interface Fixture {
  engine: Engine;
  time: FixtureTime;
  /** Unique per fixture: the suite created everything it owns. */
  installation: string;
  /**
   * Small image with `/bin/sh`, `/root` and the commands named in `engine.ts`; present, or
   * available to `ensureImage`.
   */
  imageRef: string;
  /** A missing image; the engine reports its absence. */
  missingImageRef: string;
  /** Host address of published node ports, reachable from the test process. */
  nodePortAddress: string;
  releaseNodePort(): Promise<number>;
  /** Empty folder on the engine's host, writable by the test process. Removed by `stop`. */
  hostFolder(): Promise<string>;
  /** Source of a mount that shows this folder. */
  mountSource(folder: string): Promise<string>;
  /** Name of the main object of an instance on the engine. */
  engineName(id: InstanceId): string;
  /**
   * Second engine object for the same installation, as after a server restart. The caller stops it.
   */
  again(): Promise<Engine>;
  /** Engine object for another installation on the same host. The caller stops it. */
  elsewhere(installation: string): Promise<Engine>;
  /** Engine object with an unreachable host. The caller stops it. */
  unreachable(): Promise<Engine>;
  /** Running foreign container with this name and these labels. */
  neighbour(container: { name: string; labels: Record<string, string> }): Promise<Neighbour>;
  /** Foreign network with this name and these labels. */
  neighbourNetwork(network: { name: string; labels: Record<string, string> }): Promise<Neighbour>;
  /** Foreign image with this ref and these labels. */
  neighbourImage(image: { ref: string; labels: Record<string, string> }): Promise<Neighbour>;
  /** Registries for push and pull, public and with credentials. */
  registries(): Promise<Registries>;
  /** Leaves the remains of a crash between create and start. */
  leaveHalfMade(spec: EngineSpec): Promise<void>;
  /** Kills the instance's main process from outside. */
  stopOutside(id: InstanceId): Promise<void>;
  /** Connects to a Unix socket like a program in the instance. */
  connectUnix(id: InstanceId, pathInside: string): Promise<Duplex>;
  /** Removes an instance's Docker from outside. */
  loseDocker(id: InstanceId): Promise<void>;
  /** Removes an image made by `saveImage`. */
  dropImage(ref: string): Promise<void>;
  /**
   * Whether the observed `generation` follows the last `ensure`, or stays that of the creation:
   * some engines can't change labels.
   */
  generationFollows: 'ensure' | 'creation';
  /** Missing features, with the reason. */
  lacks: Partial<Record<Need, string>>;
  stop(): Promise<void>;
}
