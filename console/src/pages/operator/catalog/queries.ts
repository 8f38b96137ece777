/** Rows of the catalog with their versions, retired ones too: at most some thousand. */
import { queryOptions } from '@tanstack/react-query';
import type { AnswerOf } from '../../../../../src/contract/routes.ts';
import { api } from '../../../app/api.ts';

export type ManagedType = AnswerOf<'listTypes'>['types'][number];
export type ManagedImage = AnswerOf<'listCatalogImages'>['images'][number];
export type ManagedRegion = AnswerOf<'listManagedRegions'>['regions'][number];
export type PriceChange = AnswerOf<'listPriceChanges'>['changes'][number];

const PAGE = 500;
const MOST_PAGES = 10;

async function all<Row>(
  ask: (pager: { currentPage: number; pageSize: number }) => Promise<{ rows: readonly Row[]; total: number }>,
): Promise<Row[]> {
  const found: Row[] = [];
  for (let currentPage = 1; currentPage <= MOST_PAGES; currentPage += 1) {
    const { rows, total } = await ask({ currentPage, pageSize: PAGE });
    found.push(...rows);
    if (found.length >= total) break;
  }
  return found;
}

export const typesQuery = queryOptions({
  queryKey: ['types'],
  queryFn: () =>
    all(async (pager) => {
      const answer = await api.listTypes({ pager });
      return { rows: answer.types, total: answer.pager.totalEntries };
    }),
});
export const managedImagesQuery = queryOptions({
  queryKey: ['managedImages'],
  queryFn: () =>
    all(async (pager) => {
      const answer = await api.listCatalogImages({ pager });
      return { rows: answer.images, total: answer.pager.totalEntries };
    }),
});
export const managedRegionsQuery = queryOptions({
  queryKey: ['managedRegions'],
  queryFn: () =>
    all(async (pager) => {
      const answer = await api.listManagedRegions({ pager });
      return { rows: answer.regions, total: answer.pager.totalEntries };
    }),
});
/** Prices that are set for later; the list of the API has them first. */
export const scheduledQuery = queryOptions({
  queryKey: ['prices', 'scheduled'],
  queryFn: async () => {
    const { changes } = await api.listPriceChanges({ pager: { currentPage: 1, pageSize: PAGE } });
    return changes.filter(({ scheduled }) => scheduled);
  },
});

/** First members of the keys that a change of the catalog makes stale. */
export const CATALOG_STALE = [
  'types',
  'managedImages',
  'managedRegions',
  'prices',
  'catalog',
  'regions',
  'images',
  'fleet',
];
