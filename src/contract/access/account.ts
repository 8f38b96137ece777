/** Login, account, keys and balance: docs/interface.md §10, authentication and account. */
import { z } from 'zod';
import { isMicros } from '../../domain/regions/catalog.ts';
import { usernamePattern } from '../../domain/access/account-state.ts';
import { apiKeyStates } from '../../domain/access/api-key.ts';
import { sessionCredentials } from '../../domain/access/port-access.ts';
import { sshKeyKinds } from '../../domain/access/ssh-key.ts';
import { scopes } from '../../domain/access/scopes.ts';
import {
  answer,
  decimal,
  empty,
  emptyAnswer,
  flag,
  idBody,
  integer,
  integerOrNull,
  label,
  oneOfText,
  plainText,
  request,
  secret,
  text,
  unixMs,
} from '../common.ts';
import { adminRoute, decision, jsonRoute, openRoute, readRoute } from '../route.ts';
import { factorCode, loginAnswer, SECOND_FACTOR_HEADER } from './second-factor.ts';

export const loginRequest = request('LoginRequest', {
  username: plainText(320).describe('Name or email address of the account'),
  password: secret(0, 1024).describe('Password of the account'),
  code: factorCode.optional(),
});

export const userInfoAnswer = answer('User', {
  userId: text('User ID'),
  username: text('Name of the account'),
  email: text('Email address; empty if none is set'),
  group: z.array(z.string()).meta({ uniqueItems: true }).describe('Roles of the account'),
});

export const username = z.string().regex(usernamePattern, {
  error: 'must be 1 to 63 lower-case letters, digits, dots, dashes or underscores, and start with a letter or digit',
});
export const password = secret(8, 1024);

export const email = z.email().max(320).default('');
export const firstBalance = z
  .number()
  .min(0, { abort: true })
  .max(1_000_000_000, { abort: true })
  .refine(isMicros, { error: 'must be 0 to 1000000000 dollars, with at most 6 decimals' })
  .describe('Initial balance in dollars; by default the first credit of the installation')
  .optional();

export const userCreateRequest = request('CreateUserRequest', {
  username: username.describe('Name of the account, for logins'),
  email: email.describe('Email address'),
  password: password.describe('First password'),
  balance: firstBalance,
});

export const registerRequest = request('RegisterRequest', {
  username: username.describe('Name of the account, for logins'),
  password: password.describe('Password'),
});

const login = answer(
  'Login',
  {
    id: text('Login ID'),
    address: text('Address of the client; empty for a login before this was stored'),
    userAgent: text('User agent of the client; may be empty'),
    createdAtUnixMs: unixMs('Time of the login'),
    lastUsedAtUnixMs: unixMs('Last use, rounded down to the minute'),
    expiresAtUnixMs: unixMs('End of the token'),
    current: flag('Whether this request uses the login'),
  },
  'Login with a token that is still valid',
);
export const loginListAnswer = answer('ListLoginsAnswer', {
  logins: z.array(login).describe('Logins, the last used first, at most 500'),
});

export const passwordRequest = request('ChangePasswordRequest', {
  oldPassword: secret(0, 1024).describe('Current password'),
  newPassword: password.describe('New password'),
});

const MAX_RANGE = 50;
const forms = z.union([z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()]);
const addressRange = z
  .string()
  .refine((text) => forms.safeParse(text).success, {
    error: 'must be an IP address such as 192.0.2.7, or a CIDR range such as 192.0.2.0/24',
  })
  .meta({ maxLength: MAX_RANGE });
const MAX_ADDRESSES = 50;

export const keyCreateRequest = request('CreateApiKeyRequest', {
  name: label(100).describe('Display name'),
  scopes: z
    .array(z.enum(scopes))
    .min(1)
    .max(scopes.length)
    .transform((given) => scopes.filter((scope) => given.includes(scope)))
    .nullable()
    .default(null)
    .describe('What the key may do: reading, or changes of a subject; null: everything the account may do'),
  expiresAtUnixMs: z
    .int()
    .min(0)
    .nullable()
    .default(null)
    .describe('End of the key, Unix milliseconds; null: until it is deleted'),
  addresses: z
    .array(addressRange)
    .min(1)
    .max(MAX_ADDRESSES)
    .nullable()
    .default(null)
    .describe('Addresses and CIDR ranges of clients that may use the key; null: from everywhere'),
});
export const keyCreateAnswer = answer('CreateApiKeyAnswer', {
  key: answer('NewApiKey', {
    id: text('Key ID'),
    name: text('Display name'),
    fullKey: text('The key itself; no later answer repeats it'),
  }).describe('The new key'),
});
const apiKey = answer('ApiKey', {
  id: text('Key ID'),
  name: text('Display name'),
  lastFour: text('Last four characters of the key'),
  createdAt: unixMs('Creation time'),
  prefix: text('First characters of the key; empty for a key of an earlier version'),
  state: oneOfText(apiKeyStates, 'Whether the key is accepted'),
  scopes: z.array(z.string()).nullable().describe('What the key may do; null: everything the account may do'),
  expiresAtUnixMs: integerOrNull('End of the key, Unix milliseconds; null: until it is deleted'),
  addresses: z.array(z.string()).nullable().describe('Clients that may use the key; null: from everywhere'),
  lastUsedAtUnixMs: integerOrNull('Last use, Unix milliseconds, to the minute; null: not used yet'),
});
export const keyListAnswer = answer('ListApiKeysAnswer', { keys: z.array(apiKey).describe('API keys of the account') });

const MAX_PUBLIC_KEY = 16 * 1024;
/** The access module parses the key, so that an error never quotes a private key. */
const publicKey = z
  .string()
  .refine((value) => value.length <= MAX_PUBLIC_KEY && value.isWellFormed(), {
    error: `must be one line of at most ${MAX_PUBLIC_KEY} characters`,
  })
  .meta({ maxLength: MAX_PUBLIC_KEY });

export const sshKeyCreateRequest = request('CreateSshKeyRequest', {
  name: label(100).describe('Display name'),
  publicKey: publicKey.describe('Public key: one line in the format of authorized_keys'),
  kind: z
    .enum(sshKeyKinds)
    .default('key')
    .describe('`key` opens instances; `ca` signs certificates that open them, for root or the name of the account'),
});
const sshKeyFields = {
  id: text('Key ID'),
  name: text('Display name'),
  fingerprint: text('SHA-256 fingerprint, as ssh prints it'),
};
export const sshKeyCreateAnswer = answer('CreateSshKeyAnswer', {
  sshKey: answer('NewSshKey', sshKeyFields).describe('The new key'),
});
const sshKey = answer('SshKey', {
  ...sshKeyFields,
  createdAt: unixMs('Creation time'),
  kind: oneOfText(sshKeyKinds, '`key` opens instances; `ca` signs certificates'),
});
export const sshKeyListAnswer = answer('ListSshKeysAnswer', {
  sshKeys: z.array(sshKey).describe('ssh keys of the account'),
});

const session = answer(
  'GatewaySession',
  {
    id: text('Session ID'),
    instanceId: text('Instance the session opens'),
    openedAtUnixMs: unixMs('Start of the session'),
    lastUsedAtUnixMs: integer('Last use, Unix milliseconds, to the minute'),
    from: z.enum(sessionCredentials).describe('Credential that opened the session and whose end ends it'),
  },
  'Session of a browser at the gateway',
);
export const sessionListAnswer = answer('ListSessionsAnswer', {
  sessions: z.array(session).describe('Sessions, the last used first, at most 500'),
});

export const balanceAnswer = answer('Balance', {
  balance: decimal('Balance in dollars'),
  availableBalance: decimal('Dollars available for launches'),
  availableVoucherAmount: decimal('Dollars of vouchers available'),
  availableCreditAmount: decimal('Dollars of credit available'),
});

export const loginRoutes = {
  login: openRoute('/user/login', loginRequest, loginAnswer, {
    setsCookie: true,
    errors: 'plain',
    summary: 'Log in; also sets the AccessToken cookie',
    details:
      'An account with a second factor needs `code`. Without a right one the answer is 401 with the header ' +
      `\`${SECOND_FACTOR_HEADER}: code\`, if the password is right.`,
    source: decision('authentication'),
  }),
  logout: jsonRoute('/user/logout', empty, emptyAnswer, {
    setsCookie: true,
    settingUp: true,
    summary: 'Log out: revoke the token',
    source: 'ours; docs/interface.md §10 has the revocation',
  }),
  listLogins: readRoute('/user/login/list', empty, loginListAnswer, {
    summary: "List the caller's logins, the last used first",
  }),
  revokeLogin: jsonRoute('/user/login/revoke', idBody, emptyAnswer, {
    idempotent: true,
    summary: 'End a login, its sessions at the gateway and their connections',
  }),
  register: openRoute('/user/register', registerRequest, userInfoAnswer, {
    summary: 'Create an account for oneself, where the operator allows it',
  }),
  changePassword: jsonRoute('/user/password', passwordRequest, emptyAnswer, {
    setsCookie: true,
    summary: 'Change the password and end every login of the account',
    source: 'ours; docs/interface.md §10 has the revocation',
  }),
  userInfo: readRoute('/user/info', empty, userInfoAnswer, {
    errors: 'plain',
    settingUp: true,
    summary: 'Return the account of the caller',
    source: decision('account'),
  }),
} as const;

export const keyRoutes = {
  createApiKey: jsonRoute('/user/key/create', keyCreateRequest, keyCreateAnswer, {
    idempotent: true,
    errors: 'plain',
    limiting: ['scopes', 'expiresAtUnixMs', 'addresses'],
    summary: 'Create an API key; only this answer has the full key',
    details: 'A misspelled `scopes`, `expiresAtUnixMs` or `addresses` is refused: the key would have no such limit.',
    source: decision('account'),
  }),
  listApiKeys: readRoute('/user/key/list', empty, keyListAnswer, {
    errors: 'plain',
    summary: "List the caller's API keys",
    source: decision('account'),
  }),
  deleteApiKey: jsonRoute('/user/key/delete', idBody, emptyAnswer, {
    idempotent: true,
    errors: 'plain',
    summary: 'Delete an API key and revoke it',
    source: decision('account'),
  }),
  createSshKey: jsonRoute('/user/sshkey/create', sshKeyCreateRequest, sshKeyCreateAnswer, {
    idempotent: true,
    lasting: { scope: 'instances' },
    errors: 'plain',
    summary: "Register an ssh public key; it opens the caller's instances within seconds",
    source: decision('account'),
  }),
  listSshKeys: readRoute('/user/sshkey/list', empty, sshKeyListAnswer, {
    errors: 'plain',
    summary: "List the caller's ssh keys",
    source: decision('account'),
  }),
  deleteSshKey: jsonRoute('/user/sshkey/delete', idBody, emptyAnswer, {
    idempotent: true,
    errors: 'plain',
    summary: 'Delete an ssh key',
    source: decision('account'),
  }),
  listSessions: readRoute('/user/session/list', empty, sessionListAnswer, {
    summary: "List the caller's browser sessions at the gateway, the last used first",
  }),
  revokeSession: jsonRoute('/user/session/revoke', idBody, emptyAnswer, {
    idempotent: true,
    summary: 'End a session at the gateway and close its connections',
  }),
  balance: readRoute('/balance', empty, balanceAnswer, {
    method: 'GET',
    errors: 'plain',
    summary: 'Return the balance of the caller in dollars',
    source: decision('account'),
  }),
} as const;

export const createUserRoutes = {
  createUser: adminRoute('/user/create', userCreateRequest, userInfoAnswer, {
    idempotent: true,
    summary: 'Create an account (administrators)',
  }),
} as const;
