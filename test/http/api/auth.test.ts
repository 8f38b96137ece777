/**
 * Access to each route: no token, forged and expired tokens, the three credentials and their
 * precedence.
 */
import { createHmac, createPublicKey, generateKeyPairSync, sign } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { BASE_PATH, routeNames, routes } from '../../../src/contract/routes.ts';
import { openSigningKey } from '../../fixtures/test-seal.ts';
import type { Account, Reply, TestApi } from './harness.ts';
import { startApi } from './harness.ts';
import { AUDIENCE, ISSUER } from './control-fixture.ts';

let api: TestApi;
let alice: Account;
beforeAll(async () => {
  api = await startApi();
  alice = await api.newAccount();
});
afterAll(() => api.stop());

const closedRoutes = routeNames.filter((name) => routes[name].who !== 'anyone');

const ask = (name: keyof typeof routes, headers: Record<string, string>): Promise<Reply> => {
  const { method, path } = routes[name];
  const target = path.replace('{id}', 'v').replace('{path}', 'a');
  return api.send(BASE_PATH + target, { method, headers, ...(method === 'POST' ? { body: '{' } : {}) });
};
const userInfo = (headers: Record<string, string>): Promise<Reply> =>
  api.send('/api/user/info', { method: 'POST', headers });

function expectNotLoggedIn(reply: Reply, what: string): void {
  expect(reply.status, what).toBe(401);
  if (reply.text !== '')
    expect(reply.json, what).toMatchObject({ code: -1, message: expect.stringMatching(/log in again/i) });
  expect(reply.headers['x-error-code'], what).toBe('not_logged_in');
  expect(reply.headers['www-authenticate'], what).toMatch(/^Bearer/);
}

describe('a caller without a login', () => {
  test.each(closedRoutes)('is refused at %s before the body is read', async (name) => {
    const { errors } = routes[name];
    const unauthorizedHeaders: Record<string, string>[] = [
      {},
      { cookie: 'AccessToken=' },
      { cookie: 'Other=x' },
      { authorization: 'Bearer nonsense' },
    ];
    for (const headers of unauthorizedHeaders) {
      const reply = await ask(name, headers);
      expectNotLoggedIn(reply, `${name} ${JSON.stringify(headers)}`);
      expect(reply.text === '', 'a body, but for HEAD').toBe(routes[name].method === 'HEAD');
      expect(reply.headers['content-type']).toMatch(
        errors === 'problem' ? /^application\/problem\+json/ : /^application\/json/,
      );
      const members =
        errors === 'problem' ? ['type', 'title', 'status', 'detail', 'message', 'code'] : ['code', 'message'];
      expect(Object.keys(reply.json ?? {})).toEqual(routes[name].method === 'HEAD' ? [] : members);
    }
  });

  test('gets the same refusal for a wrong password as for an unknown name, without an error code', async () => {
    const tries = [
      { username: alice.username, password: 'wrong' },
      { username: 'nobody', password: 'wrong' },
    ];
    const [wrong, unknown] = await Promise.all(tries.map((body) => api.post('/user/login', body)));
    expect(wrong?.status).toBe(401);
    expect(wrong?.text).toBe(unknown?.text);
    expect(Object.keys(wrong?.json ?? {})).toEqual(['message']);
  });
});

describe('credentials', () => {
  test('a login returns the token with its lifetime, and sets an HttpOnly cookie', async () => {
    const reply = await api.post('/user/login', { username: alice.username, password: alice.password });
    expect(reply.json).toEqual({ accessToken: expect.stringMatching(/^ey/), accessExpire: 86_400 });
    const [cookie = ''] = reply.headers['set-cookie'] ?? [];
    expect(cookie).toMatch(/^AccessToken=ey[\w.-]+; Path=\/; Max-Age=86400; HttpOnly; SameSite=Lax$/);
    const answered = await userInfo({ cookie: cookie.split(';', 1)[0] ?? '' });
    expect(answered.json).toMatchObject({ username: alice.username });
  });

  test('accepts a token as cookie and as bearer, and an API key in a header of any case', async () => {
    const { key } = await alice.client.createApiKey({ name: 'one' });
    const accepted: Record<string, string>[] = [
      { cookie: `AccessToken=${alice.token}` },
      { cookie: `a=b; AccessToken=${alice.token};c=d` },
      { cookie: `NotAccessToken=x;  AccessToken=${alice.token}` },
      { authorization: `Bearer ${alice.token}` },
      { authorization: `bearer ${alice.token}` },
      { 'X-API-Key': key.fullKey },
      { 'x-api-key': key.fullKey },
      { 'X-Api-KEY': key.fullKey },
    ];
    for (const headers of accepted) {
      const reply = await userInfo(headers);
      expect(reply.json, JSON.stringify(headers)).toMatchObject({ username: alice.username });
    }
    await alice.client.deleteApiKey({ id: key.id });
    expectNotLoggedIn(await userInfo({ 'x-api-key': key.fullKey }), 'a deleted key');
  });

  test('the Authorization header, unless Basic, takes precedence, then the API key, then the cookie', async () => {
    const cookie = `AccessToken=${alice.token}`;
    const { key } = await alice.client.createApiKey({ name: 'two' });
    for (const authorization of ['Bearer bad', 'Bearer', '', 'Digest x', alice.token]) {
      expectNotLoggedIn(await userInfo({ authorization, cookie, 'x-api-key': key.fullKey }), authorization);
    }
    const authorization = `Basic ${btoa('ann:of a proxy')}`;
    expect((await userInfo({ authorization, cookie })).status).toBe(200);
    expect((await userInfo({ authorization, 'x-api-key': key.fullKey })).status).toBe(200);
    expectNotLoggedIn(await userInfo({ authorization }), 'Basic alone');
    expectNotLoggedIn(await userInfo({ authorization: `Basic ${alice.token}` }), 'a token as Basic');
    expectNotLoggedIn(await userInfo({ cookie, 'x-api-key': 'bad' }), 'a bad key with a valid cookie');
    expectNotLoggedIn(await userInfo({ cookie, 'x-api-key': '' }), 'an empty key with a valid cookie');
    expect((await userInfo({ cookie: 'AccessToken=bad', 'x-api-key': key.fullKey })).status).toBe(200);
  });

  test('two different cookies of the name are refused, in either order', async () => {
    const bob = await api.newAccount();
    const [a, b] = [alice.token, bob.token].map((token) => `AccessToken=${token}`);
    expectNotLoggedIn(await userInfo({ cookie: `${a}; ${b}` }), 'alice, then bob');
    expectNotLoggedIn(await userInfo({ cookie: `${b}; x=y; ${a}` }), 'bob, then alice');
    expect((await userInfo({ cookie: `${a}; ${a}` })).status).toBe(200);
  });

  test('logout revokes this login and clears the cookie; other logins of the account stay valid', async () => {
    const bob = await api.newAccount();
    const again = await api.post('/user/login', { username: bob.username, password: bob.password });
    const reply = await api.post('/user/logout', {}, { token: bob.token });
    expect(reply.status).toBe(200);
    expect(reply.json).toEqual({});
    expect(reply.headers['set-cookie']?.[0]).toMatch(/^AccessToken=; Path=\/; Max-Age=0;/);
    expectNotLoggedIn(await userInfo({ authorization: `Bearer ${bob.token}` }), 'after logout');
    const [cookie = ''] = again.headers['set-cookie'] ?? [];
    expect((await userInfo({ cookie })).status).toBe(200);
  });

  test('a change of password revokes every login of the account', async () => {
    const bob = await api.newAccount();
    await bob.client.changePassword({ oldPassword: bob.password, newPassword: 'another password' });
    expectNotLoggedIn(await userInfo({ authorization: `Bearer ${bob.token}` }), 'a token from before');
    expect((await api.post('/user/login', { username: bob.username, password: 'another password' })).status).toBe(200);
  });

  test('only an administrator creates accounts', async () => {
    const reply = await api.post('/user/create', { username: 'eve', password: 'long enough' }, { token: alice.token });
    expect(reply.status).toBe(403);
    expect(reply.json).toMatchObject({ status: 403, message: expect.stringContaining('admin') });
    expect((await api.post('/user/login', { username: 'eve', password: 'long enough' })).status).toBe(401);
  });
});

describe('forged tokens', () => {
  type Part = Record<string, unknown>;
  const encode = (part: Part | string): string =>
    Buffer.from(typeof part === 'string' ? part : JSON.stringify(part)).toString('base64url');
  const decode = (part: string | undefined): Part => JSON.parse(Buffer.from(part ?? '', 'base64url').toString());
  const signed = (header: Part, claims: Part, key: Parameters<typeof sign>[2]): string => {
    const text = `${encode(header)}.${encode(claims)}`;
    return `${text}.${sign(null, Buffer.from(text), key).toString('base64url')}`;
  };

  test('are each refused on the route with the most data', async () => {
    const [headerText, claimsText, signature = ''] = alice.token.split('.');
    const header = decode(headerText);
    const claims = decode(claimsText);
    expect(claims).toMatchObject({ iss: ISSUER, aud: [AUDIENCE], group: ['user'] });
    const signingKey = await api.wired.signingKey();
    const ours = { key: JSON.parse(openSigningKey(signingKey)), format: 'jwk' as const };
    const foreign = generateKeyPairSync('ed25519').privateKey;
    const nowS = Math.floor(Date.now() / 1000);
    const publicKey = createPublicKey({ key: JSON.parse(signingKey.publicJwk), format: 'jwk' });
    const mac = (secret: string | Buffer, changed: Part): string => {
      const text = `${encode({ ...header, ...changed })}.${encode(claims)}`;
      return `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`;
    };
    // The genuine token is accepted; each forgery below differs in one thing.
    const genuine = signed(header, claims, ours);
    expect((await userInfo({ authorization: `Bearer ${genuine}` })).status).toBe(200);

    const forged: Record<string, string> = {
      empty: '',
      'a dot': '.',
      'two dots': '..',
      'no signature': `${headerText}.${claimsText}.`,
      'no signature part': `${headerText}.${claimsText}`,
      'four parts': `${alice.token}.x`,
      'own header, signature of another text': `${encode({ ...header })}.${encode({ ...claims, sub: 'admin' })}.${signature}`,
      'wrong key': signed(header, claims, foreign),
      'wrong key, unknown kid': signed({ ...header, kid: 'other' }, claims, foreign),
      'kid of an object': signed({ ...header, kid: '__proto__' }, claims, foreign),
      'kid as a path': signed({ ...header, kid: '../../../dev/null' }, claims, foreign),
      'kid as SQL': signed({ ...header, kid: "' or 1=1 --" }, claims, foreign),
      'no kid': signed({ alg: 'EdDSA', typ: 'JWT' }, claims, foreign),
      'key in the header': signed(
        { ...header, jwk: createPublicKey(foreign).export({ format: 'jwk' }) },
        claims,
        foreign,
      ),
      'address of a key in the header': signed({ ...header, jku: `${api.origin}/api/openapi.json` }, claims, foreign),
      'critical member': signed({ ...header, crit: ['x'], x: 1 }, claims, ours),
      'other typ': signed({ ...header, typ: 'at+jwt' }, claims, ours),
      'HMAC with the public key as PEM': mac(publicKey.export({ type: 'spki', format: 'pem' }), { alg: 'HS256' }),
      'HMAC with the public key as DER': mac(publicKey.export({ type: 'spki', format: 'der' }), { alg: 'HS256' }),
      'HMAC with the public key as JWK': mac(signingKey.publicJwk, { alg: 'HS256' }),
      'HMAC with nothing': mac('', { alg: 'HS256' }),
      'HMAC that says EdDSA': mac(signingKey.publicJwk, {}),
      'foreign issuer': signed(header, { ...claims, iss: 'https://elsewhere.test' }, ours),
      'no issuer': signed(header, { ...claims, iss: undefined }, ours),
      'foreign audience': signed(header, { ...claims, aud: ['elsewhere'] }, ours),
      'no audience': signed(header, { ...claims, aud: undefined }, ours),
      'expired a second ago': signed(header, { ...claims, iat: nowS - 86_401, exp: nowS - 1 }, ours),
      'never expires': signed(header, { ...claims, exp: undefined }, ours),
      'expires as text': signed(header, { ...claims, exp: String(claims['exp']) }, ours),
      'expires at 1e20': signed(header, { ...claims, exp: 1e20 }, ours),
      'issued tomorrow': signed(header, { ...claims, iat: nowS + 86_400, exp: nowS + 2 * 86_400 }, ours),
      'no subject': signed(header, { ...claims, sub: undefined }, ours),
      'subject of another account': signed(header, { ...claims, sub: '00000000-0000-4000-8000-000000000000' }, ours),
      'login that never was': signed(header, { ...claims, jti: '00000000-0000-4000-8000-000000000000' }, ours),
      'no login': signed(header, { ...claims, jti: undefined }, ours),
      'claims that are no object': `${headerText}.${encode('null')}.${signature}`,
      'claims that are no JSON': `${headerText}.${encode('{')}.${signature}`,
      'white space inside': `${headerText} .${claimsText}.${signature}`,
      'padding at the end': `${alice.token}=`,
    };
    for (const alg of ['none', 'None', 'NONE', 'nOnE', '', 'HS256', 'RS256', 'ES256', 'Ed448', 'eddsa']) {
      const text = `${encode({ ...header, alg })}.${claimsText}`;
      forged[`alg ${alg}, no signature`] = `${text}.`;
      forged[`alg ${alg}, old signature`] = `${text}.${signature}`;
    }
    for (const [what, token] of Object.entries(forged)) {
      expectNotLoggedIn(await userInfo({ authorization: `Bearer ${token}` }), what);
      expectNotLoggedIn(await userInfo({ cookie: `AccessToken=${token}` }), `${what}, as a cookie`);
    }
  });

  test('are refused with any one character of a valid token changed', async () => {
    for (let at = 0; at < alice.token.length; at += 1) {
      const is = alice.token[at];
      const token = `${alice.token.slice(0, at)}${is === 'A' ? 'B' : 'A'}${alice.token.slice(at + 1)}`;
      const { status } = await userInfo({ authorization: `Bearer ${token}` });
      expect(status, `character ${at}: ${is}`).toBe(401);
    }
  });
});
