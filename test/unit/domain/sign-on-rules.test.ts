/** Which logins of a provider of OpenID Connect the rules allow. */
import { expect, test } from 'vitest';
import { claimsOf, identityOf, type Claims, type SignOnRules } from '../../../src/domain/access/sign-on-rules.ts';

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

const [victim, mallory] = ['victim@good.com', 'mallory@good.com'];

test.each<[string, Claims[], Claims]>([
  [
    'the first with both',
    [
      { email: victim, email_verified: false },
      { email: mallory, email_verified: true },
    ],
    { email: victim, email_verified: false },
  ],
  [
    'one with both before one with a part',
    [{ email: victim }, { email: mallory, email_verified: true }],
    { email: mallory, email_verified: true },
  ],
  ['the first with a part', [{ email: victim }, { email_verified: true }], { email: victim }],
  [
    'the first with a part, also without the address',
    [{ email_verified: true }, { email: victim }],
    { email_verified: true },
  ],
  ['the second alone', [{}, { email: mallory, email_verified: true }], { email: mallory, email_verified: true }],
])('an email address and its verification are of one source: %s', (_, sources, expected) => {
  const { email, email_verified } = claimsOf(rules, sources);
  expect({ email, email_verified }).toEqual({ email: undefined, email_verified: undefined, ...expected });
});

test.each(['email', 'email_verified', 'sub'])(
  'a name or groups of the claim %s change no claim of another rule',
  (claim) => {
    const sources = [
      { sub: 's', email: victim },
      { sub: 's', email: mallory, email_verified: true },
    ];
    for (const more of [{ nameClaim: claim }, { groupsClaim: claim }])
      expect(claimsOf({ ...rules, ...more }, sources)).toMatchObject({
        sub: 's',
        email: mallory,
        email_verified: true,
      });
  },
);

test('name and groups are of the first source that has them, and other claims are left out', () => {
  const sources = [
    { sub: 's', name: 'anna', groups: [] },
    { sub: 's', name: 'root', groups: ['bosses'], other: 1 },
  ];
  expect(claimsOf(rules, sources)).toEqual({ sub: 's', name: 'anna', groups: [] });
  expect(claimsOf(rules, sources.toReversed())).toMatchObject({ name: 'root', groups: ['bosses'] });
});
