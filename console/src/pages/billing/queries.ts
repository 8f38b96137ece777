/** Answers that the parts of the page share. */
import { queryOptions } from '@tanstack/react-query';
import { monthSpan } from '../../../../src/contract/money/months.ts';
import { api } from '../../app/api.ts';
import { catalogQuery } from '../../app/queries.ts';
import type { UsageRow } from './month.ts';

/** Sums grow without events. */
export const FRESH_MS = 60_000;
const PAGE = 500;
/** Lines beyond are left to the statement. */
const MOST_PAGES = 40;

export const balanceQuery = queryOptions({ queryKey: ['billing', 'balance'], queryFn: () => api.balance() });
export const budgetsQuery = queryOptions({
  queryKey: ['billing', 'budgets'],
  queryFn: async () => (await api.listBudgets()).budgets,
});

interface UsageAsked {
  month: string;
  timeZone: string;
  groupBy: string;
}

export const usageQuery = ({ month, timeZone, groupBy }: UsageAsked) =>
  queryOptions({
    queryKey: ['billing', 'usage', month, timeZone, groupBy],
    queryFn: async () => {
      const { fromMs, untilMs } = monthSpan(month, timeZone);
      const rows: UsageRow[] = [];
      for (let currentPage = 1; currentPage <= MOST_PAGES; currentPage += 1) {
        const answer = await api.usage({
          pager: { currentPage, pageSize: PAGE },
          fromUnixMs: fromMs,
          untilUnixMs: untilMs,
          by: 'day',
          groupBy,
          timeZone,
        });
        rows.push(...answer.rows);
        if (rows.length >= answer.pager.totalEntries) return { rows, isCut: false };
      }
      return { rows, isCut: true };
    },
    staleTime: FRESH_MS,
  });

/** GPU time of the days of a month. */
export const gpuUseQuery = ({ month, timeZone }: Omit<UsageAsked, 'groupBy'>) =>
  queryOptions({
    queryKey: ['billing', 'gpuUse', month, timeZone],
    queryFn: async () => {
      const { fromMs, untilMs } = monthSpan(month, timeZone);
      return (await api.gpuUse({ fromUnixMs: fromMs, untilUnixMs: untilMs, by: 'day', timeZone })).spans;
    },
    staleTime: FRESH_MS,
  });

/** Names of instance types by their IDs. */
export const typeNamesQuery = queryOptions({
  ...catalogQuery,
  select: ({ instanceInfos }) =>
    new Map(
      instanceInfos.flatMap(({ regionInfos }) =>
        regionInfos.flatMap(({ instanceTypeInfos }) =>
          instanceTypeInfos.map((type): [string, string] => [type.instanceTypeId, type.instanceTypeName]),
        ),
      ),
    ),
});

/** Keys of labels that instances and volumes have. */
export const labelKeysQuery = queryOptions({
  queryKey: ['instances', 'labelKeys'],
  queryFn: async () => {
    const pager = { currentPage: 1, pageSize: PAGE };
    const [{ instances }, { volumeList }] = await Promise.all([
      api.listInstances({ pager }),
      api.listVolumes({ pager }),
    ]);
    const keys = [...instances, ...volumeList].flatMap(({ labels }) => Object.keys(labels ?? {}));
    return [...new Set(keys)].toSorted();
  },
});
