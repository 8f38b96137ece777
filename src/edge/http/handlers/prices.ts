/** History of prices. */
import type { PriceHistory } from '../../../control/index.ts';
import type { ClosedHandlers } from './handler.ts';

export const priceHandlers = ({ list }: PriceHistory) =>
  ({
    async listPrices(_, { body: { pager, ...filter } }) {
      const { changes, totalEntries } = await list(filter, pager);
      return {
        changes: changes.map(({ fromMs, byAccountId: _by, ...change }) => ({ ...change, fromUnixMs: fromMs })),
        pager: { ...pager, totalEntries },
      };
    },
    async listPriceChanges(_, { body: { pager, ...filter } }) {
      const { changes, totalEntries } = await list(filter, pager);
      return {
        changes: changes.map(({ fromMs, ...change }) => ({ ...change, fromUnixMs: fromMs })),
        pager: { ...pager, totalEntries },
      };
    },
  }) satisfies Partial<ClosedHandlers>;
