/** Tables of accounts: credentials, quotas and variables. */
import type { Generated } from 'kysely';
import type { SshKeyKind } from '../../domain/access/ssh-key.ts';
import type { Flag } from './columns.ts';

/** Ed25519. `retiredAtMs` is null for the active key; retired keys verify until tokens expire. */
export interface SigningKeyTable {
  kid: string;
  privateJwk: string;
  publicJwk: string;
  createdAtMs: number;
  retiredAtMs: number | null;
}

export interface AccountTable {
  id: string;
  username: string;
  email: string;
  passwordHash: string;
  roles: string;
  createdAtMs: number;
  /** 1 for an account that an administrator disabled or that will be deleted. */
  disabled: Flag;
  disabledAtMs: Generated<number | null>;
  disabledReason: Generated<string>;
  /** End of the grace time of a deletion. */
  deleteAtMs: Generated<number | null>;
  /** Incremented by every change of a listed resource; keys the reply caches. */
  version: Generated<number>;
  /** Number of the latest event: 1, 2, 3 … per account, without gaps. */
  eventSeq: Generated<number>;
  instanceCount: Generated<number>;
  volumeCount: Generated<number>;
  balanceMicros: Generated<number>;
  voucherMicros: Generated<number>;
  creditMicros: Generated<number>;
  /** How far below 0 cash may go. */
  overdraftMicros: Generated<number>;
  /** `MoneyState`. */
  moneyStep: Generated<string>;
  moneyArchiveAtMs: Generated<number | null>;
  moneyDeleteAtMs: Generated<number | null>;
  moneyDeleteWarnedAtMs: Generated<number | null>;
  /** `Usage` of quotas. */
  usage: Generated<string>;
  /** JSON list, written with each change of `totp` and `passkey`. */
  secondFactors: Generated<string>;
}

/** Limits. `accountId` is '' for those of the installation. */
export interface QuotaTable {
  accountId: string;
  name: string;
  value: number;
}

/** A login; `id` is the token's `jti`. */
export interface SessionTable {
  id: string;
  accountId: string;
  createdAtMs: number;
  expiresAtMs: number;
  revokedAtMs: number | null;
  address: Generated<string>;
  userAgent: Generated<string>;
  /** To the minute. */
  lastUsedAtMs: Generated<number>;
  /** 1 after a second factor, or a login by a provider. */
  secondFactor: Generated<Flag>;
  /** Login provider; null after a password. */
  issuer: string | null;
  subject: string | null;
  /** Session at the provider (`sid`). */
  providerSid: string | null;
}

/** Authenticator app (RFC 6238). `confirmedAtMs` is null until the first right code. */
export interface TotpTable {
  accountId: string;
  sealed: string;
  createdAtMs: number;
  confirmedAtMs: number | null;
  lastStep: Generated<number>;
}

export interface RecoveryCodeTable {
  /** SHA-256 of the code, hex. */
  hash: string;
  accountId: string;
}

export interface PasskeyTable {
  id: string;
  accountId: string;
  name: string;
  credentialId: string;
  publicKey: string;
  counter: number;
  /** JSON list. */
  transports: string;
  createdAtMs: number;
  lastUsedAtMs: number | null;
}

/** One-time link to the page that sets a password. */
export interface PasswordLinkTable {
  /** SHA-256 of the token, hex. */
  hash: string;
  accountId: string;
  kind: string;
  expiresAtMs: number;
}

export interface ApiKeyTable {
  id: string;
  accountId: string;
  name: string;
  /** SHA-256 of the full key, hex. */
  hash: string;
  /** First characters of the key. */
  prefix: string;
  lastFour: string;
  /** JSON list; null: all rights. */
  scopes: string | null;
  /** JSON list of addresses and CIDR ranges; null: from everywhere. */
  addresses: string | null;
  expiresAtMs: number | null;
  /** To the minute. */
  lastUsedAtMs: number | null;
  createdAtMs: number;
}

export interface IdentityTable {
  issuer: string;
  subject: string;
  accountId: string;
  createdAtMs: number;
}

export interface SshKeyTable {
  id: string;
  accountId: string;
  name: string;
  publicKey: string;
  kind: SshKeyKind;
  fingerprint: string;
  createdAtMs: number;
}

/** An environment variable. `holderId`: id of an instance or account, or `installation`. */
export interface VariableTable {
  holderId: string;
  name: string;
  isSecret: Flag;
  /** All values are sealed, secret or not. */
  sealed: string;
  updatedAtMs: number;
}

export interface RegistryCredentialTable {
  id: string;
  accountId: string;
  /** Host and port as in image names; `docker.io` for names without a host. */
  server: string;
  username: string;
  secret: string;
  createdAtMs: number;
}

/** Handover (one-time) of a browser from the API to the gateway, or the session made from one. */
export interface GatewayGrantTable {
  /** SHA-256 of the secret, hex. */
  hash: string;
  kind: 'handover' | 'session';
  accountId: string;
  instanceId: string;
  /** Login of origin, whose end deletes the grant; null for an API key. */
  sessionId: string | null;
  /** API key of origin; null for a login. */
  apiKeyId: string | null;
  expiresAtMs: number;
  /** Public name: the owner never sees the secret again. */
  id: string;
  openedAtMs: number;
}

/** A launch without secrets, kept under a name; sealed with all its members. */
export interface TemplateTable {
  accountId: string;
  name: string;
  sealed: string;
  updatedAtMs: number;
}

export interface AccountSchema {
  signingKey: SigningKeyTable;
  account: AccountTable;
  session: SessionTable;
  totp: TotpTable;
  recoveryCode: RecoveryCodeTable;
  passkey: PasskeyTable;
  passwordLink: PasswordLinkTable;
  apiKey: ApiKeyTable;
  identity: IdentityTable;
  sshKey: SshKeyTable;
  registryCredential: RegistryCredentialTable;
  gatewayGrant: GatewayGrantTable;
  variable: VariableTable;
  quota: QuotaTable;
  template: TemplateTable;
}
