/** Default limits of the gateway; described in docs/reference/gateway.md. */
import type { ExchangeLimits } from './forward.ts';
import type { PoolLimits } from './instance-pools.ts';
import type { TunnelLimits } from './upgrade.ts';

export interface GatewayLimits extends PoolLimits, TunnelLimits, ExchangeLimits {
  idleClientMs: number;
  /** Time until a request head must be complete. */
  headMs: number;
  /** Concurrent client connections, if the limit of open files allows. */
  connections: number;
  streams: number;
  revocationMs: number;
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
  instanceIdleMs: 0,
  tunnelIdleMs: 0,
  idleClientMs: 65_000,
  headMs: 30_000,
  connections: 20_000,
  streams: 128,
  revocationMs: 30_000,
  stopGraceMs: 10_000,
};
