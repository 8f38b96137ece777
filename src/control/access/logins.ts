/** Logins, their list and end. A change of password ends all, and keeps API keys for programs. */
import type { Identity } from '../../domain/access/sign-on-rules.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { accountById, accountByLogin, lockAccount, type AccountRow } from '../../store/tables/accounts.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { revokeGrantsOfSession } from '../../store/tables/gateway-grants.ts';
import { parseRoles } from '../../store/tables/json-schemas.ts';
import { activeSessionsOf, hasActiveSession, insertSession, revokeSession } from '../../store/tables/sessions.ts';
import type { Flag } from '../../store/db/columns.ts';
import type { Db } from '../../store/store.ts';
import { invalidateAccount, replacePassword } from './account-admin.ts';
import { refuseWeakPassword } from './new-password.ts';
import { WRONG_CREDENTIALS, type FactorCodes } from './factor-codes.ts';
import type { LoginRateLimit } from './login-rate-limit.ts';
import type { OwnPassword } from './own-password.ts';
import { lockOwnAccount, notLoggedIn, writeOwnAccount, type Callers, type CredentialDeps } from './callers.ts';
import type { Grants } from './grants.ts';
import type { Passwords } from './passwords.ts';
import { uuidFrom } from './random.ts';
import { TOKEN_LIFE_S } from './signing-ring.ts';
import type { Tokens } from './tokens.ts';
import type { Access } from './types.ts';
import type { Log } from '../kernel/ports.ts';

/** The same message for an unknown name and a wrong password. */
const wrongCredentials = (): Refusal => new Refusal('not_logged_in', WRONG_CREDENTIALS);

const MAX_USER_AGENT = 300;
const shownUserAgent = (given: string): string => given.replace(/[^\x20-\x7e]/g, '').slice(0, MAX_USER_AGENT);

export const accountDisabled = ({ disabledReason, deleteAtMs }: AccountRow): Refusal => {
  if (deleteAtMs !== null)
    return new Refusal('forbidden', 'This account is being deleted. Ask an administrator to restore it.');
  const why = disabledReason === '' ? '' : ` (${disabledReason})`;
  return new Refusal('forbidden', `This account is disabled${why}. Ask an administrator to enable it.`);
};

const MAX_LOGINS_LISTED = 500;

interface EndedLogin {
  accountId: string;
  sessionId: string;
  kind: string;
  nowMs: number;
}

export async function endLogin(tx: Db, { accountId, sessionId, kind, nowMs }: EndedLogin): Promise<void> {
  if (!(await revokeSession(tx, sessionId, nowMs))) return;
  await revokeGrantsOfSession(tx, sessionId);
  await appendEvent(tx, { accountId, atMs: nowMs, kind, subjectId: sessionId, data: {} });
}

interface NewLogin {
  sessionId: string;
  expiresAtMs: number;
  from: string;
  userAgent: string;
}

/** Refuses if the password, which ends every login, has changed since `account` was read. */
async function insertLogin(
  tx: Db,
  account: AccountRow,
  { sessionId, expiresAtMs, from, userAgent }: NewLogin,
  { atMs, identity, confirm }: { atMs: number; identity?: Identity; confirm: (row: AccountRow) => Promise<Flag> },
): Promise<void> {
  const { id: accountId } = account;
  const row = await lockAccount(tx, accountId);
  if (row?.passwordHash !== account.passwordHash) throw wrongCredentials();
  const secondFactor = await confirm(row);
  // Revealed only with the right password.
  if (row.disabled === 1) throw accountDisabled(row);
  await insertSession(tx, {
    id: sessionId,
    accountId,
    createdAtMs: atMs,
    expiresAtMs,
    revokedAtMs: null,
    address: from,
    userAgent: shownUserAgent(userAgent),
    lastUsedAtMs: atMs,
    secondFactor,
    issuer: identity?.issuer ?? null,
    subject: identity?.subject ?? null,
    providerSid: identity?.sid ?? null,
  });
  const data = { from, ...(identity === undefined ? {} : { issuer: identity.issuer }) };
  await appendEvent(tx, { accountId, atMs, kind: 'account.loggedIn', subjectId: sessionId, data });
}

interface Start {
  from: string;
  userAgent: string;
  identity?: Identity;
  /** Answers 1 for a login with a second factor, or throws. The account is locked. */
  confirm: (tx: Db, row: AccountRow) => Promise<Flag>;
}

export async function startLogin(
  { store, time, randomBytes, tokens }: Pick<LoginDeps, 'store' | 'time' | 'randomBytes' | 'tokens'>,
  account: AccountRow,
  { from, userAgent, confirm, ...more }: Start,
): Promise<{ accessToken: string; accessExpire: number }> {
  const { id: accountId } = account;
  const sessionId = uuidFrom(randomBytes);
  const roles = parseRoles(account.roles, accountId);
  const { token, expiresAtMs } = await tokens.sign({ accountId, sessionId, roles });
  const login = { sessionId, expiresAtMs, from, userAgent };
  await store.write((tx) =>
    insertLogin(tx, account, login, { ...more, atMs: time.now(), confirm: (row) => confirm(tx, row) }),
  );
  return { accessToken: token, accessExpire: TOKEN_LIFE_S };
}

export interface LoginDeps extends CredentialDeps {
  log: Log;
  passwords: Passwords;
  ownPassword: OwnPassword;
  loginLimit: LoginRateLimit;
  factorCodes: FactorCodes;
  tokens: Tokens;
  callers: Callers;
  grants: Grants;
}

export function invalidateLogin({ callers, grants }: Pick<LoginDeps, 'callers' | 'grants'>, id: string): void {
  callers.invalidate(({ sessionId }) => sessionId === id);
  grants.invalidate(({ sessionId }) => sessionId === id);
}

const makeLoginList = (deps: LoginDeps): Pick<Access, 'listLogins' | 'revokeLogin'> => {
  const { store, time } = deps;
  return {
    async listLogins({ accountId, sessionId }) {
      const rows = await activeSessionsOf(store.read, accountId, time.now(), MAX_LOGINS_LISTED);
      const logins = rows.map(({ id, address, userAgent, createdAtMs, lastUsedAtMs, expiresAtMs }) => ({
        id,
        address,
        userAgent,
        current: id === sessionId,
        createdAtUnixMs: createdAtMs,
        lastUsedAtUnixMs: Math.max(createdAtMs, lastUsedAtMs),
        expiresAtUnixMs: expiresAtMs,
      }));
      return { logins };
    },

    async revokeLogin({ accountId }, { id }, idempotency) {
      await writeOwnAccount(deps, accountId, idempotency, async (tx, nowMs) => {
        if (!(await hasActiveSession(tx, accountId, id))) {
          const message = `login ${JSON.stringify(id)} not found; POST /api/user/login/list lists yours`;
          throw new Refusal('not_found', message);
        }
        await endLogin(tx, { accountId, sessionId: id, kind: 'account.loginRevoked', nowMs });
        return {};
      });
      invalidateLogin(deps, id);
    },
  };
};

export const makeLogins = (
  deps: LoginDeps,
): Pick<Access, 'login' | 'logout' | 'listLogins' | 'revokeLogin' | 'changePassword'> => {
  const { store, time, log, passwords, ownPassword, loginLimit, factorCodes } = deps;

  return {
    ...makeLoginList(deps),

    async login({ username, password, code }, from, userAgent = '') {
      const account = await accountByLogin(store.read, username);
      const name = account?.username ?? username.toLowerCase();
      const attempt = {
        source: { account: name, address: from },
        mayStart: () => loginLimit.check(name, from),
        failed: () => loginLimit.failed(name, from),
      };
      // Checked again before hashing: others may have failed meanwhile.
      attempt.mayStart();
      const isRight = await passwords.verify(password, account?.passwordHash ?? null, attempt);
      if (!account || !isRight) {
        log.warn({ accountId: account?.id ?? null, from }, 'login refused');
        throw wrongCredentials();
      }

      const confirm = async (tx: Db, row: AccountRow): Promise<Flag> => {
        const isConfirmed = await factorCodes.confirmLogin(tx, row, { code, from });
        loginLimit.succeeded(name, from);
        return isConfirmed;
      };
      return startLogin(deps, account, { from, userAgent, confirm });
    },

    async logout({ accountId, sessionId }) {
      if (sessionId === null) {
        const message = 'An API key has no login to end; to revoke the key, delete it with /user/key/delete.';
        throw new Refusal('not_now', message);
      }
      await store.write(async (tx) => {
        await lockAccount(tx, accountId);
        await endLogin(tx, { accountId, sessionId, kind: 'account.loggedOut', nowMs: time.now() });
      });
      invalidateLogin(deps, sessionId);
    },

    async changePassword({ accountId }, { oldPassword, newPassword }) {
      const account = await accountById(store.read, accountId);
      if (!account) throw notLoggedIn();
      await refuseWeakPassword('newPassword', newPassword, account);
      const message =
        'The old password is wrong, so the password was not changed. Send the password that you log in with.';
      await ownPassword.require(account, oldPassword, message);
      const passwordHash = await passwords.hash(newPassword, { account: account.username, address: null });
      await store.write(async (tx) => {
        const nowMs = time.now();
        const row = await lockOwnAccount(tx, accountId);
        if (row.passwordHash !== account.passwordHash) {
          const message = 'Another request changed the password meanwhile; log in with the new password.';
          throw new Refusal('not_now', message);
        }
        const event = { kind: 'account.passwordChanged', data: {} };
        await replacePassword(tx, { accountId, passwordHash, nowMs }, event);
      });
      invalidateAccount(deps, accountId);
    },
  };
};
