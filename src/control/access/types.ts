import type { GatewaySessions } from './routing/gateway-types.ts';
import type { ApiKeyState } from '../../domain/access/api-key.ts';
import type { Identity, SignOnRules } from '../../domain/access/sign-on-rules.ts';
import type { SecondFactor } from '../../domain/access/second-factor.ts';
import type { ProviderLogin } from '../../store/tables/sessions.ts';
import type { SshKeyKind } from '../../domain/access/ssh-key.ts';
import type { Scope } from '../../domain/access/scopes.ts';
import type { Credential, Caller, Mutation } from '../kernel/ports.ts';

export interface ApiKeyInfo {
  id: string;
  name: string;
  lastFour: string;
  createdAt: number;
  prefix: string;
  state: ApiKeyState;
  scopes: Scope[] | null;
  expiresAtUnixMs: number | null;
  addresses: string[] | null;
  lastUsedAtUnixMs: number | null;
}

export interface LoginInfo {
  id: string;
  address: string;
  userAgent: string;
  createdAtUnixMs: number;
  /** Rounded down to the minute. */
  lastUsedAtUnixMs: number;
  expiresAtUnixMs: number;
  /** The login of this request. */
  current: boolean;
}

export interface SignedOn {
  accessToken: string;
  accessExpire: number;
  /** Name of the new account, if another account has the provider's name. */
  otherName: string | null;
}

export interface FactorProof {
  password: string;
  /** Needed once the account has a factor. */
  code?: string | undefined;
}

interface SecondFactorState {
  factors: SecondFactor[];
  recoveryCodes: number;
  passkeys: { id: string; name: string; createdAtUnixMs: number; lastUsedAtUnixMs: number | null }[];
  isRequired: boolean;
  /** The login of the request can do nothing else. */
  mustSetUp: boolean;
}

export interface SecondFactors {
  get(caller: Caller): Promise<SecondFactorState>;
  /** Begins; nothing changes before `confirmTotp`. */
  createTotp(caller: Caller, proof: FactorProof): Promise<{ secret: string; uri: string }>;
  /** `recoveryCodes`: empty if the account has some. No later answer repeats them. */
  confirmTotp(caller: Caller, body: { code: string }): Promise<{ recoveryCodes: string[] }>;
  deleteTotp(caller: Caller, proof: FactorProof): Promise<void>;
  createRecoveryCodes(caller: Caller, proof: FactorProof): Promise<{ recoveryCodes: string[] }>;
}

/** Where a browser has the page that uses a passkey. */
export interface PasskeySite {
  /** Host name. */
  rpId: string;
  origin: string;
}

/** Bytes in base64url. */
interface NewPasskey {
  id: string;
  clientDataJSON: string;
  attestationObject: string;
  transports: readonly string[];
}

interface PasskeyAssertion {
  id: string;
  clientDataJSON: string;
  authenticatorData: string;
  signature: string;
}

export interface Passkeys {
  begin(
    caller: Caller,
    proof: FactorProof,
    site: PasskeySite,
  ): Promise<{ challenge: string; rpId: string; userHandle: string; username: string; excludeIds: string[] }>;
  create(
    caller: Caller,
    body: { name: string; credential: NewPasskey },
    site: PasskeySite,
  ): Promise<{ recoveryCodes: string[] }>;
  delete(caller: Caller, body: FactorProof & { id: string }): Promise<void>;
  beginLogin(site: PasskeySite): { challenge: string; rpId: string };
  /** `from`: the client's address. */
  login(
    credential: PasskeyAssertion,
    site: PasskeySite,
    from: string,
    userAgent?: string,
  ): Promise<{ accessToken: string; accessExpire: number }>;
}

export interface AuthenticateOptions {
  revalidate?: boolean | undefined;
  settingUp?: boolean | undefined;
}

export interface Access extends GatewaySessions {
  /**
   * Throws `not_logged_in`, or `forbidden` for a login that lacks a second factor, unless
   * `settingUp`. Results are cached for a second, unless `revalidate` is set.
   */
  authenticate(credential: Credential, options?: AuthenticateOptions): Promise<Caller>;
  /** `from`: the client's address. Throws `not_logged_in` or `too_many_requests`. */
  login(
    body: { username: string; password: string; code?: string | undefined },
    from: string,
    userAgent?: string,
  ): Promise<{ accessToken: string; accessExpire: number }>;
  /** Logs an identity in that a provider vouches for. `from`: the client's address. */
  signOn(
    identity: Identity,
    rules: Pick<SignOnRules, 'linksByEmail'>,
    from: string,
    userAgent?: string,
  ): Promise<SignedOn>;
  /** Ends logins of the provider's session, else of the subject. Returns their accounts. */
  endProviderLogins(login: ProviderLogin): Promise<string[]>;
  logout(caller: Caller): Promise<void>;
  /** The last used first, at most 500. */
  listLogins(caller: Caller): Promise<{ logins: LoginInfo[] }>;
  revokeLogin: Mutation<{ id: string }, void>;
  changePassword(caller: Caller, body: { oldPassword: string; newPassword: string }): Promise<void>;
  createUser: Mutation<
    { username: string; email: string; password: string; balance?: number | undefined },
    { userId: string; username: string; email: string; group: string[] }
  >;
  secondFactors: SecondFactors;
  passkeys: Passkeys;
  createApiKey: Mutation<
    { name: string; scopes?: Scope[] | null; expiresAtUnixMs?: number | null; addresses?: string[] | null },
    { key: { id: string; name: string; fullKey: string } }
  >;
  listApiKeys(caller: Caller): Promise<{ keys: ApiKeyInfo[] }>;
  deleteApiKey: Mutation<{ id: string }, void>;
  createSshKey: Mutation<
    { name: string; publicKey: string; kind?: SshKeyKind },
    { sshKey: { id: string; name: string; fingerprint: string } }
  >;
  listSshKeys(
    caller: Caller,
  ): Promise<{ sshKeys: { id: string; name: string; fingerprint: string; createdAt: number; kind: SshKeyKind }[] }>;
  deleteSshKey: Mutation<{ id: string }, void>;
  balance(caller: Caller): Promise<{
    balance: number;
    availableBalance: number;
    availableVoucherAmount: number;
    availableCreditAmount: number;
  }>;
}
