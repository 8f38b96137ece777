/** Each feature behind each proxy, with the shipped files of `deploy/proxies/`. */
import { createServer } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import { request } from 'node:https';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ensureTraefik } from '../../../scripts/lib/traefik.mjs';
import { makeClient } from '../../../src/contract/client.ts';
import { checkProxies, type ProxyFault } from '../../../src/contract/proxy-check.ts';
import { startFrontedServer, toHere, type Change, type FrontedServer } from '../../fixtures/front-proxies.ts';
import { atLevel } from '../../fixtures/level.ts';
import { PASSWORD } from '../../fixtures/server-process.ts';
import { bringsProgram } from '../../fixtures/programs.ts';

bringsProgram('go');
const traefik = await ensureTraefik();
const programs: Record<string, string> = typeof traefik === 'string' ? { traefik } : {};
const MINUTES = 60_000;
const GB = 1024 ** 3;
const BODY_BYTES = atLevel({ short: GB / 4, long: 10 * GB });
const PIECE = Buffer.alloc(1024 * 1024);
/** Address of the client; the proxy is at another. */
const CLIENT = '127.0.0.2';

let plain: FrontedServer;
let below: FrontedServer;
beforeAll(async () => {
  plain = await startFrontedServer({ nodePorts: '32590-32594', programs });
  below = await startFrontedServer({ nodePorts: '32595-32599', programs, below: '/berth' });
});
afterAll(async () => {
  await plain.stop();
  await below.stop();
});

describe.each(['nginx', 'caddy', 'haproxy', 'traefik'] as const)('%s', (name) => {
  const on = (server: FrontedServer, skip: (note: string) => void): FrontedServer => {
    if (name === 'traefik' && typeof traefik !== 'string') skip(`Traefik is not there: ${traefik.why}`);
    return server;
  };
  const logIn = async ({ apiUrl, fetch }: FrontedServer) => {
    const client = makeClient({ baseUrl: `${apiUrl}/api`, fetch });
    const { accessToken: token } = await client.login({ username: 'admin', password: PASSWORD });
    return { token, client: makeClient({ baseUrl: `${apiUrl}/api`, fetch, credential: { kind: 'token', token } }) };
  };

  test('lets a browser log in, with a cookie for https alone', ({ skip }) =>
    on(plain, skip).behind(name, async () => {
      const { apiUrl, fetch } = plain;
      const form = new URLSearchParams({ to: '/volumes', username: 'admin', password: PASSWORD });
      const headers = { origin: apiUrl, 'content-type': 'application/x-www-form-urlencoded' };
      const init = { method: 'POST', body: form.toString(), headers, redirect: 'manual' } as const;
      const answer = await fetch(`${apiUrl}/login`, init);
      expect([answer.status, answer.headers.get('location')]).toEqual([303, '/volumes']);
      expect(answer.headers.getSetCookie()[0]).toMatch(/; Path=\/; .*; Secure$/);
    }));

  test('passes WebSockets, streams and bodies of the API', ({ skip }) =>
    on(plain, skip).behind(name, async () => expect(await checkProxies({ ...plain, url: plain.apiUrl })).toEqual([])));

  test('passes WebSockets, streams and bodies of the gateway', ({ skip }) =>
    on(plain, skip).behind(name, async () =>
      expect(await checkProxies({ ...plain, url: plain.gatewayUrl })).toEqual([]),
    ));

  test('passes the host of a port', ({ skip }) =>
    on(plain, skip).behind(name, async () => expect(await checkProxies({ ...plain, url: plain.portUrl })).toEqual([])));

  test('speaks HTTP/2, a hundred requests at once', ({ skip }) =>
    on(plain, skip).behind(name, async () => {
      const session = connectHttp2(plain.apiUrl, { ca: plain.ca, lookup: toHere });
      const ask = (): Promise<unknown> =>
        new Promise((resolve, reject) => {
          const stream = session.request({ ':path': '/healthz' });
          stream.on('response', (headers) => resolve(headers[':status'])).on('error', reject);
          stream.resume();
        });
      const statuses = await Promise.all(Array.from({ length: 100 }, ask));
      session.destroy();
      expect(new Set(statuses)).toEqual(new Set([200]));
    }));

  test('tells the address of the client, whatever it claims', ({ skip }) =>
    on(plain, skip).behind(name, async () => {
      const { client } = await logIn(plain);
      const { key } = await client.createApiKey({ name: `from ${name}`, addresses: [CLIENT] });
      const forged = { 'x-forwarded-for': '203.0.113.1', forwarded: 'for=203.0.113.1' };
      const headers = { 'x-api-key': key.fullKey, ...forged };
      const answer = await plain.fetch(`${plain.apiUrl}/api/balance`, { headers });
      expect(answer.status).toBe(200);
    }));

  test('passes 31 KB of cookies', ({ skip }) =>
    on(plain, skip).behind(name, async () => {
      const cookie = Array.from({ length: 8 }, (_, at) => `c${at}=${'v'.repeat(3_900)}`).join('; ');
      for (const url of [`${plain.apiUrl}/healthz`, `${plain.gatewayUrl}/.berth/check`])
        expect([url, (await plain.fetch(url, { headers: { cookie } })).status]).toEqual([url, 200]);
    }));

  test('leaves encoded paths as they are', ({ skip }) =>
    on(plain, skip).behind(name, async () => {
      const at = '/nothing/a%2Fb%5Cc%3Fd%23e%25f%3Bg';
      const answer = await plain.fetch(plain.apiUrl + at);
      expect(await answer.json()).toMatchObject({ message: expect.stringContaining(`no route GET ${at}:`) });
    }));

  test('serves console and API below a path', ({ skip }) =>
    on(below, skip).behind(name, async () => {
      const { apiUrl, fetch } = below;
      expect(await checkProxies({ ...below, url: apiUrl })).toEqual([]);
      const page = await (await fetch(`${apiUrl}/login`)).text();
      expect(page).toContain('<form method="post" action="/berth/login">');
      const { client } = await logIn(below);
      expect(await client.userInfo()).toMatchObject({ username: 'admin' });
    }));

  test(`takes a body of ${BODY_BYTES / GB} GB as it comes`, { timeout: 60 * MINUTES }, async ({ skip }) => {
    let atFirst = -1;
    let sent = 0;
    let received = 0;
    const upstream = createServer((incoming, answer) => {
      incoming.on('data', (chunk: Buffer) => {
        if (atFirst < 0) atFirst = sent;
        received += chunk.length;
      });
      incoming.on('end', () => answer.end(String(received)));
    }).listen(0, '127.0.0.1');
    await new Promise((resolve) => upstream.once('listening', resolve));
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    const { port } = upstream.address() as AddressInfo;
    const send = async (): Promise<number | undefined> => {
      const outgoing = request(`${plain.gatewayUrl}/upload`, {
        method: 'PUT',
        ca: plain.ca,
        lookup: toHere,
        headers: { 'content-length': BODY_BYTES },
      });
      const status = new Promise<number | undefined>((resolve, reject) => {
        outgoing.on('response', ({ statusCode }) => resolve(statusCode)).on('error', reject);
      });
      const pieces = function* () {
        for (; sent < BODY_BYTES; sent += PIECE.length) yield PIECE;
      };
      await pipeline(Readable.from(pieces()), outgoing);
      return status;
    };
    try {
      expect(await on(plain, skip).behind(name, send, { ports: { gateway: port } })).toBe(200);
      expect(received).toBe(BODY_BYTES);
      // Neither the disk nor the memory of the proxy held it.
      expect(atFirst).toBeLessThan(BODY_BYTES / 2);
    } finally {
      upstream.closeAllConnections();
      upstream.close();
    }
  });
});

const SERVICE = /^ {4}berth-(?:api|gateway):\n {6}loadBalancer:\n/gm;
const ROUTER = /^ {6}tls: \{\}\n/gm;
/** A middleware of both routers. */
const middleware = (options: string): Change[] => [
  [ROUTER, '$&      middlewares: [wrong]\n'],
  [/^ {2}services:\n/m, `  middlewares:\n    wrong:\n      ${options}\n$&`],
];

test.for<[string, Change[], ProxyFault[]]>([
  ['another Host', [[SERVICE, '$&        passHostHeader: false\n']], [{ kind: 'host', seen: expect.any(String) }]],
  [
    'another scheme',
    middleware('headers: { customRequestHeaders: { X-Forwarded-Proto: http } }'),
    [{ kind: 'scheme', seen: 'http' }],
  ],
  [
    'held streams and bodies of 1 MB',
    middleware('buffering: { maxRequestBodyBytes: 1000000 }'),
    [{ kind: 'stream' }, { kind: 'body', status: 413 }],
  ],
])('names %s of traefik', async ([, changes, faults], { skip }) => {
  if (typeof traefik !== 'string') return skip(`Traefik is not there: ${traefik.why}`);
  const found = await plain.behind('traefik', () => checkProxies({ ...plain, url: plain.apiUrl }), { changes });
  expect(found).toEqual(faults);
});
