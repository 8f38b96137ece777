/** Argon2id in PHC strings with OWASP's parameters: 19 MiB, two passes, one lane, few at once. */
import { makeSemaphore } from '../../async/semaphore.ts';
import { argon2, timingSafeEqual, type Argon2Parameters } from 'node:crypto';
import { Refusal } from '../../domain/refusal.ts';

export type Argon2id = (parameters: Argon2Parameters) => Promise<Uint8Array>;

export const argon2id: Argon2id = (parameters) =>
  new Promise((resolve, reject) => {
    argon2('argon2id', parameters, (error, tag) => (error ? reject(error) : resolve(tag)));
  });

const cost = { memory: 19 * 1024, passes: 2, parallelism: 1 };
const SALT_BYTES = 16;
const TAG_BYTES = 32;
const MAX_WAITING = 4096;

/** PHC writes base64 without padding. */
const toB64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64').replace(/=+$/, '');

const toPhc = (salt: Uint8Array, tag: Uint8Array): string =>
  `$argon2id$v=19$m=${cost.memory},t=${cost.passes},p=${cost.parallelism}$${toB64(salt)}$${toB64(tag)}`;

const PHC = /^\$argon2id\$v=19\$m=(\d{1,7}),t=(\d{1,3}),p=(\d{1,2})\$([A-Za-z0-9+/]{11,86})\$([A-Za-z0-9+/]{22,86})$/;

const fromPhc = (phc: string) => {
  const [, memory, passes, parallelism, salt = '', tag = ''] = PHC.exec(phc) ?? [];
  if (memory === undefined) throw new Error('a stored password hash is not an argon2id PHC string');
  return {
    cost: { memory: Number(memory), passes: Number(passes), parallelism: Number(parallelism) },
    salt: Buffer.from(salt, 'base64'),
    tag: Buffer.from(tag, 'base64'),
  };
};

/** The same password typed on two systems may come composed or decomposed (RFC 8265 §4.2). */
const bytesOf = (password: string): Buffer => Buffer.from(password.normalize('NFC'));

export interface Attempt {
  /** Called when the hash may start. Throws after too many failures meanwhile. */
  mayStart(): void;
  failed(): void;
}

export interface Passwords {
  hash(password: string): Promise<string>;
  /** Costs the same for a null hash. Reports the outcome before the next hash starts. */
  verify(password: string, phc: string | null, attempt: Attempt): Promise<boolean>;
  /** Derives a slow-to-guess value; equal for equal salt and secret. */
  stretch(secret: string, salt: Uint8Array): Promise<string>;
}

export const makePasswords = (deps: {
  randomBytes: (size: number) => Uint8Array;
  argon2id: Argon2id;
  atOnce: number;
}): Passwords => {
  const semaphore = makeSemaphore(deps.atOnce);
  const whenFree = async <T>(work: () => Promise<T>): Promise<T> => {
    if (semaphore.waiting >= MAX_WAITING) {
      const message = 'Too many logins are running; try again in a few seconds.';
      throw new Refusal('too_many_requests', message, { retryAfterS: 5 });
    }
    return semaphore.run(work);
  };
  const nobody = toPhc(deps.randomBytes(SALT_BYTES), deps.randomBytes(TAG_BYTES));
  const tagOf = (message: Uint8Array, salt: Uint8Array) =>
    whenFree(() => deps.argon2id({ message, nonce: salt, tagLength: TAG_BYTES, ...cost }));

  return {
    async hash(password) {
      const salt = deps.randomBytes(SALT_BYTES);
      return toPhc(salt, await tagOf(bytesOf(password), salt));
    },

    async verify(password, phc, attempt) {
      const stored = fromPhc(phc ?? nobody);
      return whenFree(async () => {
        attempt.mayStart();
        const message = bytesOf(password);
        const tag = await deps.argon2id({ message, nonce: stored.salt, tagLength: stored.tag.length, ...stored.cost });
        const right = timingSafeEqual(tag, stored.tag) && phc !== null;
        if (!right) attempt.failed();
        return right;
      });
    },

    async stretch(secret, salt) {
      return Buffer.from(await tagOf(Buffer.from(secret), salt)).toString('hex');
    },
  };
};
