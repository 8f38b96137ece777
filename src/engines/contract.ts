/**
 * # The engine contract
 *
 * An engine is the hands that hold containers: Docker, a simulation, later Kubernetes. Berth decides, an engine does.
 * What every verb owes:
 *
 * - **Idempotent, keyed by our instance id.** Called twice, or again after an answer was lost, it ends in the same place.
 * - **Short, and abortable**: each takes an `AbortSignal`. A passed deadline means *unknown*, never *failed*.
 * - **Everything created can be found again**: it carries the labels of `engines/labels.ts` (installation, kind, id, owner,
 *   generation) and a name made from the id alone. `listOwned` lists by label; nothing without our installation's label is
 *   ever touched, even if it has one of our names.
 * - **Faults are `EngineFault`s** (`domain/engine-fault.ts`) of a closed set, saying whether to try again. Anything else thrown is a bug.
 *
 * The conformance suite (`test/engines/conformance.ts`) holds each engine to this page.
 */
import type { Duplex } from 'node:stream';
import type { Capacity } from '../domain/catalog.ts';
import type { InstanceId, UserId } from '../domain/ids.ts';
import type { NodePort } from '../domain/instance.ts';

/** What an engine can and can't do, as data: shown by the API, and asked before a wish is accepted. */
export interface Capabilities {
  /** Hard limit on the root disk (`rootDiskGB`), or measured only, or neither. */
  rootDiskLimit: 'hard' | 'none';
  /** Docker inside an instance (`enableDocker`). */
  dockerInside: boolean;
  saveImage: boolean;
  /** GPUs can be handed to instances. */
  gpus: boolean;
  /** `dial` reaches any port of an instance. */
  dial: boolean;
}

export interface Probe {
  /** Name and version of the engine, for people. */
  version: string;
  /** All the host has, not what is free: what is promised is counted in the store. */
  capacity: Capacity;
  devices: { kind: 'gpu'; name: string; id: string }[];
  architecture: string;
  capabilities: Capabilities;
}

export interface HostMount {
  /** Folder of the host, made before by the storage engine. */
  source: string;
  /** Absolute path inside the instance. */
  target: string;
  readOnly: boolean;
}

export interface EngineSpec {
  id: InstanceId;
  ownerId: UserId;
  generation: number;
  /** `<instanceId>-0` (interface-notes.md). */
  hostname: string;
  imageRef: string;
  cpuMilli: number;
  memoryMiB: number;
  pidsLimit: number;
  gpus: number;
  /** Hard limit on the root disk where `capabilities.rootDiskLimit` is `hard`; ignored elsewhere, absent means none. */
  rootDiskGB?: number | undefined;
  mounts: HostMount[];
  nodePorts: NodePort[];
  /** Address of the host on which node ports are published. */
  nodePortAddress: string;
  /**
   * Control files, by name, seen read-only under `/etc/berth/`. `start` is the entry point (`/bin/sh /etc/berth/start`).
   * When only files differ, `ensure` on a running instance replaces them in place, each by an atomic rename.
   */
  files: ControlFile[];
}

export interface ControlFile {
  name: string;
  content: string;
  mode: number;
}

/** What an engine sees of one instance. Unknown is not absent. */
export type Observation =
  | { kind: 'unknown'; reason: string }
  | { kind: 'absent' }
  | {
      kind: 'present';
      generation: number;
      running: boolean;
      /** Exit code of the last run; null while it runs or never did. */
      exitCode: number | null;
      outOfMemory: boolean;
      /** Epoch milliseconds of the engine's clock; 0 when it never ran. */
      startedAtMs: number;
      /** Published ports, as they are. */
      nodePorts: NodePort[];
    };

export interface Owned {
  kind: 'instance' | 'network';
  /** The instance's id, or the account's for a network. */
  id: string;
  ownerId: string;
  generation: number;
  running: boolean;
  engineName: string;
}

/** Progress of an image: bytes for a pull, steps of a known total for a build. */
export interface ImageProgress {
  text: string;
  done: number;
  total: number;
}

export interface Usage {
  cpuMilli: number;
  memoryBytes: number;
  rootDiskBytes: number;
}

export type LogSource = 'console';

export interface ExecResult {
  exitCode: number;
  stdout: string;
  stderr: string;
}

export interface Engine {
  /** Health, capacity, devices and capabilities. Throws `unreachable` when the engine does not answer. */
  probe(signal: AbortSignal): Promise<Probe>;
  /** Every object that bears this installation's label, whatever its state. Throws when it can't tell them all. */
  listOwned(signal: AbortSignal): Promise<Owned[]>;
  /** One answer per id asked, in a map; never throws for an engine that is away: each is `unknown` then. */
  observe(ids: readonly InstanceId[], signal: AbortSignal): Promise<Map<InstanceId, Observation>>;
  /**
   * Makes the image present. Returns at once when it is. Faults: `not_found` (no such image), `denied` (needs credentials),
   * `unreachable` (the registry or the engine is away), `rejected` (the image can't be used here).
   */
  ensureImage(ref: string, onProgress: (progress: ImageProgress) => void, signal: AbortSignal): Promise<void>;
  /**
   * Brings the instance to run as `spec` says: creates it, starts it, or finishes what is half there, and replaces control
   * files that differ. An instance of ours that runs already is left running. Before it returns the container was started;
   * nothing is said of the software inside. Faults: `not_found` (image), `busy` (a node port is taken: `takenNodePort`),
   * `no_capacity`, `rejected`, `unreachable`.
   */
  ensure(spec: EngineSpec, signal: AbortSignal): Promise<Observation>;
  /** Stops it, the root disk stays: SIGTERM, then SIGKILL after `graceMs`. One that is absent or stopped is success. */
  halt(id: InstanceId, graceMs: number, signal: AbortSignal): Promise<void>;
  /** Removes it with its root disk, its control files, and the account's network when it was the last there. Absent is success. */
  destroy(id: InstanceId, signal: AbortSignal): Promise<void>;
  /** Keeps the root disk as an image under `ref`. */
  saveImage(id: InstanceId, ref: string, signal: AbortSignal): Promise<void>;
  /** Calls `onHint` with an id whenever something may have changed. Only a hint: may be late, doubled or lost. Ends by the signal. */
  watch(onHint: (id: InstanceId) => void, signal: AbortSignal): void;
  /** The last `tail` lines of the console, oldest first. */
  logs(id: InstanceId, source: LogSource, tail: number, signal: AbortSignal): Promise<string[]>;
  /** Runs a command to its end inside a running instance; output is cut at 1 MiB a stream. */
  exec(id: InstanceId, command: readonly string[], signal: AbortSignal): Promise<ExecResult>;
  /** A connection to a TCP port inside. Rejects with `busy` when nothing listens there (yet), `not_found` when it does not run. */
  dial(id: InstanceId, port: number, signal: AbortSignal): Promise<Duplex>;
  usage(ids: readonly InstanceId[], signal: AbortSignal): Promise<Map<InstanceId, Usage>>;
  /** Lets go of connections and children; what runs keeps running. */
  stop(): Promise<void>;
}
