/**
 * # A simulated host
 *
 * What dockerd is to Docker: it holds the containers, and outlives the engine objects that talk to it, so one host can have several
 * (several installations, a server that comes back). It is also the control panel of a simulation: whatever happens to a host by
 * itself or by others (a crash, an outage, a stranger with our name, a node port that another program took) is a method of it.
 */
import { makeKeyedMutex, type KeyedMutex } from '../../async/mutex.ts';
import type { Duplex } from 'node:stream';
import { EngineFault } from '../../domain/engine-fault.ts';
import type { Capacity } from '../../domain/catalog.ts';
import type { InstanceId } from '../../domain/ids.ts';
import { containerName } from '../labels.ts';
import type { EngineSpec } from '../contract.ts';
import { realClock, type Clock } from './clock.ts';
import * as containers from './container.ts';
import type { Container } from './container.ts';
import { givenUp, simulatedFault } from './faults.ts';
import { defaultImages, pulledImage, type ImageSource, type KeptImage } from './images.ts';
import { Journal, nothing, type Kept } from './journal.ts';
import { makeGuests, type Guests } from './guests.ts';
import { makePair } from './pair.ts';
import { makePorts, type Ports } from './ports.ts';
import type { Random } from './random.ts';
import { echo, makeHttpService, ssh, type Service } from './services.ts';
import { notebookAnswer } from './uses.ts';

/** Milliseconds, or a range of which a number is drawn each time. */
export type Span = number | readonly [fromMs: number, toMs: number];

export interface Times {
  /** Of an image, or its push. */
  pull: Span;
  /** Of a root disk as an image. */
  save: Span;
  create: Span;
  start: Span;
  /** From the start until ssh and the notebook answer. */
  ready: Span;
  /** From the start until an init script ends that doesn't say how long it takes. */
  init: Span;
  /** From SIGTERM until the main process has ended. */
  halt: Span;
}

export const defaultTimes: Times = { pull: 20, save: 10, create: 5, start: 5, ready: 10, init: 5, halt: 5 };

export interface HostOptions {
  clock?: Clock;
  /** Drawn from for spans and pretended load. */
  random?: Random;
  capacity?: Capacity;
  times?: Partial<Times>;
  images?: ImageSource;
  /** What listens in each instance, by port, beside ssh on 22 and HTTP on 8888. */
  services?: Record<number, Service>;
  /** Listen on node ports for real. */
  publishPorts?: boolean;
  /** Keeps what the host holds across restarts of the process; see `journal.ts`. */
  stateFile?: string;
}

/** What a host held at a moment, to go back to. */
export interface Memory {
  containers: readonly Container[];
  images: readonly (readonly [ref: string, image: KeptImage])[];
}

const copyOf = (container: Container): Container => ({
  ...container,
  spec: structuredClone(container.spec),
  rootDisk: new Set(container.rootDisk),
  init: container.init && { ...container.init },
  console: [...container.console],
  initLog: [...container.initLog],
});

type Listener = (installation: string, id: InstanceId) => void;

export class SimulatedHost {
  readonly clock: Clock;
  readonly random: Random;
  readonly capacity: Capacity;
  readonly images: ImageSource;
  readonly times: Times;
  readonly mutex: KeyedMutex<string> = makeKeyedMutex({ abortError: givenUp });
  readonly guests: Guests = makeGuests();
  /** Settled when the node ports of what ran before are open again. */
  readonly restored: Promise<void>;
  #kept: Kept = nothing();
  #journal: Journal | undefined;
  #serial = 0;
  #gpusUsed = 0;
  #awayUntilMs = -Infinity;
  readonly #ports: Ports;
  readonly #strangers = new Set<string>();
  readonly #streams = new Map<string, Set<Duplex>>();
  readonly #attached = new Map<Container, Set<(fault: EngineFault) => void>>();
  readonly #listeners = new Set<Listener>();
  readonly #services: Map<number, Service>;
  readonly #http = makeHttpService();
  readonly #end = new AbortController();

  constructor(options: HostOptions = {}) {
    this.clock = options.clock ?? realClock;
    this.random = options.random ?? Math.random;
    this.capacity = options.capacity ?? { cpuMilli: 64_000, memoryMiB: 262_144, gpus: 0 };
    this.times = { ...defaultTimes, ...options.times };
    this.images = options.images ?? defaultImages;
    this.#services = new Map<number, Service>([
      [22, ssh],
      [8888, this.#http],
      ...Object.entries(options.services ?? {}).map(([port, service]): [number, Service] => [Number(port), service]),
    ]);
    this.#ports = makePorts({ publish: options.publishPorts ?? false });
    if (options.stateFile !== undefined) {
      const { journal, kept } = Journal.open(options.stateFile, ({ spec }) => containerName(spec.id));
      this.#journal = journal;
      this.#kept = kept;
    }
    this.restored = this.#restore();
  }

  /** Draws from a span. */
  spanMs(span: Span): number {
    if (typeof span === 'number') return span;
    const [fromMs, toMs] = span;
    return Math.round(fromMs + this.random() * (toMs - fromMs));
  }

  // ---- what engines ask of it

  /** The container of that id, if it is this installation's, brought to the present. */
  find(installation: string, id: InstanceId): Container | undefined {
    const container = this.#kept.containers.get(containerName(id));
    if (container === undefined || container.installation !== installation) return undefined;
    this.#look(container);
    return container;
  }

  *all(installation: string): Generator<Container> {
    for (const container of this.#kept.containers.values()) {
      if (container.installation !== installation) continue;
      this.#look(container);
      yield container;
    }
  }

  /** Throws `rejected` when somebody else holds the name. */
  create(installation: string, spec: EngineSpec): Container {
    const name = containerName(spec.id);
    if (this.#strangers.has(name) || this.#kept.containers.has(name)) {
      throw simulatedFault(
        'rejected',
        `a container named ${name} exists that is not of this installation; remove or rename it`,
        { reason: 'nameTaken' },
      );
    }
    const image = this.#kept.images.get(spec.imageRef);
    if (image === undefined) {
      throw simulatedFault('not_found', `no such image here: ${spec.imageRef}`, { reason: 'imageMissing' });
    }
    const nowMs = this.clock.now();
    const container = containers.makeContainer(installation, spec, ++this.#serial, image.rootDisk, nowMs);
    this.#kept.containers.set(name, container);
    this.keep(container);
    return container;
  }

  /** Starts it, ports first. Throws `busy` when one is taken, `no_capacity` when too few GPUs are free. */
  async start(container: Container): Promise<void> {
    const { spec } = container;
    const name = containerName(spec.id);
    if (spec.gpus > 0) this.#checkGpus(spec.gpus);
    this.#gpusUsed += spec.gpus;
    try {
      await this.#ports.open(name, spec.nodePortAddress, spec.nodePorts, (port) => this.connect(container, port));
      if (this.#kept.containers.get(name) !== container) {
        await this.#ports.close(name, spec.nodePorts);
        throw simulatedFault('unreachable', `${name} was lost while it was started`);
      }
    } catch (fault) {
      this.#gpusUsed -= spec.gpus;
      throw container.startedAtMs > 0 ? keepingPorts(fault) : fault;
    }
    const { ready, init } = this.times;
    const nowMs = this.clock.now();
    containers.start(container, { nowMs, readyMs: this.spanMs(ready), initMs: this.spanMs(init) });
    this.keep(container);
    this.#schedule(container);
    this.hint(container);
  }

  async end(container: Container, exitCode: number): Promise<void> {
    containers.end(container, this.clock.now(), exitCode);
    await this.#ended(container);
  }

  async remove(container: Container): Promise<void> {
    const name = containerName(container.spec.id);
    if (container.state === 'running') await this.end(container, 137);
    if (!this.#kept.containers.delete(name)) return;
    this.#journal?.remove(name, this.#kept);
    this.hint(container);
  }

  /** Writes down that it was changed. */
  keep(container: Container): void {
    this.#journal?.put(container, this.#kept);
  }

  image = (ref: string): KeptImage | undefined => this.#kept.images.get(ref);

  allImages = (): Iterable<[ref: string, image: KeptImage]> => this.#kept.images.entries();

  addImage(ref: string, image: KeptImage = pulledImage()): void {
    this.#kept.images.set(ref, image);
    this.#journal?.putImage(ref, image, this.#kept);
  }

  usesImage(ref: string): boolean {
    for (const { spec } of this.#kept.containers.values()) if (spec.imageRef === ref) return true;
    return false;
  }

  /** What its registry was given under this ref. */
  pushed = (ref: string): KeptImage | undefined => this.#kept.pushed.get(ref);

  addPushed(ref: string, image: KeptImage): void {
    this.#kept.pushed.set(ref, image);
    this.#journal?.putPushed(ref, image, this.#kept);
  }

  /** A connection to what listens there; undefined when nothing does (yet). */
  connect(container: Container, port: number, { fromLoopback = false } = {}): Duplex | undefined {
    this.#look(container);
    if (container.state !== 'running') return undefined;
    const guest = this.guests.at(container, port);
    const found = guest ?? (containers.isReady(container, this.clock.now()) && this.#serviceOf(container, port));
    if (!found || (found.onLoopback && !fromLoopback)) return undefined;
    return this.#open(container, (inside) => {
      if (guest !== undefined) return guest.accept(inside);
      const notebook = (what: string): object | undefined => notebookAnswer(container, what, this.clock.now());
      const { id: instanceId, hostname } = container.spec;
      if ('service' in found) found.service(inside, { instanceId, hostname, port, notebook });
    });
  }

  /** A connection to a Unix socket of ours, as a program inside would make it. */
  connectUnix(container: Container, path: string): Duplex | undefined {
    const guest = this.guests.at(container, path);
    return guest && this.#open(container, guest.accept);
  }

  /** Another instance of the account, by its address. */
  neighbourAt(from: Container, address: string): Container | undefined {
    for (const other of this.all(from.installation))
      if (other.spec.ownerId === from.spec.ownerId && containers.addressOf(other) === address) return other;
    return undefined;
  }

  /** Whether a program of the instance listens there, or will when it is ready. */
  hasService = (container: Container, port: number): boolean => this.#serviceOf(container, port) !== undefined;

  #serviceOf(container: Container, port: number): { service: Service; onLoopback: boolean } | undefined {
    const { listens, hasSsh } = container.script;
    const scripted = listens.get(port);
    if (scripted) return { service: scripted.what === 'echo' ? echo : this.#http, onLoopback: scripted.onLoopback };
    const service = port === 22 && !hasSsh ? undefined : this.#services.get(port);
    return service && { service, onLoopback: false };
  }

  #open(container: Container, accept: (inside: Duplex) => void): Duplex {
    const [inside, outside] = makePair();
    const name = containerName(container.spec.id);
    const streams = this.#streams.get(name) ?? new Set();
    this.#streams.set(name, streams.add(inside));
    inside.on('error', () => {}); // the caller went away; nobody inside minds
    inside.on('close', () => {
      streams.delete(inside);
      if (streams.size === 0 && this.#streams.get(name) === streams) this.#streams.delete(name);
    });
    accept(inside);
    return outside;
  }

  /** Whoever holds on to it hears when it ends, or is out of reach. Answers with how to let go. */
  attach(container: Container, lose: (fault: EngineFault) => void): () => void {
    const all = this.#attached.get(container) ?? new Set();
    this.#attached.set(container, all.add(lose));
    return () => {
      if (all.delete(lose) && all.size === 0 && this.#attached.get(container) === all) this.#attached.delete(container);
    };
  }

  listen(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  hint({ installation, spec }: Container): void {
    if (!this.away) for (const listener of this.#listeners) listener(installation, spec.id);
  }

  get away(): boolean {
    return this.clock.now() < this.#awayUntilMs;
  }

  // ---- what may befall it

  /** No engine reaches it for that long; what runs keeps running. */
  goAway(ms: number): void {
    this.#awayUntilMs = this.clock.now() + ms;
    for (const container of this.#attached.keys())
      this.#cut(container, simulatedFault('unreachable', 'the simulated host does not answer'));
  }

  comeBack(): void {
    this.#awayUntilMs = -Infinity;
  }

  /** The main process of an instance ends by itself, or by another's hand. */
  async crash(id: InstanceId, exitCode = 137): Promise<void> {
    const container = this.#kept.containers.get(containerName(id));
    if (container?.state === 'running') await this.end(container, exitCode);
  }

  /** The Docker beside an instance ends, or begins, by another's hand. */
  setDocker(id: InstanceId, docker: 'running' | 'stopped'): void {
    const container = this.#kept.containers.get(containerName(id));
    if (container?.docker === undefined || container.docker === docker) return;
    container.docker = docker;
    this.keep(container);
    this.hint(container);
  }

  /** The container is lost, root disk included, as if it had never been. */
  async forget(id: InstanceId): Promise<void> {
    const container = this.#kept.containers.get(containerName(id));
    if (container !== undefined) await this.remove(container);
  }

  /** The host was set up anew: all containers and images are lost. */
  async forgetAll(): Promise<void> {
    for (const container of this.#kept.containers.values()) await this.remove(container);
    for (const ref of this.#kept.images.keys()) this.dropImage(ref);
  }

  /** The host came up again after a power cut: everything is there, nothing runs. */
  async reboot(): Promise<void> {
    for (const container of this.#kept.containers.values()) {
      this.setDocker(container.spec.id, 'stopped');
      if (container.state === 'running') await this.end(container, 255);
    }
  }

  /** What it holds now, for `goBackTo`. */
  remember(): Memory {
    const containers = [...this.#kept.containers.values()].map(copyOf);
    return { containers, images: [...this.#kept.images] };
  }

  /** The host was restored from a backup: what was made since is gone, what was removed since is there again, nothing runs. */
  async goBackTo({ containers: before, images }: Memory): Promise<void> {
    await this.forgetAll();
    for (const [ref, image] of images) this.addImage(ref, image);
    for (const one of before) {
      const container = copyOf(one);
      if (container.state === 'running') containers.end(container, this.clock.now(), 255);
      container.docker &&= 'stopped';
      this.#kept.containers.set(containerName(container.spec.id), container);
      this.keep(container);
      this.hint(container);
    }
  }

  /** Whoever it belongs to. */
  holds = (id: InstanceId): boolean => this.#kept.containers.has(containerName(id));

  dropImage(ref: string): void {
    if (this.#kept.images.delete(ref)) this.#journal?.removeImage(ref, this.#kept);
  }

  /** A container that is none of ours holds this name. */
  addStranger(name: string): void {
    this.#strangers.add(name);
  }

  /** Whether somebody else's container has the name. */
  isStrangers(installation: string, name: string): boolean {
    const holder = this.#kept.containers.get(name);
    return this.#strangers.has(name) || (holder !== undefined && holder.installation !== installation);
  }

  hasStranger = (name: string): boolean => this.#strangers.has(name);

  removeStranger(name: string): void {
    this.#strangers.delete(name);
  }

  /** Another program of the host holds this node port. */
  takePort(nodePort: number): void {
    this.#ports.take(nodePort);
  }

  freePort(nodePort: number): void {
    this.#ports.free(nodePort);
  }

  /** Lets go of everything real: listeners, connections, sleepers, the file. What ran is in the file as running. */
  async stop(): Promise<void> {
    this.#end.abort();
    for (const container of this.#attached.keys())
      this.#cut(container, simulatedFault('unreachable', 'the simulated host was stopped'));
    await this.restored;
    await this.#ports.stop();
    for (const streams of this.#streams.values()) for (const stream of streams) stream.destroy();
    this.#journal?.close();
    this.#journal = undefined;
  }

  // ---- inwards

  /** What was due since the last look. */
  #look(container: Container): void {
    if (containers.catchUp(container, this.clock.now())) void this.#ended(container);
  }

  /** What can fail is done at once; the promise is of the ports, and never rejects. */
  #ended(container: Container): Promise<void> {
    this.#gpusUsed -= container.spec.gpus;
    const name = containerName(container.spec.id);
    this.guests.forget(container);
    for (const stream of this.#streams.get(name) ?? []) stream.destroy();
    this.#cut(container, simulatedFault('not_found', `${container.spec.id} has ended`));
    this.keep(container);
    this.hint(container);
    return this.#ports.close(name, container.spec.nodePorts);
  }

  #cut(container: Container, fault: EngineFault): void {
    for (const lose of this.#attached.get(container) ?? []) lose(fault);
  }

  /** Looks again when something of its script is due, so that a hint goes out. Those without a script cost no timer. */
  #schedule(container: Container): void {
    const nowMs = this.clock.now();
    const atMs = containers.nextEventMs(container, nowMs);
    if (atMs === undefined || this.#end.signal.aborted) return;
    const again = (): void => {
      if (this.#kept.containers.get(containerName(container.spec.id)) !== container) return;
      const wasRunning = container.state === 'running';
      this.#look(container);
      if (container.state === 'running') {
        this.hint(container);
        this.#schedule(container);
      } else if (wasRunning) this.hint(container);
    };
    this.clock.sleep(atMs - nowMs, this.#end.signal).then(again, () => {});
  }

  #checkGpus(wanted: number): void {
    const { gpus } = this.capacity;
    const free = gpus - this.#gpusUsed;
    if (wanted > free) {
      const text = `${wanted} GPUs are asked for, ${free} of ${gpus} are free`;
      throw simulatedFault('no_capacity', text, { reason: wanted > gpus ? 'gpuMissing' : 'gpuBusy' });
    }
  }

  async #restore(): Promise<void> {
    for (const container of this.#kept.containers.values()) {
      this.#serial = Math.max(this.#serial, container.serial);
      if (container.state === 'running') this.#gpusUsed += container.spec.gpus;
      this.#look(container);
      if (container.state !== 'running') continue;
      const { nodePorts, nodePortAddress, id } = container.spec;
      const dial = (port: number): Duplex | undefined => this.connect(container, port);
      // A port that another program took in between: the container ends, as it would on a real host that comes up again.
      await this.#ports.open(containerName(id), nodePortAddress, nodePorts, dial).catch(() => this.end(container, 255));
      this.#schedule(container);
    }
  }
}

/** One that has run keeps its root disk, and with it its ports: another one would not help it. */
const keepingPorts = (fault: unknown): unknown =>
  fault instanceof EngineFault && fault.takenNodePort !== undefined
    ? simulatedFault('busy', fault.message, { reason: 'portTaken' })
    : fault;
