/** Login, account, keys and balance: docs/interface.md §10, authentication and account. */
import { z } from 'zod';
import { id, label, plainText, secret } from './common.ts';

export const loginRequest = z.object({ username: plainText(320), password: secret(0, 1024) });
export const loginAnswer = z.strictObject({ accessToken: z.string(), accessExpire: z.number().int() });

export const userInfoAnswer = z.strictObject({
  userId: z.string(),
  username: z.string(),
  email: z.string(),
  group: z.array(z.string()),
});

export const username = z.string().regex(/^[a-z0-9][a-z0-9._-]{0,62}$/, {
  error: 'must be 1 to 63 lower-case letters, digits, dots, dashes or underscores, and start with a letter or digit',
});
export const password = secret(8, 1024);

export const userCreateRequest = z.object({
  username,
  email: z.email().max(320).default(''),
  password,
  /** Dollars the account starts with. */
  balance: z.number().min(0).max(1_000_000_000).default(0),
});

export const passwordRequest = z.object({ oldPassword: secret(0, 1024), newPassword: password });

export const nameBody = z.object({ name: label(100) });
export const idBody = z.object({ id });
export const emptyAnswer = z.strictObject({});

export const keyCreateAnswer = z.strictObject({
  key: z.strictObject({ id: z.string(), name: z.string(), fullKey: z.string() }),
});
export const keyListAnswer = z.strictObject({
  keys: z.array(
    z.strictObject({ id: z.string(), name: z.string(), lastFour: z.string(), createdAt: z.number().int() }),
  ),
});

/** What a good key is, and why another is not, is for `control/access/ssh-public-key.ts` to say: a private key pasted by mistake must not be quoted back. */
const publicKey = z
  .string()
  .refine((text) => text.length <= 16 * 1024 && text.isWellFormed(), {
    error: 'must be one line of at most 16384 characters',
  })
  .meta({ maxLength: 16 * 1024 });

export const sshKeyCreateRequest = z.object({ name: label(100), publicKey });
const sshKey = z.strictObject({ id: z.string(), name: z.string(), fingerprint: z.string() });
export const sshKeyCreateAnswer = z.strictObject({ sshKey });
export const sshKeyListAnswer = z.strictObject({ sshKeys: z.array(sshKey.extend({ createdAt: z.number().int() })) });

/** What browsers have at the gateway: never its secret. */
export const sessionListAnswer = z.strictObject({
  sessions: z.array(
    z.strictObject({
      id: z.string(),
      /** The one that it was opened for. */
      instanceId: z.string(),
      openedAtUnixMs: z.number().int(),
      /** To the minute. */
      lastUsedAtUnixMs: z.number().int(),
      /** What it was opened with, and ends with. */
      from: z.enum(['login', 'apiKey']),
    }),
  ),
});

export const balanceAnswer = z.strictObject({
  balance: z.number(),
  availableBalance: z.number(),
  availableVoucherAmount: z.number(),
  availableCreditAmount: z.number(),
});
