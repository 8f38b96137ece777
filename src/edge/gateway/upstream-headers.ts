/** The head of a request as the instance gets it: what ends at the gateway is taken off, what the gateway vouches for is put on. */
import { isIPv6 } from 'node:net';
import type { BlockList } from 'node:net';
import type { Admitted } from './admission.ts';
import { inwardCookie } from './cookies.ts';
import { holdsOurs } from './credentials.ts';
import type { Head } from './head.ts';
import type { InstanceTarget } from './routing.ts';
import { SHARE_PARAMETER } from './share-token.ts';

/** Who sent the request, as far as the gateway can vouch for it. */
export interface Sender {
  address: string;
  proto: 'http' | 'https';
  host: string;
  /** What a trusted proxy before us said of the way before it; null when none is trusted. */
  forwardedFor: string | null;
}

/** RFC 9110 §7.6.1, with what browsers and old clients send besides. `Expect` is answered here, and so ends here. */
const ENDS_HERE: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authorization',
  'proxy-authenticate',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
  'expect',
  'forwarded',
  'x-real-ip',
  'x-berth-share',
]);

/** The other end of a client's connection: the same for all that comes over it. */
export interface Peer {
  address: string;
  proto: 'http' | 'https';
  /** What it says of the way before it is believed. */
  trusted: boolean;
}

export function peerOf(socket: { remoteAddress?: string | undefined; encrypted: boolean }, trusted: BlockList): Peer {
  const peer = socket.remoteAddress ?? '';
  const address = peer.startsWith('::ffff:') ? peer.slice(7) : peer;
  return {
    address,
    proto: socket.encrypted ? 'https' : 'http',
    trusted: trusted.check(address, isIPv6(address) ? 'ipv6' : 'ipv4'),
  };
}

export function senderOf(head: Head, { address, proto, trusted }: Peer): Sender {
  if (!trusted) return { address, proto, host: head.host, forwardedFor: null };
  return {
    address,
    proto: firstOf(head.forwardedProto) === 'https' ? 'https' : proto,
    host: firstOf(head.forwardedHost) ?? head.host,
    forwardedFor: head.forwardedFor,
  };
}

const firstOf = (list: string | null): string | null => list?.split(',')[0]?.trim().toLowerCase() ?? null;

export function inwardHeaders(
  head: Head,
  target: InstanceTarget,
  admitted: Admitted,
  sender: Sender,
  issuer: string,
): string[] {
  const { raw, names, connection } = head;
  const headers: string[] = [];
  const notebook = target.surface === 'notebook';
  const withoutCredentials = notebook || admitted.evidence.kind === 'credential';
  for (let at = 0; at < names.length; at += 1) {
    const name = names[at] ?? '';
    const value = raw[2 * at + 1] ?? '';
    if (ENDS_HERE.has(name) || isForwardedFamily(name)) continue;
    if (connection.length > 0 && name !== 'host' && name !== 'content-length' && connection.includes(name)) continue;
    // Of who followed a link out of an address that still had its token.
    if (name === 'referer' && value.includes(SHARE_PARAMETER)) continue;
    if (name === 'cookie') {
      const kept = inwardCookie(value);
      if (kept !== null) headers.push('cookie', kept);
    } else if (name === 'authorization' || name === 'x-api-key') {
      if (!withoutCredentials && !holdsOurs(value, issuer)) headers.push(raw[2 * at] ?? name, value);
    } else headers.push(raw[2 * at] ?? name, value);
  }
  if (notebook) headers.push('Authorization', `token ${admitted.route.notebookToken}`);
  if (target.surface === 'forward') headers.push('X-Forwarded-Prefix', target.prefix);
  const { address, proto, host, forwardedFor } = sender;
  headers.push('X-Forwarded-For', forwardedFor === null ? address : `${forwardedFor}, ${address}`);
  headers.push('X-Forwarded-Proto', proto, 'X-Forwarded-Host', host);
  headers.push('Forwarded', `for=${address.includes(':') ? `"[${address}]"` : address};host="${host}";proto=${proto}`);
  return headers;
}

/**
 * CGI-like servers read `_` as `-`, so a spelling with `_` would get past everything that is checked by name here; nothing
 * well-meant is sent that way.
 */
function isForwardedFamily(name: string): boolean {
  if (name.startsWith('x-forwarded-')) return true;
  if (!name.includes('_')) return false;
  const dashed = name.replaceAll('_', '-');
  return dashed.startsWith('x-forwarded-') || dashed === 'x-api-key' || ENDS_HERE.has(dashed);
}
