/** History of prices. */
import type { PriceHistory } from '../../../control/index.ts';
import type { ClosedHandlers } from './handler.ts';

type Change = Awaited<ReturnType<PriceHistory['list']>>['changes'][number];

const dated = ({ fromMs, ...change }: Change) => ({ ...change, fromUnixMs: fromMs });

export const priceHandlers = ({ list, withdraw }: PriceHistory) =>
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
        changes: changes.map(dated),
        pager: { ...pager, totalEntries },
      };
    },
    async withdrawPrices(caller, { body: { fromUnixMs: fromMs, ...body }, idempotency }) {
      const { change } = await withdraw(caller, { ...body, fromMs }, idempotency);
      return { change: dated(change) };
    },
  }) satisfies Partial<ClosedHandlers>;
