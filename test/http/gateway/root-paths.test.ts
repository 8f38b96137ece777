/** Apps that ask for their files at the gateway's root: whose page asks, and who gets an answer. */
import { describe, expect, test } from 'vitest';
import { WebSocketServer } from 'ws';
import { ALICE, ask, echoHead, idOf, keyOf, MALLORY, onCleanup, seenBy, sendRaw, serve, start } from './harness.ts';
import { A as OVER_TLS, ask as askHttp2, connected, gateway } from './http2-client.ts';

const [A, B] = [idOf('a'), idOf('b')];
const PREFIX = `/forward/${A}/80`;
const HOST = 'gw.test';
const ORIGIN = `http://${HOST}`;
const OWNER = 'berth_gateway=session-a';

async function harness() {
  const { port, server } = await serve(echoHead);
  const sockets = new WebSocketServer({ server });
  const opened: string[] = [];
  sockets.on('connection', (socket, req) => {
    opened.push(req.url ?? '');
    socket.on('error', () => {});
  });
  onCleanup(async () => {
    for (const client of sockets.clients) client.terminate();
  });
  const made = await start({ portDomain: 'ports.test' });
  made.add(A, { owner: ALICE, publicPorts: [80], ports: { 80: port, 81: port } });
  made.add(B, { owner: MALLORY, publicPorts: [80], ports: { 80: port } });
  made.sessions.set('session-a', ALICE);
  made.sessions.set('session-m', MALLORY);
  return { made, opened };
}

const page = (path: string, more: Record<string, string> = {}): Record<string, string> => ({
  host: HOST,
  cookie: OWNER,
  'sec-fetch-site': 'same-origin',
  referer: `${ORIGIN}${path}`,
  ...more,
});

const upgrade = (path: string, headers: Record<string, string>): string =>
  [
    `GET ${path} HTTP/1.1`,
    'connection: Upgrade',
    'upgrade: websocket',
    'sec-websocket-version: 13',
    'sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==',
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    '',
    '',
  ].join('\r\n');

describe('a request at the root', () => {
  test.each([
    ['of a page of the port', PREFIX],
    ['of a file that the page loaded', `${PREFIX}/deep/style.css`],
    ['of a private port', `/forward/${A}/81/`],
  ])('%s leads below the prefix', async (_what, from) => {
    const { made } = await harness();
    const prefix = from.split('/').slice(0, 4).join('/');
    const got = await ask(made, '/assets/app.js?v=1', { headers: page(`${from}${from === PREFIX ? '/' : ''}?q=/x`) });
    expect([got.status, got.headers.location]).toEqual([307, `${prefix}/assets/app.js?v=1`]);
    expect(got.headers['cache-control']).toBe('no-store');
  });

  test('keeps method and body', async () => {
    const { made } = await harness();
    const body = Buffer.alloc(8_000_000, 'x');
    const headers = page(`${PREFIX}/`, { origin: ORIGIN, 'content-type': 'application/octet-stream' });
    const got = await ask(made, '/queue/join', { method: 'POST', headers, body });
    expect([got.status, got.headers.location]).toEqual([307, `${PREFIX}/queue/join`]);
    const followed = seenBy(await ask(made, got.headers.location ?? '', { method: 'POST', headers, body: 'x' }));
    expect(followed).toMatchObject({ method: 'POST', url: '/queue/join' });
  });

  test('is answered over HTTP/2', async () => {
    const made = await gateway();
    made.add(OVER_TLS, { owner: ALICE });
    made.sessions.set('session-a', ALICE);
    const session = await connected(made);
    const { status, headers } = await askHttp2(session, '/app.js', {
      cookie: '__Host-berth_gateway=session-a',
      'sec-fetch-site': 'same-origin',
      referer: `https://gw.test/forward/${OVER_TLS}/80/`,
    });
    expect([status, headers['location']]).toEqual([307, `/forward/${OVER_TLS}/80/app.js`]);
  });

  test.each<[string, string, Record<string, string>]>([
    ['of a stranger', '/x', page(`${PREFIX}/`, { cookie: '' })],
    ['of another account', '/x', page(`${PREFIX}/`, { cookie: 'berth_gateway=session-m' })],
    ['of the owner on a page of another account', '/x', page(`/forward/${B}/80/`)],
    ['of a holder of a link', '/x', page(`/forward/${A}/81/`, { cookie: 'berth_share=good' })],
    ['of another site', '/x', page('', { referer: `http://evil.test${PREFIX}/`, 'sec-fetch-site': 'cross-site' })],
    ['of another port of the host', '/x', page('', { referer: `${ORIGIN}:81${PREFIX}/` })],
    ['of a sandboxed page', '/x', page('', { referer: '', origin: 'null', cookie: `${OWNER}; berth_app=${A}/80` })],
    [
      'of a page of another site with the cookie of an app',
      '/x',
      {
        ...page(''),
        referer: 'http://evil.test/',
        'sec-fetch-site': 'cross-site',
        cookie: `${OWNER}; berth_app=${A}/80`,
      },
    ],
    ['that a person typed', '/', { host: HOST, cookie: `${OWNER}; berth_app=${A}/80`, 'sec-fetch-site': 'none' }],
    ['of the notebook', '/x', page(`/notebook/${A}/`, { cookie: `${OWNER}; berth_app=${A}/80` })],
    ['of a page of no port', '/x', page(`/forward/${A}/`)],
    ['of a page of a port that is none', '/x', page(`/forward/${A}/65536/`)],
    ['with a cookie that names no port', '/x', page('/', { cookie: `${OWNER}; berth_app=../..` })],
    ['for a service worker', '/sw.js', page(`${PREFIX}/`, { 'service-worker': 'script' })],
    ['for the gateway’s own addresses', `/forward/${A}`, page(`${PREFIX}/`)],
    ['for a notebook', '/notebook/', page(`${PREFIX}/`)],
    ['for a reserved path', '/.berth/x', page(`${PREFIX}/`)],
  ])('%s is refused', async (_who, path, headers) => {
    const { made } = await harness();
    made.shares.set('good', { instanceId: A, port: 81, expiresAtMs: Date.now() + 3_600_000 });
    const got = await ask(made, path, { headers });
    expect([got.status, got.headers.location, made.dials]).toEqual([404, undefined, 0]);
  });

  test('is refused to a program, with the addresses', async () => {
    const { made } = await harness();
    const got = await ask(made, '/x', { headers: { host: HOST, 'x-api-key': keyOf(ALICE) } });
    expect([got.status, got.body]).toEqual([404, expect.stringContaining('/forward/<instanceId>/<port>/')]);
  });

  test('an unsafe one needs the origin of the gateway', async () => {
    const { made } = await harness();
    const bare = { host: HOST, cookie: OWNER, referer: `${ORIGIN}${PREFIX}/` };
    const post = (headers: Record<string, string>) => ask(made, '/x', { method: 'POST', headers });
    expect((await post(bare)).status).toBe(404);
    expect((await post({ ...bare, origin: 'http://evil.test' })).status).toBe(404);
    expect((await post({ ...bare, origin: ORIGIN })).status).toBe(307);
  });
});

describe('the app that the owner opened last', () => {
  const cookieAfter = async (path: string, headers: Record<string, string>): Promise<string | undefined> => {
    const { made } = await harness();
    const got = await ask(made, path, { headers: { host: HOST, accept: 'text/html', ...headers } });
    return got.headers['set-cookie']?.find((one) => one.startsWith('berth_app='));
  };

  test('is named to its browser alone, once', async () => {
    const set = `berth_app=${A}/80; Path=/; HttpOnly; SameSite=Strict`;
    expect(await cookieAfter(`${PREFIX}/`, { cookie: OWNER })).toBe(set);
    expect(await cookieAfter(`${PREFIX}/`, { cookie: `${OWNER}; berth_app=${A}/80` })).toBeUndefined();
    expect(await cookieAfter(`${PREFIX}/`, {})).toBeUndefined();
    expect(await cookieAfter(`${PREFIX}/`, { cookie: 'berth_gateway=session-m' })).toBeUndefined();
    expect(await cookieAfter('/', { host: `80-${A}.ports.test`, cookie: OWNER })).toBeUndefined();
  });

  test('answers pages that changed their path or send no referrer', async () => {
    const { made } = await harness();
    const cookie = `${OWNER}; berth_app=${A}/80`;
    const moved = await ask(made, '/x', { headers: page('/page-2', { cookie }) });
    expect(moved.headers.location).toBe(`${PREFIX}/x`);
    const bare = { host: HOST, cookie, origin: ORIGIN };
    expect((await ask(made, '/x', { method: 'POST', headers: bare })).headers.location).toBe(`${PREFIX}/x`);
  });

  test('gets its WebSockets of the root, without the cookie', async () => {
    const { made, opened } = await harness();
    const connect = (headers: Record<string, string>) =>
      sendRaw(made, upgrade('/hmr?token=1', { host: HOST, ...headers })).then((text) => text.slice(9, 12));
    const cookie = `${OWNER}; berth_app=${A}/80`;
    expect(await connect({ cookie })).toBe('404');
    expect(await connect({ cookie, origin: 'http://evil.test' })).toBe('404');
    expect(await connect({ cookie, origin: 'null' })).toBe('404');
    expect(await connect({ cookie: `berth_gateway=session-m; berth_app=${A}/80`, origin: ORIGIN })).toBe('404');
    expect(await connect({ cookie: `${OWNER}; berth_app=${B}/80`, origin: ORIGIN })).toBe('404');
    expect(opened).toEqual([]);
    void connect({ cookie, origin: ORIGIN });
    await expect.poll(() => opened).toEqual(['/hmr?token=1']);
    const seen = await ask(made, `${PREFIX}/`, { headers: { host: HOST, cookie: `${cookie}; own=1`, origin: ORIGIN } });
    expect(seenBy(seen).headers['cookie']).toBe('own=1');
  });
});

test.each([
  ['no-referrer', 'same-origin'],
  ['origin', 'strict-origin-when-cross-origin'],
  ['no-referrer, strict-origin', 'same-origin, strict-origin-when-cross-origin'],
  ['unsafe-url', 'unsafe-url'],
])('the referrer policy %s of an app shows the gateway its path, and others nothing more', async (sent, got) => {
  const { port } = await serve((_req, res) => res.setHeader('referrer-policy', sent).end());
  const made = await start();
  made.add(A, { owner: ALICE, ports: { 80: port } });
  const answer = await ask(made, `${PREFIX}/`, { headers: { 'x-api-key': keyOf(ALICE) } });
  expect(answer.headers['referrer-policy']).toBe(got);
});
