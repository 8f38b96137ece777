import {
  type Credential,
  type Forwarding,
  type GatewayRoute,
  type IdentifyCredential,
  copyString,
} from '../../control/index.ts';
import { allowsAccount, type PortAccess } from '../../domain/port-access.ts';
import { Refusal } from '../../domain/refusal.ts';
import { crossSite, linkEnded, notFound, notLoggedIn, serviceWorkerRefused } from './answers.ts';
import type { Answer } from './answers.ts';
import { isSecure, sessionSecretOf, shareTokenOf } from './cookies.ts';
import type { Credentials, Presented } from './credentials.ts';
import type { Head } from './head.ts';
import type { InstanceTarget, Place } from './routing.ts';

/** What a visitor was let in by; asked again for what stays open long. */
export type Evidence =
  | { kind: 'public' }
  | { kind: 'session'; secret: string; accountId: string }
  | { kind: 'credential'; credential: Credential; accountId: string }
  | { kind: 'share'; token: string };

/** The same, to be kept for longer than the headers that it was cut from. */
export function lasting(evidence: Evidence): Evidence {
  switch (evidence.kind) {
    case 'public':
      return evidence;
    case 'session':
      return { ...evidence, secret: copyString(evidence.secret) };
    case 'credential': {
      const { credential } = evidence;
      return {
        ...evidence,
        credential:
          credential.kind === 'token'
            ? { kind: 'token', token: copyString(credential.token) }
            : { kind: 'apiKey', key: copyString(credential.key) },
      };
    }
    case 'share':
      return { ...evidence, token: copyString(evidence.token) };
    default:
      return evidence satisfies never;
  }
}

export interface Admitted {
  route: GatewayRoute;
  evidence: Evidence;
  /** Shown to be the owner; the content of others is sandboxed. */
  owner: boolean;
  /** What the browser is to keep, of who brought a link. */
  setCookie?: string;
}

export type Admission = Admitted | { refused: Answer };

export interface Visit {
  head: Head;
  credentials: Credentials;
  target: InstanceTarget;
  /** Of a link to a port, shown by query or header. */
  shareToken: string | null;
  method: string;
  upgrade: boolean;
  /** `https://gateway.example`: what pages of this gateway have as their origin. */
  ownOrigin: string;
}

export interface AdmissionDeps {
  forwarding: Pick<Forwarding, 'route' | 'session' | 'share'>;
  authenticate: IdentifyCredential;
  apiOrigin: () => string;
}

const PUBLIC: Evidence = { kind: 'public' };

export async function admit(deps: AdmissionDeps, visit: Visit): Promise<Admission> {
  const { head, target } = visit;
  const route = await deps.forwarding.route(target.instanceId);
  const access = route === null ? 'owner' : accessTo(route, target);
  // Most requests to public ports bring nothing that would have to be looked at.
  const bare =
    head.authorization === null && head.apiKey === null && head.cookies.length === 0 && !head.serviceWorkerScript;
  if (bare && route !== null && access === 'public') return { route, evidence: PUBLIC, owner: false };
  const admission =
    route !== null && access === 'public'
      ? await admitAnybody(deps, visit, route)
      : await admitSome(deps, visit, route, access);
  // On a host of its own it serves none but itself.
  const mayInstall = target.surface === 'host' || !head.serviceWorkerScript;
  if ('refused' in admission || admission.owner || mayInstall) return admission;
  return { refused: serviceWorkerRefused() };
}

const accessTo = (route: GatewayRoute, { surface, port }: Place): PortAccess =>
  (surface !== 'notebook' && route.access.get(port)) || 'owner';

async function admitAnybody(deps: AdmissionDeps, visit: Visit, route: GatewayRoute): Promise<Admitted> {
  const login = await shownLogin(deps, visit, visit.credentials.presentedBy(visit.head));
  const owner = login !== null && login !== 'crossSite' && login.accountId === route.ownerId;
  return { route, evidence: PUBLIC, owner };
}

/** In by what one is, or by a link. What is looked at, and in which order, must not depend on whether there is a route. */
async function admitSome(
  deps: AdmissionDeps,
  visit: Visit,
  route: GatewayRoute | null,
  access: PortAccess,
): Promise<Admission> {
  const presented = visit.credentials.presentedBy(visit.head);
  const login = await shownLogin(deps, visit, presented);
  const come = (by: Login): Admitted | null =>
    route !== null && allowsAccount(access, by.accountId, route.ownerId)
      ? { route, evidence: by.evidence, owner: by.accountId === route.ownerId }
      : null;
  const asAccount = login === null || login === 'crossSite' ? null : come(login);
  if (asAccount !== null) return asAccount;
  const link = await shownLink(deps, visit);
  if (link !== null && link !== 'crossSite' && route !== null) return { route, evidence: link, owner: false };
  if (login === 'crossSite' || link === 'crossSite') return { refused: crossSite() };
  // One not recognised may still be good, for instance after the issuer was renamed.
  const guessed = login === null && presented?.ours === false ? await loginBy(deps, presented.credential) : null;
  const found = login ?? guessed;
  if (found === null) return { refused: (visit.shareToken === null ? notLoggedIn : linkEnded)(deps.apiOrigin()) };
  return come(found) ?? { refused: notFound(deps.apiOrigin()) };
}

interface Login {
  accountId: string;
  evidence: Evidence;
}

/** By a credential that is recognised as ours, else by the session; `crossSite`: of a page of elsewhere that would do something. */
const shownLogin = (
  deps: AdmissionDeps,
  visit: Visit,
  presented: Presented | null,
): Promise<Login | 'crossSite' | null> =>
  presented?.ours === true ? loginBy(deps, presented.credential) : sessionLogin(deps, visit);

async function loginBy({ authenticate }: AdmissionDeps, credential: Credential): Promise<Login | null> {
  try {
    const { accountId } = await authenticate(credential);
    return { accountId, evidence: { kind: 'credential', credential, accountId } };
  } catch (error) {
    if (error instanceof Refusal && error.code === 'not_logged_in') return null;
    throw error;
  }
}

async function sessionLogin({ forwarding }: AdmissionDeps, visit: Visit): Promise<Login | 'crossSite' | null> {
  const secret = sessionSecretOf(visit.head.cookies, isSecure(visit.ownOrigin));
  const weight = secret === null ? 'ignored' : cookieWeight(visit);
  if (weight === 'refused') return 'crossSite';
  if (secret === null || weight === 'ignored') return null;
  const session = await forwarding.session(secret);
  if (session === null) return null;
  const { accountId } = session;
  return { accountId, evidence: { kind: 'session', secret, accountId } };
}

/** By a token that is shown, else by the cookie that was made of one. */
async function shownLink(deps: AdmissionDeps, visit: Visit): Promise<Evidence | 'crossSite' | null> {
  const { head, target, shareToken } = visit;
  if (target.surface === 'notebook') return null;
  const kept = shareToken === null ? shareTokenOf(head.cookies, isSecure(visit.ownOrigin), target.surface) : null;
  const weight = kept === null ? 'counts' : cookieWeight(visit);
  if (weight === 'refused') return 'crossSite';
  const token = shareToken ?? kept;
  if (token === null || weight === 'ignored') return null;
  return (await opens(deps, token, target)) ? { kind: 'share', token } : null;
}

async function opens(deps: AdmissionDeps, token: string, target: Place): Promise<boolean> {
  const opened = await deps.forwarding.share(token);
  return opened !== null && opened.instanceId === target.instanceId && opened.port === target.port;
}

/**
 * What the cookie of a request is worth. `ignored`: sandboxed content sends `Origin: null`, and a stranger's page that embeds
 * something of ours is nobody. `refused`: what would change something, or open a channel, from elsewhere.
 */
export function cookieWeight({
  head,
  method,
  upgrade,
  ownOrigin,
}: Pick<Visit, 'head' | 'method' | 'upgrade' | 'ownOrigin'>): 'counts' | 'ignored' | 'refused' {
  const { origin, fetchSite } = head;
  if (origin === 'null') return 'ignored';
  const unsafe = upgrade || (method !== 'GET' && method !== 'HEAD' && method !== 'OPTIONS');
  if (origin !== null) return origin === ownOrigin ? 'counts' : 'refused';
  if (fetchSite === 'same-origin' || fetchSite === 'none') return 'counts';
  // Neither header: plain HTTP that is not this machine. Browsers send an Origin with all that is unsafe, there too.
  if (unsafe) return 'refused';
  if (fetchSite === null) return 'counts';
  return head.fetchMode === 'navigate' && head.fetchDest === 'document' ? 'counts' : 'ignored';
}

/** Whether what was let in before would still be. Faults of the store change nothing: unknown is not ended. */
export async function stillAdmitted(deps: AdmissionDeps, target: Place, evidence: Evidence): Promise<boolean> {
  const route = await deps.forwarding.route(target.instanceId);
  if (route === null) return false;
  const access = accessTo(route, target);
  const mayStay = (accountId: string | null): boolean => allowsAccount(access, accountId, route.ownerId);
  switch (evidence.kind) {
    case 'public':
      return mayStay(null);
    case 'session':
      return mayStay((await deps.forwarding.session(evidence.secret))?.accountId ?? null);
    case 'credential':
      return mayStay((await loginBy(deps, evidence.credential))?.accountId ?? null);
    case 'share':
      return mayStay(null) || opens(deps, evidence.token, target);
    default:
      return evidence satisfies never;
  }
}
