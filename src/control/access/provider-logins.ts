/** Ends of logins by a provider, at its request. */
import { lockAccounts } from '../../store/tables/accounts.ts';
import { sessionsOfProvider } from '../../store/tables/sessions.ts';
import type { Access } from './types.ts';
import { endLogin, invalidateLogin, type LoginDeps } from './logins.ts';

export const makeProviderLogins = (
  deps: Pick<LoginDeps, 'store' | 'time' | 'callers' | 'grants'>,
): Pick<Access, 'endProviderLogins'> => ({
  async endProviderLogins(login) {
    const ended = await deps.store.write(async (tx) => {
      const nowMs = deps.time.now();
      const rows = await sessionsOfProvider(tx, login, nowMs);
      await lockAccounts(tx, [...new Set(rows.map(({ accountId }) => accountId))]);
      for (const { id: sessionId, accountId } of rows)
        await endLogin(tx, { accountId, sessionId, kind: 'account.loginRevoked', nowMs });
      return rows;
    });
    for (const { id } of ended) invalidateLogin(deps, id);
    return [...new Set(ended.map(({ accountId }) => accountId))];
  },
});
