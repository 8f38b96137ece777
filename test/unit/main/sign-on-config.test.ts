import { expect, test } from 'vitest';
import { masked, readConfig } from '../../../src/main/config.ts';

const whole = {
  BERTH_OIDC_ISSUER: 'https://login.example.org/realms/a',
  BERTH_OIDC_CLIENT_ID: 'berth',
  BERTH_OIDC_CLIENT_SECRET_FILE: '/etc/berth/oidc-secret',
  BERTH_OIDC_EMAIL_DOMAINS: 'Example.org, example.net',
};

test('reads a login provider, and none by default', () => {
  expect(readConfig({}).signOn).toBeNull();
  const { signOn } = readConfig({
    ...whole,
    BERTH_OIDC_ROLES: 'admin=berth-admins,operator=cn=ops',
    BERTH_OIDC_LINK: 'verified-email',
    BERTH_OIDC_TRUST_EMAIL: 'unless-denied',
    BERTH_OIDC_TOKEN_AUTH: 'client_secret_post',
    BERTH_OIDC_DISPLAY_NAME: 'the Example account',
  });
  expect(signOn).toEqual({
    issuer: whole.BERTH_OIDC_ISSUER,
    displayName: 'the Example account',
    tokenAuth: 'client_secret_post',
    clientId: 'berth',
    secretFile: '/etc/berth/oidc-secret',
    scopes: 'openid profile email',
    endsAtProvider: true,
    rules: {
      nameClaim: 'preferred_username',
      groupsClaim: 'groups',
      emailDomains: ['example.org', 'example.net'],
      groups: [],
      rolesByGroup: new Map([
        ['berth-admins', 'admin'],
        ['cn=ops', 'operator'],
      ]),
      trustsEmail: 'unless-denied',
      linksByEmail: true,
    },
  });
  expect(JSON.stringify(masked(readConfig(whole)))).toContain('oidc-secret');
});

test.each<[Record<string, string | undefined>, RegExp]>([
  [{ BERTH_OIDC_ISSUER: undefined }, /BERTH_OIDC_ISSUER: must be set, because other settings/],
  [{ BERTH_OIDC_CLIENT_ID: undefined }, /BERTH_OIDC_CLIENT_ID: must be set/],
  [{ BERTH_OIDC_CLIENT_SECRET_FILE: undefined }, /BERTH_OIDC_CLIENT_SECRET_FILE: must be set/],
  [{ BERTH_OIDC_CLIENT_SECRET_FILE: 'secret' }, /must be an absolute path/],
  [{ BERTH_OIDC_EMAIL_DOMAINS: undefined }, /every account of the provider could log in/],
  [{ BERTH_OIDC_ISSUER: 'http://login.example.org' }, /must be the https URL/],
  [{ BERTH_OIDC_ISSUER: 'https://login.example.org/?a' }, /must be the https URL/],
  [{ BERTH_OIDC_SCOPES: 'profile' }, /must be scopes with "openid"/],
  [{ BERTH_OIDC_TOKEN_AUTH: 'none' }, /BERTH_OIDC_TOKEN_AUTH: .*client_secret_basic/],
  [{ BERTH_OIDC_ROLES: 'root=a' }, /must be roles/],
  [{ BERTH_OIDC_ROLES: 'admin=' }, /must be roles/],
  [{ BERTH_OIDC_ROLES: 'admin=a,user=a' }, /must be roles/],
  [{ BERTH_OIDC_ROLES: 'admin=a,operatr=b' }, /must be roles/],
  [{ BERTH_OIDC_ROLES: 'admin=/a,user=a' }, /must be roles/],
  [{ BERTH_OIDC_GROUPS: 'a,,b' }, /must be names of groups/],
  [{ BERTH_OIDC_GROUPS: 'CN=a,OU=g,CN=b,OU=g' }, /distinguished names by semicolons/],
  [{ BERTH_OIDC_ROLES: 'admin=CN=a,OU=g,CN=b,OU=g' }, /must be roles/],
  [
    { BERTH_OIDC_EMAIL_DOMAINS: 'a b,example.org,c:1' },
    / BERTH_OIDC_EMAIL_DOMAINS: must be host names .*; found "a b"\n .*; found "c:1"$/,
  ],
  [{ BERTH_OIDC_TRUST_EMAIL: 'yes' }, /BERTH_OIDC_TRUST_EMAIL/],
])('refuses %j', (more, why) => {
  expect(() => readConfig({ ...whole, ...more })).toThrow(why);
});

test('reads domains of email addresses in their letters', () => {
  const { signOn } = readConfig({ ...whole, BERTH_OIDC_EMAIL_DOMAINS: 'München.de,xn--mnchen-3ya.example' });
  expect(signOn?.rules.emailDomains).toEqual(['xn--mnchen-3ya.de', 'xn--mnchen-3ya.example']);
});

test('accepts plain HTTP on this machine alone', () => {
  for (const host of ['localhost', '127.0.0.1', '[::1]'])
    expect(readConfig({ ...whole, BERTH_OIDC_ISSUER: `http://${host}:9000` }).signOn?.issuer).toContain(host);
});

const ADMINS = 'CN=berth-admins,OU=Groups,DC=example,DC=org';
const OPS = 'CN=ops,OU=Groups,DC=example,DC=org';

test.each([`admin=${ADMINS},operator=${OPS}`, `admin=${ADMINS}; operator=${OPS}`])(
  'reads roles by distinguished names: %s',
  (given) => {
    const rules = readConfig({ ...whole, BERTH_OIDC_ROLES: given }).signOn?.rules;
    expect(rules?.rolesByGroup).toEqual(
      new Map([
        [ADMINS, 'admin'],
        [OPS, 'operator'],
      ]),
    );
  },
);

test.each([
  ['staff, guests', ['staff', 'guests']],
  [ADMINS, [ADMINS]],
  [`${ADMINS};${OPS}`, [ADMINS, OPS]],
  ['cn=ops', ['cn=ops']],
  ['CN=a,CN=Users,DC=example,DC=org', ['CN=a,CN=Users,DC=example,DC=org']],
])('reads the groups %s', (given, groups) => {
  expect(readConfig({ ...whole, BERTH_OIDC_GROUPS: given }).signOn?.rules.groups).toEqual(groups);
});
