/** Malformed HTTP gets a clean refusal or a close, and the server serves on. */
import { gzipSync } from 'node:zlib';
import { connect } from 'node:net';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { makeApi } from '../../../src/edge/http/api.ts';
import { fakeControl, GOOD_TOKEN } from './fake-control.ts';
import type { BareApi } from './harness.ts';
import { sendRaw, startEdge } from './harness.ts';

const ROUTE = '/resource/user/instance/list';
let api: BareApi;
beforeAll(async () => {
  api = await startEdge(fakeControl({ catalog: { families: async () => [] } }));
});
afterAll(() => api.stop());
afterEach(async () => {
  const { status } = await api.post(ROUTE, {}, { token: GOOD_TOKEN });
  const faults = api.logged.filter(({ level }) => level === 'error');
  if (status !== 200 || faults.length > 0)
    throw new Error(`the server is not well after this test: ${status}`, { cause: faults });
});

const exchangeRaw = (...parts: (string | Buffer)[]): Promise<string> => sendRaw(api.port, ...parts);
const head = (...more: string[]): string =>
  [
    `POST /api${ROUTE} HTTP/1.1`,
    'Host: x',
    `Authorization: Bearer ${GOOD_TOKEN}`,
    'Connection: close',
    ...more,
    '',
    '',
  ].join('\r\n');
const bodyOf = (reply: string): unknown => JSON.parse(reply.slice(reply.indexOf('\r\n\r\n') + 4));
/** Statuses and bodies of several replies. */
const repliesOf = (text: string): string[] =>
  text
    .split(/HTTP\/1\.1 /)
    .slice(1)
    .map((reply) => `${reply.slice(0, 3)} ${reply.slice(reply.indexOf('\r\n\r\n') + 4)}`);

test('answers non-HTTP bytes with a JSON 400', async () => {
  for (const text of [
    'hello\r\n\r\n',
    'GET / HTTP/9.9\r\n\r\n',
    '\x16\x03\x01\x02\x00\x01\x00\r\n\r\n',
    'GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n',
  ]) {
    const reply = await exchangeRaw(text);
    expect(reply).toMatch(/^HTTP\/1\.1 400 /);
    expect(bodyOf(reply)).toEqual({ message: 'this is not a valid HTTP request' });
  }
});

test('refuses two lengths, and a length with chunks, against request smuggling', async () => {
  const smuggled = 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n';
  for (const lengths of [
    ['Content-Length: 2', 'Content-Length: 40'],
    ['Content-Length: 2', 'Transfer-Encoding: chunked'],
    ['Transfer-Encoding: chunked', 'Transfer-Encoding: identity'],
    ['Content-Length: -1'],
    ['Content-Length: 2,2'],
    ['Transfer-Encoding : chunked'],
  ]) {
    const reply = await exchangeRaw(head(...lengths), `{}${smuggled}`);
    expect(reply, lengths.join()).toMatch(/^HTTP\/1\.1 400 /);
    expect(reply.match(/HTTP\/1\.1 \d/g), lengths.join()).toHaveLength(1);
  }
});

test('answers a megabyte of headers and a 64 KB cookie with a JSON 431', async () => {
  for (const [name, size] of [
    ['X-Big', 1_000_000],
    ['Cookie', 65_536],
  ] as const) {
    const reply = await exchangeRaw(head(`${name}: ${'a'.repeat(size)}`));
    expect(reply).toMatch(/^HTTP\/1\.1 431 /);
    expect(bodyOf(reply)).toEqual({ message: 'the headers are too large: at most 32 KiB are read' });
  }
});

test('refuses an oversized body at once by its length, or by its chunks as they arrive', async () => {
  const announced = await exchangeRaw(head('Content-Length: 1048577'));
  expect(announced).toMatch(/^HTTP\/1\.1 413 /);
  expect(bodyOf(announced)).toEqual({ message: 'the body is too large: at most 1048576 bytes (1 MiB) are read' });
  const chunk = `10000\r\n${'a'.repeat(0x10000)}\r\n`;
  const endless = await exchangeRaw(head('Transfer-Encoding: chunked'), ...Array.from({ length: 17 }, () => chunk));
  expect(endless).toMatch(/^HTTP\/1\.1 413 /);
});

test('refuses a caller without a login before reading the body', async () => {
  const reply = await exchangeRaw(
    `POST /api${ROUTE} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1000000\r\n\r\n`,
  );
  expect(reply).toMatch(/^HTTP\/1\.1 401 /);
});

test('a client that disconnects midway leaves no connection behind, and no error in the log', async () => {
  for (let n = 0; n < 20; n += 1) {
    await new Promise<void>((resolve) => {
      const socket = connect(api.port, '127.0.0.1', () => {
        socket.write(`${head('Content-Length: 100')}{"a":`, () => socket.resetAndDestroy());
      });
      socket.on('error', () => {});
      socket.on('close', () => resolve());
    });
  }
  await expect.poll(() => api.connections()).toBe(0);
});

test('reads any content type as JSON, except forms, compressed bodies and invalid types', async () => {
  const ask = (headers: Record<string, string>, body: unknown = '{}') =>
    api.send(`/api${ROUTE}`, { method: 'POST', token: GOOD_TOKEN, body, headers });
  const taken = [
    'application/json',
    'APPLICATION/JSON; charset=utf-8',
    'text/plain',
    'application/x-ndjson',
    'x/y; z="w"',
  ];
  for (const type of taken) expect((await ask({ 'content-type': type })).status, type).toBe(200);
  expect((await ask({})).status).toBe(200);
  const refused: [Record<string, string>, string][] = [
    [{ 'content-type': 'multipart/form-data; boundary=x' }, 'the body is a form'],
    [{ 'content-type': 'application/x-www-form-urlencoded' }, 'the body is a form'],
    [{ 'content-type': 'Application/X-WWW-Form-Urlencoded; charset=utf-8' }, 'the body is a form'],
    [{ 'content-type': 'json' }, 'is not a media type'],
    [{ 'content-encoding': 'gzip' }, 'content-encoding'],
    [{ 'content-encoding': 'br' }, 'content-encoding'],
  ];
  for (const [headers, words] of refused) {
    const reply = await ask(headers);
    expect(reply.status, JSON.stringify(headers)).toBe(400);
    expect(reply.json).toEqual({ message: expect.stringContaining(words) });
  }
});

test('refuses bodies that are not UTF-8 JSON, under any charset', async () => {
  const bodies: Record<string, Buffer> = {
    'UTF-16 with a mark': Buffer.from('\ufeff{}', 'utf16le'),
    'UTF-16': Buffer.from('{"a":1}', 'utf16le'),
    'Latin 1': Buffer.from('{"a":"é"}', 'latin1'),
    'overlong slash': Buffer.from([0x22, 0xc0, 0xaf, 0x22]),
    'encoded surrogate': Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]),
    'a zipped megabyte': gzipSync(Buffer.alloc(1_000_000)),
    'NUL bytes': Buffer.alloc(100),
  };
  for (const [name, body] of Object.entries(bodies)) {
    const reply = await api.send(`/api${ROUTE}`, { method: 'POST', token: GOOD_TOKEN, body });
    expect(reply.status, name).toBe(400);
    expect(reply.headers['x-error-code'], name).toBe('body_not_json');
  }
});

test('cuts a slow sender at the deadlines for headers and body', async () => {
  const control = fakeControl();
  const { server } = makeApi({
    control,
    log: { warn: () => {}, error: () => {} },
    version: '0',
    gatewayOrigin: 'http://x',
    secureCookies: false,
  });
  expect(server.headersTimeout).toBe(8_000);
  const hasty = await startEdge(control, { bodyTimeoutMs: 100 });
  try {
    const cut = await Promise.all(
      [`/api${ROUTE}`, '/no/such/route'].map(
        (path) =>
          new Promise<string>((resolve) => {
            let got = '';
            const socket = connect(hasty.port, '127.0.0.1');
            socket.on('data', (piece) => (got += piece.toString()));
            socket.on('close', () => resolve(got));
            socket.write(
              `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${GOOD_TOKEN}\r\nContent-Length: 9\r\n\r\n{`,
            );
          }),
      ),
    );
    const [ofRoute, ofUnknownPath] = cut;
    expect(ofRoute).toMatch(/^HTTP\/1\.1 408 .*the request took too long to arrive/s);
    // The answer does not wait for the body, and the connection ends without another answer.
    expect(ofUnknownPath?.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 404']);
    await expect.poll(() => hasty.connections()).toBe(0);
  } finally {
    await hasty.stop();
  }
});

test('an upgrade pipelined behind an unanswered request ends its connection only', async () => {
  for (const path of ['/api/instance/terminal', '/api/instance/exec']) {
    const first = 'GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n';
    const upgrade = `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`;
    expect(await exchangeRaw(first + upgrade)).toBe('');
    expect(await exchangeRaw(first + first + upgrade)).toBe('');
  }
});

test('answers the requests in front of a malformed one, then refuses that one, then closes', async () => {
  const good = head('Content-Length: 2').replace('Connection: close\r\n', '') + '{}';
  const list = '200 {"instanceInfos":[]}';
  const refused = '400 {"message":"this is not a valid HTTP request"}';
  const malformed = {
    'no HTTP': 'hello\r\n\r\n',
    'a body': `${head('Transfer-Encoding: chunked')}no length\r\n`,
  };
  for (const [name, text] of Object.entries(malformed)) {
    expect(repliesOf(await exchangeRaw(good + text)), name).toEqual([list, refused]);
    expect(repliesOf(await exchangeRaw(good + good + text + good, good)), name).toEqual([list, list, refused]);
  }
  const tunnel = 'CONNECT /nothing HTTP/1.1\r\nHost: x\r\n\r\n';
  const replies = repliesOf(await exchangeRaw(good + good + tunnel));
  expect(replies).toEqual([list, list, expect.stringMatching(/^404 .*no route CONNECT/)]);
  expect(repliesOf(await exchangeRaw(head('Content-Length: 2') + '{}hello\r\n\r\n'))).toEqual([list]);
});
