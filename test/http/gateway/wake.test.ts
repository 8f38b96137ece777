/** Requests for a stopped instance: which start it, which wait for it, and which do neither. */
import { expect, test } from 'vitest';
import type { WakeRequest } from '../../../src/control/index.ts';
import type { Waker } from '../../../src/domain/compute/wake.ts';
import { Refusal } from '../../../src/domain/kernel/refusal.ts';
import { ALICE, ask, idOf, keyOf, MALLORY, serve, start, until, type HarnessOptions } from './harness.ts';

const A = idOf('a');
const PATH = `/forward/${A}/80/app?x=1`;
const NO_HEADERS: Record<string, string>[] = [];
const KEY = { 'x-api-key': keyOf(ALICE) };
const SESSION = { cookie: 'berth_gateway=mine' };
const PAGE = { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document', accept: 'text/html' };
const TYPED = { ...PAGE, 'sec-fetch-site': 'none', 'sec-fetch-user': '?1' };
const CLICKED = { ...TYPED, 'sec-fetch-site': 'same-origin' };

interface Case {
  by?: Waker;
  isPublic?: boolean;
  limits?: HarnessOptions['limits'];
  refusal?: Refusal;
  elapsed?: () => number;
}

async function asleep({ by = 'owner', isPublic = true, limits, refusal, elapsed }: Case = {}) {
  const asked: WakeRequest[] = [];
  const app = await serve((req, res) => {
    let body = '';
    req.on('data', (chunk: Buffer) => (body += chunk.toString()));
    req.on('end', () => res.end(`${req.method} ${req.url} ${body}`));
  });
  const made = await start({
    ...(limits && { limits }),
    ...(elapsed && { elapsed }),
    wake: async (request) => {
      asked.push(request);
      if (refusal) throw refusal;
      if (request.starts) Object.assign(instance.route, { status: 'Starting' });
      return { dollarsPerHour: request.accountId === ALICE ? 0.42 : null, expectedMs: 7_300 };
    },
  });
  const route = { running: false, status: 'Stopped', wake: by };
  const instance = made.add(A, { owner: ALICE, publicPorts: isPublic ? [80] : [], route });
  made.sessions.set('mine', ALICE);
  made.shares.set('good', { instanceId: A, port: 80, expiresAtMs: Date.now() + 3_600_000 });
  const runs = (): void => void Object.assign(instance.route, { running: true, status: 'Running' });
  const listens = (): void => void instance.ports.set(80, app.port);
  const starts = () => asked.filter((one) => one.starts);
  return { made, instance, asked, starts, runs, listens };
}

test('starts for the owner who types or clicks the address, and says price and seconds', async () => {
  for (const headers of [TYPED, CLICKED]) {
    const { made, asked } = await asleep();
    const page = await ask(made, PATH, { headers: { ...SESSION, ...headers } });
    expect(asked).toEqual([
      expect.objectContaining({ instanceId: A, accountId: ALICE, credential: 'login', starts: true }),
    ]);
    expect(page).toMatchObject({ status: 503, headers: { 'retry-after': '3' } });
    expect(page.body).toContain('It costs $0.42 an hour while it runs.');
    expect(page.body).toContain('Its last start took 8 s.');
    expect(page.body).toContain('<meta http-equiv="refresh" content="3">');
  }
});

test.each<[string, string, Record<string, string>]>([
  ['a HEAD', 'HEAD', { ...SESSION, ...TYPED }],
  ['a prefetch', 'GET', { ...SESSION, ...TYPED, 'sec-purpose': 'prefetch;prerender' }],
  ['a frame', 'GET', { ...SESSION, ...TYPED, 'sec-fetch-dest': 'iframe' }],
  [
    'an icon',
    'GET',
    { ...SESSION, 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'image', 'sec-fetch-site': 'same-origin' },
  ],
  ['a poll of an open page', 'GET', { ...SESSION, 'sec-fetch-mode': 'cors', 'sec-fetch-site': 'same-origin' }],
  ['a poll of an open page without TLS', 'GET', { ...SESSION, referer: 'http://gateway/', accept: '*/*' }],
  ['a poll with a key from a page without TLS', 'GET', { ...KEY, referer: 'http://gateway/', accept: '*/*' }],
  ['a preview of a link', 'GET', { accept: '*/*', 'user-agent': 'Slackbot-LinkExpanding 1.0' }],
  ['a preflight', 'OPTIONS', { origin: 'https://elsewhere.test', 'access-control-request-method': 'POST' }],
])('%s starts nothing', async (_what, method, headers) => {
  const { made, asked } = await asleep({ by: 'visitors' });
  expect((await ask(made, PATH, { method, headers })).status).toBe(503);
  expect(asked).toEqual([]);
});

test('a WebSocket starts nothing', async () => {
  const { made, asked } = await asleep({ by: 'visitors' });
  const upgrade = {
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-key': 'x',
    'sec-websocket-version': '13',
  };
  expect((await ask(made, PATH, { headers: { ...KEY, ...upgrade } })).status).toBe(503);
  expect(asked).toEqual([]);
});

test.each<[string, Record<string, string>]>([
  ['a link on another site', { ...SESSION, ...TYPED, 'sec-fetch-site': 'cross-site' }],
  ['a page that reloads itself', { ...SESSION, ...CLICKED, 'sec-fetch-user': '' }],
  ['a browser without TLS', { ...SESSION, accept: 'text/html' }],
])('shows the owner a button after %s', async (_what, headers) => {
  const { made, starts } = await asleep();
  const page = await ask(made, PATH, { headers });
  expect(starts()).toEqual([]);
  const action = `/.berth/wake?to=${encodeURIComponent(PATH)}`;
  expect(page.body).toContain(`<form method="post" action="${action}">`);
  expect(page.body).toContain('$0.42 an hour');
  const press = (origin: string) =>
    ask(made, action, { method: 'POST', headers: { ...SESSION, origin, accept: 'text/html' } });
  expect((await press('https://elsewhere.test')).status).toBe(403);
  expect(starts()).toEqual([]);
  expect(await press(made.origin)).toMatchObject({ status: 303, headers: { location: PATH } });
  expect(starts()).toHaveLength(1);
});

test('a button opens nothing but instances', async () => {
  const { made } = await asleep();
  for (const to of ['//elsewhere.test/', 'https://elsewhere.test/', '/open?key=x', '']) {
    const headers = { ...SESSION, origin: made.origin };
    const got = await ask(made, `/.berth/wake?to=${encodeURIComponent(to)}`, { method: 'POST', headers });
    expect([got.status, got.headers.location]).toEqual([404, undefined]);
  }
});

test("holds the owner's program until the port answers, body and all", async () => {
  const { made, starts, runs, listens } = await asleep({ isPublic: false });
  const answered = ask(made, PATH, { method: 'POST', headers: KEY, body: 'text' });
  await until('it starts', () => starts().length === 1);
  expect(starts()).toMatchObject([{ accountId: ALICE, credential: 'apiKey' }]);
  runs();
  await until('the port is dialed', () => made.dials > 2);
  listens();
  expect(await answered).toMatchObject({ status: 200, body: 'POST /app?x=1 text' });
});

test('requests that come while it starts wait for the same start', async () => {
  const { made, starts, runs, listens } = await asleep();
  const answered = [1, 2, 3].map(() => ask(made, PATH, { headers: KEY }));
  await until('it starts', () => starts().length > 0);
  answered.push(ask(made, PATH, { headers: KEY }));
  listens();
  runs();
  for (const one of await Promise.all(answered)) expect(one.body).toBe('GET /app?x=1 ');
});

test('says 504 and Retry-After to a program whose start takes longer than it is held', async () => {
  const { made, starts } = await asleep({ limits: { wakeHoldMs: 300 } });
  const got = await ask(made, PATH, { headers: KEY });
  expect(got).toMatchObject({ status: 504, headers: { 'retry-after': '10' } });
  expect(got.body).toContain('did not run within 0.3 s');
  expect(starts()).toHaveLength(1);
});

test('says 503 and Retry-After to a program whose port stays closed', async () => {
  const { made, starts, runs } = await asleep({ limits: { wakeHoldMs: 300 } });
  const answered = ask(made, PATH, { headers: KEY });
  await until('it starts', () => starts().length === 1);
  runs();
  expect(await answered).toMatchObject({ status: 503, headers: { 'retry-after': '3' } });
  expect((await answered).body).toContain('nothing listens on port 80');
});

test('does not start again what its owner stops meanwhile', async () => {
  const { made, instance, starts } = await asleep({ elapsed: () => performance.now() * 20 });
  const answered = ask(made, PATH, { headers: KEY });
  await until('it starts', () => starts().length === 1);
  instance.route.status = 'Stopped';
  expect((await answered).body).toContain('the instance is Stopped');
  expect(starts()).toHaveLength(1);
});

test('checks access again before it forwards what it held', async () => {
  const { made, instance, starts, runs, listens } = await asleep({ by: 'visitors' });
  const answered = ask(made, PATH, { method: 'POST' });
  await until('it starts', () => starts().length === 1);
  instance.route.access = new Map();
  listens();
  runs();
  expect((await answered).status).toBe(401);
});

test.each<[string, Record<string, string>, Partial<WakeRequest>]>([
  ['a visitor', { 'x-berth-wake': '1' }, { accountId: null, credential: 'none' }],
  ['the holder of a link', { 'x-berth-share': 'good' }, { accountId: null, credential: 'link' }],
])('%s starts it if the owner lets visitors', async (_who, headers, request) => {
  const { made, starts, runs, listens } = await asleep({ by: 'visitors', isPublic: !('x-berth-share' in headers) });
  listens();
  const answered = ask(made, PATH, { headers });
  await until('it starts', () => starts().length === 1);
  expect(starts()).toMatchObject([request]);
  runs();
  expect((await answered).body).toBe('GET /app?x=1 ');
});

test('a GET of a program that sends nothing else reads how to ask for a start', async () => {
  const { made, asked } = await asleep({ by: 'visitors' });
  expect((await ask(made, PATH)).body).toContain('the header \\"X-Berth-Wake: 1\\"');
  expect(asked).toEqual([]);
});

test('visitors get a button without the price, and start nothing that only its owner may', async () => {
  const { made } = await asleep({ by: 'visitors' });
  const page = await ask(made, PATH, { headers: TYPED });
  expect(page.body).toContain('<form method="post"');
  expect(page.body).not.toContain('$');
  const other = await asleep({ by: 'owner' });
  for (const headers of NO_HEADERS.concat(TYPED, { 'x-berth-wake': '1' }, { 'x-api-key': keyOf(MALLORY) })) {
    expect((await ask(other.made, PATH, { headers })).body).toMatch(/instance is Stopped/i);
  }
  expect(other.asked).toEqual([]);
});

test('nobody starts an instance whose setting is off', async () => {
  const { made, asked } = await asleep({ by: 'off' });
  for (const headers of NO_HEADERS.concat({ ...SESSION, ...TYPED }, KEY, { 'x-berth-wake': '1' }))
    expect((await ask(made, PATH, { headers })).status).toBe(503);
  expect(asked).toEqual([]);
});

test('a refusal is on the page, and the answer to a program', async () => {
  const refusal = new Refusal('no_balance', 'the account has $0 available', { retryAfterS: 60 });
  const { made } = await asleep({ refusal });
  const page = await ask(made, PATH, { headers: { ...SESSION, ...TYPED } });
  expect(page.body).toContain('The account has $0 available.');
  expect(page.body).not.toContain('http-equiv');
  const answer = await ask(made, PATH, { headers: KEY });
  expect(answer).toMatchObject({ status: 503, headers: { 'retry-after': '60', 'x-error-code': 'no_balance' } });
});

test('holds requests of one instance up to a limit', async () => {
  const { made, starts } = await asleep();
  const refused: number[] = [];
  const asked = Array.from({ length: 120 }, async () => {
    const { status } = await ask(made, PATH, { headers: KEY });
    refused.push(status);
  });
  await expect.poll(() => refused).toHaveLength(20);
  expect(new Set(refused)).toEqual(new Set([503]));
  expect(starts()).toHaveLength(1);
  await made.gateway.stop();
  await Promise.all(asked);
  expect(refused).toHaveLength(120);
});

test('answers what it holds when the gateway stops', async () => {
  const { made, starts } = await asleep();
  const answered = ask(made, PATH, { headers: KEY });
  await until('it starts', () => starts().length === 1);
  await made.gateway.stop();
  expect((await answered).status).toBe(503);
});
