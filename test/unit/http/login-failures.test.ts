/** Words about failed logins by a provider. */
import { ClientError } from 'openid-client';
import { expect, test } from 'vitest';
import { failureOf } from '../../../src/edge/http/access/login-failures.ts';

const failureBy = (code: string, cause: object) => {
  const error = Object.assign(new ClientError('unexpected', { cause: new Error('inner', { cause }) }), { code });
  return failureOf(error, { issuer: 'https://login.example', step: 'login' });
};
const COMPARISON = 'OAUTH_JWT_CLAIM_COMPARISON_FAILED';
const TIMESTAMP = 'OAUTH_JWT_TIMESTAMP_CHECK_FAILED';

test.each<[string, string, object, RegExp]>([
  [
    'another client',
    COMPARISON,
    { claim: 'aud', claims: { aud: 'x' }, expected: 'berth' },
    /has "x" as "aud", not "berth": check BERTH_OIDC_CLIENT_ID$/,
  ],
  [
    'several clients without the one it is for',
    COMPARISON,
    { claim: 'aud', claims: { aud: ['berth', 'x'] } },
    /has \["berth","x"\] as "aud", and names none of them as "azp": /,
  ],
  [
    'a party that is another client',
    COMPARISON,
    { claim: 'azp', claims: { azp: 'x' }, expected: 'berth' },
    /has "x" as "azp", not "berth": check BERTH_OIDC_CLIENT_ID$/,
  ],
  [
    'an end in the past, by the time of issue',
    TIMESTAMP,
    { claim: 'exp', now: 7_200, claims: { exp: 3_900, iat: 3_600 } },
    /"iat" of the ID token is 3600 s off/,
  ],
  ['a start in the future', TIMESTAMP, { claim: 'nbf', now: 0, claims: { nbf: 90, iat: 0 } }, /"nbf" .* is 90 s off/],
])('tells the operator of an ID token with %s', (_, code, cause, words) => {
  expect(failureBy(code, cause)).toEqual({ by: 'operator', text: expect.stringMatching(words), isExplained: true });
});

test('takes what it does not know for a fault of the provider, except for a code of another login', () => {
  expect(failureBy('OAUTH_INVALID_RESPONSE', { body: {} })).toMatchObject({ by: 'operator', isExplained: false });
  expect(failureBy(COMPARISON, { claim: 'nonce', claims: { nonce: 'x' }, expected: 'y' })).toMatchObject({
    by: 'person',
  });
});
