/** Signatures of every key type; look-alikes are rejected. */
import { createHash, generateKeyPairSync, randomBytes, sign, type KeyObject } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { isValidSignature, type SignatureProof } from '../../../src/edge/ssh/signature.ts';
import { field, mpint } from '../../fixtures/ssh-wire.ts';

const jwkPart = (key: KeyObject, name: 'x' | 'y' | 'n' | 'e'): Buffer =>
  Buffer.from(String(key.export({ format: 'jwk' })[name]), 'base64url');
const sha256 = (bytes: Buffer | string): Buffer => createHash('sha256').update(bytes).digest();
const signed = randomBytes(200);

function ed25519(): SignatureProof & { privateKey: KeyObject } {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const type = 'ssh-ed25519';
  const blob = Buffer.concat([field(type), field(jwkPart(publicKey, 'x'))]);
  return { type, blob, hash: undefined, signed, signature: sign(null, signed, privateKey), privateKey };
}

function ecdsa(bits: 256 | 384 | 521): SignatureProof {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: `P-${bits}` });
  const type = `ecdsa-sha2-nistp${bits}`;
  const point = Buffer.concat([Buffer.from([4]), jwkPart(publicKey, 'x'), jwkPart(publicKey, 'y')]);
  const blob = Buffer.concat([field(type), field(`nistp${bits}`), field(point)]);
  const hash = { 256: 'sha256', 384: 'sha384', 521: 'sha512' }[bits];
  return { type, blob, hash: undefined, signed, signature: sign(hash, signed, privateKey) };
}

function rsa(hash: string | undefined): SignatureProof {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 3072 });
  const blob = Buffer.concat([field('ssh-rsa'), mpint(jwkPart(publicKey, 'e')), mpint(jwkPart(publicKey, 'n'))]);
  return { type: 'ssh-rsa', blob, hash, signed, signature: sign(hash ?? 'sha1', signed, privateKey) };
}

interface Touch {
  flags?: number;
  application?: string;
  /** Text to sign. */
  of?: Buffer;
}

const tailOf = (flags: number): Buffer => Buffer.from([flags, 0, 0, 1, 2]);

function securityKey(
  curve: 'ed25519' | 'p256',
  { flags = 1, application = 'ssh:', of = signed }: Touch = {},
): SignatureProof {
  const text = Buffer.concat([sha256(application), tailOf(flags), sha256(of)]);
  if (curve === 'ed25519') {
    const { publicKey, privateKey } = generateKeyPairSync('ed25519');
    const type = 'sk-ssh-ed25519@openssh.com';
    const blob = Buffer.concat([field(type), field(jwkPart(publicKey, 'x')), field('ssh:')]);
    return {
      type,
      blob,
      hash: undefined,
      signed,
      signature: Buffer.concat([sign(null, text, privateKey), tailOf(flags)]),
    };
  }
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const type = 'sk-ecdsa-sha2-nistp256@openssh.com';
  const point = Buffer.concat([Buffer.from([4]), jwkPart(publicKey, 'x'), jwkPart(publicKey, 'y')]);
  const blob = Buffer.concat([field(type), field('nistp256'), field(point), field('ssh:')]);
  const made = sign('sha256', text, { key: privateKey, dsaEncoding: 'ieee-p1363' });
  const numbers = Buffer.concat([mpint(made.subarray(0, 32)), mpint(made.subarray(32))]);
  return { type, blob, hash: undefined, signed, signature: Buffer.concat([numbers, tailOf(flags)]) };
}

const makers: Record<string, () => SignatureProof> = {
  ed25519,
  'ecdsa on P-256': () => ecdsa(256),
  'ecdsa on P-384': () => ecdsa(384),
  'ecdsa on P-521': () => ecdsa(521),
  'rsa with SHA-256': () => rsa('sha256'),
  'rsa with SHA-512': () => rsa('sha512'),
  'an ed25519 security key': () => securityKey('ed25519'),
  'an ecdsa security key': () => securityKey('p256'),
};

describe.each(Object.entries(makers))('%s', (_name, make) => {
  // ECDSA numbers are sometimes shorter.
  test('accepts valid signatures', () => {
    const rounds = make === makers['rsa with SHA-256'] || make === makers['rsa with SHA-512'] ? 1 : 300;
    for (let round = 0; round < rounds; round++) expect(isValidSignature(make())).toBe(true);
  });
  test('rejects another text, key or type, a changed byte, and a truncated signature', () => {
    const proof = make();
    expect(isValidSignature({ ...proof, signed: randomBytes(200) })).toBe(false);
    expect(isValidSignature({ ...proof, blob: make().blob })).toBe(false);
    const changed = Buffer.from(proof.signature);
    changed[20] = (changed[20] ?? 0) ^ 1;
    expect(isValidSignature({ ...proof, signature: changed })).toBe(false);
    for (const length of [0, 3, 5, 40])
      expect(isValidSignature({ ...proof, signature: proof.signature.subarray(0, length) })).toBe(false);
    for (const length of [0, 3, 12, 30])
      expect(isValidSignature({ ...proof, blob: proof.blob.subarray(0, length) })).toBe(false);
    for (const type of ['ssh-dss', 'ssh-ed25519-cert-v01@openssh.com', 'none'])
      expect(isValidSignature({ ...proof, type })).toBe(false);
  });
});

test('rejects RSA with SHA-1, named or implied', () => {
  expect(isValidSignature(rsa(undefined))).toBe(false);
  expect(isValidSignature(rsa('sha1'))).toBe(false);
});

test.each(['ed25519', 'p256'] as const)(
  'rejects an untouched security key, and one for another application: %s',
  (curve) => {
    expect(isValidSignature(securityKey(curve, { flags: 0 }))).toBe(false);
    expect(isValidSignature(securityKey(curve, { flags: 4 }))).toBe(false);
    expect(isValidSignature(securityKey(curve, { flags: 5 }))).toBe(true);
    expect(isValidSignature(securityKey(curve, { application: 'https://elsewhere' }))).toBe(false);
    // Flags are signed: a changed touch flag is rejected.
    const untouched = securityKey(curve, { flags: 0 });
    const claimed = Buffer.concat([untouched.signature.subarray(0, -5), tailOf(1)]);
    expect(isValidSignature({ ...untouched, signature: claimed })).toBe(false);
  },
);
