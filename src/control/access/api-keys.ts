/** API keys. The full key is shown once; only its hash is stored. */
import { Refusal } from '../../domain/refusal.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { revokeGrantsOfApiKeys } from '../../store/tables/gateway-grants.ts';
import { apiKeysOf, countApiKeys, deleteApiKeyRow, insertApiKey } from '../../store/tables/keys.ts';
import { API_KEY_PREFIX, writeOwnAccount, type Callers, type CredentialDeps } from './callers.ts';
import type { Grants } from './grants.ts';
import { secretFrom, sha256Hex, uuidFrom } from './random.ts';
import type { Access } from './types.ts';

const MAX_KEYS = 50;

export const makeApiKeys = (
  deps: CredentialDeps & { callers: Callers; grants: Grants },
): Pick<Access, 'createApiKey' | 'listApiKeys' | 'deleteApiKey'> => {
  const { store, randomBytes, callers, grants } = deps;
  return {
    async createApiKey({ accountId }, { name }, idempotency) {
      const fullKey = `${API_KEY_PREFIX}${secretFrom(randomBytes)}`;
      const id = uuidFrom(randomBytes);
      // Repeating the answer would mean storing the key in clear: store the id, refuse a repeat.
      const made = await writeOwnAccount(deps, accountId, idempotency, async (tx, nowMs) => {
        const count = await countApiKeys(tx, accountId);
        if (count >= MAX_KEYS) {
          const message = `The account has ${count} API keys, and may have ${MAX_KEYS}; delete one first.`;
          throw new Refusal('over_quota', message);
        }
        const lastFour = fullKey.slice(-4);
        await insertApiKey(tx, { id, accountId, name, hash: sha256Hex(fullKey), lastFour, createdAtMs: nowMs });
        const data = { name, lastFour };
        await appendEvent(tx, { accountId, atMs: nowMs, kind: 'apiKey.created', subjectId: id, data });
        return { id };
      });
      if (made.id !== id) {
        const message = `This request made the API key "${made.id}" before, and its full text was shown that once. If it is lost, delete it with /user/key/delete and mint another under a new Idempotency-Key.`;
        throw new Refusal('not_now', message);
      }
      return { key: { id, name, fullKey } };
    },

    async listApiKeys({ accountId }) {
      const rows = await keysOf(store.read, 'apiKey', accountId);
      return {
        keys: rows.map(({ id, name, lastFour, createdAtMs: createdAt }) => ({ id, name, lastFour, createdAt })),
      };
    },

    async deleteApiKey({ accountId }, { id }, idempotency) {
      await writeOwnAccount(deps, accountId, idempotency, async (tx, nowMs) => {
        const row = await deleteApiKeyRow(tx, accountId, id);
        if (!row) {
          const message = `API key ${JSON.stringify(id)} not found; POST /api/user/key/list names yours`;
          throw new Refusal('not_found', message);
        }
        await revokeGrantsOfApiKeys(tx, accountId);
        const data = { name: row.name, lastFour: row.lastFour };
        await appendEvent(tx, { accountId, atMs: nowMs, kind: 'apiKey.deleted', subjectId: id, data });
        return {};
      });
      callers.invalidate((caller) => caller.apiKeyId === id);
      grants.invalidate((session) => session.accountId === accountId && session.sessionId === null);
    },
  };
};
