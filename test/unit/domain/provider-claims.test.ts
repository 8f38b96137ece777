/** Claims in the form that is known of providers, which sent none of them. Values are made up. */
import { expect, test } from 'vitest';
import { claimsOf, type Claims } from '../../../src/domain/access/sign-on-claims.ts';
import { decideLogin, type SignOnRules } from '../../../src/domain/access/sign-on-rules.ts';

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

const entra = {
  aud: '6cb04018-a3f5-46a7-b995-940c78f5aef3',
  iss: 'https://login.microsoftonline.com/9122040d-6c67-4c5b-b112-36a304b66dad/v2.0',
  sub: 'AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ',
  name: 'Abe Lincoln',
  preferred_username: 'AbeLi@example.org',
  email: 'AbeLi@example.org',
  oid: '00000000-0000-0000-66f3-3332eca7ea81',
  tid: '9122040d-6c67-4c5b-b112-36a304b66dad',
  ver: '2.0',
};

test('lets people of Entra ID in who trusts its addresses, with the name before the @', () => {
  expect(() => decide(entra)).toThrow(/does not say whether your email address/);
  const trusting = { trustsEmail: 'unless-denied' as const };
  expect(decide(entra, trusting).identity).toMatchObject({ username: 'abeli', email: 'abeli@example.org', role: null });
  const roles = { ...trusting, groupsClaim: 'roles' };
  expect(decide({ ...entra, roles: ['berth-admins'] }, roles).identity.role).toBe('admin');
  const overage = {
    ...entra,
    _claim_names: { groups: 'src1' },
    _claim_sources: { src1: { endpoint: 'https://graph.example/users/1/getMemberObjects' } },
  };
  expect(decide(overage, trusting).notice).toMatch(/left the claim "groups" out, because the person has too many/);
});

const google = {
  iss: 'https://accounts.google.com',
  sub: '110169484474386276334',
  email: 'Jane.Doe@example.org',
  email_verified: true,
  hd: 'example.org',
  name: 'Jane Doe',
};

test('names people of Google by their address, and changes no role of theirs', () => {
  const { identity, notice } = decide(google);
  expect(identity).toMatchObject({ username: 'jane.doe', email: 'jane.doe@example.org', role: null });
  expect(notice).toMatch(/sends no claim "groups"/);
});

const okta = {
  iss: 'https://example.okta.com',
  sub: '00uid4BxXw6I6TV4m0g3',
  preferred_username: 'john.doe@example.org',
  email: 'john.doe@example.org',
  email_verified: true,
  groups: ['Everyone', 'berth-admins'],
};

test('gives people of Okta the role of their group', () => {
  expect(decide(okta).identity).toMatchObject({ username: 'john.doe', role: 'admin' });
});

const cognito = {
  iss: 'https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_example',
  sub: 'aaaaaaaa-bbbb-cccc-dddd-example',
  email: 'janedoe@example.org',
  email_verified: 'true',
  'cognito:username': 'janedoe',
  'cognito:groups': ['berth-admins'],
};

test('reads the texts of Cognito, and its claims with a colon', () => {
  expect(decide(cognito).identity).toMatchObject({ username: 'janedoe', email: 'janedoe@example.org', role: null });
  const named = { nameClaim: 'cognito:username', groupsClaim: 'cognito:groups' };
  expect(decide(cognito, named).identity).toMatchObject({ username: 'janedoe', role: 'admin' });
});
