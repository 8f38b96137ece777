/** Login, account, keys and balance: docs/interface.md §10, authentication and account. */
import { z } from 'zod';
import { decimal, id, integer, label, named, plainText, secret, text, unixMs } from './common.ts';

export const loginRequest = named(
  'LoginRequest',
  z.object({
    username: plainText(320).describe('Name or email address of the account'),
    password: secret(0, 1024).describe('Password of the account'),
  }),
);
export const loginAnswer = named(
  'LoginAnswer',
  z.strictObject({
    accessToken: text('JWT for the cookie `AccessToken` or the header `Authorization`'),
    accessExpire: integer('Lifetime of the token in seconds'),
  }),
);

export const userInfoAnswer = named(
  'User',
  z.strictObject({
    userId: text('User ID'),
    username: text('Name of the account'),
    email: text('Email address; empty if none is set'),
    group: z.array(z.string()).describe('Roles of the account'),
  }),
);

export const username = z.string().regex(/^[a-z0-9][a-z0-9._-]{0,62}$/, {
  error: 'must be 1 to 63 lower-case letters, digits, dots, dashes or underscores, and start with a letter or digit',
});
export const password = secret(8, 1024);

export const userCreateRequest = named(
  'CreateUserRequest',
  z.object({
    username: username.describe('Name of the account, for logins'),
    email: z.email().max(320).default('').describe('Email address'),
    password: password.describe('First password'),
    balance: z.number().min(0).max(1_000_000_000).default(0).describe('Initial balance in dollars'),
  }),
);

export const passwordRequest = named(
  'ChangePasswordRequest',
  z.object({
    oldPassword: secret(0, 1024).describe('Current password'),
    newPassword: password.describe('New password'),
  }),
);

export const nameBody = named('NameRequest', z.object({ name: label(100).describe('Display name') }));
export const idBody = named('IdRequest', z.object({ id: id.describe('ID of the resource') }));
export const emptyAnswer = named('EmptyAnswer', z.strictObject({}), 'No members');

export const keyCreateAnswer = named(
  'CreateApiKeyAnswer',
  z.strictObject({
    key: named(
      'NewApiKey',
      z.strictObject({
        id: text('Key ID'),
        name: text('Display name'),
        fullKey: text('The key itself; no later answer repeats it'),
      }),
    ).describe('The new key'),
  }),
);
const apiKey = named(
  'ApiKey',
  z.strictObject({
    id: text('Key ID'),
    name: text('Display name'),
    lastFour: text('Last four characters of the key'),
    createdAt: unixMs('Creation time'),
  }),
);
export const keyListAnswer = named(
  'ListApiKeysAnswer',
  z.strictObject({ keys: z.array(apiKey).describe('API keys of the account') }),
);

const MAX_PUBLIC_KEY = 16 * 1024;
/** The access module parses the key, so that an error never quotes a private key. */
const publicKey = z
  .string()
  .refine((value) => value.length <= MAX_PUBLIC_KEY && value.isWellFormed(), {
    error: `must be one line of at most ${MAX_PUBLIC_KEY} characters`,
  })
  .meta({ maxLength: MAX_PUBLIC_KEY });

export const sshKeyCreateRequest = named(
  'CreateSshKeyRequest',
  z.object({
    name: label(100).describe('Display name'),
    publicKey: publicKey.describe('Public key: one line in the format of authorized_keys'),
  }),
);
const sshKeyFields = {
  id: text('Key ID'),
  name: text('Display name'),
  fingerprint: text('SHA-256 fingerprint, as ssh prints it'),
};
export const sshKeyCreateAnswer = named(
  'CreateSshKeyAnswer',
  z.strictObject({ sshKey: named('NewSshKey', z.strictObject(sshKeyFields)).describe('The new key') }),
);
const sshKey = named('SshKey', z.strictObject({ ...sshKeyFields, createdAt: unixMs('Creation time') }));
export const sshKeyListAnswer = named(
  'ListSshKeysAnswer',
  z.strictObject({ sshKeys: z.array(sshKey).describe('ssh keys of the account') }),
);

const session = named(
  'GatewaySession',
  z.strictObject({
    id: text('Session ID'),
    instanceId: text('Instance the session opens'),
    openedAtUnixMs: unixMs('Start of the session'),
    lastUsedAtUnixMs: integer('Last use, Unix milliseconds, to the minute'),
    from: z.enum(['login', 'apiKey']).describe('Credential that opened the session and whose end ends it'),
  }),
  'Session of a browser at the gateway',
);
export const sessionListAnswer = named(
  'ListSessionsAnswer',
  z.strictObject({ sessions: z.array(session).describe('Sessions, the last used first') }),
);

export const balanceAnswer = named(
  'Balance',
  z.strictObject({
    balance: decimal('Balance in dollars'),
    availableBalance: decimal('Dollars available for launches'),
    availableVoucherAmount: decimal('Dollars of vouchers available'),
    availableCreditAmount: decimal('Dollars of credit available'),
  }),
);
