/**
 * Logins of identities that a provider vouches for. The first makes an account, or opens the one
 * with the same verified email where the operator allows that. An identity keeps its account.
 */
import { ADMIN_ROLE, highestRole, USER_ROLE } from '../../domain/access/roles.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { MAX_NAME } from '../../domain/access/sign-on-claims.ts';
import type { Identity } from '../../domain/access/sign-on-rules.ts';
import {
  accountByLogin,
  administrators,
  changeAccount,
  lockAccounts,
  type AccountRow,
} from '../../store/tables/accounts.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { accountOfIdentity, insertIdentity } from '../../store/tables/identities.ts';
import { parseRoles } from '../../store/tables/json-schemas.ts';
import type { Db } from '../../store/store.ts';
import { isEnabledAdmin } from './account-admin.ts';
import type { Accounts } from './accounts.ts';
import { notLoggedIn } from './callers.ts';
import { accountDisabled, startLogin, type LoginDeps } from './logins.ts';
import { uuidFrom } from './random.ts';
import type { Access } from './types.ts';

interface FoundAccount {
  id: string;
  otherName: string | null;
}

export const makeSignOn = (deps: LoginDeps & { newAccount: Accounts['insert'] }): Pick<Access, 'signOn'> => {
  const { store, time, randomBytes, passwords, callers, newAccount } = deps;

  /** Takes the name with the lowest free number: `anna`, `anna-2`, `anna-3` … */
  const makeAccount = async (tx: Db, identity: Identity): Promise<FoundAccount> => {
    const id = uuidFrom(randomBytes);
    const { email } = identity;
    for (let number = 1; ; number += 1) {
      const suffix = number === 1 ? '' : `-${number}`;
      const username = identity.username.slice(0, MAX_NAME - suffix.length) + suffix;
      try {
        await newAccount(tx, { id, username, email, roles: [USER_ROLE], passwordHash: passwords.unusable() });
        return { id, otherName: number === 1 ? null : username };
      } catch (error) {
        const isTaken = error instanceof Refusal && error.code === 'name_taken';
        if (!isTaken || !(await accountByLogin(tx, username))) throw error;
      }
    }
  };

  const firstAccountOf = async (tx: Db, identity: Identity, linksByEmail: boolean): Promise<FoundAccount> => {
    const { issuer, subject, email } = identity;
    const holder = email === '' ? undefined : await accountByLogin(tx, email);
    if (holder && !linksByEmail) {
      const message = `the email address ${JSON.stringify(email)} belongs to another account here, which your login provider does not open; log in with its password, or ask an administrator`;
      throw new Refusal('name_taken', message, {
        detail: { claim: 'email', value: email, setting: 'BERTH_OIDC_LINK' },
      });
    }
    const found = holder ? { id: holder.id, otherName: null } : await makeAccount(tx, identity);
    const accountId = found.id;
    const atMs = time.now();
    if (!(await insertIdentity(tx, { issuer, subject, accountId, createdAtMs: atMs })))
      throw new Refusal('not_now', 'another login of yours is under way: log in again');
    await appendEvent(tx, { accountId, atMs, kind: 'account.identityAdded', subjectId: accountId, data: { issuer } });
    return found;
  };

  /** Applies the provider's role. The last enabled administrator keeps the role. */
  const withRole = async (
    tx: Db,
    row: AccountRow,
    role: Identity['role'],
    others: AccountRow[],
  ): Promise<AccountRow> => {
    const formerRole = highestRole(parseRoles(row.roles, row.id));
    if (role === null || role === formerRole) return row;
    if (formerRole === ADMIN_ROLE && !others.some(isEnabledAdmin)) return row;
    const data = { role, formerRole };
    const event = { accountId: row.id, atMs: time.now(), kind: 'account.roleChanged', subjectId: row.id, data };
    const changed = await changeAccount(tx, row.id, { roles: JSON.stringify([role]) });
    await appendEvent(tx, event);
    return changed;
  };

  return {
    async signOn(identity, { linksByEmail }, from, userAgent = '') {
      const { account, otherName } = await store.write(async (tx) => {
        const known = await accountOfIdentity(tx, identity);
        const { id, otherName: newName } =
          known === undefined ? await firstAccountOf(tx, identity, linksByEmail) : { id: known, otherName: null };
        const locked = await lockAccounts(tx, [...(await administrators(tx, ADMIN_ROLE)), id]);
        const row = locked.get(id);
        if (!row) throw notLoggedIn();
        // Takes the link back: a refused login changes nothing.
        if (row.disabled === 1) throw accountDisabled(row);
        locked.delete(id);
        const changed = await withRole(tx, row, identity.role, [...locked.values()]);
        return { account: changed, otherName: newName };
      });
      callers.invalidate(({ accountId }) => accountId === account.id);
      const login = await startLogin(deps, account, { from, userAgent, identity, confirm: async () => 1 });
      return { ...login, otherName };
    },
  };
};
