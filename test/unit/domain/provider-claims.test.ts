/**
 * Claims and metadata in the form of the providers' public documents, with values of this test:
 * - Entra ID: learn.microsoft.com/entra/identity-platform/id-token-claims-reference
 * - Google: developers.google.com/identity/openid-connect/reference
 * - Okta: developer.okta.com/docs/reference/api/oidc
 * - Cognito: docs.aws.amazon.com/cognito/latest/developerguide,
 *   amazon-cognito-user-pools-using-the-id-token
 */
import { expect, test } from 'vitest';
import { claimsOf, type Claims } from '../../../src/domain/access/sign-on-claims.ts';
import { decideLogin, type SignOnRules } from '../../../src/domain/access/sign-on-rules.ts';
import { basicAuth, promptOf, tokenAuthOf } from '../../../src/edge/http/access/login-provider.ts';

const rules: SignOnRules = {
  nameClaim: 'preferred_username',
  groupsClaim: 'groups',
  emailDomains: ['example.org'],
  trustsEmail: 'verified',
  groups: [],
  rolesByGroup: new Map([['berth-admins', 'admin']]),
  linksByEmail: false,
};
const decide = (claims: Claims, more: Partial<SignOnRules> = {}) => {
  const all = { ...rules, ...more };
  return decideLogin(all, 'https://issuer', claimsOf(all, [claims]));
};

/** `email` is sent for guests, or by the scope `email`; no document has an `email_verified`. */
const entra = {
  ver: '2.0',
  aud: '5c0ffee0-0000-4000-8000-000000000001',
  iss: 'https://login.microsoftonline.com/7e4a4700-0000-4000-8000-000000000002/v2.0',
  sub: 'a-pairwise-subject-of-letters-and-digits',
  oid: '0b1ec700-0000-4000-8000-000000000003',
  tid: '7e4a4700-0000-4000-8000-000000000002',
  sid: '5e551000-0000-4000-8000-000000000004',
  name: 'Ann Example',
  preferred_username: 'Ann@example.org',
  email: 'Ann@example.org',
};

test('lets people of Entra ID in who trusts its addresses, with the name before the @', () => {
  expect(() => decide(entra)).toThrow(/does not say whether your email address/);
  const trusting = { trustsEmail: 'unless-denied' as const };
  const { identity } = decide(entra, trusting);
  expect(identity).toMatchObject({ username: 'ann', email: 'ann@example.org', role: null, sid: entra.sid });
  const roles = { ...trusting, groupsClaim: 'roles' };
  expect(decide({ ...entra, roles: ['berth-admins'] }, roles).identity.role).toBe('admin');
});

test('says that Entra ID left groups out of a token', () => {
  const trusting = { trustsEmail: 'unless-denied' as const };
  const endpoint = 'https://graph.microsoft.com/v1.0/users/0b1ec700-0000-4000-8000-000000000003/getMemberObjects';
  const overage = { ...entra, _claim_names: { groups: 'src1' }, _claim_sources: { src1: { endpoint } } };
  expect(decide(overage, trusting).notice).toMatch(/left the claim "groups" out, because the person has too many/);
});

/** `hd` is sent for accounts of an organization alone. */
const google = {
  iss: 'https://accounts.google.com',
  azp: 'a-client.apps.googleusercontent.com',
  aud: 'a-client.apps.googleusercontent.com',
  sub: '100000000000000000001',
  at_hash: 'a-hash',
  hd: 'example.org',
  email: 'Ann.Example@example.org',
  email_verified: true,
  name: 'Ann Example',
};

test('names people of Google by their address, and changes no role of theirs', () => {
  const { identity, notice } = decide(google);
  expect(identity).toMatchObject({ username: 'ann.example', email: 'ann.example@example.org', role: null });
  expect(notice).toMatch(/sends no claim "groups"/);
});

const okta = {
  ver: 1,
  iss: 'https://example.okta.com',
  sub: '00u0000000000000test',
  aud: 'a-client',
  amr: ['pwd'],
  jti: 'ID.a-token',
  name: 'Ann Example',
  preferred_username: 'ann.example@example.org',
  email: 'ann.example@example.org',
  email_verified: true,
};

test('gives people of Okta the role of a group, and none without the claim for groups', () => {
  expect(decide({ ...okta, groups: ['Everyone', 'berth-admins'] }).identity).toMatchObject({
    username: 'ann.example',
    role: 'admin',
  });
  expect(decide(okta)).toMatchObject({ identity: { role: null }, notice: expect.stringMatching(/sends no claim/) });
});

const cognito = {
  iss: 'https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_example',
  sub: 'c0600000-0000-4000-8000-000000000005',
  aud: 'a-client',
  token_use: 'id',
  email: 'annexample@example.org',
  email_verified: true,
  'cognito:username': 'annexample',
  'cognito:groups': ['berth-admins'],
};

test('reads claims of Cognito with a colon, and its verification as text', () => {
  for (const verified of [true, 'true']) {
    const { identity } = decide({ ...cognito, email_verified: verified });
    expect(identity).toMatchObject({ username: 'annexample', email: 'annexample@example.org', role: null });
  }
  const named = { nameClaim: 'cognito:username', groupsClaim: 'cognito:groups' };
  expect(decide(cognito, named).identity).toMatchObject({ username: 'annexample', role: 'admin' });
});

test.each([
  [entra.iss, ['client_secret_post', 'private_key_jwt', 'client_secret_basic'], 'client_secret_basic', 'login'],
  [google.iss, ['client_secret_post', 'client_secret_basic'], 'client_secret_basic', 'select_account'],
  [
    okta.iss,
    ['client_secret_basic', 'client_secret_post', 'client_secret_jwt', 'none'],
    'client_secret_basic',
    'login',
  ],
  [cognito.iss, ['client_secret_basic', 'client_secret_post'], 'client_secret_basic', 'login'],
])('authenticates at %s by what it lists, and asks it for another account by a prompt that it takes', (...row) => {
  const [issuer, token_endpoint_auth_methods_supported, tokenAuth, prompt] = row;
  expect(tokenAuthOf(null, { token_endpoint_auth_methods_supported })).toBe(tokenAuth);
  expect(promptOf({ issuer })).toBe(prompt);
});

test('sends client and secret by Basic as forms encode them: hyphens as they are, which some never decode', () => {
  const headers = new Headers();
  basicAuth('a-b_c.d*e f+%')({ issuer: okta.iss }, { client_id: 'my-app' }, new URLSearchParams(), headers);
  expect(atob(headers.get('authorization')?.replace('Basic ', '') ?? '')).toBe('my-app:a-b_c.d*e+f%2B%25');
});
