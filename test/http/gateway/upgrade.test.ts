import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { duplexPair } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import {
  ALICE,
  idOf,
  jwtOf,
  keyOf,
  onCleanup,
  sendRaw,
  serve,
  serveTcp,
  stableValue,
  start,
  until,
} from './harness.ts';
import type { Harness } from './harness.ts';

const A = idOf('a');

interface Echo {
  port: number;
  sockets: WebSocketServer;
  heads: IncomingMessage[];
}

async function echoServer(): Promise<Echo> {
  const heads: IncomingMessage[] = [];
  const { port, server } = await serve((_req, res) => res.end('no upgrade'));
  const sockets = new WebSocketServer({ server, handleProtocols: (protocols) => [...protocols][0] ?? false });
  sockets.on('connection', (socket, req) => {
    heads.push(req);
    socket.on('error', () => {});
    socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }));
  });
  onCleanup(async () => {
    for (const client of sockets.clients) client.terminate();
  });
  return { port, sockets, heads };
}

const openSocket = (
  harness: Harness,
  path: string,
  headers: Record<string, string> = {},
  protocols: string[] = [],
): WebSocket => new WebSocket(`ws://127.0.0.1:${harness.port}${path}`, protocols, { headers });

const opened = async (socket: WebSocket): Promise<void> =>
  new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));

async function refusedWith(harness: Harness, path: string, headers: Record<string, string> = {}): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = openSocket(harness, path, headers);
    socket.once('open', () => reject(new Error('it opened')));
    socket.once('unexpected-response', (_req, res) => {
      res.resume();
      resolve(res.statusCode ?? 0);
    });
    socket.once('error', reject);
  });
}

const HANDSHAKE =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n';

describe('WebSockets are forwarded', () => {
  test('echoes messages of all sizes in order, and forwards the close', async () => {
    const echo = await echoServer();
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: echo.port } });
    const socket = openSocket(harness, `/forward/${A}/80/ws?x=1`, {}, ['chat', 'other']);
    await opened(socket);
    expect(socket.protocol).toBe('chat');
    const got: string[] = [];
    socket.on('message', (data: Buffer) => got.push(createHash('sha1').update(data).digest('hex')));
    const sent: string[] = [];
    for (const size of [0, 1, 125, 126, 65_536, 1 << 20, 5 << 20]) {
      const data = Buffer.alloc(size, size % 251);
      sent.push(createHash('sha1').update(data).digest('hex'));
      socket.send(data);
    }
    await until('all messages are echoed', () => got.length === sent.length);
    expect(got).toEqual(sent);
    const closed = new Promise<number>((resolve) => socket.once('close', resolve));
    socket.close(4001, 'done');
    expect(await closed).toBe(4001);
    await until('all upstream connections are closed', () => harness.dialled.size === 0);
  });

  test('cleans request and response heads', async () => {
    let upstreamRequest = '';
    const inside = await serveTcp((socket) =>
      socket.once('data', (head) => {
        upstreamRequest = head.toString('latin1');
        socket.write(
          'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSet-Cookie: AccessToken=evil\r\n' +
            'Set-Cookie: mine=1; Path=/\r\nClear-Site-Data: "*"\r\nSec-WebSocket-Accept: x\r\n\r\nfirst bytes',
        );
        socket.on('data', (chunk: Buffer) => socket.end(`got ${chunk.toString()}`));
      }),
    );
    const harness = await start();
    harness.add(A, { ports: { 8888: inside.port } });
    harness.sessions.set('s', ALICE);
    const response = await sendRaw(
      harness,
      `GET /notebook/${A}/api/kernels/1/channels HTTP/1.1\r\nHost: h\r\n${HANDSHAKE}Origin: http://h\r\nX-Forwarded-For: 6.6.6.6\r\n` +
        `Cookie: a=1; berth_gateway=s; AccessToken=${jwtOf(ALICE)}\r\nX-API-Key: ${keyOf(ALICE)}\r\n\r\nearly bytes`,
    );
    expect(upstreamRequest).toContain(`GET /notebook/${A}/api/kernels/1/channels HTTP/1.1\r\n`);
    expect(upstreamRequest).toMatch(/\r\nAuthorization: token token-of-/);
    expect(upstreamRequest).toMatch(/\r\nX-Forwarded-For: 127\.0\.0\.1\r\n/);
    expect(upstreamRequest).toMatch(/\r\ncookie: a=1\r\n/i);
    expect(upstreamRequest.match(/\r\n(connection|upgrade):/gi)).toHaveLength(2);
    expect(upstreamRequest).not.toMatch(/6\.6\.6\.6|berth_|AccessToken/);
    expect(response).toMatch(/^HTTP\/1\.1 101 Switching Protocols\r\n/);
    expect(response).toContain(`mine=1; Path=/notebook/${A}/`);
    expect(response).not.toMatch(/evil|Clear-Site/);
    expect(response).toMatch(/\r\n\r\nfirst bytesgot early bytes$/);
  });

  test('forwards a half-close after all data', async () => {
    const inside = await serveTcp((socket) => {
      let got = '';
      socket.once('data', () => socket.write('HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'));
      socket.on('data', (chunk: Buffer) => (got += chunk.toString()));
      socket.on('end', () => socket.end(`all: ${got.split('\r\n\r\n')[1]}`));
    });
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const client = connect({ port: harness.port, host: '127.0.0.1', allowHalfOpen: true });
    let answer = '';
    client.on('data', (chunk: Buffer) => (answer += chunk.toString()));
    client.write(`GET /forward/${A}/80/ HTTP/1.1\r\nHost: h\r\n${HANDSHAKE}\r\n`);
    await until('the tunnel is open', () => answer.includes('101'));
    client.end('half');
    await new Promise((resolve) => client.once('close', resolve));
    expect(answer).toMatch(/all: half$/);
  });

  test('closes a half-open tunnel after a timeout', async () => {
    const inside = await serveTcp((socket) => {
      socket.once('data', () => socket.write('HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'));
    });
    const harness = await start({ limits: { halfOpenMs: 50 } });
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const client = connect({ port: harness.port, host: '127.0.0.1', allowHalfOpen: true });
    client.write(`GET /forward/${A}/80/ HTTP/1.1\r\nHost: h\r\n${HANDSHAKE}\r\n`);
    await new Promise((resolve) => client.once('data', resolve));
    client.end();
    client.resume();
    await new Promise((resolve) => client.once('close', resolve));
    await until('all upstream connections are closed', () => harness.dialled.size === 0);
    expect(inside.sockets.size).toBeLessThanOrEqual(1);
  });

  test('works with any duplex stream of an engine', async () => {
    const server = createServer();
    const sockets = new WebSocketServer({ server });
    sockets.on('connection', (socket) => socket.on('message', (data) => socket.send(data)));
    const harness = await start();
    harness.add(A, { publicPorts: [80] }).streams.set(80, () => {
      const [ours, theirs] = duplexPair();
      server.emit('connection', theirs);
      return ours;
    });
    const socket = openSocket(harness, `/forward/${A}/80/`);
    await opened(socket);
    const data = Buffer.alloc(300_000, 'x');
    const back = new Promise<Buffer>((resolve) => socket.once('message', (got: Buffer) => resolve(got)));
    socket.send(data);
    expect((await back).equals(data)).toBe(true);
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.close();
    await closed;
  });

  test('applies back-pressure', async () => {
    let written = 0;
    const inside = await serveTcp((socket) => {
      socket.once('data', () => {
        socket.write('HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
        const piece = Buffer.alloc(65_536);
        const fill = (): void => {
          while (written < 64 << 20) {
            written += piece.length;
            if (!socket.write(piece)) return void socket.once('drain', fill);
          }
        };
        fill();
      });
    });
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const client = connect(harness.port, '127.0.0.1');
    client.pause();
    client.write(`GET /forward/${A}/80/ HTTP/1.1\r\nHost: h\r\n${HANDSHAKE}\r\n`);
    await stableValue(() => written);
    expect(written).toBeLessThan(32 << 20);
    client.resume();
    await until('everything is written', () => written === 64 << 20);
    client.destroy();
  });
});

describe('tunnels require access', () => {
  test.each([
    ['nobody', {}, 401],
    ['a page of another site', { cookie: 'berth_gateway=s', origin: 'https://evil.test' }, 403],
    ['a page of another port of the host', { cookie: 'berth_gateway=s', origin: 'http://127.0.0.1:1' }, 403],
    ['a sandboxed page', { cookie: 'berth_gateway=s', origin: 'null' }, 401],
    ['a cookie that says nothing of where from', { cookie: 'berth_gateway=s' }, 403],
    ['the cookie of the API', { cookie: `AccessToken=${jwtOf(ALICE)}` }, 401],
  ])('%s is refused', async (_who, headers, status) => {
    const echo = await echoServer();
    const harness = await start();
    harness.add(A, { ports: { 8888: echo.port, 81: echo.port } });
    harness.sessions.set('s', ALICE);
    expect(await refusedWith(harness, `/notebook/${A}/ws`, { ...headers })).toBe(status);
    expect(await refusedWith(harness, `/forward/${A}/81/`, { ...headers })).toBe(status);
    expect(harness.dials).toBe(0);
  });

  test('admits the owner by same-origin page, token or key; everybody at a public port', async () => {
    const echo = await echoServer();
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 8888: echo.port, 80: echo.port } });
    harness.sessions.set('s', ALICE);
    const visits: [string, Record<string, string>][] = [
      [`/notebook/${A}/ws`, { cookie: 'berth_gateway=s', origin: harness.origin }],
      [`/notebook/${A}/ws`, { authorization: `Bearer ${jwtOf(ALICE)}` }],
      [`/notebook/${A}/ws`, { 'x-api-key': keyOf(ALICE), origin: 'https://tool.test' }],
      [`/forward/${A}/80/`, {}],
      [`/forward/${A}/80/`, { origin: 'null' }],
      [`/forward/${A}/80/`, { origin: 'https://elsewhere.test', cookie: 'berth_gateway=s' }],
    ];
    for (const [path, headers] of visits) {
      const socket = openSocket(harness, path, headers);
      await opened(socket);
      socket.terminate();
    }
    expect(echo.heads).toHaveLength(visits.length);
  });

  test('forwards any response but 101, and closes the connection', async () => {
    let requests = 0;
    const inside = await serve((_req, res) => {
      requests += 1;
      res.writeHead(426, { 'set-cookie': 'AccessToken=evil', 'x-why': 'version' }).end('no');
    });
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const smuggled = `GET /secret HTTP/1.1\r\nHost: h\r\n\r\n`;
    const answer = await sendRaw(harness, `GET /forward/${A}/80/ HTTP/1.1\r\nHost: h\r\n${HANDSHAKE}\r\n${smuggled}`);
    expect(answer).toMatch(/^HTTP\/1\.1 426 [^]*x-why: version[^]*\r\n\r\nno$/i);
    expect(answer).not.toContain('evil');
    expect(requests).toBe(1);
  });

  test('ignores other upgrade protocols', async () => {
    const seen: unknown[] = [];
    const inside = await serve((req, res) => {
      seen.push(req.headers.upgrade, req.headers['http2-settings']);
      res.end('plain');
    });
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    for (const upgrade of ['h2c', 'websocket, h2c', 'TLS/1.0']) {
      const head = `GET /forward/${A}/80/ HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: ${upgrade}\r\n`;
      expect(await sendRaw(harness, `${head}HTTP2-Settings: AAMAAABk\r\n\r\n`)).toMatch(/^HTTP\/1\.1 200 OK[^]*plain/);
    }
    expect(seen.filter((value) => value !== undefined)).toEqual([]);
  });

  test('refuses an upgrade with a body', async () => {
    const harness = await start();
    harness.add(A, { publicPorts: [80] });
    const head = `GET /forward/${A}/80/ HTTP/1.1\r\nHost: h\r\n${HANDSHAKE}`;
    expect(await sendRaw(harness, `${head}Content-Length: 5\r\n\r\nhello`)).toMatch(/^HTTP\/1\.1 400 /);
  });
});

describe('failed upgrades get an error', () => {
  test('no listener, no running instance, or a failed handshake', async () => {
    const dying = await serveTcp((socket) => socket.once('data', () => socket.resetAndDestroy()));
    const harness = await start();
    harness.add(A, { publicPorts: [80, 81], ports: { 81: dying.port } });
    harness.add(idOf('b'), { publicPorts: [80], route: { running: false, status: 'Stopped' } });
    expect(await refusedWith(harness, `/forward/${A}/80/`)).toBe(503);
    expect(await refusedWith(harness, `/forward/${A}/81/`)).toBe(502);
    expect(await refusedWith(harness, `/forward/${idOf('b')}/80/`)).toBe(503);
    expect(await refusedWith(harness, `/forward/${A}`)).toBe(404);
  });

  test('times out an unanswered handshake', async () => {
    const silent = await serveTcp(() => {});
    const harness = await start({ limits: { handshakeMs: 50 } });
    harness.add(A, { publicPorts: [80], ports: { 80: silent.port } });
    expect(await refusedWith(harness, `/forward/${A}/80/`)).toBe(502);
    await until('all upstream connections are closed', () => harness.dialled.size === 0);
  });
});

test('stop closes tunnels', async () => {
  const echo = await echoServer();
  const harness = await start();
  harness.add(A, { publicPorts: [80], ports: { 80: echo.port } });
  const socket = openSocket(harness, `/forward/${A}/80/`);
  await opened(socket);
  const closed = new Promise((resolve) => socket.once('close', resolve));
  await harness.gateway.stop();
  await closed;
  await until('all upstream connections are closed', () => harness.dialled.size === 0);
  expect(socket.readyState).toBe(WebSocket.CLOSED);
});
