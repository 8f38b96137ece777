import { ipv4RangeOf, ipv4TextOf, isInRanges, overlap } from '../../../domain/access/address-range.ts';

export interface NetworkPool {
  cidr: string;
  /** Prefix length of one network; 24 holds 253 instances. */
  prefix: number;
}

/** Holds 512 accounts; outside of Docker's 172.17-31 and 192.168, in a rarely used part of 10/8. */
export const defaultPool: NetworkPool = { cidr: '10.210.0.0/15', prefix: 24 };

/** Returns the addresses and CIDR ranges that contain addresses of a range. */
export const rangesMeeting = (cidr: string, listed: readonly string[]): string[] =>
  listed.filter((text) => isInRanges([cidr], text) || isInRanges([text], cidr));

/** Connected networks in CIDR notation, of `/proc/net/route`: numbers are in host byte order. */
export function subnetsOfRoutes(table: string, littleEndian: boolean): string[] {
  const numberOf = (hex: string): number => {
    const bytes = hex.match(/../g) ?? [];
    return Number.parseInt((littleEndian ? bytes.toReversed() : bytes).join(''), 16);
  };
  return table.split('\n').flatMap((line) => {
    const match = /^\S+\t([0-9A-F]{8})\t0{8}\t(?:[^\t]*\t){4}([0-9A-F]{8})\t/.exec(line);
    const [address, mask] = [match?.[1], match?.[2]];
    if (address === undefined || mask === undefined) return [];
    const size = 2 ** 32 - numberOf(mask);
    return size < 2 ** 32 ? [`${ipv4TextOf(numberOf(address))}/${32 - Math.log2(size)}`] : [];
  });
}

export function checkPool({ cidr, prefix }: NetworkPool): void {
  const range = ipv4RangeOf(cidr);
  const isValid =
    range !== null && cidr.includes('/') && prefix <= 29 && 2 ** (32 - prefix) <= range.last - range.first + 1;
  if (!isValid)
    throw new Error(
      `networks with a prefix of ${prefix} cannot be allocated from "${cidr}"; try 10.210.0.0/15 with 24`,
    );
}

/** Free subnets of the pool, from an offset hashed from `key`: rarely equal for two accounts. */
export function* freeSubnets({ cidr, prefix }: NetworkPool, key: string, taken: readonly string[]): Generator<string> {
  const pool = ipv4RangeOf(cidr);
  if (pool === null) return;
  const size = 2 ** (32 - prefix);
  const count = Math.floor((pool.last - pool.first + 1) / size);
  const ranges = taken.map(ipv4RangeOf).filter((range) => range !== null);
  let hash = 2_166_136_261; // FNV-1a
  for (const char of key) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 16_777_619);
  for (let step = 0; step < count; step++) {
    const first = pool.first + (((hash >>> 0) + step) % count) * size;
    if (!ranges.some((range) => overlap(range, { first, last: first + size - 1 })))
      yield `${ipv4TextOf(first)}/${prefix}`;
  }
}
