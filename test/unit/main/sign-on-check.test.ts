/** Dry run of a login by a provider. */
import { expect, test } from 'vitest';
import { readConfig } from '../../../src/main/config.ts';
import { checkSignOn } from '../../../src/main/sign-on-check.ts';

const { signOn } = readConfig({
  BERTH_OIDC_ISSUER: 'https://login.example.org',
  BERTH_OIDC_CLIENT_ID: 'berth',
  BERTH_OIDC_CLIENT_SECRET_FILE: '/etc/berth/oidc-secret',
  BERTH_OIDC_EMAIL_DOMAINS: 'example.org',
  BERTH_OIDC_ROLES: 'admin=berth-admins,operator=ops',
});
const check = (claims: object | string) => {
  if (signOn === null) throw new Error('no provider is set');
  return checkSignOn(signOn, typeof claims === 'string' ? claims : JSON.stringify(claims));
};

const anna = { sub: 's1', preferred_username: 'Anna', email: 'anna@example.org', email_verified: true };
const tokenOf = (claims: object): string =>
  ['{"alg":"RS256"}', JSON.stringify(claims), 'x'].map((part) => Buffer.from(part).toString('base64url')).join('.');

test('says name, email and role, each with its reason, of claims and of a token', () => {
  const claims = { ...anna, groups: ['/ops', 'x'], iss: 'https://login.example.org', aud: ['berth'] };
  const expected = {
    isAllowed: true,
    lines: [
      'Allowed.',
      'Name of a new account: anna',
      'Email: anna@example.org: the provider says that it is verified (email_verified is true), so it counts',
      'Role: operator; the group "ops" gives it',
    ],
  };
  expect(check(claims)).toEqual(expected);
  expect(check(`${tokenOf(claims)}\n`)).toEqual(expected);
  expect(check({ access_token: 'a', id_token: tokenOf(claims), token_type: 'Bearer' })).toEqual(expected);
});

test.each<[object, string]>([
  [
    {},
    'Role: as before, or user for a new account; the provider sends no claim "groups", so the login changes no role',
  ],
  [{ groups: [] }, 'Role: user; no group has a role in BERTH_OIDC_ROLES (there are none)'],
  [{ groups: ['guests'] }, 'Role: user; no group has a role in BERTH_OIDC_ROLES ("guests")'],
])('says why the groups %j give no role', (more, line) => {
  expect(check({ ...anna, ...more }).lines).toContain(line);
});

test('says the cause of a refusal: claim, value and setting', () => {
  expect(check({ ...anna, email_verified: undefined })).toEqual({
    isAllowed: false,
    lines: [
      'Refused: the login provider does not say whether your email address "anna@example.org" is verified, and only verified addresses may log in here; ask an administrator',
      'claim: "email_verified"',
      'value: null',
      'setting: "BERTH_OIDC_TRUST_EMAIL"',
    ],
  });
});

test('warns of a token of another issuer, or for another client', () => {
  const { lines } = check(tokenOf({ ...anna, iss: 'https://else.example', aud: 'account' }));
  expect(lines.slice(0, 3)).toEqual([
    'Another issuer: the token is of "https://else.example", and BERTH_OIDC_ISSUER is "https://login.example.org".',
    'Another client: the token is for "account", and BERTH_OIDC_CLIENT_ID is "berth".',
    'Allowed.',
  ]);
});

test.each(['', '{"id_token":"x"}', 'x.y.z', '{"sub":', '[]'])(
  'refuses %j, which is neither claims nor a token',
  (text) => {
    expect(() => check(text)).toThrow(/neither a JSON object of claims nor a token/);
  },
);
