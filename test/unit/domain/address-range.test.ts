/** IP addresses and CIDR ranges, and the ranges that egress policies accept. */
import { expect, test } from 'vitest';
import { ipv4RangeOf, ipv4TextOf, isInRanges, overlap } from '../../../src/domain/access/address-range.ts';
import { refusalOfRange } from '../../../src/domain/regions/egress.ts';

test.each<[string, string, boolean]>([
  ['192.0.2.0/24', '192.0.2.255', true],
  ['192.0.2.0/24', '192.0.3.0', false],
  ['192.0.2.9/24', '192.0.2.1', true],
  ['192.0.2.7', '192.0.2.7', true],
  ['192.0.2.7', '192.0.2.8', false],
  ['192.0.2.0/24', '::ffff:192.0.2.7', true],
  ['::ffff:192.0.2.0/120', '192.0.2.7', true],
  ['0.0.0.0/0', '203.0.113.9', true],
  ['0.0.0.0/0', '2001:db8::1', false],
  ['::/0', '203.0.113.9', false],
  ['::/1', '203.0.113.9', false],
  ['::ffff:0:0/95', '203.0.113.9', false],
  ['::/0', '::ffff:203.0.113.9', false],
  ['203.0.113.0/24', '::FFFF:cb00:7109', true],
  ['2001:db8::/32', '2001:DB8:ffff::1', true],
  ['2001:db8::/32', '2001:db9::', false],
  ['2001:db8::1', '2001:db8:0:0:0:0:0:1', true],
  ['fe80::/10', 'fe80::1%eth0', true],
  ['10.0.0.0/8', '10.1.0.0/16', true],
  ['10.1.0.0/16', '10.0.0.0/8', false],
  ['10.0.0.0/8', '', false],
  ['::/0', 'all', false],
  ['::/0', '1:2:3', false],
  ['::/0', '1::2::3', false],
  ['10.0.0.0/33', '10.0.0.0', false],
  ['::/129', '::', false],
  ['0.0.0.0/0', '300.0.0.1', false],
  ['0.0.0.0/0', '010.0.0.1', false],
  ['0.0.0.0/0', '10.0.0.1/', false],
  ['0.0.0.0/0', '10.0.0.1/8/8', false],
])('%s includes %s: %s', (range, address, inside) => {
  expect(isInRanges(['198.51.100.1', range], address)).toBe(inside);
});

test.each<[string, number, number, string]>([
  ['10.0.0.7/24', 0x0a000000, 0x0a0000ff, '10.0.0.0'],
  ['255.255.255.255', 0xffffffff, 0xffffffff, '255.255.255.255'],
  ['192.0.2.1/0', 0, 0xffffffff, '0.0.0.0'],
])('%s is an IPv4 range from %d to %d', (text, first, last, start) => {
  expect(ipv4RangeOf(text)).toMatchObject({ first, last });
  expect(ipv4TextOf(first)).toBe(start);
});

test.each(['::ffff:192.0.2.1', '2001:db8::/32', '10.0.0.0/33', '256.0.0.1', '10.0.0', '010.0.0.1', '1.2.3.4.', ''])(
  '"%s" is no IPv4 range',
  (text) => {
    expect(ipv4RangeOf(text)).toBeNull();
  },
);

test('ranges overlap if they share an address', () => {
  const [whole, first, second] = [
    { first: 0, last: 9 },
    { first: 0, last: 4 },
    { first: 5, last: 9 },
  ];
  expect([overlap(whole, first), overlap(second, whole), overlap(first, second)]).toEqual([true, true, false]);
  expect(overlap(first, { first: 4, last: 5 })).toBe(true);
});

test.each(['203.0.113.0/24', '198.51.100.7', '0.0.0.0/0', '198.51.100.7/32'])(
  'an egress policy accepts the range %s',
  (range) => {
    expect(refusalOfRange(range)).toBeNull();
  },
);

test.each([
  ['example.org', 'a name is refused because its addresses change'],
  ['2001:db8::/32', 'is IPv6, which networks of instances do not have'],
  ['10.1.2.3/8', 'has bits beyond its prefix; send 10.0.0.0/8'],
  ['10.0.0.0/33', 'is no range such as 203.0.113.0/24'],
  ['300.0.0.0/8', 'is no range such as 203.0.113.0/24'],
  ['010.0.0.0/8', 'is no range such as 203.0.113.0/24'],
])('an egress policy refuses the range %s, and says what would work', (range, why) => {
  expect(refusalOfRange(range)).toContain(why);
});
