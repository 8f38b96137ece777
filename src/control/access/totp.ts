/** Time-based one-time passwords (RFC 6238) as every authenticator app reads them. */
import { Secret, TOTP } from 'otpauth';

const SECRET_BYTES = 20;
const STEP_MS = 30_000;
/** Steps before and after the present one: a clock may be off, and typing takes time. */
const WINDOW = 1;

export const totpSecretFrom = (randomBytes: (size: number) => Uint8Array): string =>
  new Secret({ buffer: Uint8Array.from(randomBytes(SECRET_BYTES)).buffer }).base32;

/** `otpauth://` of a QR code. */
export const totpUri = (secret: string, { username, host }: { username: string; host: string }): string =>
  new TOTP({ issuer: `Berth ${host}`, label: username, secret }).toString();

/** Time step of a code; null for a wrong one. */
export function totpStepOf(code: string, secret: string, nowMs: number): number | null {
  const delta = new TOTP({ secret }).validate({ token: code, timestamp: nowMs, window: WINDOW });
  return delta === null ? null : Math.floor(nowMs / STEP_MS) + delta;
}
