import type { Control } from '../../../control/index.ts';
import type { ClosedHandlers } from './handler.ts';

type Administration = Control['accounts'];
type Account = Awaited<ReturnType<Administration['get']>>['account'];
type Link = Awaited<ReturnType<Administration['invite']>>;

export const publicAccount = ({ createdAtMs, disabledAtMs, deleteAtMs, ...account }: Account) => ({
  ...account,
  createdAtUnixMs: createdAtMs,
  disabledAtUnixMs: disabledAtMs,
  deleteAtUnixMs: deleteAtMs,
});

const shown = ({ account }: { account: Account }) => ({ account: publicAccount(account) });
const publicLink = ({ expiresAtMs, ...link }: Link) => ({ ...link, expiresAtUnixMs: expiresAtMs });

export const accountAdminHandlers = (accounts: Administration) =>
  ({
    async listAccounts(_, { body: { pager, ...filter } }) {
      const page = await accounts.list(filter, pager);
      return { accounts: page.accounts.map(publicAccount), pager: { ...pager, totalEntries: page.totalEntries } };
    },
    async getAccount(_, { body }) {
      const { account, holdings } = await accounts.get(body.accountId);
      return { account: publicAccount(account), holdings };
    },
    inviteAccount: (caller, { body, idempotency }) => accounts.invite(caller, body, idempotency).then(publicLink),
    resetAccountPassword: (caller, { body, idempotency }) =>
      accounts.resetPassword(caller, body, idempotency).then(publicLink),
    disableAccount: (caller, { body, idempotency }) => accounts.disable(caller, body, idempotency).then(shown),
    enableAccount: (caller, { body, idempotency }) => accounts.enable(caller, body, idempotency).then(shown),
    setAccountRole: (caller, { body, idempotency }) => accounts.setRole(caller, body, idempotency).then(shown),
    deleteAccount: async (caller, { body, idempotency }) => {
      const { account, lost } = await accounts.delete(caller, body, idempotency);
      return { account: publicAccount(account), lost };
    },
    restoreAccount: (caller, { body, idempotency }) => accounts.restore(caller, body, idempotency).then(shown),
  }) satisfies Partial<ClosedHandlers>;
