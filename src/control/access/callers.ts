/** Authenticates tokens and API keys, with a cache for each. */
import { MINUTE_MS } from '../../domain/kernel/durations.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { hasRole, type Role } from '../../domain/access/roles.ts';
import { lockAccount, type AccountRow } from '../../store/tables/accounts.ts';
import { holderOfApiKey, setLastUse } from '../../store/tables/keys.ts';
import { holderOfSession, type CredentialHolder } from '../../store/tables/sessions.ts';
import { parseKeyAddresses, parseKeyScopes, parseRoles } from '../../store/tables/json-schemas.ts';
import type { Db, Store } from '../../store/store.ts';
import { makeVerifiedCache } from './verified-cache.ts';
import { sha256Hex, type RandomBytes } from './random.ts';
import type { Tokens } from './tokens.ts';
import type { AuthenticateOptions } from './types.ts';
import type { KeyLimits } from '../../domain/access/api-key.ts';
import type { Log, Caller, Credential, Idempotency, WriteDeps, Time } from '../kernel/ports.ts';

const MAX_CACHED = 10_000;
const API_KEY = /^berth_[A-Za-z0-9_-]{43}$/;

export const notLoggedIn = (): Refusal =>
  new Refusal('not_logged_in', 'You are not logged in, or your login has expired: log in again.');

const factorMissing = (): Refusal => {
  const message =
    'your role needs a second factor, and this login can do nothing before it has one: set it up in the settings of the console';
  return new Refusal('forbidden', message, { secondFactor: 'setUp' });
};

/** Locks the caller's account. Throws if it was disabled after authentication. */
export const lockOwnAccount = async (tx: Db, accountId: string): Promise<AccountRow> => {
  const account = await lockAccount(tx, accountId);
  if (!account || account.disabled === 1) throw notLoggedIn();
  return account;
};

export interface CredentialDeps extends WriteDeps {
  time: Pick<Time, 'now' | 'elapsed'>;
  randomBytes: RandomBytes;
}

/** `idempotentWrite` under the account's lock. `lockFirst` locks what comes before accounts. */
export const writeOwnAccount = <Answer>(
  deps: WriteDeps & { lockFirst?: (tx: Db, accountId: string) => Promise<unknown> },
  accountId: string,
  idempotency: Idempotency | null,
  fn: (tx: Db, nowMs: number) => Promise<Answer>,
): Promise<Answer> =>
  deps.store.write(async (tx) => {
    const nowMs = deps.time.now();
    await deps.lockFirst?.(tx, accountId);
    await lockOwnAccount(tx, accountId);
    return deps.idempotent(tx, accountId, idempotency, nowMs, () => fn(tx, nowMs));
  });

/** Undefined without limits. */
export function limitsOf(
  apiKeyId: string | null,
  { expiresAtMs, addresses }: { expiresAtMs: number | null; addresses: string | null },
): KeyLimits | undefined {
  if (apiKeyId === null || (expiresAtMs === null && addresses === null)) return undefined;
  return { expiresAtMs, addresses: addresses === null ? null : parseKeyAddresses(addresses, apiKeyId) };
}

const callerFrom = (
  holder: CredentialHolder,
  from: Pick<Caller, 'sessionId' | 'scopes' | 'apiKeyId' | 'limits' | 'mustSetUpFactor'>,
): Caller =>
  Object.freeze({
    accountId: holder.accountId,
    username: holder.username,
    email: holder.email,
    roles: Object.freeze(parseRoles(holder.roles, holder.accountId)),
    ...from,
  });

export interface Callers {
  authenticate(credential: Credential, options?: AuthenticateOptions): Promise<Caller>;
  invalidate(which: (caller: Caller) => boolean): void;
}

export const makeCallers = (deps: {
  store: Store;
  time: Pick<Time, 'now' | 'elapsed'>;
  tokens: Tokens;
  log: Pick<Log, 'warn'>;
  secondFactorRole: Role | null;
}): Callers => {
  const { store, time, tokens, log, secondFactorRole } = deps;

  const mustSetUpFactor = ({ roles, secondFactor, accountId }: CredentialHolder & { secondFactor: 0 | 1 }): boolean =>
    secondFactor === 0 && secondFactorRole !== null && hasRole(parseRoles(roles, accountId), secondFactorRole);

  /** Writes at most once a minute for each key and login. Requests don't wait for it. */
  const recordUse = (table: 'apiKey' | 'session', id: string, lastUsedAtMs: number | null): void => {
    const nowMs = time.now();
    const minuteMs = nowMs - (nowMs % MINUTE_MS);
    if (lastUsedAtMs !== null && lastUsedAtMs >= minuteMs) return;
    store
      .write((tx) => setLastUse(tx, table, id, minuteMs))
      .catch((error: unknown) => {
        if (error instanceof Refusal) return;
        log.warn({ err: error, table, id }, 'the last use of a credential could not be stored');
      });
  };

  const byToken = makeVerifiedCache<Caller & { expiresAtMs: number }>({
    time,
    maxEntries: MAX_CACHED,
    async verify(token, before) {
      // A cached token needs no second signature check, only one of its login.
      const claims = before?.sessionId ? { ...before, sessionId: before.sessionId } : await tokens.verify(token);
      if (claims === null) return null;
      const { sessionId, accountId, expiresAtMs } = claims;
      const holder = await holderOfSession(store.read, sessionId, time.now());
      if (holder?.accountId !== accountId) return null;
      recordUse('session', sessionId, holder.lastUsedAtMs);
      const limited = mustSetUpFactor(holder) ? { mustSetUpFactor: true as const } : {};
      const caller = callerFrom(holder, { sessionId, scopes: null, ...limited });
      return { subject: { ...caller, expiresAtMs }, expiresAtMs };
    },
  });

  const byKey = makeVerifiedCache<Caller>({
    time,
    maxEntries: MAX_CACHED,
    async verify(key) {
      const nowMs = time.now();
      const holder = API_KEY.test(key) ? await holderOfApiKey(store.read, sha256Hex(key), nowMs) : undefined;
      if (holder === undefined) return null;
      const { apiKeyId, expiresAtMs } = holder;
      recordUse('apiKey', apiKeyId, holder.lastUsedAtMs);
      const scopes = holder.scopes === null ? null : parseKeyScopes(holder.scopes, apiKeyId);
      const limits = limitsOf(apiKeyId, holder);
      const subject = callerFrom(holder, { sessionId: null, scopes, apiKeyId, ...(limits && { limits }) });
      return { subject, expiresAtMs: expiresAtMs ?? Infinity };
    },
  });

  return {
    async authenticate(credential, { revalidate = false, settingUp = false } = {}) {
      const ask = revalidate ? 'revalidate' : 'find';
      const caller = await (credential.kind === 'token' ? byToken[ask](credential.token) : byKey[ask](credential.key));
      if (caller === null) throw notLoggedIn();
      if (caller.mustSetUpFactor && !settingUp) throw factorMissing();
      return caller;
    },
    invalidate(which) {
      byToken.invalidate(which);
      byKey.invalidate(which);
    },
  };
};
