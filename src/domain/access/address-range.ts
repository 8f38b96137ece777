/** IP addresses and CIDR ranges. */

interface AddressRange {
  bits: 32 | 128;
  value: bigint;
  /** Leading bits that all addresses of the range share. */
  prefix: number;
}

/** Without leading zeros, which some programs read as octal. */
const IPV4 = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/;
const MAPPED = 0xffffn;

const numberOf = (parts: readonly (number | string)[], bitsEach: bigint): bigint =>
  parts.reduce<bigint>((value, part) => (value << bitsEach) | BigInt(part), 0n);

function ipv6NumberOf(text: string): bigint | null {
  const [head = '', tail, more] = text.split('::');
  if (more !== undefined) return null;
  const groupsOf = (side: string): string[] => (side === '' ? [] : side.split(':'));
  const [front, back] = [groupsOf(head), groupsOf(tail ?? '')];
  const last = back.at(-1) ?? front.at(-1) ?? '';
  if (IPV4.test(last)) {
    const value = numberOf(last.split('.'), 8n);
    (back.length > 0 ? back : front).splice(-1, 1, (value >> 16n).toString(16), (value & 0xffffn).toString(16));
  }
  const gap = tail === undefined ? 0 : 8 - front.length - back.length;
  if (gap < 0) return null;
  const groups = [...front, ...Array<string>(gap).fill('0'), ...back];
  const isWhole = groups.length === 8 && groups.every((group) => /^[0-9a-f]{1,4}$/i.test(group));
  return isWhole
    ? numberOf(
        groups.map((group) => `0x${group}`),
        16n,
      )
    : null;
}

/** Null for what is neither an address nor a range. Reads `::ffff:192.0.2.1` as IPv4. */
function rangeOf(text: string): AddressRange | null {
  const [, address = '', length] = /^([^/]*)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const range = (bits: 32 | 128, value: bigint): AddressRange | null => {
    const prefix = Number(length ?? bits);
    return prefix > bits ? null : { bits, value, prefix };
  };
  if (IPV4.test(address)) return range(32, numberOf(address.split('.'), 8n));
  const value = ipv6NumberOf(address.split('%')[0] ?? '');
  const made = value === null ? null : range(128, value);
  return made !== null && made.value >> 32n === MAPPED && made.prefix >= 96
    ? { bits: 32, value: made.value & 0xffffffffn, prefix: made.prefix - 96 }
    : made;
}

/** Unsigned 32-bit addresses, inclusive. */
export interface Ipv4Range {
  first: number;
  last: number;
  prefix: number;
  /** The given address, which may have bits beyond the prefix. */
  address: number;
}

/** Null for what is neither an IPv4 address nor a range in dotted form. */
export function ipv4RangeOf(text: string): Ipv4Range | null {
  const range = text.includes(':') ? null : rangeOf(text);
  if (range === null) return null;
  const { prefix } = range;
  const [address, size] = [Number(range.value), 2 ** (32 - prefix)];
  const first = address - (address % size);
  return { first, last: first + size - 1, prefix, address };
}

export const ipv4TextOf = (address: number): string =>
  [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256).join('.');

export const overlap = (a: Pick<Ipv4Range, 'first' | 'last'>, b: Pick<Ipv4Range, 'first' | 'last'>): boolean =>
  a.first <= b.last && b.first <= a.last;

const includes = (outer: AddressRange, inner: AddressRange): boolean =>
  outer.bits === inner.bits &&
  outer.prefix <= inner.prefix &&
  (outer.value ^ inner.value) >> BigInt(outer.bits - outer.prefix) === 0n;

const parsed = new WeakMap<readonly string[], AddressRange[]>();

/**
 * Whether an address or a range is inside of one of the ranges of its family; parses each array
 * once. Node's `BlockList` is none: its IPv6 ranges match IPv4 addresses, too.
 */
export function isInRanges(ranges: readonly string[], text: string): boolean {
  if (ranges.length === 0) return false;
  const inner = rangeOf(text);
  if (inner === null) return false;
  let outer = parsed.get(ranges);
  if (outer === undefined) {
    outer = ranges.map(rangeOf).filter((range) => range !== null);
    parsed.set(ranges, outer);
  }
  return outer.some((range) => includes(range, inner));
}
