/**
 * # Quotas of an account
 *
 * A limit is the account's own, else the installation's, else the built-in one. `gpus/<name>`
 * limits GPUs of one type beside `gpus`; without a value it does not limit. What a resource uses is
 * a function of its row: an instance uses CPUs, memory and GPUs while it holds or awaits capacity,
 * and its root disk until it is archived; a terminated or deleted resource uses nothing.
 */
import { capacityOfSpec, countGpus } from '../regions/catalog.ts';
import { heldPortCount } from '../compute/instance-change.ts';
import { dataDiskGB, dockerDiskGB } from '../compute/instance-disks.ts';
import type { Instance } from '../compute/instance.ts';
import type { Operation } from '../compute/operation.ts';
import { Refusal } from '../kernel/refusal.ts';
import type { Snapshot } from '../storage/snapshot.ts';
import type { Volume } from '../storage/volume.ts';

const STOP = 'stop or terminate instances';
const DELETE_DISKS = 'archive or terminate instances, or delete volumes or snapshots';

interface Kind {
  what: string;
  builtIn: number;
  /** Advice of a refusal. */
  frees: string;
}

export const quotaKinds = {
  instances: { what: 'instances', builtIn: 1_000, frees: 'terminate instances' },
  cpus: { what: 'CPU cores', builtIn: 10_000, frees: STOP },
  memoryGB: { what: 'GB of memory', builtIn: 100_000, frees: STOP },
  gpus: { what: 'GPUs', builtIn: 1_000, frees: STOP },
  diskGB: { what: 'GB of disk', builtIn: 1_000_000, frees: DELETE_DISKS },
  volumes: { what: 'volumes', builtIn: 1_000, frees: 'delete volumes' },
  snapshots: { what: 'snapshots', builtIn: 1_000, frees: 'delete snapshots' },
  images: { what: 'images of its own', builtIn: 200, frees: 'delete images' },
  nodePorts: { what: 'node ports', builtIn: 5_000, frees: 'terminate instances, or request fewer ports' },
  operations: { what: 'operations under way', builtIn: 1_000, frees: 'wait until one has ended' },
  queuedInstances: {
    what: 'instances in the capacity queue of a region',
    builtIn: 10,
    frees: 'stop or terminate one of them, or try again after one has left the queue',
  },
  apiKeys: { what: 'API keys', builtIn: 50, frees: 'delete one' },
  sshKeys: { what: 'ssh keys', builtIn: 100, frees: 'delete one' },
  registries: { what: 'credentials of registries', builtIn: 50, frees: 'delete one' },
  shares: { what: 'links to ports', builtIn: 500, frees: 'revoke one with /instance/port/unshare' },
  terminals: { what: 'open terminals', builtIn: 64, frees: 'close one' },
  eventStreams: { what: 'open event streams', builtIn: 8, frees: 'close one' },
  requestsPerSecond: { what: 'requests a second', builtIn: 500, frees: 'send fewer' },
} as const satisfies Record<string, Kind>;

export type QuotaKind = keyof typeof quotaKinds;
export type QuotaName = QuotaKind | `gpus/${string}`;

export const MAX_QUOTA = 1_000_000_000;

export const isQuotaKind = (name: string): name is QuotaKind => Object.hasOwn(quotaKinds, name);
export const isQuotaName = (name: string): name is QuotaName => isQuotaKind(name) || /^gpus\/./.test(name);

const kindOf = (name: QuotaName): Kind =>
  isQuotaKind(name) ? quotaKinds[name] : { ...quotaKinds.gpus, what: `GPUs of the type ${name.slice('gpus/'.length)}` };

/** Limits by name, as set for the account or the installation. */
export type Quotas = ReadonlyMap<string, number>;

export interface QuotaSet {
  account: Quotas;
  installation: Quotas;
}

/** Null: no limit. */
export const limitOf = ({ account, installation }: QuotaSet, name: QuotaName): number | null =>
  account.get(name) ?? installation.get(name) ?? (isQuotaKind(name) ? quotaKinds[name].builtIn : null);

/** CPUs and GPUs in thousandths and memory in MiB, so that sums are exact. */
export type Usage = Readonly<Partial<Record<QuotaName, number>>>;

const scales: Readonly<Partial<Record<QuotaName, number>>> = { cpus: 1_000, gpus: 1_000, memoryGB: 1_024 };

/** In the unit of the limit, from that of `Usage`. */
export const inUnits = (name: QuotaName, used: number): number => used / (scales[name] ?? 1);

const names = (usage: Usage): QuotaName[] => Object.keys(usage).filter(isQuotaName);

const underWay = ({ endedAtMs }: Operation): number => (endedAtMs === null ? 1 : 0);

export function usageOfInstance(instance: Instance, holdsCapacity: boolean): Usage {
  const { spec, desired, observed, operation, waitsSinceMs, notBeforeMs } = instance;
  if (desired === 'released') return {};
  const rootDiskGB = observed.status === 'Archived' ? 0 : spec.type.rootDiskGB;
  const kept: Usage = {
    instances: 1,
    diskGB: rootDiskGB + dataDiskGB(spec) + (spec.enableDocker ? dockerDiskGB(spec) : 0),
    nodePorts: heldPortCount(instance),
    operations: underWay(operation),
  };
  if (!holdsCapacity && waitsSinceMs === null && notBeforeMs === null) return kept;
  const { cpuMilli, memoryMiB, gpus } = capacityOfSpec(spec);
  const byName = Object.entries(gpus).map(([name, count]) => [`gpus/${name}`, count] as const);
  // Rounded down, so that all parts of a card are one card at most.
  const gpuMilli = Math.floor((spec.type.gpuShare ?? 1) * 1_000) * countGpus(gpus);
  return { ...kept, ...Object.fromEntries(byName), cpus: cpuMilli, memoryGB: memoryMiB, gpus: gpuMilli };
}

/** A failed volume has no disk. */
export const usageOfVolume = ({ status, sizeGB, operation }: Volume): Usage =>
  status === 'Terminating'
    ? {}
    : { volumes: 1, diskGB: status === 'Failed' ? 0 : sizeGB, operations: underWay(operation) };

export const usageOfSnapshot = ({ status, sizeGB, operation }: Snapshot): Usage =>
  status === 'Terminating'
    ? {}
    : { snapshots: 1, diskGB: status === 'Failed' ? 0 : sizeGB, operations: underWay(operation) };

/** Leaves out what is unchanged. */
export function usageDifference(before: Usage, after: Usage): Usage {
  const both = new Set([...names(before), ...names(after)]);
  return Object.fromEntries(
    [...both].flatMap((name) => {
      const more = (after[name] ?? 0) - (before[name] ?? 0);
      return more === 0 ? [] : [[name, more]];
    }),
  );
}

/** Leaves out zeros. */
export const addUsage = (one: Usage, other: Usage): Usage => {
  const sums = Object.fromEntries(
    [...names(one), ...names(other)].map((name) => [name, (one[name] ?? 0) + (other[name] ?? 0)]),
  );
  return usageDifference({}, sums);
};

/** Throws `over_quota` when `more` exceeds a limit. A lowered limit ends nothing. */
export function refuseOverQuota(used: Usage, more: Usage, quotas: QuotaSet): void {
  for (const name of names(more)) {
    const asked = more[name] ?? 0;
    if (asked > 0) refuseAbove(name, { used: used[name] ?? 0, asked }, quotas);
  }
}

/** For one resource, in the unit of `Usage`. */
export function refuseAbove(name: QuotaName, { used, asked }: { used: number; asked: number }, quotas: QuotaSet): void {
  const limit = limitOf(quotas, name);
  if (limit === null || inUnits(name, used + asked) <= limit) return;
  throw overQuota(name, { limit, used: inUnits(name, used), asked: inUnits(name, asked) });
}

export function overQuota(
  name: QuotaName,
  { limit, used, asked }: { limit: number; used: number; asked: number },
): Refusal {
  const { what, frees } = kindOf(name);
  return new Refusal(
    'over_quota',
    `the quota "${name}" (${what}) is reached: the limit is ${limit}, the account uses ${used}, and the request asks for ${asked} more; ${frees}, or ask an administrator for a higher quota`,
  );
}
