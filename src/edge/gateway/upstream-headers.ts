/** Rewrites a request head: hop-by-hop headers and credentials out, X-Forwarded in. */
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { withoutMapping, type AddressMatcher, type TrustedProxies } from '../address-list.ts';
import type { Authorized } from './admission.ts';
import type { SeenRequest } from '../../contract/proxy-check.ts';
import { seenRequest } from '../proxy-check.ts';
import { upstreamCookie } from './cookies.ts';
import { holdsOurs } from './credentials.ts';
import { HOP_BY_HOP, type Head } from './head.ts';
import type { InstanceTarget } from './routing.ts';
import { SHARE_PARAMETER } from './share-token.ts';
import type { RequestBody } from './request-body.ts';

export interface Sender {
  address: string;
  proto: 'http' | 'https';
  host: string;
  /** `X-Forwarded-For` of a trusted proxy, or the address of its `Forwarded`. Null: neither. */
  forwardedFor: string | null;
}

/** The gateway answers `Expect` itself. */
const ENDS_HERE: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP,
  'proxy-authorization',
  'expect',
  'forwarded',
  'x-real-ip',
  'x-berth-share',
  'x-berth-lab',
  'x-berth-wake',
]);

export interface Peer {
  address: string;
  proto: 'http' | 'https';
  trusted: boolean;
}

export function peerOf(socket: Socket, isTrusted: AddressMatcher): Peer {
  const address = withoutMapping(socket.remoteAddress ?? '');
  return { address, proto: socket instanceof TLSSocket ? 'https' : 'http', trusted: isTrusted(address) };
}

export function senderOf(head: Head, { address, proto, trusted }: Peer, proxies: TrustedProxies): Sender {
  if (!trusted) return { address, proto, host: head.host, forwardedFor: null };
  const said =
    head.forwardedFor === null && head.forwarded !== null
      ? proxies.forwarded(head.forwarded)
      : { address: head.forwardedFor, proto: lastOf(head.forwardedProto), host: lastOf(head.forwardedHost) };
  return {
    address,
    proto: said.proto === 'https' ? 'https' : proto,
    host: said.host ?? head.host,
    forwardedFor: said.address,
  };
}

export function seenOf(head: Head, peer: Peer, proxies: TrustedProxies): SeenRequest {
  const sender = senderOf(head, peer, proxies);
  const { proto: scheme, forwardedFor } = sender;
  const address = clientAddressOf(sender, proxies);
  const isForwarded = (peer.trusted ? forwardedFor : (head.forwardedFor ?? head.forwarded)) !== null;
  const tls = peer.proto === 'https';
  const { host } = head;
  const by = { isForwarded, isTrusted: peer.trusted, isProxy: proxies.includes };
  return seenRequest({ listener: 'gateway', address, scheme, host, tls, ...by });
}

export const clientAddressOf = ({ address, forwardedFor }: Sender, proxies: TrustedProxies): string =>
  (forwardedFor === null ? null : proxies.listed(forwardedFor)) ?? address;

/** The nearest proxy's entry. */
const lastOf = (list: string | null): string | null => list?.split(',').at(-1)?.trim().toLowerCase() ?? null;

interface UpstreamRequest {
  head: Head;
  target: InstanceTarget;
  authorized: Authorized;
  sender: Sender;
  /** Asks for a response without compression. */
  isPlain: boolean;
}

export function upstreamHeaders(
  { head, target, authorized, sender, isPlain }: UpstreamRequest,
  issuer: string,
): string[] {
  const { raw, names, connection } = head;
  const headers: string[] = [];
  const notebook = target.mount === 'notebook';
  const withoutCredentials = notebook || authorized.accessGrant.kind === 'credential';
  for (let index = 0; index < names.length; index += 1) {
    const name = names[index] ?? '';
    const value = raw[2 * index + 1] ?? '';
    if (ENDS_HERE.has(name) || isForwardedFamily(name)) continue;
    if (connection.length > 0 && name !== 'host' && name !== 'content-length' && connection.includes(name)) continue;
    if (isPlain && name === 'accept-encoding') continue;
    // The Referer of a page whose URL still had its token.
    if (name === 'referer' && value.includes(SHARE_PARAMETER)) continue;
    if (name === 'cookie') {
      const rest = upstreamCookie(value);
      if (rest !== null) headers.push('cookie', rest);
    } else if (name === 'authorization' || name === 'x-api-key') {
      if (!withoutCredentials && !holdsOurs(value, issuer)) headers.push(raw[2 * index] ?? name, value);
    } else headers.push(raw[2 * index] ?? name, value);
  }
  if (notebook) headers.push('Authorization', `token ${authorized.route.notebookToken}`);
  if (target.mount === 'forward') headers.push('X-Forwarded-Prefix', target.prefix);
  const { address, proto, host, forwardedFor } = sender;
  headers.push('X-Forwarded-For', forwardedFor === null ? address : `${forwardedFor}, ${address}`);
  headers.push('X-Forwarded-Proto', proto, 'X-Forwarded-Host', host);
  headers.push('Forwarded', `for=${address.includes(':') ? `"[${address}]"` : address};host="${host}";proto=${proto}`);
  return headers;
}

/** CGI-like servers read `_` as `-`, which would bypass checks by name. */
function isForwardedFamily(name: string): boolean {
  if (name.startsWith('x-forwarded-')) return true;
  if (!name.includes('_')) return false;
  const dashed = name.replaceAll('_', '-');
  return dashed.startsWith('x-forwarded-') || dashed === 'x-api-key' || ENDS_HERE.has(dashed);
}

/** Characters that could start a new line. Client parsers refuse them; this is the last check. */
const UNSAFE = /[^\t\x20-\x7e\x80-\xff]/;
const UNSAFE_IN_PATH = /[^\x21-\x7e\x80-\xff]/;

/** Methods that announce an empty body. */
const MEANS_BODY: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH']);

/** Throws on invalid characters. `headers`: names and values, with the known body length. */
export function requestHead(
  method: string,
  path: string,
  headers: readonly string[],
  body: Pick<RequestBody, 'chunked'> | null,
  connection: 'keep-alive' | 'Upgrade' = 'keep-alive',
): string {
  if (UNSAFE_IN_PATH.test(path)) throw new Error('a path with spaces or control characters');
  let text = `${method} ${path} HTTP/1.1\r\n`;
  let sized = false;
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const name = headers[at] ?? '';
    const value = headers[at + 1] ?? '';
    if (UNSAFE.test(value)) throw new Error(`a value of the header ${name} with control characters`);
    if (name.length === 14 && name.toLowerCase() === 'content-length') sized = true;
    text += `${name}: ${value}\r\n`;
  }
  if (body?.chunked === true) text += 'Transfer-Encoding: chunked\r\n';
  else if (!sized && MEANS_BODY.has(method)) text += 'Content-Length: 0\r\n';
  return `${text}Connection: ${connection}\r\n\r\n`;
}
