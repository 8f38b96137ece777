export interface NetworkPool {
  cidr: string;
  /** Prefix length of one network; 24 holds 253 instances. */
  prefix: number;
}

/** Holds 512 accounts; outside of Docker's 172.17-31 and 192.168, in a rarely used part of 10/8. */
export const defaultPool: NetworkPool = { cidr: '10.210.0.0/15', prefix: 24 };

/** Unsigned 32-bit addresses, inclusive. */
type Range = readonly [first: number, last: number];

export function rangeOf(cidr: string): Range | null {
  const match = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?:\/(\d{1,2}))?$/.exec(cidr);
  if (match === null) return null;
  const bytes = match.slice(1, 5).map(Number);
  const prefix = Number(match[5] ?? 32);
  if (prefix > 32 || bytes.some((byte) => byte > 255)) return null;
  const size = 2 ** (32 - prefix);
  const address = bytes.reduce((sum, byte) => sum * 256 + byte, 0);
  const first = address - (address % size);
  return [first, first + size - 1];
}

const overlap = (a: Range, b: Range): boolean => a[0] <= b[1] && b[0] <= a[1];

/** Returns the IPv4 addresses and CIDR ranges that contain addresses of the pool. */
export function rangesMeeting({ cidr }: NetworkPool, listed: readonly string[]): string[] {
  const pool = rangeOf(cidr);
  return listed.filter((text) => {
    const range = rangeOf(text);
    return pool !== null && range !== null && overlap(pool, range);
  });
}

const textOf = (address: number): string =>
  [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256).join('.');

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
    return size < 2 ** 32 ? [`${textOf(numberOf(address))}/${32 - Math.log2(size)}`] : [];
  });
}

export function checkPool({ cidr, prefix }: NetworkPool): void {
  const range = rangeOf(cidr);
  const isValid = range !== null && cidr.includes('/') && prefix <= 29 && 2 ** (32 - prefix) <= range[1] - range[0] + 1;
  if (!isValid)
    throw new Error(
      `networks with a prefix of ${prefix} cannot be allocated from "${cidr}"; try 10.210.0.0/15 with 24`,
    );
}

/** Free subnets of the pool, from an offset hashed from `key`: rarely equal for two accounts. */
export function* freeSubnets({ cidr, prefix }: NetworkPool, key: string, taken: readonly string[]): Generator<string> {
  const pool = rangeOf(cidr);
  if (pool === null) return;
  const size = 2 ** (32 - prefix);
  const count = Math.floor((pool[1] - pool[0] + 1) / size);
  const ranges = taken.map(rangeOf).filter((range) => range !== null);
  let hash = 2_166_136_261; // FNV-1a
  for (const char of key) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 16_777_619);
  for (let step = 0; step < count; step++) {
    const first = pool[0] + (((hash >>> 0) + step) % count) * size;
    if (!ranges.some((range) => overlap(range, [first, first + size - 1]))) yield `${textOf(first)}/${prefix}`;
  }
}
