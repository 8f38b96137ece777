/** API keys. The full key is shown once; only its hash is stored. */
import { Refusal } from '../../domain/refusal.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { revokeGrantsOfApiKeys } from '../../store/tables/gateway-grants.ts';
import { deleteKey, insertApiKey, keysOf } from '../../store/tables/keys.ts';
import type { Store } from '../../store/store.ts';
import type { Idempotent } from '../base/idempotent.ts';
import { API_KEY_PREFIX, lockOwnAccount, type Callers } from './callers.ts';
import type { Grants } from './grants.ts';
import { secretFrom, sha256Hex, uuidFrom, type RandomBytes } from './random.ts';
import type { Access } from './types.ts';

const MAX_KEYS = 50;

export const makeApiKeys = (deps: {
  store: Store;
  now: () => number;
  idempotent: Idempotent;
  randomBytes: RandomBytes;
  callers: Callers;
  grants: Grants;
}): Pick<Access, 'createApiKey' | 'listApiKeys' | 'deleteApiKey'> => {
  const { store, now, idempotent, randomBytes, callers, grants } = deps;
  return {
    async createApiKey({ accountId }, { name }, idempotency) {
      const fullKey = `${API_KEY_PREFIX}${secretFrom(randomBytes)}`;
      const id = uuidFrom(randomBytes);
      await store.write(async (tx) => {
        const nowMs = now();
        await lockOwnAccount(tx, accountId);
        // Repeating the answer would mean storing the key in clear: store the id, refuse a repeat.
        const answer = await idempotent(tx, accountId, idempotency, nowMs, async () => {
          const { length: count } = await keysOf(tx, 'apiKey', accountId);
          if (count >= MAX_KEYS) {
            throw new Refusal(
              'over_quota',
              `The account has ${count} API keys, and may have ${MAX_KEYS}; delete one first.`,
            );
          }
          const lastFour = fullKey.slice(-4);
          await insertApiKey(tx, { id, accountId, name, hash: sha256Hex(fullKey), lastFour, createdAtMs: nowMs });
          await appendEvent(tx, {
            accountId,
            atMs: nowMs,
            kind: 'apiKey.created',
            subjectId: id,
            data: { name, lastFour },
          });
          return { id };
        });
        if (answer.id !== id) {
          const message = `This request made the API key "${answer.id}" before, and its full text was shown that once. If it is lost, delete it with /user/key/delete and mint another under a new Idempotency-Key.`;
          throw new Refusal('not_now', message);
        }
      });
      return { key: { id, name, fullKey } };
    },

    async listApiKeys({ accountId }) {
      const rows = await keysOf(store.read, 'apiKey', accountId);
      return {
        keys: rows.map(({ id, name, lastFour, createdAtMs }) => ({ id, name, lastFour, createdAt: createdAtMs })),
      };
    },

    async deleteApiKey({ accountId }, { id }, idempotency) {
      await store.write(async (tx) => {
        const nowMs = now();
        await lockOwnAccount(tx, accountId);
        await idempotent(tx, accountId, idempotency, nowMs, async () => {
          const row = await deleteKey(tx, 'apiKey', accountId, id);
          if (!row) {
            throw new Refusal(
              'not_found',
              `API key ${JSON.stringify(id)} not found; POST /api/user/key/list names yours`,
            );
          }
          await revokeGrantsOfApiKeys(tx, accountId);
          const data = { name: row.name, lastFour: row.lastFour };
          await appendEvent(tx, { accountId, atMs: nowMs, kind: 'apiKey.deleted', subjectId: id, data });
          return {};
        });
      });
      callers.invalidate((caller) => caller.apiKeyId === id);
      grants.invalidate((session) => session.accountId === accountId && session.sessionId === null);
    },
  };
};
