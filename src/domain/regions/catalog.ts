import type { ImageId, InstanceTypeId, RegionId } from '../kernel/ids.ts';
import type { TypePlacement } from './node-placement.ts';

/** Integer micro-dollars, so sums are exact. Only the edge converts them to floating dollars. */
export type Micros = bigint;

const MICROS_PER_DOLLAR = 1_000_000n;

/** Exact up to nine billion dollars. */
export const toDollars = (micros: Micros | number): number => Number(micros) / Number(MICROS_PER_DOLLAR);

export const fromDollars = (dollars: number): Micros => BigInt(Math.round(dollars * Number(MICROS_PER_DOLLAR)));

/** Whether dollars have at most 6 decimals. */
export const isMicros = (dollars: number): boolean => toDollars(fromDollars(dollars)) === dollars;

export const hourlyModes = ['tidePerHour', 'perHour'] as const;
export const paidAheadModes = ['perDay', 'perWeek', 'perMonth'] as const;
/** `docs/interface.md` §4.1, in its order. */
export const chargeModes = [...hourlyModes, ...paidAheadModes] as const;
export type ChargeMode = (typeof chargeModes)[number];
export type PaidAheadMode = (typeof paidAheadModes)[number];

export const mapPrices = <From, To>(
  prices: Record<ChargeMode, From>,
  convert: (price: From) => To,
): Record<ChargeMode, To> => ({
  tidePerHour: convert(prices.tidePerHour),
  perHour: convert(prices.perHour),
  perDay: convert(prices.perDay),
  perWeek: convert(prices.perWeek),
  perMonth: convert(prices.perMonth),
});

export const storageKinds = ['filesystem', 'highspeedstorage', 'snapshot', 'keptDisk'] as const;
export type StorageKind = (typeof storageKinds)[number];
/** Micro-dollars per GB and 30 days. */
export type StoragePrices = Readonly<Record<StorageKind, Micros>>;

export const defaultStoragePrices: StoragePrices = {
  filesystem: 50_000n,
  highspeedstorage: 100_000n,
  snapshot: 30_000n,
  keptDisk: 50_000n,
};

export const mapStoragePrices = <From, To>(
  prices: Readonly<Record<StorageKind, From>>,
  convert: (price: From) => To,
): Record<StorageKind, To> => ({
  filesystem: convert(prices.filesystem),
  highspeedstorage: convert(prices.highspeedstorage),
  snapshot: convert(prices.snapshot),
  keptDisk: convert(prices.keptDisk),
});

export const engineKinds = ['docker', 'simulated', 'kubernetes'] as const;

export interface Region {
  id: RegionId;
  name: string;
  /** Short machine name; `regionInfo.value` of the interface. */
  value: string;
  location: string;
  /** Host (and port) of the region's gateway. */
  domain: string;
  sshAddress: string;
  engine: (typeof engineKinds)[number];
}

export interface Image {
  id: ImageId;
  name: string;
  /** Engine reference: `registry/name:tag`, or `berth.local/<recipe>:<hash>` of a built recipe. */
  ref: string;
  architecture: string;
  isPublic: boolean;
  tags: string[];
  type: string;
}

export const imageStates = ['Ready', 'Absent', 'Preparing', 'Failed', 'Saving'] as const;
/** States of an image of an account. `Failed` has a reason; lists omit `Deleting`. */
export const ownImageStates = ['Saving', 'Ready', 'Failed', 'Deleting'] as const;
export type OwnImageState = (typeof ownImageStates)[number];

export interface InstanceType {
  id: InstanceTypeId;
  regionId: RegionId;
  name: string;
  isSpot: boolean;
  cpuCores: number;
  cpuType: string;
  memoryGB: number;
  gpuCount: number;
  gpuName: string;
  rootDiskGB: number;
  /** Base size of `/root/dataDisk`; a launch adds `extraDataDiskSizeDB`. */
  dataDiskGB: number;
  /** Container runtime, by the engine's name for it; absent: the engine's default. */
  runtime?: string;
  /** Nodes in a cluster; absent: all of the region. */
  placement?: TypePlacement;
  pricesMicros: Record<ChargeMode, Micros>;
}

/** CPU in thousandths of a core, GPUs by their name. */
export interface Capacity {
  cpuMilli: number;
  memoryMiB: number;
  gpus: GpuCounts;
}

/** Name of cards without a known model. */
export const UNKNOWN_MODEL = 'NVIDIA';

/** Whether a name says no model: unknown cards, a resource of a cluster. */
export const isNoModel = (name: string): boolean => name === UNKNOWN_MODEL || /^[a-z0-9.-]+\/[\w.-]+$/.test(name);

/**
 * Parts of cards for types. `mig`: own memory and processors; `shared`: turns on a card, with all
 * of its memory.
 */
export const gpuSlices = ['mig', 'shared'] as const;
export type GpuSlice = (typeof gpuSlices)[number];

export type GpuCounts = Readonly<Record<string, number>>;

/** Capacity of a region for launches. */
export interface Supply extends Capacity {
  /** Left by launches without GPUs for each free GPU of a name; absent: nothing. */
  reservePerGpu?: Readonly<Record<string, Omit<Capacity, 'gpus'>>>;
}

/** Own members alone: a name may be one of every object. */
export const gpusNamed = (gpus: GpuCounts, name: string): number => (Object.hasOwn(gpus, name) ? (gpus[name] ?? 0) : 0);

export const countGpus = (gpus: GpuCounts): number => Object.values(gpus).reduce((sum, count) => sum + count, 0);

export const gpusByName = (devices: readonly { name: string }[]): GpuCounts =>
  Object.fromEntries([...Map.groupBy(devices, ({ name }) => name)].map(([name, { length }]) => [name, length]));

type Sized = Pick<InstanceType, 'cpuCores' | 'memoryGB' | 'gpuCount' | 'gpuName'>;

export const capacityOf = ({ cpuCores, memoryGB, gpuCount, gpuName }: Sized): Capacity => ({
  cpuMilli: Math.round(cpuCores * 1000),
  memoryMiB: Math.round(memoryGB * 1024),
  gpus: gpuCount === 0 ? {} : { [gpuName]: gpuCount },
});

interface SizedSpec {
  type: Sized;
  cpuOnlyPriceMicros: number | null;
}

/** GPUs that an instance of this spec holds while it runs. */
export const gpuCountOf = ({ type, cpuOnlyPriceMicros }: SizedSpec): number =>
  cpuOnlyPriceMicros === null ? type.gpuCount : 0;

/** Capacity that an instance of this spec holds while it runs. */
export const capacityOfSpec = (spec: SizedSpec): Capacity => capacityOf({ ...spec.type, gpuCount: gpuCountOf(spec) });
