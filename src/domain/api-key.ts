/** Limits of API keys. Absent limits are null: a key then has all rights of its account. */
import { isInRanges } from './address-range.ts';
import type { Scope } from './scopes.ts';

export const apiKeyStates = ['active', 'expired'] as const;
export type ApiKeyState = (typeof apiKeyStates)[number];

export interface KeyLimits {
  expiresAtMs: number | null;
  /** Addresses and CIDR ranges of the clients that may use the key. */
  addresses: readonly string[] | null;
}

interface KeyRights {
  scopes: readonly Scope[] | null;
  limits?: KeyLimits;
}

/** A caller; a login has no `apiKeyId`. */
export interface KeyHolder extends KeyRights {
  apiKeyId?: string;
}

/** Why a credential may not create a key with these rights; null: it may. */
export function whyBeyond(own: KeyRights, wanted: Required<KeyRights>): string | null {
  const { scopes, limits } = own;
  const more =
    scopes === null ? [] : (wanted.scopes ?? ['all']).filter((scope) => scope === 'all' || !scopes.includes(scope));
  if (more.length > 0)
    return `the scopes ${list(more)} are not among those of your API key: send "scopes" with some of ${list(scopes ?? [])}`;
  const { expiresAtMs, addresses } = wanted.limits;
  const last = limits?.expiresAtMs ?? Infinity;
  if ((expiresAtMs ?? Infinity) > last)
    return `your API key expires at ${last}, and the new key would outlive it: send "expiresAtUnixMs" of at most ${last}`;
  const ranges = limits?.addresses;
  if (!ranges) return null;
  const outside = (addresses ?? ['all']).filter((range) => !isInRanges(ranges, range));
  return outside.length === 0
    ? null
    : `the addresses ${list(outside)} are not inside of those of your API key: send "addresses" inside of ${list(ranges)}`;
}

/** Why a credential may not register an ssh key, which opens instances until it is deleted. */
export function whyNoSshKeys({ apiKeyId, scopes, limits }: KeyHolder): string | null {
  if (apiKeyId === undefined) return null;
  const opensInstances = scopes === null || scopes.includes('instances');
  if (opensInstances && !limits) return null;
  return `an ssh key opens instances from everywhere and until it is deleted, and this API key ${opensInstances ? 'is limited in time or to addresses' : 'lacks the scope "instances"'}: use a login, or an API key without these limits`;
}

/** Why a credential may not choose where a webhook sends events until it is deleted. */
export const whyNoWebhooks = ({ limits }: Pick<KeyHolder, 'limits'>): string | null =>
  limits === undefined
    ? null
    : 'a webhook sends events until it is deleted, and this API key is limited in time or to addresses: use a login, or an API key without these limits';

/** Why a client at the address may not use the key; null: it may. */
export const whyNotFrom = (limits: KeyLimits | undefined, address: string): string | null =>
  !limits?.addresses || isInRanges(limits.addresses, address)
    ? null
    : `this API key may not be used from the address ${address}: use it from one of the addresses it was created for, or create another key`;

const list = (words: readonly string[]): string => words.map((word) => `"${word}"`).join(', ');
