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
 * The conformance suite (`test/conformance/engine.ts`) holds each engine to this page.
 */
import type { Duplex, Readable, Writable } from 'node:stream';
import type { Capacity } from '../domain/catalog.ts';
import type { InstanceId, UserId } from '../domain/ids.ts';
import type { NodePort } from '../domain/instance.ts';

/** What an engine can and can't do, as data: shown by the API, and asked before a wish is accepted. */
export interface Capabilities {
  /** Hard limit on the root disk (`rootDiskGB`), or measured only, or neither. */
  rootDiskLimit: 'hard' | 'none';
  /** Docker inside an instance (`enableDocker`). */
  dockerInside: boolean;
  /** Why not, as the end of a sentence about the region, and what would help; only when it is not. */
  whyNoDocker?: string;
  saveImage: boolean;
  /** GPUs can be handed to instances. */
  gpus: boolean;
  /** `dial` reaches any port of an instance. */
  dial: boolean;
  /** `joinNetwork`: from within an instance's network, its loopback included, both ways. */
  joinNetwork: boolean;
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
  /** A Docker daemon of its own (`capabilities.dockerInside`): all that it keeps is in `storage`, a folder of the host on a disk of kind docker. */
  docker?: { storage: string } | undefined;
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
      /** As the container has them; they are published while it runs. */
      nodePorts: NodePort[];
      /** Of an instance with a Docker alone: whether its daemon is held running. It is to run when, and only when, the instance does. */
      docker?: 'running' | 'stopped';
    };

export interface OwnedObject {
  /** `docker`: the daemon beside an instance, where it is an object of its own. */
  kind: 'instance' | 'docker' | 'network' | 'image';
  /** The instance's id, also for its Docker, the account's for a network, for an image that of the instance it was saved from. */
  id: string;
  ownerId: string;
  generation: number;
  running: boolean;
  /** By which `discard` finds it again. Of a saved image it is the ref, or the engine's own id when it has lost that. */
  engineName: string;
  /** Epoch milliseconds of the engine's clock; 0 when it does not say. */
  createdAtMs: number;
  /** The image an instance was made from, as it was asked for; null for what is no instance. */
  imageRef: string | null;
  /** As an observation has it. */
  docker?: 'running' | 'stopped';
}

/** What a registry wants to see. Never in a log, a message, or the cause of a fault. */
export interface RegistryCredentials {
  username: string;
  secret: string;
}

/**
 * Progress of an image: bytes for a pull or a push, steps of a known total for a build. `done` never goes back and never passes
 * `total`; `total` is of the layers known so far, so it grows. What is there already counts for neither.
 */
export interface ImageProgress {
  text: string;
  done: number;
  /** 0 while it is not known. */
  total: number;
  unit: 'bytes' | 'steps';
}

/** What an instance used at one moment: never an older reading. Who can't be read is not in the answer. With its Docker, if it has one. */
export interface Usage {
  /** Epoch milliseconds of the engine's clock: when it was read. */
  atMs: number;
  /** When its present run began, by the same clock: counters were 0 then. 0 when it does not run, as all counters are. */
  startedAtMs: number;
  /** Mean over the `cpuOverMs` before `atMs`: since it was last asked for, and over a second at least. 0 when it does not run. */
  cpuMilli: number;
  cpuOverMs: number;
  /** Counter: a millisecond of one core is one. */
  cpuTimeMs: number;
  /** The working set: what is held by processes, and files that they read or wrote of late; not the page cache that the kernel gives back first. */
  memoryBytes: number;
  /** Null when it is not told. */
  memoryLimitBytes: number | null;
  /** Counters of all its network interfaces together. */
  receivedBytes: number;
  sentBytes: number;
  /** Counters of what came from and went to block devices: the page cache answers without one, and is written out later. Null when not told. */
  readBytes: number | null;
  writtenBytes: number | null;
  /** Threads count too, as they do for the limit. */
  processes: number | null;
  processLimit: number | null;
  /** One for each GPU it has; null when it has none, and when that can't be told. */
  gpus: GpuUsage[] | null;
  /** Null unless asked for: counting a root disk costs the host's disk a walk through all files. */
  rootDiskBytes: number | null;
}

export interface UsageOptions {
  rootDisk?: boolean;
  /** No mean of the CPU (`cpuMilli` is 0 or says nothing): nothing is waited for, and others' means go on as if nobody had asked. */
  countersOnly?: boolean;
}

/** Null is what this GPU does not tell. */
export interface GpuUsage {
  busyPercent: number | null;
  memoryUsedBytes: number | null;
  memoryTotalBytes: number | null;
  powerMilliwatts: number | null;
  temperatureCelsius: number | null;
}

/**
 * What may be read of an instance: its `console`, as long as its container is there, of which the engine keeps 10 MB at most, so that
 * the oldest lines go first; and `init`, the log of its init script, of which the first 10 MiB are kept on its root disk. That one is
 * read by commands inside (`sh`, `tail`), so only while the instance runs: `not_found` otherwise.
 */
export type LogSource = 'console' | 'init';

/** Each is a bound of its own. */
export interface LogRange {
  /** Epoch milliseconds of the engine's clock, itself included. The init script's log bears no times, so there it is no bound. */
  sinceMs?: number | undefined;
  /** Itself excluded. As `sinceMs`. */
  untilMs?: number | undefined;
  /** The last so many of what the others leave. */
  tail?: number | undefined;
}

export interface LogLine {
  /** When it was begun, in epoch milliseconds of the engine's clock; null where that isn't kept. */
  atMs: number | null;
  /** Without its end. What is no UTF-8 is shown as U+FFFD; control characters are left as they are. */
  text: string;
  /** It was longer than 16 KiB, and is its beginning. */
  cut: boolean;
}

/** How a command is begun whose streams stay open. Names and values as they are, no shell reads them. */
export interface ExecRequest {
  /** The program, looked for in PATH, and its arguments. */
  command: readonly string[];
  /** Beside what the instance has. */
  env: Readonly<Record<string, string>>;
  /** A terminal of this size; null: none, and then what it writes comes as two streams. */
  terminal: TerminalSize | null;
}

export interface TerminalSize {
  columns: number;
  rows: number;
}

/** A command that runs inside an instance, until it ends, `kill`, or the end of the instance: nobody's leaving ends it. */
export interface OpenExec {
  /**
   * Ended by the caller it ends the command's input; a terminal's own way is the byte that it takes for that. It is destroyed when
   * the command has ended; what could not be written any more is dropped.
   */
  stdin: Writable;
  /**
   * With a terminal all that it writes. Both end, whatever became of the command (`exited` says that), and hold it up, each for both, when
   * nobody reads them. One that is destroyed is read on and dropped.
   */
  stdout: Readable;
  stderr: Readable;
  /** Of one with a terminal; nothing else minds, nor one that has ended. */
  resize(size: TerminalSize): Promise<void>;
  /**
   * Its exit code, when all that it wrote is in the streams: 128 and the signal's number for one that was killed, 127 for one that isn't there,
   * 126 for one that can't be run. Rejects with an `EngineFault` when that can't be told: `not_found` when the instance ended with
   * it, `unreachable` when the way to it was lost. Nobody has to listen.
   */
  exited: Promise<number>;
  /**
   * With no signal, or KILL: kills it with its children, theirs, and whoever else is in a session of one of them. What made itself a daemon before (in a session of
   * its own, its parent gone) stays. Another signal goes to its process group, as a shell's would that has it in the foreground.
   * One that has ended is success. `rejected` where the engine can't: one on another machine.
   */
  kill(signal?: ExecSignal): Promise<void>;
}

/** A place in an instance's network, for one run of the instance. All that was opened by it ends with `close`, and with the run. */
export interface InstanceNetwork {
  /**
   * As a program inside would: names are those of the instance, and each side is ended by itself. The signal ends the opening alone.
   * Faults: `busy` when nothing listens there, `not_found` for a name that the instance does not know, `no_capacity` when too much is
   * being opened at once, `unreachable` when there is no way, and when this is over.
   */
  connect(at: InstanceAddress, signal: AbortSignal): Promise<Duplex>;
  /**
   * `host` is an address of the instance, `localhost`, or '' for all; `port` 0: any that is free. Connections come until `close`, or the
   * end of all; how many at once is for the caller to bound. Faults: `busy` when it is taken, `rejected` when it is no address of the
   * instance, `unreachable` when this is over.
   */
  listen(
    at: InstanceAddress,
    onConnection: (connection: Duplex & { remoteAddress?: string | undefined }) => void,
    signal: AbortSignal,
  ): Promise<NetworkListener>;
  /**
   * Resolves when this run of the instance is over or was told to end, the way to it is lost, or with `close`: what was opened is
   * destroyed, and nothing can be reached by it any more.
   */
  ended: Promise<void>;
  close(): void;
}

export interface InstanceAddress {
  host: string;
  port: number;
}

export interface NetworkListener {
  port: number;
  /** No more connections come; those that did go on. */
  close(): void;
}

/** A Unix socket of ours that programs in an instance connect to. */
export interface InsideSocket {
  pathInside: string;
  /** It is gone then; connections go on. */
  close(): void;
}
export type ExecSignal = 'HUP' | 'INT' | 'QUIT' | 'TERM' | 'USR1' | 'USR2' | 'KILL';

export interface ExecResult {
  exitCode: number;
  stdout: string;
  stderr: string;
}

export interface Engine {
  /** The image that has to be present, beside its own, before an instance with a Docker is ensured; absent: there is none. */
  readonly dockerImageRef?: string | undefined;
  /** Health, capacity, devices and capabilities. Throws `unreachable` when the engine does not answer. */
  probe(signal: AbortSignal): Promise<Probe>;
  /** Every object that bears this installation's label, whatever its state. Throws when it can't tell them all. */
  listOwned(signal: AbortSignal): Promise<OwnedObject[]>;
  /** One answer per id asked, in a map; never throws for an engine that is away: each is `unknown` then. */
  observe(ids: readonly InstanceId[], signal: AbortSignal): Promise<Map<InstanceId, Observation>>;
  /**
   * Makes the image present. Returns at once when it is, unless `askRegistry`: then the registry has to give it to these
   * credentials now, whoever had it before. An abort ends the download. Faults: `not_found` (no such image),
   * `denied` (needs credentials, or other ones), `unreachable` (the registry or the engine is away: only the first has the
   * reason `registryAway`), `rejected` (the image can't be used here), `no_capacity` (the disk is full).
   */
  ensureImage(
    ref: string,
    onProgress: (progress: ImageProgress) => void,
    signal: AbortSignal,
    credentials?: RegistryCredentials,
    options?: { askRegistry: boolean },
  ): Promise<void>;
  /** Brings an image of the host to its registry, under its own name. The same faults; `not_found` when it is not on the host. */
  pushImage(
    ref: string,
    onProgress: (progress: ImageProgress) => void,
    signal: AbortSignal,
    credentials?: RegistryCredentials,
  ): Promise<void>;
  /**
   * Removes an image that was saved here, under this name, after what is saved or pushed under it just now, even for a caller who
   * gave up. Absent is success. Faults: `busy` while a container uses it, `rejected` for an image that is not this installation's.
   */
  removeImage(ref: string, signal: AbortSignal): Promise<void>;
  /**
   * Brings the instance to run as `spec` says: creates it, starts it, or finishes what is half there, and replaces control
   * files that differ. An instance of ours that runs already is left running; its Docker is brought back if that was lost. Before it returns the container was started;
   * nothing is said of the software inside. Faults: `not_found` (image), `busy` (a node port is taken: `takenNodePort`, where another would help),
   * `no_capacity`, `rejected`, `unreachable`.
   */
  ensure(spec: EngineSpec, signal: AbortSignal): Promise<Observation>;
  /** Stops it, and its Docker before it; the root disk stays: SIGTERM, then SIGKILL, after `graceMs` in all. One that is absent or stopped is success. */
  halt(id: InstanceId, graceMs: number, signal: AbortSignal): Promise<void>;
  /** Removes it with its root disk, its Docker, its control files, and the account's network when it was the last there. Absent is success. */
  destroy(id: InstanceId, signal: AbortSignal): Promise<void>;
  /**
   * Keeps the root disk, of a running or stopped instance, as an image under `ref`: the image it was made from, with what was
   * changed, and nothing of what Berth brought (mounts, control files, entry point). A running one stands still meanwhile, and
   * is observed as running. An earlier image of ours with this name is replaced. It may go on when its caller gives up; what that
   * leaves is listed by `listOwned`, and `removeImage` waits for it. `sizeBytes` is of the whole image, the layers it shares included. Faults: `not_found`, `rejected` (the name is
   * another's), `no_capacity`.
   */
  saveImage(id: InstanceId, ref: string, signal: AbortSignal): Promise<{ sizeBytes: number }>;
  /**
   * Removes exactly this object that `listOwned` told of, and nothing else with it but an instance's control files. Absent is
   * success. Faults: `rejected` for what does not bear this installation's label, or is another than was told of; `busy` for a
   * network or an image that a container uses.
   */
  discard(owned: OwnedObject, signal: AbortSignal): Promise<void>;
  /** Calls `onHint` with an id whenever something may have changed. Only a hint: may be late, doubled or lost. Ends by the signal. */
  watch(onHint: (id: InstanceId) => void, signal: AbortSignal): void;
  /**
   * What there is now of a range, oldest first, but for the last words of an init script that runs on: they may be the beginning of a line.
   * Throws an `EngineFault` while it is read when the way was lost, or the signal came: an end is the end. Who doesn't read holds up nobody.
   * It holds a connection from the call on: who begins to read it and leaves off, or gives the signal, lets go of it.
   */
  logs(id: InstanceId, source: LogSource, range: LogRange, signal: AbortSignal): Promise<AsyncIterable<LogLine>>;
  /** The same, and then each new line as it is written, until the instance (or the init script) ends, or the signal: both end it quietly. */
  followLogs(
    id: InstanceId,
    source: LogSource,
    range: Omit<LogRange, 'untilMs'>,
    signal: AbortSignal,
  ): Promise<AsyncIterable<LogLine>>;
  /**
   * Begins a command inside a running instance. The signal ends the opening alone. Faults: `not_found` when it does not run, `busy` while it
   * stands still (`saveImage`), `no_capacity` when it has no room for one more process, `unreachable`. A command that isn't there is no fault.
   */
  openExec(id: InstanceId, request: ExecRequest, signal: AbortSignal): Promise<OpenExec>;
  /** Runs a command without input to its end; output is cut at 1 MiB a stream. When the signal fires it goes on inside. */
  exec(id: InstanceId, command: readonly string[], signal: AbortSignal): Promise<ExecResult>;
  /** A connection to a TCP port inside. Rejects with `busy` when nothing listens there (yet), `not_found` when it does not run. */
  dial(id: InstanceId, port: number, signal: AbortSignal): Promise<Duplex>;
  /**
   * From within the network of an instance, its loopback included, as one of its own programs. The signal ends the joining alone.
   * Faults: `rejected` where the engine can't (`capabilities.joinNetwork`), `not_found` when it does not run.
   */
  joinNetwork(id: InstanceId, signal: AbortSignal): Promise<InstanceNetwork>;
  /**
   * Listens at a path of the instance under `/etc/berth/`, until `close`, at the longest until its run ends. Whoever is root inside can
   * connect, 64 at once. The signal ends the opening alone. Faults: `not_found` when it does not run, `rejected`.
   */
  listenUnix(id: InstanceId, onConnection: (connection: Duplex) => void, signal: AbortSignal): Promise<InsideSocket>;
  /** Takes a second for those that it was not asked for before, unless only for counters. */
  usage(ids: readonly InstanceId[], signal: AbortSignal, options?: UsageOptions): Promise<Map<InstanceId, Usage>>;
  /** Lets go of connections and children; what runs keeps running. */
  stop(): Promise<void>;
}
