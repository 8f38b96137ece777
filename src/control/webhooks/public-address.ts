/** Addresses that a webhook may reach: public unicast, and none of this machine. */
import { BlockList, isIP, isIPv4 } from 'node:net';
import { networkInterfaces } from 'node:os';

/** IANA special-purpose registries; IPv6 networks that embed IPv4 addresses are refused whole. */
const NOT_PUBLIC = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
] as const;
/** IPv6: all but 2000::/3, and parts of it. */
const NOT_PUBLIC_V6 = [
  ['::', 3],
  ['4000::', 2],
  ['8000::', 1],
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
] as const;

const blocked = new BlockList();
for (const [net, prefix] of NOT_PUBLIC) blocked.addSubnet(net, prefix, 'ipv4');
for (const [net, prefix] of NOT_PUBLIC_V6) blocked.addSubnet(net, prefix, 'ipv6');

/** False for anything that is not an address. */
export function isPublicAddress(address: string): boolean {
  if (isIP(address) === 0) return false;
  const own = Object.values(networkInterfaces()).flatMap((all) => all?.map((one) => one.address) ?? []);
  return !own.includes(address) && !blocked.check(address, isIPv4(address) ? 'ipv4' : 'ipv6');
}
