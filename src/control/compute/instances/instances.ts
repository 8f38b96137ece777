/** Instances of an account: their use cases, and those that only read. */
import {
  billingOptionsOf,
  type BillingOptions,
  type BillingOptionsRequest,
} from '../../../domain/money/billing-options.ts';
import { toDollars, type ChargeMode } from '../../../domain/regions/catalog.ts';
import type { DiskSizes } from '../../../domain/compute/desired-state.ts';
import { diskIdsOf, publicDisks, type PublicDisk } from '../../../domain/storage/disk-usage.ts';
import { bringUpKinds, operationId, type Operation, type OperationKind } from '../../../domain/compute/operation.ts';
import type { Labels } from '../../../domain/kernel/resource-labels.ts';
import { allowsAccount } from '../../../domain/access/port-access.ts';
import { publicStages, type PublicStage } from '../../../domain/compute/public-operation.ts';
import type { publicChange } from '../../../domain/compute/public-instance.ts';
import { startsAtMs, type PaidTime } from '../../../domain/money/paid-time.ts';
import { instanceNotFound } from '../../../domain/kernel/refusal.ts';
import type { Db } from '../../../store/store.ts';
import {
  filteredInstancePage,
  instanceFromRow,
  instancePage,
  instanceRow,
  type InstanceFilter,
  type InstanceRow,
} from '../../../store/tables/instances.ts';
import { listedInstance, pastBringUp } from '../../../store/tables/operations.ts';
import { paidTimeOf } from '../../../store/tables/paid-times.ts';
import type { GivenVariables } from './environment.ts';
import { type Grants, portAccessIn } from '../../access/ports.ts';
import type {
  Caller,
  Idempotency,
  LongRunning,
  Pager,
  StartedOperation,
  TextPage,
  UseCaseDeps,
  Regions,
} from '../../kernel/ports.ts';
import { locateDisks } from '../../storage/ports.ts';

/** Body of a launch, validated by the contract. */
export interface LaunchInput {
  name: string;
  imageId: string;
  instanceTypeId: string;
  region: string;
  billing: { chargeMode: ChargeMode; duration: number } & BillingOptionsRequest;
  remoteStorages: { mountPath: string; remoteStorageName: string; remoteStorageId: string; type: string }[];
  instanceConfiguration: {
    extraDataDiskSizeDB: number;
    dataDiskGB?: number | undefined;
    enableCommonData: boolean;
    enableDocker: boolean;
    dockerStorageSize: number;
    initScript: string;
  };
  isSpotInstance: boolean;
  nodePorts: number[];
  startCommand?: string | undefined;
  runImageCommand?: boolean | undefined;
  environment?: GivenVariables | undefined;
  secrets?: GivenVariables | undefined;
  labels?: Labels | undefined;
}

/** Current values revoke a pending change. */
export type UpdateInput = {
  [Member in 'name' | 'labels' | 'instanceTypeId' | 'remoteStorages' | 'nodePorts' | 'startCommand']?:
    LaunchInput[Member] | undefined;
};

export type PublicChange = NonNullable<ReturnType<typeof publicChange>>;

type OnInstance = LongRunning<{ instanceId: string }, { instanceId: string }>;

/**
 * `waitMs`: longest wait in the queue without capacity; null: refuse at once. `quoteId`: a launch
 * has the price of this quote.
 */
type Waiting<Body> = (
  caller: Caller,
  body: Body,
  idempotency: Idempotency | null,
  waitMs?: number | null,
  quoteId?: string | null,
) => Promise<{ instanceId: string } & StartedOperation>;

export interface Instances {
  launch: Waiting<LaunchInput>;
  /** Newest first, those that match; a page past the end is empty, with the total. */
  list(caller: Caller, pager: Pager, filter?: InstanceFilter): Promise<TextPage>;
  stop: OnInstance;
  /** Applies pending changes. `withoutGpu`: until the next start. */
  start: Waiting<{ instanceId: string; withoutGpu?: boolean | undefined; newRootDisk?: boolean | undefined }>;
  restart: OnInstance;
  archive: OnInstance;
  terminate: OnInstance;
  /** Renames and labels at once; stores the rest until the next start. Keeps absent members. */
  update(
    caller: Caller,
    body: { instanceId: string } & UpdateInput,
    idempotency: Idempotency | null,
  ): Promise<{ instanceId: string; appliesAt: 'now' | 'nextStart'; pendingChanges: PublicChange | null }>;
  /** Keeps absent options. At any time, without an operation. */
  setBilling(
    caller: Caller,
    body: { instanceId: string } & BillingOptionsRequest,
    idempotency: Idempotency | null,
  ): Promise<{ instanceId: string } & BillingOptions>;
  /** Keeps absent sizes. Throws `no_capacity` when the pool is full. */
  expandDisk: LongRunning<{ instanceId: string } & DiskSizes, { instanceId: string }>;
  /** The instance, and the stages of its last bring-up; `operationId` is null without one. */
  get(
    caller: Pick<Caller, 'accountId'>,
    body: { instanceId: string },
  ): Promise<{
    instanceText: string;
    timeline: PublicStage[];
    operationId: string | null;
    disks: PublicDisk[];
    startCommand: string;
    runImageCommand: boolean;
    billing: BillingOptions & { paidTime: PublicPaidTime | null };
    /** Null unless an operator asked for the last operation. */
    operatorAction: { action: OperationKind; reason: string; atUnixMs: number } | null;
  }>;
  /** Link to a gateway session: valid once, for a minute. Other accounts need the port's access. */
  open(caller: Caller, body: OpenRequest): Promise<{ url: string }>;
}

interface OpenRequest {
  instanceId: string;
  port?: number | undefined;
  /** Page to open, at the gateway's host or at the port's own; default: the first page. */
  back?: { onOwnHost: boolean; path: string } | undefined;
}

export interface OpenLink extends Pick<OpenRequest, 'instanceId' | 'back'> {
  port: number | undefined;
  key: string;
}

export interface ReadInstancesDeps extends Pick<UseCaseDeps, 'store' | 'regions'> {
  access: { grants: Pick<Grants, 'grant'> };
  /** Redeems the key for a gateway session, and opens the notebook or the port. */
  openUrl: (link: OpenLink) => string;
}

export function makeReadInstances(deps: ReadInstancesDeps): Pick<Instances, 'list' | 'get' | 'open'> {
  const { store, regions, access, openUrl } = deps;
  return {
    list({ accountId }, { currentPage, pageSize: limit }, filter) {
      const offset = (currentPage - 1) * limit;
      return filter
        ? filteredInstancePage(store.read, accountId, filter, { offset, limit })
        : instancePage(store.read, accountId, offset, limit);
    },

    async get({ accountId }, { instanceId }) {
      const listed = await listedInstance(store.read, accountId, instanceId);
      if (!listed) throw instanceNotFound();
      const up = bringUpKinds.includes(listed.operation.kind)
        ? listed
        : await pastBringUp(store.read, accountId, instanceId);
      const row = await instanceRow(store.read, instanceId);
      if (!row) throw instanceNotFound();
      const { spec } = instanceFromRow(row);
      return {
        instanceText: listed.publicText,
        timeline: up ? publicStages(up.operation) : [],
        operationId: up ? operationId(instanceId, up.generation) : null,
        disks: await publicDisksOf(store.read, regions, row),
        startCommand: spec.startCommand,
        runImageCommand: spec.runImageCommand,
        billing: { ...billingOptionsOf(spec), paidTime: publicPaidTime(await paidTimeOf(store.read, instanceId)) },
        operatorAction: operatorActionOf(listed.operation),
      };
    },

    async open(caller, { instanceId, port, back }) {
      const row = await instanceRow(store.read, instanceId);
      if (!row || row.desired === 'released') throw instanceNotFound();
      const portAccess = (port !== undefined && portAccessIn(row, instanceFromRow(row)).get(port)) || 'owner';
      if (!allowsAccount(portAccess, caller.accountId, row.ownerId)) throw instanceNotFound();
      return { url: openUrl({ instanceId, port, back, key: await access.grants.grant(caller, instanceId) }) };
    },
  };
}

interface PublicPaidTime {
  units: number;
  price: number;
  startsAtUnixMs: number | null;
  endsAtUnixMs: number | null;
}

const publicPaidTime = (paid: PaidTime | undefined): PublicPaidTime | null =>
  paid
    ? {
        units: paid.units,
        price: toDollars(paid.priceMicros),
        startsAtUnixMs: startsAtMs(paid),
        endsAtUnixMs: paid.endsAtMs,
      }
    : null;

const operatorActionOf = ({ kind: action, reason, startedAtMs: atUnixMs }: Operation) =>
  reason === undefined ? null : { action, reason, atUnixMs };

/** Empty for a region without drivers here. */
async function publicDisksOf(db: Db, regions: Regions, row: InstanceRow): Promise<PublicDisk[]> {
  const drivers = regions.all().find(({ regionId }) => regionId === row.regionId);
  if (!drivers) return [];
  const instance = instanceFromRow(row);
  const disks = await locateDisks(db, drivers, diskIdsOf(instance));
  const shown = disks.map((disk) => ({ ...disk, sizeLimit: disk.storage.capabilities().sizeLimit }));
  const rootLimit = drivers.health.probe?.capabilities.rootDiskLimit === 'hard' ? 'hard' : 'soft';
  return publicDisks(instance, shown, rootLimit);
}
