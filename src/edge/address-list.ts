/** Addresses of sockets and of forwarding headers, and lists of IP addresses and CIDR ranges. */
import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';
import { makeBoundedMap } from '../async/bounded-map.ts';
import { isInRanges } from '../domain/access/address-range.ts';

export type AddressMatcher = (address: string) => boolean;

/** An IPv6 range matches no IPv4 address, whichever way the address is written. */
export const makeAddressMatcher = (listed: readonly string[]): AddressMatcher =>
  remembered((address) => isInRanges(listed, address));

/** Sockets of both families show IPv4 clients as mapped addresses. */
export const withoutMapping = (address: string): string => address.replace(/^::ffff:(?=\d+\.)/i, '');

const REMEMBERED = 1_000;
const LONGEST_REMEMBERED = 200;
const LONGEST_IPV4 = '255.255.255.255'.length;

/** Each client of a proxy comes with the same text again and again. `derive` is pure. */
function remembered<Value extends NonNullable<unknown>>(derive: (text: string) => Value): (text: string) => Value {
  const known = makeBoundedMap<Value>({ maxEntries: REMEMBERED });
  return (text) => {
    const before = known.peek(text);
    if (before !== undefined) return before;
    const value = derive(text);
    if (text.length <= LONGEST_REMEMBERED) known.set(text, value);
    return value;
  };
}

/** Members that trusted proxies say of a client. Null: nothing. */
export interface Forwarding {
  address: string | null;
  proto: string | null;
  host: string | null;
}

/** The proxies that an operator trusts, and how to read their headers. */
export interface TrustedProxies {
  includes: AddressMatcher;
  /** Address by `X-Forwarded-For`. */
  listed: (list: string) => string | null;
  /** By `Forwarded` (RFC 7239). */
  forwarded: (list: string) => Readonly<Forwarding>;
}

/**
 * Reads from the right, where the nearest proxy writes, to the first address that is no proxy's;
 * if all are, that is the leftmost. An element that is wrong hides those before it, no other.
 */
export function makeTrustedProxies(addresses: readonly string[]): TrustedProxies {
  const includes = makeAddressMatcher(addresses);
  const listed = remembered((list: string) => {
    let client: string | null = null;
    for (const hop of fromTheRight(list, (end) => list.lastIndexOf(',', end - 1))) {
      const address = addressOfHop(hop);
      if (address === '') break;
      client = address;
      if (!includes(address)) break;
    }
    return { client };
  });
  const forwarded = remembered((list: string) => {
    const said: Forwarding = { address: null, proto: null, host: null };
    for (const element of fromTheRight(list, (end) => lastComma(list, end))) {
      const pairs = pairsOf(element);
      if (pairs === null) break;
      said.proto = pairs.get('proto')?.toLowerCase() ?? said.proto;
      said.host = pairs.get('host')?.toLowerCase() ?? said.host;
      const address = addressOfHop(pairs.get('for') ?? '');
      if (address === '') break;
      said.address = address;
      if (!includes(address)) break;
    }
    return said;
  });
  const isAddress = (list: string): boolean => list.length <= LONGEST_IPV4 && isIP(list) === 4;
  return { includes, listed: (list) => (isAddress(list) ? list : listed(list).client), forwarded };
}

const MAX_HOPS = 32;

/** Elements of a list without empty ones (RFC 9110, 5.6.1), the last first. */
function* fromTheRight(list: string, commaBefore: (end: number) => number): Generator<string> {
  let end = list.length;
  for (let hops = 0; end > 0 && hops < MAX_HOPS; hops += 1) {
    const comma = commaBefore(end);
    const element = list.slice(comma + 1, end).trim();
    if (element !== '') yield element;
    end = comma;
  }
}

const [QUOTE, COMMA, BACKSLASH] = [0x22, 0x2c, 0x5c];

/** Last comma before `end` that is not in quotes. */
function lastComma(list: string, end: number): number {
  let isQuoted = false;
  for (let at = end - 1; at >= 0; at -= 1) {
    const code = list.charCodeAt(at);
    if (code === COMMA && !isQuoted) return at;
    if (code !== QUOTE) continue;
    let slashes = 0;
    while (list.charCodeAt(at - 1 - slashes) === BACKSLASH) slashes += 1;
    if (slashes % 2 === 0) isQuoted = !isQuoted;
  }
  return -1;
}

const WITH_PORT = /^(?:\[([^\]]*)\]|([^:]*))(?::(?:\d*|_[\w.-]+))?$/;

/** Without port, brackets and quotes: a port would make a bucket of each connection. */
function addressOfHop(hop: string): string {
  if (isIP(hop) === 4) return hop;
  const text = hop.replace(/^"(.*)"$/, '$1');
  const [, bracketed, plain] = WITH_PORT.exec(text) ?? [];
  const address = withoutMapping(bracketed ?? plain ?? text);
  return isIP(address) === 0 ? '' : address.toLowerCase();
}

const PAIR = /[ \t]*(?:([!#$%&'*+.^`|~\w-]+)=(?:"((?:[^"\\]|\\.)*)"|([^;,"\s]*))[ \t]*)?(;|$)/y;

/** Members of an element in lower case; null if it is malformed. */
function pairsOf(element: string): Map<string, string> | null {
  const pairs = new Map<string, string>();
  PAIR.lastIndex = 0;
  for (;;) {
    const [, name, quoted, token = '', separator] = PAIR.exec(element) ?? [];
    if (separator === undefined) return null;
    const key = name?.toLowerCase() ?? '';
    if (!pairs.has(key)) pairs.set(key, quoted?.replaceAll(/\\(.)/g, '$1') ?? token);
    if (separator === '') return pairs;
  }
}

/** Members of `Forwarded` by the headers that say the same. */
const SAME = { address: 'x-forwarded-for', proto: 'x-forwarded-proto', host: 'x-forwarded-host' } as const;
const members = ['address', 'proto', 'host'] as const;

/**
 * Leaves of the headers of a trusted proxy what counts. `X-Forwarded-For` wins over `Forwarded`,
 * since most proxies write it and pass the other on; without it, `Forwarded` says all.
 */
export function takeForwarded(headers: IncomingHttpHeaders, proxies: TrustedProxies): void {
  const { forwarded, [SAME.address]: list } = headers;
  if (list === undefined && forwarded === undefined) return;
  const address = list === undefined ? null : proxies.listed(String(list));
  const said: Partial<Forwarding> = list === undefined ? proxies.forwarded(forwarded ?? '') : { address };
  for (const member of members) {
    const value = said[member];
    if (value === null) delete headers[SAME[member]];
    else if (value !== undefined) headers[SAME[member]] = value;
  }
}
