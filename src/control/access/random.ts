import { createHash } from 'node:crypto';

export type RandomBytes = (size: number) => Uint8Array;

/** Version 4 (RFC 9562 §5.4). */
export const uuidFrom = (randomBytes: RandomBytes): string => {
  const hex = Buffer.from(randomBytes(16)).toString('hex');
  const variant = '89ab'.charAt(parseInt(hex.charAt(16), 16) & 3);
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `4${hex.slice(13, 16)}`,
    `${variant}${hex.slice(17, 20)}`,
    hex.slice(20),
  ].join('-');
};

/** 256 random bits: a plain hash of it is safe to store. */
export const secretFrom = (randomBytes: RandomBytes): string => Buffer.from(randomBytes(32)).toString('base64url');

export const SECRET = /^[A-Za-z0-9_-]{43}$/;

export const sha256Hex = (text: string): string => createHash('sha256').update(text).digest('hex');
