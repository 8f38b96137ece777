/** API keys, of which only hashes are stored, and public ssh keys of an account. */
import { API_KEY_PREFIX, whyBeyond } from '../../domain/access/api-key.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { deleteKey, insertApiKey, insertSshKey, keyRowsOf } from '../../store/tables/keys.ts';
import { parseKeyAddresses, parseKeyScopes } from '../../store/tables/json-schemas.ts';
import { writeOwnAccount, type Callers, type CredentialDeps } from './callers.ts';
import type { Grants } from './grants.ts';
import { secretFrom, sha256Hex, uuidFrom } from './random.ts';
import type { Access } from './types.ts';
import { requireQuota } from './quotas.ts';
import { createHash } from 'node:crypto';
import { parseSshPublicKey } from './ssh-public-key.ts';
import type { Db } from '../../store/store.ts';

/** Leaves 39 of the 43 random characters unknown. */
const PREFIX_LENGTH = API_KEY_PREFIX.length + 4;

export const makeApiKeys = (
  deps: CredentialDeps & { callers: Callers; grants: Grants },
): Pick<Access, 'createApiKey' | 'listApiKeys' | 'deleteApiKey'> => {
  const { store, randomBytes, callers, grants } = deps;
  return {
    async createApiKey(
      caller,
      { name, scopes = null, expiresAtUnixMs: expiresAtMs = null, addresses = null },
      idempotency,
    ) {
      const { accountId } = caller;
      const why = whyBeyond(caller, { scopes, limits: { expiresAtMs, addresses } });
      if (why !== null) throw new Refusal('forbidden', why);
      const nowMs = deps.time.now();
      if (expiresAtMs !== null && expiresAtMs <= nowMs) {
        const message = `field "expiresAtUnixMs" is ${expiresAtMs}, which has passed: it must be after ${nowMs}, the time of the server`;
        throw new Refusal('field_value', message);
      }
      const fullKey = `${API_KEY_PREFIX}${secretFrom(randomBytes)}`;
      const id = uuidFrom(randomBytes);
      // Repeating the answer would mean storing the key in clear: store the id, refuse a repeat.
      const made = await writeOwnAccount(deps, accountId, idempotency, async (tx, nowMs) => {
        await requireQuota(tx, accountId, 'apiKeys', (await keyRowsOf(tx, 'apiKey', accountId)).length);
        const lastFour = fullKey.slice(-4);
        await insertApiKey(tx, {
          id,
          accountId,
          name,
          hash: sha256Hex(fullKey),
          prefix: fullKey.slice(0, PREFIX_LENGTH),
          lastFour,
          scopes: scopes && JSON.stringify(scopes),
          addresses: addresses && JSON.stringify(addresses),
          expiresAtMs,
          lastUsedAtMs: null,
          createdAtMs: nowMs,
        });
        const data = { name, lastFour, scopes, expiresAtUnixMs: expiresAtMs, addresses };
        await appendEvent(tx, { accountId, atMs: nowMs, kind: 'apiKey.created', subjectId: id, data });
        return { id };
      });
      if (made.id !== id) {
        const message = `An earlier request with this Idempotency-Key created the API key "${made.id}", and only its answer had the full key. If the key is lost, delete it with /user/key/delete and create another with a new Idempotency-Key.`;
        throw new Refusal('not_now', message);
      }
      return { key: { id, name, fullKey } };
    },

    async listApiKeys({ accountId }) {
      const rows = await keyRowsOf(store.read, 'apiKey', accountId);
      return {
        keys: rows.map(({ id, name, lastFour, createdAtMs: createdAt, prefix, expiresAtMs, lastUsedAtMs, ...row }) => ({
          id,
          name,
          lastFour,
          createdAt,
          prefix,
          state: expiresAtMs === null || expiresAtMs > deps.time.now() ? 'active' : 'expired',
          scopes: row.scopes === null ? null : parseKeyScopes(row.scopes, id),
          expiresAtUnixMs: expiresAtMs,
          addresses: row.addresses === null ? null : parseKeyAddresses(row.addresses, id),
          lastUsedAtUnixMs: lastUsedAtMs,
        })),
      };
    },

    async deleteApiKey({ accountId }, { id }, idempotency) {
      await writeOwnAccount(deps, accountId, idempotency, async (tx, nowMs) => {
        const row = await deleteKey(tx, 'apiKey', accountId, id);
        if (!row) {
          const message = `API key ${JSON.stringify(id)} not found; POST /api/user/key/list lists yours`;
          throw new Refusal('not_found', message);
        }
        const data = { name: row.name, lastFour: row.lastFour };
        await appendEvent(tx, { accountId, atMs: nowMs, kind: 'apiKey.deleted', subjectId: id, data });
        return {};
      });
      callers.invalidate((caller) => caller.apiKeyId === id);
      grants.invalidate((session) => session.accountId === accountId && session.sessionId === null);
    },
  };
};

/** Same format as `ssh-keygen -l`. */
export const fingerprintOf = (blob: Uint8Array): string =>
  `SHA256:${createHash('sha256').update(blob).digest('base64').replace(/=+$/, '')}`;

export interface SshKeyDeps extends CredentialDeps {
  /** Runs in the transaction that changes an account's ssh keys: makes its instances due. */
  onSshKeysChanged: (tx: Db, accountId: string) => Promise<void>;
}

export const makeSshKeys = (deps: SshKeyDeps): Pick<Access, 'createSshKey' | 'listSshKeys' | 'deleteSshKey'> => {
  // Instances before the account, as everywhere.
  const writeDeps = { ...deps, lockFirst: deps.onSshKeysChanged };
  return {
    async createSshKey(caller, { name, publicKey, kind = 'key' }, idempotency) {
      const { accountId } = caller;
      const key = parseSshPublicKey(publicKey);
      const fingerprint = fingerprintOf(key.blob);
      const id = uuidFrom(deps.randomBytes);
      return writeOwnAccount(writeDeps, accountId, idempotency, async (tx, nowMs) => {
        await requireQuota(tx, accountId, 'sshKeys', (await keyRowsOf(tx, 'sshKey', accountId)).length);
        const row = { id, accountId, name, publicKey: key.line, kind, fingerprint, createdAtMs: nowMs };
        const twin = await insertSshKey(tx, row);
        if (twin) {
          const message = `The account already has this ssh key, as ${JSON.stringify(twin.name)} (${fingerprint}).`;
          throw new Refusal('name_taken', message);
        }
        const data = { name, fingerprint, kind };
        await appendEvent(tx, { accountId, atMs: nowMs, kind: 'sshKey.created', subjectId: id, data });
        return { sshKey: { id, name, fingerprint } };
      });
    },

    async listSshKeys({ accountId }) {
      const rows = await keyRowsOf(deps.store.read, 'sshKey', accountId);
      return {
        sshKeys: rows.map(({ id, name, fingerprint, createdAtMs: createdAt, kind }) => ({
          id,
          name,
          fingerprint,
          createdAt,
          kind,
        })),
      };
    },

    async deleteSshKey({ accountId }, { id }, idempotency) {
      await writeOwnAccount(writeDeps, accountId, idempotency, async (tx, nowMs) => {
        const row = await deleteKey(tx, 'sshKey', accountId, id);
        if (!row) {
          const message = `ssh key ${JSON.stringify(id)} not found; POST /api/user/sshkey/list lists yours`;
          throw new Refusal('not_found', message);
        }
        const data = { name: row.name, fingerprint: row.fingerprint };
        await appendEvent(tx, { accountId, atMs: nowMs, kind: 'sshKey.deleted', subjectId: id, data });
        return {};
      });
    },
  };
};
