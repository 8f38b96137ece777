/** What an engine lends the conformance suite. */
import type { Duplex } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { Engine, EngineSpec, RegistryCredentials } from '../../src/engines/contract.ts';
import type { InstanceId } from '../../src/domain/ids.ts';

/** What a test may need and an engine may lack. */
export type Need =
  /** Real commands run inside: `sh -c <script>`. */
  | 'shell'
  /** Limits can be read inside, under `/sys/fs/cgroup` (version 1 or 2). */
  | 'cgroupFiles'
  /** Node ports are really published on `nodePortAddress`. */
  | 'publishedPorts'
  /** The engine can be made to see memory run out. */
  | 'outOfMemory'
  /** `leaveHalfMade` can be done. */
  | 'halfMade'
  /** Containers of strangers can be put beside ours: `neighbour`. */
  | 'neighbours'
  /** Networks are objects with names, so that a stranger's can have ours: `neighbourNetwork`. */
  | 'neighbourNetworks'
  /** Instances can have a Docker. */
  | 'dockerInside'
  /** An instance's network can be joined. */
  | 'joinNetwork'
  /** Images carry labels that a test can set past the engine: `neighbourImage`. */
  | 'neighbourImages';

/** Something on the engine's host that isn't ours. */
export interface Neighbour {
  /** Still the same one, still running (or, for a network, still there). */
  untouched(): Promise<boolean>;
  remove(): Promise<void>;
}

export interface Registries {
  /** What refs begin with, without a slash. */
  open: string;
  closed: string;
  credentials: RegistryCredentials;
  wrongCredentials: RegistryCredentials;
}

/** Time as the engine has it: the machine's, or virtual time, which runs while somebody waits for it. */
export interface FixtureTime {
  /** Epoch milliseconds. */
  now(): number;
  sleep(ms: number): Promise<void>;
  /** How much later than promised something may be noticed: 0 in virtual time, generous on a machine that others use. */
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
  /** The installation that `engine` works for: a new one, so that whatever it owns the suite has made. */
  installation: string;
  /** A small image that is present or that `ensureImage` can get, with `/bin/sh`, `/root`, and the commands named in `conformance.ts`. */
  imageRef: string;
  /** One that can't be had, whose absence the engine can tell. */
  missingImageRef: string;
  /** Address of the host on which node ports are published; the test process can reach it. */
  nodePortAddress: string;
  releaseNodePort(): Promise<number>;
  /** An empty folder of the engine's host that the test process can read and write too. Removed by `stop`. */
  hostFolder(): Promise<string>;
  /** A second engine object for the same host and installation, as after a restart of the server. Its user calls stop(). */
  again(): Promise<Engine>;
  /** An engine object for the same host and another installation. Its user calls stop(). */
  elsewhere(installation: string): Promise<Engine>;
  /** An engine object whose host doesn't answer. Its user calls stop(). */
  unreachable(): Promise<Engine>;
  /** A running container with exactly this name and these labels, made past the engine. */
  neighbour(container: { name: string; labels: Record<string, string> }): Promise<Neighbour>;
  /** A network with exactly this name and these labels, made past the engine. */
  neighbourNetwork(network: { name: string; labels: Record<string, string> }): Promise<Neighbour>;
  /** An image with exactly this ref and these labels, made past the engine. */
  neighbourImage(image: { ref: string; labels: Record<string, string> }): Promise<Neighbour>;
  /** Where images can be pushed to and pulled from, by anybody and by who has credentials. */
  registries(): Promise<Registries>;
  /** Leaves what a crash between creating and starting would leave of this instance. */
  leaveHalfMade(spec: EngineSpec): Promise<void>;
  /** Kills the instance's main process behind the engine's back. */
  stopOutside(id: InstanceId): Promise<void>;
  /** As a program of the instance connects to a Unix socket. */
  connectUnix(id: InstanceId, pathInside: string): Promise<Duplex>;
  /** Takes an instance's Docker away behind the engine's back. */
  loseDocker(id: InstanceId): Promise<void>;
  /** Removes an image that `saveImage` made. */
  dropImage(ref: string): Promise<void>;
  /**
   * Whether `generation`, as observed, follows the last `ensure`, or stays that of the creation (labels of a container can't be
   * changed on every engine).
   */
  generationFollows: 'ensure' | 'creation';
  /** What can't be tried here, and why. */
  lacks: Partial<Record<Need, string>>;
  stop(): Promise<void>;
}
