/** Which logins of a provider of OpenID Connect the rules allow. */
import { expect, test } from 'vitest';
import { claimsOf, nameOf, type Claims } from '../../../src/domain/access/sign-on-claims.ts';
import { decideLogin, type SignOnRules } from '../../../src/domain/access/sign-on-rules.ts';
import { Refusal } from '../../../src/domain/kernel/refusal.ts';

const rules: SignOnRules = {
  nameClaim: 'name',
  groupsClaim: 'groups',
  emailDomains: ['good.com'],
  trustsEmail: 'verified',
  groups: [],
  rolesByGroup: new Map(),
  linksByEmail: false,
};
const decide = (claims: Claims, given: Partial<SignOnRules> = {}) => {
  const all = { ...rules, ...given };
  return decideLogin(all, 'https://issuer', claimsOf(all, [{ sub: 's', ...claims }]));
};
const login = (email: unknown, verified: unknown, given: Partial<SignOnRules> = {}) =>
  decide({ name: 'anna', email, email_verified: verified }, given).identity;

const refusalOf = (run: () => unknown): Refusal => {
  try {
    run();
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
  throw new Error('nothing was refused');
};

test.each(['a@good.com', 'A@Good.COM', '"a@evil.com"@good.com', ' a@good.com '])(
  'the email address %s is in the domain good.com',
  (email) => {
    expect(login(email, true).email).toBe(email.trim().toLowerCase());
  },
);

test.each([
  ['a@münchen.de', 'xn--mnchen-3ya.de'],
  ['a@xn--mnchen-3ya.de', 'xn--mnchen-3ya.de'],
  ['a@MU\u0308NCHEN.de', 'xn--mnchen-3ya.de'],
])('the email address %s is in the domain %s', (email, domain) => {
  expect(login(email, true, { emailDomains: [domain] }).email).toBe(email.toLowerCase());
});

test.each(['a@ü@good.com/', 'a@good.com:80', 'a@good.com/ü', 'a@good.com?ü', 'a@good。com'])(
  'no part of the address %j becomes a domain',
  (email) => {
    expect(() => login(email, true)).toThrow(/is not in a domain/);
  },
);

test.each(['a@good.com@evil.com', '"a@good.com"@evil.com', 'a@good.com.evil.com', 'a@sub.good.com', 'a@notgood.com'])(
  'the email address %j is in no domain that may log in',
  (email) => {
    expect(() => login(email, true)).toThrow(/is not in a domain that may log in here; ask an administrator$/);
  },
);

const long = `${'a'.repeat(320)}@good.com`;

test.each(['good.com', '@good.com', 'a@', 'a@good.com@', '', undefined, ['a@good.com'], 'a\0@good.com', long])(
  '%j is no email address',
  (email) => {
    expect(() => login(email, true)).toThrow(/sends no email address of yours, and only some domains may log in here/);
    expect(login(email, true, { emailDomains: [] }).email).toBe('');
  },
);

test.each(['a\0', 'a\nb', '\ud800', '', 'a'.repeat(256), 7, undefined])(
  'refuses the subject %j, which no database stores, and takes it for no session',
  (id) => {
    expect(() => decide({ sub: id, email: 'a@good.com', email_verified: true })).toThrow(
      /names no subject \("sub"\) of 1 to 255 characters without control characters; ask an administrator$/,
    );
    expect(decide({ sid: id }, { emailDomains: [] }).identity.sid).toBeNull();
  },
);

test('takes subject and session of the provider to the letter', () => {
  expect(decide({ sub: ' a ', sid: ' b ' }, { emailDomains: [] }).identity).toMatchObject({
    subject: ' a ',
    sid: ' b ',
  });
});

const DENIED = /says that your email address "a@good.com" is not verified: verify it there and log in again/;
const UNSTATED = /does not say whether your email address "a@good.com" is verified, and only verified addresses/;

test.each<[unknown, string, RegExp | null, RegExp | null, RegExp | null]>([
  [true, 'the provider says that it is verified (email_verified is true), so it counts', null, null, null],
  ['true', 'the provider says that it is verified (email_verified is "true"), so it counts', null, null, null],
  ['True', 'the provider says that it is verified (email_verified is "True"), so it counts', null, null, null],
  [undefined, 'the provider does not say whether it is verified, so it does not count', UNSTATED, null, null],
  [null, 'the provider does not say whether it is verified', UNSTATED, null, null],
  [false, 'the provider says that it is not verified (email_verified is false)', DENIED, DENIED, null],
  ['false', 'the provider says that it is not verified', DENIED, DENIED, null],
  [1, 'the provider says that it is not verified (email_verified is 1)', DENIED, DENIED, null],
])('reads email_verified %j, and trusts the provider as far as the setting says', (verified, reason, ...refusals) => {
  for (const [index, trustsEmail] of (['verified', 'unless-denied', 'always'] as const).entries()) {
    const why = refusals[index];
    const open = { emailDomains: [], trustsEmail };
    if (why === null) {
      expect(login('a@good.com', verified, { trustsEmail }).email).toBe('a@good.com');
      expect(login('a@good.com', verified, open).email).toBe('a@good.com');
    } else {
      const refusal = refusalOf(() => login('a@good.com', verified, { trustsEmail }));
      expect(refusal.message).toMatch(why ?? /never/);
      const cause = { claim: 'email_verified', value: verified ?? null, setting: 'BERTH_OIDC_TRUST_EMAIL' };
      expect(refusal.detail).toEqual(cause);
      expect(login('a@good.com', verified, open).email).toBe('');
    }
  }
  const { emailReason } = decide({ email: 'a@good.com', email_verified: verified }, { emailDomains: [] });
  expect(emailReason).toContain(reason);
});

test.each<[Claims, string]>([
  [{ name: 'Anna.B' }, 'anna.b'],
  [{ name: 'jürgen' }, 'jurgen'],
  [{ name: 'ju\u0308rgen' }, 'jurgen'],
  [{ name: 'Łukasz Żółć' }, 'lukasz-zolc'],
  [{ name: 'Straße' }, 'strasse'],
  [{ name: 'Дмитрий' }, 'dmitriy'],
  [{ name: '李雷1' }, 'lilei1'],
  [{ name: 'anna@example.org' }, 'anna'],
  [{ name: '...', email: 'bert@example.org' }, 'bert'],
  [{ email: 'carla@example.org' }, 'carla'],
  [{ email: 'carla@example.org', name: 7 }, 'carla'],
  [{ sub: 'f:1234ABCD-99ef-0000-1111-222233334444' }, 'user-f1234abcd99ef000'],
  [{ sub: '10769150350006150715113082367' }, 'user-1076915035000615'],
  [{ name: 'x'.repeat(80) }, 'x'.repeat(63)],
])('names the account of %j %s', (claims, name) => {
  expect(nameOf({ sub: 's', ...claims }, 'name')).toBe(name);
});

const rolesByGroup = new Map<string, 'admin' | 'operator'>([
  ['berth-admins', 'admin'],
  ['CN=berth-ops,OU=Groups,DC=example,DC=org', 'operator'],
]);

test.each<[string, Claims, string | null]>([
  ['an array', { groups: ['x', 'berth-admins'] }, 'admin'],
  ['one string', { groups: 'berth-admins' }, 'admin'],
  ['names with commas between', { groups: 'x, berth-admins' }, 'admin'],
  ['a leading slash', { groups: ['/berth-admins'] }, 'admin'],
  ['a group of the same name below another', { groups: ['/x/berth-admins'] }, 'user'],
  ['a distinguished name', { groups: ['CN=berth-ops,OU=Groups,DC=example,DC=org'] }, 'operator'],
  ['a distinguished name in other letters', { groups: ['cn=berth-ops, ou=groups, dc=example, dc=org'] }, 'operator'],
  ['one distinguished name as a string', { groups: 'CN=berth-ops,OU=Groups,DC=example,DC=org' }, 'operator'],
  ['a distinguished name elsewhere', { groups: ['CN=berth-ops,OU=Evil,DC=example,DC=org'] }, 'user'],
  ['other letters', { groups: ['Berth-Admins'] }, 'user'],
  ['no groups', { groups: [] }, 'user'],
  ['an empty string', { groups: '' }, 'user'],
  ['no claim', {}, null],
  ['null', { groups: null }, null],
  ['a number', { groups: 7 }, null],
  ['objects', { groups: [{ name: 'berth-admins' }] }, null],
  ['a claim left out for its length', { _claim_names: { groups: 'src1' } }, null],
])('gives the role by groups in the form: %s', (_, claims, role) => {
  const { identity, notice, roleReason } = decide(claims, { emailDomains: [], rolesByGroup });
  expect(identity.role).toBe(role);
  expect(notice).toBe(role === null ? roleReason : null);
  if (role === null) expect(notice).toMatch(/"groups".*, so the login changes no role$/);
});

test('reads nested groups by a path, and a name with dots before', () => {
  const nested = { emailDomains: [], rolesByGroup, groupsClaim: 'realm_access.roles' };
  expect(decide({ realm_access: { roles: ['berth-admins'] } }, nested).identity.role).toBe('admin');
  expect(decide({ 'realm_access.roles': [], realm_access: { roles: ['berth-admins'] } }, nested).identity.role).toBe(
    'user',
  );
  expect(decide({ realm_access: 'x' }, nested).identity.role).toBeNull();
  const inherited = { ...nested, groupsClaim: 'constructor.name' };
  expect(decide({}, inherited).identity.role).toBeNull();
});

test('refuses a person of no group and a person without the claim with different causes', () => {
  const given = { emailDomains: [], groups: ['/staff'] };
  expect(decide({ groups: ['staff'] }, given).identity.subject).toBe('s');
  const other = refusalOf(() => decide({ groups: ['guests'] }, given));
  expect(other.message).toMatch(/^none of your groups/);
  expect(other.detail).toEqual({ claim: 'groups', value: ['guests'], setting: 'BERTH_OIDC_GROUPS' });
  const absent = refusalOf(() => decide({}, given));
  expect(absent.message).toMatch(/^the login provider does not name your groups/);
  expect(absent.detail).toEqual({
    claim: 'groups',
    value: 'the provider sends no claim "groups"',
    setting: 'BERTH_OIDC_GROUPS_CLAIM',
  });
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
