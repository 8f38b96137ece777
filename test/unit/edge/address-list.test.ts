/** Trusted proxies: addresses of sockets and of `X-Forwarded-For` in any spelling. */
import { expect, test } from 'vitest';
import {
  forwardedHops,
  listsOfForwarded,
  makeAddressMatcher,
  takeForwarded,
  withoutMapping,
} from '../../../src/edge/address-list.ts';

test.each(['::/0', '::/1', '::/3', '::/80', '::ffff:0:0/95', '::fffe:0:0/95'])(
  'the IPv6 range %s matches no IPv4 address',
  (range) => {
    const matches = makeAddressMatcher([range, '192.0.2.1']);
    expect(['203.0.113.9', '::ffff:203.0.113.9', '192.0.2.1', '::ffff:192.0.2.1'].map(matches)).toEqual([
      false,
      false,
      true,
      true,
    ]);
  },
);

test.each(['0.0.0.0/0', '128.0.0.0/1'])('the IPv4 range %s matches no IPv6 address', (range) => {
  const matches = makeAddressMatcher([range]);
  expect(['2001:db8::1', '::1', '::', '::203.0.113.9', '64:ff9b::203.0.113.9'].some(matches)).toBe(false);
  expect(matches('203.0.113.9')).toBe(true);
});

test.each(['10.1.2.3', '::ffff:10.1.2.3', '::FFFF:10.1.2.3', '::ffff:a01:203', '0:0:0:0:0:ffff:10.1.2.3'])(
  'the address %s is in an IPv4 range, also behind the removal of its mapping',
  (address) => {
    const matches = makeAddressMatcher(['10.0.0.0/8']);
    expect([matches(address), matches(withoutMapping(address))]).toEqual([true, true]);
  },
);

test.each(['', 'unknown', '10.1.2.3:80', '010.1.2.3', '::ffff:', '::ffff:a01'])('"%s" matches nothing', (address) => {
  expect(makeAddressMatcher(['0.0.0.0/1', '::/1'])(withoutMapping(address))).toBe(address === '::ffff:a01');
});

test.each([
  ['203.0.113.7', ['203.0.113.7']],
  ['203.0.113.7:54321', ['203.0.113.7']],
  ['"203.0.113.7"', ['203.0.113.7']],
  ['"203.0.113.7:80"', ['203.0.113.7']],
  ['::ffff:203.0.113.7', ['203.0.113.7']],
  ['[::ffff:203.0.113.7]:80', ['203.0.113.7']],
  ['2001:DB8::7', ['2001:db8::7']],
  ['[2001:db8::7]', ['2001:db8::7']],
  ['[2001:db8::7]:443', ['2001:db8::7']],
  ['"[2001:db8::7]:443"', ['2001:db8::7']],
  ['10.0.0.1:1 ,\t[2001:db8::7]:2', ['10.0.0.1', '2001:db8::7']],
  ['10.0.0.1, unknown, 203.0.113.7:1', ['203.0.113.7']],
  ['203.0.113.7, _hidden', []],
  ['203.0.113.7:1:2', []],
  ['', []],
  [`${'10.0.0.1,'.repeat(2_000)}203.0.113.7`, [...Array.from({ length: 31 }, () => '10.0.0.1'), '203.0.113.7']],
])('the hops of "%s" are addresses alone', (list, hops) => {
  expect(forwardedHops(list)).toEqual(hops);
});

test.each([
  ['for=203.0.113.7', { 'x-forwarded-for': '203.0.113.7' }],
  ['For="[2001:db8::7]:4711"', { 'x-forwarded-for': '[2001:db8::7]:4711' }],
  [
    'for=203.0.113.7;proto=https;host=berth.example.org;by=10.0.0.1, for=10.0.0.2',
    {
      'x-forwarded-for': '203.0.113.7, 10.0.0.2',
      'x-forwarded-proto': 'https',
      'x-forwarded-host': 'berth.example.org',
    },
  ],
  ['for=unknown, for=_hidden', { 'x-forwarded-for': 'unknown, _hidden' }],
  ['proto=https', { 'x-forwarded-for': 'unknown', 'x-forwarded-proto': 'https' }],
  ['for="198.51.100.1, 203.0.113.7"', { 'x-forwarded-for': '198.51.100.1  203.0.113.7' }],
  ['for="a\\"b" ; proto=http', { 'x-forwarded-for': 'a"b', 'x-forwarded-proto': 'http' }],
  ['for=203.0.113.7;for=198.51.100.1', { 'x-forwarded-for': '203.0.113.7' }],
  ['for="203.0.113.7', null],
  ['203.0.113.7', null],
  ['for=a b', null],
  ['', null],
])('reads %s as the lists of X-Forwarded', (header, lists) => {
  expect(listsOfForwarded(header)).toEqual(lists);
});

test('takes Forwarded only where no X-Forwarded header came with it', () => {
  const taken = (headers: Record<string, string>) => {
    takeForwarded(headers);
    return headers;
  };
  const forwarded = 'for=203.0.113.7;proto=https';
  expect(taken({ forwarded })).toEqual({ forwarded, 'x-forwarded-for': '203.0.113.7', 'x-forwarded-proto': 'https' });
  for (const name of ['x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host'])
    expect(taken({ forwarded, [name]: 'x' })).toEqual({ forwarded, [name]: 'x' });
  expect(taken({ forwarded: 'for=' + '"\\'.repeat(8_000) })).not.toHaveProperty('x-forwarded-for');
});

test('reads each list by itself, at each time, whatever its length', () => {
  const lists = ['10.1.2.3', '10.1.2.4', ...[1, 40].map((hops) => Array(hops).fill('2001:db8::1').join(','))];
  const read = () => lists.map((list) => forwardedHops(list));
  const matches = makeAddressMatcher(['10.1.2.3']);
  const expected = [['10.1.2.3'], ['10.1.2.4'], ['2001:db8::1'], Array(32).fill('2001:db8::1')];
  expect([read(), read()]).toEqual([expected, expected]);
  for (const address of ['10.1.2.3', '10.1.2.4', '10.1.2.3']) expect(matches(address)).toBe(address === '10.1.2.3');
});
