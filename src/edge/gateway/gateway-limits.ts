import { MAX_HEAD_BYTES } from '../full-cookies.ts';

export type GatewayLimits = typeof defaultGatewayLimits;

/** Limits of the gateway and their defaults; described in docs/reference/gateway.md. */
export const defaultGatewayLimits = {
  /** Concurrent requests and tunnels of one port. */
  perPort: 1_024,
  perInstance: 4_096,
  idlePoolMs: 30_000,
  /** Idle time after which a connection to an instance closes; below the 5 s of common servers. */
  idleConnectionMs: 4_000,
  dialMs: 10_000,
  notebookPatienceMs: 10_000,
  /** Longest time that a program's request waits for a start, and then for its port. */
  wakeHoldMs: 120_000,
  maxHeaderBytes: MAX_HEAD_BYTES,
  handshakeMs: 60_000,
  halfOpenMs: 120_000,
  /** Time for the client to send more of the request, or read more of the response; 0: no limit. */
  clientIdleMs: 600_000,
  /** Time for the instance to read more of the request, or send more of the response. */
  instanceIdleMs: 0,
  tunnelIdleMs: 0,
  idleClientMs: 65_000,
  /** Time until a request head must be complete. */
  headMs: 30_000,
  /** Concurrent client connections, if the limit of open files allows. */
  connections: 20_000,
  streams: 128,
  revocationMs: 30_000,
  stopGraceMs: 10_000,
};
