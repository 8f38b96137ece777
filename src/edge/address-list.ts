/** Matches addresses of sockets against IP addresses and CIDR ranges. */
import { isInRanges } from '../domain/address-range.ts';

export type AddressMatcher = (address: string) => boolean;

/** An IPv6 range matches no IPv4 address, whichever way the address is written. */
export const makeAddressMatcher =
  (listed: readonly string[]): AddressMatcher =>
  (address) =>
    isInRanges(listed, address);

/** Sockets of both families show IPv4 clients as mapped addresses. */
export const withoutMapping = (address: string): string => address.replace(/^::ffff:(?=\d+\.)/i, '');
