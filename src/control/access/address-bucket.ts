import { isIPv6 } from 'node:net';

/** Returns the IPv4 address, or the /64 prefix of an IPv6 address: a client has all of it. */
export const addressBucket = (address: string): string => {
  if (!address.includes(':')) return address.slice(0, 64);
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  const [plain = ''] = address.split('%');
  if (!isIPv6(plain)) return address.slice(0, 64);
  const [head = '', tail] = plain.toLowerCase().split('::');
  const front = head === '' ? [] : head.split(':');
  const back = tail === undefined || tail === '' ? [] : tail.split(':');
  const gap = tail === undefined ? 0 : Math.max(0, 8 - front.length - back.length);
  const groups = [...front, ...Array<string>(gap).fill('0'), ...back].slice(0, 4);
  return groups.map((group) => group.replace(/^0+(?=.)/, '')).join(':');
};
