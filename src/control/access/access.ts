/**
 * # Access: accounts and their credentials
 *
 *     password ──login──► token (a JWT, one day; its `jti` is a row of `session`) ──► Caller
 *     API key (until deleted; a row of `apiKey`) ───────────────────────────────────► Caller
 *     Caller ──grant──► handover (once, a minute) ──redeem──► gateway session (while used)
 *     Caller ──share──► link to one port (until it expires), for anyone
 *
 *     administrator ──invite, reset──► link to a page (once, a day or a week) ──► password
 *
 * Every revocation changes a row under the account's lock. This process drops cached credentials
 * with the commit; other processes on the same database within a second.
 */
import { DAY_MS } from '../../domain/kernel/durations.ts';
import { DELETION_GRACE_DAYS, FIRST_CREDIT } from '../../domain/access/account-state.ts';
import type { Role } from '../../domain/access/roles.ts';
import { deleteExpiredGrants } from '../../store/tables/gateway-grants.ts';
import { deleteExpiredPasswordLinks } from '../../store/tables/password-links.ts';
import { deleteExpiredShares } from '../../store/tables/ports.ts';
import { deleteExpiredSessions } from '../../store/tables/sessions.ts';
import { makeAccountAdministration, type AccountAdministration } from './account-admin.ts';
import { makeAccounts, type Accounts } from './accounts.ts';
import { makeCallers } from './callers.ts';
import { makeFactorChanges } from './factor-changes.ts';
import { makeFactorCodes } from './factor-codes.ts';
import { makeGrants, type Grants } from './grants.ts';
import { makeLoginRateLimit } from './login-rate-limit.ts';
import { makeLogins } from './logins.ts';
import { makeOwnPassword } from './own-password.ts';
import { makePasswordLinks, type PasswordLinkDeps, type PasswordLinks } from './set-password.ts';
import { makePasskeys } from './passkeys.ts';
import { HASHES_AT_ONCE, makePasswords, type Argon2id } from './passwords.ts';
import { makeRegistration, type Registration } from './registration.ts';
import { makeSecondFactors } from './second-factors.ts';
import { makeIdentityAdministration, type IdentityAdministration } from './identity-admin.ts';
import { makeProviderLogins } from './provider-logins.ts';
import { makeSignOn } from './sign-on.ts';
import { makeSigningRing } from './signing-ring.ts';
import { makeApiKeys, makeSshKeys, type SshKeyDeps } from './keys.ts';
import { makeTokens } from './tokens.ts';
import type { Access } from './types.ts';
import type { Log, Seal } from '../kernel/ports.ts';

export interface AccessDeps extends SshKeyDeps, Pick<PasswordLinkDeps, 'passwordUrl'> {
  /** `iss` and `aud` of tokens: an installation rejects tokens of another. */
  issuer: string;
  audience: string;
  log: Log;
  seal: Seal;
  argon2id: Argon2id;
  /** Dollars of accounts that administrators make; default 1,000. */
  firstCredit?: number;
  /** Time in which a deleted account can be restored; default a week. */
  deletionGraceMs?: number;
  /** Role from which on a login by password needs a second factor; default: none. */
  secondFactorRole?: Role | null;
  consoleHost?: string;
  /** Whether anybody may register, and dollars of such accounts; default: nobody. */
  registration?: { isOpen: boolean; credit: number };
}

export interface InternalAccess extends Access, Pick<Accounts, 'ensureAdmin'> {
  /** Returns the id of the signing key; replaces a key that this installation did not seal. */
  ensureSigningKey(): Promise<string>;
  /** Deletes expired rows. Call about once an hour. */
  sweep(): Promise<void>;
  grants: Pick<Grants, 'grant' | 'redeem' | 'session'>;
  administration: AccountAdministration & IdentityAdministration & PasswordLinks & Registration;
}

export const makeAccess = (deps: AccessDeps): InternalAccess => {
  const { store, time, randomBytes } = deps;
  const passwords = makePasswords({
    randomBytes,
    argon2id: deps.argon2id,
    atOnce: HASHES_AT_ONCE,
  });
  const ring = makeSigningRing(deps);
  const tokens = makeTokens({ ...deps, ring });
  const secondFactorRole = deps.secondFactorRole ?? null;
  const callers = makeCallers({ ...deps, tokens, secondFactorRole });
  const grants = makeGrants(deps);

  const { insert, ...accounts } = makeAccounts({ ...deps, firstCredit: deps.firstCredit ?? FIRST_CREDIT, passwords });
  const deletionGraceMs = deps.deletionGraceMs ?? DELETION_GRACE_DAYS * DAY_MS;
  const credentials = { ...deps, callers, grants, deletionGraceMs };
  const loginLimit = makeLoginRateLimit(time);
  const ownPassword = makeOwnPassword({ ...deps, passwords });
  const factorCodes = makeFactorCodes({ ...deps, loginLimit });
  const loginDeps = { ...deps, passwords, ownPassword, loginLimit, factorCodes, tokens, callers, grants };
  const factorChanges = makeFactorChanges(loginDeps);

  return {
    ...accounts,
    ...makeLogins(loginDeps),
    ...makeSignOn({ ...loginDeps, newAccount: insert }),
    ...makeProviderLogins(loginDeps),
    secondFactors: makeSecondFactors({
      ...loginDeps,
      factorChanges,
      secondFactorRole,
      consoleHost: deps.consoleHost ?? '',
    }),
    passkeys: makePasskeys({ ...loginDeps, factorChanges }),
    ...makeApiKeys({ ...deps, callers, grants }),
    ...makeSshKeys(deps),
    listSessions: grants.listSessions,
    revokeSession: grants.revokeSession,
    authenticate: callers.authenticate,
    ensureSigningKey: async () => (await ring.ensure()).kid,
    async sweep() {
      await store.write((tx) => deleteExpiredGrants(tx, time.now()));
      await store.write((tx) => deleteExpiredShares(tx, time.now()));
      await store.write((tx) => deleteExpiredPasswordLinks(tx, time.now()));
      await store.write((tx) => deleteExpiredSessions(tx, time.now()));
      await ring.sweep();
    },
    grants,
    administration: {
      ...makeIdentityAdministration(credentials),
      ...makeAccountAdministration(credentials),
      ...makeRegistration({
        ...deps,
        passwords,
        newAccount: insert,
        registration: deps.registration ?? { isOpen: false, credit: 0 },
      }),
      ...makePasswordLinks({ ...credentials, passwords, newAccount: insert }),
    },
  };
};
