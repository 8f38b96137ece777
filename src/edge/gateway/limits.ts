/** All limits of the gateway in one place; docs/reference/gateway.md tells them to people. */
import type { ExchangeLimits } from './forward.ts';
import type { PoolLimits } from './instance-pools.ts';
import type { TunnelLimits } from './upgrade.ts';

export interface GatewayLimits extends PoolLimits, TunnelLimits, ExchangeLimits {
  /** A connection of a client on which nothing happens between requests is closed after as long. */
  idleClientMs: number;
  /** Until the head of a request must have come. */
  headMs: number;
  /** Of clients, at once, where the files that may be open are enough. */
  connections: number;
  /** Requests under way on one connection of HTTP/2. */
  streams: number;
  /** How often open connections are asked for anew. */
  revocationMs: number;
  /** What runs when `stop` is called may go on for as long. */
  stopGraceMs: number;
}

export const defaultGatewayLimits: GatewayLimits = {
  perPort: 1_024,
  perInstance: 4_096,
  idlePoolMs: 30_000,
  idleConnectionMs: 4_000,
  dialMs: 10_000,
  notebookPatienceMs: 10_000,
  maxHeaderBytes: 32_768,
  handshakeMs: 60_000,
  halfOpenMs: 120_000,
  clientIdleMs: 600_000,
  // Notebooks and language models think for hours, and WebSockets are silent for days.
  instanceIdleMs: 0,
  tunnelIdleMs: 0,
  idleClientMs: 65_000,
  headMs: 30_000,
  connections: 20_000,
  streams: 128,
  revocationMs: 30_000,
  stopGraceMs: 10_000,
};
