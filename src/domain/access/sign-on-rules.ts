/** Rules for accounts whose logins a provider of OpenID Connect vouches for. */
import { usernamePattern } from './account-state.ts';
import { Refusal } from '../kernel/refusal.ts';
import { roles, USER_ROLE, type Role } from './roles.ts';

export interface SignOnRules {
  /** Claim with the name of a new account. */
  nameClaim: string;
  groupsClaim: string;
  /** A verified email in one of them is needed; empty: none is. */
  emailDomains: readonly string[];
  /** Groups of which one is needed; empty: none is. */
  groups: readonly string[];
  /** Roles by group; empty: logins change no role. */
  rolesByGroup: ReadonlyMap<string, Role>;
  /** Whether a verified email opens the account that has it. */
  linksByEmail: boolean;
}

export type Claims = Readonly<Record<string, unknown>>;

const EMAIL = ['email', 'email_verified'] as const;

/**
 * Claims that the rules read, from sources in the order of their weight. Claims that belong
 * together are of one source: another one must not verify an address that it does not name.
 */
export function claimsOf(
  { nameClaim, groupsClaim }: Pick<SignOnRules, 'nameClaim' | 'groupsClaim'>,
  sources: readonly Claims[],
): Claims {
  const taken: Record<string, unknown> = {};
  for (const group of [['sub'], EMAIL, [nameClaim], [groupsClaim]]) {
    const isIn = (source: Claims) => (claim: string) => source[claim] !== undefined;
    if (group.some(isIn(taken))) continue;
    const whole = sources.find((source) => group.every(isIn(source)));
    const source = whole ?? sources.find((one) => group.some(isIn(one)));
    for (const claim of group) taken[claim] = source?.[claim];
  }
  return taken;
}

/** Whether another source may hold a claim that the rules read. */
export function lacksClaims(rules: SignOnRules, claims: Claims): boolean {
  const { nameClaim, groupsClaim, emailDomains, groups, rolesByGroup, linksByEmail } = rules;
  const needed = [
    nameClaim,
    ...(emailDomains.length > 0 || linksByEmail ? EMAIL : []),
    ...(groups.length > 0 || rolesByGroup.size > 0 ? [groupsClaim] : []),
  ];
  return needed.some((claim) => claims[claim] === undefined);
}

export interface Identity {
  issuer: string;
  subject: string;
  username: string;
  /** Verified; else empty. */
  email: string;
  /** Null: the account keeps its role. */
  role: Role | null;
}

const MAX_NAME = 63;
const MAX_SUBJECT = 255;

const textOf = (claim: unknown): string => (typeof claim === 'string' ? claim.trim() : '');

const listOf = (claim: unknown): string[] =>
  (Array.isArray(claim) ? claim : [claim]).filter((item): item is string => typeof item === 'string');

/** Text before an @, in the form of names of accounts. */
const nameOf = (claim: string): string =>
  (claim.split('@')[0] ?? '')
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]+/g, '-')
    .replace(/^[^a-z0-9]+/, '')
    .slice(0, MAX_NAME);

/** Text behind the last @, as a quoted local part may have others; empty: no email address. */
const domainOf = (email: string): string => /^.+@([^@]+)$/.exec(email)?.[1] ?? '';

const refuse = (why: string): never => {
  throw new Refusal('forbidden', `${why}; ask an administrator`);
};

/** Throws `forbidden` unless the rules allow the login. */
export function identityOf(rules: SignOnRules, issuer: string, claims: Claims): Identity {
  const subject = textOf(claims['sub']);
  if (subject === '' || subject.length > MAX_SUBJECT) refuse('the login provider names no subject ("sub")');
  const isVerified = claims['email_verified'] === true;
  const given = isVerified ? textOf(claims['email']).toLowerCase() : '';
  const domain = domainOf(given);
  const email = domain === '' ? '' : given;
  if (rules.emailDomains.length > 0 && !rules.emailDomains.includes(domain))
    refuse(
      isVerified
        ? `the email address ${JSON.stringify(given)} is not in a domain that may log in here`
        : 'the login provider has not verified your email address, and only some domains may log in here',
    );
  const groups = listOf(claims[rules.groupsClaim]);
  if (rules.groups.length > 0 && !rules.groups.some((group) => groups.includes(group)))
    refuse('none of your groups at the login provider may log in here');
  const username = nameOf(textOf(claims[rules.nameClaim]));
  if (!usernamePattern.test(username))
    refuse(`the login provider sends no usable name in the claim "${rules.nameClaim}"`);
  return { issuer, subject, username, email, role: roleOf(rules, groups) };
}

function roleOf({ rolesByGroup }: SignOnRules, groups: readonly string[]): Role | null {
  if (rolesByGroup.size === 0) return null;
  const given = groups.map((group) => rolesByGroup.get(group));
  return roles.findLast((role) => given.includes(role)) ?? USER_ROLE;
}
