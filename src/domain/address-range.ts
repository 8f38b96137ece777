/** IP addresses and CIDR ranges. Forms are checked where they enter (`contract/account.ts`). */

interface AddressRange {
  bits: 32 | 128;
  value: bigint;
  /** Leading bits that all addresses of the range share. */
  prefix: number;
}

const IPV4 = /^\d{1,3}(\.\d{1,3}){3}$/;
const MAPPED = 0xffffn;

const numberOf = (parts: readonly (number | string)[], bitsEach: bigint): bigint =>
  parts.reduce<bigint>((value, part) => (value << bitsEach) | BigInt(part), 0n);

function ipv6NumberOf(text: string): bigint | null {
  const [head = '', tail] = text.split('::');
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

/** Null for what is not an address. Reads `::ffff:192.0.2.1` as IPv4. */
function rangeOf(text: string): AddressRange | null {
  const [address = '', length] = text.split('/');
  if (IPV4.test(address)) return { bits: 32, value: numberOf(address.split('.'), 8n), prefix: Number(length ?? 32) };
  const value = ipv6NumberOf(address.split('%')[0] ?? '');
  if (value === null) return null;
  const prefix = Number(length ?? 128);
  return value >> 32n === MAPPED && prefix >= 96
    ? { bits: 32, value: value & 0xffffffffn, prefix: prefix - 96 }
    : { bits: 128, value, prefix };
}

const includes = (outer: AddressRange, inner: AddressRange): boolean =>
  outer.bits === inner.bits &&
  outer.prefix <= inner.prefix &&
  (outer.value ^ inner.value) >> BigInt(outer.bits - outer.prefix) === 0n;

const parsed = new WeakMap<readonly string[], AddressRange[]>();

/** Whether an address or a range is inside of one of the ranges; parses each array once. */
export function isInRanges(ranges: readonly string[], text: string): boolean {
  const inner = rangeOf(text);
  if (inner === null) return false;
  let outer = parsed.get(ranges);
  if (outer === undefined) {
    outer = ranges.map(rangeOf).filter((range) => range !== null);
    parsed.set(ranges, outer);
  }
  return outer.some((range) => includes(range, inner));
}
