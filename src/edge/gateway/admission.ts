import type { Credential, Forwarding, GatewayRoute, IdentifyCredential } from '../../control/index.ts';
import { allowsAccount, type PortAccess } from '../../domain/access/port-access.ts';
import { whyNotFrom, type KeyLimits } from '../../domain/access/api-key.ts';
import { mayUse } from '../../domain/access/scopes.ts';
import { Refusal } from '../../domain/kernel/refusal.ts';
import {
  crossSite,
  keyLimited,
  linkEnded,
  notFound,
  notLoggedInHere,
  serviceWorkerRefused,
  type Answer,
} from './answers.ts';
import { isSecure, sessionSecretOf, shareTokenOf } from './cookies.ts';
import type { Credentials, Presented } from './credentials.ts';
import type { Head } from './head.ts';
import { loginLink } from './login-link.ts';
import type { InstanceTarget, PortAddress } from './routing.ts';

/** Credential that authorized a request; rechecked while a long connection stays open. */
export type AccessGrant =
  | { kind: 'public' }
  | ({ kind: 'session'; secret: string } & LoginFacts)
  | ({ kind: 'credential'; credential: Credential } & LoginFacts)
  | { kind: 'share'; token: string };

interface LoginFacts {
  accountId: string;
  limits?: KeyLimits;
}

/** Copies the credential: a slice would retain the whole header text. */
export const detachedCopy = (accessGrant: AccessGrant): AccessGrant => structuredClone(accessGrant);

export interface Authorized {
  route: GatewayRoute;
  accessGrant: AccessGrant;
  /** True for the owner. Content of other owners is sandboxed. */
  owner: boolean;
  /** `Set-Cookie` for a visitor who authenticated by share link, or of the owner's app. */
  setCookie?: string | undefined;
}

export type Admission = Authorized | { refused: Answer };

export interface AuthRequest {
  head: Head;
  credentials: Credentials;
  target: InstanceTarget;
  shareToken: string | null;
  method: string;
  upgrade: boolean;
  /** Origin of this gateway's own pages, for instance `https://gateway.example`. */
  ownOrigin: string;
  from: () => string;
}

export interface AdmissionDeps {
  forwarding: Pick<Forwarding, 'route' | 'session' | 'share'>;
  authenticate: IdentifyCredential;
  apiUrl: string;
}

const NO_SCOPE =
  'this API key lacks the scope "instances": create a key with this scope, or send the access token of a login';

const PUBLIC: AccessGrant = { kind: 'public' };

export async function authorize(deps: AdmissionDeps, authRequest: AuthRequest): Promise<Admission> {
  const { head, target } = authRequest;
  const route = await deps.forwarding.route(target.instanceId);
  const access = route === null ? 'owner' : accessTo(route, target);
  // Fast path: most requests to public ports carry no credential.
  const bare =
    head.authorization === null && head.apiKey === null && head.cookies.length === 0 && !head.serviceWorkerScript;
  if (bare && route !== null && access === 'public') return { route, accessGrant: PUBLIC, owner: false };
  const admission =
    route !== null && access === 'public'
      ? await authorizeAnybody(deps, authRequest, route)
      : await authorizeCredential(deps, authRequest, route, access);
  // A service worker is allowed on a port's own host only.
  const mayInstall = target.mount === 'host' || !head.serviceWorkerScript;
  if ('refused' in admission || admission.owner || mayInstall) return admission;
  return { refused: serviceWorkerRefused() };
}

const accessTo = (route: GatewayRoute, { mount, port }: PortAddress): PortAccess =>
  (mount !== 'notebook' && route.access.get(port)) || 'owner';

async function authorizeAnybody(
  deps: AdmissionDeps,
  authRequest: AuthRequest,
  route: GatewayRoute,
): Promise<Authorized> {
  const login = await presentedLogin(deps, authRequest, authRequest.credentials.presentedBy(authRequest.head));
  const owner = isLogin(login) && login.accountId === route.ownerId;
  return { route, accessGrant: PUBLIC, owner };
}

/** Authorizes by identity or link. Checks and order must not depend on whether the route exists. */
async function authorizeCredential(
  deps: AdmissionDeps,
  authRequest: AuthRequest,
  route: GatewayRoute | null,
  access: PortAccess,
): Promise<Admission> {
  const presented = authRequest.credentials.presentedBy(authRequest.head);
  const login = await presentedLogin(deps, authRequest, presented);
  const come = (by: Login): Authorized | null =>
    route !== null && allowsAccount(access, by.accountId, route.ownerId)
      ? { route, accessGrant: by.accessGrant, owner: by.accountId === route.ownerId }
      : null;
  const asAccount = isLogin(login) ? come(login) : null;
  if (asAccount !== null) return asAccount;
  const link = await presentedLink(deps, authRequest, access);
  if (link !== null && link !== 'crossSite' && route !== null) return { route, accessGrant: link, owner: false };
  if (login === 'crossSite' || link === 'crossSite') return { refused: crossSite() };
  if (login !== null && 'limit' in login) return { refused: keyLimited(login.limit) };
  // An unrecognized credential can still be valid, for instance after the issuer was renamed.
  const guessed = login === null && presented?.ours === false ? await loginBy(deps, authRequest, presented) : null;
  const found = login ?? (isLogin(guessed) ? guessed : null);
  const { target, ownOrigin, shareToken } = authRequest;
  const visit = { apiUrl: deps.apiUrl, ownOrigin, target };
  if (found === null) return { refused: (shareToken === null ? notLoggedInHere : linkEnded)(loginLink(visit)) };
  return come(found) ?? { refused: notFound(loginLink(visit, 'Log in with another account')) };
}

interface Login {
  accountId: string;
  accessGrant: AccessGrant;
}

/** A valid API key or login whose limits exclude this request. */
interface Limited {
  limit: string;
}

const isLogin = (login: Login | Limited | 'crossSite' | null): login is Login =>
  login !== null && typeof login === 'object' && 'accountId' in login;

/** Authenticates by a known credential, else by session. `crossSite`: unsafe, from another site. */
const presentedLogin = (
  deps: AdmissionDeps,
  authRequest: AuthRequest,
  presented: Presented | null,
): Promise<Login | Limited | 'crossSite' | null> =>
  presented?.ours === true ? loginBy(deps, authRequest, presented) : sessionLogin(deps, authRequest);

async function loginBy(
  deps: AdmissionDeps,
  { from }: AuthRequest,
  { credential }: Presented,
): Promise<Login | Limited | null> {
  const holder = await holderOf(deps, credential);
  if (holder === null || 'limit' in holder) return holder;
  const { accountId, scopes, limits } = holder;
  if (!mayUse(scopes, { subject: 'instances', reads: false })) return { limit: NO_SCOPE };
  const facts = { accountId, ...(limits && { limits }) };
  return limitedTo(from, limits) ?? { accountId, accessGrant: { kind: 'credential', credential, ...facts } };
}

/** Finds the client's address for limited keys only. */
function limitedTo(from: AuthRequest['from'], limits: KeyLimits | undefined): Limited | null {
  const limit = limits?.addresses ? whyNotFrom(limits, from()) : null;
  return limit === null ? null : { limit };
}

async function holderOf(
  { authenticate }: AdmissionDeps,
  credential: Credential,
): Promise<Awaited<ReturnType<IdentifyCredential>> | Limited | null> {
  try {
    return await authenticate(credential);
  } catch (error) {
    if (error instanceof Refusal && error.code === 'not_logged_in') return null;
    if (error instanceof Refusal && error.code === 'forbidden') return { limit: error.message };
    throw error;
  }
}

async function sessionLogin(
  { forwarding }: AdmissionDeps,
  authRequest: AuthRequest,
): Promise<Login | Limited | 'crossSite' | null> {
  const secret = sessionSecretOf(authRequest.head.cookies, isSecure(authRequest.ownOrigin));
  const weight = secret === null ? 'ignored' : cookieWeight(authRequest);
  if (weight === 'refused') return 'crossSite';
  if (secret === null || weight === 'ignored') return null;
  const session = await forwarding.session(secret);
  if (session === null) return null;
  const { accountId, limits } = session;
  const facts = { accountId, ...(limits && { limits }) };
  return limitedTo(authRequest.from, limits) ?? { accountId, accessGrant: { kind: 'session', secret, ...facts } };
}

async function presentedLink(
  deps: AdmissionDeps,
  authRequest: AuthRequest,
  access: PortAccess,
): Promise<AccessGrant | 'crossSite' | null> {
  const { head, target, shareToken } = authRequest;
  if (target.mount === 'notebook' || access === 'loopback') return null;
  const cookieToken =
    shareToken === null ? shareTokenOf(head.cookies, isSecure(authRequest.ownOrigin), target.mount) : null;
  const weight = cookieToken === null ? 'counts' : cookieWeight(authRequest);
  if (weight === 'refused') return 'crossSite';
  const token = shareToken ?? cookieToken;
  if (token === null || weight === 'ignored') return null;
  return (await opens(deps, token, target)) ? { kind: 'share', token } : null;
}

async function opens(deps: AdmissionDeps, token: string, target: PortAddress): Promise<boolean> {
  const opened = await deps.forwarding.share(token);
  return opened !== null && opened.instanceId === target.instanceId && opened.port === target.port;
}

/** `ignored`: `Origin: null` (sandbox) or embedded elsewhere. `refused`: unsafe, cross-site. */
function cookieWeight({ head, method, upgrade, ownOrigin }: AuthRequest): 'counts' | 'ignored' | 'refused' {
  const { origin, fetchSite } = head;
  if (origin === 'null') return 'ignored';
  const unsafe = upgrade || (method !== 'GET' && method !== 'HEAD' && method !== 'OPTIONS');
  if (origin !== null) return origin === ownOrigin ? 'counts' : 'refused';
  if (fetchSite === 'same-origin' || fetchSite === 'none') return 'counts';
  // Plain HTTP beyond localhost sends neither; browsers send `Origin` with unsafe requests.
  if (unsafe) return 'refused';
  if (fetchSite === null) return 'counts';
  return head.fetchMode === 'navigate' && head.fetchDest === 'document' ? 'counts' : 'ignored';
}

async function accountOf(deps: AdmissionDeps, credential: Credential): Promise<string | null> {
  const holder = await holderOf(deps, credential);
  return holder !== null && 'accountId' in holder ? holder.accountId : null;
}

/** Whether the credential still authorizes. Rejects at a store fault: unknown is not revoked. */
export async function isStillAuthorized(
  deps: AdmissionDeps,
  target: PortAddress,
  accessGrant: AccessGrant,
): Promise<boolean> {
  const route = await deps.forwarding.route(target.instanceId);
  if (route === null) return false;
  const access = accessTo(route, target);
  const mayStay = (accountId: string | null): boolean => allowsAccount(access, accountId, route.ownerId);
  switch (accessGrant.kind) {
    case 'public':
      return mayStay(null);
    case 'session':
      return mayStay((await deps.forwarding.session(accessGrant.secret))?.accountId ?? null);
    case 'credential':
      return mayStay(await accountOf(deps, accessGrant.credential));
    case 'share':
      return mayStay(null) || (access !== 'loopback' && (await opens(deps, accessGrant.token, target)));
    default:
      return accessGrant satisfies never;
  }
}
