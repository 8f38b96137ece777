/**
 * Verifies signatures of ed25519, ECDSA on the NIST curves, RSA with SHA-2, and security keys
 * (OpenSSH's PROTOCOL.u2f), which report whether a person touched them. SHA-1 and unknown types are
 * rejected.
 */
import { createHash, createPublicKey, verify, type JsonWebKey, type KeyObject } from 'node:crypto';
import { readerOf } from './wire-reader.ts';

export interface SignatureProof {
  /** Key type; `ssh-rsa` also for SHA-2 signatures. */
  type: string;
  blob: Buffer;
  /** RSA only: hash named by the client; undefined means SHA-1. */
  hash: string | undefined;
  signed: Buffer;
  /** Without the type. ssh2 converts ECDSA to DER; security-key signatures stay in wire format. */
  signature: Buffer;
  /** ECDSA only: the signature is in wire format. */
  isWire?: boolean;
}

const USER_PRESENT = 0x01;
/** Flags and counter after the signature. */
const SECURITY_KEY_TAIL_BYTES = 5;
const UNCOMPRESSED = 4;

const curves: Readonly<Record<string, { name: string; hash: string; bytes: number }>> = {
  nistp256: { name: 'P-256', hash: 'sha256', bytes: 32 },
  nistp384: { name: 'P-384', hash: 'sha384', bytes: 48 },
  nistp521: { name: 'P-521', hash: 'sha512', bytes: 66 },
};
const rsaHashes: readonly (string | undefined)[] = ['sha256', 'sha512'];

/** False for malformed input. */
export function isValidSignature(proof: SignatureProof): boolean {
  try {
    return holds(proof);
  } catch {
    return false;
  }
}

/** For a signature in wire format, with its type. False for malformed input. */
export function isValidWireSignature({
  blob,
  signed,
  signature,
}: Pick<SignatureProof, 'blob' | 'signed' | 'signature'>): boolean {
  try {
    const type = readerOf(blob).text();
    const made = readerOf(signature);
    const algorithm = made.text();
    const hash = /^rsa-sha2-(256|512)$/.exec(algorithm)?.[1];
    if (algorithm !== type && !(type === 'ssh-rsa' && hash !== undefined)) return false;
    const bytes = made.bytes();
    // Flags and counter of a security key follow its signature.
    const rest = Buffer.concat([bytes, signature.subarray(made.at)]);
    if (!type.startsWith('sk-') && !made.isEnd) return false;
    return holds({ type, blob, hash: hash && `sha${hash}`, signed, signature: rest, isWire: true });
  } catch {
    return false;
  }
}

function holds({ type, blob, hash, signed, signature, isWire = false }: SignatureProof): boolean {
  const key = readerOf(blob);
  if (key.text() !== type) return false;
  switch (type) {
    case 'ssh-ed25519':
      return verify(null, signed, ed25519(key.bytes()), signature);
    case 'ecdsa-sha2-nistp256':
    case 'ecdsa-sha2-nistp384':
    case 'ecdsa-sha2-nistp521': {
      const curve = curveOf(key.text());
      const point = pointOn(curve, key.bytes());
      if (!isWire) return verify(curve.hash, signed, point, signature);
      return verify(curve.hash, signed, ecdsaKey(point), fixedNumbers(signature, curve.bytes));
    }
    case 'ssh-rsa': {
      if (!rsaHashes.includes(hash)) return false;
      const [e, n] = [base64url(key.bytes()), base64url(key.bytes())];
      return verify(hash, signed, fromJwk({ kty: 'RSA', e, n }), signature);
    }
    case 'sk-ssh-ed25519@openssh.com': {
      const point = key.bytes();
      const { made, text } = securityKeySignature({ application: key.bytes(), signed, signature });
      return text !== null && verify(null, text, ed25519(point), made);
    }
    case 'sk-ecdsa-sha2-nistp256@openssh.com': {
      const curve = curveOf(key.text());
      const point = pointOn(curve, key.bytes());
      const { made, text } = securityKeySignature({ application: key.bytes(), signed, signature });
      return text !== null && verify(curve.hash, text, ecdsaKey(point), fixedNumbers(made, curve.bytes));
    }
    default:
      return false;
  }
}

const ecdsaKey = (key: KeyObject) => ({ key, dsaEncoding: 'ieee-p1363' as const });

/** Null without a touch. */
function securityKeySignature(given: { application: Buffer; signed: Buffer; signature: Buffer }): {
  made: Buffer;
  text: Buffer | null;
} {
  const { application, signed, signature } = given;
  const tailFrom = signature.length - SECURITY_KEY_TAIL_BYTES;
  const tail = signature.subarray(tailFrom);
  const isTouched = tail.length === SECURITY_KEY_TAIL_BYTES && ((tail[0] ?? 0) & USER_PRESENT) !== 0;
  const text = Buffer.concat([sha256(application), tail, sha256(signed)]);
  return { made: signature.subarray(0, tailFrom), text: isTouched ? text : null };
}

const sha256 = (bytes: Buffer): Buffer => createHash('sha256').update(bytes).digest();
const base64url = (bytes: Buffer): string => bytes.toString('base64url');
const fromJwk = (key: JsonWebKey): KeyObject => createPublicKey({ key, format: 'jwk' });
const ed25519 = (point: Buffer): KeyObject => fromJwk({ kty: 'OKP', crv: 'Ed25519', x: base64url(point) });

function curveOf(name: string): { name: string; hash: string; bytes: number } {
  const curve = curves[name];
  if (curve === undefined) throw new Error(`unknown curve ${name}`);
  return curve;
}

function pointOn(curve: { name: string; bytes: number }, point: Buffer): KeyObject {
  if (point[0] !== UNCOMPRESSED || point.length !== 1 + 2 * curve.bytes) throw new Error('not a point of the curve');
  const [x, y] = [point.subarray(1, 1 + curve.bytes), point.subarray(1 + curve.bytes)];
  return fromJwk({ kty: 'EC', crv: curve.name, x: base64url(x), y: base64url(y) });
}

function fixedNumbers(signature: Buffer, bytes: number): Buffer {
  const numbers = readerOf(signature);
  return Buffer.concat([fixed(numbers.bytes(), bytes), fixed(numbers.bytes(), bytes)]);
}

/** Converts an ssh mpint to a fixed length. */
function fixed(number: Buffer, bytes: number): Buffer {
  const short = number[0] === 0 ? number.subarray(1) : number;
  if (short.length > bytes) throw new Error('a number larger than the curve');
  return Buffer.concat([Buffer.alloc(bytes - short.length), short]);
}
