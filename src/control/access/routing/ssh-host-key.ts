/**
 * Host keys, derived from the installation's secret and the instance id, are the same for sshd and
 * ssh front, across stop, archive and restart.
 */
import { createPrivateKey, createPublicKey, hkdfSync } from 'node:crypto';
import { sshPrincipals, type SshKeyKind } from '../../../domain/access/ssh-key.ts';
import { sshAccessOf } from '../../../store/tables/keys.ts';
import type { Store } from '../../../store/store.ts';
import type { Forwarding } from './gateway-types.ts';

const SEED_BYTES = 32;
/** Prefix of the seed in an ed25519 key as PKCS #8 (RFC 8410 §7). */
const PKCS8 = Buffer.from('302e020100300506032b657004220420', 'hex');
const TYPE = 'ssh-ed25519';
const LINE_LENGTH = 70;
const BLOCK_BYTES = 8;

export type SshHostKeys = (instanceId: string) => string;

/** `secretsKey`: 32 bytes. */
export const makeSshHostKeys =
  (secretsKey: Uint8Array): SshHostKeys =>
  (instanceId) => {
    const derived = Buffer.from(
      hkdfSync('sha256', secretsKey, '', `ssh host key of instance ${instanceId}`, SEED_BYTES + 4),
    );
    return privateKeyText(derived.subarray(0, SEED_BYTES), derived.subarray(SEED_BYTES));
  };

export const makeSshIdentity =
  ({ store, sshHostKey }: { store: Pick<Store, 'read'>; sshHostKey: SshHostKeys }): Forwarding['ssh'] =>
  async (instanceId) => {
    const access = await sshAccessOf(store.read, instanceId);
    if (access === null) return null;
    const blobsOf = (kind: SshKeyKind): string[] =>
      access.keys.filter((key) => key.kind === kind).map(({ publicKey }) => publicKey.split(' ')[1] ?? '');
    return {
      account: access.account,
      hostKey: sshHostKey(instanceId),
      keys: blobsOf('key'),
      authorities: blobsOf('ca'),
      principals: sshPrincipals(access.account.username),
    };
  };

/** OpenSSH's own format (PROTOCOL.key). `check` is written twice, to verify a passphrase. */
function privateKeyText(seed: Buffer, check: Buffer): string {
  const key = createPrivateKey({ key: Buffer.concat([PKCS8, seed]), format: 'der', type: 'pkcs8' });
  const point = createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(-SEED_BYTES);
  const publicKey = Buffer.concat([field(TYPE), field(point)]);
  const secret = Buffer.concat([check, check, publicKey, field(Buffer.concat([seed, point])), field('')]);
  const padding = Buffer.from(Array.from({ length: -secret.length & (BLOCK_BYTES - 1) }, (_, index) => index + 1));
  const body = Buffer.concat([
    Buffer.from('openssh-key-v1\0'),
    field('none'), // cipher
    field('none'), // key derivation
    field(''),
    Buffer.from([0, 0, 0, 1]), // number of keys
    field(publicKey),
    field(Buffer.concat([secret, padding])),
  ]).toString('base64');
  const lines = body.match(new RegExp(`.{1,${LINE_LENGTH}}`, 'g')) ?? [];
  return ['-----BEGIN OPENSSH PRIVATE KEY-----', ...lines, '-----END OPENSSH PRIVATE KEY-----', ''].join('\n');
}

/** A string of the ssh protocol: its length in 4 bytes, then its bytes. */
function field(content: string | Uint8Array): Buffer {
  const bytes = Buffer.from(content);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}
