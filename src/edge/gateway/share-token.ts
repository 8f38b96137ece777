/**
 * The token of a link to a port: `?berth_share=<token>` or the header `X-Berth-Share`. It is taken off here whatever it is worth and
 * whoever brings it, so that no instance is told it, nor writes it into a log. A browser keeps the token itself as a cookie of that
 * port: so a visit, which costs a stranger nothing, writes nothing here, and ends with the link.
 */
import type { Head } from './head.ts';
import type { InstanceTarget } from './routing.ts';

export const SHARE_PARAMETER = 'berth_share';

export interface Shown {
  /** What goes on, without the token. */
  target: InstanceTarget;
  /** From query or header; two that differ are none. */
  token: string | null;
  /** It stands in the address: a browser is sent on to the address without it. */
  inAddress: boolean;
}

export function shownToken(target: InstanceTarget, head: Head): Shown {
  const none = { target, token: head.shareToken, inAddress: false };
  const { inwardPath } = target;
  const mark = inwardPath.indexOf('?');
  if (mark < 0) return none;
  const query = inwardPath.slice(mark + 1);
  if (!query.includes(SHARE_PARAMETER) && !query.includes('%')) return none;
  const kept: string[] = [];
  const tokens = new Set<string>();
  for (const pair of query.split('&')) {
    const equals = pair.indexOf('=');
    if (decoded(equals < 0 ? pair : pair.slice(0, equals)) !== SHARE_PARAMETER) kept.push(pair);
    else tokens.add(equals < 0 ? '' : pair.slice(equals + 1));
  }
  if (tokens.size === 0) return none;
  const path = inwardPath.slice(0, mark);
  const [token = null] = tokens.size === 1 ? tokens : [];
  return {
    target: { ...target, inwardPath: kept.length === 0 ? path : `${path}?${kept.join('&')}` },
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

/** The address that the browser asked for, without the token; with the slash that relative links need. */
export function addressWithout({ surface, prefix, inwardPath }: InstanceTarget): string {
  if (surface === 'forward') return prefix + inwardPath;
  // Two slashes at the beginning would name another host.
  return inwardPath.startsWith('//') ? `/.${inwardPath}` : inwardPath;
}

/** Whether a person will see the answer as a page. Browsers that are too old to say so ask for HTML by name. */
export const isNavigation = ({ fetchMode, accept }: Head, method: string): boolean =>
  (method === 'GET' || method === 'HEAD') &&
  (fetchMode === null ? accept.includes('text/html') : fetchMode === 'navigate');
