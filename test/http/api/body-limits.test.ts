/** Sizes, members and depth of request bodies. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { Access } from '../../../src/control/index.ts';
import { jsonRouteNames, jsonRouteOf } from '../../../src/contract/routes.ts';
import { bodyLimitOf } from '../../../src/contract/schema-bounds.ts';
import { fakeControl, GOOD_TOKEN as token } from './fake-control.ts';
import { launchRequest, sendRaw, startEdge, type BareApi } from './harness.ts';

setFlagsFromString('--expose-gc');
const gc: unknown = runInNewContext('gc');

async function start(): Promise<BareApi> {
  const api = await startEdge(
    fakeControl({
      instances: { list: async () => ({ texts: [], totalEntries: 0 }) },
    }),
  );
  onTestFinished(() => api.stop());
  return api;
}

test('an idle connection holds no body of its last request', async () => {
  const api = await start();
  const text = JSON.stringify({ pager: { currentPage: 1, pageSize: 10 }, note: 'x'.repeat(1_000_000) });
  const head = `POST /api/instance/list HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n`;
  const request = Buffer.from(`${head}Content-Length: ${text.length}\r\n\r\n${text}`);
  const heldBytes = (): number => {
    if (typeof gc !== 'function') throw new Error('the garbage can not be collected');
    Reflect.apply(gc, undefined, []);
    const { arrayBuffers, heapUsed } = process.memoryUsage();
    return arrayBuffers + heapUsed;
  };
  const before = heldBytes();
  for (let count = 0; count < 32; count++) {
    const socket = connect(api.port, '127.0.0.1');
    onTestFinished(() => void socket.destroy());
    socket.write(request);
    const [answer] = (await once(socket, 'data')) as [Buffer];
    expect(String(answer)).toMatch(/^HTTP\/1\.1 200 /);
  }
  // Freed bodies count until V8 has swept them; connections are idle for 72 s.
  await expect.poll(() => heldBytes() - before, { timeout: 20_000 }).toBeLessThan(8_000_000);
});

test('refuses a body of more than 64 levels, and takes brackets in text', async () => {
  const api = await start();
  const deep = (levels: number) => `{"x":${'['.repeat(levels)}${']'.repeat(levels)}}`;
  const send = (body: string) => api.post('/user/info', body, { token });
  expect(await send(deep(63))).toMatchObject({ status: 200 });
  expect(await send(deep(64))).toMatchObject({ status: 400, text: expect.stringContaining('64 levels deep') });
  expect(await send(`{"x":"\\"${'['.repeat(500)}"}`)).toMatchObject({ status: 200 });
});

const members = (count: number): string => JSON.stringify(Object.fromEntries(numbered(count)));
const numbered = (count: number): [string, string][] => Array.from({ length: count }, (_, at) => [`k${at}`, 'v']);

/** Bodies of at most 1 MiB whose members, items or brackets cost more than their bytes. */
const wide: Record<string, string> = {
  'members of the body': members(70_000),
  'members of a field': `{"labels":${members(70_000)}}`,
  'items of a field': `{"status":[${'0,'.repeat(400_000)}0]}`,
  'items in an unknown member': `{"unknown":[${'{},'.repeat(200_000)}{}]}`,
  'duplicate names': `{${'"a":1,'.repeat(150_000)}"a":1}`,
  'empty arrays': `[${'[],'.repeat(200_000)}[]]`,
  'commas alone': ','.repeat(900_000),
  'brackets that close at once': '[]'.repeat(400_000),
};

test.for(Object.entries(wide))('refuses a body with too many members before it is parsed: %s', async ([, body]) => {
  const parse = vi.spyOn(JSON, 'parse');
  onTestFinished(() => parse.mockRestore());
  const api = await start();
  const refused = await api.post('/instance/list', body, { token });
  expect(refused).toMatchObject({ status: 413, headers: { 'x-error-code': 'body_too_large' } });
  expect(refused.text).toContain('more than 4000 members and items');
  expect(parse).not.toHaveBeenCalledWith(body);
});

test('counts members of a body that comes in pieces of one byte, and neither text nor spaces', async () => {
  const api = await start();
  const head = `POST /api/instance/list HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nConnection: close\r\n`;
  const inPieces = (body: string) =>
    sendRaw(
      api.port,
      `${head}Transfer-Encoding: chunked\r\n\r\n`,
      ...[...body].map((byte) => `1\r\n${byte}\r\n`),
      '0\r\n\r\n',
    );
  expect(await inPieces(`{"status":[${'0,'.repeat(4_000)}0]}`)).toMatch(/^HTTP\/1\.1 413 /);
  const marks = `"${'[{,\\"'.repeat(2_000)}"`;
  expect(await inPieces(`{ "pager" : ${' '.repeat(2_000)} { "currentPage":1,"pageSize":10}, "x":${marks}}`)).toMatch(
    /^HTTP\/1\.1 200 /,
  );
});

test('limits the body of a route by its schema, where docs/interface.md does not describe it', async () => {
  const api = await start();
  const padded = (bytes: number) => `{"username":"a","password":"${'x'.repeat(bytes - 30)}"}`;
  expect((await api.post('/user/login', padded(4_096))).headers['x-error-code']).not.toBe('body_too_large');
  const refused = await api.post('/user/login', padded(4_097));
  expect(refused).toMatchObject({ status: 413, headers: { 'x-error-code': 'body_too_large' } });
  expect(refused.text).toContain('at most 4096 bytes (4 KiB) are read');
  for (const name of jsonRouteNames) {
    const route = jsonRouteOf(name);
    const limit = bodyLimitOf(route);
    if (route.method !== 'POST' || limit === 1_048_576 || route.who === 'admin' || route.who === 'operator') continue;
    const { status, text } = await api.post(route.path, ' '.repeat(2 * limit + 1), { token });
    expect(`${name} ${status} ${text}`).toContain(`413`);
    expect(text).toContain(`at most ${limit} bytes (${limit / 1024} KiB)`);
  }
  const launch = launchRequest({ name: 'x'.repeat(1_000_000) });
  expect((await api.post('/instance/create', launch, { token })).headers['x-error-code']).toBe('field_value');
});

test('takes the longest valid body of a schema, with each character escaped and between spaces', async () => {
  const username = '\u00fc'.repeat(320);
  const password = '\u6f22'.repeat(1_024);
  const login = vi.fn<Access['login']>(async () => ({ accessToken: token, accessExpire: 1 }));
  const api = await startEdge(fakeControl({ access: { login } }));
  onTestFinished(() => api.stop());
  const escaped = (text: string) =>
    [...text].map((one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`).join('');
  const body = `{ "username": "${escaped(username)}",\n  "password": "${escaped(password)}" }`;
  expect((await api.post('/user/login', body)).status).toBe(200);
  expect(login.mock.calls[0]).toEqual([{ username, password }, expect.anything(), undefined]);
  expect((await api.post('/user/login', JSON.stringify({ username, password }))).status).toBe(200);
});

/** Opens requests whose bodies lack their last byte, and counts those that were answered. */
async function openBodies(port: number, { count, bytes, head }: { count: number; bytes: number; head: string }) {
  const answers: string[] = [];
  const sockets = Array.from({ length: count }, () => connect(port, '127.0.0.1'));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
  });
  for (const socket of sockets) {
    socket.on('error', () => {});
    socket.on('data', (piece: Buffer) => answers.push(piece.toString('latin1').slice(0, 12)));
    socket.write(`${head}\r\nHost: x\r\nContent-Length: ${bytes}\r\n\r\n`);
    await new Promise<void>((resolve) => socket.write(Buffer.alloc(bytes - 1, ' '), () => resolve()));
  }
  return answers;
}

test('limits the bodies without a login that are read together, and takes the one that comes at once', async () => {
  const api = await start();
  const head = 'POST /api/payment/stripe HTTP/1.1';
  const answers = await openBodies(api.port, { count: 140, bytes: 262_144, head });
  await expect.poll(() => answers, { timeout: 30_000 }).toEqual(Array.from({ length: 12 }, () => 'HTTP/1.1 503'));
  const mine = await api.post('/user/info', '{}', { token });
  expect(mine.status).toBe(200);
  const login = await api.post('/user/login', '{"username":"a","password":"b"}');
  expect(login.headers['x-error-code']).not.toBe('unavailable');
});

test('limits the bodies of an account that are read together', async () => {
  const api = await start();
  const head = `POST /api/instance/list HTTP/1.1\r\nAuthorization: Bearer ${token}`;
  const answers = await openBodies(api.port, { count: 20, bytes: 1_048_576, head });
  await expect.poll(() => answers, { timeout: 30_000 }).toEqual(Array.from({ length: 4 }, () => 'HTTP/1.1 503'));
  const small = '{"pager":{"currentPage":1,"pageSize":10}}';
  expect(await api.post('/instance/list', small, { token })).toMatchObject({ status: 200 });
});
