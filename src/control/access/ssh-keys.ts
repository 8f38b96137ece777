import { createHash } from 'node:crypto';
import { Refusal } from '../../domain/refusal.ts';
import { parseSshPublicKey } from './ssh-public-key.ts';
import { appendEvent } from '../../store/tables/events.ts';
import { countSshKeys, deleteSshKeyRow, insertSshKey, sshKeysOf } from '../../store/tables/keys.ts';
import type { Db } from '../../store/store.ts';
import { writeOwnAccount, type CredentialDeps } from './callers.ts';
import { uuidFrom } from './random.ts';
import type { Access } from './types.ts';

const MAX_KEYS = 100;

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
    async createSshKey({ accountId }, { name, publicKey }, idempotency) {
      const key = parseSshPublicKey(publicKey);
      const fingerprint = fingerprintOf(key.blob);
      const id = uuidFrom(deps.randomBytes);
      return writeOwnAccount(writeDeps, accountId, idempotency, async (tx, nowMs) => {
        const count = await countSshKeys(tx, accountId);
        if (count >= MAX_KEYS) {
          const message = `The account has ${count} ssh keys, and may have ${MAX_KEYS}; delete one first.`;
          throw new Refusal('over_quota', message);
        }
        const row = { id, accountId, name, publicKey: key.line, fingerprint, createdAtMs: nowMs };
        const twin = await insertSshKey(tx, row);
        if (twin) {
          const message = `The account has this ssh key already, as ${JSON.stringify(twin.name)} (${fingerprint}).`;
          throw new Refusal('name_taken', message);
        }
        const data = { name, fingerprint };
        await appendEvent(tx, { accountId, atMs: nowMs, kind: 'sshKey.created', subjectId: id, data });
        return { sshKey: { id, name, fingerprint } };
      });
    },

    async listSshKeys({ accountId }) {
      const rows = await sshKeysOf(deps.store.read, accountId);
      return {
        sshKeys: rows.map(({ id, name, fingerprint, createdAtMs: createdAt }) => ({
          id,
          name,
          fingerprint,
          createdAt,
        })),
      };
    },

    async deleteSshKey({ accountId }, { id }, idempotency) {
      await writeOwnAccount(writeDeps, accountId, idempotency, async (tx, nowMs) => {
        const row = await deleteSshKeyRow(tx, accountId, id);
        if (!row) {
          const message = `ssh key ${JSON.stringify(id)} not found; POST /api/user/sshkey/list names yours`;
          throw new Refusal('not_found', message);
        }
        const data = { name: row.name, fingerprint: row.fingerprint };
        await appendEvent(tx, { accountId, atMs: nowMs, kind: 'sshKey.deleted', subjectId: id, data });
        return {};
      });
    },
  };
};
