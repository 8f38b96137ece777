/**
 * Token of a share link: `?berth_share=<token>` or `X-Berth-Share`, always removed for instances.
 * Browsers keep the token as a cookie.
 */
import type { Head } from './head.ts';
import type { InstanceTarget } from './routing.ts';

export const SHARE_PARAMETER = 'berth_share';

export interface PresentedToken {
  target: InstanceTarget;
  token: string | null;
  /** The token is in the URL: redirect to the URL without it. */
  inAddress: boolean;
}

export function takeShareToken(target: InstanceTarget, head: Head): PresentedToken {
  const none = { target, token: head.shareToken, inAddress: false };
  const { upstreamPath } = target;
  const mark = upstreamPath.indexOf('?');
  if (mark < 0) return none;
  const query = upstreamPath.slice(mark + 1);
  if (!query.includes(SHARE_PARAMETER) && !query.includes('%')) return none;
  const kept: string[] = [];
  const tokens = new Set<string>();
  for (const pair of query.split('&')) {
    const equals = pair.indexOf('=');
    if (decoded(equals < 0 ? pair : pair.slice(0, equals)) !== SHARE_PARAMETER) kept.push(pair);
    else tokens.add(equals < 0 ? '' : pair.slice(equals + 1));
  }
  if (tokens.size === 0) return none;
  const path = upstreamPath.slice(0, mark);
  const [token = null] = tokens.size === 1 ? tokens : [];
  return {
    target: { ...target, upstreamPath: kept.length === 0 ? path : `${path}?${kept.join('&')}` },
    token: head.shareToken ?? token,
    inAddress: true,
  };
}

function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** The URL without the token, with a trailing slash where relative links need it. */
export function addressWithout({ mount, prefix, upstreamPath }: InstanceTarget): string {
  if (mount === 'forward') return prefix + upstreamPath;
  return upstreamPath.startsWith('//') ? `/.${upstreamPath}` : upstreamPath;
}

/** Whether the answer is shown as a page; old browsers are recognized by `Accept`. */
export const isNavigation = ({ fetchMode, accept }: Head, method: string): boolean =>
  (method === 'GET' || method === 'HEAD') &&
  (fetchMode === null ? accept.includes('text/html') : fetchMode === 'navigate');
