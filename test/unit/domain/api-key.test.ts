import { describe, expect, test } from 'vitest';
import { isInRanges } from '../../../src/domain/address-range.ts';
import { whyBeyond, whyNoSshKeys, whyNotFrom } from '../../../src/domain/api-key.ts';

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
  ['2001:db8::/32', '2001:DB8:ffff::1', true],
  ['2001:db8::/32', '2001:db9::', false],
  ['2001:db8::1', '2001:db8:0:0:0:0:0:1', true],
  ['fe80::/10', 'fe80::1%eth0', true],
  ['10.0.0.0/8', '10.1.0.0/16', true],
  ['10.1.0.0/16', '10.0.0.0/8', false],
  ['10.0.0.0/8', '', false],
  ['::/0', 'all', false],
  ['::/0', '1:2:3', false],
])('%s includes %s: %s', (range, address, inside) => {
  expect(isInRanges(['198.51.100.1', range], address)).toBe(inside);
});

const unlimited = { scopes: null, limits: { expiresAtMs: null, addresses: null } };

describe('an API key', () => {
  const own = {
    apiKeyId: 'k',
    scopes: ['read', 'account'] as const,
    limits: { expiresAtMs: 1_000, addresses: ['10.0.0.0/8'] },
  };
  const same = { scopes: ['read'] as const, limits: { expiresAtMs: 1_000, addresses: ['10.2.0.0/16', '10.0.0.1'] } };

  test('creates keys within its own scopes, time and addresses', () => {
    expect(whyBeyond(own, same)).toBeNull();
    expect(whyBeyond({ scopes: null }, unlimited)).toBeNull();
    expect(whyBeyond({ scopes: null, limits: { expiresAtMs: 5, addresses: null } }, same)).toMatch(/at most 5$/);
  });

  test.each<[string, Parameters<typeof whyBeyond>[1], RegExp]>([
    ['all scopes', { ...same, scopes: null }, /"all" are not .* send "scopes" with some of "read", "account"$/],
    ['another scope', { ...same, scopes: ['read', 'admin'] }, /the scopes "admin" are not/],
    ['no expiry', { ...same, limits: { ...same.limits, expiresAtMs: null } }, /"expiresAtUnixMs" of at most 1000$/],
    ['a later expiry', { ...same, limits: { ...same.limits, expiresAtMs: 1_001 } }, /outlive/],
    ['all addresses', { ...same, limits: { ...same.limits, addresses: null } }, /"all" are not inside/],
    ['wider addresses', { ...same, limits: { ...same.limits, addresses: ['10.0.0.0/7'] } }, /inside of "10.0.0.0\/8"$/],
  ])('creates no key with %s', (_, wanted, why) => {
    expect(whyBeyond(own, wanted)).toMatch(why);
  });

  test('registers an ssh key only with "instances" and without limits, which ssh would not have', () => {
    expect(whyNoSshKeys({ scopes: null })).toBeNull();
    expect(whyNoSshKeys({ apiKeyId: 'k', scopes: null })).toBeNull();
    expect(whyNoSshKeys({ apiKeyId: 'k', scopes: ['account', 'instances'] })).toBeNull();
    expect(whyNoSshKeys({ apiKeyId: 'k', scopes: ['account'] })).toMatch(/lacks the scope "instances": use a login/);
    expect(whyNoSshKeys({ apiKeyId: 'k', scopes: null, limits: own.limits })).toMatch(
      /limited in time or to addresses/,
    );
  });

  test('is accepted from its addresses, and from everywhere without', () => {
    expect(whyNotFrom(undefined, '192.0.2.1')).toBeNull();
    expect(whyNotFrom({ expiresAtMs: 1, addresses: null }, '192.0.2.1')).toBeNull();
    expect(whyNotFrom(own.limits, '10.9.9.9')).toBeNull();
    expect(whyNotFrom(own.limits, '192.0.2.1')).toMatch(/may not be used from the address 192.0.2.1: use/);
  });
});
