/**
 * # A simulated host
 *
 * The counterpart of dockerd: holds containers and outlives engine objects, so one host can serve
 * several installations or a restarted server. Methods control a simulation: crashes, outages,
 * foreign containers, ports in use.
 */
import { makeKeyedMutex, type KeyedMutex } from '../../async/mutex.ts';
import type { Duplex } from 'node:stream';
import { EngineFault } from '../../domain/regions/engine-fault.ts';
import type { Capacity } from '../../domain/regions/catalog.ts';
import { HostGpus } from './host-gpus.ts';
import type { InstanceId } from '../../domain/kernel/ids.ts';
import { containerName } from '../labels.ts';
import type { EngineSpec } from '../contract.ts';
import { realClock, type Clock, type Random } from './clock.ts';
import * as containers from './container.ts';
import type { Container } from './container.ts';
import { aborted, simulatedFault } from './injected-faults.ts';
import { defaultImages, pulledImage, type ImageSource, type StoredImage } from './images.ts';
import { Journal, emptyState, type JournalState } from './journal.ts';
import { makePair } from './pair.ts';
import { makeHostPorts, type HostPorts } from './host-ports.ts';
import { echo, makeGuests, makeHttpService, notebookAnswer, ssh, type Guests, type Service } from './services.ts';

/** Milliseconds, or a range to draw from. */
export type Span = number | readonly [fromMs: number, toMs: number];

export interface Times {
  pull: Span;
  save: Span;
  create: Span;
  start: Span;
  /** Time from start until ssh and notebook answer. */
  ready: Span;
  /** Time from start until the init script ends, unless the script sets another. */
  init: Span;
  /** Time from SIGTERM until the main process ended. */
  halt: Span;
}

export const defaultTimes: Times = { pull: 20, save: 10, create: 5, start: 5, ready: 10, init: 5, halt: 5 };

export interface HostOptions {
  clock?: Clock;
  random?: Random;
  capacity?: Capacity;
  times?: Partial<Times>;
  images?: ImageSource;
  /** Services by port, beside ssh on 22 and HTTP on 8888. */
  services?: Record<number, Service>;
  publishPorts?: boolean;
  /** Persists the host's state (`journal.ts`). */
  stateFile?: string;
}

export interface HostState {
  containers: readonly Container[];
  images: readonly (readonly [ref: string, image: StoredImage])[];
}

type Listener = (installation: string, id: InstanceId) => void;

export class SimulatedHost {
  readonly clock: Clock;
  readonly random: Random;
  readonly capacity: Capacity;
  readonly images: ImageSource;
  readonly times: Times;
  readonly mutex: KeyedMutex<string> = makeKeyedMutex({ abortError: aborted });
  readonly guests: Guests = makeGuests();
  readonly foreignNames = new Set<string>();
  /** Size of the file system of root disks; null: unknown. */
  rootDisksBytes: number | null = null;
  /** Bytes in root disks beside touched files, by instance. */
  readonly rootDiskBytes = new Map<string, number>();
  /** Killed processes of instances. */
  readonly memoryKills = new Map<string, number>();
  /** Resolves when the node ports of restored containers are open. */
  readonly restored: Promise<void>;
  readonly #state: JournalState;
  #journal: Journal | undefined;
  #serial = 0;
  readonly #gpus: HostGpus<Container>;
  #awayUntilMs = -Infinity;
  readonly #ports: HostPorts;
  readonly #streams = new Map<string, Set<Duplex>>();
  readonly #attached = new Map<Container, Set<(fault: EngineFault) => void>>();
  readonly #listeners = new Set<Listener>();
  readonly #services: Map<number, Service>;
  readonly #http = makeHttpService();
  readonly #end = new AbortController();

  constructor(options: HostOptions = {}) {
    this.clock = options.clock ?? realClock;
    this.random = options.random ?? Math.random;
    this.capacity = options.capacity ?? { cpuMilli: 64_000, memoryMiB: 262_144, gpus: {} };
    this.#gpus = new HostGpus(() => this.capacity.gpus);
    this.times = { ...defaultTimes, ...options.times };
    this.images = options.images ?? defaultImages;
    this.#services = new Map<number, Service>([
      [22, ssh],
      [8888, this.#http],
      ...Object.entries(options.services ?? {}).map(([port, service]): [number, Service] => [Number(port), service]),
    ]);
    this.#ports = makeHostPorts({ publish: options.publishPorts ?? false });
    this.#journal = options.stateFile === undefined ? undefined : new Journal(options.stateFile);
    this.#state = this.#journal?.state ?? emptyState();
    this.restored = this.#restore();
  }

  spanMs(span: Span): number {
    if (typeof span === 'number') return span;
    const [fromMs, toMs] = span;
    return Math.round(fromMs + this.random() * (toMs - fromMs));
  }

  /** The installation's container, with due events applied. */
  find(installation: string, id: InstanceId): Container | undefined {
    const container = this.#state.containers.get(containerName(id));
    if (container === undefined || container.installation !== installation) return undefined;
    this.#applyDue(container);
    return container;
  }

  *all(installation: string): Generator<Container> {
    for (const container of this.#state.containers.values()) {
      if (container.installation !== installation) continue;
      this.#applyDue(container);
      yield container;
    }
  }

  /** Throws `rejected` if the name is taken. */
  create(installation: string, spec: EngineSpec): Container {
    const name = containerName(spec.id);
    if (this.foreignNames.has(name) || this.#state.containers.has(name)) {
      const text = `a container named ${name} exists and does not belong to this installation; remove or rename it`;
      throw simulatedFault('rejected', text, { reason: 'nameTaken' });
    }
    const image = this.#state.images.get(spec.imageRef);
    if (image === undefined) {
      throw simulatedFault('not_found', `no such image on the host: ${spec.imageRef}`, { reason: 'imageMissing' });
    }
    const nowMs = this.clock.now();
    const container = containers.makeContainer(installation, spec, ++this.#serial, image.rootDisk, nowMs);
    this.#state.containers.set(name, container);
    this.persist(container);
    return container;
  }

  /** Opens ports, then starts. Throws `busy` for a taken port, `no_capacity` for GPUs. */
  async start(container: Container): Promise<void> {
    const { spec } = container;
    const name = containerName(spec.id);
    this.#gpus.check(spec.gpus, spec.gpuName);
    this.#gpus.take(container, spec.gpus, spec.gpuName);
    try {
      await this.#ports.open(name, spec.nodePortAddress, spec.nodePorts, (port) => this.connect(container, port));
      if (this.#state.containers.get(name) !== container) {
        await this.#ports.close(name, spec.nodePorts);
        throw simulatedFault('unreachable', `${name} was lost during its start`);
      }
    } catch (fault) {
      this.#gpus.giveBack(container);
      throw container.startedAtMs > 0 ? withoutOtherPort(fault) : fault;
    }
    const { ready, init } = this.times;
    const nowMs = this.clock.now();
    containers.start(container, { nowMs, readyMs: this.spanMs(ready), initMs: this.spanMs(init) });
    this.persist(container);
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
    if (!this.#state.containers.delete(name)) return;
    this.#journal?.record({ gone: name });
    this.hint(container);
  }

  /** Empties the root disk of a container that starts again. */
  renew(container: Container, spec: Container['spec']): void {
    const rootDisk = this.image(spec.imageRef)?.rootDisk ?? [];
    Object.assign(container, { spec, touchedFiles: new Set(rootDisk), init: undefined, initLog: [] });
  }

  persist(container: Container): void {
    this.#journal?.put(container);
  }

  image = (ref: string): StoredImage | undefined => this.#state.images.get(ref);

  allImages = (): Iterable<[ref: string, image: StoredImage]> => this.#state.images.entries();

  addImage(ref: string, image: StoredImage = pulledImage()): void {
    this.#state.images.set(ref, image);
    this.#journal?.record({ image: ref, ...image });
  }

  usesImage(ref: string): boolean {
    for (const { spec } of this.#state.containers.values()) if (spec.imageRef === ref) return true;
    return false;
  }

  pushed = (ref: string): StoredImage | undefined => this.#state.pushed.get(ref);

  addPushed(ref: string, image: StoredImage): void {
    this.#state.pushed.set(ref, image);
    this.#journal?.record({ pushed: ref, ...image });
  }

  /** Connects to a listening service; undefined if there is none (yet). */
  connect(container: Container, port: number, { fromLoopback = false } = {}): Duplex | undefined {
    this.#applyDue(container);
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

  /** Connects to one of Berth's Unix sockets, as a program inside would. */
  connectUnix(container: Container, path: string): Duplex | undefined {
    const guest = this.guests.at(container, path);
    return guest && this.#open(container, guest.accept);
  }

  neighbourAt(from: Container, address: string): Container | undefined {
    for (const other of this.all(from.installation))
      if (other.spec.ownerId === from.spec.ownerId && containers.addressOf(other) === address) return other;
    return undefined;
  }

  /** Whether the instance has a service on the port, ready or not. */
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
    inside.on('error', () => {});
    inside.on('close', () => {
      streams.delete(inside);
      if (streams.size === 0 && this.#streams.get(name) === streams) this.#streams.delete(name);
    });
    accept(inside);
    return outside;
  }

  /** Calls back when the container ends or is unreachable. Returns a function to detach. */
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

  /** No engine reaches the host for `ms`; containers keep running. */
  goAway(ms: number): void {
    this.#awayUntilMs = this.clock.now() + ms;
    for (const container of this.#attached.keys())
      this.#loseAttached(container, simulatedFault('unreachable', 'the simulated host does not answer'));
  }

  comeBack(): void {
    this.#awayUntilMs = -Infinity;
  }

  async crash(id: InstanceId, exitCode = 137): Promise<void> {
    const container = this.#state.containers.get(containerName(id));
    if (container?.state === 'running') await this.end(container, exitCode);
  }

  setDocker(id: InstanceId, docker: 'running' | 'stopped'): void {
    const container = this.#state.containers.get(containerName(id));
    if (container?.docker === undefined || container.docker === docker) return;
    container.docker = docker;
    this.persist(container);
    this.hint(container);
  }

  /** Loses the container with its root disk. */
  async forget(id: InstanceId): Promise<void> {
    const container = this.#state.containers.get(containerName(id));
    if (container !== undefined) await this.remove(container);
  }

  async forgetAll(): Promise<void> {
    for (const container of this.#state.containers.values()) await this.remove(container);
    for (const ref of this.#state.images.keys()) this.dropImage(ref);
  }

  /** Power cut: everything is stored, nothing runs. */
  async reboot(): Promise<void> {
    for (const container of this.#state.containers.values()) {
      this.setDocker(container.spec.id, 'stopped');
      if (container.state === 'running') await this.end(container, 255);
    }
  }

  saveState(): HostState {
    const containers = structuredClone([...this.#state.containers.values()]);
    return { containers, images: [...this.#state.images] };
  }

  /** Restores a backup: newer objects are gone, removed ones are back, nothing runs. */
  async restoreState({ containers: before, images }: HostState): Promise<void> {
    await this.forgetAll();
    for (const [ref, image] of images) this.addImage(ref, image);
    for (const saved of before) {
      const container = structuredClone(saved);
      if (container.state === 'running') containers.end(container, this.clock.now(), 255);
      container.docker &&= 'stopped';
      this.#state.containers.set(containerName(container.spec.id), container);
      this.persist(container);
      this.hint(container);
    }
  }

  holds = (id: InstanceId): boolean => this.#state.containers.has(containerName(id));

  dropImage(ref: string): void {
    if (this.#state.images.delete(ref)) this.#journal?.record({ imageGone: ref });
  }

  isForeign(installation: string, name: string): boolean {
    const holder = this.#state.containers.get(name);
    return this.foreignNames.has(name) || (holder !== undefined && holder.installation !== installation);
  }

  takePort(nodePort: number): void {
    this.#ports.occupy(nodePort);
  }

  freePort(nodePort: number): void {
    this.#ports.free(nodePort);
  }

  /** Closes listeners, connections, sleepers and the file; containers stay recorded as running. */
  async stop(): Promise<void> {
    this.#end.abort();
    for (const container of this.#attached.keys())
      this.#loseAttached(container, simulatedFault('unreachable', 'the simulated host was stopped'));
    await this.restored;
    await this.#ports.stop();
    for (const streams of this.#streams.values()) for (const stream of streams) stream.destroy();
    this.#journal?.close();
    this.#journal = undefined;
  }

  #applyDue(container: Container): void {
    if (containers.catchUp(container, this.clock.now())) void this.#ended(container);
  }

  /** Applies the end at once; the promise covers the ports and never rejects. */
  #ended(container: Container): Promise<void> {
    this.#gpus.giveBack(container);
    const name = containerName(container.spec.id);
    this.guests.closeAll(container);
    for (const stream of this.#streams.get(name) ?? []) stream.destroy();
    this.#loseAttached(container, simulatedFault('not_found', `${container.spec.id} has ended`));
    this.persist(container);
    this.hint(container);
    return this.#ports.close(name, container.spec.nodePorts);
  }

  #loseAttached(container: Container, fault: EngineFault): void {
    for (const lose of this.#attached.get(container) ?? []) lose(fault);
  }

  /** Schedules the next event of a script, for the hint. Others cost no timer. */
  #schedule(container: Container): void {
    const nowMs = this.clock.now();
    const atMs = containers.nextEventMs(container, nowMs);
    if (atMs === undefined || this.#end.signal.aborted) return;
    const wake = (): void => {
      if (this.#state.containers.get(containerName(container.spec.id)) !== container) return;
      const wasRunning = container.state === 'running';
      this.#applyDue(container);
      if (container.state === 'running') {
        this.hint(container);
        this.#schedule(container);
      } else if (wasRunning) this.hint(container);
    };
    this.clock.sleep(atMs - nowMs, this.#end.signal).then(wake, () => {});
  }

  gpusOf = (container: Container): readonly number[] => this.#gpus.of(container);

  async #restore(): Promise<void> {
    for (const container of this.#state.containers.values()) {
      this.#serial = Math.max(this.#serial, container.serial);
      if (container.state === 'running') this.#gpus.take(container, container.spec.gpus, container.spec.gpuName);
      this.#applyDue(container);
      if (container.state !== 'running') continue;
      const { nodePorts, nodePortAddress, id } = container.spec;
      const dial = (port: number): Duplex | undefined => this.connect(container, port);
      // If another program took a port meanwhile, the container ends, as on a real host.
      await this.#ports.open(containerName(id), nodePortAddress, nodePorts, dial).catch(() => this.end(container, 255));
      this.#schedule(container);
    }
  }
}

/** A container that ran keeps its root disk and ports, so another port would not help. */
const withoutOtherPort = (fault: unknown): unknown =>
  fault instanceof EngineFault && fault.takenNodePort !== undefined
    ? simulatedFault('busy', fault.message, { reason: 'portTaken' })
    : fault;
