/**
 * The face of control: all that edge may use. Every use case validates against the state,
 * authorizes, and in ONE transaction writes desired state, event and idempotency record; answers;
 * then wakes the reconcilers. None of them calls an engine, except adopt, which observes first. A
 * refusal is a `Refusal`; anything else thrown is a fault of ours (500).
 */
import type { TaskStatus } from './base/scheduler.ts';
import type { AccountAdministration } from './access/account-admin.ts';
import type { PasswordLinks } from './access/set-password.ts';
import type { Audit } from './audit/audit.ts';
import type { Registration } from './access/registration.ts';
import type { Access } from './access/types.ts';
import type { Environments } from './instances/environment.ts';
import type { PriceHistory } from './catalog/price-history.ts';
import type { Templates } from './instances/launch-templates.ts';
import type { Quotes } from './billing/quotes.ts';
import type { Credits } from './billing/credits.ts';
import type { Budgets } from './billing/budgets.ts';
import type { Quotas } from './quotas/quotas.ts';
import type { Instances } from './instances/instances.ts';
import type { EgressUseCases } from './instances/egress.ts';
import type { Operator } from './instances/operator.ts';
import type { ChargeExports } from './billing/focus-charges.ts';
import type { Payments } from './billing/payments.ts';
import type { Books } from './billing/books.ts';
import type { Statements } from './billing/statement.ts';
import type { Usage } from './billing/usage-report.ts';
import type { Webhooks } from './webhooks/webhooks.ts';
import type { Volumes } from './volumes/volumes.ts';
import type { Snapshots } from './volumes/snapshots.ts';
import type { Files } from './volumes/files.ts';
import type { HeldDisks } from './volumes/held-disks.ts';
import type { Catalog } from './capacity/catalog.ts';
import type { Fleet } from './capacity/fleet.ts';
import type { OfferedImages } from './catalog/offered-images.ts';
import type { OfferedTypes } from './catalog/offered-types.ts';
import type { RegionAdministration } from './catalog/region-facts.ts';
import type { Images } from './images/images.ts';
import type { Registries } from './images/registries.ts';
import type { Orphans } from './orphans/orphans.ts';
import type { StopPolicies } from './auto-stop/stop-policy.ts';
import type { Ports, Forwarding, RouteTable } from './routing/gateway-types.ts';
import type { Figures } from './inside/metrics/figures.ts';
import type { Metrics } from './inside/metrics/metrics.ts';
import type { Logs } from './inside/logs/logs.ts';
import type { Commands } from './inside/commands.ts';
import type { Terminals } from './inside/terminals/terminals.ts';
import type { Operations } from './instances/operations.ts';
import type { Events } from './events/event-feed.ts';

export type { ExecRequest, InstanceNetwork, OpenExec, TerminalSize } from '../engines/contract.ts';
export type { Books } from './billing/books.ts';
export type { ResourceLine } from './billing/statement.ts';
export type { ChargeExport } from './billing/focus-charges.ts';
export type { Statements, WholeStatement } from './billing/statement.ts';
export type { Usage } from './billing/usage-report.ts';
export type { Webhooks } from './webhooks/webhooks.ts';
export type { Audit } from './audit/audit.ts';
export type { Access } from './access/types.ts';
export type { IdleStatus } from './auto-stop/idle-detector.ts';
export type { InstanceStopPolicy } from './auto-stop/stop-policy.ts';
export type { Caller, Credential, Idempotency, Pager, TextPage } from './base/caller.ts';
export type { Log } from './base/logger.ts';
export type { Environments, ListedVariable } from './instances/environment.ts';
export type { PriceHistory } from './catalog/price-history.ts';
export type { Credits } from './billing/credits.ts';
export type { Budgets } from './billing/budgets.ts';
export type { Quotas } from './quotas/quotas.ts';
export type { Templates } from './instances/launch-templates.ts';
export type { Fleet, FleetRegion } from './capacity/fleet.ts';
export type { Commands } from './inside/commands.ts';
export type { FollowedLog } from './inside/logs/follow.ts';
export type { LogPage, LogRequest, Logs } from './inside/logs/logs.ts';
export type { InstanceFigures } from './inside/metrics/figures.ts';
export type { InstanceMetrics } from './inside/metrics/metrics.ts';
export type { AttachedTerminal, TerminalHost, TerminalMessage } from './inside/terminals/terminal-host.ts';
export type { Terminals } from './inside/terminals/terminals.ts';
export type { Events, PublishedEvents } from './events/event-feed.ts';
export type {
  Forwarding,
  GatewayRoute,
  ShareInfo,
  Visitor,
  RouteTable,
  SshBackend,
  SshIdentity,
  SshLogin,
  RouteUpdate,
  TrafficKind,
  IdentifyCredential,
} from './routing/gateway-types.ts';
export type { RegionToOpen } from './catalog/region-engine.ts';
export type { ServedRegions } from './catalog/served-regions.ts';
export { makeSeal } from './base/seal.ts';
export { addressBucket } from './access/address-bucket.ts';
export { makeRevocations } from './routing/revocations.ts';
export type { VolumePath, Files, ReadableFile } from './volumes/files.ts';

export interface Tasks {
  list(): Promise<TaskStatus[]>;
}

export interface Control {
  access: Access;
  audit: Audit;
  accounts: AccountAdministration & PasswordLinks & Registration;
  webhooks: Webhooks;
  books: Books;
  chargeExports: ChargeExports;
  payments: Payments;
  usage: Usage;
  statements: Statements;
  environments: Environments;
  quotas: Quotas;
  budgets: Budgets;
  credits: Credits;
  quotes: Quotes;
  templates: Templates;
  priceHistory: PriceHistory;
  instances: Instances;
  volumes: Volumes;
  snapshots: Snapshots;
  files: Files;
  catalog: Catalog;
  fleet: Fleet;
  offeredTypes: OfferedTypes;
  offeredImages: OfferedImages;
  regionAdministration: RegionAdministration;
  images: Images;
  registries: Registries;
  orphans: Orphans;
  stopPolicies: StopPolicies;
  ports: Ports;
  metrics: Metrics;
  figures: Figures;
  logs: Logs;
  commands: Commands;
  terminals: Terminals;
  forwarding: Forwarding;
  routeTable: RouteTable;
  operations: Operations;
  operator: Operator;
  egress: EgressUseCases;
  heldDisks: Pick<HeldDisks, 'list'>;
  tasks: Tasks;
  events: Events;
  /** Changes with everything the account can list; an equal number means an equal answer. */
  versionOf(accountId: string): Promise<number>;
  /** `ready` is false while the store does not answer. An engine outage changes only `text`. */
  /** `isDegraded`: serves, and something needs the operator. */
  health(): Promise<{ ready: boolean; isDegraded: boolean; text: string }>;
  /** Throws `storage_full` while only what cannot wait is stored. */
  refuseIfFull(): void;
}
