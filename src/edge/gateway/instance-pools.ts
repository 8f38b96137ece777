/**
 * Connections to instances. Each instance and port has a pool of its own, so that no bytes of one are ever read as another's, made
 * at its first request and closed when nobody used it for a while or when the instance no longer runs.
 *
 * The notebook port is dialled with patience: right after the start of an instance Jupyter takes seconds to listen, and a person
 * should see the notebook then and not an error. Patience is spent once: a port that stayed closed for its whole length is tried
 * once per request from then on, until it answers.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Duplex } from 'node:stream';
import { Pool } from 'undici';
import type { Forwarding } from '../../control/control.ts';
import { EngineFault } from '../../domain/engine-fault.ts';
import type { InstanceId } from '../../domain/ids.ts';
import { NOTEBOOK_PORT } from '../../domain/ports.ts';
import type { InstanceTarget } from './routing.ts';
import { socketOver } from './socket-over.ts';

export interface PoolLimits {
  /** Requests and tunnels to one instance and port at the same time. */
  perPort: number;
  /** The same of all ports of an instance together. */
  perInstance: number;
  /** A pool that nobody used for as long is closed. */
  idlePoolMs: number;
  /** A connection that nobody used for as long is closed; less than what common servers allow (5 s). */
  idleConnectionMs: number;
  dialMs: number;
  notebookPatienceMs: number;
  maxHeaderBytes: number;
}

export interface PortPool {
  readonly pool: Pool;
  readonly dial: () => Promise<Duplex>;
  readonly instanceId: InstanceId;
  readonly port: number;
  active: number;
  usedAtMs: number;
  /** When the port was first found closed, since it last answered. */
  closedSinceMs: number | null;
}

const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 1_000;

export class InstancePools {
  readonly #pools = new Map<string, PortPool>();
  /** By instance, what runs on all of its ports. */
  readonly #active = new Map<InstanceId, number>();
  readonly #dial: Forwarding['dial'];
  readonly #limits: PoolLimits;
  readonly #now: () => number;
  readonly #stopping = new AbortController();
  readonly #sweep: NodeJS.Timeout;

  constructor(needs: { dial: Forwarding['dial']; limits: PoolLimits; now: () => number }) {
    this.#dial = needs.dial;
    this.#limits = needs.limits;
    this.#now = needs.now;
    this.#sweep = setInterval(() => this.#closeIdle(), Math.max(50, this.#limits.idlePoolMs / 2));
    this.#sweep.unref();
  }

  /** A place among what may run at the same time; null when all are taken. Give it back by `release`. */
  acquire(target: InstanceTarget): PortPool | null {
    const key = `${target.instanceId}:${target.port}`;
    let entry = this.#pools.get(key);
    if (entry === undefined) {
      entry = this.#make(target.instanceId, target.port);
      this.#pools.set(key, entry);
    }
    const ofInstance = this.#active.get(target.instanceId) ?? 0;
    if (entry.active >= this.#limits.perPort || ofInstance >= this.#limits.perInstance) return null;
    entry.active += 1;
    this.#active.set(target.instanceId, ofInstance + 1);
    return entry;
  }

  release(entry: PortPool): void {
    entry.active -= 1;
    entry.usedAtMs = this.#now();
    const left = (this.#active.get(entry.instanceId) ?? 1) - 1;
    if (left === 0) this.#active.delete(entry.instanceId);
    else this.#active.set(entry.instanceId, left);
  }

  /** The instance was seen not to run: its idle connections lead nowhere. Running requests end by themselves. */
  forget(instanceId: InstanceId): void {
    for (const [key, entry] of this.#pools) {
      if (entry.instanceId === instanceId && entry.active === 0) this.#close(key, entry);
    }
  }

  async stop(): Promise<void> {
    clearInterval(this.#sweep);
    this.#stopping.abort();
    const pools = [...this.#pools.values()];
    this.#pools.clear();
    await Promise.all(pools.map(async (entry) => entry.pool.destroy(new Error('the gateway stops'))));
  }

  #make(instanceId: InstanceId, port: number): PortPool {
    const dial = async (): Promise<Duplex> => this.#dialPatiently(entry);
    const pool = new Pool('http://instance.invalid', {
      connections: this.#limits.perPort,
      pipelining: 1,
      // Notebooks and language models think for minutes: whether the other end lives is TCP's to find out.
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: this.#limits.idleConnectionMs,
      keepAliveMaxTimeout: 60_000,
      maxHeaderSize: this.#limits.maxHeaderBytes,
      connect: (_options, done) => {
        dial().then(
          (stream) => {
            if (stream.destroyed) done(new Error('the connection ended at once'), null);
            else done(null, socketOver(stream));
          },
          (error: unknown) => done(error instanceof Error ? error : new Error(String(error)), null),
        );
      },
    });
    const entry: PortPool = { pool, dial, instanceId, port, active: 0, usedAtMs: this.#now(), closedSinceMs: null };
    return entry;
  }

  async #dialPatiently(entry: PortPool): Promise<Duplex> {
    const patienceMs = entry.port === NOTEBOOK_PORT ? this.#limits.notebookPatienceMs : 0;
    for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(2 * waitMs, LONGEST_WAIT_MS)) {
      try {
        const signal = AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(this.#limits.dialMs)]);
        const stream = await this.#dial(entry.instanceId, entry.port, signal);
        entry.closedSinceMs = null;
        return stream;
      } catch (error) {
        if (!(error instanceof EngineFault) || error.kind !== 'busy') throw error;
        entry.closedSinceMs ??= this.#now();
        const leftMs = entry.closedSinceMs + patienceMs - this.#now();
        if (leftMs <= 0) throw error;
        await delay(Math.min(waitMs, leftMs), undefined, { signal: this.#stopping.signal });
      }
    }
  }

  #closeIdle(): void {
    const before = this.#now() - this.#limits.idlePoolMs;
    for (const [key, entry] of this.#pools) {
      if (entry.active === 0 && entry.usedAtMs <= before) this.#close(key, entry);
    }
  }

  #close(key: string, entry: PortPool): void {
    this.#pools.delete(key);
    entry.pool.close().catch(() => {}); // rejects only when it is closed already
  }
}
