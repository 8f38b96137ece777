/** Addresses of sockets and of forwarding headers, and lists of IP addresses and CIDR ranges. */
import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';
import { makeBoundedMap } from '../async/bounded-map.ts';
import { isInRanges } from '../domain/access/address-range.ts';

export type AddressMatcher = (address: string) => boolean;

const MAX_KNOWN = 1_000;
const MAX_KNOWN_LENGTH = 200;

/** Stores the results of texts that requests repeat. */
function stored<Result>(compute: (text: string) => Result): (text: string) => Result {
  const known = makeBoundedMap<{ result: Result }>({ maxEntries: MAX_KNOWN });
  return (text) => {
    if (text.length > MAX_KNOWN_LENGTH) return compute(text);
    let found = known.peek(text);
    if (found === undefined) known.set(text, (found = { result: compute(text) }));
    return found.result;
  };
}

/** An IPv6 range matches no IPv4 address, whichever way the address is written. */
export const makeAddressMatcher = (listed: readonly string[]): AddressMatcher =>
  stored((address) => isInRanges(listed, address));

/** Sockets of both families show IPv4 clients as mapped addresses. */
export const withoutMapping = (address: string): string => address.replace(/^::ffff:(?=\d+\.)/i, '');

const MAX_HOPS = 32;
const WITH_PORT = /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/;

/**
 * The last addresses of a list of hops, without ports, brackets and quotes: a port would make a
 * bucket of each connection. What is no address hides the hops before it.
 */
export const forwardedHops = stored((list): readonly string[] => {
  const hops = list.split(',').slice(-MAX_HOPS).map(addressOfHop);
  return hops.slice(hops.lastIndexOf('') + 1);
});

function addressOfHop(hop: string): string {
  const text = hop.trim().replace(/^"(.*)"$/, '$1');
  const [, bracketed, plain] = WITH_PORT.exec(text) ?? [];
  const address = withoutMapping(bracketed ?? plain ?? text);
  return isIP(address) === 0 ? '' : address.toLowerCase();
}

const PAIR = /[ \t]*([!#$%&'*+.^`|~\w-]+)=(?:"((?:[^"\\]|\\.)*)"|([^;,"\s]*))[ \t]*([;,]|$)/y;
const LISTED = { for: 'x-forwarded-for', proto: 'x-forwarded-proto', host: 'x-forwarded-host' } as const;

type Listed = (typeof LISTED)[keyof typeof LISTED];

/** `Forwarded` (RFC 7239) as the `X-Forwarded-*` headers; null if malformed. */
export function listsOfForwarded(header: string): Partial<Record<Listed, string>> | null {
  const lists: Partial<Record<Listed, string[]>> = {};
  let hop: Partial<Record<string, string>> = {};
  PAIR.lastIndex = 0;
  for (;;) {
    const [, name = '', quoted, token = '', separator] = PAIR.exec(header) ?? [];
    if (separator === undefined) return null;
    hop[name.toLowerCase()] ??= quoted?.replaceAll(/\\(.)/g, '$1') ?? token;
    if (separator === ';') continue;
    const { for: address = 'unknown' } = hop;
    for (const [member, list] of Object.entries({ ...hop, for: address }))
      if (isListed(member) && list !== undefined) (lists[LISTED[member]] ??= []).push(list.replaceAll(',', ' '));
    if (separator === '') break;
    hop = {};
  }
  return Object.fromEntries(Object.entries(lists).map(([name, list]) => [name, list.join(', ')]));
}

const isListed = (name: string): name is keyof typeof LISTED => Object.hasOwn(LISTED, name);

/** Takes `Forwarded` where the proxy sends no `X-Forwarded-*`: the client's own would pass else. */
export function takeForwarded(headers: IncomingHttpHeaders): void {
  const { forwarded } = headers;
  if (forwarded === undefined || Object.values(LISTED).some((name) => headers[name] !== undefined)) return;
  Object.assign(headers, listsOfForwarded(forwarded));
}

const forwardedText = stored((list) => forwardedHops(list).join(', '));

/** Leaves the addresses of `forwardedHops` in `X-Forwarded-For`, whatever header had them. */
export function cleanForwarded(headers: IncomingHttpHeaders): void {
  takeForwarded(headers);
  const list = headers[LISTED.for];
  if (list !== undefined) headers[LISTED.for] = forwardedText(String(list));
}
