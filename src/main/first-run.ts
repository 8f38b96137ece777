/**
 * Initial data of an installation: default region, instance types that fit the machine, prices,
 * images. Each is added once, by a key that is stored; then it belongs to the administrators.
 */
import { arch, availableParallelism, totalmem } from 'node:os';
import { poolForType } from '../control/storage/disks.ts';
import type { PoolDrivers } from '../control/kernel/regions.ts';
import { imageId, instanceTypeId, regionId, type RegionId } from '../domain/kernel/ids.ts';
import { LOCAL_PREFIX } from '../engines/docker/image/images.ts';
import { BYTES_PER_GB } from '../domain/storage/disk.ts';
import { volumeTypeOfDisk } from '../domain/storage/pool.ts';
import {
  type ChargeMode,
  defaultStoragePrices,
  type InstanceType,
  type Region,
  fromDollars,
  type Micros,
  gpusByName,
  UNKNOWN_MODEL,
  type GpuSlice,
} from '../domain/regions/catalog.ts';
import { defaultOffPeak } from '../domain/regions/off-peak.ts';
import {
  regionWithUsage,
  saveFirstOffPeak,
  saveRegion,
  saveSetting,
  setting,
  ensureSetting,
} from '../store/tables/catalog.ts';
import {
  insertManagedImage,
  insertManagedType,
  lockRegions,
  managedImageById,
  managedTypeById,
  managedTypeByName,
  managedTypes,
  writeManagedImage,
  writeManagedType,
} from '../store/tables/catalog-rows.ts';
import { recordStoragePrices, recordTypePrices } from '../store/tables/price-changes.ts';
import type { Probe } from '../engines/contract.ts';
import type { Store } from '../store/store.ts';
import type { Config } from './config.ts';

const MIB_PER_GB = 1024;
/** Memory reserved for the host's programs, the engine and Berth. */
export const HOST_MEMORY_MIB = 1024;

/** Sizes in cores; the catalog offers those that fit the machine. */
const CPU_SIZES = [1, 2, 4, 8, 16, 32, 64] as const;
const GB_PER_CORE = 2;
const GPU_SIZES = [1, 2, 4, 8] as const;
/** Bounds the share of one GPU on larger (simulated) machines. */
const LARGEST = { cores: 256, memoryGB: 2048, gpus: 8 } as const;

/** Cores and memory of all GPU types together; CPU types have the rest. */
const SHARE_OF_GPUS = 7 / 8;

/** Dollars an hour, until an operator sets prices. */
const CORE_PRICE = 0.02;
/** By a word of the model's name; rounded prices of public clouds, 2026. */
const gpuPrices: Record<string, number> = {
  B200: 5,
  H200: 3.2,
  H100: 2.4,
  GH200: 2,
  A100: 1.4,
  L40S: 0.9,
  L40: 0.8,
  A40: 0.5,
  A10: 0.6,
  A10G: 0.6,
  L4: 0.45,
  V100: 0.5,
  T4: 0.3,
  MI300X: 2,
};
const OTHER_GPU_PRICE = 0.8;

export interface Machine {
  cpuCores: number;
  memoryMiB: number;
  architecture: string;
  /** `share` and `card` are those of a part; absent: a whole card. */
  gpus: { name: string; share?: number | undefined; slice?: GpuSlice | undefined; card?: string | undefined }[];
}

/** Facts known before the engine answers; only the engine knows GPUs. */
export const thisMachine = (): Machine => ({
  cpuCores: availableParallelism(),
  memoryMiB: Math.floor(totalmem() / 1024 ** 2),
  architecture: arch() === 'x64' ? 'amd64' : arch(),
  gpus: [],
});

/** The engine's machine; for a cluster its largest ones. */
export function machinesOf({ capacity, hosts, devices, architecture }: Probe): Machine[] {
  if (hosts === undefined) {
    const gpus = devices.filter(({ kind }) => kind === 'gpu');
    return [{ cpuCores: Math.floor(capacity.cpuMilli / 1000), memoryMiB: capacity.memoryMiB, architecture, gpus }];
  }
  return hosts.map(({ cpuMilli, memoryMiB, gpus }) => ({
    cpuCores: Math.floor(cpuMilli / 1000),
    memoryMiB,
    architecture,
    gpus: Object.entries(gpus).flatMap(([name, count]) => Array.from({ length: count }, () => ({ name }))),
  }));
}

/** Prices of the hours that a unit of each charge mode holds, with a discount. */
export function pricesOf(dollarsPerHour: number): Record<ChargeMode, Micros> {
  const price = (hours: number): Micros => fromDollars(Math.round(dollarsPerHour * hours * 10_000) / 10_000);
  return {
    tidePerHour: price(0.5),
    perHour: price(1),
    perDay: price(24 * 0.9),
    perWeek: price(168 * 0.8),
    perMonth: price(720 * 0.7),
  };
}

const DATA_DISK_GB = 20;
const MIN_DATA_DISKS = 25;

/** Size of data disks, chosen once by the size of the pool: small machines get small disks. */
export async function ensureDataDiskGB(store: Store, pools: readonly PoolDrivers[]): Promise<number> {
  const stored = await setting(store.read, 'dataDiskGB');
  if (stored !== undefined) return Number(stored);
  const { storage } = poolForType({ pools }, volumeTypeOfDisk('data'));
  const { totalBytes } = await storage.space();
  const maxGB = Math.floor(totalBytes / BYTES_PER_GB / MIN_DATA_DISKS);
  const sizeGB = Math.max(1, Math.min(DATA_DISK_GB, maxGB));
  return Number(await store.write((tx) => ensureSetting(tx, 'dataDiskGB', String(sizeGB))));
}

type OfferedType = Omit<InstanceType, 'id' | 'regionId'>;

interface TypeOptions {
  dataDiskGB?: number;
  /** Model of the types `gpu.1`, `gpu.2` …; those of others are named by their model. */
  mainModel?: string | undefined;
  runtimes?: Readonly<Record<string, string>>;
}

/** Types that one of the machines can hold; of a name that several have, those of the first. */
export function typesOfMachines(machines: readonly Machine[], options: TypeOptions): OfferedType[] {
  const mainModel = options.mainModel ?? firstModel(machines.flatMap(({ gpus }) => gpus));
  const all = machines.flatMap((machine) => typesThatFit({ ...machine, ...options, mainModel }));
  return all.filter(({ name }, at) => all.findIndex((other) => other.name === name) === at);
}

const wordsOf = (model: string): string[] => model.replace(/^(NVIDIA|AMD) /, '').split(/[^\w.]+/);
const shortName = (model: string): string => wordsOf(model).join('-').toLowerCase();
const firstModel = ([first]: Machine['gpus']): string | undefined => first?.card ?? first?.name;
const gpuPriceOf = (model: string): number =>
  gpuPrices[wordsOf(model).find((word) => Object.hasOwn(gpuPrices, word)) ?? ''] ?? OTHER_GPU_PRICE;
const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0);

/** Instance types that the machine can hold at least once: CPU sizes, and whole GPUs. */
export function typesThatFit(machine: Machine & TypeOptions): OfferedType[] {
  const { cpuCores, architecture, gpus, dataDiskGB = DATA_DISK_GB, runtimes } = machine;
  const mainModel = machine.mainModel ?? firstModel(gpus);
  const memoryGB = Math.max(1, Math.floor((machine.memoryMiB - HOST_MEMORY_MIB) / MIB_PER_GB));
  const base = { isSpot: false, cpuType: architecture, rootDiskGB: 20, dataDiskGB };
  const cpu = CPU_SIZES.filter((cores) => cores <= cpuCores).map((cores) => ({
    ...base,
    name: `cpu.${cores}`,
    cpuCores: cores,
    memoryGB: Math.min(cores * GB_PER_CORE, memoryGB),
    gpuCount: 0,
    gpuName: '',
    pricesMicros: pricesOf(cores * CORE_PRICE),
  }));
  const cards = sum(gpus.map(({ share = 1 }) => share));
  const part = (ofCards: number, total: number, largest: number): number => {
    const ofCard = Math.min((total * SHARE_OF_GPUS) / cards, largest / Math.min(cards, LARGEST.gpus));
    return Math.max(1, Math.floor(ofCards * ofCard));
  };
  const gpu = [...Map.groupBy(gpus, ({ name }) => name)].flatMap(([gpuName, ofModel]) =>
    GPU_SIZES.filter((size) => size <= (ofModel[0]?.slice === undefined ? ofModel.length : 1)).map((gpuCount) => {
      const ofCards = gpuCount * (ofModel[0]?.share ?? 1);
      const cores = part(ofCards, cpuCores, LARGEST.cores);
      return {
        ...base,
        name: `${gpuName === mainModel ? 'gpu' : shortName(gpuName)}.${gpuCount}`,
        cpuCores: cores,
        memoryGB: part(ofCards, memoryGB, LARGEST.memoryGB),
        gpuCount,
        gpuName,
        pricesMicros: pricesOf(ofCards * gpuPriceOf(gpuName) + cores * CORE_PRICE),
      };
    }),
  );
  return [...cpu, ...gpu].map((type) => {
    const runtime = runtimes?.[type.name];
    return runtime === undefined ? type : { ...type, runtime };
  });
}

export interface OfferedImage {
  key: string;
  name: string;
  ref: string;
  tags: string[];
}

/** Adds an image once. The reference of an image that Berth builds follows its recipe. */
export async function offerImage(
  store: Store,
  image: OfferedImage & { architecture: string },
  { nowMs, uuid }: { nowMs: number; uuid: () => string },
): Promise<string> {
  const { key, ...facts } = image;
  return store.write(async (tx) => {
    await lockRegions(tx);
    const id = imageId(await ensureSetting(tx, `image.${key}`, uuid()));
    const stored = await managedImageById(tx, id);
    const version = (stored?.version ?? 0) + 1;
    if (!stored) {
      const added = { ...facts, id, isPublic: true, type: 'notebook', createdAtMs: nowMs, version, isRetired: false };
      await insertManagedImage(tx, added);
    } else if (stored.ref !== facts.ref && [stored.ref, facts.ref].every((ref) => ref.startsWith(LOCAL_PREFIX)))
      await writeManagedImage(tx, { ...stored, ref: facts.ref, version }, { isOtherRef: true });
    return id;
  });
}

/** Adds the types that were never added before, retired or not. */
export async function offerTypes(
  store: Store,
  region: RegionId,
  types: OfferedType[],
  uuid: () => string,
): Promise<void> {
  await store.write(async (tx) => {
    await lockRegions(tx);
    for (const type of types) {
      const key = `type.${type.name}`;
      if ((await setting(tx, key)) !== undefined) continue;
      const named = await managedTypeByName(tx, region, type.name);
      const id = instanceTypeId(named?.id ?? uuid());
      await saveSetting(tx, key, id);
      if (named) continue;
      await insertManagedType(tx, { ...type, id, regionId: region, version: 1, isRetired: false });
      const change = { fromMs: Date.now(), regionId: region, typeId: id, byAccountId: '' };
      await recordTypePrices(tx, change, type.pricesMicros);
    }
  });
}

/** Adds new types of the machines, and names those of an unknown model. */
export async function offerTypesOf(
  store: Store,
  region: RegionId,
  machines: readonly Machine[],
  { uuid, ...options }: Omit<TypeOptions, 'mainModel'> & { uuid: () => string },
): Promise<void> {
  const gpus = machines.flatMap((machine) => machine.gpus);
  const mainModel = await mainModelOf(store, gpus);
  if (mainModel !== undefined) await nameModel(store, region, mainModel);
  await offerTypes(store, region, typesOfMachines(machines, { ...options, mainModel }), uuid);
}

/** The first model found; cards added or divided later have other names. */
async function mainModelOf(store: Store, gpus: Machine['gpus']): Promise<string | undefined> {
  const first = firstModel(gpus);
  if (first === undefined || gpus.some(({ name }) => name === UNKNOWN_MODEL)) return undefined;
  return store.write(async (tx) => {
    const id = await setting(tx, 'type.gpu.1');
    const named = id === undefined ? undefined : (await managedTypeById(tx, id))?.gpuName;
    const isFound = gpus.some(({ name }) => name === named);
    return ensureSetting(tx, 'gpuModel', isFound && named !== undefined ? named : first);
  });
}

/** Ids and prices stay. */
async function nameModel(store: Store, region: RegionId, model: string): Promise<void> {
  await store.write(async (tx) => {
    await lockRegions(tx);
    const { rows } = await managedTypes(tx, 0, Number.MAX_SAFE_INTEGER);
    for (const type of rows)
      if (type.regionId === region && type.gpuName === UNKNOWN_MODEL)
        await writeManagedType(tx, { ...type, gpuName: model, version: type.version + 1 });
  });
}

export const defaultRegionId = (store: Store, uuid: string): Promise<RegionId> =>
  store.write(async (tx) => regionId(await ensureSetting(tx, 'region.default', uuid)));

export const installationId = (store: Store, uuid: string): Promise<string> =>
  store.write((tx) => ensureSetting(tx, 'installation', uuid));

/**
 * Creates or updates the region, with off-peak windows at its first run. The probe sets its
 * capacity once the engine answers.
 */
export async function saveDefaultRegion(
  store: Store,
  region: Region,
  machine: Machine,
  { nodePorts: { first, last }, cpuOvercommit }: Pick<Config, 'nodePorts' | 'cpuOvercommit'>,
  timeZone = Intl.DateTimeFormat().resolvedOptions().timeZone,
): Promise<void> {
  const before = await regionWithUsage(store.read, region.id);
  const total = before?.total ?? {
    cpuMilli: machine.cpuCores * 1000 * cpuOvercommit,
    memoryMiB: Math.max(0, machine.memoryMiB - HOST_MEMORY_MIB),
    gpus: gpusByName(machine.gpus),
  };
  await store.write(async (tx) => {
    await saveRegion(tx, region, { ...total, nodePorts: last - first + 1 });
    const change = { fromMs: Date.now(), regionId: region.id, byAccountId: '' };
    if (!before) await recordStoragePrices(tx, change, defaultStoragePrices);
    const key = `offPeak.${region.id}`;
    if ((await setting(tx, key)) !== undefined) return;
    await saveSetting(tx, key, 'offered');
    await saveFirstOffPeak(tx, region.id, defaultOffPeak(timeZone));
  });
}
