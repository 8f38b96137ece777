/**
 * Rewrites a response head. Instances on paths share an origin: headers that reach beyond the
 * prefix are removed, and content of other owners is sandboxed.
 */
import { downstreamSetCookie } from './cookies.ts';
import { HOP_BY_HOP, optionsOf } from './head.ts';
import type { InstanceTarget } from './routing.ts';

/** Never with `allow-same-origin`, which would undo the sandbox. */
export const SANDBOX = 'sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads';

/** `Trailer` is written again where trailers can follow: Node refuses the header elsewhere. */
const ENDS_HERE: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP,
  'proxy-authentication-info',
  // Headers with an effect beyond the prefix, or on a proxy in front.
  'service-worker-allowed',
  'clear-site-data',
  'strict-transport-security',
  'public-key-pins',
  'alt-svc',
  'nel',
  'report-to',
  'set-cookie2',
  'x-accel-redirect',
  'x-sendfile',
]);

/** Headers that act on a whole origin: removed where instances share one. */
const ACTS_ON_ORIGIN: ReadonlySet<string> = new Set([
  'accept-ch',
  'origin-agent-cluster',
  'sec-session-registration',
  'secure-session-registration',
  'set-login',
  'speculation-rules',
  'use-as-dictionary',
]);

export interface DownstreamHead {
  headers: string[];
  contentLength: string | null;
}

export function downstreamHeaders(
  raw: readonly string[],
  status: number,
  target: InstanceTarget,
  owner: boolean,
  host: string,
): DownstreamHead {
  const sandboxed = !owner && target.mount !== 'host';
  const headers: string[] = [];
  let contentLength: string | null = null;
  let options: string[] | null = null;
  let chunked = false;
  let nosniff = false;
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = raw[at] ?? '';
    const value = raw[at + 1] ?? '';
    const lower = name.toLowerCase();
    switch (lower) {
      case 'content-length':
        contentLength = value;
        continue;
      case 'transfer-encoding':
        chunked = true;
        continue;
      case 'connection':
        if (value.toLowerCase() !== 'keep-alive' && value !== 'close') (options ??= []).push(...optionsOf(value));
        continue;
      case 'set-cookie': {
        const rewritten = downstreamSetCookie(value, target);
        if (rewritten !== null) headers.push(name, rewritten);
        continue;
      }
      case 'location':
        headers.push(name, downstreamLocation(value, target, host));
        continue;
      case 'cross-origin-opener-policy':
        // Browsers refuse a sandboxed page with COOP.
        if (!sandboxed) headers.push(name, value);
        continue;
      case 'referrer-policy':
        headers.push(name, sandboxed || target.mount !== 'forward' ? value : policyWithPath(value));
        continue;
      case 'x-content-type-options':
        nosniff = true;
        headers.push(name, value);
        continue;
      default:
        if (!ENDS_HERE.has(lower) && (target.mount === 'host' || !ACTS_ON_ORIGIN.has(lower))) headers.push(name, value);
    }
  }
  if (options !== null) dropNamed(headers, options);
  // Both together enable request smuggling; 1xx and 204 have no length (RFC 9110 §8.6).
  if (chunked || status === 204 || status < 200) contentLength = null;
  if (contentLength !== null) headers.push('Content-Length', contentLength);
  if (sandboxed) {
    headers.push('Content-Security-Policy', SANDBOX);
    if (!nosniff) headers.push('X-Content-Type-Options', 'nosniff');
  }
  // Keeps one account's response out of the next account's cache.
  if (status >= 200) headers.push('Vary', 'Cookie');
  return { headers, contentLength };
}

/** Drops headers named by `Connection`, except protections of the visitor. */
function dropNamed(headers: string[], options: readonly string[]): void {
  for (let at = headers.length - 2; at >= 0; at -= 2) {
    if (options.includes((headers[at] ?? '').toLowerCase())) headers.splice(at, 2);
  }
}

/** Keeps the path in the `Referer` for this origin; others see no more than before. */
const policyWithPath = (value: string): string =>
  value.replace(/[\w-]+/g, (policy) => {
    switch (policy.toLowerCase()) {
      case 'no-referrer':
        return 'same-origin';
      case 'origin':
      case 'strict-origin':
        return 'strict-origin-when-cross-origin';
      default:
        return policy;
    }
  });

/** Moves redirects of an instance under /forward below its prefix. */
function downstreamLocation(value: string, target: InstanceTarget, host: string): string {
  if (target.mount !== 'forward') return value;
  const path = pathOn(value, host);
  if (path === null || path === target.prefix || path.startsWith(`${target.prefix}/`)) return value;
  return target.prefix + path;
}

/** Path of a URL on this host; null for other hosts. */
function pathOn(value: string, host: string): string | null {
  if (value.startsWith('/')) return value.startsWith('//') || value.startsWith('/\\') ? null : value;
  for (const proto of ['http://', 'https://']) {
    if (!value.startsWith(proto + host)) continue;
    const rest = value.slice(proto.length + host.length);
    if (rest === '' || rest.startsWith('/')) return rest === '' ? '/' : rest;
  }
  return null;
}

export function announcedTrailers(raw: readonly string[]): string[] {
  const announced: string[] = [];
  for (let at = 0; at + 1 < raw.length; at += 2)
    if (raw[at]?.toLowerCase() === 'trailer') announced.push('Trailer', raw[at + 1] ?? '');
  return announced;
}

/** Drops fields not allowed in trailers (RFC 9110 §6.5.1). */
export function downstreamTrailers(raw: readonly string[]): [string, string][] {
  const trailers: [string, string][] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = raw[at] ?? '';
    const lower = name.toLowerCase();
    const refused =
      ENDS_HERE.has(lower) || ACTS_ON_ORIGIN.has(lower) || lower === 'set-cookie' || lower.startsWith('content-');
    if (!refused) trailers.push([name, raw[at + 1] ?? '']);
  }
  return trailers;
}
