/** Claims of login providers, in the forms in which providers send them. */
import anyAscii from 'any-ascii';
import { usernamePattern } from './account-state.ts';

export type Claims = Readonly<Record<string, unknown>>;

const EMAIL = ['email', 'email_verified'] as const;
/** Sources of claims that are too long for a token. */
const CLAIM_NAMES = '_claim_names';

interface ReadClaims {
  /** Claim with the name of a new account. */
  nameClaim: string;
  /** A name, or the path of a nested claim such as `realm_access.roles`. */
  groupsClaim: string;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Names with dots, such as URLs, come before paths. */
function claimAt(claims: Claims, path: string): unknown {
  if (Object.hasOwn(claims, path)) return claims[path];
  let found: unknown = claims;
  for (const name of path.split('.')) found = isObject(found) && Object.hasOwn(found, name) ? found[name] : undefined;
  return found;
}

/**
 * Returns claims by name or path, from sources in the order of their weight. An address and the
 * verification come from the same source: no other source verifies an address.
 */
export function claimsOf({ nameClaim, groupsClaim }: ReadClaims, sources: readonly Claims[]): Claims {
  const taken: Record<string, unknown> = {};
  for (const group of [['sub'], EMAIL, [nameClaim], [groupsClaim], ['sid'], [CLAIM_NAMES]]) {
    if (group.some((claim) => taken[claim] !== undefined)) continue;
    const isIn = (source: Claims) => (claim: string) => claimAt(source, claim) !== undefined;
    const whole = sources.find((source) => group.every(isIn(source)));
    const source = whole ?? sources.find((one) => group.some(isIn(one)));
    for (const claim of group) taken[claim] = source && claimAt(source, claim);
  }
  return taken;
}

export const lacksClaim = (claims: Claims, name: string): boolean => claimAt(claims, name) === undefined;

/** Whether the token is too short for the claim, as Entra ID says. */
export const isLeftOut = (claims: Claims, name: string): boolean => {
  const names = claims[CLAIM_NAMES];
  return isObject(names) && Object.hasOwn(names, name);
};

const MAX_ID = 255;
const MAX_EMAIL = 320;

/** Text without what databases refuse. */
const isPlain = (text: string): boolean => text.isWellFormed() && !/\p{Cc}/u.test(text);

/** Subject, or session, of a provider, to the letter; null for what Berth does not store. */
export const idOf = (claim: unknown): string | null =>
  typeof claim === 'string' && claim !== '' && claim.length <= MAX_ID && isPlain(claim) ? claim : null;

export const textOf = (claim: unknown): string => (typeof claim === 'string' ? claim.trim() : '');

/** Text behind the last @, as a quoted local part may have others; empty: no email address. */
export const domainOf = (email: string): string => /^.+@([^@]+)$/.exec(email)?.[1] ?? '';

/** Form in which domains are equal: letters beyond ASCII as `xn--…` (IDNA). */
export const comparableDomain = (domain: string): string => {
  const isForeign = /^[\p{L}\p{M}\p{N}.-]+$/u.test(domain) && /\P{ASCII}/u.test(domain);
  return (isForeign && URL.parse(`http://${domain}`)?.hostname) || domain.toLowerCase();
};

export type EmailState = 'verified' | 'denied' | 'unstated' | 'absent';

export function emailOf(claims: Claims): { address: string; state: EmailState } {
  const address = textOf(claims['email']).toLowerCase();
  if (domainOf(address) === '' || address.length > MAX_EMAIL || !isPlain(address))
    return { address: '', state: 'absent' };
  const verified = claims['email_verified'];
  if (verified === true || /^true$/i.test(textOf(verified))) return { address, state: 'verified' };
  return { address, state: verified === undefined || verified === null ? 'unstated' : 'denied' };
}

const IS_DISTINGUISHED_NAME = /^[a-z][a-z0-9-]*\s*=./i;
export const isDistinguishedName = (group: string): boolean => IS_DISTINGUISHED_NAME.test(group);

/** Form in which groups are equal: without the leading slash of a path; DNs in lower case. */
export function comparableGroup(group: string): string {
  const name = group.trim().replace(/^\//, '');
  if (!isDistinguishedName(name)) return name;
  return name.toLowerCase().replaceAll(/\s*(?<!\\)([,=])\s*/g, '$1');
}

/** Null for a claim that is absent or holds no names. */
export function groupsOf(claim: unknown): string[] | null {
  if (typeof claim === 'string') {
    const names = isDistinguishedName(claim.trim()) ? [claim] : claim.split(',');
    return names.map((name) => name.trim()).filter((name) => name !== '');
  }
  if (!Array.isArray(claim)) return null;
  const names = claim.filter((item): item is string => typeof item === 'string');
  return names.length === 0 && claim.length > 0 ? null : names;
}

export const MAX_NAME = 63;
const SUBJECT_LETTERS = 16;

const asName = (text: string): string =>
  anyAscii((text.split('@')[0] ?? '').normalize('NFC'))
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]+/g, '-')
    .replaceAll(/^[^a-z0-9]+|[^a-z0-9]+$/g, '')
    .slice(0, MAX_NAME);

/** Name of a new account: of the claim, else of the email address, else of the subject. */
export function nameOf(claims: Claims, nameClaim: string): string {
  const given = [claims[nameClaim], claims['email']].map((claim) => asName(textOf(claim)));
  const subject = textOf(claims['sub'])
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '');
  return given.find((name) => usernamePattern.test(name)) ?? `user-${subject.slice(0, SUBJECT_LETTERS)}`;
}
