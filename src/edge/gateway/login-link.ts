/**
 * Way of a visitor without access: a link to the login page of the API, which leads back to the
 * address that was asked for. The link has a path, and the label of a port's own host. The
 * login page adds the configured host, and parses the path as the gateway does.
 */
import type { Answer } from './answers.ts';
import { targetOf, type InstanceTarget } from './routing.ts';

export const LOGIN_PATH = '/login';

/** Longer addresses return to the first page of the port. */
const MAX_ADDRESS_LENGTH = 2_000;
const VISIBLE_ASCII = /^[\x21-\x7e]*$/;

/** Address of the target for `to`, which the gateway and the login page parse again. */
function returnPath({ mount, prefix, upstreamPath }: InstanceTarget): string {
  const path = mount === 'forward' ? prefix + upstreamPath : upstreamPath;
  return path.length <= MAX_ADDRESS_LENGTH && VISIBLE_ASCII.test(path) ? path : `${prefix}/`;
}

/** Null for a path that is not an instance's, or that no `Location` may have. */
export function returnTarget(host: string, path: string, portDomain: string | null): InstanceTarget | null {
  if (path.length > MAX_ADDRESS_LENGTH || !VISIBLE_ASCII.test(path)) return null;
  const target = targetOf(host, path, portDomain);
  return target.kind === 'instance' ? target : null;
}

interface Visit {
  apiUrl: string;
  /** Origin of the page that the visitor asked for. */
  ownOrigin: string;
  target: InstanceTarget;
}

/** Null if the API's address is loopback, and the visitor's is not: that link leads nowhere. */
export function loginLink({ apiUrl, ownOrigin, target }: Visit, text = 'Log in'): Answer['link'] | null {
  if (isLoopback(apiUrl) && !isLoopback(ownOrigin)) return null;
  const { mount, port, instanceId } = target;
  const host = mount === 'host' ? `&host=${port}-${instanceId}` : '';
  return { href: `${apiUrl}${LOGIN_PATH}?to=${encodeURIComponent(returnPath(target))}${host}`, text };
}

export function isLoopback(origin: string): boolean {
  if (!URL.canParse(origin)) return false;
  const { hostname } = new URL(origin);
  return /^(?:127(?:\.\d+){3}|\[::1\]|(?:.+\.)?localhost)$/.test(hostname);
}
