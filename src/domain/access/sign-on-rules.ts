/** Rules for accounts whose logins a provider of OpenID Connect vouches for. */
import { Refusal } from '../kernel/refusal.ts';
import { roles, USER_ROLE, type Role } from './roles.ts';
import {
  comparableDomain,
  comparableGroup,
  domainOf,
  emailOf,
  groupsOf,
  idOf,
  isLeftOut,
  lacksClaim,
  nameOf,
  type Claims,
  type EmailState,
} from './sign-on-claims.ts';

/** Addresses that count as verified: those that the provider does not deny, or all. */
export const emailTrusts = ['verified', 'unless-denied', 'always'] as const;

export interface SignOnRules {
  nameClaim: string;
  groupsClaim: string;
  /** A verified email in one of them is needed; empty: none is. */
  emailDomains: readonly string[];
  trustsEmail: (typeof emailTrusts)[number];
  /** Groups of which one is needed; empty: none is. */
  groups: readonly string[];
  /** Roles by group; empty: logins change no role. */
  rolesByGroup: ReadonlyMap<string, Role>;
  /** Whether a verified email opens the account that has it. */
  linksByEmail: boolean;
}

export const readsGroups = ({ groups, rolesByGroup }: SignOnRules): boolean =>
  groups.length > 0 || rolesByGroup.size > 0;

/** Whether another source may hold a claim that the rules read. */
export function lacksClaims(rules: SignOnRules, claims: Claims): boolean {
  const { nameClaim, groupsClaim, emailDomains, linksByEmail, trustsEmail } = rules;
  const readsEmail = emailDomains.length > 0 || linksByEmail;
  const needed = [
    nameClaim,
    ...(readsEmail ? ['email'] : []),
    ...(readsEmail && trustsEmail !== 'always' ? ['email_verified'] : []),
    ...(readsGroups(rules) ? [groupsClaim] : []),
  ];
  return needed.some((claim) => lacksClaim(claims, claim));
}

export interface Identity {
  issuer: string;
  subject: string;
  /** Session at the provider; null: the provider names none. */
  sid: string | null;
  username: string;
  /** Verified; else empty. */
  email: string;
  /** Null: the account keeps its role. */
  role: Role | null;
}

export interface LoginDecision {
  identity: Identity;
  emailReason: string;
  roleReason: string;
  /** Sentence for the log; null: none. */
  notice: string | null;
}

/** Logged with a refusal. */
interface Cause {
  claim: string;
  value: unknown;
  setting: string;
}

function refuse(why: string, detail: Cause): never {
  throw new Refusal('forbidden', why, { detail: { ...detail, value: detail.value ?? null } });
}

/** `claims`: of `claimsOf`. Throws `forbidden`, with the cause as its detail. */
export function decideLogin(rules: SignOnRules, issuer: string, claims: Claims): LoginDecision {
  const subject = idOf(claims['sub']);
  if (subject === null) {
    const cause = { claim: 'sub', value: claims['sub'], setting: 'BERTH_OIDC_ISSUER' };
    refuse(
      'the login provider names no subject ("sub") of 1 to 255 characters without control characters; ask an administrator',
      cause,
    );
  }
  const { email, emailReason } = decideEmail(rules, claims);
  const groups = groupsOf(claims[rules.groupsClaim])?.map(comparableGroup) ?? null;
  refuseOtherGroups(rules, claims, groups);
  const { role, roleReason } = decideRole(rules, claims, groups);
  const username = nameOf(claims, rules.nameClaim);
  const notice = groups === null && readsGroups(rules) ? roleReason : null;
  return {
    identity: { issuer, subject, sid: idOf(claims['sid']), username, email, role },
    emailReason,
    roleReason,
    notice,
  };
}

const emailReasons: Record<EmailState, string> = {
  verified: 'the provider says that it is verified',
  denied: 'the provider says that it is not verified',
  unstated: 'the provider does not say whether it is verified',
  absent: 'the provider sends no email address',
};

function decideEmail(rules: SignOnRules, claims: Claims): { email: string; emailReason: string } {
  const { address, state } = emailOf(claims);
  const isTrusted =
    state === 'verified' ||
    (state === 'unstated' && rules.trustsEmail !== 'verified') ||
    (state === 'denied' && rules.trustsEmail === 'always');
  const email = isTrusted ? address : '';
  const sent = JSON.stringify(claims['email_verified']);
  const emailReason =
    state === 'absent'
      ? emailReasons.absent
      : `${address}: ${emailReasons[state]}${sent === undefined ? '' : ` (email_verified is ${sent})`}, so it ${isTrusted ? 'counts' : 'does not count'}`;
  if (rules.emailDomains.length > 0) refuseOtherEmails(rules, claims, { email, address, state });
  return { email, emailReason };
}

function refuseOtherEmails(
  { emailDomains }: SignOnRules,
  claims: Claims,
  { email, address, state }: { email: string; address: string; state: EmailState },
): void {
  if (emailDomains.includes(comparableDomain(domainOf(email)))) return;
  const shown = JSON.stringify(address);
  if (state === 'absent') {
    const cause = { claim: 'email', value: claims['email'], setting: 'BERTH_OIDC_EMAIL_DOMAINS' };
    refuse(
      'the login provider sends no email address of yours, and only some domains may log in here; ask an administrator',
      cause,
    );
  }
  if (email !== '') {
    const cause = { claim: 'email', value: address, setting: 'BERTH_OIDC_EMAIL_DOMAINS' };
    refuse(`the email address ${shown} is not in a domain that may log in here; ask an administrator`, cause);
  }
  const cause = { claim: 'email_verified', value: claims['email_verified'], setting: 'BERTH_OIDC_TRUST_EMAIL' };
  if (state === 'denied')
    refuse(
      `the login provider says that your email address ${shown} is not verified: verify it there and log in again, or ask an administrator`,
      cause,
    );
  refuse(
    `the login provider does not say whether your email address ${shown} is verified, and only verified addresses may log in here; ask an administrator`,
    cause,
  );
}

const noGroups = ({ groupsClaim }: SignOnRules, claims: Claims): string => {
  const name = JSON.stringify(groupsClaim);
  if (isLeftOut(claims, groupsClaim))
    return `the provider left the claim ${name} out, because the person has too many groups`;
  const value = claims[groupsClaim];
  return value === undefined || value === null
    ? `the provider sends no claim ${name}`
    : `the claim ${name} holds no names of groups`;
};

function refuseOtherGroups(rules: SignOnRules, claims: Claims, given: string[] | null): void {
  const { groups, groupsClaim: claim } = rules;
  if (groups.length === 0 || groups.some((group) => given?.includes(comparableGroup(group)))) return;
  const cause = { claim, value: claims[claim], setting: 'BERTH_OIDC_GROUPS' };
  if (given !== null) refuse('none of your groups at the login provider may log in here; ask an administrator', cause);
  const setting = 'BERTH_OIDC_GROUPS_CLAIM';
  refuse('the login provider does not name your groups, and only some may log in here; ask an administrator', {
    ...cause,
    value: cause.value ?? noGroups(rules, claims),
    setting,
  });
}

function decideRole(
  rules: SignOnRules,
  claims: Claims,
  given: string[] | null,
): { role: Role | null; roleReason: string } {
  if (rules.rolesByGroup.size === 0)
    return { role: null, roleReason: 'BERTH_OIDC_ROLES is not set, so logins change no role' };
  if (given === null) return { role: null, roleReason: `${noGroups(rules, claims)}, so the login changes no role` };
  const matching = [...rules.rolesByGroup].filter(([group]) => given.includes(comparableGroup(group)));
  for (const role of roles.toReversed()) {
    const [group] = matching.find(([, ofGroup]) => ofGroup === role) ?? [];
    if (group !== undefined) return { role, roleReason: `the group ${JSON.stringify(group)} gives it` };
  }
  const names = given.length === 0 ? 'there are none' : given.map((name) => JSON.stringify(name)).join(', ');
  return { role: USER_ROLE, roleReason: `no group has a role in BERTH_OIDC_ROLES (${names})` };
}
