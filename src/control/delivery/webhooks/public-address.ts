/** Addresses that a webhook may reach: public unicast, and none of this machine. */
import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { isInRanges } from '../../../domain/access/address-range.ts';

const UNICAST = ['0.0.0.0/0', '2000::/3'];
/**
 * Multicast, IANA's special-purpose registries, and IPv6 networks that embed IPv4 addresses.
 * Anycast services of the registries are refused, too: the nearest may be the operator's own.
 */
const SPECIAL = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.31.196.0/24',
  '192.52.193.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '192.175.48.0/24',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/3',
  '2001::/23',
  '2001:db8::/32',
  '2002::/16',
  '2620:4f:8000::/48',
  '3ffe::/16',
  '3fff::/20',
];
/** IPv4 in the spelling of IPv6, which no DNS record of a receiver has. */
const isMapped = (address: string): boolean => address.includes(':') && isInRanges(['0.0.0.0/0'], address);

/** False for anything that is not an address. */
export function isPublicAddress(address: string, interfaces = networkInterfaces()): boolean {
  if (isIP(address) === 0 || isMapped(address)) return false;
  const own = Object.values(interfaces).flatMap((all) => all?.map((one) => one.address) ?? []);
  return isInRanges(UNICAST, address) && !isInRanges(SPECIAL, address) && !isInRanges(own, address);
}
