/**
 * Who may come in. Ports in `route.publicPorts` are everybody's under /forward and on their own hosts; the notebook and all other ports are the owner's
 * alone, by a credential in a header or by the gateway's own session cookie. The API's cookie is never looked at.
 *
 * A stranger gets the same 401 for an instance that is unknown and for what is private; somebody logged in gets the same 404 for
 * one that is unknown and for another account's. So neither learns which ids exist.
 *
 * The cookie counts only where the browser was not made to send it by a page of elsewhere. SameSite=Lax does not see to that
 * alone: other ports of the same host, which instances can publish, are the same site.
 */
import type { Credential, Forwarding, GatewayRoute, WhoseCredential } from '../../control/control.ts';
import { Refusal } from '../../domain/refusal.ts';
import { crossSite, notFound, notLoggedIn, serviceWorkerRefused } from './answers.ts';
import type { Answer } from './answers.ts';
import { isSecure, sessionSecretOf } from './cookies.ts';
import { presentedCredential } from './credentials.ts';
import type { Head } from './head.ts';
import type { InstanceTarget } from './routing.ts';

/** What a visitor was let in by; asked again for what stays open long. */
export type Evidence =
  { kind: 'public' } | { kind: 'session'; secret: string } | { kind: 'credential'; credential: Credential };

export interface Admitted {
  route: GatewayRoute;
  evidence: Evidence;
  /** Shown to be the owner; the content of others is sandboxed. */
  owner: boolean;
}

export type Admission = Admitted | { refused: Answer };

export interface Visit {
  head: Head;
  target: InstanceTarget;
  method: string;
  upgrade: boolean;
  /** `https://gateway.example`: what pages of this gateway have as their origin. */
  ownOrigin: string;
}

export interface AdmissionNeeds {
  forwarding: Pick<Forwarding, 'route' | 'session'>;
  authenticate: WhoseCredential;
  apiOrigin: () => string;
  issuer: string;
}

const PUBLIC: Evidence = { kind: 'public' };

export async function admit(needs: AdmissionNeeds, visit: Visit): Promise<Admission> {
  const { head, target } = visit;
  const route = await needs.forwarding.route(target.instanceId);
  // Most requests to public ports bring nothing that would have to be looked at.
  const bare =
    head.authorization === null && head.apiKey === null && head.cookies.length === 0 && !head.serviceWorkerScript;
  if (bare && route !== null && isPublic(route, target)) return { route, evidence: PUBLIC, owner: false };
  const admission =
    route !== null && isPublic(route, target)
      ? await admitAnybody(needs, visit, route)
      : await admitOwner(needs, visit, route);
  // On a host of its own it serves none but itself.
  const mayInstall = target.surface === 'host' || !head.serviceWorkerScript;
  if ('refused' in admission || admission.owner || mayInstall) return admission;
  return { refused: serviceWorkerRefused() };
}

const isPublic = (route: GatewayRoute, target: InstanceTarget): boolean =>
  target.surface !== 'notebook' && route.publicPorts.has(target.port);

async function admitAnybody(needs: AdmissionNeeds, visit: Visit, route: GatewayRoute): Promise<Admitted> {
  const presented = presentedCredential(visit.head, needs.issuer);
  if (presented?.ours === true) {
    const accountId = await accountOf(needs.authenticate, presented.credential);
    return { route, evidence: PUBLIC, owner: accountId === route.ownerId };
  }
  const secret = sessionSecretOf(visit.head.cookies, isSecure(visit.ownOrigin));
  if (secret === null || cookieWeight(visit) !== 'counts') return { route, evidence: PUBLIC, owner: false };
  const session = await needs.forwarding.session(secret);
  return { route, evidence: PUBLIC, owner: session?.accountId === route.ownerId };
}

async function admitOwner(needs: AdmissionNeeds, visit: Visit, route: GatewayRoute | null): Promise<Admission> {
  const presented = presentedCredential(visit.head, needs.issuer);
  let accountId: string | null = null;
  let evidence: Evidence = PUBLIC;
  if (presented?.ours !== true) {
    const secret = sessionSecretOf(visit.head.cookies, isSecure(visit.ownOrigin));
    const weight = secret === null ? 'ignored' : cookieWeight(visit);
    if (weight === 'refused') return { refused: crossSite() };
    if (secret !== null && weight === 'counts') {
      accountId = (await needs.forwarding.session(secret))?.accountId ?? null;
      evidence = { kind: 'session', secret };
    }
  }
  // One not recognised may still be good, for instance after the issuer was renamed.
  if (accountId === null && presented !== null) {
    accountId = await accountOf(needs.authenticate, presented.credential);
    evidence = { kind: 'credential', credential: presented.credential };
  }
  if (accountId === null) return { refused: notLoggedIn(needs.apiOrigin()) };
  if (route === null || route.ownerId !== accountId) return { refused: notFound(needs.apiOrigin()) };
  return { route, evidence, owner: true };
}

async function accountOf(authenticate: WhoseCredential, credential: Credential): Promise<string | null> {
  try {
    return (await authenticate(credential)).accountId;
  } catch (error) {
    if (error instanceof Refusal && error.code === 'not_logged_in') return null;
    throw error;
  }
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
}: Omit<Visit, 'target'>): 'counts' | 'ignored' | 'refused' {
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
export async function stillAdmitted(
  needs: AdmissionNeeds,
  target: InstanceTarget,
  evidence: Evidence,
): Promise<boolean> {
  const route = await needs.forwarding.route(target.instanceId);
  if (route === null) return false;
  switch (evidence.kind) {
    case 'public':
      return isPublic(route, target);
    case 'session':
      return (await needs.forwarding.session(evidence.secret))?.accountId === route.ownerId;
    case 'credential':
      return (await accountOf(needs.authenticate, evidence.credential)) === route.ownerId;
    default:
      return evidence satisfies never;
  }
}
