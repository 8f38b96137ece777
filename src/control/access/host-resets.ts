/** Changes by who is on the host; each ends every login of the account. */
import type { AccountState } from '../../domain/access/account-state.ts';
import { AUDIT_OK, type AuditFields } from '../../domain/access/audit.ts';
import type { Role } from '../../domain/access/roles.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { accountByLogin, lockAccount, type AccountRow } from '../../store/tables/accounts.ts';
import { insertPendingAudit } from '../../store/tables/audit.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { deleteSecondFactors } from '../../store/tables/second-factors.ts';
import type { Db } from '../../store/store.ts';
import { accountInfo, replacePassword, revokeLogins } from './account-admin.ts';
import type { Passwords } from './passwords.ts';
import type { RandomBytes } from './random.ts';
import type { WriteDeps } from '../kernel/ports.ts';

export interface HostAccount {
  accountId: string;
  username: string;
  role: Role;
  state: AccountState;
}

export interface HostReset extends HostAccount {
  password: string;
}

type HostDeps = Pick<WriteDeps, 'store' | 'time'>;

const PASSWORD_BYTES = 15;

async function accountOf({ store }: HostDeps, username: string): Promise<AccountRow> {
  const account = await accountByLogin(store.read, username);
  if (account) return account;
  const message = `account ${JSON.stringify(username)} not found; npm run admin -- list lists the accounts`;
  throw new Refusal('not_found', message);
}

const shown = (account: AccountRow): HostAccount => {
  const { accountId, username, role, state } = accountInfo(account);
  return { accountId, username, role, state };
};

/** Names no account: anybody who may use the data folder runs the command. */
const recordOf = (route: string, accountId: string, atMs: number): AuditFields => ({
  atMs,
  accountId: '',
  username: '',
  credential: 'host',
  credentialId: '',
  address: '',
  userAgent: '',
  route,
  subjects: JSON.stringify([accountId]),
  outcome: AUDIT_OK,
  count: 1,
  requestId: '',
});

const write = (
  { store, time }: HostDeps,
  { id }: AccountRow,
  route: string,
  fn: (tx: Db, nowMs: number) => Promise<void>,
): Promise<void> =>
  store.write(async (tx) => {
    await lockAccount(tx, id);
    const nowMs = time.now();
    await fn(tx, nowMs);
    await insertPendingAudit(tx, recordOf(route, id, nowMs));
  });

export async function resetPasswordOf(
  deps: HostDeps & { randomBytes: RandomBytes; passwords: Passwords },
  username: string,
): Promise<HostReset> {
  const account = await accountOf(deps, username);
  const { id: accountId } = account;
  const password = Buffer.from(deps.randomBytes(PASSWORD_BYTES)).toString('base64url');
  const passwordHash = await deps.passwords.hash(password, { account: account.username, address: null });
  const event = { kind: 'account.passwordSet', data: { by: 'host' } };
  await write(deps, account, 'hostResetPassword', (tx, nowMs) =>
    replacePassword(tx, { accountId, passwordHash, nowMs }, event),
  );
  return { ...shown(account), password };
}

export async function resetSecondFactorOf(deps: HostDeps, username: string): Promise<HostAccount> {
  const account = await accountOf(deps, username);
  const { accountId, secondFactors } = accountInfo(account);
  await write(deps, account, 'hostResetSecondFactor', async (tx, atMs) => {
    await deleteSecondFactors(tx, accountId);
    await revokeLogins(tx, accountId, atMs);
    const event = { kind: 'account.secondFactorReset', data: { by: 'host', secondFactors } };
    await appendEvent(tx, { accountId, atMs, subjectId: accountId, ...event });
  });
  return shown(account);
}
