/**
 * Connection pools, one per instance and port, so bytes of one never reach another.
 *
 * The notebook port is dialed repeatedly: Jupyter takes seconds to listen. A port that stayed
 * closed for the whole patience is dialed once per request until it answers.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Duplex } from 'node:stream';
import type { GatewayRoute } from '../../control/index.ts';
import { EngineFault } from '../../domain/regions/engine-fault.ts';
import type { InstanceId } from '../../domain/kernel/ids.ts';
import { NOTEBOOK_PORT } from '../../domain/access/port-access.ts';
import { InstanceConnection, type ConnectionDeps } from './instance-connection.ts';
import type { GatewayLimits } from './gateway-limits.ts';
import type { PortAddress } from './routing.ts';

/** Pause between dials: a tenth of the time that the port has been closed, within these bounds. */
const SHORTEST_WAIT_MS = 40;
const LONGEST_WAIT_MS = 1_000;

export interface Dialled {
  instanceId: InstanceId;
  port: number;
  /** A connection to loopback is never reused once the owner closes it to the gateway. */
  opensLoopback: boolean;
}

type Dial = (to: Dialled, signal: AbortSignal) => Promise<Duplex>;

/** States in which a notebook does not come, or after a cause is mended. */
const NOT_AWAITED: ReadonlySet<string | undefined> = new Set(['none', 'failed', 'command']);

const keyOf = ({ port, opensLoopback }: Omit<Dialled, 'instanceId'>): string =>
  opensLoopback ? `loopback ${port}` : String(port);

export class InstancePools {
  readonly #pools = new Map<InstanceId, Map<string, PortPool>>();
  readonly #active = new Map<InstanceId, number>();
  readonly #dial: Dial;
  readonly #limits: GatewayLimits;
  readonly #elapsed: () => number;
  readonly #stopping = new AbortController();
  readonly #sweep: NodeJS.Timeout;

  constructor(deps: { dial: Dial; limits: GatewayLimits; elapsed: () => number }) {
    this.#dial = deps.dial;
    this.#limits = deps.limits;
    this.#elapsed = deps.elapsed;
    const { idlePoolMs, idleConnectionMs } = deps.limits;
    this.#sweep = setInterval(() => this.#closeIdle(), Math.max(50, Math.min(idlePoolMs, idleConnectionMs) / 2));
    this.#sweep.unref();
  }

  /** Acquires a slot of the concurrency limits; null if none is free. Release by `release`. */
  acquire(
    { instanceId, port }: PortAddress,
    { access, notebook }: Pick<GatewayRoute, 'access' | 'notebook'>,
  ): PortPool | null {
    const opensLoopback = access.get(port) === 'loopback';
    let ports = this.#pools.get(instanceId);
    if (ports === undefined) this.#pools.set(instanceId, (ports = new Map()));
    const key = keyOf({ port, opensLoopback });
    let entry = ports.get(key);
    if (entry === undefined) {
      entry = new PortPool(
        { instanceId, port, opensLoopback },
        {
          dial: (pool) => this.#dialPatiently(pool),
          maxHeaderBytes: this.#limits.maxHeaderBytes,
          idleMs: this.#limits.idleConnectionMs,
          elapsed: this.#elapsed,
        },
      );
      ports.set(key, entry);
    }
    entry.isPatient = port === NOTEBOOK_PORT && !NOT_AWAITED.has(notebook?.state);
    const ofInstance = this.#active.get(instanceId) ?? 0;
    if (entry.active >= this.#limits.perPort || ofInstance >= this.#limits.perInstance) return null;
    entry.active += 1;
    this.#active.set(instanceId, ofInstance + 1);
    return entry;
  }

  release(entry: PortPool): void {
    entry.active -= 1;
    entry.usedAtMs = this.#elapsed();
    const left = (this.#active.get(entry.instanceId) ?? 1) - 1;
    if (left === 0) this.#active.delete(entry.instanceId);
    else this.#active.set(entry.instanceId, left);
  }

  /** Closes the idle connections of a stopped instance. Running requests end by themselves. */
  closeInstance(instanceId: InstanceId): void {
    for (const entry of this.#pools.get(instanceId)?.values() ?? []) if (entry.active === 0) this.#close(entry);
  }

  stop(): void {
    clearInterval(this.#sweep);
    this.#stopping.abort();
    for (const entry of this.#all()) this.#close(entry);
  }

  async #dialPatiently(entry: PortPool): Promise<Duplex> {
    const patienceMs = entry.isPatient ? this.#limits.notebookPatienceMs : 0;
    for (;;) {
      try {
        const stream = await this.#dialOnce(entry);
        entry.closedSinceMs = null;
        if (!this.#stopping.signal.aborted) return stream;
        stream.destroy();
        throw new Error('the gateway is stopping');
      } catch (error) {
        if (!(error instanceof EngineFault) || error.kind !== 'busy') throw error;
        entry.closedSinceMs ??= this.#elapsed();
        const closedMs = this.#elapsed() - entry.closedSinceMs;
        const leftMs = Math.max(patienceMs - closedMs, entry.patientUntilMs - this.#elapsed());
        if (leftMs <= 0) throw error;
        const waitMs = Math.min(Math.max(SHORTEST_WAIT_MS, closedMs / 10), LONGEST_WAIT_MS);
        await delay(Math.min(waitMs, leftMs), undefined, { signal: this.#stopping.signal });
      }
    }
  }

  async #dialOnce({ instanceId, port, opensLoopback }: PortPool): Promise<Duplex> {
    const { signal } = this.#stopping;
    signal.throwIfAborted();
    const ending = new AbortController();
    const end = (): void => ending.abort(signal.reason);
    const timer = setTimeout(
      () => ending.abort(new DOMException('the connection took too long', 'TimeoutError')),
      this.#limits.dialMs,
    );
    signal.addEventListener('abort', end, { once: true });
    try {
      return await this.#dial({ instanceId, port, opensLoopback }, ending.signal);
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
    }
  }

  #closeIdle(): void {
    const before = this.#elapsed() - this.#limits.idlePoolMs;
    for (const entry of this.#all()) {
      if (entry.active === 0 && entry.usedAtMs <= before) this.#close(entry);
      else entry.closeOld();
    }
  }

  *#all(): Iterable<PortPool> {
    for (const ports of this.#pools.values()) yield* ports.values();
  }

  #close(entry: PortPool): void {
    const ports = this.#pools.get(entry.instanceId);
    ports?.delete(keyOf(entry));
    if (ports?.size === 0) this.#pools.delete(entry.instanceId);
    entry.destroy();
  }
}

/** Connections to one port, reused last-in first-out so that surplus ones age. */
export class PortPool {
  readonly instanceId: InstanceId;
  readonly port: number;
  readonly opensLoopback: boolean;
  active = 0;
  usedAtMs: number;
  /** A notebook's port may still open. */
  isPatient = false;
  /** When the port was first found closed since it last answered. */
  closedSinceMs: number | null = null;
  /** Dials repeat until then: a request has started the instance. */
  patientUntilMs = 0;
  readonly #dial: (pool: PortPool) => Promise<Duplex>;
  readonly #deps: ConnectionDeps;
  readonly #all = new Set<InstanceConnection>();
  readonly #resting: InstanceConnection[] = [];

  constructor(
    { instanceId, port, opensLoopback }: Dialled,
    deps: Omit<ConnectionDeps, 'onIdle' | 'onGone'> & { dial: (pool: PortPool) => Promise<Duplex> },
  ) {
    this.instanceId = instanceId;
    this.port = port;
    this.opensLoopback = opensLoopback;
    this.usedAtMs = deps.elapsed();
    this.#dial = deps.dial;
    this.#deps = {
      ...deps,
      onIdle: (connection) => void this.#resting.push(connection),
      onGone: (connection) => this.#forget(connection),
    };
  }

  dial(): Promise<Duplex> {
    return this.#dial(this);
  }

  takeIdle(): InstanceConnection | null {
    for (let found = this.#resting.pop(); found !== undefined; found = this.#resting.pop()) {
      if (found.isGood()) return found;
      found.destroy();
    }
    return null;
  }

  async connect(): Promise<InstanceConnection> {
    const stream = await this.#dial(this);
    if (stream.destroyed) throw new Error('the connection was closed at once');
    const connection = new InstanceConnection(stream, this.#deps);
    this.#all.add(connection);
    return connection;
  }

  closeOld(): void {
    for (const connection of this.#resting) if (!connection.isGood()) connection.destroy();
  }

  destroy(): void {
    for (const connection of this.#all) connection.destroy();
  }

  #forget(connection: InstanceConnection): void {
    this.#all.delete(connection);
    const at = this.#resting.indexOf(connection);
    if (at >= 0) this.#resting.splice(at, 1);
  }
}
