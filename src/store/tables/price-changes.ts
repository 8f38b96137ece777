/** History of prices of instance types and storage. */
import type { Selectable } from 'kysely';
import {
  chargeModes,
  storageKinds,
  type ChargeMode,
  type Micros,
  type StorageKind,
  type StoragePrices,
} from '../../domain/catalog.ts';
import type { PriceChangeTable } from '../db/billing-schema.ts';
import { parseJson } from '../db/columns.ts';
import type { Db } from '../store.ts';
import { priceList, storagePriceList } from './json-schemas.ts';

export type TypePrices = Readonly<Record<ChargeMode, Micros>>;

interface Change {
  fromMs: number;
  regionId: string;
  /** Account that changed the price; '' for Berth. */
  byAccountId: string;
}

export const typePricesText = (prices: TypePrices): string =>
  JSON.stringify(Object.fromEntries(chargeModes.map((mode) => [mode, Number(prices[mode])])));

export const storagePricesText = (prices: StoragePrices): string =>
  JSON.stringify(Object.fromEntries(storageKinds.map((kind) => [kind, Number(prices[kind])])));

const insert = async (tx: Db, row: Omit<Selectable<PriceChangeTable>, 'id'>): Promise<void> => {
  await tx.insertInto('priceChange').values(row).execute();
};

export const recordTypePrices = (tx: Db, change: Change & { typeId: string }, prices: TypePrices): Promise<void> =>
  insert(tx, { ...change, prices: typePricesText(prices) });

export const recordStoragePrices = (tx: Db, change: Change, prices: StoragePrices): Promise<void> =>
  insert(tx, { ...change, typeId: '', prices: storagePricesText(prices) });

/** Micro-dollars. Either a type's prices, or those of storage. */
export type PriceChange = Change &
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

function changeFromRow({ id, prices, typeId, ...row }: Selectable<PriceChangeTable>): PriceChange {
  const at = { table: 'priceChange', id: String(id), column: 'prices' };
  return typeId === ''
    ? { ...row, typeId: null, prices: null, storagePrices: parseJson(storagePriceList, prices, at) }
    : { ...row, typeId, prices: parseJson(priceList, prices, at), storagePrices: null };
}
