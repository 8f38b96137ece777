/**
 * Applies scheduled prices. Until a task writes them into the catalog, launches and storage have
 * the former ones. Late prices count from the moment at which they are applied; the history has
 * that moment.
 */
import { mapPrices, mapStoragePrices } from '../../domain/regions/catalog.ts';
import type { Db, Store } from '../../store/store.ts';
import {
  lockRegions,
  managedRegionById,
  managedTypeById,
  writeManagedRegion,
  writeManagedType,
  type ManagedRegion,
} from '../../store/tables/catalog-rows.ts';
import {
  nextPriceAtMs,
  recordStoragePrices,
  recordTypePrices,
  takeDuePrices,
  type PriceChange,
} from '../../store/tables/price-changes.ts';
import { type ActHandler, type UseCaseDeps, notifyAdministrators } from '../kernel/ports.ts';

export const makeApplyPrices =
  ({ store, time, forgetCatalog }: Pick<UseCaseDeps, 'store' | 'time'> & { forgetCatalog: () => void }) =>
  async (): Promise<void> => {
    if (((await nextPriceAtMs(store.read)) ?? Infinity) > time.now()) return;
    await store.write((tx) => lockedRegions(tx, time.now()));
    forgetCatalog();
  };

export const makeDuePrices =
  (store: Store, applyPrices: () => Promise<void>): ActHandler =>
  async ({ id }) => {
    await applyPrices();
    return nextPriceAtMs(store.read, id);
  };

/** Locks the regions and applies what is due, so a change of now comes after it. */
export async function lockedRegions(tx: Db, nowMs: number): Promise<ManagedRegion[]> {
  const regions = await lockRegions(tx);
  const due = await takeDuePrices(tx, nowMs);
  for (const change of due) await apply(tx, change, nowMs);
  return due.length === 0 ? regions : lockRegions(tx);
}

async function apply(tx: Db, change: PriceChange, nowMs: number): Promise<void> {
  const { regionId, typeId, byAccountId } = change;
  const at = { fromMs: nowMs, regionId, byAccountId };
  if (typeId === null) {
    const region = await managedRegionById(tx, regionId);
    if (!region) return;
    const storagePrices = mapStoragePrices(change.storagePrices, BigInt);
    await writeManagedRegion(tx, {
      ...region,
      storagePrices,
      hasOwnStoragePrices: true,
      version: region.version + 1,
    });
    await recordStoragePrices(tx, at, storagePrices);
  } else {
    const type = await managedTypeById(tx, typeId);
    if (!type) return;
    const pricesMicros = mapPrices(change.prices, BigInt);
    await writeManagedType(tx, { ...type, pricesMicros, version: type.version + 1 });
    await recordTypePrices(tx, { ...at, typeId }, pricesMicros);
  }
  const data = { regionId, instanceTypeId: typeId, fromUnixMs: change.fromMs, byAccountId };
  await notifyAdministrators(tx, { atMs: nowMs, kind: 'prices.changed', subjectId: typeId ?? regionId, data });
}
