import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import WebSocket, { WebSocketServer } from 'ws';
import { ALICE, idOf, jwtOf, onCleanup, sendRaw, start, until, type Harness } from './harness.ts';

/** Over the deadline of a test: a stop that waits for the grace period fails. */
const STOP_GRACE_MS = 600_000;

const ID = idOf('1');
const credential = { authorization: `Bearer ${jwtOf(ALICE)}` };

/** An instance with a slow web server and a WebSocket echo, as notebook and on port 7000. */
async function answering(): Promise<{ harness: Harness; waiting: (() => void)[] }> {
  const waiting: (() => void)[] = [];
  const server = createServer((request, response) => {
    if (request.url?.endsWith('/slow')) waiting.push(() => response.end('late'));
    else response.end('at once');
  });
  const sockets = new WebSocketServer({ server });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onCleanup(async () => {
    for (const socket of sockets.clients) socket.terminate();
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  const real = typeof address === 'object' ? (address?.port ?? 0) : 0;
  const harness = await start({ limits: { stopGraceMs: STOP_GRACE_MS } });
  harness.add(ID, { ports: { 8888: real, 7000: real } });
  return { harness, waiting };
}

const reported = ({ began }: Harness): string[] =>
  began.map(({ id, kind, done }) => `${id === ID ? 'it' : id} ${kind}${done ? ' done' : ''}`);

test('reports a request until it ends', async () => {
  const { harness, waiting } = await answering();
  const reply = fetch(`${harness.origin}/forward/${ID}/7000/slow`, { headers: credential });
  await expect.poll(() => waiting.length).toBe(1);
  expect(reported(harness)).toEqual(['it use']);
  waiting[0]?.();
  expect(await (await reply).text()).toBe('late');
  await expect.poll(() => reported(harness)).toEqual(['it use done']);
});

test('reports a WebSocket until it closes', async () => {
  const { harness } = await answering();
  const socket = new WebSocket(`${harness.origin.replace('http', 'ws')}/forward/${ID}/7000/`, { headers: credential });
  await once(socket, 'open');
  expect(reported(harness)).toEqual(['it use']);
  socket.close();
  await expect.poll(() => reported(harness)).toEqual(['it use done']);
});

test("reports a notebook page's polling apart from use", async () => {
  const { harness } = await answering();
  const get = async (path: string, method = 'GET'): Promise<void> => {
    await (await fetch(`${harness.origin}/notebook/${ID}/${path}`, { headers: credential, method })).text();
  };
  await get('api/kernels?1');
  await get('lab');
  await get('api/contents/a.ipynb', 'PUT');
  const socket = new WebSocket(`${harness.origin.replace('http', 'ws')}/notebook/${ID}/api/kernels/k/channels`, {
    headers: credential,
  });
  await once(socket, 'open');
  socket.terminate();
  await expect.poll(() => reported(harness)).toEqual(['it poll done', 'it use done', 'it use done', 'it poll done']);
});

test('does not report unauthorized requests', async () => {
  const { harness } = await answering();
  const reply = await fetch(`${harness.origin}/forward/${ID}/7000/`, { redirect: 'manual' });
  expect(reply.ok).toBe(false);
  expect(reported(harness)).toEqual([]);
});

test.each([
  ['CONNECT', 'CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n'],
  ['an upgrade', `GET /forward/${ID}/7000/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`],
])('%s behind unanswered requests ends them all, and releases their permits', async (_name, last) => {
  const { harness } = await answering();
  const get = (path: string): string =>
    `GET /forward/${ID}/${path} HTTP/1.1\r\nHost: x\r\nAuthorization: ${credential.authorization}\r\n\r\n`;
  // The second is answered at once but waits behind the first; nothing listens for the third.
  expect(await sendRaw(harness, get('7000/slow') + get('7000/') + get('9/') + last)).toBe('');
  await until('all requests have ended', () => harness.began.length > 0 && harness.began.every(({ done }) => done));
  // The grace period is for running requests only.
  await harness.gateway.stop();
});

test('accepts a WebSocket on a connection whose requests are all answered', async () => {
  const { harness } = await answering();
  const { socket, read } = await rawConnection(harness);
  const head = (path: string, ...more: string[]): string =>
    [
      `GET /forward/${ID}/7000/${path} HTTP/1.1`,
      'Host: x',
      `Authorization: ${credential.authorization}`,
      ...more,
      '',
      '',
    ].join('\r\n');
  socket.write(head(''));
  await until('the first request is answered', () => read().includes('at once'));
  const key = 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==';
  socket.write(head('', 'Connection: Upgrade', 'Upgrade: websocket', key, 'Sec-WebSocket-Version: 13'));
  await until('the upgrade is answered', () => read().includes('Switching Protocols'));
  expect(read()).toMatch(/at once.*HTTP\/1\.1 101 /s);
});

async function rawConnection({ port }: Harness): Promise<{ socket: Socket; read: () => string }> {
  const socket = connect(port, '127.0.0.1');
  let got = '';
  socket.setEncoding('latin1').on('data', (text: string) => (got += text));
  await once(socket, 'connect');
  onCleanup(async () => void socket.destroy());
  return { socket, read: () => got };
}
