import { createHash } from 'node:crypto';
import { request } from 'node:http';
import type { IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { duplexPair, type Duplex } from 'node:stream';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import { ask, idOf, onCleanup, sendRaw, serve, serveTcp, stableValue, start, until } from './harness.ts';
import type { Harness } from './harness.ts';

const A = idOf('a');

setFlagsFromString('--expose-gc');
const collect: unknown = runInNewContext('gc');

/** Used heap after garbage collection. */
function heapUsed(): number {
  if (typeof collect === 'function') collect();
  return process.memoryUsage().heapUsed;
}

describe('bodies of any size and speed are streamed', () => {
  test('delivers events immediately and in order', async () => {
    const next: (() => void)[] = [];
    const inside = await serve((_req, res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      res.flushHeaders();
      let count = 0;
      next.push(() => {
        count += 1;
        res.write(`data: ${count}\n\n`);
      });
    });
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      request({ port: harness.port, path: `/forward/${A}/80/`, agent: false }, resolve)
        .on('error', reject)
        .end();
    });
    // The head arrives before the first event.
    expect(response.headers['content-type']).toBe('text/event-stream');
    let got = '';
    response.setEncoding('utf8').on('data', (chunk: string) => (got += chunk));
    for (let count = 1; count <= 5; count += 1) {
      next[0]?.();
      await until(`event ${count} arrived`, () => got.endsWith(`data: ${count}\n\n`));
    }
    expect(got).toBe('data: 1\n\ndata: 2\n\ndata: 3\n\ndata: 4\n\ndata: 5\n\n');
    response.destroy();
  });

  test('transfers 200 MB both ways with little memory', async () => {
    const inside = await serve((req, res) => req.pipe(res));
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const piece = Buffer.alloc(1 << 20, 'berth ');
    const [sent, got] = [createHash('sha256'), createHash('sha256')];
    let sentBytes = 0;
    let gotBytes = 0;
    let peakBytes = 0;
    const asked = request({ port: harness.port, path: `/forward/${A}/80/`, method: 'POST', agent: false });
    const answered = new Promise<IncomingMessage>((resolve, reject) =>
      asked.once('response', resolve).once('error', reject),
    );
    const feeding = (async () => {
      for (let count = 0; count < 200; count += 1) {
        piece.writeUInt32LE(count);
        const part = Buffer.from(piece);
        sent.update(part);
        sentBytes += part.length;
        if (!asked.write(part)) await new Promise((resolve) => asked.once('drain', resolve));
      }
      asked.end();
    })();
    for await (const chunk of await answered) {
      got.update(chunk);
      gotBytes += chunk.length;
      peakBytes = Math.max(peakBytes, sentBytes - gotBytes);
    }
    await feeding;
    expect(gotBytes).toBe(200 << 20);
    expect(got.digest('hex')).toBe(sent.digest('hex'));
    expect(peakBytes).toBeLessThan(48 << 20); // mostly kernel buffers of eight sockets
  });

  test('buffers one-byte chunks as bytes, with back-pressure and without loss', async () => {
    const waiting: Duplex[] = [];
    const harness = await start();
    // Without kernel sockets in between, only the gateway buffers data.
    harness.add(A, { publicPorts: [80] }).streams.set(80, () => {
      const [ours, theirs] = duplexPair();
      waiting.push(theirs);
      return ours;
    });
    const CHUNKS = 100_000;
    const body = Buffer.from('1\r\nx\r\n'.repeat(CHUNKS));
    const head = `POST /forward/${A}/80/ HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n`;
    const heapBefore = heapUsed();
    const clients = Array.from({ length: 8 }, () => {
      const client = connect(harness.port, '127.0.0.1');
      const one = { client, answer: '' };
      client.setEncoding('latin1').on('data', (text: string) => (one.answer += text));
      client.write(head);
      client.write(body);
      client.write('0\r\n\r\n');
      return one;
    });
    await until('the instance has all requests', () => waiting.length === clients.length);
    const reported = (): number =>
      clients.reduce((sum, { client }) => sum + client.bytesWritten - client.writableLength, 0);
    await stableValue(reported);
    // Storing each piece separately would take 25 MB per client.
    expect((heapUsed() - heapBefore) / clients.length).toBeLessThan(2 ** 20);
    for (const instance of waiting) {
      let text = '';
      instance.setEncoding('latin1').on('data', (more: string) => {
        text += more;
        if (!text.endsWith('\r\n0\r\n\r\n')) return;
        const said = `${text.slice(text.indexOf('\r\n\r\n')).match(/x/g)?.length} bytes`;
        instance.write(`HTTP/1.1 200 OK\r\nContent-Length: ${said.length}\r\n\r\n${said}`);
      });
    }
    await until('all requests are answered', () => clients.every(({ answer }) => answer.endsWith(`${CHUNKS} bytes`)));
    for (const { client } of clients) client.destroy();
  });

  test('a stalled reader costs one listener at any chunk size', async () => {
    const reported: string[] = [];
    const onWarning = ({ message }: Error): void => void reported.push(message);
    process.on('warning', onWarning);
    onCleanup(async () => void process.off('warning', onWarning));
    let written = 0;
    const inside = await serveTcp((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
      const piece = '1\r\nx\r\n'.repeat(1_000);
      const fill = (): void => {
        while (!socket.destroyed) {
          written += piece.length;
          if (!socket.write(piece)) return void socket.once('drain', fill);
        }
      };
      fill();
    });
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const client = connect(harness.port, '127.0.0.1');
    client.pause();
    client.write(`GET /forward/${A}/80/ HTTP/1.1\r\nHost: h\r\n\r\n`);
    await stableValue(() => written);
    client.destroy();
    expect(reported).toEqual([]);
  });

  test('applies a stalled reader’s back-pressure to the instance', async () => {
    let written = 0;
    const inside = await serve((_req, res) => {
      const piece = Buffer.alloc(65_536);
      const fill = (): void => {
        while (written < 64 << 20) {
          written += piece.length;
          if (!res.write(piece)) return void res.once('drain', fill);
        }
        res.end();
      };
      fill();
    });
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const client = connect(harness.port, '127.0.0.1');
    client.pause();
    client.write(`GET /forward/${A}/80/ HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n`);
    await stableValue(() => written);
    expect(written).toBeLessThan(32 << 20); // capacity of the kernel sockets
    client.resume();
    await until('all is written', () => written === 64 << 20);
    client.destroy();
  });

  test('delivers an early response, and stops the upload', async () => {
    const inside = await serve((_req, res) => res.writeHead(413, { connection: 'close' }).end('too large'));
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const asked = request({
      port: harness.port,
      path: `/forward/${A}/80/`,
      method: 'POST',
      agent: false,
      headers: { 'content-length': 1 << 30 },
    });
    asked.on('error', () => {});
    asked.write(Buffer.alloc(100_000));
    const response = await new Promise<IncomingMessage>((resolve) => asked.once('response', resolve));
    let got = '';
    for await (const chunk of response) got += String(chunk);
    expect([response.statusCode, got]).toEqual([413, 'too large']);
    asked.destroy();
  });
});

describe('disconnects are detected', () => {
  test('aborts the upstream request when the client leaves, before or during the response', async () => {
    const left: string[] = [];
    const inside = await serve((req, res) => {
      res.once('close', () => left.push(req.url ?? ''));
      if (req.url === '/within') res.write('beginning');
    });
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const before = request({ port: harness.port, path: `/forward/${A}/80/before`, agent: false }).on('error', () => {});
    before.end();
    await until('the upstream request has begun', () => harness.dialled.size === 1);
    const within = request({ port: harness.port, path: `/forward/${A}/80/within`, agent: false }).on('error', () => {});
    within.end();
    await new Promise((resolve) => within.once('response', resolve));
    before.destroy();
    within.destroy();
    await until('both upstream requests are aborted', () => left.length === 2);
    await until('no connection is left', () => harness.dialled.size === 0);
    expect(left.toSorted()).toEqual(['/before', '/within']);
  });

  test('aborts the upload when its client leaves', async () => {
    let aborted = false;
    let received = 0;
    const inside = await serve((req) => {
      req.on('data', (chunk: Buffer) => (received += chunk.length));
      req.on('error', () => {});
      req.once('close', () => (aborted = !req.complete));
    });
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const asked = request({ port: harness.port, path: `/forward/${A}/80/`, method: 'POST', agent: false }).on(
      'error',
      () => {},
    );
    asked.write('a part');
    await until('a part of the upload has arrived', () => received === 6);
    asked.destroy();
    await until('it was aborted', () => aborted);
    expect(received).toBe(6);
  });

  test.each([
    ['nothing', '', 502],
    ['half a head', 'HTTP/1.1 200 OK\r\nContent-Le', 502],
    ['no HTTP', 'SSH-2.0-OpenSSH_9.2\r\n', 502],
    ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab', 502],
  ])('an instance that dies after %s makes a 502', async (_what, bytes, status) => {
    const inside = await serveTcp((socket) => socket.once('data', () => socket.end(bytes)));
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const answered = await ask(harness, `/forward/${A}/80/`);
    expect(answered).toMatchObject({ status, headers: { 'x-error-code': 'unavailable' } });
    expect(JSON.parse(answered.body)).toEqual({ message: expect.stringContaining('closed the connection') });
  });

  test.each([
    ['a length', 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this'],
    ['chunks', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nonly \r\n5\r\nth'],
  ])('an instance that dies within a body with %s breaks the connection', async (_what, bytes) => {
    const inside = await serveTcp((socket) => socket.once('data', () => socket.end(bytes)));
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    await expect(ask(harness, `/forward/${A}/80/`)).rejects.toThrow(/aborted|ECONNRESET|hang up/);
    const raw = await sendRaw(harness, `GET /forward/${A}/80/ HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n`);
    expect(raw).not.toMatch(/\r\n0\r\n\r\n$/);
  });
});

test.each([
  ['when its access is revoked', async (harness: Harness) => void harness.instances.delete(A)],
  ['at a stop', async (harness: Harness) => harness.gateway.stop()],
])('a response cut %s reaches an HTTP/1.0 client as a reset, not as complete', async (_when, end) => {
  const inside = await serve((_req, res) => res.write('beginning'));
  const harness = await start({ limits: { revocationMs: 20, stopGraceMs: 20 } });
  harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
  const client = connect(harness.port, '127.0.0.1');
  let got = '';
  let code: string | undefined;
  client.on('data', (chunk: Buffer) => (got += chunk.toString()));
  client.on('error', (error: NodeJS.ErrnoException) => (code = error.code));
  client.write(`GET /forward/${A}/80/ HTTP/1.0\r\nHost: h\r\n\r\n`);
  await until('the response has begun', () => got.endsWith('beginning'));
  const ended = end(harness);
  await until('the client is disconnected', () => client.closed);
  expect(code).toBe('ECONNRESET');
  await ended;
});
