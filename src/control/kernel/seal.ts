/**
 * Seals secrets that Berth needs in clear, with AES-256-GCM under a key of the installation outside
 * of the database (decision 34). Bound to its purpose: another row can't open it.
 */
import { createCipheriv, createDecipheriv, createSecretKey, randomBytes as processBytes } from 'node:crypto';

const ALGORITHM = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const FORM = 'v1.';

export interface Seal {
  seal(secret: string, about: string): string;
  /** Null for another key or purpose, or a changed text. */
  open(sealed: string, about: string): string | null;
}

/** `key`: 32 bytes. */
export function makeSeal(deps: { key: Uint8Array; randomBytes: (size: number) => Uint8Array }): Seal {
  const { randomBytes } = deps;
  // Imported once: an import takes twice the time of sealing.
  const key = createSecretKey(deps.key);
  return {
    seal(secret, about) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv(ALGORITHM, key, nonce).setAAD(Buffer.from(about));
      const text = Buffer.concat([cipher.update(secret, 'utf8'), cipher.final()]);
      return FORM + Buffer.concat([nonce, cipher.getAuthTag(), text]).toString('base64url');
    },
    open(sealed, about) {
      const bytes = Buffer.from(sealed.slice(FORM.length), 'base64url');
      if (!sealed.startsWith(FORM) || bytes.length < NONCE_BYTES + TAG_BYTES) return null;
      const tagFrom = NONCE_BYTES;
      const textFrom = NONCE_BYTES + TAG_BYTES;
      const decipher = createDecipheriv(ALGORITHM, key, bytes.subarray(0, tagFrom), { authTagLength: TAG_BYTES })
        .setAAD(Buffer.from(about))
        .setAuthTag(bytes.subarray(tagFrom, textFrom));
      try {
        return Buffer.concat([decipher.update(bytes.subarray(textFrom)), decipher.final()]).toString('utf8');
      } catch {
        return null;
      }
    },
  };
}

export interface TimedSeal {
  seal(text: string): string;
  /** Null after the end, for another purpose, or for a seal of another process. */
  open(sealed: string): { text: string; endsAtMs: number } | null;
}

/** Seals for a time, by a key that is lost with the process. `elapsed`: monotonic. */
export function makeTimedSeal(options: { about: string; lifeMs: number; elapsed: () => number }): TimedSeal {
  const { about, lifeMs, elapsed } = options;
  const seal = makeSeal({ key: processBytes(32), randomBytes: processBytes });
  return {
    seal: (text) => seal.seal(`${elapsed() + lifeMs} ${text}`, about),
    open(sealed) {
      const [end = '', text = ''] = seal.open(sealed, about)?.split(/ (.*)/s) ?? [];
      return elapsed() < Number(end) ? { text, endsAtMs: Number(end) } : null;
    },
  };
}
