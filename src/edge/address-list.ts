/** Addresses of sockets and of `X-Forwarded-For`, and lists of IP addresses and CIDR ranges. */
import { isIP } from 'node:net';
import { isInRanges } from '../domain/access/address-range.ts';

export type AddressMatcher = (address: string) => boolean;

/** An IPv6 range matches no IPv4 address, whichever way the address is written. */
export const makeAddressMatcher =
  (listed: readonly string[]): AddressMatcher =>
  (address) =>
    isInRanges(listed, address);

/** Sockets of both families show IPv4 clients as mapped addresses. */
export const withoutMapping = (address: string): string => address.replace(/^::ffff:(?=\d+\.)/i, '');

const MAX_HOPS = 32;
const WITH_PORT = /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/;

/**
 * The last addresses of a list of hops, without ports, brackets and quotes: a port would make a
 * bucket of each connection. What is no address hides the hops before it.
 */
export function forwardedHops(list: string): string[] {
  const hops = list.split(',').slice(-MAX_HOPS).map(addressOfHop);
  return hops.slice(hops.lastIndexOf('') + 1);
}

function addressOfHop(hop: string): string {
  const text = hop.trim().replace(/^"(.*)"$/, '$1');
  const [, bracketed, plain] = WITH_PORT.exec(text) ?? [];
  const address = withoutMapping(bracketed ?? plain ?? text);
  return isIP(address) === 0 ? '' : address.toLowerCase();
}
