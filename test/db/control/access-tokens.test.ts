/** Access tokens: issue, verification, caching and revocation. */
import { createHmac, generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { expect, test } from 'vitest';
import { makeSigningRing } from '../../../src/control/access/signing-ring.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { openSigningKey, testSeal } from '../../fixtures/test-seal.ts';
import {
  AUDIENCE,
  DAY,
  ISSUER,
  SECOND,
  adminOf,
  annaOf,
  callerOf,
  everythingIn,
  expectRefused,
  openFixture,
  secondProcess,
  accessFixtureOver,
  setDisabled,
  tokenOf,
  watchedStore,
  type AccessFixture,
} from './access-fixture.ts';

type Json = Record<string, unknown>;

const b64 = (value: string | Uint8Array): string => Buffer.from(value).toString('base64url');
const partsOf = (token: string): [string, string, string] => {
  const [header = '', payload = '', signature = ''] = token.split('.');
  return [header, payload, signature];
};

/** Rotates the signing key in one more process on the room's database. */
const rotateKey = ({ store, clock }: AccessFixture): Promise<string> =>
  makeSigningRing({
    store,
    time: { now: () => clock.nowMs, elapsed: () => clock.nowMs },
    randomBytes,
    seal: testSeal,
  }).rotate();

/** The installation's private key, as a thief of the database and of `secrets.key` has it. */
async function ownKey(fixture: AccessFixture): Promise<{ kid: string; jwk: Json; publicJwk: string }> {
  const row = await fixture.store.read
    .selectFrom('signingKey')
    .selectAll()
    .where('retiredAtMs', 'is', null)
    .executeTakeFirstOrThrow();
  const jwk: Json = JSON.parse(openSigningKey(row));
  return { kid: row.kid, jwk, publicJwk: row.publicJwk };
}

/** Signs any header and claims with Ed25519. */
const signedWith = (jwk: Json, header: Json, claims: Json | []): string => {
  const input = `${b64(JSON.stringify(header))}.${b64(JSON.stringify(claims))}`;
  return `${input}.${b64(sign(null, Buffer.from(input), { key: jwk, format: 'jwk' }))}`;
};

onBothEngines('access tokens', (open) => {
  test('issues the claims of the interface, valid for one day to the second', async () => {
    const fixture = await openFixture(open);
    const { token, caller } = await annaOf(fixture);
    const { accessExpire } = await fixture.access.login({ username: 'anna', password: "anna's password" }, '::1');
    expect(accessExpire).toBe(86_400);
    const claims = decodeJwt(token);
    expect(claims).toEqual({
      iss: ISSUER,
      aud: [AUDIENCE],
      sub: caller.accountId,
      iat: fixture.clock.nowMs / 1000,
      exp: fixture.clock.nowMs / 1000 + 86_400,
      group: ['user'],
      jti: caller.sessionId,
    });
    expect(decodeProtectedHeader(token)).toEqual({ alg: 'EdDSA', typ: 'JWT', kid: (await ownKey(fixture)).kid });
    expect(caller).toMatchObject({ username: 'anna', email: 'anna@example.org', roles: ['user'] });

    fixture.clock.nowMs += DAY - 1;
    expect(await callerOf(fixture, token)).toMatchObject({ username: 'anna' });
    fixture.clock.nowMs += 1;
    const refusal = await expectRefused(
      callerOf(fixture, token),
      'not_logged_in',
      /not logged in.*expired.*log in again/,
    );
    expect(refusal.message).not.toContain(token);
    await expectRefused(callerOf(fixture, token), 'not_logged_in');
  });

  test('refuses every hostile token, also while the good one is cached', async () => {
    const fixture = await openFixture(open);
    const { token, caller } = await annaOf(fixture);
    const { kid, jwk, publicJwk } = await ownKey(fixture);
    const [header, payload, signature] = partsOf(token);
    const head: Json = { ...decodeProtectedHeader(token) };
    const claims: Json = { ...decodeJwt(token) };
    const nowS = fixture.clock.nowMs / 1000;
    const own = (changed: Json, changedHead: Json = {}) =>
      signedWith(jwk, { ...head, ...changedHead }, { ...claims, ...changed });
    const without = (name: string) =>
      signedWith(jwk, head, Object.fromEntries(Object.entries(claims).filter(([key]) => key !== name)));
    const foreign = generateKeyPairSync('ed25519');
    const foreignJwk: Json = { ...foreign.privateKey.export({ format: 'jwk' }) };
    const foreignPublic: Json = { ...foreign.publicKey.export({ format: 'jwk' }) };
    const publicBytes = Buffer.from(String(JSON.parse(publicJwk).x), 'base64url');
    const pem = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const rsaInput = `${b64(JSON.stringify({ ...head, alg: 'RS256' }))}.${payload}`;
    const hmac = (alg: string, key: string | Buffer) => {
      const input = `${b64(JSON.stringify({ ...head, alg }))}.${payload}`;
      return `${input}.${createHmac('sha256', key).update(input).digest('base64url')}`;
    };
    const adminSession = await adminOf(fixture);

    // The key is real: a token signed like a login's is valid, so each row fails by its own fault
    // only.
    expect(await callerOf(fixture, own({}))).toMatchObject({ username: 'anna' });

    const letterCases = Array.from({ length: 16 }, (_, bits) =>
      [...'none'].map((letter, i) => ((bits >> i) & 1 ? letter.toUpperCase() : letter)).join(''),
    );
    const hostile: [string, string][] = [
      ['nothing', ''],
      ['a word', 'token'],
      ['dots', '..'],
      ['a header alone', header],
      ['no signature', `${header}.${payload}`],
      ['an empty signature', `${header}.${payload}.`],
      ['a signature of zeros', `${header}.${payload}.${b64(Buffer.alloc(64))}`],
      ['a shorter signature', `${header}.${payload}.${signature.slice(0, -2)}`],
      ['a longer signature', `${header}.${payload}.${signature}AA`],
      ['padding', `${token}=`],
      ['a space after', `${token} `],
      ['a line end after', `${token}\n`],
      ['a space before', ` ${token}`],
      ['a quoted token', `"${token}"`],
      ['with its scheme', `Bearer ${token}`],
      ['a fourth part', `${token}.${signature}`],
      ['five parts', `${header}.${header}.${header}.${header}.${header}`],
      ['parts in another order', `${payload}.${header}.${signature}`],
      ['64 KB', `${token}${'A'.repeat(64 * 1024)}`],
      ['64 KB of header', `${b64(JSON.stringify({ ...head, x: 'y'.repeat(48 * 1024) }))}.${payload}.${signature}`],
      ['a deep header', `${b64('['.repeat(2000))}.${payload}.${signature}`],
      ['a header that is null', `${b64('null')}.${payload}.${signature}`],
      ['a header that is a list', `${b64('["EdDSA"]')}.${payload}.${signature}`],
      ['a header that is not JSON', `${b64('{"alg":')}.${payload}.${signature}`],
      ...letterCases.flatMap((alg): [string, string][] => [
        [`alg ${alg}, no signature`, `${b64(JSON.stringify({ ...head, alg }))}.${payload}.`],
        [`alg ${alg}, the old signature`, `${b64(JSON.stringify({ ...head, alg }))}.${payload}.${signature}`],
      ]),
      ...['', 'eddsa', 'EDDSA', 'Ed25519', 'Ed448', 'ES256', 'RS256', 'PS256', 'HS512', 'dir'].map(
        (alg): [string, string] => [`alg ${alg}`, own({}, { alg })],
      ),
      ['no alg', signedWith(jwk, { typ: 'JWT', kid }, claims)],
      ['alg as a list', own({}, { alg: ['EdDSA'] })],
      ['HS256 with the bytes of our public key', hmac('HS256', publicBytes)],
      ['HS256 with the text of our public key', hmac('HS256', publicJwk)],
      ['HS256 with nothing', hmac('HS256', '')],
      ['HS256 with the key id', hmac('HS256', kid)],
      ['RS256 of a foreign key', `${rsaInput}.${b64(sign('sha256', Buffer.from(rsaInput), pem.privateKey))}`],
      ['a foreign key under our id', signedWith(foreignJwk, head, claims)],
      ['a foreign key under its own id', signedWith(foreignJwk, { ...head, kid: 'mine' }, claims)],
      ['a foreign key, embedded', signedWith(foreignJwk, { ...head, jwk: foreignPublic }, claims)],
      [
        'a foreign key, embedded, without id',
        signedWith(foreignJwk, { alg: 'EdDSA', typ: 'JWT', jwk: foreignPublic }, claims),
      ],
      ['jku', signedWith(foreignJwk, { ...head, jku: 'http://127.0.0.1:1/keys' }, claims)],
      ['x5u', signedWith(foreignJwk, { ...head, x5u: 'http://127.0.0.1:1/cert' }, claims)],
      ['x5c', signedWith(foreignJwk, { ...head, x5c: ['MIIB'] }, claims)],
      ['our key, and an embedded one', own({}, { jwk: foreignPublic })],
      ['crit', own({}, { crit: ['x'], x: 1 })],
      ['b64 false', own({}, { crit: ['b64'], b64: false })],
      ['zip', own({}, { zip: 'DEF' })],
      ...[
        '',
        '../../../../../dev/null',
        '/etc/passwd',
        `${kid}/../${kid}`,
        "' or '1'='1",
        `${kid}'--`,
        `"; drop table "signingKey"; --`,
        '__proto__',
        'constructor',
        '\u0000',
        `${kid} `,
        kid.toUpperCase(),
        'x'.repeat(2000),
      ].map((id, i): [string, string] => [`kid ${i}: ${JSON.stringify(id.slice(0, 60))}`, own({}, { kid: id })]),
      ['kid a number', own({}, { kid: 1 })],
      ['kid a list', own({}, { kid: [kid] })],
      ['no kid', signedWith(jwk, { alg: 'EdDSA', typ: 'JWT' }, claims)],
      ['no typ', signedWith(jwk, { alg: 'EdDSA', kid }, claims)],
      ['typ of another use', own({}, { typ: 'at+jwt' })],
      ['another issuer', own({ iss: 'https://elsewhere.test' })],
      ['no issuer', without('iss')],
      ['a list of issuers', own({ iss: [ISSUER] })],
      ['another audience', own({ aud: ['another'] })],
      ['an empty audience', own({ aud: [] })],
      ['an audience as text', own({ aud: AUDIENCE })],
      ['no audience', without('aud')],
      ['expired by one second', own({ iat: nowS - 86_401, exp: nowS - 1 })],
      ['expiring this very second', own({ iat: nowS - 86_400, exp: nowS })],
      ['expiry as text', own({ exp: String(nowS + 86_400) })],
      ['expiry 1e20', own({ exp: 1e20 })],
      ['expiry and issue 1e20', own({ iat: 1e20, exp: 1e20 })],
      ['expiry in milliseconds', own({ exp: (nowS + 86_400) * 1000 })],
      ['expiry null', own({ exp: null })],
      ['a fraction of a second', own({ iat: nowS + 0.5, exp: nowS + 86_400.5 })],
      ['no expiry', without('exp')],
      ['a life of two days', own({ exp: nowS + 2 * 86_400 })],
      ['a life of a day and a second', own({ exp: nowS + 86_401 })],
      ['issued in two minutes', own({ iat: nowS + 120, exp: nowS + 120 + 86_400 })],
      ['issued as text', own({ iat: String(nowS) })],
      ['no time of issue', without('iat')],
      ['not before tomorrow', own({ nbf: nowS + 86_000 })],
      ['no subject', without('sub')],
      ['a subject that is a number', own({ sub: 1 })],
      ['a subject that is a list', own({ sub: [caller.accountId] })],
      ['another account', own({ sub: adminSession.accountId })],
      ["another account's login", own({ jti: adminSession.sessionId })],
      ['no login', without('jti')],
      ['an unknown login', own({ jti: '00000000-0000-4000-8000-000000000000' })],
      ['a login as SQL', own({ jti: "' or 1=1 --" })],
      ['a login that is null', own({ jti: null })],
      ['no group', without('group')],
      ['group as text', own({ group: 'admin' })],
      [
        'altered claims under the old signature',
        `${header}.${b64(JSON.stringify({ ...claims, sub: adminSession.accountId }))}.${signature}`,
      ],
      ['claims that are a list', signedWith(jwk, head, [])],
    ];
    expect(new Set(hostile.map(([name]) => name)).size).toBe(hostile.length);
    const accepted: string[] = [];
    for (const [name, bad] of hostile) {
      expect(bad, name).not.toBe(token);
      const outcome = await callerOf(fixture, bad).then(
        () => 'accepted',
        (error: unknown) => (error instanceof Error && 'code' in error ? error.code : String(error)),
      );
      if (outcome !== 'not_logged_in') accepted.push(`${name}: ${String(outcome)}`);
      await expect(callerOf(fixture, bad), name).rejects.toThrow();
    }
    expect(accepted).toEqual([]);
    // The tables still exist, and the valid token works.
    expect(await callerOf(fixture, token)).toMatchObject({ username: 'anna' });
  });

  test('refuses all of 10,000 mutants of a valid token', async () => {
    const fixture = await openFixture(open);
    const { token } = await annaOf(fixture);
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    const mutants = new Set<string>();
    // Flips one of six bits at every position, the last character's spare bits included.
    for (let at = 0; at < token.length; at++) {
      const value = alphabet.indexOf(token.charAt(at));
      for (let bit = 0; bit < 6 && value >= 0; bit++) {
        mutants.add(token.slice(0, at) + alphabet.charAt(value ^ (1 << bit)) + token.slice(at + 1));
      }
      mutants.add(token.slice(0, at) + token.slice(at + 1));
      mutants.add(`${token.slice(0, at)}.${token.slice(at)}`);
    }
    // Then any two characters anywhere, by a seeded walk.
    for (let seed = 1; mutants.size < 10_000;) {
      seed = (seed * 48_271) % 2_147_483_647;
      const at = seed % token.length;
      const to = (seed >> 8) % alphabet.length;
      const once = token.slice(0, at) + alphabet.charAt(to) + token.slice(at + 1);
      const also = (seed >> 4) % token.length;
      mutants.add(once.slice(0, also) + alphabet.charAt((to * 7 + 3) % alphabet.length) + once.slice(also + 1));
    }
    mutants.delete(token);
    const list = [...mutants];
    const taken: string[] = [];
    for (let from = 0; from < list.length; from += 100) {
      const tries = list.slice(from, from + 100).map(async (mutant) => {
        const refused = await callerOf(fixture, mutant).then(
          () => false,
          () => true,
        );
        if (!refused) taken.push(mutant);
      });
      await Promise.all(tries);
    }
    expect(taken).toEqual([]);
    expect(list.length).toBeGreaterThanOrEqual(9_999);
    expect(await callerOf(fixture, token)).toMatchObject({ username: 'anna' });
  });

  test('a cached token costs no query for a second, and then one for all callers', async () => {
    const fixture = await openFixture(open);
    const { token, caller } = await annaOf(fixture);
    const { store, asked } = watchedStore(fixture.store);
    const watched = accessFixtureOver(store, fixture.clock);
    expect(await callerOf(watched, token)).toEqual(caller);
    const before = asked.length;
    expect(before).toBeGreaterThan(0);
    fixture.clock.nowMs += SECOND - 1;
    for (let i = 0; i < 100; i++) expect(await callerOf(watched, token)).toEqual(caller);
    expect(asked.length).toBe(before);
    fixture.clock.nowMs += 1;
    await Promise.all(Array.from({ length: 50 }, () => callerOf(watched, token)));
    expect(asked.length).toBe(before + 1);
  });

  test('revokes a token on logout at once here and within a second in another process, and no other token', async () => {
    const fixture = await openFixture(open);
    const other = await secondProcess(open, fixture);
    const { token, caller } = await annaOf(fixture);
    const second = await tokenOf(fixture, 'anna', "anna's password");
    await callerOf(other, token);
    await fixture.access.logout(caller);
    await expectRefused(callerOf(fixture, token), 'not_logged_in');
    fixture.clock.nowMs += SECOND;
    await expectRefused(callerOf(other, token), 'not_logged_in');
    expect(await callerOf(other, second)).toMatchObject({ username: 'anna' });
    expect(await callerOf(fixture, second)).toMatchObject({ username: 'anna' });
  });

  test('does not cache a verification that a logout overtook', async () => {
    const fixture = await openFixture(open);
    const { token, caller } = await annaOf(fixture);
    fixture.clock.nowMs += SECOND;
    const underWay = callerOf(fixture, token).catch(() => null);
    await fixture.access.logout(caller);
    await underWay;
    await expectRefused(callerOf(fixture, token), 'not_logged_in');
  });

  test('refuses a disabled account within a second, and accepts it when enabled again', async () => {
    const fixture = await openFixture(open);
    const { token } = await annaOf(fixture);
    await setDisabled(fixture.store, 'anna', 1);
    fixture.clock.nowMs += SECOND;
    await expectRefused(callerOf(fixture, token), 'not_logged_in');
    await setDisabled(fixture.store, 'anna', 0);
    expect(await callerOf(fixture, token)).toMatchObject({ username: 'anna' });
  });

  test('applies a change of roles within a second: roles come from the account, not the token', async () => {
    const fixture = await openFixture(open);
    const { token } = await annaOf(fixture);
    await fixture.store.write((tx) =>
      tx.updateTable('account').set({ roles: '["user","admin"]' }).where('username', '=', 'anna').execute(),
    );
    fixture.clock.nowMs += SECOND;
    expect((await callerOf(fixture, token)).roles).toEqual(['user', 'admin']);
  });

  test('keeps old tokens valid for their day after a rotation, and signs with the new key in every process', async () => {
    const fixture = await openFixture(open);
    const other = await secondProcess(open, fixture);
    const { token } = await annaOf(fixture);
    expect(await callerOf(other, token)).toMatchObject({ username: 'anna' });
    const oldId = (await ownKey(fixture)).kid;
    fixture.clock.nowMs += 5 * SECOND;
    const newId = await rotateKey(fixture);
    expect(newId).not.toBe(oldId);

    const fresh = await tokenOf(fixture, 'anna', "anna's password");
    expect(decodeProtectedHeader(fresh).kid).toBe(newId);
    // The other process learns of the rotation from the token, and by its next login.
    expect(await callerOf(other, fresh)).toMatchObject({ username: 'anna' });
    expect(decodeProtectedHeader(await tokenOf(other, 'anna', "anna's password")).kid).toBe(newId);
    for (const one of [fixture, other]) expect(await callerOf(one, token)).toMatchObject({ username: 'anna' });

    const retired = await fixture.store.read
      .selectFrom('signingKey')
      .selectAll()
      .where('kid', '=', oldId)
      .executeTakeFirstOrThrow();
    expect(retired).toMatchObject({ privateJwk: '', retiredAtMs: fixture.clock.nowMs });
    fixture.clock.nowMs += DAY + 2 * 60 * SECOND;
    await fixture.access.sweep();
    expect(await fixture.store.read.selectFrom('signingKey').select('kid').execute()).toEqual([{ kid: newId }]);
    expect(await fixture.store.read.selectFrom('session').select('id').execute()).toEqual([]);
  });

  test('rotates a key after a month, and not before', async () => {
    const fixture = await openFixture(open);
    const kid = await fixture.access.ensureSigningKey();
    fixture.clock.nowMs += 29 * DAY;
    await fixture.access.sweep();
    expect((await ownKey(fixture)).kid).toBe(kid);
    fixture.clock.nowMs += 2 * DAY;
    await fixture.access.sweep();
    const fresh = await tokenOf(fixture);
    expect(decodeProtectedHeader(fresh).kid).not.toBe(kid);
  });

  test('stores the key sealed', async () => {
    const fixture = await openFixture(open);
    await annaOf(fixture);
    const { jwk } = await ownKey(fixture);
    expect(await everythingIn(fixture.store)).not.toContain(String(jwk['d']));
  });

  test('opens a sealed key in its own row only', async () => {
    const fixture = await openFixture(open);
    const kid = await fixture.access.ensureSigningKey();
    const moved = { kid: 'another', privateJwk: testSeal.seal('{}', `signing key ${kid}`) };
    await fixture.store.write(async (tx) => {
      await tx.updateTable('signingKey').set(moved).execute();
      await tx.updateTable('setting').set({ value: moved.kid }).where('name', '=', 'signingKeyId').execute();
    });
    const restarted = accessFixtureOver(fixture.store, fixture.clock);
    await expect(tokenOf(restarted)).rejects.toThrow(/no signing key that this server can open/);
  });

  test('agrees on one key when processes start or rotate concurrently', async () => {
    const fixture = await openFixture(open);
    const other = await secondProcess(open, fixture);
    const ids = await Promise.all([fixture, other, fixture, other].map((one) => one.access.ensureSigningKey()));
    expect(new Set(ids).size).toBe(1);
    await Promise.all([fixture, other].map(rotateKey));
    const current = await fixture.store.read
      .selectFrom('signingKey')
      .select('kid')
      .where('retiredAtMs', 'is', null)
      .execute();
    expect(current).toHaveLength(1);
    expect(await fixture.access.ensureSigningKey()).toBe(current[0]?.kid);
    expect(await other.access.ensureSigningKey()).toBe(current[0]?.kid);
  });

  test('reads the keys at most once a second for unknown key ids', async () => {
    const fixture = await openFixture(open);
    const { token } = await annaOf(fixture);
    const { jwk } = await ownKey(fixture);
    const { store, asked } = watchedStore(fixture.store);
    const readings = () => asked.filter((query) => query.includes('"signingKey"')).length;
    const watched = accessFixtureOver(store, fixture.clock);
    await callerOf(watched, token);
    expect(readings()).toBe(1);
    const unknownTokens = Array.from({ length: 200 }, (_, i) =>
      signedWith(jwk, { ...decodeProtectedHeader(token), kid: `stranger-${i}` }, { ...decodeJwt(token) }),
    );
    await Promise.allSettled(unknownTokens.map((bad) => callerOf(watched, bad)));
    expect(readings()).toBe(1);
    fixture.clock.nowMs += SECOND;
    for (const bad of unknownTokens) await callerOf(watched, bad).catch(() => null);
    expect(readings()).toBe(2);
  });
});
