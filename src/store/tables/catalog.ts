/** Regions, operator images and instance types, as launches and lists read them. */
import type { Selectable } from 'kysely';
import {
  defaultStoragePrices,
  engineKinds,
  mapStoragePrices,
  type Capacity,
  type ChargeMode,
  type GpuCounts,
  type Image,
  type InstanceType,
  type Micros,
  type Region,
  type StorageKind,
  type StoragePrices,
  type Supply,
} from '../../domain/regions/catalog.ts';
import type { Drain } from '../../domain/regions/drain.ts';
import type { OffPeak } from '../../domain/regions/off-peak.ts';
import { imageId, instanceTypeId, regionId } from '../../domain/kernel/ids.ts';
import type { ImageTable, InstanceTypeTable, RegionTable } from '../db/schema.ts';
import { oneOf, parseJson } from '../db/columns.ts';
import { prepared } from '../db/prepared.ts';
import type { Db } from '../store.ts';
import { followAct } from './due-acts.ts';
import {
  drain as drainColumn,
  gpuCounts,
  offPeakSchema,
  parseTags,
  reservePerGpu,
  priceList,
  storagePriceList,
  typePlacement,
} from './json-schemas.ts';

export type RegionCapacity = Capacity & { nodePorts: number };
export type RegionTotal = Supply & { nodePorts: number };

export interface RegionWithUsage {
  region: Region;
  total: RegionTotal;
  used: RegionCapacity;
  drain: Drain | null;
  isRetired: boolean;
  offPeak: OffPeak | null;
  storagePrices: StoragePrices;
}

export const totalColumns = ({ cpuMilli, memoryMiB, gpus, reservePerGpu, nodePorts }: RegionTotal) => ({
  cpuMilliTotal: cpuMilli,
  memoryMiBTotal: memoryMiB,
  gpusTotal: JSON.stringify(gpus),
  reservePerGpu: reservePerGpu === undefined ? null : JSON.stringify(reservePerGpu),
  nodePortsTotal: nodePorts,
});

const gpusFromColumn = (id: string, text: string): GpuCounts =>
  text === '{}' ? {} : parseJson(gpuCounts, text, { table: 'region', id, column: 'gpus' });

export const regionFromRow = (row: Selectable<RegionTable>): RegionWithUsage => {
  const engine = oneOf(engineKinds, row.engine);
  return {
    region: {
      id: regionId(row.id),
      name: row.name,
      value: row.value,
      location: row.location,
      domain: row.ownDomain ?? row.domain,
      sshAddress: row.sshAddress,
      engine,
    },
    total: {
      cpuMilli: row.cpuMilliTotal,
      memoryMiB: row.memoryMiBTotal,
      gpus: gpusFromColumn(row.id, row.gpusTotal),
      ...(row.reservePerGpu === null
        ? {}
        : {
            reservePerGpu: parseJson(reservePerGpu, row.reservePerGpu, {
              table: 'region',
              id: row.id,
              column: 'reservePerGpu',
            }),
          }),
      nodePorts: row.nodePortsTotal,
    },
    used: {
      cpuMilli: row.cpuMilliUsed,
      memoryMiB: row.memoryMiBUsed,
      gpus: gpusFromColumn(row.id, row.gpusUsed),
      nodePorts: row.nodePortsUsed,
    },
    drain: row.drain === null ? null : drainOf(row.id, row.drain),
    isRetired: row.inCatalog === 0,
    offPeak: offPeakOf(row),
    storagePrices: storagePricesOf(row),
  };
};

export function storagePricesOf({
  id,
  storagePrices,
}: Pick<Selectable<RegionTable>, 'id' | 'storagePrices'>): StoragePrices {
  if (storagePrices === null) return defaultStoragePrices;
  const stored = parseJson(storagePriceList, storagePrices, { table: 'region', id, column: 'storagePrices' });
  return mapStoragePrices(stored, BigInt);
}

/** Windows by their text: tasks read those of each region every second. */
const parsedOffPeaks = new Map<string, OffPeak>();
const MAX_PARSED = 1_000;

export function offPeakOf({ id, offPeak }: Pick<Selectable<RegionTable>, 'id' | 'offPeak'>): OffPeak | null {
  if (offPeak === null) return null;
  const parsed =
    parsedOffPeaks.get(offPeak) ?? parseJson(offPeakSchema, offPeak, { table: 'region', id, column: 'offPeak' });
  if (parsedOffPeaks.size >= MAX_PARSED) parsedOffPeaks.clear();
  parsedOffPeaks.set(offPeak, parsed);
  return parsed;
}

/** Prices of now, for a transaction that begins to charge storage. */
export async function storagePriceOf(tx: Db, regionId: string, kind: StorageKind): Promise<Micros> {
  const row = await tx
    .selectFrom('region')
    .select(['id', 'storagePrices'])
    .where('id', '=', regionId)
    .executeTakeFirst();
  return (row ? storagePricesOf(row) : defaultStoragePrices)[kind];
}

/** Unless an administrator has set windows. */
export async function saveFirstOffPeak(tx: Db, id: string, offPeak: OffPeak): Promise<void> {
  const row = tx.updateTable('region').set({ offPeak: JSON.stringify(offPeak) });
  await row.where('id', '=', id).where('offPeak', 'is', null).execute();
}

const allRegions = prepared()((db) => db.selectFrom('region').selectAll().orderBy('name'));

export const regionsWithUsage = async (db: Db): Promise<RegionWithUsage[]> =>
  (await allRegions(db, {})).map(regionFromRow);

const drainOf = (id: string, text: string): Drain =>
  parseJson(drainColumn, text, { table: 'region', id, column: 'drain' });

export async function regionWithUsage(db: Db, id: string): Promise<RegionWithUsage | undefined> {
  const row = await db.selectFrom('region').selectAll().where('id', '=', id).executeTakeFirst();
  return row && regionFromRow(row);
}

/** Inserts a region, or writes what follows from the settings; the rest is the administrator's. */
export async function saveRegion(tx: Db, { id, ...facts }: Region, total: RegionTotal): Promise<void> {
  const { domain, sshAddress, engine } = facts;
  const totals = totalColumns(total);
  await tx
    .insertInto('region')
    .values({ id, ...facts, ...totals })
    .onConflict((conflict) => conflict.column('id').doUpdateSet({ domain, sshAddress, engine, ...totals }))
    .execute();
}

/** Writes the capacity the engine reports; reservations stay, even beyond the total. */
export async function saveRegionTotals(tx: Db, id: string, total: RegionTotal): Promise<void> {
  await tx.updateTable('region').set(totalColumns(total)).where('id', '=', id).execute();
}

/** Locks the region: launches and starts see the drain, or come before. */
export async function saveDrain(tx: Db, id: string, drain: Drain | null): Promise<void> {
  await tx
    .updateTable('region')
    .set({ drain: drain && JSON.stringify(drain) })
    .where('id', '=', id)
    .execute();
  await followAct(tx, { kind: 'drain', subjectId: id, ownerId: '', dueAtMs: drain?.stopAtMs ?? null });
}

export const imageFromRow = (row: Selectable<ImageTable>): Image => ({
  id: imageId(row.id),
  name: row.name,
  ref: row.ref,
  architecture: row.architecture,
  isPublic: row.isPublic === 1,
  tags: parseTags(row.tags, row.id),
  type: row.type,
});

export async function catalogImages(db: Db): Promise<Image[]> {
  const rows = await db
    .selectFrom('image')
    .selectAll()
    .where('inCatalog', '=', 1)
    .orderBy('createdAtMs')
    .orderBy('id')
    .execute();
  return rows.map(imageFromRow);
}

export function typeFromRow(row: Selectable<InstanceTypeTable>): InstanceType {
  const { prices: pricesText, placement: placementText, runtime, ...more } = row;
  const { inCatalog: _inCatalog, position: _position, version: _version, ...facts } = more;
  const placement =
    placementText &&
    parseJson(typePlacement, placementText, { table: 'instanceType', id: row.id, column: 'placement' });
  const prices = parseJson(priceList, pricesText, { table: 'instanceType', id: row.id, column: 'prices' });
  const priceOf = (mode: ChargeMode): bigint => BigInt(prices[mode]);
  return {
    ...facts,
    id: instanceTypeId(row.id),
    regionId: regionId(row.regionId),
    isSpot: row.isSpot === 1,
    ...(runtime === null ? {} : { runtime }),
    ...(placement ? { placement } : {}),
    pricesMicros: {
      tidePerHour: priceOf('tidePerHour'),
      perHour: priceOf('perHour'),
      perDay: priceOf('perDay'),
      perWeek: priceOf('perWeek'),
      perMonth: priceOf('perMonth'),
    },
  };
}

export async function catalogInstanceTypes(db: Db): Promise<InstanceType[]> {
  const rows = await db
    .selectFrom('instanceType')
    .selectAll()
    .where('inCatalog', '=', 1)
    .where('regionId', 'in', db.selectFrom('region').select('id').where('inCatalog', '=', 1))
    .orderBy('position')
    .execute();
  return rows.map(typeFromRow);
}

const settingNamed = prepared<{ name: string }>()((db, p) =>
  db.selectFrom('setting').select('value').where('name', '=', p('name')),
);

export const setting = async (db: Db, name: string): Promise<string | undefined> =>
  (await settingNamed(db, { name }))[0]?.value;

/** Stores the first value given under this name and returns the stored one, on any process. */
export async function ensureSetting(tx: Db, name: string, value: string): Promise<string> {
  await tx
    .insertInto('setting')
    .values({ name, value })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  return (await setting(tx, name)) ?? value;
}

export async function saveSetting(tx: Db, name: string, value: string): Promise<void> {
  await tx
    .insertInto('setting')
    .values({ name, value })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ value }))
    .execute();
}
