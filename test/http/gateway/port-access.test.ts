/** Access matrix of ports: each setting, visitor and address, by request and WebSocket. */
import { describe, expect, test } from 'vitest';
import type { PortAccess } from '../../../src/domain/access/port-access.ts';
import { ALICE, ask, idOf, jwtOf, keyOf, MALLORY, sendRaw, serve, start, until, type Harness } from './harness.ts';

const [A, M] = [idOf('a'), idOf('b')];
const DOMAIN = 'gpu.test';
const FAR = 9_999_999_999_999;

type Headers = Record<string, string>;
type Surface = 'forward' | 'host' | 'notebook';

interface Visitor {
  headers?: Headers;
  query?: string;
  /** Uses a cookie: browsers send the origin of the page. */
  browser?: true;
  is: 'nobody' | 'other' | 'owner' | 'linked' | 'linked other';
}

const visitors: Record<string, Visitor> = {
  'caller without credentials': { is: 'nobody' },
  'caller with a forged token': { is: 'nobody', headers: { authorization: `Bearer ${jwtOf('nobody')}` } },
  'another account, by key': { is: 'other', headers: { 'x-api-key': keyOf(MALLORY) } },
  'another account, by session': { is: 'other', browser: true, headers: { cookie: 'berth_gateway=session-m' } },
  'owner, by token': { is: 'owner', headers: { authorization: `Bearer ${jwtOf(ALICE)}` } },
  'owner, by session': { is: 'owner', browser: true, headers: { cookie: 'berth_gateway=session-a' } },
  'link, by query': { is: 'linked', query: 'berth_share=good' },
  'link, by an encoded query': { is: 'linked', query: 'x=1&berth%5Fshare=good' },
  'link, by header': { is: 'linked', headers: { 'x-berth-share': 'good' } },
  'link, by cookie': { is: 'linked', browser: true, headers: { cookie: 'berth_share=good' } },
  'link, with a key for the instance': {
    is: 'linked',
    headers: { 'x-berth-share': 'good', authorization: 'Bearer sk-own' },
  },
  'link and another account': {
    is: 'linked other',
    headers: { 'x-berth-share': 'good', 'x-api-key': keyOf(MALLORY) },
  },
  'expired link, by query': { is: 'nobody', query: 'berth_share=ended' },
  'expired link, by cookie': { is: 'nobody', browser: true, headers: { cookie: 'berth_share=ended' } },
  'expired link, and another account': {
    is: 'other',
    headers: { 'x-berth-share': 'ended', 'x-api-key': keyOf(MALLORY) },
  },
  'link to another port': { is: 'nobody', query: 'berth_share=port-81' },
  'link to another instance': { is: 'nobody', headers: { 'x-berth-share': 'of-m' } },
  'two different links': { is: 'nobody', query: 'berth_share=good&berth_share=ended' },
};

/** Expected status, independent of the code under test. */
function statusFor(access: PortAccess, surface: Surface, { is }: Visitor): number {
  const set = surface === 'notebook' ? 'owner' : access;
  if (is === 'owner' || set === 'public') return 200;
  const isLinked = is === 'linked' || is === 'linked other';
  if (isLinked && surface !== 'notebook') return 200;
  if (is === 'other' || is === 'linked other') return set === 'signedIn' ? 200 : 404;
  return 401;
}

async function gateway(access: PortAccess, more: Parameters<typeof start>[0] = {}) {
  const heads: string[] = [];
  const { port, server } = await serve((req, res) => {
    heads.push(`${req.url}\n${req.rawHeaders.join('\n')}`);
    res.end('inside');
  });
  server.on('upgrade', (req, socket) => {
    heads.push(`${req.url}\n${req.rawHeaders.join('\n')}`);
    socket.end('HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
  });
  const harness = await start({ portDomain: DOMAIN, ...more });
  const ports = { 80: port, 81: port, 8888: port };
  harness.add(A, { owner: ALICE, access: { 80: access, 8888: access }, ports });
  harness.add(M, { owner: MALLORY, access: { 80: access }, ports });
  harness.sessions.set('session-a', ALICE);
  harness.sessions.set('session-m', MALLORY);
  for (const [token, instanceId, at] of [
    ['good', A, 80],
    ['notebook', A, 8888],
    ['port-81', A, 81],
    ['of-m', M, 80],
  ] as const)
    harness.shares.set(token, { instanceId, port: at, expiresAtMs: FAR });
  return { harness, heads };
}

const addressOf: Record<Surface, (query: string) => { path: string; host: string }> = {
  forward: (query) => ({ path: `/forward/${A}/80/x${query}`, host: DOMAIN }),
  host: (query) => ({ path: `/x${query}`, host: `80-${A}.${DOMAIN}` }),
  notebook: (query) => ({ path: `/notebook/${A}/x${query}`, host: DOMAIN }),
};

const withToken = ({ headers = {}, query, ...rest }: Visitor, token: string): Visitor => ({
  ...rest,
  headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, value.replace('good', token)])),
  ...(query === undefined ? {} : { query: query.replaceAll('good', token) }),
});

async function statusOf(harness: Harness, surface: Surface, how: 'request' | 'upgrade', one: Visitor) {
  // A link to the notebook's port opens /forward only.
  const visitor = surface === 'notebook' ? withToken(one, 'notebook') : one;
  const { path, host } = addressOf[surface](visitor.query === undefined ? '' : `?${visitor.query}`);
  const headers: Headers = { host, ...visitor.headers, ...(visitor.browser ? { origin: `http://${host}` } : {}) };
  if (how === 'request') return (await ask(harness, path, { headers })).status;
  const lines = Object.entries({ connection: 'Upgrade', upgrade: 'websocket', ...headers });
  const answer = await sendRaw(
    harness,
    `GET ${path} HTTP/1.1\r\n${lines.map((line) => line.join(': ')).join('\r\n')}\r\n\r\n`,
  );
  const status = Number(answer.slice(9, 12));
  return status === 101 ? 200 : status;
}

describe.each(['owner', 'signedIn', 'public'] as const)('a port with access %s', (access) => {
  test.each(Object.keys(addressOf) as Surface[])(
    'admits by %s exactly the authorized callers, with requests and WebSockets',
    async (surface) => {
      const { harness, heads } = await gateway(access);
      const got: Record<string, number> = {};
      const wanted: Record<string, number> = {};
      for (const how of ['request', 'upgrade'] as const) {
        for (const [name, visitor] of Object.entries(visitors)) {
          got[`${how}: ${name}`] = await statusOf(harness, surface, how, visitor);
          wanted[`${how}: ${name}`] = statusFor(access, surface, visitor);
        }
      }
      expect(got).toEqual(wanted);
      expect(heads).toHaveLength(Object.values(wanted).filter((status) => status === 200).length);
      // No token, session or key is forwarded, for any authorized visitor.
      expect(heads.join('\n')).not.toMatch(/berth|good|=notebook|ended|session-[am]|port-81/);
    },
  );
});

test('keeps other ports, and ports of other instances, private', async () => {
  const { harness } = await gateway('signedIn');
  const asMallory = { 'x-api-key': keyOf(MALLORY) };
  expect((await ask(harness, `/forward/${A}/81/`, { headers: asMallory })).status).toBe(404);
  expect((await ask(harness, `/forward/${A}/81/?berth_share=good`)).status).toBe(401);
  expect((await ask(harness, `/forward/${M}/81/`, { headers: { 'x-api-key': keyOf(ALICE) } })).status).toBe(404);
  expect((await ask(harness, `/forward/${M}/80/?berth_share=good`)).status).toBe(401);
});

test('answers alike for private and unknown ports with an invalid link', async () => {
  const { harness } = await gateway('owner');
  const [own, crossSite] = [{ cookie: 'berth_share=good' }, { cookie: 'berth_share=x', origin: 'http://evil.test' }];
  for (const headers of [own, crossSite, { 'x-berth-share': 'good' }, { cookie: 'berth_share=good', origin: 'null' }]) {
    for (const method of ['GET', 'POST']) {
      const answers = await Promise.all(
        [M, idOf('c')].map((id) =>
          ask(harness, `/forward/${id}/80/`, { method, headers: { host: DOMAIN, ...headers } }),
        ),
      );
      const [known, unknown] = answers.map(({ status, body, headers: got }) => [status, body, { ...got, date: '' }]);
      expect(known).toEqual(unknown);
      expect(answers[0]?.status).toBeGreaterThanOrEqual(401);
    }
  }
});

describe('a browser that opens a link', () => {
  const page = {
    accept: 'text/html,*/*',
    'sec-fetch-mode': 'navigate',
    'sec-fetch-site': 'cross-site',
    'sec-fetch-dest': 'document',
  };
  const secure = { 'x-forwarded-proto': 'https' };

  test.each([
    [
      'on a path',
      {},
      DOMAIN,
      `/forward/${A}/80/x?y=1&berth_share=good&z`,
      `/forward/${A}/80/x?y=1&z`,
      `berth_share=good; Path=/forward/${A}/80; HttpOnly; SameSite=Lax`,
    ],
    [
      'without the slash',
      {},
      DOMAIN,
      `/forward/${A}/80?berth_share=good`,
      `/forward/${A}/80/`,
      `berth_share=good; Path=/forward/${A}/80; HttpOnly; SameSite=Lax`,
    ],
    [
      'on a path, over TLS',
      secure,
      DOMAIN,
      `/forward/${A}/80/?berth_share=good`,
      `/forward/${A}/80/`,
      `__Secure-berth_share=good; Path=/forward/${A}/80; HttpOnly; SameSite=Lax; Secure`,
    ],
    [
      'on a host',
      {},
      `80-${A}.${DOMAIN}`,
      '/x?berth_share=good',
      '/x',
      'berth_share=good; Path=/; HttpOnly; SameSite=Lax',
    ],
    [
      'on a host, over TLS',
      secure,
      `80-${A}.${DOMAIN}`,
      '/?berth_share=good',
      '/',
      '__Host-berth_share=good; Path=/; HttpOnly; SameSite=Lax; Secure',
    ],
    [
      "on a host, with an address that resembles another host's",
      {},
      `80-${A}.${DOMAIN}`,
      '//evil.test/?berth_share=good',
      '/.//evil.test/',
      'berth_share=good; Path=/; HttpOnly; SameSite=Lax',
    ],
  ])(
    '%s is redirected to the address without the token, with a cookie for that port only',
    async (_name, proto, host, path, location, cookie) => {
      const { harness, heads } = await gateway('owner', { trustedProxies: ['127.0.0.1'] });
      const answered = await ask(harness, path, { headers: { host, ...page, ...proto } });
      expect(answered).toMatchObject({ status: 303, headers: { location, 'set-cookie': [cookie] } });
      expect(heads).toEqual([]);
      const sessionCookie = cookie.split(';')[0] ?? '';
      // Parsed as by a browser.
      const { origin, pathname, search } = new URL(location, `http://${host}`);
      expect(origin).toBe(`http://${host}`);
      const shown = await ask(harness, pathname + search, {
        headers: { host, ...page, ...proto, cookie: sessionCookie },
      });
      expect([shown.status, shown.body]).toEqual([200, 'inside']);
    },
  );

  test('without fetch metadata is redirected as well', async () => {
    const { harness } = await gateway('owner');
    const answered = await ask(harness, `/forward/${A}/80/?berth_share=good`, { headers: { accept: 'text/html' } });
    expect(answered.status).toBe(303);
  });

  test('is redirected without a cookie where it has access anyway', async () => {
    for (const [access, headers] of [
      ['public', {}],
      ['owner', { cookie: 'berth_gateway=session-a' }],
    ] as const) {
      const { harness } = await gateway(access);
      const answered = await ask(harness, `/forward/${A}/80/?berth_share=ended`, { headers: { ...page, ...headers } });
      expect(answered).toMatchObject({ status: 303, headers: { location: `/forward/${A}/80/` } });
      expect(answered.headers['set-cookie']).toBeUndefined();
    }
  });

  test('gets a page when the link has expired', async () => {
    const { harness } = await gateway('owner');
    const answered = await ask(harness, `/forward/${A}/80/?berth_share=ended`, { headers: page });
    expect(answered.status).toBe(401);
    expect(answered.body).toContain('he link has expired, was revoked, or is for another port');
  });
});

test('answers a program with a token directly, and sets a cookie', async () => {
  const { harness } = await gateway('owner');
  const posted = await ask(harness, `/forward/${A}/80/v1?berth_share=good`, { method: 'POST', body: '{}' });
  expect([posted.status, posted.body]).toEqual([200, 'inside']);
  expect(posted.headers['set-cookie']).toEqual([`berth_share=good; Path=/forward/${A}/80; HttpOnly; SameSite=Lax`]);
  const byHeader = await ask(harness, `/forward/${A}/80/v1`, { headers: { 'x-berth-share': 'good' } });
  expect(byHeader.headers['set-cookie']).toBeUndefined();
});

test('removes the token from every spelling of query, header, cookie and referrer', async () => {
  const { harness, heads } = await gateway('public');
  const headers = {
    'X-Berth-Share': 'good',
    x_berth_share: 'good',
    referer: `http://h/forward/${A}/80/?berth_share=good`,
    cookie: 'a=1; berth_share=good; __Host-berth_share=good; __Secure-Berth_Share=good',
  };
  await ask(harness, `/forward/${A}/80/?%62erth_share=good&a=1&berth_share=good&berth_share`, { headers });
  expect(heads.join('')).toMatch(/^\/\?a=1\n/);
  expect(heads.join('')).toMatch(/\ncookie\na=1\n/);
  expect(heads.join('')).not.toMatch(/good|berth/i);
  // Other parameters stay unchanged.
  await ask(harness, `/forward/${A}/80/?a=%zz&b=%20&&share=1`);
  expect(heads.at(-1)).toMatch(/^\/\?a=%zz&b=%20&&share=1\n/);
});

test('an instance can neither set nor read a link’s cookie', async () => {
  const inside = await serve((_req, res) =>
    res
      .setHeader('Set-Cookie', ['berth_share=evil; Path=/', '__Host-Berth_Share=evil', '__Secure-berth_share=evil'])
      .end(),
  );
  const harness = await start();
  harness.add(A, { access: { 80: 'public' }, ports: { 80: inside.port } });
  expect((await ask(harness, `/forward/${A}/80/`)).headers['set-cookie']).toBeUndefined();
});

describe('link cookies are ignored in cross-site requests, like session cookies', () => {
  const own = `http://${DOMAIN}`;
  test.each([
    ['own page', { origin: own }, 'POST', 200],
    ['own page, GET', { 'sec-fetch-site': 'same-origin' }, 'GET', 200],
    ['a typed address', { 'sec-fetch-site': 'none' }, 'GET', 200],
    [
      'a link on a foreign page',
      { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' },
      'GET',
      200,
    ],
    ['a form on a foreign page', { origin: 'http://evil.test' }, 'POST', 403],
    ['another port of the host', { origin: `${own}:31000` }, 'POST', 403],
    ['no Origin or fetch metadata', {}, 'POST', 403],
    ['embedded in a foreign page', { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'no-cors' }, 'GET', 401],
    ['a page in a sandbox', { origin: 'null' }, 'GET', 401],
    ['a form in a sandbox', { origin: 'null' }, 'POST', 401],
  ] as const)('%s', async (_name, from, method, status) => {
    const { harness } = await gateway('owner');
    const headers = { host: DOMAIN, cookie: 'berth_share=good', ...from };
    expect((await ask(harness, `/forward/${A}/80/`, { method, headers })).status).toBe(status);
    // A raw token is not a cookie: its holder may send it from any page.
    const shown = { host: DOMAIN, 'x-berth-share': 'good', cookie: 'berth_gateway=session-m', ...from };
    expect((await ask(harness, `/forward/${A}/80/`, { method, headers: shown })).status).toBe(200);
  });
});

test('sandboxes path content and blocks service workers for everybody but the owner', async () => {
  const { harness } = await gateway('signedIn');
  const policy = async (headers: Headers): Promise<string | undefined> =>
    (await ask(harness, `/forward/${A}/80/`, { headers })).headers['content-security-policy']?.toString();
  const others: Headers[] = [
    { 'x-api-key': keyOf(MALLORY) },
    { cookie: 'berth_gateway=session-m' },
    { cookie: 'berth_share=good' },
  ];
  for (const headers of others) {
    expect(await policy(headers)).toMatch(/^sandbox(?!.*allow-same-origin)/);
    const worker = { ...headers, 'service-worker': 'script' };
    expect((await ask(harness, `/forward/${A}/80/sw.js`, { headers: worker })).status).toBe(403);
  }
  expect(await policy({ cookie: 'berth_gateway=session-a; berth_share=good' })).toBeUndefined();
});

test('never forwards the credential that authorized an account', async () => {
  const { harness, heads } = await gateway('signedIn');
  await ask(harness, `/forward/${A}/80/`, { headers: { 'x-api-key': keyOf(MALLORY), authorization: 'Bearer sk-own' } });
  await ask(harness, `/forward/${A}/80/`, { headers: { 'x-berth-share': 'good', authorization: 'Bearer sk-own' } });
  expect(heads[0]).not.toContain('sk-own');
  expect(heads[1]).toContain('Bearer sk-own');
});

describe('open connections are cut when access is revoked', () => {
  const ends: [string, PortAccess, Headers, (harness: Harness) => void][] = [
    ['a revoked link', 'owner', { 'x-berth-share': 'good' }, (harness) => harness.shares.delete('good')],
    [
      'an account, when the port is restricted to the owner',
      'signedIn',
      { 'x-api-key': keyOf(MALLORY) },
      setTo('owner'),
    ],
    [
      'a session, when the port is restricted to the owner',
      'signedIn',
      { cookie: 'berth_gateway=session-m' },
      setTo('owner'),
    ],
    ['a caller without a login, when the port is restricted to accounts', 'public', {}, setTo('signedIn')],
  ];

  function setTo(access: PortAccess): (harness: Harness) => void {
    return (harness) => {
      const instance = harness.instances.get(A);
      if (instance) instance.route = { ...instance.route, access: new Map([[80, access]]) };
    };
  }

  async function streaming(access: PortAccess, headers: Headers) {
    const { port } = await serve((_req, res) => res.write('for ever'));
    const harness = await start({ limits: { revocationMs: 20 } });
    harness.add(A, { owner: ALICE, access: { 80: access }, ports: { 80: port } });
    harness.sessions.set('session-a', ALICE).set('session-m', MALLORY);
    harness.shares.set('good', { instanceId: A, port: 80, expiresAtMs: FAR });
    const state = { ended: false, asked: 0 };
    const get = harness.instances.get.bind(harness.instances);
    harness.instances.get = (id) => {
      state.asked += 1;
      return get(id);
    };
    const over = ask(harness, `/forward/${A}/80/`, { headers })
      .catch(() => {})
      .finally(() => (state.ended = true));
    await until('the request has begun', () => harness.began.length === 1);
    return { harness, state, over };
  }

  test.each(ends)('%s', async (_name, access, headers, end) => {
    const { harness, state, over } = await streaming(access, headers);
    await until('access was rechecked', () => state.asked > 5);
    expect(state.ended).toBe(false);
    end(harness);
    await until('the connection is cut', () => state.ended, 5_000);
    await over;
  });

  test('stays open when a port’s access is extended', async () => {
    const { harness, state, over } = await streaming('signedIn', { 'x-api-key': keyOf(MALLORY) });
    setTo('public')(harness);
    const { asked } = state;
    await until('access was rechecked', () => state.asked > asked + 3);
    expect(state.ended).toBe(false);
    harness.instances.delete(A);
    await over;
  });
});
