import { describe, expect, test } from 'vitest';
import { whyBeyond, whyNotFrom, whyNotLasting } from '../../../src/domain/access/api-key.ts';

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

  test('causes a lasting effect only with the scope of the effect and without limits', () => {
    const why = (key: Parameters<typeof whyNotLasting>[0]) => whyNotLasting(key, { scope: 'instances' });
    expect(why({ scopes: null })).toBeNull();
    expect(why({ apiKeyId: 'k', scopes: null })).toBeNull();
    expect(why({ apiKeyId: 'k', scopes: ['account', 'instances'] })).toBeNull();
    expect(why({ apiKeyId: 'k', scopes: ['account'] })).toMatch(/lacks the scope "instances": use a login/);
    for (const limits of [own.limits, { ...own.limits, addresses: null }, { ...own.limits, expiresAtMs: null }])
      expect(why({ apiKeyId: 'k', scopes: null, limits })).toMatch(/limited in time or to addresses: use a login/);
  });

  test('is accepted from its addresses, and from everywhere without', () => {
    expect(whyNotFrom(undefined, '192.0.2.1')).toBeNull();
    expect(whyNotFrom({ expiresAtMs: 1, addresses: null }, '192.0.2.1')).toBeNull();
    expect(whyNotFrom(own.limits, '10.9.9.9')).toBeNull();
    expect(whyNotFrom(own.limits, '192.0.2.1')).toMatch(/may not be used from the address 192.0.2.1: use/);
  });
});
