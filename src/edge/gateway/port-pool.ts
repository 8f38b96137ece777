/** Connections to one port of one instance, reused last-in first-out so that surplus ones age. */
import type { Duplex } from 'node:stream';
import type { InstanceId } from '../../domain/ids.ts';
import { InstanceConnection, type ConnectionDeps } from './instance-connection.ts';

export class PortPool {
  readonly instanceId: InstanceId;
  readonly port: number;
  active = 0;
  usedAtMs: number;
  /** When the port was first found closed since it last answered. */
  closedSinceMs: number | null = null;
  readonly #dial: (pool: PortPool) => Promise<Duplex>;
  readonly #deps: ConnectionDeps;
  readonly #all = new Set<InstanceConnection>();
  readonly #resting: InstanceConnection[] = [];

  constructor(
    { instanceId, port }: { instanceId: InstanceId; port: number },
    deps: Omit<ConnectionDeps, 'onIdle' | 'onGone'> & { dial: (pool: PortPool) => Promise<Duplex> },
  ) {
    this.instanceId = instanceId;
    this.port = port;
    this.usedAtMs = deps.now();
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
    if (stream.destroyed) throw new Error('the connection ended at once');
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
