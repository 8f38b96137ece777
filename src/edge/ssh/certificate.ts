/**
 * User certificates of OpenSSH (PROTOCOL.certkeys): a certificate authority of the account signs a
 * user's key for principals and a time. Stricter than sshd: no critical options, and all rights.
 */
import type { SshIdentity } from '../../control/index.ts';
import { isValidWireSignature } from './signature.ts';
import { readerOf, wireField, type WireReader } from './wire-reader.ts';

const CERTIFICATE = /^(.+)-cert-v01@openssh\.com$/;
const USER = 1;
const MIN_RSA_BYTES = 384;

/** Fields of the certified key behind its type. */
const KEY_FIELDS: Readonly<Record<string, number>> = {
  'ssh-ed25519': 1,
  'ecdsa-sha2-nistp256': 2,
  'ecdsa-sha2-nistp384': 2,
  'ecdsa-sha2-nistp521': 2,
  'ssh-rsa': 2,
  'sk-ssh-ed25519@openssh.com': 2,
  'sk-ecdsa-sha2-nistp256@openssh.com': 3,
};

/** The server does not restrict sessions, so a certificate that withholds a right is refused. */
const RIGHTS = ['permit-pty', 'permit-port-forwarding', 'permit-agent-forwarding'];

export const isCertificate = (algorithm: string): boolean => CERTIFICATE.test(algorithm);

/**
 * Returns the certified key and the base64 key of the authority, or null: malformed, signed by
 * another, of a host, for other principals, outside of its time, or with restrictions.
 */
export function acceptedCertificate(
  blob: Buffer,
  { authorities, principals }: Pick<SshIdentity, 'authorities' | 'principals'>,
  nowMs: number,
): { key: Buffer; authority: string } | null {
  try {
    const certificate = parse(blob);
    const { authority, validAfterS, validBeforeS } = certificate;
    const nowS = BigInt(Math.floor(nowMs / 1000));
    const isAccepted =
      authorities.includes(authority) &&
      certificate.type === USER &&
      certificate.principals.some((principal) => principals.includes(principal)) &&
      validAfterS <= nowS &&
      nowS < validBeforeS &&
      certificate.criticalOptions.length === 0 &&
      RIGHTS.every((right) => certificate.extensions.includes(right)) &&
      isValidWireSignature(certificate);
    return isAccepted ? { key: certificate.key, authority } : null;
  } catch {
    return null;
  }
}

function parse(blob: Buffer) {
  const reader = readerOf(blob);
  const keyType = plainType(reader.text());
  reader.bytes(); // nonce
  const fields = Array.from({ length: KEY_FIELDS[keyType] ?? Number.NaN }, () => reader.bytes());
  if (keyType === 'ssh-rsa' && (fields[1]?.length ?? 0) < MIN_RSA_BYTES) throw new Error('the RSA key is too short');
  reader.uint64(); // serial
  const type = reader.uint32();
  reader.bytes(); // key id
  const principals = listOf(reader.bytes(), (list) => list.text());
  const [validAfterS, validBeforeS] = [reader.uint64(), reader.uint64()];
  const criticalOptions = listOf(reader.bytes(), nameOf);
  const extensions = listOf(reader.bytes(), nameOf);
  reader.bytes(); // reserved
  const authorityKey = reader.bytes();
  const signed = blob.subarray(0, reader.at);
  const signature = reader.bytes();
  if (!reader.isEnd) throw new Error('bytes follow the certificate');
  const key = Buffer.concat([wireField(keyType), ...fields.map(wireField)]);
  const authority = authorityKey.toString('base64');
  return {
    key,
    type,
    principals,
    validAfterS,
    validBeforeS,
    criticalOptions,
    extensions,
    authority,
    blob: authorityKey,
    signed,
    signature,
  };
}

/** Security keys have their domain behind the suffix of certificates. */
function plainType(certificateType: string): string {
  const base = CERTIFICATE.exec(certificateType)?.[1] ?? '';
  const type = base.startsWith('sk-') ? `${base}@openssh.com` : base;
  if (!Object.hasOwn(KEY_FIELDS, type)) throw new Error(`unknown type ${certificateType}`);
  return type;
}

function listOf<Item>(packed: Buffer, read: (reader: WireReader) => Item): Item[] {
  const reader = readerOf(packed);
  const items: Item[] = [];
  while (!reader.isEnd) items.push(read(reader));
  return items;
}

function nameOf(reader: WireReader): string {
  const name = reader.text();
  reader.bytes();
  return name;
}
