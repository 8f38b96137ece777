/** Which logins of a provider of OpenID Connect the rules allow. */
import { expect, test } from 'vitest';
import { identityOf, type SignOnRules } from '../../../src/domain/sign-on-rules.ts';

const rules: SignOnRules = {
  nameClaim: 'name',
  groupsClaim: 'groups',
  emailDomains: ['good.com'],
  groups: [],
  rolesByGroup: new Map(),
  linksByEmail: false,
};
const login = (email: unknown, verified: unknown, given = rules) =>
  identityOf(given, 'https://issuer', { sub: 's', name: 'anna', email, email_verified: verified });

test.each(['a@good.com', 'A@Good.COM', '"a@evil.com"@good.com', ' a@good.com '])(
  'the email address %s is in the domain good.com',
  (email) => {
    expect(login(email, true).email).toBe(email.trim().toLowerCase());
  },
);

test.each([
  'a@good.com@evil.com',
  '"a@good.com"@evil.com',
  'a@good.com.evil.com',
  'a@sub.good.com',
  'a@notgood.com',
  'good.com',
  '@good.com',
  'a@',
  'a@good.com@',
  '',
  undefined,
  ['a@good.com'],
])('the email address %j is in no domain that may log in', (email) => {
  expect(() => login(email, true)).toThrow(/is not in a domain that may log in here; ask an administrator$/);
});

test.each([false, 'true', 1, undefined, null])('an email address with email_verified %j opens nothing', (verified) => {
  expect(() => login('a@good.com', verified)).toThrow(/has not verified your email address/);
  expect(login('a@good.com', verified, { ...rules, emailDomains: [] }).email).toBe('');
});

test.each(['a', '@good.com', 'a@'])('%s is no email address of an account', (email) => {
  expect(login(email, true, { ...rules, emailDomains: [] }).email).toBe('');
});
