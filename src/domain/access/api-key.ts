/** Limits of API keys. Absent limits are null: a key then has all rights of its account. */
import { isInRanges } from './address-range.ts';
import type { Scope, Subject } from './scopes.ts';

export const apiKeyStates = ['active', 'expired'] as const;
export type ApiKeyState = (typeof apiKeyStates)[number];

export const API_KEY_PREFIX = 'berth_';

export const isApiKey = (text: string): boolean => text.startsWith(API_KEY_PREFIX);

export interface KeyLimits {
  expiresAtMs: number | null;
  /** Addresses and CIDR ranges of the clients that may use the key. */
  addresses: readonly string[] | null;
}

/**
 * Effect of a request that stays until somebody undoes it, and that reaches instances or data
 * without the key: code, logins or hosts of later instances, links, receivers of events.
 */
export interface LastingEffect {
  /** Scope that an API key needs besides that of the route's subject. */
  scope: Subject;
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

/** Why a credential may not cause an effect that outlasts a key; null: it may. */
export function whyNotLasting({ apiKeyId, scopes, limits }: KeyHolder, { scope }: LastingEffect): string | null {
  const hasScope = scopes === null || scopes.includes(scope);
  if (apiKeyId === undefined || (hasScope && limits === undefined)) return null;
  return `this request has an effect from everywhere and until somebody undoes it, and this API key ${hasScope ? 'is limited in time or to addresses' : `lacks the scope "${scope}"`}: use a login, or an API key with the scope "${scope}" and without these limits`;
}

/** Why a client at the address may not use the key; null: it may. */
export const whyNotFrom = (limits: KeyLimits | undefined, address: string): string | null =>
  !limits?.addresses || isInRanges(limits.addresses, address)
    ? null
    : `this API key may not be used from the address ${address}: use it from one of the addresses it was created for, or create another key`;

const list = (words: readonly string[]): string => words.map((word) => `"${word}"`).join(', ');
