/** Capacity of each region for operators: resources, GPUs with their holders, pools, what fits. */
import {
  gpuCountOf,
  type Capacity,
  countGpus,
  type GpuSlice,
  type InstanceType,
  type Region,
} from '../../../domain/regions/catalog.ts';
import { BYTES_PER_GB } from '../../../domain/storage/disk.ts';
import type { Drain } from '../../../domain/regions/drain.ts';
import type { Quarantine } from '../../../domain/regions/card-health.ts';
import type { CardFacts } from '../../../domain/regions/card-facts.ts';
import { assignGpus, type GpuHolder, type HeldGpu } from '../../../domain/regions/fleet.ts';
import type { MetricsSpan } from '../../../domain/compute/metrics.ts';
import type { Usage } from '../../../engines/contract.ts';
import { freeGB } from '../../../domain/storage/pool.ts';
import { queueLength } from '../../../store/tables/capacity.ts';
import { regionsWithUsage, type RegionWithUsage } from '../../../store/tables/catalog.ts';
import { capacityHolders, usageOfPools, type CapacityHolder } from '../../../store/tables/fleet.ts';
import { quarantinesOf } from '../../../store/tables/quarantine.ts';
import { poolId, poolsOf } from '../../../store/tables/pools.ts';
import { hostsOf, presentOf, timesFitNow } from './host-fit.ts';
import { availableBehindQueue } from './queue.ts';
import type { UseCaseDeps, RegionDrivers } from '../../kernel/ports.ts';

export interface FleetResource {
  total: number;
  promised: number;
  free: number;
  /** Null without samples. */
  used: number | null;
}

export interface FleetGpu extends HeldGpu {
  cardId: string;
  /** Null: unknown. */
  uuid: string | null;
  slice: GpuSlice | undefined;
  facts: CardFacts | undefined;
  /** Reasons for which it takes no launches. */
  quarantine: Quarantine[];
}

export interface FleetRegion {
  region: Region;
  isRetired: boolean;
  engine: { name: string; answers: boolean; text: string };
  drain: Drain | null;
  holding: number;
  waiting: number;
  resources: { cpuMilli: FleetResource; memoryMiB: FleetResource; gpus: FleetResource; nodePorts: FleetResource };
  /** Null: the region is one host. */
  hosts: readonly Capacity[] | null;
  /** Sum of the present hosts; null: `resources` count no others. */
  present: Capacity | null;
  gpus: FleetGpu[];
  pools: {
    name: string;
    totalGB: number;
    promisedGB: number;
    freeGB: number;
    usedGB: number;
    fileSystem: { totalGB: number; freeGB: number } | null;
  }[];
  types: { type: InstanceType; fitsNow: number }[];
}

export interface Fleet {
  read(): Promise<FleetRegion[]>;
}

/** A simulated host may have a million. */
const MAX_GPUS = 1_024;

export type FleetDeps = Pick<UseCaseDeps, 'readCatalog' | 'regions' | 'store' | 'time'> & {
  sampler: { latestOf(instanceId: string): Latest };
};
type Latest = { usage: Usage; span: MetricsSpan } | null;

export function makeFleet({ readCatalog, regions, store: { read }, time, sampler }: FleetDeps): Fleet {
  const readRegion = async (
    drivers: RegionDrivers,
    counted: RegionWithUsage,
    types: readonly InstanceType[],
    usedBytes: ReadonlyMap<string, number>,
  ): Promise<FleetRegion> => {
    const { regionId, health } = drivers;
    const holders = (await capacityHolders(read, regionId)).map((row) => ({ row, latest: sampler.latestOf(row.id) }));
    const { available } = await availableBehindQueue(read, counted, time.now());
    const devices = devicesOf(drivers);
    const sick = (await quarantinesOf(read, regionId)).filter(({ isReturned }) => !isReturned);
    const gpus = assignGpus(devices, holders.map(gpuHolderOf)).map((held, nth): FleetGpu => {
      const { id: cardId = '', uuid = null, slice, facts } = devices[nth] ?? {};
      return { ...held, cardId, uuid, slice, facts, quarantine: sick.filter((one) => one.cardId === cardId) };
    });
    const hosts = hostsOf(drivers);
    const nodePorts = counted.total.nodePorts - counted.used.nodePorts;
    const open = health.probe === null ? null : { free: available, nodePorts: Math.max(0, nodePorts) };
    return {
      region: counted.region,
      isRetired: counted.isRetired,
      engine: { name: health.probe?.version ?? counted.region.engine, answers: health.answers, text: health.text },
      drain: counted.drain,
      holding: holders.length,
      waiting: await queueLength(read, regionId),
      resources: resourcesOf(counted, sumOf(holders.map(({ latest }) => latest))),
      hosts,
      present: presentOf(drivers),
      gpus,
      pools: await poolsOfRegion(drivers, usedBytes),
      types: types.map((type) => ({
        type,
        fitsNow: timesFitNow(type, open, hosts),
      })),
    };
  };

  const poolsOfRegion = async (
    { regionId, pools }: RegionDrivers,
    usedBytes: ReadonlyMap<string, number>,
  ): Promise<FleetRegion['pools']> => {
    const counted = new Map((await poolsOf(read, regionId)).map((pool) => [pool.name, pool]));
    return pools.flatMap(({ name, space, ...rules }) => {
      const pool = counted.get(name);
      if (!pool) return [];
      const free = freeGB(pool, rules);
      return [
        {
          name,
          totalGB: pool.limitGB,
          promisedGB: pool.usedGB + pool.bestEffortGB / rules.diskOvercommit,
          freeGB: free,
          usedGB: (usedBytes.get(poolId(regionId, name)) ?? 0) / BYTES_PER_GB,
          fileSystem: space && { totalGB: space.totalBytes / BYTES_PER_GB, freeGB: space.freeBytes / BYTES_PER_GB },
        },
      ];
    });
  };

  return {
    async read() {
      const [{ types }, counted, usedBytes] = await Promise.all([
        readCatalog(),
        regionsWithUsage(read),
        usageOfPools(read),
      ]);
      const served = new Map<string, RegionDrivers>(regions.all().map((drivers) => [drivers.regionId, drivers]));
      const all = counted.flatMap((one) => {
        const drivers = served.get(one.region.id);
        const offered = [...types.values()].filter(({ regionId }) => regionId === one.region.id);
        return drivers ? [readRegion(drivers, one, offered, usedBytes)] : [];
      });
      return Promise.all(all);
    },
  };
}

const devicesOf = ({ health: { probe, answers } }: RegionDrivers) =>
  (probe?.devices ?? [])
    .slice(0, MAX_GPUS)
    .map(({ name, figures, ...one }) => ({ ...one, model: name, figures: answers ? figures : undefined }));

const gpuHolderOf = ({ row, latest }: { row: CapacityHolder; latest: Latest }): GpuHolder => ({
  instanceId: row.id,
  name: row.spec.name,
  ownerId: row.ownerId,
  ownerName: row.ownerName,
  count: gpuCountOf(row.spec),
  model: row.spec.type.gpuName,
  gpus: latest?.usage.gpus ?? [],
});

/** Sums the samples; null without any. A holder without a sample is starting, or unreadable. */
function sumOf(samples: readonly Latest[]): Amounts | null {
  const known = samples.filter((sample) => sample !== null);
  if (known.length === 0) return samples.length === 0 ? { cpuMilli: 0, memoryMiB: 0, gpus: 0 } : null;
  const sum = { cpuMilli: 0, memoryMiB: 0, gpus: 0 };
  for (const { usage, span } of known) {
    const [cpuMilli = Number.NaN] = span.mean;
    if (!Number.isNaN(cpuMilli)) sum.cpuMilli += cpuMilli;
    sum.memoryMiB += usage.memoryBytes / 1024 ** 2;
    sum.gpus += (usage.gpus ?? []).reduce((total, { busyPercent }) => total + (busyPercent ?? 0) / 100, 0);
  }
  return sum;
}

interface Amounts {
  cpuMilli: number;
  memoryMiB: number;
  gpus: number;
}

function resourcesOf(counted: RegionWithUsage, measured: Amounts | null): FleetRegion['resources'] {
  const amounts = ({ gpus, ...all }: RegionWithUsage['used']) => ({ ...all, gpus: countGpus(gpus) });
  const [total, used] = [amounts(counted.total), amounts(counted.used)];
  const resource = (name: keyof typeof used, now: number | null): FleetResource => ({
    total: total[name],
    promised: used[name],
    free: total[name] - used[name],
    used: now,
  });
  return {
    cpuMilli: resource('cpuMilli', measured && measured.cpuMilli),
    memoryMiB: resource('memoryMiB', measured && measured.memoryMiB),
    gpus: resource('gpus', measured && measured.gpus),
    nodePorts: resource('nodePorts', null),
  };
}
