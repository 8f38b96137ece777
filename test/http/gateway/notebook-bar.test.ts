/** The bar of a notebook: answered by the gateway to the owner alone, never by the instance. */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { NotebookBar } from '../../../src/control/index.ts';
import { instanceNotFound, Refusal } from '../../../src/domain/kernel/refusal.ts';
import { followLink } from '../../../src/edge/link/follow-control.ts';
import { serveLink } from '../../../src/edge/link/serve.ts';
import { ALICE, ask, echoHead, idOf, ISSUER, jwtOf, keyOf, MALLORY, onCleanup, serve, start } from './harness.ts';

const [A, M] = [idOf('a'), idOf('b')];
const HOST = 'gw.test';
const ORIGIN = `http://${HOST}`;
const FIGURES = { name: 'mine', status: 'Running', pricePerHour: 0.5, costSoFar: 1, stopsInMs: 60_000, gpus: null };
const ignore = (): void => {};
const log = { debug: ignore, info: ignore, warn: ignore, error: ignore };
const BAR = `/notebook/${A}/.berth/bar`;
const STOP = `/notebook/${A}/.berth/stop`;
/** Of the notebook's own page. */
const PAGE = { host: HOST, cookie: 'berth_gateway=session-a', 'sec-fetch-site': 'same-origin' };
const CLICK = { ...PAGE, origin: ORIGIN, 'content-type': 'application/json' };

async function harness({ read, stop }: Partial<NotebookBar> = {}) {
  const inside: string[] = [];
  const { port } = await serve((req, res) => {
    inside.push(req.url ?? '');
    echoHead(req, res);
  });
  const stops: unknown[] = [];
  const made = await start({
    portDomain: 'ports.test',
    notebookBar: {
      read: read ?? (async ({ ownerId, instanceId }) => ({ ...FIGURES, name: `${ownerId} ${instanceId}` })),
      stop: stop ?? (async (...request) => void stops.push(request)),
    },
  });
  made.add(A, { owner: ALICE, ports: { 8888: port }, access: { 8888: 'public' } });
  made.add(M, { owner: MALLORY, ports: { 8888: port } });
  made.sessions.set('session-a', ALICE);
  made.sessions.set('session-m', MALLORY);
  made.shares.set('good', { instanceId: A, port: 8888, expiresAtMs: Date.now() + 3_600_000 });
  return { made, inside, stops };
}

test('the owner reads the figures with the way to the console, and nothing reaches the instance', async () => {
  const { made, inside } = await harness();
  const got = await ask(made, BAR, { headers: PAGE });
  expect([got.status, JSON.parse(got.body)]).toEqual([
    200,
    { ...FIGURES, name: `${ALICE} ${A}`, consoleUrl: `http://console.test:8080/instances/${A}` },
  ]);
  expect(got.headers).toMatchObject({ 'cache-control': 'no-store', 'cross-origin-resource-policy': 'same-origin' });
  expect(inside).toEqual([]);
  expect(made.began).toEqual([]);
});

test('the owner stops the instance, which says who did', async () => {
  const { made, inside, stops } = await harness();
  const got = await ask(made, STOP, { method: 'POST', headers: { ...CLICK, 'user-agent': 'browser' }, body: '{}' });
  expect([got.status, got.body]).toEqual([200, '{}']);
  const visitor = { address: '127.0.0.1', userAgent: 'browser' };
  const owned = { ownerId: ALICE, instanceId: A };
  expect(stops).toEqual([[owned, { ...visitor, credential: 'link' }]]);
  const programs: Record<string, string>[] = [
    { authorization: `Bearer ${jwtOf(ALICE)}` },
    { 'x-api-key': keyOf(ALICE) },
  ];
  for (const credentials of programs)
    await ask(made, STOP, { method: 'POST', headers: { 'content-type': 'application/json', ...credentials } });
  expect(stops.slice(1)).toMatchObject([
    [owned, { credential: 'login' }],
    [owned, { credential: 'apiKey' }],
  ]);
  expect(inside).toEqual([]);
});

const others: [string, Record<string, string>, number][] = [
  ['a stranger', { host: HOST, cookie: '' }, 401],
  ['another account', { cookie: 'berth_gateway=session-m' }, 404],
  ['a holder of a link to the port', { cookie: '', 'x-berth-share': 'good' }, 401],
  ['a holder of a link, by its cookie', { cookie: 'berth_share=good' }, 401],
  ['a page in a sandbox', { origin: 'null', 'sec-fetch-site': 'cross-site' }, 401],
  ['a page of another site', { origin: 'https://evil.test', 'sec-fetch-site': 'cross-site' }, 403],
  ['a page on the host of a port', { origin: `http://8000-${M}.ports.test`, 'sec-fetch-site': 'same-site' }, 403],
];

test.each(others)('%s neither reads nor stops', async (_who, headers, status) => {
  const { made, inside, stops } = await harness();
  const read = await ask(made, BAR, { headers: { ...PAGE, ...headers } });
  const stopped = await ask(made, STOP, { method: 'POST', headers: { ...CLICK, ...headers }, body: '{}' });
  expect([read.status, stopped.status]).toEqual([status, headers['origin'] === undefined ? status : stopped.status]);
  expect(stopped.status).toBeGreaterThan(400);
  expect([read.body, stopped.body].join()).not.toMatch(/costSoFar|mine/);
  expect([inside, stops]).toEqual([[], []]);
});

test('the owner of another instance gets that one alone', async () => {
  const { made, stops } = await harness();
  const headers = { ...CLICK, cookie: 'berth_gateway=session-m' };
  expect((await ask(made, STOP, { method: 'POST', headers })).status).toBe(404);
  expect((await ask(made, `/notebook/${M}/.berth/stop`, { method: 'POST', headers })).status).toBe(200);
  expect(stops).toMatchObject([[{ ownerId: MALLORY, instanceId: M }, {}]]);
});

test.each([
  ['a form, which needs no script', 'POST', STOP, { 'content-type': 'text/plain' }, 415],
  ['a request without a type', 'POST', STOP, { 'content-type': '' }, 415],
  ['a link, or an image', 'GET', STOP, {}, 405],
  ['a request without an origin', 'POST', STOP, { origin: '', 'sec-fetch-site': '' }, 403],
  ['an unknown verb', 'POST', `/notebook/${A}/.berth/terminate`, {}, 404],
  ['a verb below another', 'POST', `${STOP}/now`, {}, 404],
])('%s stops nothing', async (_what, method, path, more, status) => {
  const { made, inside, stops } = await harness();
  const headers = Object.entries({ ...CLICK, ...more }).filter(([, value]) => value !== '');
  expect((await ask(made, path, { method, headers: Object.fromEntries(headers) })).status).toBe(status);
  expect([inside, stops]).toEqual([[], []]);
});

test('an image without a notebook has the figures on the page that says so, for its owner', async () => {
  const gpus = { count: 1, memoryUsedBytes: 2 ** 30, memoryTotalBytes: 2 ** 34, busyPercent: 40 };
  const { made } = await harness({ read: async () => ({ ...FIGURES, stopsInMs: 7_530_000, gpus }) });
  const instance = made.instances.get(A);
  instance?.ports.clear();
  Object.assign(instance?.route ?? {}, { notebook: { state: 'none', text: '' } });
  const asked = (headers: Record<string, string>) => ask(made, `/notebook/${A}/`, { headers });
  const page = { ...PAGE, accept: 'text/html', 'sec-fetch-site': 'none' };
  const { status, body } = await asked(page);
  expect(status).toBe(503);
  expect(body).toContain('This image has no Jupyter');
  expect(body).toContain('&quot;mine&quot; has cost $1.00 so far, at $0.5 an hour');
  expect(body).toContain('It stops by itself in 2 h 6 min');
  expect(body).toContain('Its GPUs are 40 % busy, with 1.0 of 16.0 GiB in use');
  expect(body).toContain(`href="http://console.test:8080/instances/${A}"`);
  expect((await asked({ ...page, accept: 'application/json' })).body).not.toContain('mine');
  const failing = await harness({ read: async () => Promise.reject(new Error('the store does not answer')) });
  failing.made.instances.get(A)?.ports.clear();
  Object.assign(failing.made.instances.get(A)?.route ?? {}, { notebook: { state: 'none', text: '' } });
  expect((await ask(failing.made, `/notebook/${A}/`, { headers: page })).body).toContain('This image has no Jupyter');
  expect((await asked({ ...page, cookie: 'berth_gateway=session-m' })).body).not.toContain('mine');
});

test('says why an instance can not be stopped', async () => {
  const { made } = await harness({ stop: async () => Promise.reject(new Refusal('not_now', 'it is Stopped')) });
  const got = await ask(made, STOP, { method: 'POST', headers: CLICK });
  expect([got.status, got.headers['x-error-code'], got.body]).toEqual([
    409,
    'not_now',
    '{"message":"it is Stopped"}\n',
  ]);
});

test('a gateway process asks the API, and passes its refusals on', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'berth-bar-'));
  const path = join(folder, 'gateway.sock');
  const stops: unknown[] = [];
  const refuse = async (): Promise<never> => Promise.reject(instanceNotFound());
  const link = await serveLink({
    address: path,
    routeTable: {
      async follow(send, signal) {
        send({ snapshot: 'last', routes: [], gone: [] });
        await once(signal, 'abort');
      },
    },
    forwarding: {
      redeem: refuse,
      session: refuse,
      share: refuse,
      ssh: refuse,
      recordSshLogin: refuse,
      beginTraffic: () => () => {},
      onRevoked: () => () => {},
    },
    notebookBar: {
      read: async ({ ownerId }) => (ownerId === ALICE ? FIGURES : refuse()),
      stop: async (...request) => void stops.push(request),
    },
    authenticate: refuse,
    wake: refuse,
    issuer: ISSUER,
    ownRegionId: 'own',
    regions: { current: () => [], onChange: () => () => {} },
    log,
  });
  const { ready, notebookBar, stop } = followLink({ address: path, log });
  onCleanup(async () => {
    await stop();
    await link.stop();
    await rm(folder, { recursive: true });
  });
  await ready;
  const owned = { ownerId: ALICE, instanceId: A };
  expect(await notebookBar.read(owned)).toEqual(FIGURES);
  await expect(notebookBar.read({ ...owned, ownerId: MALLORY })).rejects.toMatchObject({ code: 'not_found' });
  const visitor = { address: '192.0.2.7', userAgent: 'browser', credential: 'link' as const };
  await notebookBar.stop(owned, visitor);
  expect(stops).toEqual([[owned, visitor]]);
  await link.stop();
  await expect(notebookBar.read(owned)).rejects.toMatchObject({ code: 'unavailable' });
});

test("on the host of a port the path is the program's", async () => {
  const { made, inside } = await harness();
  expect((await ask(made, BAR, { headers: { host: `8888-${A}.ports.test` } })).status).toBe(200);
  expect(inside).toEqual([BAR]);
});
