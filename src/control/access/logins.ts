/** Logging in, out, and changing the password, which ends every login but leaves the API keys: programs run on those. */
import { Refusal } from '../../domain/refusal.ts';
import { accountById, accountByLogin, lockAccount, setPasswordHash } from '../../store/tables/accounts.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { revokeGrantsOfAccount, revokeGrantsOfSession } from '../../store/tables/gateway-grants.ts';
import { insertSession, revokeSession, revokeSessionsOf } from '../../store/tables/sessions.ts';
import type { Store } from '../../store/store.ts';
import type { Log } from '../base/log.ts';
import { makeLoginRateLimit } from './login-rate-limit.ts';
import { lockOwnAccount, notLoggedIn, parseRoles, type Callers } from './callers.ts';
import type { Grants } from './grants.ts';
import type { Passwords } from './passwords.ts';
import { uuidFrom, type RandomBytes } from './random.ts';
import { TOKEN_LIFE_S } from './signing-ring.ts';
import type { Tokens } from './tokens.ts';
import type { Access } from './types.ts';

/** One sentence for an unknown name and a wrong password. */
const wrongWords = (): Refusal =>
  new Refusal('not_logged_in', 'The username (or email) or the password is wrong. Check both and log in again.');

export const makeLogins = (deps: {
  store: Store;
  now: () => number;
  randomBytes: RandomBytes;
  log: Log;
  passwords: Passwords;
  tokens: Tokens;
  callers: Callers;
  grants: Grants;
}): Pick<Access, 'login' | 'logout' | 'changePassword'> => {
  const { store, now, randomBytes, log, passwords, tokens, callers, grants } = deps;
  const logins = makeLoginRateLimit({ now });
  /** Apart from the logins: a stranger who fails at these must not keep the owner from changing the password. */
  const changes = makeLoginRateLimit({ now });

  return {
    async login({ username, password }, from) {
      const account = await accountByLogin(store.read, username);
      // One bucket an account, whether it is called by its name or by its email.
      const name = account?.username ?? username.toLowerCase();
      const attempt = { mayStart: () => logins.check(name, from), failed: () => logins.failed(name, from) };
      // Now, to refuse without work; and again when the turn comes, since others may have failed by then.
      attempt.mayStart();
      const right = await passwords.verify(password, account?.passwordHash ?? null, attempt);
      if (!account || !right) {
        log.warn({ accountId: account?.id ?? null, from }, 'a login was refused');
        throw wrongWords();
      }
      logins.succeeded(name, from);

      const accountId = account.id;
      const sessionId = uuidFrom(randomBytes);
      const { token, expiresAtMs } = await tokens.sign({ accountId, sessionId, roles: parseRoles(account.roles) });
      await store.write(async (tx) => {
        const row = await lockAccount(tx, accountId);
        // Changed while we checked the old one: that change ended every login, and this would be one more.
        if (row?.passwordHash !== account.passwordHash) throw wrongWords();
        // Said only to who knows the password.
        if (row.disabled === 1)
          throw new Refusal('forbidden', 'This account is disabled. Ask an administrator to enable it.');
        const atMs = now();
        await insertSession(tx, { id: sessionId, accountId, createdAtMs: atMs, expiresAtMs, revokedAtMs: null });
        await appendEvent(tx, { accountId, atMs, kind: 'account.loggedIn', subjectId: sessionId, data: { from } });
      });
      return { accessToken: token, accessExpire: TOKEN_LIFE_S };
    },

    async logout({ accountId, sessionId }) {
      if (sessionId === null) {
        throw new Refusal(
          'not_now',
          'An API key has no login to end; to end the key, delete it with /user/key/delete.',
        );
      }
      await store.write(async (tx) => {
        const atMs = now();
        await lockAccount(tx, accountId);
        if (!(await revokeSession(tx, sessionId, atMs))) return;
        await revokeGrantsOfSession(tx, sessionId);
        await appendEvent(tx, { accountId, atMs, kind: 'account.loggedOut', subjectId: sessionId, data: {} });
      });
      callers.invalidate((caller) => caller.sessionId === sessionId);
      grants.invalidate((session) => session.sessionId === sessionId);
    },

    async changePassword({ accountId }, { oldPassword, newPassword }) {
      const attempt = { mayStart: () => changes.check(accountId, null), failed: () => changes.failed(accountId, null) };
      attempt.mayStart();
      const account = await accountById(store.read, accountId);
      if (!account) throw notLoggedIn();
      if (!(await passwords.verify(oldPassword, account.passwordHash, attempt))) {
        log.warn({ accountId }, 'a change of password was refused');
        throw new Refusal(
          'forbidden',
          'The old password is wrong, so the password was not changed. Type the one you log in with.',
        );
      }
      const passwordHash = await passwords.hash(newPassword);
      await store.write(async (tx) => {
        const atMs = now();
        const row = await lockOwnAccount(tx, accountId);
        if (row.passwordHash !== account.passwordHash) {
          throw new Refusal(
            'not_now',
            'The password was changed by another request meanwhile; log in again with that one.',
          );
        }
        await setPasswordHash(tx, accountId, passwordHash);
        await revokeSessionsOf(tx, accountId, atMs);
        await revokeGrantsOfAccount(tx, accountId);
        await appendEvent(tx, { accountId, atMs, kind: 'account.passwordChanged', subjectId: accountId, data: {} });
      });
      callers.invalidate((caller) => caller.accountId === accountId);
      grants.invalidate((session) => session.accountId === accountId);
    },
  };
};
