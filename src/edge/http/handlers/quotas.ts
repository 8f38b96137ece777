/** Quotas of accounts and of the installation. */
import type { Quotas } from '../../../control/index.ts';
import type { ClosedHandlers } from './handler.ts';

export const quotaHandlers = ({ get, set }: Quotas) =>
  ({
    listQuotas: ({ accountId }) => get(accountId),
    getQuotas: (_caller, { body: { accountId = null } }) => get(accountId),
    setQuotas: (caller, { body, idempotency }) => set(caller, body, idempotency),
  }) satisfies Partial<ClosedHandlers>;
