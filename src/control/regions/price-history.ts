/** Prices of instance types and storage since they were first offered, in dollars. */
import {
  mapPrices,
  mapStoragePrices,
  toDollars,
  type ChargeMode,
  type StorageKind,
} from '../../domain/regions/catalog.ts';
import type { Store } from '../../store/store.ts';
import { priceChanges, type PriceChange, type PriceFilter } from '../../store/tables/price-changes.ts';
import type { Mutation, Pager } from '../kernel/ports.ts';

export interface ListedPrices {
  fromMs: number;
  regionId: string;
  instanceTypeId: string | null;
  /** Null for storage. */
  prices: Record<ChargeMode, number> | null;
  /** Null for a type. */
  storagePrices: Record<StorageKind, number> | null;
  /** Null for prices that Berth set. */
  byAccountId: string | null;
  /** The prices do not count yet. */
  scheduled: boolean;
}

export interface PriceHistory {
  /** Newest first. */
  list(filter: PriceFilter, pager: Pager): Promise<{ changes: ListedPrices[]; totalEntries: number }>;
  /** Without a type: prices of storage. */
  withdraw: Mutation<
    { regionId: string; instanceTypeId?: string | undefined; fromUnixMs: number },
    { change: ListedPrices }
  >;
}

export const makePriceHistory = ({ store }: { store: Pick<Store, 'read'> }): Pick<PriceHistory, 'list'> => ({
  async list(filter, { currentPage, pageSize }) {
    const page = { offset: (currentPage - 1) * pageSize, limit: pageSize };
    const { rows, totalEntries } = await priceChanges(store.read, filter, page);
    return { changes: rows.map(listedPrices), totalEntries };
  },
});

export const listedPrices = ({
  fromMs,
  regionId,
  typeId,
  byAccountId,
  prices,
  storagePrices,
  isScheduled,
}: PriceChange): ListedPrices => ({
  fromMs,
  regionId,
  instanceTypeId: typeId,
  prices: prices && mapPrices(prices, toDollars),
  storagePrices: storagePrices && mapStoragePrices(storagePrices, toDollars),
  byAccountId: byAccountId === '' ? null : byAccountId,
  scheduled: isScheduled,
});
