/** Matches addresses of sockets against IP addresses and CIDR ranges. */
import { BlockList, isIPv6 } from 'node:net';

export type AddressMatcher = (address: string) => boolean;

export function makeAddressMatcher(listed: readonly string[]): AddressMatcher {
  const list = new BlockList();
  for (const text of listed) {
    const [address = '', bits] = text.split('/');
    if (bits === undefined) list.addAddress(address, familyOf(address));
    else list.addSubnet(address, Number(bits), familyOf(address));
  }
  return (address) => list.check(address, familyOf(address));
}

/** Sockets of both families show IPv4 clients as mapped addresses. */
export const withoutMapping = (address: string): string =>
  address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address;

const familyOf = (address: string): 'ipv4' | 'ipv6' => (isIPv6(address) ? 'ipv6' : 'ipv4');
