import { describe, expect, test } from 'vitest';
import { ALICE, MALLORY, ask, echoHead, idOf, jwtOf, keyOf, seenBy, serve, start, until } from './harness.ts';
import type { Caller } from '../../../src/control/index.ts';
import type { Harness } from './harness.ts';

const A = idOf('a');
const M = idOf('b');
const UNKNOWN = idOf('c');

/** Alice's instance A and Mallory's M, each with a notebook, public port 80 and private port 81. */
async function twoAccounts(): Promise<Harness> {
  const inside = await serve(echoHead);
  const harness = await start();
  const ports = { 80: inside.port, 81: inside.port, 8888: inside.port };
  harness.add(A, { owner: ALICE, publicPorts: [80], ports });
  harness.add(M, { owner: MALLORY, publicPorts: [80], ports });
  harness.sessions.set('session-a', ALICE);
  harness.sessions.set('session-m', MALLORY);
  return harness;
}

/** Alice's instance, before a gateway that knows one key with these limits. */
async function withLimitedKey(limited: Pick<Caller, 'scopes' | 'limits'>): Promise<Harness> {
  const inside = await serve(echoHead);
  const harness = await start({
    authenticate: async () => ({ accountId: ALICE, ...limited }),
    trustedProxies: ['127.0.0.1', '198.51.100.0/24'],
  });
  harness.add(A, { owner: ALICE, publicPorts: [80], ports: { 80: inside.port, 81: inside.port } });
  return harness;
}

const cookie = (value: string): Record<string, string> => ({ cookie: value });

describe('access control', () => {
  const own: [string, Record<string, string>][] = [
    ['token', { authorization: `Bearer ${jwtOf(ALICE)}` }],
    ['token, in another case', { AUTHORIZATION: `bEARER ${jwtOf(ALICE)}` }],
    ['API key', { 'x-api-key': keyOf(ALICE) }],
    ['API key, in another case', { 'X-Api-KEY': keyOf(ALICE) }],
    ['API key as bearer', { authorization: `Bearer ${keyOf(ALICE)}` }],
    ['session', cookie('berth_gateway=session-a')],
    ['session among others', cookie('a=b; berth_gateway=session-a; c="d;"')],
  ];
  test.each(own)('admits the owner by %s to notebook, private and public port', async (_name, headers) => {
    const harness = await twoAccounts();
    for (const path of [`/notebook/${A}/`, `/forward/${A}/81/`, `/forward/${A}/80/`]) {
      const answered = await ask(harness, path, { headers });
      expect([path, answered.status]).toEqual([path, 200]);
      expect(answered.headers['content-security-policy']).toBeUndefined();
    }
  });

  test.each(own)(
    'returns the same 404 for foreign and unknown instances to an account logged in by %s',
    async (_name, headers) => {
      const harness = await twoAccounts();
      const bodies = new Set<string>();
      for (const id of [M, UNKNOWN]) {
        for (const path of [`/notebook/${id}/`, `/forward/${id}/81/`, `/forward/${id}/22/`]) {
          const { status, body, headers: got } = await ask(harness, path, { headers });
          bodies.add(JSON.stringify([status, body, { ...got, date: '' }]));
        }
      }
      expect([...bodies]).toHaveLength(1);
      expect([...bodies][0]).toMatch(/^\[404,/);
    },
  );

  test('refuses a key without the scope "instances" where the owner alone is admitted', async () => {
    const headers = { 'x-api-key': keyOf(ALICE) };
    for (const scopes of [['read', 'volumes'], ['instances']] as const) {
      const harness = await withLimitedKey({ scopes });
      const answered = await ask(harness, `/forward/${A}/81/`, { headers });
      expect(answered.status).toBe(scopes[0] === 'instances' ? 200 : 403);
      if (answered.status === 403) expect(answered.body).toMatch(/lacks the scope .*instances.*: create a key/);
      expect((await ask(harness, `/forward/${A}/80/`, { headers })).status).toBe(200);
    }
  });

  test('refuses a key from other addresses than its own, as trusted proxies tell them', async () => {
    const harness = await withLimitedKey({
      scopes: null,
      limits: { expiresAtMs: null, addresses: ['192.0.2.0/24'] },
    });
    const answers: [string, number][] = [
      ['192.0.2.7', 200],
      ['192.0.2.7, 198.51.100.1', 200],
      ['192.0.2.7:1, 198.51.100.1:2', 200],
      ['203.0.113.1, "[::ffff:192.0.2.7]:1"', 200],
      ['192.0.2.7, 203.0.113.1:1', 403],
      ['192.0.2.7, 203.0.113.1', 403],
      ['203.0.113.1', 403],
      ['', 403],
    ];
    for (const [forwardedFor, status] of answers) {
      const headers = { 'x-api-key': keyOf(ALICE), 'x-forwarded-for': forwardedFor };
      const answered = await ask(harness, `/forward/${A}/81/`, { headers });
      expect([forwardedFor, answered.status]).toEqual([forwardedFor, status]);
      if (status === 403) expect(answered.body).toMatch(/may not be used from the address/);
    }
  });

  test.each([
    ['no credential', {}],
    ['the cookie of the API', cookie(`AccessToken=${jwtOf(ALICE)}`)],
    ['a forged token', { authorization: `Bearer ${jwtOf('nobody')}` }],
    ['a token as X-API-Key', { 'x-api-key': jwtOf(ALICE) }],
    ['Basic', { authorization: `Basic ${Buffer.from(`alice:${keyOf(ALICE)}`).toString('base64')}` }],
    ['an unknown key', { 'x-api-key': 'berth_unknown' }],
    ['an ended session', cookie('berth_gateway=ended')],
    ['two different sessions', cookie('berth_gateway=session-a; berth_gateway=session-m')],
    ['a session cookie of another name', cookie('Berth_Gateway=session-a')],
    ['the token in the query', {}],
    [
      'a forged token with a valid session',
      { authorization: `Bearer ${jwtOf('nobody')}`, ...cookie('berth_gateway=session-a') },
    ],
  ])('returns the same 401 for private and unknown instances with %s', async (_name, headers) => {
    const harness = await twoAccounts();
    const bodies = new Set<string>();
    for (const id of [A, UNKNOWN]) {
      for (const path of [`/notebook/${id}/?token=${jwtOf(ALICE)}`, `/forward/${id}/81/`, `/forward/${id}/22/`]) {
        const { status, body, headers: got } = await ask(harness, path, { headers });
        bodies.add(JSON.stringify([status, body, { ...got, date: '' }]));
      }
    }
    expect([...bodies]).toHaveLength(1);
    expect([...bodies][0]).toMatch(/^\[401,/);
    expect(harness.dials).toBe(0);
  });

  test('admits everybody at a public port, with any credentials', async () => {
    const harness = await twoAccounts();
    for (const headers of [
      {},
      { authorization: 'Bearer sk-of-the-instance' },
      cookie('berth_gateway=ended'),
      { 'x-api-key': 'berth_bad' },
    ]) {
      expect((await ask(harness, `/forward/${A}/80/`, { headers: { ...headers } })).status).toBe(200);
    }
    // The notebook stays private even if its port is listed as public.
    harness.add(A, { publicPorts: [80, 8888] });
    expect((await ask(harness, `/notebook/${A}/`)).status).toBe(401);
  });

  test('reveals nothing about a private port, not even a missing slash', async () => {
    const harness = await twoAccounts();
    expect((await ask(harness, `/notebook/${A}`)).status).toBe(401);
    const answered = await ask(harness, `/notebook/${A}?x=1`, { headers: cookie('berth_gateway=session-a') });
    expect(answered).toMatchObject({ status: 307, headers: { location: `/notebook/${A}/?x=1` } });
  });

  test('refuses with a server error while control is unavailable', async () => {
    const harness = await twoAccounts();
    harness.instances.get = () => {
      throw new Error('the store is away: secret');
    };
    const answered = await ask(harness, `/forward/${A}/80/`);
    expect(answered.status).toBe(500);
    expect(answered.body).not.toContain('secret');
    expect(harness.logged.some(({ text }) => text.includes('failed to handle a request'))).toBe(true);
  });
});

describe('credentials of Berth never reach an instance', () => {
  const secrets = [jwtOf(ALICE), keyOf(ALICE), 'session-a'];

  test.each([
    ['a bearer', { authorization: `Bearer ${jwtOf(ALICE)}` }],
    ['an expired Berth token', { authorization: `Bearer ${jwtOf('nobody')}` }],
    ['a key', { 'x-api-key': keyOf(ALICE) }],
    ['a key as bearer', { authorization: `Bearer ${keyOf(ALICE)}` }],
    ['a bare key', { authorization: keyOf(ALICE) }],
    [
      'a key as the password of Basic',
      { authorization: `Basic ${Buffer.from(`x:${keyOf(ALICE)}`).toString('base64')}` },
    ],
    ['a token in X-API-Key', { 'x-api-key': jwtOf(ALICE) }],
    ['a key in a list', { 'x-api-key': `other, ${keyOf(ALICE)}` }],
    ['a key under an underscore', { x_api_key: keyOf(ALICE) }],
    ['the cookie of the API', cookie(`a=1; AccessToken=${jwtOf(ALICE)}; b=2`)],
    ['the cookie of the API in another case', cookie(`accesstoken=${jwtOf(ALICE)}`)],
    ['the cookie of the API with a prefix', cookie(`__Host-AccessToken=${jwtOf(ALICE)}`)],
    ['the session', cookie('berth_gateway=session-a;b=2')],
  ])('%s', async (_name, headers) => {
    const harness = await twoAccounts();
    for (const path of [`/forward/${A}/80/`, `/forward/${A}/81/`, `/notebook/${A}/`]) {
      const both = { ...headers, 'x-other': 'stays', 'x-more': 'session' };
      const withSession = 'cookie' in headers ? both : { ...both, cookie: 'berth_gateway=session-a; mine=1' };
      const answered = await ask(harness, path, { headers: withSession });
      if (answered.status !== 200) continue; // an invalid Berth credential decides alone
      for (const secret of [...secrets, jwtOf('nobody')]) expect(answered.body).not.toContain(secret);
      expect(seenBy(answered).headers['x-other']).toBe('stays');
    }
    expect(harness.dials).toBeGreaterThan(0);
  });

  test('forwards the instance’s own API keys at a public port, and at a private one for an owner with a session', async () => {
    const harness = await twoAccounts();
    const foreign = jwtOf('somebody', 'https://another.issuer');
    for (const authorization of ['Bearer sk-1234', `Bearer ${foreign}`, 'Basic eDp5', 'Token abc', 'Bearer a.b.c']) {
      const headers = { authorization, 'x-api-key': 'key-of-the-instance' };
      expect(seenBy(await ask(harness, `/forward/${A}/80/`, { headers })).headers).toMatchObject(headers);
      const withSession = { ...headers, ...cookie('berth_gateway=session-a') };
      expect(seenBy(await ask(harness, `/forward/${A}/81/`, { headers: withSession })).headers).toMatchObject(headers);
    }
  });

  test('removes both credential headers', async () => {
    const harness = await twoAccounts();
    const headers = { authorization: 'Bearer sk-1234', 'x-api-key': keyOf(ALICE) };
    const seen = seenBy(await ask(harness, `/forward/${A}/81/`, { headers }));
    expect([seen.headers['authorization'], seen.headers['x-api-key']]).toEqual([undefined, undefined]);
  });

  test('sends the notebook token to the notebook only', async () => {
    const harness = await twoAccounts();
    const headers = { authorization: `token stale`, ...cookie('berth_gateway=session-a; _xsrf=2') };
    const seen = seenBy(await ask(harness, `/notebook/${A}/api`, { headers }));
    expect(seen.headers).toMatchObject({ authorization: `token token-of-${A}`, cookie: '_xsrf=2' });
    expect(seen.url).toBe(`/notebook/${A}/api`);
    const other = seenBy(await ask(harness, `/forward/${A}/8888/`, { headers: cookie('berth_gateway=session-a') }));
    expect(other.headers['authorization']).toBeUndefined();
  });
});

describe('cross-site pages cannot use a browser’s login', () => {
  const session = cookie('berth_gateway=session-a');
  const same = (harness: Harness): Record<string, string> => ({ ...session, origin: harness.origin });

  test('admits same-origin requests', async () => {
    const harness = await twoAccounts();
    const post = { method: 'POST', body: '{}' };
    expect((await ask(harness, `/notebook/${A}/`, { ...post, headers: same(harness) })).status).toBe(200);
    const fetched = { ...session, 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'cors' };
    expect((await ask(harness, `/notebook/${A}/`, { ...post, headers: fetched })).status).toBe(200);
    const typed = { ...session, 'sec-fetch-site': 'none', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };
    expect((await ask(harness, `/notebook/${A}/`, { headers: typed })).status).toBe(200);
    // Plain HTTP in a local network.
    expect((await ask(harness, `/notebook/${A}/`, { headers: session })).status).toBe(200);
  });

  test('allows cross-site navigation', async () => {
    const harness = await twoAccounts();
    const headers = {
      ...session,
      'sec-fetch-site': 'cross-site',
      'sec-fetch-mode': 'navigate',
      'sec-fetch-dest': 'document',
    };
    expect((await ask(harness, `/notebook/${A}/`, { headers })).status).toBe(200);
  });

  test.each([
    ['POST from another site', 'POST', { origin: 'https://evil.test' }, 403],
    ['DELETE from another port of the host', 'DELETE', { origin: 'http://127.0.0.1:1' }, 403],
    ['POST from a sandbox', 'POST', { origin: 'null' }, 401],
    ['GET from a sandbox', 'GET', { origin: 'null' }, 401],
    ['POST without Origin or fetch metadata', 'POST', {}, 403],
    ['POST from the same site', 'POST', { 'sec-fetch-site': 'same-site' }, 403],
    [
      'fetch with credentials from another site',
      'GET',
      { origin: 'https://evil.test', 'sec-fetch-site': 'cross-site' },
      403,
    ],
    [
      'a picture on a page of another port',
      'GET',
      { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'image' },
      401,
    ],
    [
      'a frame on another page',
      'GET',
      { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'iframe' },
      401,
    ],
  ])('%s is refused', async (_name, method, more, status) => {
    const harness = await twoAccounts();
    const answered = await ask(harness, `/notebook/${A}/api/kernels`, { method, headers: { ...session, ...more } });
    expect(answered.status).toBe(status);
    expect(harness.dials).toBe(0);
  });

  test('rejects look-alike origins', async () => {
    const harness = await twoAccounts();
    for (const origin of [
      `${harness.origin}.evil.test`,
      harness.origin.replace('http:', 'https:'),
      `${harness.origin}0`,
      'http://127.0.0.1',
    ]) {
      expect((await ask(harness, `/notebook/${A}/`, { method: 'POST', headers: { ...session, origin } })).status).toBe(
        403,
      );
    }
  });

  test('accepts any Origin with a credential header', async () => {
    const harness = await twoAccounts();
    const headers = { authorization: `Bearer ${jwtOf(ALICE)}`, origin: 'https://tool.test' };
    expect((await ask(harness, `/notebook/${A}/`, { method: 'POST', headers })).status).toBe(200);
  });

  test('compares with the public origin behind a TLS proxy', async () => {
    const inside = await serve(echoHead);
    const harness = await start({ publicOrigin: 'https://gateway.example' });
    harness.add(A, { ports: { 8888: inside.port } });
    harness.sessions.set('session-a', ALICE);
    const overTls = { cookie: '__Host-berth_gateway=session-a' };
    const post = async (origin: string): Promise<number> =>
      (await ask(harness, `/notebook/${A}/`, { method: 'POST', headers: { ...overTls, origin } })).status;
    expect([await post('https://gateway.example'), await post(harness.origin)]).toEqual([200, 403]);
  });
});

describe('foreign content is sandboxed', () => {
  const SANDBOX = 'sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads';

  test('sandboxes for everybody but the owner with a valid session', async () => {
    const harness = await twoAccounts();
    const policyFor = async (headers: Record<string, string>): Promise<string | undefined> =>
      (await ask(harness, `/forward/${A}/80/`, { headers })).headers['content-security-policy']?.toString();
    expect(await policyFor({})).toBe(SANDBOX);
    expect(await policyFor(cookie('berth_gateway=session-m'))).toBe(SANDBOX);
    expect(await policyFor({ 'x-api-key': keyOf(MALLORY) })).toBe(SANDBOX);
    expect(await policyFor({ ...cookie('berth_gateway=session-a'), origin: 'null' })).toBe(SANDBOX);
    expect(await policyFor(cookie('berth_gateway=session-a'))).toBeUndefined();
    expect(await policyFor({ 'x-api-key': keyOf(ALICE) })).toBeUndefined();
  });

  test('adds the sandbox to every response, besides a policy of the instance', async () => {
    const inside = await serve((req, res) => {
      const status = Number(req.url?.slice(1));
      const policy = {
        'content-security-policy': "default-src 'self'",
        connection: 'content-security-policy, x-content-type-options',
      };
      res.writeHead(status, { ...policy, 'cross-origin-opener-policy': 'same-origin' }).end();
    });
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    for (const status of [200, 204, 302, 404, 500]) {
      const { rawHeaders, headers } = await ask(harness, `/forward/${A}/80/${status}`);
      const policies = rawHeaders.filter((_, at) => rawHeaders[at - 1]?.toLowerCase() === 'content-security-policy');
      expect(policies).toContain(SANDBOX);
      expect(policies.join()).not.toContain('allow-same-origin');
      expect(headers['x-content-type-options']).toBe('nosniff');
      // Browsers ignore this header in a sandbox.
      expect(headers['cross-origin-opener-policy']).toBeUndefined();
      expect(headers['vary']).toMatch(/cookie/i);
    }
  });

  test('allows service workers to the owner only, within their path', async () => {
    const inside = await serve((_req, res) => res.setHeader('Service-Worker-Allowed', '/').end('self.skipWaiting()'));
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    harness.sessions.set('session-a', ALICE);
    const script = { 'service-worker': 'script' };
    expect((await ask(harness, `/forward/${A}/80/sw.js`, { headers: script })).status).toBe(403);
    const answered = await ask(harness, `/forward/${A}/80/sw.js`, {
      headers: { ...script, ...cookie('berth_gateway=session-a') },
    });
    expect(answered.status).toBe(200);
    expect(answered.headers['service-worker-allowed']).toBeUndefined();
  });
});

describe('an instance is confined to its path', () => {
  async function setCookies(given: string[], path: string): Promise<string[] | undefined> {
    const inside = await serve((_req, res) => res.setHeader('Set-Cookie', given).end());
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port, 8888: inside.port } });
    harness.sessions.set('session-a', ALICE);
    return (await ask(harness, path, { headers: cookie('berth_gateway=session-a') })).headers['set-cookie'];
  }

  test('drops cookies with reserved names in any spelling', async () => {
    const names = [
      'AccessToken',
      'accesstoken',
      ' ACCESSTOKEN ',
      'berth_gateway',
      'Berth_Gateway',
      '__Host-AccessToken',
      '__Secure-berth_gateway',
    ];
    const given = [
      ...names.map((name) => `${name}=evil; Path=/`),
      '=AccessToken=evil',
      'AccessToken',
      'evil',
      '=',
      'fine=1',
    ];
    expect(await setCookies(given, `/forward/${A}/80/`)).toEqual([`fine=1; Path=/forward/${A}/80/`]);
  });

  test('removes Domain from cookies and keeps them below the prefix', async () => {
    const given = [
      'a=1',
      'b=1; Path=/',
      'c=1; path=/app; HttpOnly; Domain=.gateway.test; SameSite=Lax',
      `d=1; Path=/forward/${A}/80/deep`,
      `e=1; Path=/forward/${A}/800`,
      'f=1; Path=/x; Path=/y',
      'g=1; DOMAIN = elsewhere.test ;Secure;',
      'h=a=b; Max-Age=3',
    ];
    const prefix = `/forward/${A}/80`;
    expect(await setCookies(given, `${prefix}/`)).toEqual([
      `a=1; Path=${prefix}/`,
      `b=1; Path=${prefix}/`,
      `c=1; HttpOnly; SameSite=Lax; Path=${prefix}/app`,
      `d=1; Path=${prefix}/deep`,
      `e=1; Path=${prefix}/forward/${A}/800`,
      `f=1; Path=${prefix}/y`,
      `g=1; Secure; Path=${prefix}/`,
      `h=a=b; Max-Age=3; Path=${prefix}/`,
    ]);
    expect(
      await setCookies(['a=1; Path=/', `b=1; Path=/notebook/${A}/x`, `c=1; Path=/notebook/${M}/`], `/notebook/${A}/`),
    ).toEqual([`a=1; Path=/notebook/${A}/`, `b=1; Path=/notebook/${A}/x`, `c=1; Path=/notebook/${A}/`]);
  });

  test('removes headers for the whole origin or for proxies', async () => {
    const evil = {
      'Clear-Site-Data': '"*"',
      'Strict-Transport-Security': 'max-age=1',
      'Alt-Svc': 'h2=":1"',
      NEL: '{}',
      'Report-To': '{}',
      'X-Accel-Redirect': '/etc/passwd',
    };
    const inside = await serve((_req, res) => res.writeHead(200, { ...evil, 'x-fine': '1' }).end());
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const { headers } = await ask(harness, `/forward/${A}/80/`);
    expect(Object.keys(headers).filter((name) => Object.keys(evil).some((bad) => bad.toLowerCase() === name))).toEqual(
      [],
    );
    expect(headers['x-fine']).toBe('1');
  });
});

test('cuts open connections when their session ends, and keeps them during a store outage', async () => {
  const inside = await serve((_req, res) => res.write('for ever'));
  const harness = await start({ limits: { revocationMs: 30 } });
  harness.add(A, { publicPorts: [80], ports: { 80: inside.port, 81: inside.port } });
  harness.sessions.set('session-a', ALICE);
  const get = harness.sessions.get.bind(harness.sessions);
  let asked = 0;
  let away = true;
  harness.sessions.get = (secret) => {
    asked += 1;
    if (away && asked > 1) throw new Error('away');
    return get(secret);
  };
  let ended = false;
  const streaming = ask(harness, `/forward/${A}/81/`, { headers: cookie('berth_gateway=session-a') })
    .catch(() => {})
    .finally(() => (ended = true));
  await until('several rechecks failed', () => asked > 3);
  expect(ended).toBe(false);
  away = false;
  harness.sessions.delete('session-a');
  await streaming;
  expect(ended).toBe(true);
});
