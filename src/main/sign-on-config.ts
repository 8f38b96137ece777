/** Settings of a login provider of OpenID Connect. */
import { roles, type Role } from '../domain/access/roles.ts';

interface SignOnSettings {
  BERTH_OIDC_ISSUER?: string | undefined;
  BERTH_OIDC_CLIENT_ID?: string | undefined;
  BERTH_OIDC_CLIENT_SECRET_FILE?: string | undefined;
  BERTH_OIDC_SCOPES: string;
  BERTH_OIDC_NAME_CLAIM: string;
  BERTH_OIDC_GROUPS_CLAIM: string;
  BERTH_OIDC_EMAIL_DOMAINS?: string[] | undefined;
  BERTH_OIDC_GROUPS?: string[] | undefined;
  BERTH_OIDC_ROLES?: ReadonlyMap<string, Role> | undefined;
  BERTH_OIDC_LINK: 'off' | 'verified-email';
}

/** Over plain HTTP only on this machine: tokens would be readable. */
export function issuerOf(given: string): string | null {
  const parsed = URL.parse(given);
  if (!parsed || parsed.search + parsed.hash !== '') return null;
  const isHere = ['localhost', '127.0.0.1', '[::1]'].includes(parsed.hostname);
  return parsed.protocol === 'https:' || (parsed.protocol === 'http:' && isHere) ? given : null;
}

/** `admin=group,operator=group`; null for another form. */
export function rolesByGroupOf(given: string): ReadonlyMap<string, Role> | null {
  const byGroup = new Map<string, Role>();
  for (const part of given.split(',')) {
    const [name, group = ''] = part.trim().split(/=(.*)/s);
    const role = roles.find((known) => known === name);
    if (role === undefined || group === '' || byGroup.has(group)) return null;
    byGroup.set(group, role);
  }
  return byGroup;
}

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
    emailDomains: emailDomains.map((domain) => domain.toLowerCase()),
    groups,
    rolesByGroup: data.BERTH_OIDC_ROLES ?? new Map<string, Role>(),
    linksByEmail: data.BERTH_OIDC_LINK === 'verified-email',
  };
  return { issuer, clientId, secretFile, scopes: data.BERTH_OIDC_SCOPES, rules };
}
