/** Second factors of accounts with a password, and the form of their codes. */
export const secondFactors = ['totp', 'passkey'] as const;
export type SecondFactor = (typeof secondFactors)[number];

export const RECOVERY_CODES = 10;
/** 80 random bits: a plain hash of them is safe to store. */
export const RECOVERY_CODE_BYTES = 10;
const RECOVERY_CODE = /^[0-9a-f]{20}$/;
const GROUP = /.{5}(?!$)/g;

export const recoveryCodeFrom = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0'))
    .join('')
    .replaceAll(GROUP, '$&-');

/** A code without what people type between its groups. */
export const plainCode = (typed: string): string => typed.replaceAll(/[\s-]/g, '').toLowerCase();

export const isRecoveryCode = (plain: string): boolean => RECOVERY_CODE.test(plain);
