/**
 * Cookies know no ports and hardly any paths, so every instance in path mode, the gateway and the API of the same host share one
 * jar. Three things are done about it: our cookies never go inward, an instance can't set cookies of our names, and what it
 * sets is kept under its own prefix so that no other instance is sent it.
 */
import { ACCESS_COOKIE } from '../../contract/routes.ts';
import type { InstanceTarget } from './routing.ts';

/** Holds the secret of a gateway session. */
const GATEWAY_COOKIE = 'berth_gateway';

/** Holds the token of the link that its visitor came by; one for each port. */
const SHARE_COOKIE = 'berth_share';

const OURS: readonly string[] = [ACCESS_COOKIE.toLowerCase(), GATEWAY_COOKIE, SHARE_COOKIE];

/** In any letter case, and with the prefixes browsers give a meaning to. */
function isOurName(name: string): boolean {
  let plain = name.toLowerCase();
  if (plain.startsWith('__host-')) plain = plain.slice(7);
  else if (plain.startsWith('__secure-')) plain = plain.slice(9);
  return OURS.includes(plain);
}

export const isSecure = (origin: string): boolean => origin.startsWith('https:');

/** Over TLS browsers let no other host or port plant one of such a name. */
const nameOf = (secure: boolean): string => (secure ? `__Host-${GATEWAY_COOKIE}` : GATEWAY_COOKIE);

/** On a path it can't have the name that is good for a whole host alone. */
const shareNameOf = (secure: boolean, surface: InstanceTarget['surface']): string =>
  `${secure ? (surface === 'host' ? '__Host-' : '__Secure-') : ''}${SHARE_COOKIE}`;

/**
 * The secret in the gateway's cookie. Without TLS whoever answers on another port of this host, or on a neighbouring host, can plant a second
 * cookie of the name: two that differ are no session, since it can't be told which is the visitor's.
 */
export const sessionSecretOf = (cookies: readonly string[], secure: boolean): string | null =>
  theOne(cookies, nameOf(secure));

/** As of a session. */
export const shareTokenOf = (
  cookies: readonly string[],
  secure: boolean,
  surface: InstanceTarget['surface'],
): string | null => theOne(cookies, shareNameOf(secure, surface));

function theOne(cookies: readonly string[], name: string): string | null {
  let found: string | null = null;
  for (const header of cookies) {
    if (!header.includes(name)) continue;
    for (const pair of header.split(';')) {
      const equals = pair.indexOf('=');
      if (equals < 0 || pair.slice(0, equals).trim() !== name) continue;
      const value = pair.slice(equals + 1).trim();
      if (found !== null && found !== value) return null;
      found = value;
    }
  }
  return found === '' ? null : found;
}

/** A `Cookie` header without our cookies; null when nothing is left. */
export function inwardCookie(header: string): string | null {
  const lower = header.toLowerCase();
  if (!OURS.some((name) => lower.includes(name))) return header;
  const kept = header.split(';').filter((pair) => {
    const equals = pair.indexOf('=');
    return !isOurName((equals < 0 ? pair : pair.slice(0, equals)).trim());
  });
  const rest = kept.join(';').trim();
  return rest === '' ? null : rest;
}

/**
 * A `Set-Cookie` of an instance as the browser may have it; null when it may not. Domain is taken off, so that it stays on this
 * host, and Path is brought under the instance's prefix. A cookie without a name is dropped: browsers send it as its bare value,
 * which can then read as a cookie of any name.
 */
export function outwardSetCookie(value: string, target: InstanceTarget): string | null {
  const parts = value.split(';');
  const pair = parts[0] ?? '';
  const equals = pair.indexOf('=');
  const name = equals < 0 ? '' : pair.slice(0, equals).trim();
  if (name === '' || isOurName(name)) return null;
  let kept = pair.trim();
  let path = '';
  for (const part of parts.slice(1)) {
    const at = part.indexOf('=');
    const attribute = (at < 0 ? part : part.slice(0, at)).trim().toLowerCase();
    if (attribute === 'domain' || attribute === '') continue;
    if (attribute === 'path') path = at < 0 ? '' : part.slice(at + 1).trim();
    else kept += `; ${part.trim()}`;
  }
  return `${kept}; Path=${narrowedPath(path, target)}`;
}

/** On /forward the instance believes to be at the root, so its `/a` is ours below the prefix; a notebook knows its prefix. */
function narrowedPath(path: string, target: InstanceTarget): string {
  const { prefix } = target;
  if (path === prefix || path.startsWith(`${prefix}/`)) return path;
  if (target.surface === 'forward' && path.startsWith('/')) return prefix + path;
  return `${prefix}/`;
}

/** Without an age: control moves a session on while it is used, and the browser is not told. */
export function sessionCookie(secret: string, secure: boolean): string {
  return `${nameOf(secure)}=${secret}; Path=/; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`;
}

/** For that port alone: its path, or its host. The token is good for as long as the link, and so is this. */
export const shareCookie = (token: string, secure: boolean, { surface, prefix }: InstanceTarget): string =>
  `${shareNameOf(secure, surface)}=${token}; Path=${prefix === '' ? '/' : prefix}; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`;
