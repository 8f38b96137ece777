/** An account with an authenticator app. */
import { createHmac } from 'node:crypto';
import type { Caller } from '../../../src/control/index.ts';
import { annaOf, type AccessFixture } from './access-fixture.ts';

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

const bytesOf = (base32: string): Buffer => {
  const bits = [...base32].map((letter) => ALPHABET.indexOf(letter).toString(2).padStart(5, '0')).join('');
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => parseInt(byte, 2)));
};

/** RFC 6238 by the letter, apart from the library of the server. */
export function codeAt(secret: string, atMs: number): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(atMs / 30_000)));
  const mac = createHmac('sha1', bytesOf(secret)).update(counter).digest();
  const offset = (mac.at(-1) ?? 0) & 15;
  return String((mac.readUInt32BE(offset) & 0x7fffffff) % 1_000_000).padStart(6, '0');
}

interface WithTotp {
  caller: Caller;
  token: string;
  secret: string;
  /** Of the confirmation. */
  code: string;
  recoveryCodes: string[];
}

/** By default anna of `annaOf`. */
export async function withTotp(
  fixture: AccessFixture,
  given?: { caller: Caller; password: string },
): Promise<WithTotp> {
  const { secondFactors } = fixture.access;
  const anna = given === undefined ? await annaOf(fixture) : { caller: given.caller, token: '' };
  const { secret } = await secondFactors.createTotp(anna.caller, { password: given?.password ?? "anna's password" });
  const code = codeAt(secret, fixture.clock.nowMs);
  const { recoveryCodes } = await secondFactors.confirmTotp(anna.caller, { code });
  return { ...anna, secret, code, recoveryCodes };
}
