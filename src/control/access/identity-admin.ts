/** Identities of login providers, as administrators list, link, unlink and move them. */
import { accountNotFound, Refusal } from '../../domain/kernel/refusal.ts';
import { accountById } from '../../store/tables/accounts.ts';
import { appendEvent } from '../../store/tables/events.ts';
import {
  accountOfIdentity,
  deleteIdentity,
  identitiesOf,
  insertIdentity,
  moveIdentities,
  type IdentityRow,
} from '../../store/tables/identities.ts';
import type { Mutation } from '../kernel/ports.ts';
import { invalidateAccount, revokeLogins, writeAsAdmin, type AccountAdminDeps } from './account-admin.ts';

type IdentityInfo = Pick<IdentityRow, 'issuer' | 'subject' | 'createdAtMs'>;
type Listed = { identities: IdentityInfo[] };
type NamedIdentity = Pick<IdentityRow, 'accountId' | 'issuer' | 'subject'>;

export interface IdentityAdministration {
  identities(accountId: string): Promise<Listed>;
  linkIdentity: Mutation<NamedIdentity, Listed>;
  /** Ends the logins of the account. */
  unlinkIdentity: Mutation<NamedIdentity, Listed>;
  /** Skips subjects that the new issuer has already. */
  moveIdentities: Mutation<{ fromIssuer: string; toIssuer: string }, { moved: number; skipped: number }>;
}

export function makeIdentityAdministration(deps: AccountAdminDeps): IdentityAdministration {
  const { store } = deps;
  return {
    async identities(accountId) {
      if (!(await accountById(store.read, accountId))) throw accountNotFound(accountId);
      return { identities: await identitiesOf(store.read, accountId) };
    },

    linkIdentity: (caller, { accountId, issuer, subject }, idempotency) =>
      writeAsAdmin(deps, caller, accountId, idempotency, async ({ tx, nowMs }) => {
        const holder = await accountOfIdentity(tx, { issuer, subject });
        if (holder !== undefined && holder !== accountId) {
          const name = (await accountById(tx, holder))?.username ?? holder;
          const message = `this identity opens the account ${name} (${holder}): unlink it there with POST /api/admin/identity/unlink first`;
          throw new Refusal('name_taken', message);
        }
        if (await insertIdentity(tx, { issuer, subject, accountId, createdAtMs: nowMs })) {
          const event = { kind: 'account.identityAdded', subjectId: accountId, data: { issuer } };
          await appendEvent(tx, { accountId, atMs: nowMs, ...event });
        }
        return { identities: await identitiesOf(tx, accountId) };
      }),

    async unlinkIdentity(caller, { accountId, issuer, subject }, idempotency) {
      const answer = await writeAsAdmin(deps, caller, accountId, idempotency, async ({ tx, nowMs }) => {
        if (!(await deleteIdentity(tx, { accountId, issuer, subject }))) {
          const message = 'the account has no such identity; POST /api/admin/identity/list lists those it has';
          throw new Refusal('not_found', message);
        }
        await revokeLogins(tx, accountId, nowMs);
        const event = { kind: 'account.identityRemoved', subjectId: accountId, data: { issuer } };
        await appendEvent(tx, { accountId, atMs: nowMs, ...event });
        return { identities: await identitiesOf(tx, accountId) };
      });
      invalidateAccount(deps, accountId);
      return answer;
    },

    moveIdentities: (caller, { fromIssuer, toIssuer }, idempotency) =>
      writeAsAdmin(deps, caller, caller.accountId, idempotency, ({ tx }) => moveIdentities(tx, fromIssuer, toIssuer)),
  };
}
