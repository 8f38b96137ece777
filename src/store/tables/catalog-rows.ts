/**
 * The catalog as administrators change it. A change locks all regions by id first, then its row: so
 * names and numbers are checked without a race, and a launch, which locks its region, comes before
 * or sees the change.
 */
import { sql, type Selectable } from 'kysely';
import { chargeModes, type ChargeMode, type InstanceType, type StoragePrices } from '../../domain/regions/catalog.ts';
import type { OffPeak } from '../../domain/regions/off-peak.ts';
import type { RegionSettings } from '../../domain/regions/region-settings.ts';
import { locking } from '../db/dialect.ts';
import { encodeFlag, parseJson } from '../db/columns.ts';
import { prepared } from '../db/prepared.ts';
import type { ImageTable, RegionTable } from '../db/schema.ts';
import type { Db, Store } from '../store.ts';
import {
  imageFromRow,
  offPeakOf,
  regionFromRow,
  storagePricesOf,
  typeFromRow,
  totalColumns,
  type RegionCapacity,
} from './catalog.ts';
import { formerNames, regionSettings } from './json-schemas.ts';
import { storagePricesText, typePricesText } from './price-changes.ts';

interface Managed {
  version: number;
  isRetired: boolean;
}

export type ManagedType = InstanceType & Managed;
export type ManagedImage = ReturnType<typeof imageFromRow> & Managed & { createdAtMs: number };

export interface ManagedRegion {
  facts: ReturnType<typeof regionFromRow>['region'];
  version: number;
  settingsDomain: string;
  /** Null: the domain of the settings. */
  ownDomain: string | null;
  offPeak: OffPeak | null;
  storagePrices: StoragePrices;
  hasOwnStoragePrices: boolean;
  /** Null: a region of the settings of the server. */
  settings: RegionSettings | null;
  /** Sealed; null without credentials. */
  credentials: string | null;
  isRetired: boolean;
}

const managedType = (row: Parameters<typeof typeFromRow>[0]): ManagedType => ({
  ...typeFromRow(row),
  version: row.version,
  isRetired: row.inCatalog === 0,
});

const managedImage = (row: Selectable<ImageTable>): ManagedImage => ({
  ...imageFromRow(row),
  version: row.version,
  isRetired: row.inCatalog === 0,
  createdAtMs: row.createdAtMs,
});

const managedRegion = (row: Selectable<RegionTable>): ManagedRegion => ({
  facts: regionFromRow(row).region,
  version: row.version,
  settingsDomain: row.domain,
  ownDomain: row.ownDomain,
  offPeak: offPeakOf(row),
  storagePrices: storagePricesOf(row),
  hasOwnStoragePrices: row.storagePrices !== null,
  settings:
    row.settings === null
      ? null
      : parseJson(regionSettings, row.settings, { table: 'region', id: row.id, column: 'settings' }),
  credentials: row.credentials,
  isRetired: row.inCatalog === 0,
});

export async function lockRegions(tx: Db): Promise<ManagedRegion[]> {
  const ids = await tx.selectFrom('region').select('id').orderBy('id').execute();
  const locked: ManagedRegion[] = [];
  for (const { id } of ids) {
    const row = await locking(tx, tx.selectFrom('region').selectAll().where('id', '=', id)).executeTakeFirst();
    if (row) locked.push(managedRegion(row));
  }
  return locked;
}

export async function managedRegionById(db: Db, id: string): Promise<ManagedRegion | undefined> {
  const row = await db.selectFrom('region').selectAll().where('id', '=', id).executeTakeFirst();
  return row && managedRegion(row);
}

/** By name. */
export async function managedRegions(db: Db, offset: number, limit: number): Promise<RowPage<ManagedRegion>> {
  const all = db.selectFrom('region');
  const rows = await all.selectAll().orderBy('name').orderBy('id').limit(limit).offset(offset).execute();
  const { entries } = await all.select(({ fn }) => fn.countAll<number>().as('entries')).executeTakeFirstOrThrow();
  return { rows: rows.map(managedRegion), totalEntries: entries };
}

const regionColumns = ({ facts, offPeak, settings, isRetired, ...region }: ManagedRegion) => ({
  name: facts.name,
  value: facts.value,
  location: facts.location,
  sshAddress: facts.sshAddress,
  ownDomain: region.ownDomain,
  offPeak: offPeak && JSON.stringify(offPeak),
  storagePrices: region.hasOwnStoragePrices ? storagePricesText(region.storagePrices) : null,
  version: region.version,
  settings: settings && JSON.stringify(settings),
  credentials: region.credentials,
  inCatalog: encodeFlag(!isRetired),
});

export async function insertManagedRegion(tx: Db, region: ManagedRegion, total: RegionCapacity): Promise<void> {
  const { id, engine } = region.facts;
  const row = { id, engine, domain: region.settingsDomain, ...totalColumns(total), ...regionColumns(region) };
  await tx.insertInto('region').values(row).execute();
}

export async function writeManagedRegion(tx: Db, region: ManagedRegion): Promise<void> {
  await tx.updateTable('region').set(regionColumns(region)).where('id', '=', region.facts.id).execute();
}

const namesOf = ({ id, formerNames: text }: Pick<Selectable<RegionTable>, 'id' | 'formerNames'>) =>
  parseJson(formerNames, text, { table: 'region', id, column: 'formerNames' });

export async function keepFormerName(tx: Db, id: string, untilMs: number): Promise<void> {
  const columns = tx.selectFrom('region').select(['id', 'name', 'formerNames']);
  const row = await columns.where('id', '=', id).executeTakeFirstOrThrow();
  const names = JSON.stringify([...namesOf(row), { name: row.name, untilMs }]);
  await tx.updateTable('region').set({ formerNames: names }).where('id', '=', id).execute();
}

export async function regionNames(db: Db): Promise<(regionId: string, atMs: number) => string> {
  const rows = await db.selectFrom('region').select(['id', 'name', 'formerNames']).execute();
  const names = new Map(rows.map((row) => [row.id, [...namesOf(row), { name: row.name, untilMs: Infinity }]]));
  return (regionId, atMs) => names.get(regionId)?.find(({ untilMs }) => atMs < untilMs)?.name ?? '';
}

export interface RowPage<Row> {
  rows: Row[];
  totalEntries: number;
}

export async function managedTypes(db: Db, offset: number, limit: number): Promise<RowPage<ManagedType>> {
  const all = db.selectFrom('instanceType');
  const rows = await all.selectAll().orderBy('position').orderBy('id').limit(limit).offset(offset).execute();
  const { entries } = await all.select(({ fn }) => fn.countAll<number>().as('entries')).executeTakeFirstOrThrow();
  return { rows: rows.map(managedType), totalEntries: entries };
}

export async function managedImages(db: Db, offset: number, limit: number): Promise<RowPage<ManagedImage>> {
  const all = db.selectFrom('image').where('ownerId', 'is', null);
  const rows = await all.selectAll().orderBy('createdAtMs').orderBy('id').limit(limit).offset(offset).execute();
  const { entries } = await all.select(({ fn }) => fn.countAll<number>().as('entries')).executeTakeFirstOrThrow();
  return { rows: rows.map(managedImage), totalEntries: entries };
}

export async function managedTypeById(tx: Db, id: string): Promise<ManagedType | undefined> {
  const row = await tx.selectFrom('instanceType').selectAll().where('id', '=', id).executeTakeFirst();
  return row && managedType(row);
}

export async function managedTypeByName(tx: Db, regionId: string, name: string): Promise<ManagedType | undefined> {
  const named = tx.selectFrom('instanceType').selectAll().where('regionId', '=', regionId).where('name', '=', name);
  const row = await named.executeTakeFirst();
  return row && managedType(row);
}

export async function managedImageById(tx: Db, id: string): Promise<ManagedImage | undefined> {
  const images = tx.selectFrom('image').selectAll().where('ownerId', 'is', null);
  const row = await images.where('id', '=', id).executeTakeFirst();
  return row && managedImage(row);
}

const typeColumns = ({ pricesMicros, isRetired, ...facts }: ManagedType) => ({
  ...facts,
  isSpot: encodeFlag(facts.isSpot),
  runtime: facts.runtime ?? null,
  placement: facts.placement === undefined ? null : JSON.stringify(facts.placement),
  prices: typePricesText(pricesMicros),
  inCatalog: encodeFlag(!isRetired),
});

/** Inserts a type behind all others. */
export async function insertManagedType(tx: Db, type: ManagedType): Promise<void> {
  const last = await tx
    .selectFrom('instanceType')
    .select(({ fn }) => fn.max('position').as('position'))
    .executeTakeFirst();
  const position = (last?.position ?? -1) + 1;
  await tx
    .insertInto('instanceType')
    .values({ ...typeColumns(type), position })
    .execute();
}

export async function writeManagedType(tx: Db, type: ManagedType): Promise<void> {
  await tx.updateTable('instanceType').set(typeColumns(type)).where('id', '=', type.id).execute();
}

export const lockManagedImage = (tx: Db, id: string): Promise<Selectable<ImageTable> | undefined> =>
  locking(tx, tx.selectFrom('image').selectAll().where('ownerId', 'is', null).where('id', '=', id)).executeTakeFirst();

const imageColumns = ({ isPublic, tags, isRetired, ...facts }: ManagedImage) => ({
  ...facts,
  isPublic: encodeFlag(isPublic),
  tags: JSON.stringify(tags),
  inCatalog: encodeFlag(!isRetired),
});

export async function insertManagedImage(tx: Db, image: ManagedImage): Promise<void> {
  await tx.insertInto('image').values(imageColumns(image)).execute();
}

/** Facts are those of the reference. */
export async function writeManagedImage(tx: Db, image: ManagedImage, { isOtherRef }: { isOtherRef: boolean }) {
  const facts = isOtherRef ? { facts: null } : {};
  await tx
    .updateTable('image')
    .set({ ...imageColumns(image), ...facts })
    .where('id', '=', image.id)
    .execute();
}

interface CatalogIds {
  typeId: string;
  imageId: string;
  regionId: string;
}

const retiredRows = prepared<CatalogIds>()((db, p) =>
  db
    .selectFrom('instanceType')
    .select('id')
    .where('id', '=', p('typeId'))
    .where('inCatalog', '=', 0)
    .unionAll(
      db
        .selectFrom('image')
        .select('id')
        .where('id', '=', p('imageId'))
        .where('inCatalog', '=', 0)
        .where('ownerId', 'is', null),
    )
    .unionAll(db.selectFrom('region').select('id').where('id', '=', p('regionId')).where('inCatalog', '=', 0)),
);

/** Which of the three are retired now. Call it after the region is locked. */
export const retiredOf = async (tx: Db, given: CatalogIds): Promise<string[]> =>
  (await retiredRows(tx, given)).map(({ id }) => id);

export interface Users {
  accounts: number;
  running: number;
  stopped: number;
}

type UsersOf = { regionId: string; typeId?: string } | { imageId: string };

const usersOf = (db: Db, of: UsersOf) => {
  const all = db.selectFrom('instance').where('desired', '!=', 'released');
  if ('imageId' in of) return all.where('imageId', '=', of.imageId);
  const inRegion = all.where('regionId', '=', of.regionId);
  return of.typeId === undefined ? inRegion : inRegion.where('typeId', '=', of.typeId);
};

/** Accounts and instances that are not terminated. */
export async function countUsers(db: Db, of: UsersOf): Promise<Users> {
  const { accounts, instances, running } = await usersOf(db, of)
    .select(({ fn, ref }) => [
      fn.count<number>(ref('ownerId')).distinct().as('accounts'),
      fn.countAll<number>().as('instances'),
      sql<number | null>`sum(case when desired = 'running' then 1 else 0 end)`.as('running'),
    ])
    .executeTakeFirstOrThrow();
  const runs = running ?? 0;
  return { accounts, running: runs, stopped: instances - runs };
}

/** Instances of a type whose stored price differs from these. */
export async function countAtOtherPrice(
  db: Db,
  kind: Store['kind'],
  of: { regionId: string; typeId: string },
  prices: Record<ChargeMode, bigint>,
): Promise<number> {
  const mode = kind === 'sqlite' ? sql<string>`spec ->> '$.chargeMode'` : sql<string>`spec::json ->> 'chargeMode'`;
  const groups = await usersOf(db, of)
    .select(({ fn }) => [mode.as('mode'), 'priceMicros', fn.countAll<number>().as('instances')])
    .groupBy([mode, 'priceMicros'])
    .execute();
  const isOther = ({ mode: name, priceMicros }: (typeof groups)[number]): boolean =>
    chargeModes.some((one) => one === name && BigInt(priceMicros) !== prices[one]);
  return groups.filter(isOther).reduce((sum, { instances }) => sum + instances, 0);
}
