import { createHash } from 'node:crypto';
import { Refusal } from '../../domain/refusal.ts';
import { parseSshPublicKey } from './ssh-public-key.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { deleteKey, insertSshKey, keysOf } from '../../store/tables/keys.ts';
import type { Db, Store } from '../../store/store.ts';
import type { Idempotent } from '../base/idempotent.ts';
import { lockOwnAccount } from './callers.ts';
import { uuidFrom, type RandomBytes } from './random.ts';
import type { Access } from './types.ts';

const MAX_KEYS = 100;

/** Same format as `ssh-keygen -l`. */
export const fingerprintOf = (blob: Uint8Array): string =>
  `SHA256:${createHash('sha256').update(blob).digest('base64').replace(/=+$/, '')}`;

export const makeSshKeys = (deps: {
  store: Store;
  now: () => number;
  idempotent: Idempotent;
  randomBytes: RandomBytes;
  onSshKeysChanged: (tx: Db, accountId: string) => Promise<void>;
}): Pick<Access, 'createSshKey' | 'listSshKeys' | 'deleteSshKey'> => {
  const { store, now, idempotent, randomBytes, onSshKeysChanged } = deps;
  return {
    async createSshKey({ accountId }, { name, publicKey }, idempotency) {
      const key = parseSshPublicKey(publicKey);
      const fingerprint = fingerprintOf(key.blob);
      const id = uuidFrom(randomBytes);
      return store.write(async (tx) => {
        const nowMs = now();
        // Instances before the account, as everywhere.
        await onSshKeysChanged(tx, accountId);
        await lockOwnAccount(tx, accountId);
        return idempotent(tx, accountId, idempotency, nowMs, async () => {
          const { length: count } = await keysOf(tx, 'sshKey', accountId);
          if (count >= MAX_KEYS) {
            throw new Refusal(
              'over_quota',
              `The account has ${count} ssh keys, and may have ${MAX_KEYS}; delete one first.`,
            );
          }
          const row = { id, accountId, name, publicKey: key.line, fingerprint, createdAtMs: nowMs };
          const twin = await insertSshKey(tx, row);
          if (twin) {
            const message = `The account has this ssh key already, as ${JSON.stringify(twin.name)} (${fingerprint}).`;
            throw new Refusal('name_taken', message);
          }
          await appendEvent(tx, {
            accountId,
            atMs: nowMs,
            kind: 'sshKey.created',
            subjectId: id,
            data: { name, fingerprint },
          });
          return { sshKey: { id, name, fingerprint } };
        });
      });
    },

    async listSshKeys({ accountId }) {
      const rows = await keysOf(store.read, 'sshKey', accountId);
      return {
        sshKeys: rows.map(({ id, name, fingerprint, createdAtMs }) => ({
          id,
          name,
          fingerprint,
          createdAt: createdAtMs,
        })),
      };
    },

    async deleteSshKey({ accountId }, { id }, idempotency) {
      await store.write(async (tx) => {
        const nowMs = now();
        await onSshKeysChanged(tx, accountId);
        await lockOwnAccount(tx, accountId);
        await idempotent(tx, accountId, idempotency, nowMs, async () => {
          const row = await deleteKey(tx, 'sshKey', accountId, id);
          if (!row) {
            throw new Refusal(
              'not_found',
              `ssh key ${JSON.stringify(id)} not found; POST /api/user/sshkey/list names yours`,
            );
          }
          const data = { name: row.name, fingerprint: row.fingerprint };
          await appendEvent(tx, { accountId, atMs: nowMs, kind: 'sshKey.deleted', subjectId: id, data });
          return {};
        });
      });
    },
  };
};
