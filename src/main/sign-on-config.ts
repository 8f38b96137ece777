/** Settings of a login provider of OpenID Connect. */
import { z } from 'zod';
import { roles, type Role } from '../domain/access/roles.ts';
import { isIssuer } from '../domain/access/issuer.ts';
import { comparableDomain, comparableGroup, isDistinguishedName } from '../domain/access/sign-on-claims.ts';
import { emailTrusts } from '../domain/access/sign-on-rules.ts';
import { tokenAuths } from '../edge/http/access/login-provider.ts';
import { hostName, list, text } from './setting-types.ts';

/** False for several names, whose kinds of parts begin again: `CN=a,OU=x,CN=b,OU=x`. */
function isOneDistinguishedName(text: string): boolean {
  const parts = text.split(/(?<!\\),/);
  const kinds = parts.map((part) => (part.split('=')[0] ?? '').trim().toLowerCase());
  const runs = kinds.filter((kind, index) => kind !== kinds[index - 1]);
  return parts.every(isDistinguishedName) && new Set(runs).size === runs.length;
}

const ROLE_PART = new RegExp(`,\\s*(?=(?:${roles.join('|')})=)|;`);

/**
 * `admin=group,operator=group`; a distinguished name may have commas. Null for another form.
 */
function rolesByGroupOf(given: string): ReadonlyMap<string, Role> | null {
  const byGroup = new Map<string, Role>();
  for (const part of given.split(ROLE_PART)) {
    const [name, text = ''] = part.trim().split(/=(.*)/s);
    const group = text.trim();
    const role = roles.find((known) => known === name);
    if (role === undefined || group === '' || (group.includes(',') && !isOneDistinguishedName(group))) return null;
    if ([...byGroup.keys()].some((other) => comparableGroup(other) === comparableGroup(group))) return null;
    byGroup.set(group, role);
  }
  return byGroup;
}

/** Names separated by commas; by semicolons where they have commas. */
function groupNamesOf(given: string): string[] | null {
  const hasCommas = given.includes(';') || given.split(/(?<!\\),/).every(isDistinguishedName);
  const names = given.split(hasCommas ? ';' : ',').map((name) => name.trim());
  const isWrong = (name: string) => name === '' || (isDistinguishedName(name) && !isOneDistinguishedName(name));
  return names.some(isWrong) ? null : names;
}

export const signOnSettings = {
  BERTH_OIDC_ISSUER: text(
    (given) => (isIssuer(given) ? given : null),
    'must be the https URL of a login provider, as it names itself',
  ).optional(),
  BERTH_OIDC_DISPLAY_NAME: z.string().max(60, { error: 'must have at most 60 characters' }).optional(),
  BERTH_OIDC_CLIENT_ID: z.string().min(1).optional(),
  BERTH_OIDC_CLIENT_SECRET_FILE: z.string().startsWith('/', { error: 'must be an absolute path' }).optional(),
  BERTH_OIDC_TOKEN_AUTH: z.enum(tokenAuths).optional(),
  BERTH_OIDC_SCOPES: z
    .string()
    .regex(/\bopenid\b/, { error: 'must be scopes with "openid", for example openid profile email groups' })
    .default('openid profile email'),
  BERTH_OIDC_NAME_CLAIM: z.string().default('preferred_username'),
  BERTH_OIDC_GROUPS_CLAIM: z.string().default('groups'),
  BERTH_OIDC_EMAIL_DOMAINS: list(z.string().overwrite(comparableDomain).pipe(hostName)).optional(),
  BERTH_OIDC_TRUST_EMAIL: z.enum(emailTrusts).default('verified'),
  BERTH_OIDC_GROUPS: text(
    groupNamesOf,
    'must be names of groups, separated by commas, and distinguished names by semicolons',
  ).optional(),
  BERTH_OIDC_ROLES: text(
    rolesByGroupOf,
    'must be roles (user, operator, admin) with a group each, for example admin=berth-admins,operator=berth-ops, or admin=CN=berth-admins,OU=groups;operator=CN=ops,OU=groups',
  ).optional(),
  BERTH_OIDC_LOGOUT: z.enum(['provider', 'berth']).default('provider'),
  BERTH_OIDC_LINK: z.enum(['off', 'verified-email']).default('off'),
};

type SignOnSettings = z.output<z.ZodObject<typeof signOnSettings>>;

/** Null without a provider. `wrong` makes the error of a setting. */
export function signOnOf(data: SignOnSettings, wrong: (setting: string, reason: string) => Error) {
  const { BERTH_OIDC_ISSUER: issuer, BERTH_OIDC_CLIENT_ID: clientId, BERTH_OIDC_CLIENT_SECRET_FILE: secretFile } = data;
  const [emailDomains, groups] = [data.BERTH_OIDC_EMAIL_DOMAINS ?? [], data.BERTH_OIDC_GROUPS ?? []];
  if (issuer === undefined) {
    if (clientId === undefined && secretFile === undefined) return null;
    throw wrong('BERTH_OIDC_ISSUER', 'must be set, because other settings of the login provider are set');
  }
  if (clientId === undefined) throw wrong('BERTH_OIDC_CLIENT_ID', 'must be set, because BERTH_OIDC_ISSUER is set');
  if (secretFile === undefined)
    throw wrong('BERTH_OIDC_CLIENT_SECRET_FILE', 'must be set, because BERTH_OIDC_ISSUER is set');
  if (emailDomains.length + groups.length === 0) {
    const reason = 'or BERTH_OIDC_GROUPS must be set: without, every account of the provider could log in';
    throw wrong('BERTH_OIDC_EMAIL_DOMAINS', reason);
  }
  const rules = {
    nameClaim: data.BERTH_OIDC_NAME_CLAIM,
    groupsClaim: data.BERTH_OIDC_GROUPS_CLAIM,
    emailDomains,
    groups,
    rolesByGroup: data.BERTH_OIDC_ROLES ?? new Map<string, Role>(),
    trustsEmail: data.BERTH_OIDC_TRUST_EMAIL,
    linksByEmail: data.BERTH_OIDC_LINK === 'verified-email',
  };
  return {
    issuer,
    displayName: data.BERTH_OIDC_DISPLAY_NAME ?? null,
    clientId,
    secretFile,
    tokenAuth: data.BERTH_OIDC_TOKEN_AUTH ?? null,
    scopes: data.BERTH_OIDC_SCOPES,
    rules,
    endsAtProvider: data.BERTH_OIDC_LOGOUT === 'provider',
  };
}
