/**
 * The face of control: all that edge may use. Every use case validates against the state,
 * authorizes, and in ONE transaction writes desired state, event and idempotency record; answers;
 * then wakes the reconcilers. None of them calls an engine, except adopt, which observes first. A
 * refusal is a `Refusal`; anything else thrown is a fault of ours (500).
 */
import type { DueKind } from '../store/tables/due-acts.ts';
import type { TaskStatus } from './kernel/scheduler.ts';
import type { AccessUseCases } from './access/wire.ts';
import type { DeliveryUseCases } from './delivery/wire.ts';
import type { MoneyUseCases } from './money/wire.ts';
import type { StorageUseCases } from './storage/wire.ts';
import type { RegionsUseCases } from './regions/wire.ts';
import type { ComputeUseCases } from './compute/wire.ts';

export type { ExecRequest, InstanceNetwork, OpenExec, TerminalSize } from '../engines/contract.ts';
export type { ResourceLine } from './money/statement.ts';
export type { ChargeExport } from './money/focus-charges.ts';
export type { WholeStatement } from './money/statement.ts';
export type { Audit } from './access/audit/audit.ts';
export type { Access, PasskeySite } from './access/types.ts';
export type { IdleStatus } from './compute/auto-stop/idle-detector.ts';
export type { InstanceStopPolicy } from './compute/auto-stop/stop-policy.ts';
export type { Caller, Credential, Idempotency, Pager, TextPage } from './kernel/caller.ts';
export type { Log } from './kernel/logger.ts';
export type { FleetRegion } from './regions/capacity/fleet.ts';
export type { Commands } from './compute/inside/commands.ts';
export type { FollowedLog } from './compute/inside/logs/follow.ts';
export type { LogPage, LogRequest } from './compute/inside/logs/logs.ts';
export type { BarFigures, NotebookBar } from './compute/inside/notebook-bar.ts';
export type { InstanceMetrics } from './compute/inside/metrics/metrics.ts';
export type { AttachedTerminal, TerminalHost, TerminalMessage } from './compute/inside/terminals/terminal-host.ts';
export type { PublishedEvents } from './delivery/event-feed.ts';
export type {
  Forwarding,
  GatewayRoute,
  ShareInfo,
  Visitor,
  Wake,
  WakeOffer,
  WakeRequest,
  RouteTable,
  SshBackend,
  SshIdentity,
  SshLogin,
  RouteUpdate,
  TrafficKind,
  IdentifyCredential,
} from './access/routing/gateway-types.ts';
export type { RegionToOpen } from './regions/region-engine.ts';
export type { ServedRegions } from './regions/served-regions.ts';
export { makeTimedSeal } from './kernel/seal.ts';
export { addressBucket } from './access/address-bucket.ts';
export { makeLoopbackDial } from './access/routing/loopback.ts';
export { makeRevocations } from './access/routing/revocations.ts';
export type { VolumePath, ReadableFile } from './storage/files.ts';

export interface Tasks {
  list(): Promise<TaskStatus[]>;
  due(): Promise<DueKind[]>;
}

export interface Control
  extends AccessUseCases, DeliveryUseCases, MoneyUseCases, StorageUseCases, RegionsUseCases, ComputeUseCases {
  tasks: Tasks;
  /** Changes with everything the account can list; an equal number means an equal answer. */
  versionOf(accountId: string): Promise<number>;
  /** `ready` is false while the store does not answer. An engine outage changes only `text`. */
  /** `isDegraded`: serves, and something needs the operator. */
  health(): Promise<{ ready: boolean; isDegraded: boolean; text: string }>;
  /** Throws `storage_full` while only what cannot wait is stored. */
  refuseIfFull(): void;
}
