/** History of prices of instance types and storage. */
import { sql, type Selectable } from 'kysely';
import {
  chargeModes,
  storageKinds,
  type ChargeMode,
  type Micros,
  type StorageKind,
  type StoragePrices,
} from '../../domain/regions/catalog.ts';
import type { PriceChangeTable } from '../db/billing-schema.ts';
import { encodeFlag, parseJson } from '../db/columns.ts';
import type { Db } from '../store.ts';
import { setAct } from './due-acts.ts';
import { priceList, storagePriceList } from './json-schemas.ts';

export type TypePrices = Readonly<Record<ChargeMode, Micros>>;

interface Change {
  fromMs: number;
  regionId: string;
  /** Account that changed the price; '' for Berth. */
  byAccountId: string;
  isScheduled?: boolean;
}

export const typePricesText = (prices: TypePrices): string =>
  JSON.stringify(Object.fromEntries(chargeModes.map((mode) => [mode, Number(prices[mode])])));

export const storagePricesText = (prices: StoragePrices): string =>
  JSON.stringify(Object.fromEntries(storageKinds.map((kind) => [kind, Number(prices[kind])])));

const insert = async (
  tx: Db,
  { isScheduled = false, ...change }: Change & { typeId: string; prices: string },
): Promise<void> => {
  await tx
    .insertInto('priceChange')
    .values({ ...change, isScheduled: encodeFlag(isScheduled) })
    .execute();
  // At once: the handler knows the earliest.
  if (isScheduled) await setAct(tx, { kind: 'prices', subjectId: change.regionId, ownerId: '', dueAtMs: 0 });
};

export const recordTypePrices = (tx: Db, change: Change & { typeId: string }, prices: TypePrices): Promise<void> =>
  insert(tx, { ...change, prices: typePricesText(prices) });

export const recordStoragePrices = (tx: Db, change: Change, prices: StoragePrices): Promise<void> =>
  insert(tx, { ...change, typeId: '', prices: storagePricesText(prices) });

/** Micro-dollars. Either a type's prices, or those of storage. */
export type PriceChange = Required<Change> &
  (
    | { typeId: string; prices: Record<ChargeMode, number>; storagePrices: null }
    | { typeId: null; prices: null; storagePrices: Record<StorageKind, number> }
  );

export interface PriceFilter {
  regionId?: string | undefined;
  instanceTypeId?: string | undefined;
}

/** Newest first. */
export async function priceChanges(
  db: Db,
  { regionId, instanceTypeId }: PriceFilter,
  { offset, limit }: { offset: number; limit: number },
): Promise<{ rows: PriceChange[]; totalEntries: number }> {
  let found = db.selectFrom('priceChange');
  if (regionId !== undefined) found = found.where('regionId', '=', regionId);
  if (instanceTypeId !== undefined) found = found.where('typeId', '=', instanceTypeId);
  const { total } = await found.select(({ fn }) => fn.countAll<number>().as('total')).executeTakeFirstOrThrow();
  const newest = found.selectAll().orderBy('fromMs', 'desc').orderBy('id', 'desc');
  const rows = await newest.limit(limit).offset(offset).execute();
  return { rows: rows.map(changeFromRow), totalEntries: total };
}

/** An instance type, or the storage of a region (`typeId` ''). */
export interface Priced {
  regionId: string;
  typeId: string;
}

/** The earliest first. */
export async function scheduledPrices(db: Db, { regionId, typeId }: Priced): Promise<PriceChange[]> {
  const of = db.selectFrom('priceChange').selectAll().where('typeId', '=', typeId).where('regionId', '=', regionId);
  const rows = await of.where('isScheduled', '=', sql.lit(1)).orderBy('fromMs').execute();
  return rows.map(changeFromRow);
}

/** The earliest scheduled change, of a region or of all. */
export async function nextPriceAtMs(db: Db, regionId?: string): Promise<number | null> {
  let found = db.selectFrom('priceChange').where('isScheduled', '=', sql.lit(1));
  if (regionId !== undefined) found = found.where('regionId', '=', regionId);
  return (await found.select('fromMs').orderBy('fromMs').limit(1).executeTakeFirst())?.fromMs ?? null;
}

/** Deletes the scheduled changes that are due and returns them, the earliest first. */
export async function takeDuePrices(tx: Db, nowMs: number): Promise<PriceChange[]> {
  const due = tx.deleteFrom('priceChange').where('isScheduled', '=', sql.lit(1)).where('fromMs', '<=', nowMs);
  const rows = await due.returningAll().execute();
  return rows.toSorted((one, other) => one.fromMs - other.fromMs || one.id - other.id).map(changeFromRow);
}

/** Undefined: none is scheduled for that moment. */
export async function takeScheduledPrice(
  tx: Db,
  { regionId, typeId }: Priced,
  fromMs: number,
): Promise<PriceChange | undefined> {
  const scheduled = tx.deleteFrom('priceChange').where('isScheduled', '=', sql.lit(1)).where('fromMs', '=', fromMs);
  const of = scheduled.where('regionId', '=', regionId).where('typeId', '=', typeId);
  const row = await of.returningAll().executeTakeFirst();
  return row && changeFromRow(row);
}

function changeFromRow({ id, prices, typeId, isScheduled, ...change }: Selectable<PriceChangeTable>): PriceChange {
  const row = { ...change, isScheduled: isScheduled === 1 };
  const at = { table: 'priceChange', id: String(id), column: 'prices' };
  return typeId === ''
    ? { ...row, typeId: null, prices: null, storagePrices: parseJson(storagePriceList, prices, at) }
    : { ...row, typeId, prices: parseJson(priceList, prices, at), storagePrices: null };
}
