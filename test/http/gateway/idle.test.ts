/** Idle timeouts: limits apply to the side that must act, and only where configured. */
import { request, type IncomingMessage } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { generate } from 'selfsigned';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { GatewayLimits } from '../../../src/edge/gateway/gateway-limits.ts';
import { IdleTimeouts, IdleWatched } from '../../../src/edge/gateway/idle-timeouts.ts';
import { ask, idOf, onCleanup, serve, serveTcp, start, until, type Harness } from './harness.ts';

const A = idOf('a');

async function before(port: number, limits: Partial<GatewayLimits> = {}): Promise<Harness> {
  const harness = await start({ limits });
  harness.add(A, { publicPorts: [80], ports: { 80: port } });
  return harness;
}

/** Sends a text and collects the reply. */
function talk(harness: Harness, text: string): { socket: Socket; got: () => string; closed: () => boolean } {
  const socket = connect({ port: harness.port, host: '127.0.0.1' });
  onCleanup(async () => void socket.destroy());
  let got = '';
  let closed = false;
  socket.setEncoding('latin1').on('data', (piece: string) => (got += piece));
  socket.on('error', () => {}).once('close', () => (closed = true));
  socket.write(text, 'latin1');
  return { socket, got: () => got, closed: () => closed };
}

const upload = (length: number): string =>
  `POST /forward/${A}/80/ HTTP/1.1\r\nHost: h\r\nContent-Length: ${length}\r\n\r\n`;

const opened = (harness: Harness): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    request({ port: harness.port, host: '127.0.0.1', path: `/forward/${A}/80/`, agent: false }, resolve)
      .on('error', reject)
      .end();
  });

test('ends idle transfers at their own limit, and never without a limit', () => {
  let nowMs = 0;
  const watch = new IdleTimeouts([100, 0], () => nowMs);
  onTestFinished(() => watch.stop());
  const ended: string[] = [];
  const moved = { a: 0, b: 0, c: 0 };
  const limits = { a: 100, b: 100, c: 0 };
  for (const name of ['a', 'b', 'c'] as const)
    watch.watch(
      new (class extends IdleWatched {
        override moves = () => moved[name];
        override limitMs = () => limits[name];
        override expire = () => void ended.push(name);
      })(),
    );
  for (nowMs = 0; nowMs <= 95; nowMs += 5) {
    if (nowMs % 50 === 0) moved.a += 1;
    watch.look();
  }
  expect(ended).toEqual([]);
  nowMs = 105;
  watch.look();
  expect(ended).toEqual(['b']);
  limits.c = 100;
  nowMs = 151;
  watch.look();
  watch.look();
  expect(ended).toEqual(['b', 'a', 'c']);
});

describe('a client', () => {
  test('gets an error when it stalls in its body, and its upstream request is aborted', async () => {
    let gone = false;
    const inside = await serve(
      (req) =>
        void req
          .on('data', () => {})
          .on('error', () => {})
          .once('close', () => (gone = true)),
    );
    const harness = await before(inside.port, { clientIdleMs: 100 });
    const client = talk(harness, `${upload(1_000)}half`);
    await until('the response has arrived', () => client.got().includes('\r\n\r\n'));
    expect(client.got()).toMatch(/^HTTP\/1\.1 408 /);
    expect(client.got()).toContain('the client sent nothing of its request for 0.1 s');
    await until('the upstream request is aborted', () => gone && harness.dialled.size === 0);
    await until('its permit is released', () => harness.began.every(({ done }) => done));
  });

  test('is served when it sends slowly', async () => {
    const inside = await serve((req, res) => void req.resume().once('end', () => res.end('all of it')));
    const harness = await before(inside.port, { clientIdleMs: 400, instanceIdleMs: 400 });
    const client = talk(harness, upload(12));
    for (let count = 0; count < 12; count += 1) {
      await new Promise((resolve) => setTimeout(resolve, 60));
      client.socket.write('x');
    }
    await until('the response has arrived', () => client.got().includes('all of it'));
    expect(client.got()).toMatch(/^HTTP\/1\.1 200 /);
  });

  test('is not timed out while it waits for a slow instance', async () => {
    const inside = await serveTcp((socket) => void socket.pause());
    const harness = await before(inside.port, { clientIdleMs: 100, stopGraceMs: 100 });
    const client = talk(harness, upload(50_000_000));
    client.socket.write('x'.repeat(40_000_000));
    let left = Infinity;
    await until('the upload has stopped flowing', () => {
      const still =
        client.socket.writableLength > 0 && client.socket.bytesWritten - client.socket.writableLength === left;
      left = client.socket.bytesWritten - client.socket.writableLength;
      return still;
    });
    await new Promise((resolve) => setTimeout(resolve, 600));
    expect({ got: client.got(), closed: client.closed() }).toEqual({ got: '', closed: false });
  });

  test('is disconnected when it does not read its response', async () => {
    let gone = false;
    const inside = await serve((_req, res) => {
      res.once('close', () => (gone = true));
      const more = (): void => {
        while (!res.destroyed && res.write('x'.repeat(100_000)));
        res.once('drain', more);
      };
      more();
    });
    const harness = await before(inside.port, { clientIdleMs: 200 });
    const response = await opened(harness);
    response.on('error', () => {}).pause();
    await until('the upstream request is aborted', () => gone);
    let closed = false;
    response.once('close', () => (closed = true)).resume();
    await until('the client is disconnected', () => closed);
    expect(response.complete).toBe(false);
  });
});

test('ends only the idle stream of an HTTP/2 connection', async () => {
  let received = 0;
  const inside = await serve((req, res) => {
    req.on('data', (piece: Buffer) => (received += piece.length)).once('end', () => res.end('whole'));
  });
  const { cert, private: key } = await generate([{ name: 'commonName', value: 'test' }], { keyType: 'ec' });
  let nowMs = 0;
  const harness = await start({
    tls: { first: { cert, key }, follow: () => {} },
    limits: { clientIdleMs: 200 },
    elapsed: () => nowMs,
  });
  harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
  const session = connectHttp2(`https://127.0.0.1:${harness.port}`, { rejectUnauthorized: false });
  onCleanup(async () => session.destroy());
  const head = { ':method': 'POST', ':path': `/forward/${A}/80/` };
  const still = session.request(head);
  still.on('error', () => {}).write('half');
  const status = new Promise((resolve) => still.once('response', (answer) => resolve(answer[':status'])));
  const moving = session.request(head);
  let text = '';
  moving.setEncoding('utf8').on('data', (piece: string) => (text += piece));
  let open = true;
  void status.then(() => (open = false));
  while (open) {
    const before = received;
    moving.write('x');
    await until('the written byte has arrived', () => received > before);
    nowMs += 50;
  }
  expect(await status).toBe(408);
  moving.end();
  await until('the other stream is answered', () => text === 'whole');
});

describe('an instance', () => {
  test('may take any time by default', async () => {
    const finish: (() => void)[] = [];
    const inside = await serve((_req, res) => void finish.push(() => res.end('thought')));
    // Longer than a connection attempt.
    const harness = await before(inside.port, { clientIdleMs: 50, dialMs: 1_000 });
    const asked = ask(harness, `/forward/${A}/80/`);
    await until('the instance has the request', () => finish.length === 1);
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    finish[0]?.();
    expect(await asked).toMatchObject({ status: 200, body: 'thought' });
  });

  test('causes a 504 when it misses its deadline; a stall truncates the response', async () => {
    const inside = await serve((req, res) => {
      if (req.url === '/half') res.write('half');
    });
    const harness = await before(inside.port, { instanceIdleMs: 100 });
    const silent = await ask(harness, `/forward/${A}/80/`);
    expect(silent.status).toBe(504);
    expect(JSON.parse(silent.body)).toEqual({
      message: expect.stringMatching(/has sent nothing for 0\.1 s.*check the program and its log/),
    });
    await expect(ask(harness, `/forward/${A}/80/half`)).rejects.toThrow(/aborted|ECONNRESET/);
    await until('all upstream connections are closed', () => harness.dialled.size === 0);
  });
});

describe('a WebSocket', () => {
  const accept = 'HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';
  const shake = `GET /forward/${A}/80/ HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n`;

  test('is closed when idle both ways, if configured', async () => {
    const inside = await serveTcp((socket) => void socket.once('data', () => void socket.write(accept)));
    const harness = await before(inside.port, { tunnelIdleMs: 1_000 });
    const [silent, speaks] = [talk(harness, shake), talk(harness, shake)];
    const talking = await serveTcp((socket) => {
      socket.once('data', () => void socket.write(accept));
      const timer = setInterval(() => socket.write('y'), 40);
      socket.once('close', () => clearInterval(timer));
    });
    harness.add(idOf('b'), { publicPorts: [80], ports: { 80: talking.port } });
    const heard = talk(harness, shake.replace(A, idOf('b')));
    await until('all WebSockets are open', () => [silent, heard, speaks].every(({ got }) => got().includes('101')));
    const speaking = setInterval(() => speaks.socket.write('x'), 40);
    onTestFinished(() => clearInterval(speaking));
    await until('the silent WebSocket is closed', () => silent.closed());
    expect(heard.closed() || speaks.closed()).toBe(false);
  });

  test('releases its permit after a refusal even if the client does not read or close', async () => {
    const large = Buffer.alloc(30_000_000, 'x');
    const inside = await serve((_req, res) => res.end());
    inside.server.on('upgrade', (req, socket: Socket) => {
      socket.on('error', () => {});
      const body = req.url === '/large' ? large : Buffer.from('no');
      socket.end(Buffer.concat([Buffer.from(`HTTP/1.1 403 No\r\nContent-Length: ${body.length}\r\n\r\n`), body]));
    });
    const harness = await before(inside.port, { clientIdleMs: 200 });
    const clients = ['large', 'small'].map((name) => {
      const client = connect({ port: harness.port, host: '127.0.0.1', allowHalfOpen: true }).on('error', () => {});
      onCleanup(async () => void client.destroy());
      if (name === 'large') client.pause();
      else client.resume();
      client.write(shake.replace('/80/', `/80/${name}`), 'latin1');
      return client;
    });
    await until('both requests have begun', () => harness.began.length === clients.length);
    await until('their permits are released', () => harness.began.every(({ done }) => done));
    await expect.poll(() => harness.dialled.size).toBe(0);
  });

  test('has no timeout by default', async () => {
    const inside = await serveTcp((socket) => void socket.once('data', () => void socket.write(accept)));
    const harness = await before(inside.port, { clientIdleMs: 50, instanceIdleMs: 50 });
    const silent = talk(harness, shake);
    await until('the WebSocket is open', () => silent.got().includes('101'));
    await new Promise((resolve) => setTimeout(resolve, 400));
    expect(silent.closed()).toBe(false);
  });
});

test('limits concurrent requests per instance, over all ports', async () => {
  const waiting: (() => void)[] = [];
  const inside = await serve((_req, res) => void waiting.push(() => res.end('ok')));
  const harness = await start({ limits: { perPort: 2, perInstance: 3 } });
  const ports = { 80: inside.port, 81: inside.port };
  harness.add(A, { publicPorts: [80, 81], ports });
  harness.add(idOf('b'), { publicPorts: [80], ports });
  const first = [80, 80, 81].map((port) => ask(harness, `/forward/${A}/${port}/`));
  await until('the instance has three requests', () => waiting.length === 3);
  expect(await ask(harness, `/forward/${A}/81/`)).toMatchObject({ status: 503, headers: { 'retry-after': '1' } });
  const other = ask(harness, `/forward/${idOf('b')}/80/`);
  await until('the other instance has its request', () => waiting.length === 4);
  for (const end of waiting.splice(0)) end();
  expect((await Promise.all([...first, other])).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  const again = ask(harness, `/forward/${A}/81/`);
  await until('the next request is admitted', () => waiting.length === 1);
  waiting[0]?.();
  expect(await again).toMatchObject({ status: 200 });
});
