/** Trusted proxies: addresses of sockets and of `X-Forwarded-For` in any spelling. */
import { expect, test } from 'vitest';
import {
  makeAddressMatcher,
  makeTrustedProxies,
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

const proxies = makeTrustedProxies(['10.0.0.0/8']);

test.each([
  ['203.0.113.7', '203.0.113.7'],
  ['203.0.113.7:54321', '203.0.113.7'],
  ['203.0.113.7:_p1', '203.0.113.7'],
  ['"203.0.113.7"', '203.0.113.7'],
  ['"203.0.113.7:80"', '203.0.113.7'],
  ['::ffff:203.0.113.7', '203.0.113.7'],
  ['[::ffff:203.0.113.7]:80', '203.0.113.7'],
  ['2001:DB8::7', '2001:db8::7'],
  ['[2001:db8::7]', '2001:db8::7'],
  ['[2001:db8::7]:443', '2001:db8::7'],
  ['"[2001:db8::7]:443"', '2001:db8::7'],
  ['203.0.113.7:1 ,\t10.0.0.1:2', '203.0.113.7'],
  ['198.51.100.1, 203.0.113.7', '203.0.113.7'],
  ['10.0.0.2, 10.0.0.1', '10.0.0.2'],
  ['10.0.0.2, unknown, 10.0.0.1', '10.0.0.1'],
  ['x", 203.0.113.7', '203.0.113.7'],
  [', 203.0.113.7 , ,', '203.0.113.7'],
  ['203.0.113.7, _hidden', null],
  ['203.0.113.7:1:2', null],
  [',', null],
  ['', null],
  [`203.0.113.7${', 10.0.0.1'.repeat(2_000)}`, '10.0.0.1'],
])('the list "%s" says the last address that is no proxy\'s', (list, address) => {
  expect([proxies.listed(list), proxies.listed(list)]).toEqual([address, address]);
});

const NOTHING = { address: null, proto: null, host: null };

test.each([
  ['for=203.0.113.7', { address: '203.0.113.7' }],
  ['For="[2001:db8::7]:4711"', { address: '2001:db8::7' }],
  ['for="203.0.113.9:_p1"', { address: '203.0.113.9' }],
  [
    'for=192.0.2.1;proto=http, for=203.0.113.7;proto=HTTPS;host=Berth.example.org;by=10.0.0.1, for=10.0.0.2;proto=http',
    { address: '203.0.113.7', proto: 'https', host: 'berth.example.org' },
  ],
  ['for=203.0.113.7;proto=https, for=_hidden;host=a', { host: 'a' }],
  ['proto=https', { proto: 'https' }],
  ['for="198.51.100.1, 203.0.113.7"', {}],
  ['for=203.0.113.7; host="a\\"b,c" ;proto=http;', { address: '203.0.113.7', proto: 'http', host: 'a"b,c' }],
  ['for=203.0.113.7;for=198.51.100.1', { address: '203.0.113.7' }],
  ['x, for=203.0.113.9', { address: '203.0.113.9' }],
  ['for="x, for=203.0.113.9', { address: '203.0.113.9' }],
  ['for="x\\", for="203.0.113.9:1"', { address: '203.0.113.9' }],
  [', for=203.0.113.9, ,', { address: '203.0.113.9' }],
  ['for=192.0.2.1, x, for=10.0.0.1;proto=https', { address: '10.0.0.1', proto: 'https' }],
  ['for="203.0.113.7', {}],
  ['203.0.113.7', {}],
  ['for=a b', {}],
  ['', {}],
])('Forwarded "%s" says what its last element that no proxy sent says', (header, said) => {
  expect(proxies.forwarded(header)).toEqual({ ...NOTHING, ...said });
});

test('reads 64 KB of quotes, commas and backslashes in linear time', () => {
  for (const part of ['"', ',', '\\', '"\\', '",', '=";'])
    expect(proxies.forwarded(`${part.repeat(65_536 / part.length)}, for=203.0.113.9`).address).toBe('203.0.113.9');
  expect(proxies.listed(','.repeat(65_536))).toBe(null);
});

test('X-Forwarded-For decides; without it Forwarded does, whatever else a client added', () => {
  const taken = (headers: Record<string, string>) => {
    takeForwarded(headers, proxies);
    return headers;
  };
  const forwarded = 'for=203.0.113.7;proto=https';
  const own = { 'x-forwarded-proto': 'http', 'x-forwarded-host': 'evil.example.org' };
  expect(taken({ forwarded, ...own })).toEqual({
    forwarded,
    'x-forwarded-for': '203.0.113.7',
    'x-forwarded-proto': 'https',
  });
  expect(taken({ forwarded, 'x-forwarded-for': '192.0.2.1, 10.0.0.1', ...own })).toEqual({
    forwarded,
    'x-forwarded-for': '192.0.2.1',
    ...own,
  });
  expect(taken({ forwarded, 'x-forwarded-for': 'unknown' })).toEqual({ forwarded });
  expect(taken({ ...own })).toEqual(own);
});
