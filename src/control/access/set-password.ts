/**
 * One-time links to the page that sets a password: of an invited account, or in place of a lost
 * password. Only the answer has the link; the database has its hash.
 */
import { passwordLinkLifeMs, type PasswordLinkKind } from '../../domain/access/account-state.ts';
import { passwordLinkEnded, Refusal } from '../../domain/kernel/refusal.ts';
import type { Role } from '../../domain/access/roles.ts';
import { lockAccount } from '../../store/tables/accounts.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { activePasswordLink, replacePasswordLinks } from '../../store/tables/password-links.ts';
import type { Db } from '../../store/store.ts';
import {
  invalidateAccount,
  refuseDeleting,
  replacePassword,
  writeAsAdmin,
  type AccountAdminDeps,
} from './account-admin.ts';
import type { Accounts } from './accounts.ts';
import { resetPasswordOf, resetSecondFactorOf, type HostAccount, type HostReset } from './host-resets.ts';
import { refuseWeakPassword } from './new-password.ts';
import type { Passwords } from './passwords.ts';
import { SECRET, secretFrom, sha256Hex, uuidFrom, type RandomBytes } from './random.ts';
import type { Mutation } from '../kernel/ports.ts';

interface PasswordLink {
  accountId: string;
  url: string;
  expiresAtMs: number;
}

export interface PasswordLinks {
  invite: Mutation<{ username: string; email: string; role: Role; balance?: number | undefined }, PasswordLink>;
  resetPassword: Mutation<{ accountId: string }, PasswordLink>;
  /** Null for an unknown, used or expired link. */
  linkOf(token: string): Promise<{ accountId: string; username: string; kind: PasswordLinkKind } | null>;
  /** `from`: the client's address. Uses up the link, and ends every login of the account. */
  setPassword(
    body: { token: string; newPassword: string },
    from: string,
  ): Promise<{ accountId: string; username: string }>;
  /** For the commands on the host. `username`: name or email. */
  resetAtHost(username: string): Promise<HostReset>;
  resetSecondFactorAtHost(username: string): Promise<HostAccount>;
}

export interface PasswordLinkDeps extends AccountAdminDeps {
  randomBytes: RandomBytes;
  passwords: Passwords;
  newAccount: Accounts['insert'];
  passwordUrl: (token: string) => string;
}

const repeated = (accountId: string): Refusal =>
  new Refusal(
    'not_now',
    `an earlier request with this Idempotency-Key made a link for account ${accountId}, and only its answer had the link; POST /api/admin/account/resetPassword with a new Idempotency-Key makes another`,
  );

export const makePasswordLinks = (deps: PasswordLinkDeps): PasswordLinks => {
  const { store, time, randomBytes, passwords, passwordUrl } = deps;

  const writeLink = async (
    tx: Db,
    link: { token: string; accountId: string; kind: PasswordLinkKind; nowMs: number },
  ): Promise<{ hash: string; accountId: string; expiresAtMs: number }> => {
    const { token, accountId, kind, nowMs } = link;
    const row = { hash: sha256Hex(token), accountId, kind, expiresAtMs: nowMs + passwordLinkLifeMs[kind] };
    await replacePasswordLinks(tx, row);
    const event = { kind: 'account.passwordLinkCreated', data: { kind, expiresAt: row.expiresAtMs } };
    await appendEvent(tx, { accountId, atMs: nowMs, subjectId: accountId, ...event });
    return row;
  };

  /** The stored answer of a repeated request has the hash of another token. */
  const shownOnce = (
    token: string,
    { hash, accountId, expiresAtMs }: { hash: string; accountId: string; expiresAtMs: number },
  ): PasswordLink => {
    if (hash !== sha256Hex(token)) throw repeated(accountId);
    return { accountId, url: passwordUrl(token), expiresAtMs };
  };

  const activeLink = async (token: string) =>
    SECRET.test(token) ? await activePasswordLink(store.read, sha256Hex(token), time.now()) : undefined;

  return {
    async invite(caller, { username, email, role, balance }, idempotency) {
      const token = secretFrom(randomBytes);
      const id = uuidFrom(randomBytes);
      const made = await writeAsAdmin(deps, caller, caller.accountId, idempotency, async ({ tx, nowMs }) => {
        const passwordHash = passwords.unusable();
        await deps.newAccount(tx, { id, username, email, balance, roles: [role], passwordHash });
        return writeLink(tx, { token, accountId: id, kind: 'invite', nowMs });
      });
      return shownOnce(token, made);
    },

    async resetPassword(caller, { accountId }, idempotency) {
      const token = secretFrom(randomBytes);
      const made = await writeAsAdmin(deps, caller, accountId, idempotency, async (target) => {
        refuseDeleting(target);
        const { tx, row, nowMs } = target;
        if (row.disabled === 1) {
          const message = `account ${row.username} is disabled, so a link would not work; enable it first with POST /api/admin/account/enable`;
          throw new Refusal('not_now', message);
        }
        return writeLink(tx, { token, accountId, kind: 'reset', nowMs });
      });
      return shownOnce(token, made);
    },

    async linkOf(token) {
      const link = await activeLink(token);
      if (!link) return null;
      return { accountId: link.accountId, username: link.username, kind: link.kind === 'invite' ? 'invite' : 'reset' };
    },

    async setPassword({ token, newPassword }, from) {
      const link = await activeLink(token);
      if (!link) throw passwordLinkEnded();
      const { accountId, username, kind } = link;
      await refuseWeakPassword('newPassword', newPassword, link);
      const passwordHash = await passwords.hash(newPassword, { account: username, address: from });
      await store.write(async (tx) => {
        await lockAccount(tx, accountId);
        const nowMs = time.now();
        if (!(await activePasswordLink(tx, link.hash, nowMs))) throw passwordLinkEnded();
        const event = { kind: 'account.passwordSet', data: { by: kind } };
        await replacePassword(tx, { accountId, passwordHash, nowMs }, event);
      });
      invalidateAccount(deps, accountId);
      return { accountId, username };
    },

    async resetAtHost(name) {
      const reset = await resetPasswordOf(deps, name);
      invalidateAccount(deps, reset.accountId);
      return reset;
    },

    async resetSecondFactorAtHost(name) {
      const reset = await resetSecondFactorOf(deps, name);
      invalidateAccount(deps, reset.accountId);
      return reset;
    },
  };
};
