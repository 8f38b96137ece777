/**
 * The head of an instance's response as the browser gets it. On paths all instances share the gateway's origin, so whatever
 * would let one act beyond its own path is taken off, and content that is not known to be the visitor's own is sandboxed: it
 * gets an origin of its own that can't read the gateway's cookies, storage or other instances' pages. A port on a host of its own has
 * that by its name, and needs no sandbox.
 */
import { outwardSetCookie } from './cookies.ts';
import { optionsOf } from './head.ts';
import type { InstanceTarget } from './routing.ts';

/** Never with `allow-same-origin`: that would undo it. */
export const SANDBOX = 'sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads';

const ENDS_HERE: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authentication-info',
  'te',
  // Told anew where trailers can follow (`announcedTrailers`): elsewhere Node refuses to write it.
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
  // What reaches beyond the instance's own path, or speaks to a proxy before us.
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

export interface OutwardHead {
  headers: string[];
  contentLength: string | null;
}

/** `owner`: what comes of it is shown to be the visitor's own. */
export function outwardHeaders(
  raw: readonly string[],
  status: number,
  target: InstanceTarget,
  owner: boolean,
  host: string,
): OutwardHead {
  const sandboxed = !owner && target.surface !== 'host';
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
        const kept = outwardSetCookie(value, target);
        if (kept !== null) headers.push(name, kept);
        continue;
      }
      case 'location':
        headers.push(name, outwardLocation(value, target, host));
        continue;
      case 'cross-origin-opener-policy':
        // Together with a sandbox, browsers refuse the page altogether.
        if (!sandboxed) headers.push(name, value);
        continue;
      case 'x-content-type-options':
        nosniff = true;
        headers.push(name, value);
        continue;
      default:
        if (!ENDS_HERE.has(lower)) headers.push(name, value);
    }
  }
  if (options !== null) dropNamed(headers, options);
  // The two together are a smuggler's tool, and 1xx and 204 have no length (RFC 9110 §8.6).
  if (chunked || status === 204 || status < 200) contentLength = null;
  if (contentLength !== null) headers.push('Content-Length', contentLength);
  if (sandboxed) {
    headers.push('Content-Security-Policy', SANDBOX);
    if (!nosniff) headers.push('X-Content-Type-Options', 'nosniff');
  }
  // What was shown to one account must not come out of the browser's cache for the next one.
  if (status >= 200) headers.push('Vary', 'Cookie');
  return { headers, contentLength };
}

/** Headers that `Connection` names end here; those that protect the visitor can't be named away. */
function dropNamed(headers: string[], options: readonly string[]): void {
  for (let at = headers.length - 2; at >= 0; at -= 2) {
    if (options.includes((headers[at] ?? '').toLowerCase())) headers.splice(at, 2);
  }
}

/** An instance on /forward believes to be at the root: where it sends the browser is brought back under its prefix. */
function outwardLocation(value: string, target: InstanceTarget, host: string): string {
  if (target.surface !== 'forward') return value;
  const path = pathOn(value, host);
  if (path === null || path === target.prefix || path.startsWith(`${target.prefix}/`)) return value;
  return target.prefix + path;
}

/** The path of an address on this host; null for any other. */
function pathOn(value: string, host: string): string | null {
  if (value.startsWith('/')) return value.startsWith('//') || value.startsWith('/\\') ? null : value;
  for (const proto of ['http://', 'https://']) {
    if (!value.startsWith(proto + host)) continue;
    const rest = value.slice(proto.length + host.length);
    if (rest === '' || rest.startsWith('/')) return rest === '' ? '/' : rest;
  }
  return null;
}

/** What a body in chunks says of its trailers, in names and values. */
export function announcedTrailers(raw: readonly string[]): string[] {
  const announced: string[] = [];
  for (let at = 0; at + 1 < raw.length; at += 2)
    if (raw[at]?.toLowerCase() === 'trailer') announced.push('Trailer', raw[at + 1] ?? '');
  return announced;
}

/** Fields that a trailer may not carry (RFC 9110 §6.5.1): framing, routing, and what is checked in the head. */
export function outwardTrailers(raw: readonly string[]): [string, string][] {
  const trailers: [string, string][] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = raw[at] ?? '';
    const lower = name.toLowerCase();
    const refused = ENDS_HERE.has(lower) || lower === 'set-cookie' || lower.startsWith('content-');
    if (!refused) trailers.push([name, raw[at + 1] ?? '']);
  }
  return trailers;
}
