/** Argon2id in PHC strings with OWASP's parameters: 19 MiB, two passes, one lane. */
import { argon2, timingSafeEqual, type Argon2Parameters } from 'node:crypto';
import { makeHashQueue, type HashSource } from './hash-queue.ts';

export type Argon2id = (parameters: Argon2Parameters) => Promise<Uint8Array>;

export const argon2id: Argon2id = (parameters) =>
  new Promise((resolve, reject) => {
    argon2('argon2id', parameters, (error, tag) => (error ? reject(error) : resolve(tag)));
  });

/** 19 MiB each. */
export const HASHES_AT_ONCE = 2;

const cost = { memory: 19 * 1024, passes: 2, parallelism: 1 };
const SALT_BYTES = 16;
const TAG_BYTES = 32;

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
  source: HashSource;
  /** Called when the hash may start. Throws after too many failures meanwhile. */
  mayStart(): void;
  failed(): void;
}

export interface Passwords {
  hash(password: string, source: HashSource): Promise<string>;
  /** A hash that no password has. */
  unusable(): string;
  /** Costs the same for a null hash. Reports the outcome before the account's next hash starts. */
  verify(password: string, phc: string | null, attempt: Attempt): Promise<boolean>;
  /** Derives a slow-to-guess value; equal for equal salt and secret. */
  stretch(secret: string, salt: Uint8Array, source: HashSource): Promise<string>;
}

export const makePasswords = (deps: {
  randomBytes: (size: number) => Uint8Array;
  argon2id: Argon2id;
  atOnce: number;
}): Passwords => {
  const queue = makeHashQueue(deps);
  const unusable = (): string => toPhc(deps.randomBytes(SALT_BYTES), deps.randomBytes(TAG_BYTES));
  const nobody = unusable();
  const tagOf = (message: Uint8Array, salt: Uint8Array, source: HashSource) =>
    queue.run(source, () => deps.argon2id({ message, nonce: salt, tagLength: TAG_BYTES, ...cost }));

  return {
    async hash(password, source) {
      const salt = deps.randomBytes(SALT_BYTES);
      return toPhc(salt, await tagOf(bytesOf(password), salt, source));
    },

    unusable,

    async verify(password, phc, attempt) {
      const stored = fromPhc(phc ?? nobody);
      return queue.run(attempt.source, async () => {
        attempt.mayStart();
        const message = bytesOf(password);
        const tag = await deps.argon2id({ message, nonce: stored.salt, tagLength: stored.tag.length, ...stored.cost });
        const right = timingSafeEqual(tag, stored.tag) && phc !== null;
        if (!right) attempt.failed();
        return right;
      });
    },

    async stretch(secret, salt, source) {
      return Buffer.from(await tagOf(Buffer.from(secret), salt, source)).toString('hex');
    },
  };
};
