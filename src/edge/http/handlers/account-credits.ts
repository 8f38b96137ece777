/** Deposits, vouchers, credits and overdrafts. */
import type { Credits } from '../../../control/index.ts';
import type { ClosedHandlers } from './handler.ts';
import { publicAccount } from './managed-accounts.ts';

type Entry = Awaited<ReturnType<Credits['reverse']>>['entry'];

const publicEntry = ({ atMs, ...entry }: Entry) => ({ ...entry, atUnixMs: atMs });

export const creditHandlers = (credits: Credits) =>
  ({
    async creditAccount(caller, { body: { expiresAt: expiresAtMs, ...body }, idempotency }) {
      const { entry } = await credits.give(caller, { ...body, expiresAtMs }, idempotency);
      return { entry: publicEntry(entry), grantId: entry.grantId };
    },
    reverseCredit: async (caller, { body, idempotency }) => ({
      entry: publicEntry((await credits.reverse(caller, body, idempotency)).entry),
    }),
    setOverdraft: async (caller, { body, idempotency }) => ({
      account: publicAccount((await credits.setOverdraft(caller, body, idempotency)).account),
    }),
    async listGrants(caller, { body: { pager } }) {
      const { grants, totalEntries } = await credits.list(caller, pager);
      return {
        grants: grants.map(({ expiresAtMs, createdAtMs, ...grant }) => ({
          ...grant,
          expiresAtUnixMs: expiresAtMs,
          createdAtUnixMs: createdAtMs,
        })),
        pager: { ...pager, totalEntries },
      };
    },
  }) satisfies Partial<ClosedHandlers>;
