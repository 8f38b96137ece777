/**
 * Gateway sessions, because the gateway's origin must not get the API's cookie:
 *
 *     grant ──(60 s)──► handover ──redeem──► session ──(24 h, extended while used)──► …
 *
 * A session in use outlives its one-day token. It ends with its login's logout, a revocation, a
 * change of password, a disabled account, the release of its instance, or, if from an API key,
 * the key's deletion or expiry.
 */
import { lockAccount } from '../../store/tables/accounts.ts';
import {
  deleteGrant,
  deleteOldestSessionGrants,
  deleteSessionGrant,
  extendGrant,
  insertGrant,
  sessionGrantsOf,
  activeGrant,
  type GatewayGrantRow,
} from '../../store/tables/gateway-grants.ts';
import { hasApiKey } from '../../store/tables/keys.ts';
import { hasActiveSession } from '../../store/tables/sessions.ts';
import type { Db } from '../../store/store.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { appendEvent } from '../../store/tables/events.ts';
import type { Forwarding, GatewaySessions, SessionInfo } from './routing/gateway-types.ts';
import { limitsOf, lockOwnAccount, notLoggedIn, writeOwnAccount, type CredentialDeps } from './callers.ts';
import { makeVerifiedCache } from './verified-cache.ts';
import { secretFrom, SECRET, sha256Hex, uuidFrom } from './random.ts';
import type { KeyLimits } from '../../domain/access/api-key.ts';
import type { Log, Caller } from '../kernel/ports.ts';

const HANDOVER_LIFE_MS = 60_000;
const SESSION_LIFE_MS = 24 * 3600 * 1000;
const EXTEND_EVERY_MS = 60_000;
const MAX_CACHED = 10_000;
/** Sessions of an account: the next one ends the one that was unused for longest. */
export const MAX_SESSIONS = 500;

export interface GatewaySession {
  id: string;
  accountId: string;
  instanceId: string;
  sessionId: string | null;
  limits?: KeyLimits;
}

export interface Grants extends GatewaySessions {
  grant(caller: Caller, instanceId: string): Promise<string>;
  redeem(handover: string): ReturnType<Forwarding['redeem']>;
  session(secret: string): Promise<GatewaySession | null>;
  /** Drops cached sessions whose rows were deleted. */
  invalidate(which: (session: GatewaySession) => boolean): void;
}

const stillHolds = (tx: Db, caller: Caller, nowMs: number): Promise<boolean> => {
  if (caller.sessionId !== null) return hasActiveSession(tx, caller.accountId, caller.sessionId);
  return caller.apiKeyId === undefined
    ? Promise.resolve(false)
    : hasApiKey(tx, caller.accountId, caller.apiKeyId, nowMs);
};

export const makeGrants = (deps: CredentialDeps & { log: Log }): Grants => {
  const { store, time, randomBytes, log } = deps;

  /** Extends a session; a failure must not fail the request: the next one retries. */
  const extend = async (grant: GatewayGrantRow): Promise<number> => {
    const expiresAtMs = time.now() + SESSION_LIFE_MS;
    if (expiresAtMs - grant.expiresAtMs < EXTEND_EVERY_MS) return grant.expiresAtMs;
    try {
      await store.write((tx) => extendGrant(tx, grant.hash, expiresAtMs));
      return expiresAtMs;
    } catch (error) {
      log.warn({ err: error, accountId: grant.accountId }, 'a gateway session could not be extended');
      return grant.expiresAtMs;
    }
  };

  const known = makeVerifiedCache<GatewaySession>({
    time,
    maxEntries: MAX_CACHED,
    async verify(secret) {
      const grant = SECRET.test(secret)
        ? await activeGrant(store.read, sha256Hex(secret), 'session', time.now())
        : undefined;
      if (grant === undefined) return null;
      const { id, accountId, instanceId, sessionId, keyExpiresAtMs, keyAddresses } = grant;
      const limits = limitsOf(grant.apiKeyId, { expiresAtMs: keyExpiresAtMs, addresses: keyAddresses });
      const subject = { id, accountId, instanceId, sessionId, ...(limits && { limits }) };
      return { subject, expiresAtMs: Math.min(await extend(grant), keyExpiresAtMs ?? Infinity) };
    },
  });

  return {
    async grant(caller, instanceId) {
      const secret = secretFrom(randomBytes);
      const { accountId, sessionId } = caller;
      await store.write(async (tx) => {
        await lockOwnAccount(tx, accountId);
        const nowMs = time.now();
        if (!(await stillHolds(tx, caller, nowMs))) throw notLoggedIn();
        await insertGrant(tx, {
          id: uuidFrom(randomBytes),
          hash: sha256Hex(secret),
          kind: 'handover',
          accountId,
          instanceId,
          sessionId,
          apiKeyId: caller.apiKeyId ?? null,
          openedAtMs: nowMs,
          expiresAtMs: nowMs + HANDOVER_LIFE_MS,
        });
      });
      return secret;
    },

    async redeem(handover) {
      if (!SECRET.test(handover)) return null;
      const hash = sha256Hex(handover);
      const session = secretFrom(randomBytes);
      return store.write(async (tx) => {
        const nowMs = time.now();
        const unlocked = await activeGrant(tx, hash, 'handover', nowMs);
        if (!unlocked || !(await lockAccount(tx, unlocked.accountId))) return null;
        const grant = await activeGrant(tx, hash, 'handover', nowMs);
        if (!grant || !(await deleteGrant(tx, hash))) return null;
        const expiresAtMs = nowMs + SESSION_LIFE_MS;
        const fields = { id: uuidFrom(randomBytes), hash: sha256Hex(session), openedAtMs: nowMs, expiresAtMs };
        const { accountId, instanceId, sessionId, apiKeyId } = grant;
        await deleteOldestSessionGrants(tx, accountId, MAX_SESSIONS - 1);
        await insertGrant(tx, { ...fields, kind: 'session', accountId, instanceId, sessionId, apiKeyId });
        return { session, accountId, instanceId, expiresAtMs };
      });
    },

    session: known.find,

    async listSessions({ accountId }) {
      const grants = await sessionGrantsOf(store.read, accountId, time.now());
      const sessions = grants.map(({ id, instanceId, sessionId, openedAtMs, expiresAtMs }): SessionInfo => ({
        id,
        instanceId,
        from: sessionId === null ? 'apiKey' : 'login',
        openedAtUnixMs: openedAtMs,
        lastUsedAtUnixMs: expiresAtMs - SESSION_LIFE_MS,
      }));
      return { sessions };
    },

    async revokeSession({ accountId }, { id }, idempotency) {
      await writeOwnAccount(deps, accountId, idempotency, async (tx, nowMs) => {
        const grant = await deleteSessionGrant(tx, accountId, id);
        if (!grant) {
          const message = `session ${JSON.stringify(id)} not found; POST /api/user/session/list lists yours`;
          throw new Refusal('not_found', message);
        }
        const data = { instanceId: grant.instanceId };
        await appendEvent(tx, { accountId, atMs: nowMs, kind: 'account.sessionRevoked', subjectId: id, data });
        return {};
      });
      known.invalidate((session) => session.id === id);
    },

    invalidate: (which) => known.invalidate(which),
  };
};
