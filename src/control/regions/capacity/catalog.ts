/** Lists instance types with prices and stock, and regions with their engines' capabilities. */
import {
  chargeModes,
  type Capacity,
  type GpuSlice,
  type InstanceType,
  type ChargeMode,
  type Region,
  mapStoragePrices,
  type StorageKind,
  toDollars,
} from '../../../domain/regions/catalog.ts';
import type { Drain } from '../../../domain/regions/drain.ts';
import { freeGB } from '../../../domain/storage/pool.ts';
import { volumeTypes, type VolumeType } from '../../../domain/storage/disk.ts';
import { regionsWithUsage } from '../../../store/tables/catalog.ts';
import { poolId, poolsOf } from '../../../store/tables/pools.ts';
import type { Store } from '../../../store/store.ts';
import { listedOffPeak, type ListedOffPeak } from '../region-facts.ts';
import { dockerSupport } from './docker-support.ts';
import { hostsOf, timesFitNow, type OpenCapacity } from './host-fit.ts';
import { availableBehindQueue } from './queue.ts';
import type { Capabilities, Isolation, Probe } from '../../../engines/contract.ts';
import type { StorageCapabilities } from '../../../storage/contract.ts';
import { poolForType } from '../../storage/ports.ts';
import type { UseCaseDeps, RegionDrivers, Regions } from '../../kernel/ports.ts';

/** Dollars per GB and 30 days. */
type StorageDollars = Record<StorageKind, number>;

export interface CatalogFamily {
  gpuName: string;
  isSpotInstance: boolean;
  regionInfos: {
    regionId: string;
    regionName: string;
    storagePrices: StorageDollars;
    instanceTypeInfos: {
      instanceTypeId: string;
      gpuNum: number;
      gpuMemoryGB?: number;
      gpuSlice?: GpuSlice;
      gpuCard?: string;
      stockStatus: 'InStock' | 'OutOfStock';
      fitsNow: number;
      price: { chargeMode: ChargeMode; price: number; offPeak?: ListedOffPeak }[];
      instanceTypeName: string;
      cpuCores: number;
      memoryGB: number;
      rootDiskGB: number;
      dataDiskGB: number;
    }[];
  }[];
}

export interface ListedRegion {
  region: Region;
  engine: { name: string; answers: boolean; text: string };
  drain: Drain | null;
  storagePrices: StorageDollars;
  capabilities: Partial<Omit<Capabilities, 'isolation'> & { commonData: boolean; isolation: ListedIsolation }>;
  /** Pool and free space for volumes of each type. */
  volumeTypes: ({ type: VolumeType; pool: string; freeGB: number } & StorageCapabilities)[];
}

/** `instanceTypes`: container runtimes by name of the type, without types of the default. */
export type ListedIsolation = Isolation & { instanceTypes: Record<string, string> };

export interface Catalog {
  families(): Promise<CatalogFamily[]>;
  regions(): Promise<ListedRegion[]>;
}

type CatalogDeps = Pick<UseCaseDeps, 'readCatalog' | 'regions' | 'store' | 'time'>;

export const makeCatalog = ({ readCatalog, regions, store, time }: CatalogDeps): Catalog => ({
  async families() {
    const { types } = await readCatalog();
    return familiesOf([...types.values()], await stocksOf(store, regions, time.now()));
  },

  async regions() {
    const { types } = await readCatalog();
    const counted = new Map((await regionsWithUsage(store.read)).map((one) => [one.region.id, one]));
    const pools = await Promise.all(regions.all().map(({ regionId }) => poolsOf(store.read, regionId)));
    const counts = new Map(pools.flat().map((pool) => [poolId(pool.regionId, pool.name), pool]));
    return regions.all().flatMap((drivers) => {
      const { regionId, health } = drivers;
      const one = counted.get(regionId);
      if (!one || one.isRetired) return [];
      const { region, drain } = one;
      return [
        {
          region,
          drain,
          storagePrices: mapStoragePrices(one.storagePrices, toDollars),
          engine: { name: health.probe?.version ?? region.engine, answers: health.answers, text: health.text },
          capabilities: capabilitiesOf(drivers, [...types.values()]),
          volumeTypes: volumeTypes.map((type) => {
            const pool = poolForType(drivers, type);
            const { name, storage } = pool;
            const counted = counts.get(poolId(regionId, name));
            return {
              type,
              pool: name,
              freeGB: counted ? Math.floor(freeGB(counted, pool)) : 0,
              ...storage.capabilities(),
            };
          }),
        },
      ];
    });
  },
});

function capabilitiesOf(drivers: RegionDrivers, types: readonly InstanceType[]): ListedRegion['capabilities'] {
  const engine = drivers.health.probe?.capabilities;
  if (!engine) return {};
  const offered = types.filter(({ regionId }) => regionId === drivers.regionId);
  const runtimes = offered.flatMap(({ name, runtime }) => (runtime === undefined ? [] : [[name, runtime] as const]));
  const isolation = { ...engine.isolation, instanceTypes: Object.fromEntries(runtimes) };
  const commonData = drivers.commonDataFolder !== null;
  return { ...engine, ...dockerSupport(drivers, engine), commonData, isolation };
}

interface GpuPart {
  slice: GpuSlice;
  card?: string | undefined;
}

/** Capacity of a region for a new launch. */
export interface Stock {
  regionName: string;
  /** Null without capacity: the engine has not answered yet, or no node port is free. */
  open: OpenCapacity | null;
  /** An instance fits on one of them; null: one host, which `open` describes. */
  hosts: readonly Capacity[] | null;
  /** By model; absent: unknown. */
  gpuMemoryGB: ReadonlyMap<string, number>;
  /** By name; absent: whole cards. */
  gpuParts: ReadonlyMap<string, GpuPart>;
  offPeak: ListedOffPeak | null;
  storagePrices: StorageDollars;
}

/** Reads the store, not the cached catalog: the same rule as a launch. */
async function stocksOf({ read }: Store, regions: Regions, nowMs: number): Promise<Map<string, Stock>> {
  const answered = new Map<string, RegionDrivers>(
    regions.all().flatMap((drivers) => (drivers.health.probe === null ? [] : [[drivers.regionId, drivers]])),
  );
  const stocks = new Map<string, Stock>();
  for (const counted of await regionsWithUsage(read)) {
    const { region, total, used } = counted;
    const drivers = answered.get(region.id);
    const nodePorts = drivers === undefined ? 0 : total.nodePorts - used.nodePorts;
    stocks.set(region.id, {
      regionName: region.name,
      open: nodePorts <= 0 ? null : { free: (await availableBehindQueue(read, counted, nowMs)).available, nodePorts },
      hosts: drivers === undefined ? null : hostsOf(drivers),
      gpuMemoryGB: cardMemoryOf(drivers?.health.probe?.devices ?? []),
      gpuParts: new Map(
        drivers?.health.probe?.devices.flatMap(({ name, slice, card }) =>
          slice === undefined ? [] : [[name, { slice, card }]],
        ),
      ),
      offPeak: listedOffPeak(counted.offPeak, nowMs),
      storagePrices: mapStoragePrices(counted.storagePrices, toDollars),
    });
  }
  return stocks;
}

/** The least of a model: cards of one name may differ. */
function cardMemoryOf(devices: Probe['devices']): Map<string, number> {
  const least = new Map<string, number>();
  for (const { name, memoryMiB } of devices)
    if (typeof memoryMiB === 'number')
      least.set(name, Math.min(least.get(name) ?? Infinity, Math.round(memoryMiB / 102.4) / 10));
  return least;
}

/** Bounds what users learn of the size of a region. */
const MOST_SHOWN = 100;

/** Groups types by GPU name and spot, then by region. */
export function familiesOf(types: readonly InstanceType[], stocks: ReadonlyMap<string, Stock>): CatalogFamily[] {
  const families = new Map<string, CatalogFamily>();
  for (const type of types) {
    const stock = stocks.get(type.regionId);
    if (!stock) continue;
    const key = `${type.isSpot}/${type.gpuName}`;
    const family = families.get(key) ?? { gpuName: type.gpuName, isSpotInstance: type.isSpot, regionInfos: [] };
    families.set(key, family);
    let listed = family.regionInfos.find(({ regionId }) => regionId === type.regionId);
    if (!listed) {
      const { regionName, storagePrices } = stock;
      listed = { regionId: type.regionId, regionName, storagePrices, instanceTypeInfos: [] };
      family.regionInfos.push(listed);
    }
    const gpuMemoryGB = stock.gpuMemoryGB.get(type.gpuName);
    const { slice, card } = stock.gpuParts.get(type.gpuName) ?? {};
    const fitsNow = timesFitNow(type, stock.open, stock.hosts);
    listed.instanceTypeInfos.push({
      instanceTypeId: type.id,
      gpuNum: type.gpuCount,
      ...(gpuMemoryGB === undefined ? {} : { gpuMemoryGB }),
      ...(slice === undefined ? {} : { gpuSlice: slice }),
      ...(card === undefined ? {} : { gpuCard: card }),
      stockStatus: fitsNow > 0 ? 'InStock' : 'OutOfStock',
      fitsNow: Math.min(fitsNow, MOST_SHOWN),
      price: chargeModes.map((chargeMode) => ({
        chargeMode,
        price: toDollars(type.pricesMicros[chargeMode]),
        ...(chargeMode === 'tidePerHour' && stock.offPeak ? { offPeak: stock.offPeak } : {}),
      })),
      instanceTypeName: type.name,
      cpuCores: type.cpuCores,
      memoryGB: type.memoryGB,
      rootDiskGB: type.rootDiskGB,
      dataDiskGB: type.dataDiskGB,
    });
  }
  return [...families.values()];
}
