/**
 * The ssh host key of each instance: not drawn and kept, but derived from the installation's secret and the instance's id. So it is the same
 * whoever answers (an sshd inside, or the gateway's process), across every stop, archive and restart, and another for each instance.
 */
import { createPrivateKey, createPublicKey, hkdfSync } from 'node:crypto';

const SEED_BYTES = 32;
/** What precedes the seed in a PKCS #8 key of type ed25519 (RFC 8410 §7). */
const PKCS8 = Buffer.from('302e020100300506032b657004220420', 'hex');
const TYPE = 'ssh-ed25519';
const LINE = 70;
/** OpenSSH pads what it would encrypt to whole blocks of its cipher; without one they have this size. */
const BLOCK_BYTES = 8;

export type SshHostKeys = (instanceId: string) => string;

/** `secretsKey`: 32 bytes. Equal ids give equal texts. */
export const makeSshHostKeys =
  (secretsKey: Uint8Array): SshHostKeys =>
  (instanceId) => {
    const drawn = Buffer.from(
      hkdfSync('sha256', secretsKey, '', `ssh host key of instance ${instanceId}`, SEED_BYTES + 4),
    );
    return privateKeyText(drawn.subarray(0, SEED_BYTES), drawn.subarray(SEED_BYTES));
  };

/** In the format of OpenSSH (PROTOCOL.key), which its every version reads; `check` is there twice, as proof of a right passphrase. */
function privateKeyText(seed: Buffer, check: Buffer): string {
  const key = createPrivateKey({ key: Buffer.concat([PKCS8, seed]), format: 'der', type: 'pkcs8' });
  const point = createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(-SEED_BYTES);
  const publicKey = Buffer.concat([field(TYPE), field(point)]);
  const secret = Buffer.concat([check, check, publicKey, field(Buffer.concat([seed, point])), field('')]);
  const padding = Buffer.from(Array.from({ length: -secret.length & (BLOCK_BYTES - 1) }, (_, index) => index + 1));
  const whole = Buffer.concat([
    Buffer.from('openssh-key-v1\0'),
    field('none'), // cipher
    field('none'), // and how its key is made
    field(''),
    Buffer.from([0, 0, 0, 1]), // keys
    field(publicKey),
    field(Buffer.concat([secret, padding])),
  ]).toString('base64');
  const lines = whole.match(new RegExp(`.{1,${LINE}}`, 'g')) ?? [];
  return ['-----BEGIN OPENSSH PRIVATE KEY-----', ...lines, '-----END OPENSSH PRIVATE KEY-----', ''].join('\n');
}

function field(content: string | Uint8Array): Buffer {
  const bytes = Buffer.from(content);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}
