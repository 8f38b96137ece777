/**
 * Administration of accounts. Each write locks the administrators and the account it changes, so
 * that of two requests at once neither removes the last administrator nor acts without the role.
 */
import { accountStateOf, type AccountState } from '../../domain/access/account-state.ts';
import { toDollars } from '../../domain/regions/catalog.ts';
import { accountNotFound, Refusal } from '../../domain/kernel/refusal.ts';
import { ADMIN_ROLE, hasRole, highestRole, type Role } from '../../domain/access/roles.ts';
import type { SecondFactor } from '../../domain/access/second-factor.ts';
import {
  accountById,
  accountByLogin,
  accountPage,
  administrators,
  changeAccount,
  lockAccounts,
  setPasswordHash,
  type AccountChange,
  type AccountFilter,
  type AccountRow,
} from '../../store/tables/accounts.ts';
import { holdingsOf, type Holdings } from '../../store/tables/holdings.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { revokeGrantsOfAccount } from '../../store/tables/gateway-grants.ts';
import { parseRoles, parseSecondFactors } from '../../store/tables/json-schemas.ts';
import { deletePasswordLinksOf } from '../../store/tables/password-links.ts';
import { deleteSecondFactors } from '../../store/tables/second-factors.ts';
import { revokeSessionsOf } from '../../store/tables/sessions.ts';
import type { Db } from '../../store/store.ts';
import { notLoggedIn, type Callers } from './callers.ts';
import type { Grants } from './grants.ts';
import type { Caller, Idempotency, Mutation, Pager, WriteDeps } from '../kernel/ports.ts';

export interface AccountInfo {
  accountId: string;
  username: string;
  email: string;
  role: Role;
  secondFactors: SecondFactor[];
  state: AccountState;
  reason: string;
  createdAtMs: number;
  disabledAtMs: number | null;
  deleteAtMs: number | null;
  /** Dollars, as `vouchers`, `credits` and `overdraft`. */
  balance: number;
  vouchers: number;
  credits: number;
  overdraft: number;
  instances: number;
  volumes: number;
}

export async function accountIdOf(db: Db, login: string): Promise<string> {
  const account = await accountByLogin(db, login);
  if (!account) throw accountNotFound(login);
  return account.id;
}

export interface AccountAdministration {
  list(filter: AccountFilter, pager: Pager): Promise<{ accounts: AccountInfo[]; totalEntries: number }>;
  get(id: string): Promise<{ account: AccountInfo; holdings: Holdings }>;
  /** Ends every login, grant and open connection; a background task stops the instances. */
  disable: Mutation<{ accountId: string; reason: string }, { account: AccountInfo }>;
  enable: Mutation<{ accountId: string }, { account: AccountInfo }>;
  setRole: Mutation<{ accountId: string; role: Role }, { account: AccountInfo }>;
  /** Disables at once, and deletes after the grace time. `lost`: what will be deleted. */
  delete: Mutation<{ accountId: string; reason: string }, { account: AccountInfo; lost: Holdings }>;
  restore: Mutation<{ accountId: string }, { account: AccountInfo }>;
  /** Removes app, passkeys and recovery codes of another account, and ends its logins. */
  resetSecondFactor: Mutation<{ accountId: string }, { account: AccountInfo }>;
}

export const accountInfo = (row: AccountRow): AccountInfo => ({
  accountId: row.id,
  username: row.username,
  email: row.email,
  role: highestRole(parseRoles(row.roles, row.id)),
  secondFactors: parseSecondFactors(row.secondFactors, row.id),
  state: accountStateOf(row),
  reason: row.disabledReason,
  createdAtMs: row.createdAtMs,
  disabledAtMs: row.disabledAtMs,
  deleteAtMs: row.deleteAtMs,
  balance: toDollars(row.balanceMicros),
  vouchers: toDollars(row.voucherMicros),
  credits: toDollars(row.creditMicros),
  overdraft: toDollars(row.overdraftMicros),
  instances: row.instanceCount,
  volumes: row.volumeCount,
});

interface Target {
  tx: Db;
  row: AccountRow;
  nowMs: number;
  /** Whether no other enabled account is an administrator. */
  isLastAdmin: boolean;
}

/** Locks administrators and account, and authorizes the caller by the locked row. */
export const writeAsAdmin = <Answer>(
  { store, time, idempotent }: WriteDeps,
  caller: Caller,
  accountId: string,
  idempotency: Idempotency | null,
  fn: (target: Target) => Promise<Answer>,
): Promise<Answer> =>
  store.write(async (tx) => {
    const nowMs = time.now();
    const adminIds = await administrators(tx, ADMIN_ROLE);
    const locked = await lockAccounts(tx, [...adminIds, caller.accountId, accountId]);
    const by = locked.get(caller.accountId);
    if (by?.disabled !== 0) throw notLoggedIn();
    if (!isEnabledAdmin(by))
      throw new Refusal('forbidden', 'only administrators may do this, and you are no longer one');
    const row = locked.get(accountId);
    if (!row) throw accountNotFound(accountId);
    const isLastAdmin =
      isEnabledAdmin(row) && ![...locked.values()].some((other) => other.id !== row.id && isEnabledAdmin(other));
    return idempotent(tx, caller.accountId, idempotency, nowMs, () => fn({ tx, row, nowMs, isLastAdmin }));
  });

export function refuseLastAdmin({ isLastAdmin, row }: Target, change: string): void {
  if (!isLastAdmin) return;
  throw new Refusal(
    'not_now',
    `${row.username} is the last enabled administrator, and cannot be ${change}; first make another account an administrator with POST /api/admin/account/role`,
  );
}

export const refuseDeleting = ({ row }: Target): void => {
  if (row.deleteAtMs === null) return;
  throw new Refusal(
    'not_now',
    `account ${row.username} is being deleted; POST /api/admin/account/restore takes it back`,
  );
};

export async function revokeLogins(tx: Db, accountId: string, nowMs: number, except?: string): Promise<void> {
  await revokeSessionsOf(tx, accountId, nowMs, except);
  await revokeGrantsOfAccount(tx, accountId, except);
}

/** Ends what the account's credentials opened. API keys work again after an enable. */
async function revokeCredentials(tx: Db, accountId: string, nowMs: number): Promise<void> {
  await revokeLogins(tx, accountId, nowMs);
  await deletePasswordLinksOf(tx, accountId);
}

/** Replaces the password of a locked account, which ends every login. */
export async function replacePassword(
  tx: Db,
  { accountId, passwordHash, nowMs }: { accountId: string; passwordHash: string; nowMs: number },
  event: { kind: string; data: object },
): Promise<void> {
  await setPasswordHash(tx, accountId, passwordHash);
  await revokeCredentials(tx, accountId, nowMs);
  await appendEvent(tx, { accountId, atMs: nowMs, subjectId: accountId, ...event });
}

export const isEnabledAdmin = (row: AccountRow | undefined): row is AccountRow =>
  row?.disabled === 0 && hasRole(parseRoles(row.roles, row.id), ADMIN_ROLE);

export interface AccountAdminDeps extends WriteDeps {
  callers: Callers;
  grants: Pick<Grants, 'invalidate'>;
  deletionGraceMs: number;
}

export const invalidateAccount = ({ callers, grants }: Pick<AccountAdminDeps, 'callers' | 'grants'>, id: string) => {
  callers.invalidate(({ accountId }) => accountId === id);
  grants.invalidate(({ accountId }) => accountId === id);
};

export const makeAccountAdministration = (deps: AccountAdminDeps): AccountAdministration => {
  const { store } = deps;

  const change = async (
    [caller, { accountId }, idempotency]: [Caller, { accountId: string }, Idempotency | null],
    fn: (target: Target) => Promise<{ kind: string; data: object; change: AccountChange } | null>,
  ): Promise<{ account: AccountInfo }> => {
    const answer = await writeAsAdmin(deps, caller, accountId, idempotency, async (target) => {
      const { tx, row, nowMs } = target;
      const decided = await fn(target);
      if (decided === null) return { account: accountInfo(row) };
      const { kind, data } = decided;
      const changed = await changeAccount(tx, accountId, decided.change);
      await appendEvent(tx, { accountId, atMs: nowMs, kind, subjectId: accountId, data });
      return { account: accountInfo(changed) };
    });
    invalidateAccount(deps, accountId);
    return answer;
  };

  return {
    delete: async (caller, body, idempotency) => {
      const answer = await change([caller, body, idempotency], async (target) => {
        const { tx, row, nowMs } = target;
        refuseDeleting(target);
        refuseLastAdmin(target, 'deleted');
        await revokeCredentials(tx, row.id, nowMs);
        const deleteAtMs = nowMs + deps.deletionGraceMs;
        const data = { deleteAt: deleteAtMs, reason: body.reason };
        return { kind: 'account.deletionScheduled', data, change: { disabled: 1, deleteAtMs } };
      });
      return { ...answer, lost: await holdingsOf(store.read, body.accountId) };
    },

    restore: (caller, body, idempotency) =>
      change([caller, body, idempotency], async ({ row, nowMs }) => {
        const { username, deleteAtMs, disabledAtMs } = row;
        if (deleteAtMs === null) throw new Refusal('not_now', `account ${username} is not being deleted`);
        if (deleteAtMs <= nowMs) {
          const message = `the grace time of account ${username} has ended, and its deletion has begun: it cannot be restored`;
          throw new Refusal('not_now', message);
        }
        const disabled = disabledAtMs === null ? 0 : 1;
        return { kind: 'account.restored', data: {}, change: { disabled, deleteAtMs: null } };
      }),

    async list(filter, { currentPage, pageSize }) {
      const search = filter.search?.toLowerCase();
      const page = { offset: (currentPage - 1) * pageSize, limit: pageSize };
      const { rows, totalEntries } = await accountPage(store.read, { ...filter, search }, page);
      return { accounts: rows.map(accountInfo), totalEntries };
    },

    async get(id) {
      const row = await accountById(store.read, id);
      if (!row) throw accountNotFound(id);
      return { account: accountInfo(row), holdings: await holdingsOf(store.read, id) };
    },

    disable: (caller, body, idempotency) =>
      change([caller, body, idempotency], async (target) => {
        const { tx, row, nowMs } = target;
        refuseDeleting(target);
        refuseLastAdmin(target, 'disabled');
        await revokeCredentials(tx, row.id, nowMs);
        const { reason } = body;
        const disabled = { disabled: 1 as const, disabledAtMs: row.disabledAtMs ?? nowMs, disabledReason: reason };
        return { kind: 'account.disabled', data: { reason }, change: disabled };
      }),

    enable: (caller, body, idempotency) =>
      change([caller, body, idempotency], async (target) => {
        refuseDeleting(target);
        if (target.row.disabled === 0) return null;
        const enabled = { disabled: 0 as const, disabledAtMs: null, disabledReason: '' };
        return { kind: 'account.enabled', data: {}, change: enabled };
      }),

    resetSecondFactor: (caller, body, idempotency) =>
      change([caller, body, idempotency], async ({ tx, row, nowMs }) => {
        const { secondFactors } = accountInfo(row);
        if (row.id === caller.accountId)
          throw new Refusal('not_now', 'remove your own second factor at POST /api/user/secondFactor/totp/delete');
        if (secondFactors.length === 0) return null;
        await deleteSecondFactors(tx, row.id);
        await revokeLogins(tx, row.id, nowMs);
        const data = { by: ADMIN_ROLE, secondFactors };
        return { kind: 'account.secondFactorReset', data, change: { secondFactors: '[]' } };
      }),

    setRole: (caller, body, idempotency) =>
      change([caller, body, idempotency], async (target) => {
        const { role } = body;
        const formerRole = accountInfo(target.row).role;
        if (role === formerRole) return null;
        if (role !== ADMIN_ROLE) refuseLastAdmin(target, `made ${role}`);
        const roles = JSON.stringify([role]);
        return { kind: 'account.roleChanged', data: { role, formerRole }, change: { roles } };
      }),
  };
};
