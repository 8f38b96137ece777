/**
 * # The engine contract
 *
 * An engine drives containers: Docker, Kubernetes, a simulation. Every verb is:
 *
 * - **Idempotent, keyed by our instance id**, also after a lost answer.
 * - **Short and abortable.** A passed deadline means *unknown*, never *failed*.
 * - **Findable**: every created object has our labels (`engines/labels.ts`) and a name made from
 * the id. Objects without our label are never touched. - **Closed in its faults**: an `EngineFault`
 * (`domain/regions/engine-fault.ts`) says whether to retry. Anything else thrown is a bug. Every
 * verb may throw `unreachable`.
 *
 * The conformance suite (`test/conformance/engine.ts`) checks every engine.
 */
import type { Duplex, Readable, Writable } from 'node:stream';
import type { CardFacts } from '../domain/regions/card-facts.ts';
import type { TypePlacement } from '../domain/regions/node-placement.ts';
import type { CardFigures, CardFinding } from '../domain/regions/card-health.ts';
import type { Capacity, GpuSlice } from '../domain/regions/catalog.ts';
import type { Disruption } from '../domain/compute/disruption.ts';
import type { Host } from '../domain/regions/host-sizes.ts';
import type { EgressPolicies } from '../domain/regions/egress.ts';
import type { ImageFacts } from '../domain/regions/image-facts.ts';
import type { InstanceId, UserId } from '../domain/kernel/ids.ts';
import type { NodePort } from '../domain/compute/instance.ts';
import type { Space } from '../domain/storage/pool.ts';
import type { LogSource } from '../domain/compute/log-position.ts';
import type { engineObjectKinds } from '../domain/compute/orphan.ts';
import type { progressUnits } from '../domain/compute/operation.ts';
import type { ProcessSignal } from '../domain/compute/process-signals.ts';
import type { Capabilities, Protection } from './capabilities.ts';

export type { Capabilities, Isolation } from './capabilities.ts';

export interface Probe {
  version: string;
  /** Total of the hosts, not free: allocations are counted in the store. */
  capacity: Capacity;
  /** Present share of `capacity`, where hosts may be added; absent: all. */
  present?: Capacity | undefined;
  /** Sizes of the hosts that no other host exceeds; absent: one host, which has the capacity. */
  hosts?: readonly Host[] | undefined;
  devices: {
    kind: 'gpu';
    name: string;
    id: string;
    memoryMiB?: number | null | undefined;
    /** Reasons against launches on the card; absent: unknown. */
    findings?: readonly CardFinding[] | undefined;
    /** UUID of the whole card, held or not; absent: not read here. */
    uuid?: string | undefined;
    figures?: CardFigures | undefined;
    /** Facts of the whole card; absent: unknown. */
    facts?: CardFacts | undefined;
    /** Absent for whole cards. */
    slice?: GpuSlice | undefined;
    /** Model of the divided card; absent: unknown. */
    card?: string | undefined;
    share?: number | undefined;
  }[];
  architecture: string;
  /**
   * Images below `berth.local` on the hosts, where none is built; absent: Berth builds them, or it
   * is not known.
   */
  localImages?: ReadonlySet<string> | undefined;
  capabilities: Capabilities;
}

export interface HostMount {
  /** From the storage driver of the region: an existing folder of the host, or a claim's name. */
  source: string;
  target: string;
  readOnly: boolean;
  /** Other instances of the account may mount the source, and only on the same node. */
  oneNode?: true;
}

export interface EngineSpec {
  id: InstanceId;
  ownerId: UserId;
  generation: number;
  /** `<instanceId>-0` (docs/interface.md, decisions). */
  hostname: string;
  imageRef: string;
  /** Only the container has the root disk: without a container `busy`, and none is created. */
  mustExist?: boolean | undefined;
  /** Login of the image's registry, for engines whose hosts pull the image themselves. */
  imageCredentials?: RegistryCredentials | undefined;
  cpuMilli: number;
  memoryMiB: number;
  pidsLimit: number;
  gpus: number;
  /** Model of the instance type. */
  gpuName?: string | undefined;
  /** Ids of devices in quarantine. */
  withoutGpus?: ReadonlySet<string> | undefined;
  /** May lose its capacity to another instance. */
  spot?: boolean | undefined;
  /** Name in `capabilities.isolation.runtimes`; absent: the engine's default. */
  runtime?: string | undefined;
  /** Nodes of the type in a cluster; other engines ignore it. */
  placement?: TypePlacement | undefined;
  /** Ignored where `capabilities.rootDiskLimit` is `none`; absent: no limit. */
  rootDiskGB?: number | undefined;
  mounts: HostMount[];
  /**
   * Own Docker daemon, with all data in `storage`: the source of a mount of a disk of kind docker.
   */
  docker?:
    | {
        storage: string;
        environment?: Readonly<Record<string, string>> | undefined;
        /** Folder of the host with certificates to trust. */
        caFolder?: string | undefined;
      }
    | undefined;
  /** Addresses of name servers; absent: the host's. Of a container that is created. */
  dns?: readonly string[] | undefined;
  nodePorts: NodePort[];
  nodePortAddress: string;
  /** Read-only under `/etc/berth/`, with entry point `start`. `ensure` replaces changed files. */
  files: ControlFile[];
  /** Command and user of the image in place of the entry point `start`. */
  imageCommand?: { words: readonly string[]; hasShell: boolean } | undefined;
}

export interface ControlFile {
  name: string;
  content: string;
  mode: number;
}

/** State of one instance as the engine reports it. Unknown is not absent. */
export type Observation =
  | { kind: 'unknown'; reason: string }
  | { kind: 'absent' }
  | {
      kind: 'present';
      generation: number;
      running: boolean;
      /** Exit code of the last run; null during a run, and before the first. */
      exitCode: number | null;
      outOfMemory: boolean;
      /** Epoch milliseconds of the engine's clock; 0 before the first run. */
      startedAtMs: number;
      /** Ports the container was created with; published while it runs. */
      nodePorts: NodePort[];
      /** Daemon of an instance with Docker: to run exactly when the instance runs. */
      docker?: 'running' | 'stopped';
      /** The engine ends the run, or ended it, without Berth. Absent: it does not. */
      disruption?: Disruption;
      /** Not running, or not yet, and takes the resources of its size until `halt`. */
      reserved?: true;
    };

/** Engine object that carries this installation's label. */
export interface OwnedObject {
  kind: (typeof engineObjectKinds)[number];
  /** Instance id, also for a daemon and a saved image (its source); account id for a network. */
  id: string;
  ownerId: string;
  generation: number;
  running: boolean;
  /** Its node does not answer: `running` is the last known state. */
  isUnknown?: boolean;
  /** Key for `discard`: of a saved image the ref, or the engine's id once the ref is gone. */
  engineName: string;
  /** Epoch milliseconds of the engine's clock; 0 when not reported. */
  createdAtMs: number;
  /** Ref an instance was created with; null for other kinds. */
  imageRef: string | null;
  docker?: 'running' | 'stopped';
}

/** Answer of a registry with the image; digest '' where unknown. */
export interface ImageAnswer {
  digest: string;
}

/** Registry login. Never in a log, a message, or the cause of a fault. */
export interface RegistryCredentials {
  username: string;
  secret: string;
}

/**
 * `done` never decreases; `total` grows as layers become known. Present layers count for neither.
 */
export interface ImageProgress {
  text: string;
  done: number;
  /** 0 while unknown. */
  total: number;
  unit: (typeof progressUnits)[number];
}

export type OnProgress = (progress: ImageProgress) => void;

/** Usage of one instance, its Docker included, read during the call, never cached. */
export interface Usage {
  /** Time of the reading, in epoch milliseconds of the engine's clock. */
  atMs: number;
  /** Start of the run, when all counters were 0, by the same clock; 0 while stopped. */
  startedAtMs: number;
  /** Mean over the `cpuOverMs` before `atMs`: since the previous reading, at least a second. */
  cpuMilli: number;
  cpuOverMs: number;
  /** Counter of core milliseconds. */
  cpuTimeMs: number;
  /** Working set: without the page cache that the kernel reclaims first. */
  memoryBytes: number;
  memoryLimitBytes: number | null;
  /** Counters over all network interfaces. Null when not reported. */
  receivedBytes: number | null;
  sentBytes: number | null;
  /** Counters of block devices, below the page cache. Null when not reported. */
  readBytes: number | null;
  writtenBytes: number | null;
  /** Threads included, as in the limit. */
  processes: number | null;
  processLimit: number | null;
  /** Processes of the run that the kernel killed for want of memory; absent: unknown. */
  memoryKills?: number | undefined;
  /** An entry per GPU; null without GPUs, or when unreadable. */
  gpus: GpuUsage[] | null;
  /**
   * Files of the writable layer, of anonymous volumes and of `/etc/hosts`, `/etc/hostname` and
   * `/etc/resolv.conf`. Null unless requested (a count walks all files), or if not counted in time.
   */
  rootDiskBytes: number | null;
}

export interface UsageOptions {
  rootDisk?: boolean;
  /** No CPU mean (`cpuMilli` is meaningless), no wait; means of other callers are unaffected. */
  countersOnly?: boolean;
  /** Regular readings of all: an engine may omit instances of which it has no new figures. */
  sampling?: boolean;
}

export interface GpuUsage extends CardFigures {
  /** Id among `devices` of the probe; absent: the engine does not know. */
  deviceId?: string | undefined;
  /** The host has lost the card, or taken it from the instance. */
  isTaken?: true | undefined;
}

/**
 * `console`: output, at most the last 10 MB. `init`, `start`: first 10 MiB of the init script and
 * of the start command in this run, `notebook`: of its notebook server, only of a running instance.
 */
export type EngineLogSource = Exclude<LogSource, 'events'>;

export interface LogRange {
  /**
   * Inclusive, epoch milliseconds of the engine's clock. Ignored for logs without times: all but
   * `console`.
   */
  sinceMs?: number | undefined;
  /** Exclusive; otherwise as `sinceMs`. */
  untilMs?: number | undefined;
  /** Number of last lines within the other bounds. */
  tail?: number | undefined;
}

export interface LogLine {
  /** Start of the line, epoch milliseconds of the engine's clock; null but for `console`. */
  atMs: number | null;
  /** Without line end. Invalid UTF-8 becomes U+FFFD; control characters stay. */
  text: string;
  /** Truncated to the first 16 KiB. */
  cut: boolean;
}

/** Command to run inside an instance. No shell reads names and values. */
export interface ExecRequest {
  command: readonly string[];
  env: Readonly<Record<string, string>>;
  /** Terminal with stdout and stderr in one stream; null: no terminal, two streams. */
  terminal: TerminalSize | null;
}

export interface TerminalSize {
  columns: number;
  rows: number;
}

/** Running command. Ends alone, by `kill`, or with the instance; a lost caller does not end it. */
export interface OpenExec {
  /** `end()` closes stdin; on a TTY send EOT instead. At the end unwritten input is dropped. */
  stdin: Writable;
  /**
   * Unread output blocks the command; destroying a stream discards the rest. Both end normally
   * whatever became of the command. A TTY writes to stdout only.
   */
  stdout: Readable;
  stderr: Readable;
  /** No effect without a terminal, or after the end. */
  resize(size: TerminalSize): Promise<void>;
  /**
   * Exit code, once all output is in the streams: 128 + n after signal n, 127 for a missing
   * program, 126 for one that can't be run. Rejects with `not_found` (instance ended) or
   * `unreachable`. May be left unhandled.
   */
  exited: Promise<number>;
  /**
   * KILL, the default, kills the command, all descendants and their sessions, but no earlier daemon
   * (own session, parent gone). Other signals go to the process group. Success after the end.
   */
  kill(signal?: ProcessSignal): Promise<void>;
}

/** Access to an instance's network, for one run. Everything opened ends with `close` or the run. */
export interface InstanceNetwork {
  /**
   * Connects as a program inside, with half-close; the signal ends the opening only. Faults: `busy`
   * (nothing listens), `not_found` (unknown name), `no_capacity`, `unreachable`.
   */
  connect(at: InstanceAddress, signal: AbortSignal): Promise<Duplex>;
  /**
   * Host '' means all, `port` 0 any. Faults: `busy` (port in use), `rejected` (foreign address).
   */
  listen(
    at: InstanceAddress,
    onConnection: (connection: Duplex & { remoteAddress?: string | undefined }) => void,
    signal: AbortSignal,
  ): Promise<NetworkListener>;
  /** Resolves, with everything opened destroyed, at `close`, the run's end or a lost connection. */
  ended: Promise<void>;
  close(): void;
}

export interface InstanceAddress {
  host: string;
  port: number;
}

export interface NetworkListener {
  port: number;
  close(): void;
}

/** Unix socket of ours that programs inside an instance connect to. */
export interface InsideSocket {
  pathInside: string;
  /** Removes the socket; open connections stay. */
  close(): void;
}

export interface ExecResult {
  exitCode: number;
  stdout: string;
  stderr: string;
}

export interface Engine {
  /** Image that must be present before `ensure` of an instance with Docker; absent: none. */
  readonly dockerImageRef?: string | undefined;
  readonly protection?: Protection | undefined;

  probe(signal: AbortSignal): Promise<Probe>;

  /** Throws what a new region lacks beside an engine that answers; returns warnings of it. */
  check?(signal: AbortSignal): Promise<string[]>;

  /** Lists every object with this installation's label, in any state. Throws if incomplete. */
  listOwned(signal: AbortSignal): Promise<OwnedObject[]>;

  /** Returns one answer per id. Never throws: with the engine away every answer is `unknown`. */
  observe(ids: readonly InstanceId[], signal: AbortSignal): Promise<Map<InstanceId, Observation>>;

  /**
   * Makes the image present. For a present image returns at once, unless `askRegistry`: then the
   * registry must grant the image to these credentials. An abort ends the download. Faults:
   * `not_found`, `denied` (credentials), `unreachable` (reason `registryAway`: the registry),
   * `rejected` (unfit image), `no_capacity` (disk full).
   */
  ensureImage(
    ref: string,
    onProgress: OnProgress,
    signal: AbortSignal,
    credentials?: RegistryCredentials,
    options?: { askRegistry: boolean },
  ): Promise<void>;

  /**
   * Asks the registry for an image that the engine need not have. Transfers no layers. False: this
   * engine cannot ask. Faults as `ensureImage`; `rejected` for another architecture.
   */
  checkImage(ref: string, signal: AbortSignal, credentials?: RegistryCredentials): Promise<ImageAnswer | false>;

  /** Describes a present image. Null: absent, or unknown to this engine. */
  describeImage(ref: string, signal: AbortSignal): Promise<ImageFacts | null>;

  /** Uploads a local image to the registry. Faults as `ensureImage`; `not_found`: not local. */
  pushImage(ref: string, onProgress: OnProgress, signal: AbortSignal, credentials?: RegistryCredentials): Promise<void>;

  /** Waits for a save or push of `ref`. Absent is success. Faults: `busy`, `rejected` (foreign). */
  removeImage(ref: string, signal: AbortSignal): Promise<void>;

  /**
   * Brings the instance to run as `spec` says. Before: images and mounts exist. During: creates,
   * starts, or finishes a half-done attempt, and replaces changed control files. A container that
   * has run gets new limits (CPU, memory, processes) and keeps the rest: `rejected` for other node
   * ports. Without `keepsRootDisk` a halted one gets whatever changed. After: the container was
   * started; the software inside may still be starting. Restores the Docker of a
   * running instance. Faults: `not_found` (image), `busy` (node port in use; `takenNodePort` where
   * another port would help), `no_capacity`, `rejected`.
   */
  ensure(spec: EngineSpec, signal: AbortSignal): Promise<Observation>;

  /**
   * Replaces the egress policies, also of running instances and of open connections that these
   * opened. Connections to an instance, and within an account, stay allowed. The engine keeps the
   * policies until the next call; `ensure` fails while it can't enforce those of the owner. Fault:
   * `rejected` without `capabilities.isolation.egressPolicy`, unless all are open.
   */
  setEgress(policies: EgressPolicies, signal: AbortSignal): Promise<void>;

  /**
   * Stops the instance, its Docker first: SIGTERM, then SIGKILL, after `graceMs` in total. After:
   * the root disk stays (`keepsRootDisk`), `observe` answers not running. Absent or stopped is
   * success.
   */
  halt(id: InstanceId, graceMs: number, signal: AbortSignal): Promise<void>;

  /** Also removes the account's network after the last instance. Absent is success. */
  destroy(id: InstanceId, signal: AbortSignal): Promise<void>;

  /**
   * Saves the root disk as image `ref`: the original image plus changes, without mounts, control
   * files and entry point. During: a running instance is paused, observed as running; the save may
   * outlive its caller. After: our earlier image under `ref` is replaced. `sizeBytes` includes
   * shared layers. Faults: `not_found`, `rejected` (foreign image, or without
   * `capabilities.saveImage`), `no_capacity`.
   */
  saveImage(id: InstanceId, ref: string, signal: AbortSignal): Promise<{ sizeBytes: number }>;

  /** Removes exactly one listed object. Absent is success. Faults: `rejected` (foreign), `busy`. */
  discard(owned: OwnedObject, signal: AbortSignal): Promise<void>;

  /** Calls `onHint` on a possible change, until the signal. Hints may be late, doubled or lost. */
  watch(onHint: (id: InstanceId) => void, signal: AbortSignal): void;

  /**
   * Reads present lines, oldest first, without an unfinished last line of a running init script. An
   * iteration that ends is complete; a lost connection or the signal throws. Holds a connection.
   */
  logs(id: InstanceId, source: EngineLogSource, range: LogRange, signal: AbortSignal): Promise<AsyncIterable<LogLine>>;

  /** Reads, then follows until the instance or init script ends, or the signal: no fault then. */
  followLogs(
    id: InstanceId,
    source: EngineLogSource,
    range: Omit<LogRange, 'untilMs'>,
    signal: AbortSignal,
  ): Promise<AsyncIterable<LogLine>>;

  /** Signal: opening only. Faults: `not_found`, `busy` (saving), `no_capacity` (process limit). */
  openExec(id: InstanceId, request: ExecRequest, signal: AbortSignal): Promise<OpenExec>;

  /**
   * Runs a command without input; truncates output to 1 MiB a stream. No abort ends the command.
   */
  exec(id: InstanceId, command: readonly string[], signal: AbortSignal): Promise<ExecResult>;

  /** Connects to a TCP port. Faults: `busy` (nothing listens yet), `not_found` (not running). */
  dial(id: InstanceId, port: number, signal: AbortSignal): Promise<Duplex>;

  /**
   * Joins the network of a running instance, as one of its programs. The signal ends the joining
   * only. Faults: `rejected` without `capabilities.joinNetwork`, `not_found` (not running).
   */
  joinNetwork(id: InstanceId, signal: AbortSignal): Promise<InstanceNetwork>;

  /**
   * Text of `/proc/net/tcp` and `tcp6` of the instance's network, without a program of its image;
   * absent, or null: cannot. Faults: `not_found` (not running).
   */
  tcpTables?(id: InstanceId, signal: AbortSignal): Promise<string | null>;

  /**
   * Listens on a Unix socket under `/etc/berth/` until `close` or the end of the run. Root inside
   * may connect, 64 connections at once. Faults: `not_found` (not running), `rejected` (also
   * without `capabilities.listenUnix`).
   */
  listenUnix(id: InstanceId, onConnection: (connection: Duplex) => void, signal: AbortSignal): Promise<InsideSocket>;

  /** Omits unreadable instances. The first call for an id takes a second, unless `countersOnly`. */
  usage(ids: readonly InstanceId[], signal: AbortSignal, options?: UsageOptions): Promise<Map<InstanceId, Usage>>;

  /** File system of the root disks; null when it is unknown, as of an engine elsewhere. */
  rootDiskSpace(signal: AbortSignal): Promise<Space | null>;

  /** Closes connections and child processes of the driver; instances keep running. */
  stop(): Promise<void>;
}
