/**
 * Cookies ignore ports and mostly paths: in path mode all instances, the gateway and an API on the
 * same host share one jar. Berth's cookies never reach instances, instances cannot set Berth's
 * names, and their cookies stay below their prefix.
 */
import { ACCESS_COOKIE } from '../../contract/routes.ts';
import type { InstanceTarget } from './routing.ts';

const GATEWAY_COOKIE = 'berth_gateway';

const SHARE_COOKIE = 'berth_share';

/** The port whose page the browser opened last: no credential. */
const APP_COOKIE = 'berth_app';

const OURS: readonly string[] = [ACCESS_COOKIE.toLowerCase(), GATEWAY_COOKIE, SHARE_COOKIE, APP_COOKIE];

/** Matches any letter case and browser prefix. */
function isOurName(name: string): boolean {
  let plain = name.toLowerCase();
  if (plain.startsWith('__host-')) plain = plain.slice(7);
  else if (plain.startsWith('__secure-')) plain = plain.slice(9);
  return OURS.includes(plain);
}

export const isSecure = (origin: string): boolean => origin.startsWith('https:');

/** `__Host-` stops other hosts and ports from planting the cookie over TLS. */
const nameOf = (secure: boolean): string => (secure ? `__Host-${GATEWAY_COOKIE}` : GATEWAY_COOKIE);

/** `__Host-` requires `Path=/`, so paths use `__Secure-`. */
const shareNameOf = (secure: boolean, surface: InstanceTarget['mount']): string =>
  `${secure ? (surface === 'host' ? '__Host-' : '__Secure-') : ''}${SHARE_COOKIE}`;

/** Without TLS others can plant a second cookie: two different values count as none. */
export const sessionSecretOf = (cookies: readonly string[], secure: boolean): string | null =>
  theOne(cookies, nameOf(secure));

export const shareTokenOf = (
  cookies: readonly string[],
  secure: boolean,
  surface: InstanceTarget['mount'],
): string | null => theOne(cookies, shareNameOf(secure, surface));

export const appOf = (cookies: readonly string[]): string | null => theOne(cookies, APP_COOKIE);

export function cookieOfApp(
  cookies: readonly string[],
  { mount, instanceId, port }: InstanceTarget,
  secure: boolean,
): string | undefined {
  const app = `${instanceId}/${port}`;
  if (mount !== 'forward' || appOf(cookies) === app) return undefined;
  return `${APP_COOKIE}=${app}; Path=/; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}`;
}

function theOne(cookies: readonly string[], name: string): string | null {
  let match: string | null = null;
  for (const header of cookies) {
    if (!header.includes(name)) continue;
    for (const pair of header.split(';')) {
      const equals = pair.indexOf('=');
      if (equals < 0 || pair.slice(0, equals).trim() !== name) continue;
      const value = pair.slice(equals + 1).trim();
      if (match !== null && match !== value) return null;
      match = value;
    }
  }
  return match === '' ? null : match;
}

/** Removes Berth's cookies from a `Cookie` header; null if none is left. */
export function upstreamCookie(header: string): string | null {
  const lower = header.toLowerCase();
  if (!OURS.some((name) => lower.includes(name))) return header;
  const remaining = header.split(';').filter((pair) => {
    const equals = pair.indexOf('=');
    return !isOurName((equals < 0 ? pair : pair.slice(0, equals)).trim());
  });
  const rest = remaining.join(';').trim();
  return rest === '' ? null : rest;
}

/**
 * Rewrites an instance's `Set-Cookie`; null drops it. Removes Domain, narrows Path to the prefix.
 * Drops nameless cookies, whose bare value can read as any cookie.
 */
export function downstreamSetCookie(value: string, target: InstanceTarget): string | null {
  const parts = value.split(';');
  const pair = parts[0] ?? '';
  const equals = pair.indexOf('=');
  const name = equals < 0 ? '' : pair.slice(0, equals).trim();
  if (name === '' || isOurName(name)) return null;
  let remaining = pair.trim();
  let path = '';
  for (const part of parts.slice(1)) {
    const at = part.indexOf('=');
    const attribute = (at < 0 ? part : part.slice(0, at)).trim().toLowerCase();
    if (attribute === 'domain' || attribute === '') continue;
    if (attribute === 'path') path = at < 0 ? '' : part.slice(at + 1).trim();
    else remaining += `; ${part.trim()}`;
  }
  return `${remaining}; Path=${narrowedPath(path, target)}`;
}

/** An instance under /forward believes it is at the root; a notebook knows its prefix. */
function narrowedPath(path: string, target: InstanceTarget): string {
  const { prefix } = target;
  if (path === prefix || path.startsWith(`${prefix}/`)) return path;
  if (target.mount === 'forward' && path.startsWith('/')) return prefix + path;
  return `${prefix}/`;
}

export function sessionCookie(secret: string, secure: boolean): string {
  return `${nameOf(secure)}=${secret}; Path=/; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`;
}

/** Limited to one port, by path or host. Lives as long as the link. */
export const shareCookie = (token: string, secure: boolean, { mount, prefix }: InstanceTarget): string =>
  `${shareNameOf(secure, mount)}=${token}; Path=${prefix === '' ? '/' : prefix}; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`;
