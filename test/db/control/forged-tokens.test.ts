/** Forged tokens by seed: none of them is accepted, also while the genuine token is cached. */
import { createHmac, generateKeyPairSync, sign, type KeyObject } from 'node:crypto';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { expect, test } from 'vitest';
import { atLevel } from '../../fixtures/level.ts';
import { makeRandom } from '../../fixtures/seeded-random.ts';
import { onBothEngines } from '../../fixtures/store.ts';
import { openSigningKey } from '../../fixtures/test-seal.ts';
import { adminOf, annaOf, callerOf, openFixture } from './access-fixture.ts';

const FORGERIES = atLevel({ short: 3_000, long: 100_000 });
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
/** Order of the group of Ed25519: a signature stays algebraically valid when it is added to s. */
const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n;

type Json = Record<string, unknown>;
type Key = KeyObject | { key: Json; format: 'jwk' };

interface Genuine {
  token: string;
  head: Json;
  claims: Json;
  own: Key;
  publicJwk: string;
  /** A login of another account. */
  other: { accountId: string; sessionId: string };
}

interface Draw {
  random: () => number;
  one: <Item>(items: readonly Item[]) => Item;
  text: (length: number) => string;
}

const b64 = (value: string | Uint8Array): string => Buffer.from(value).toString('base64url');
const signedText = (head: string, claims: string, key: Key): string => {
  const input = `${b64(head)}.${b64(claims)}`;
  return `${input}.${b64(sign(null, Buffer.from(input), key))}`;
};
const signed = (head: Json, claims: Json, key: Key): string =>
  signedText(JSON.stringify(head), JSON.stringify(claims), key);
const partsOf = (token: string): [string, string, string] => {
  const [head = '', claims = '', signature = ''] = token.split('.');
  return [head, claims, signature];
};

const foreign = generateKeyPairSync('ed25519');
const foreignJwk: Json = { ...foreign.publicKey.export({ format: 'jwk' }) };
const algorithms = ['none', 'None', 'NONE', '', 'HS256', 'HS512', 'RS256', 'PS256', 'ES256', 'Ed448', 'eddsa', 'dir'];

/** Ways to forge, each of a genuine token and random numbers. */
const forgers: Record<string, (genuine: Genuine, draw: Draw) => string> = {
  'characters changed': ({ token }, { random, one }) => {
    let changed = token;
    for (let times = Math.ceil(random() * 3); times > 0; times -= 1) {
      const at = Math.floor(random() * changed.length);
      const put = one(['', '.', one([...ALPHABET]), one([...ALPHABET]) + one([...ALPHABET])]);
      changed = changed.slice(0, at) + put + changed.slice(at + 1);
    }
    return changed;
  },
  'other algorithm, without or with the old signature': ({ token, head }, { one }) => {
    const [, claims, signature] = partsOf(token);
    return `${b64(JSON.stringify({ ...head, alg: one(algorithms) }))}.${claims}.${one(['', signature, b64(Buffer.alloc(64))])}`;
  },
  'MAC with the public key': ({ head, claims, publicJwk }, { one }) => {
    const raw = Buffer.from(String(JSON.parse(publicJwk).x), 'base64url');
    const secret = one<string | Buffer>([publicJwk, raw, raw.toString('hex'), raw.toString('base64'), '']);
    const [alg, hash] = one([
      ['HS256', 'sha256'],
      ['HS512', 'sha512'],
      ['EdDSA', 'sha512'],
    ] as const);
    const input = `${b64(JSON.stringify({ ...head, alg }))}.${b64(JSON.stringify(claims))}`;
    return `${input}.${createHmac(hash, secret).update(input).digest('base64url')}`;
  },
  'key of another': ({ head, claims }, { one, text }) =>
    signed(
      {
        ...head,
        ...one([{}, { kid: text(22) }, { jwk: foreignJwk }, { jku: 'http://127.0.0.1:1/' }, { x5c: [text(40)] }]),
      },
      claims,
      foreign.privateKey,
    ),
  'other key id, own key': ({ head, claims, own }, { one, text }) =>
    signed(
      { ...head, kid: one([text(43), '', '__proto__', '../../dev/null', `${String(head['kid'])} `]) },
      claims,
      own,
    ),
  'other claims, old signature': ({ token, claims, other }, { one }) => {
    const [head, , signature] = partsOf(token);
    const change = one([{ sub: other.accountId }, { jti: other.sessionId }, { group: ['admin'] }, { exp: 9e9 }]);
    return `${head}.${b64(JSON.stringify({ ...claims, ...change }))}.${signature}`;
  },
  'wrong claims, own key': ({ head, claims, own, other }, { one, random, text }) => {
    const nowS = Number(claims['iat']);
    const seconds = Math.ceil(random() * 86_400);
    return signed(
      head,
      {
        ...claims,
        ...one<Json>([
          { iss: `https://${text(8)}.test` },
          { aud: [text(8)] },
          { aud: text(8) },
          { sub: other.accountId },
          { jti: other.sessionId },
          { jti: text(36) },
          { iat: nowS - 86_400 - seconds, exp: nowS - seconds },
          { iat: nowS + 60 + seconds, exp: nowS + 60 + seconds + 86_400 },
          { nbf: nowS + 60 + seconds },
          { exp: nowS + 86_400 + seconds },
          { iss: undefined },
          { aud: undefined },
          { exp: undefined },
          { jti: undefined },
        ]),
      },
      own,
    );
  },
  'duplicated members': ({ head, claims, own, other }, { one }) => {
    const [headText, claimsText] = [JSON.stringify(head), JSON.stringify(claims)];
    const twice = (text: string, member: string, last: boolean): string =>
      last ? `${text.slice(0, -1)},${member}}` : `{${member},${text.slice(1)}`;
    const sub = `"sub":${JSON.stringify(other.accountId)}`;
    return one([
      () => signedText(twice(headText, '"alg":"none"', true), claimsText, own),
      () => signedText(headText, twice(claimsText, sub, true), own),
      () => signedText(headText, twice(claimsText, '"exp":1', true), own),
      () => signedText(twice(headText, '"alg":"none"', false), claimsText, foreign.privateKey),
      () => signedText(headText, twice(claimsText, sub, false), foreign.privateKey),
    ])();
  },
  'white space': ({ token, head, claims }, { one, random }) => {
    const [headPart, claimsPart, signature] = partsOf(token);
    const space = one([' ', '\t', '\n', '\r\n', '\0', '\u00a0', '%20']);
    const at = Math.floor(random() * (token.length + 1));
    return one([
      token.slice(0, at) + space + token.slice(at),
      `${b64(JSON.stringify(head, null, 1))}.${claimsPart}.${signature}`,
      `${headPart}.${b64(` ${JSON.stringify(claims)}`)}.${signature}`,
    ]);
  },
  'other encoding of the signature': ({ token }, { one }) => {
    const [head, claims, signature] = partsOf(token);
    const bytes = Buffer.from(signature, 'base64url');
    const s = BigInt(`0x${Buffer.from(bytes.subarray(32)).reverse().toString('hex')}`);
    const added = Buffer.from((s + ORDER).toString(16).padStart(64, '0'), 'hex').reverse();
    const last = ALPHABET.indexOf(signature.at(-1) ?? '');
    const forms = [
      bytes.toString('base64'),
      `${signature}=`,
      `${signature}==`,
      bytes.toString('hex'),
      b64(Buffer.concat([bytes.subarray(0, 32), added])),
      b64(Buffer.concat([Buffer.from([0x04, 0x40]), bytes])),
      b64(Buffer.from(bytes).reverse()),
      signature.slice(0, -1) + ALPHABET.charAt(last ^ one([1, 2, 3, 4, 8, 15])),
    ].filter((form) => form !== signature);
    return `${head}.${claims}.${one(forms)}`;
  },
  'encrypted (JWE)': ({ head }, { one, text }) => {
    const top = { ...head, alg: one(['dir', 'ECDH-ES', 'RSA-OAEP', 'A256KW']), enc: one(['A256GCM', 'A128CBC-HS256']) };
    return [b64(JSON.stringify(top)), text(one([0, 32])), text(16), text(200), text(22)].join('.');
  },
  nested: ({ token, head, own }, { one }) => {
    const key = one([own, foreign.privateKey]);
    return one([
      signedText(JSON.stringify({ ...head, cty: 'JWT' }), token, key),
      signedText(JSON.stringify(head), JSON.stringify(token), key),
      `${token}.${token}`,
      b64(token),
    ]);
  },
  'JSON serialization': ({ token }, { one }) => {
    const [head, payload, signature] = partsOf(token);
    const flat = JSON.stringify({ protected: head, payload, signature });
    return one([flat, b64(flat), JSON.stringify({ payload, signatures: [{ protected: head, signature }] })]);
  },
};

onBothEngines('forged tokens', (open) => {
  test(`accepts none of ${FORGERIES} forged tokens, and the genuine one before and after`, async () => {
    const fixture = await openFixture(open);
    const { token } = await annaOf(fixture);
    const { accountId, sessionId } = await adminOf(fixture);
    const row = await fixture.store.read
      .selectFrom('signingKey')
      .selectAll()
      .where('retiredAtMs', 'is', null)
      .executeTakeFirstOrThrow();
    const genuine: Genuine = {
      token,
      head: { ...decodeProtectedHeader(token) },
      claims: { ...decodeJwt(token) },
      own: { key: JSON.parse(openSigningKey(row)), format: 'jwk' },
      publicJwk: row.publicJwk,
      other: { accountId, sessionId: sessionId ?? '' },
    };
    // Refused for their fault, not for the way the test signs.
    expect(await callerOf(fixture, signed(genuine.head, genuine.claims, genuine.own))).toMatchObject({
      username: 'anna',
    });
    const random = makeRandom('forged tokens');
    const one = <Item>(items: readonly Item[]): Item => {
      const item = items[Math.floor(random() * items.length)];
      if (item === undefined) throw new Error('nothing to choose from');
      return item;
    };
    const draw: Draw = { random, one, text: (length) => Array.from({ length }, () => one([...ALPHABET])).join('') };
    const kinds = Object.entries(forgers);
    const accepted: string[] = [];
    for (let made = 0; made < FORGERIES;) {
      const batch = Array.from({ length: Math.min(kinds.length * 8, FORGERIES - made) }, (_, at) => {
        const [kind, forge] = kinds[at % kinds.length] ?? ['', () => ''];
        return { kind, forged: forge(genuine, draw) };
      });
      made += batch.length;
      const outcomes = await Promise.all(
        batch.map(async ({ kind, forged }) => {
          const outcome = await callerOf(fixture, forged).then(
            () => 'accepted',
            (error: unknown) => (error instanceof Error && 'code' in error ? String(error.code) : String(error)),
          );
          return outcome === 'not_logged_in' || forged === token ? [] : [`${outcome}: ${kind}: ${forged}`];
        }),
      );
      accepted.push(...outcomes.flat());
    }
    expect(accepted).toEqual([]);
    expect(await callerOf(fixture, token)).toMatchObject({ username: 'anna' });
  });
});
