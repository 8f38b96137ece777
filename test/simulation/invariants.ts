/**
 * Invariants of a database and of the engine's objects. Each function returns the violations. The
 * simulation checks them after each step; tests on real time use them too.
 */
import { instance as instanceSchema } from '../../src/contract/compute/instance.ts';
import { capacityOfSpec, type Capacity, type GpuCounts, type Region } from '../../src/domain/regions/catalog.ts';
import { addCapacity, fits, zeroCapacity } from '../../src/domain/regions/placement.ts';
import { heldPortCount } from '../../src/domain/compute/instance-change.ts';
import type { Instance } from '../../src/domain/compute/instance.ts';
import {
  addUsage,
  usageDifference,
  usageOfInstance,
  usageOfSnapshot,
  usageOfVolume,
} from '../../src/domain/access/quota.ts';
import { publicInstance } from '../../src/domain/compute/public-instance.ts';
import { instanceActs, timedActs } from '../../src/domain/compute/timed-acts.ts';
import { publicSnapshot } from '../../src/domain/storage/snapshot.ts';
import { publicVolume } from '../../src/domain/storage/volume.ts';
import type { OwnedObject } from '../../src/engines/contract.ts';
import { DISK_OVERCOMMIT } from '../fixtures/control-deps.ts';
import type { Selectable } from 'kysely';
import type { DueActTable } from '../../src/store/db/schema.ts';
import type { InstanceRow } from '../../src/store/tables/instances.ts';
import { parseUsage } from '../../src/store/tables/quotas.ts';
import { snapshotFromRow, type SnapshotRow } from '../../src/store/tables/snapshots.ts';
import { volumeFromRow, type VolumeRow } from '../../src/store/tables/volumes.ts';

export interface StoredInstance {
  row: InstanceRow;
  instance: Instance;
}

export interface PortRow {
  regionId: string;
  nodePort: number;
  instanceId: string;
  port: number;
}

export interface RegionCounts {
  id: string;
  used: Capacity & { nodePorts: number };
  total: Capacity & { nodePorts: number };
}

export interface AccountCounts {
  id: string;
  instanceCount: number;
  volumeCount: number;
}

const sum = (numbers: number[]): number => numbers.reduce((total, one) => total + one, 0);

const differ = (what: string, are: unknown, should: unknown): string[] => {
  const [is, ought] = [JSON.stringify(are), JSON.stringify(should)];
  return is === ought ? [] : [`${what}: ${is} instead of ${ought}`];
};

/** An instance owns its node ports until its container is gone. */
const hasPorts = ({ instance }: StoredInstance): boolean =>
  instance.desired !== 'released' || instance.observed.phase === 'Cleaning';

const inOrder = (gpus: GpuCounts): GpuCounts => Object.fromEntries(Object.entries(gpus).toSorted());

/** Counters of a region equal the sums of its instances. */
export function wrongCounts(regions: readonly Omit<RegionCounts, 'total'>[], all: readonly StoredInstance[]): string[] {
  return regions.flatMap(({ id, used }) => {
    const mine = all.filter(({ row }) => row.regionId === id);
    const usage = mine
      .filter(({ row }) => row.holdsCapacity === 1)
      .map(({ instance }) => capacityOfSpec(instance.spec));
    const should = {
      cpuMilli: sum(usage.map(({ cpuMilli }) => cpuMilli)),
      memoryMiB: sum(usage.map(({ memoryMiB }) => memoryMiB)),
      gpus: inOrder(usage.reduce(addCapacity, zeroCapacity).gpus),
      nodePorts: sum(mine.filter(hasPorts).map(({ instance }) => heldPortCount(instance))),
    };
    const { cpuMilli, memoryMiB, gpus, nodePorts } = used;
    return differ(`what region ${id} counts`, { cpuMilli, memoryMiB, gpus: inOrder(gpus), nodePorts }, should);
  });
}

/** Allocations fit the capacity while no engine shrinks. */
export const overbooked = (regions: readonly RegionCounts[]): string[] =>
  regions.flatMap(({ id, used, total }) =>
    fits(used, total) && used.nodePorts <= total.nodePorts
      ? []
      : [`region ${id} has given out ${JSON.stringify(used)} of ${JSON.stringify(total)}`],
  );

/** Ports that only the container of before a change has. */
const portsOfOldContainer = ({ nodePorts, oldContainer }: Instance) =>
  (oldContainer?.nodePorts ?? []).filter(({ port }) => nodePorts.every((one) => one.port !== port));

/** Each active instance has its node ports in the unique table; no other row exists. */
export function wrongPorts(ports: readonly PortRow[], all: readonly StoredInstance[]): string[] {
  const line = ({ regionId, nodePort, instanceId, port }: PortRow): string =>
    `${regionId} ${nodePort} ${instanceId} ${port}`;
  const should = all
    .filter(hasPorts)
    .flatMap(({ row, instance }) =>
      [...instance.nodePorts, ...portsOfOldContainer(instance)]
        .filter(({ nodePort }) => nodePort !== 0)
        .map(({ port, nodePort }) => line({ regionId: row.regionId, nodePort, instanceId: row.id, port })),
    );
  const nodePorts = ports.map(({ regionId, nodePort }) => `${regionId} ${nodePort}`);
  return [
    ...differ('node ports', ports.map(line).toSorted(), should.toSorted()),
    ...differ('node ports given once', nodePorts.length, new Set(nodePorts).size),
  ];
}

/** Public text matches the columns and the contract. */
export function wrongText({ row, instance }: StoredInstance, region: Region | undefined): string[] {
  if (!region) return [`instance ${row.id} is in no region`];
  const text: unknown = JSON.parse(row.publicText);
  const parsed = instanceSchema.safeParse(text);
  const should = instanceSchema.parse(JSON.parse(JSON.stringify(publicInstance(instance, region))));
  // A change of the region is written into what lists show.
  if (row.listed === 0 && parsed.success) should.instanceSpecInfo.regionInfo = parsed.data.instanceSpecInfo.regionInfo;
  return [
    ...differ(`the text of ${row.id}`, text, should),
    ...differ(`the status of ${row.id}`, row.status, instance.observed.status),
    ...(parsed.success ? [] : [`the text of ${row.id} breaks the contract: ${parsed.error.message}`]),
  ];
}

export type ActRow = Pick<Selectable<DueActTable>, 'kind' | 'subjectId' | 'dueAtMs' | 'attempts' | 'leaseOwner'>;

/** Each instance has the acts of its row, none later than its time. */
export function wrongActs(acts: readonly ActRow[], all: readonly StoredInstance[]): string[] {
  const ofInstances = acts.filter(({ kind }) => instanceActs.some((known) => known === kind));
  const should = all.flatMap(({ instance }) => {
    const timed = timedActs(instance);
    return instanceActs.filter((kind) => timed[kind] !== null).map((kind) => `${kind}/${instance.id}`);
  });
  const has = ofInstances.map(({ kind, subjectId }) => `${kind}/${subjectId}`);
  const stops = new Map<string, ReturnType<typeof timedActs>>(
    all.map(({ instance }) => [instance.id, timedActs(instance)]),
  );
  const late = ofInstances.filter(({ kind, subjectId, dueAtMs, attempts, leaseOwner }) => {
    const atMs = kind === 'stop' || kind === 'reclaim' ? stops.get(subjectId)?.[kind] : null;
    return leaseOwner === null && attempts === 0 && typeof atMs === 'number' && (dueAtMs ?? Infinity) > atMs;
  });
  return [
    ...differ('acts that are due', has.toSorted(), should.toSorted()),
    ...late.map(({ kind, subjectId }) => `the ${kind} of ${subjectId} is late`),
  ];
}

export const wrongVolumeText = (row: VolumeRow): string[] =>
  differ(`the text of volume ${row.id}`, JSON.parse(row.publicText), publicVolume(volumeFromRow(row)));

export const wrongSnapshotText = (row: SnapshotRow): string[] =>
  differ(`the text of snapshot ${row.id}`, JSON.parse(row.publicText), publicSnapshot(snapshotFromRow(row)));

export interface DiskRow {
  id: string;
  regionId: string;
  pool: string;
  sizeGB: number;
  promisedGB: number;
  bestEffortGB: number;
}

export interface PoolRow {
  id: string;
  usedGB: number;
  bestEffortGB: number;
  limitGB: number;
}

/** Reserved pool space is the sum of its disks, and within the limit. */
export const wrongPools = (pools: readonly PoolRow[], disks: readonly DiskRow[]): string[] =>
  pools.flatMap(({ id, usedGB, bestEffortGB, limitGB }) => {
    const own = disks.filter((disk) => `${disk.regionId}/${disk.pool}` === id);
    return [
      ...differ(`GB that pool ${id} promised`, usedGB, sum(own.map((disk) => disk.promisedGB))),
      ...differ(`GB of best effort in pool ${id}`, bestEffortGB, sum(own.map((disk) => disk.bestEffortGB))),
      ...(usedGB + bestEffortGB / DISK_OVERCOMMIT > limitGB
        ? [`pool ${id} has promised ${usedGB}, and ${bestEffortGB} GB of best effort, of ${limitGB} GB`]
        : []),
    ];
  });

/**
 * Each volume and snapshot has its disk row, with its size, until it is gone; a failed one has
 * none.
 */
export function wrongDisks(
  disks: readonly DiskRow[],
  volumes: readonly Pick<VolumeRow, 'id' | 'status' | 'sizeGB'>[],
  snapshots: readonly Pick<SnapshotRow, 'id' | 'status' | 'sizeGB'>[],
): string[] {
  const standing = [
    ...volumes.map((row) => ({ ...row, disk: `volume/${row.id}` })),
    ...snapshots.map((row) => ({ ...row, disk: `snapshot/${row.id}` })),
  ];
  const byId = new Map(disks.map((disk) => [disk.id, disk]));
  const known = new Set(standing.map(({ disk }) => disk));
  return [
    ...standing.flatMap(({ disk, status, sizeGB }) => {
      const has = byId.get(disk)?.sizeGB;
      // A failed one had none before its deletion.
      if (status === 'Terminating' && has === undefined) return [];
      return differ(`GB written down for ${disk}, ${status}`, has, status === 'Failed' ? undefined : sizeGB);
    }),
    ...disks
      .filter(({ id }) => /^(?:volume|snapshot)[/]/.test(id) && !known.has(id))
      .map(({ id }) => `${id} is written down, and there is no such thing`),
  ];
}

/** Totals equal the count over all pages. */
export function wrongTotals(
  accounts: readonly AccountCounts[],
  instances: readonly Pick<InstanceRow, 'ownerId' | 'listed'>[],
  volumes: readonly Pick<VolumeRow, 'ownerId' | 'listed'>[],
): string[] {
  const listed = (rows: readonly { ownerId: string; listed: number }[], id: string): number =>
    rows.filter((row) => row.ownerId === id && row.listed === 1).length;
  return accounts.flatMap(({ id, instanceCount, volumeCount }) => [
    ...differ(`instances that ${id} counts`, instanceCount, listed(instances, id)),
    ...differ(`volumes that ${id} counts`, volumeCount, listed(volumes, id)),
  ]);
}

/** What an account uses of its quotas is the sum of its rows. */
export const wrongUsage = (
  accounts: readonly { id: string; usage: string }[],
  instances: readonly StoredInstance[],
  volumes: readonly VolumeRow[],
  snapshots: readonly SnapshotRow[],
): string[] =>
  accounts.flatMap(({ id, usage }) => {
    const should = [
      ...instances
        .filter(({ row }) => row.ownerId === id)
        .map(({ row, instance }) => usageOfInstance(instance, row.holdsCapacity === 1)),
      ...volumes.filter(({ ownerId }) => ownerId === id).map((row) => usageOfVolume(volumeFromRow(row))),
      ...snapshots.filter(({ ownerId }) => ownerId === id).map((row) => usageOfSnapshot(snapshotFromRow(row))),
    ].reduce(addUsage, {});
    const wrong = usageDifference(should, parseUsage(usage, id));
    return differ(`what ${id} uses beyond its rows`, wrong, {});
  });

/** Events are numbered from 1 to the account's counter. */
export function wrongEvents(eventSeq: number, numbers: readonly number[]): string[] {
  const gap = numbers.findIndex((number, at) => number !== at + 1);
  return [
    ...(gap < 0 ? [] : [`event ${gap + 1} has the number ${numbers[gap]}`]),
    ...differ('the number of events', numbers.length, eventSeq),
  ];
}

/**
 * Only when converged: instances that hold capacity should run, and the engine runs exactly these.
 */
export function wrongAtRest(all: readonly StoredInstance[], owned: readonly OwnedObject[]): string[] {
  const standing = new Map(
    all
      .filter(({ instance }) => instance.observed.phase !== 'Cleaned')
      .map((stored) => [stored.row.id, stored.instance]),
  );
  const there = new Map(owned.filter(({ kind }) => kind === 'instance').map((one) => [one.id, one.running]));
  return [
    ...all.flatMap(({ row, instance }) => {
      // Capacity is released once the engine reports the stop.
      if (instance.desired === 'stopped' && row.dueAtMs !== null) return [];
      const what = `${row.id}, ${instance.desired} ${row.status}, holds capacity`;
      return differ(what, row.holdsCapacity === 1, isToRun(instance));
    }),
    ...[...there].flatMap(([id, running]) => {
      const instance = standing.get(id);
      if (!instance) return [`the engine holds ${id}, of which nobody knows`];
      return differ(`${id}, ${instance.desired}, runs`, running, isToRun(instance));
    }),
    ...[...standing].flatMap(([id, instance]) =>
      isToRun(instance) && !there.get(id) ? [`${id} should run, and the engine holds none that does`] : [],
    ),
  ];
}

/** A queued instance has no capacity yet. */
const isToRun = ({ desired, waitsSinceMs, notBeforeMs }: Instance): boolean =>
  desired === 'running' && waitsSinceMs === null && notBeforeMs === null;
