/** HTTP/2 bodies, ends, stops and limits: streams are independent. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { RequestListener } from 'node:http';
import { constants } from 'node:http2';
import type { ClientHttp2Stream } from 'node:http2';
import { connect as connectTls } from 'node:tls';
import { duplexPair } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { ALICE, onCleanup, serve, serveTcp, stableValue, until } from './harness.ts';
import type { Harness } from './harness.ts';
import * as raw from './http2-frames.ts';
import { A, P, ask, connected, gateway, gatewayTo, heard, ignore, send } from './http2-client.ts';

const { NGHTTP2_CANCEL, NGHTTP2_NO_ERROR, NGHTTP2_REFUSED_STREAM } = constants;

/** Without kernel sockets in between, only gateway and client buffer data. */
function serveInMemory(harness: Harness, listener: RequestListener): void {
  const server = createServer(listener);
  harness.add(A, { publicPorts: [80] }).streams.set(80, () => {
    const [ours, theirs] = duplexPair();
    server.emit('connection', theirs);
    return ours;
  });
}

describe('bodies are streamed independently', () => {
  test('transfers 64 MB both ways unchanged', async () => {
    const inside = await serve((req, res) => req.pipe(res));
    const harness = await gatewayTo(inside.port);
    const stream = send(await connected(harness), { ':method': 'POST', ':path': `${P}/` }, false);
    const [sent, got] = [createHash('sha256'), createHash('sha256')];
    let gotBytes = 0;
    stream.on('data', (chunk: Buffer) => {
      got.update(chunk);
      gotBytes += chunk.length;
    });
    const ended = once(stream, 'end');
    for (let count = 0; count < 64; count += 1) {
      const part = Buffer.alloc(1 << 20, `berth ${count} `);
      sent.update(part);
      if (!stream.write(part)) await once(stream, 'drain');
    }
    stream.end();
    await ended;
    expect(gotBytes).toBe(64 << 20);
    expect(got.digest('hex')).toBe(sent.digest('hex'));
  });

  test('delivers events immediately', async () => {
    let sendNext: () => void = () => {};
    const inside = await serve((_req, res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
      let count = 0;
      sendNext = (): void => void res.write(`data: ${(count += 1)}\n\n`);
    });
    const harness = await gatewayTo(inside.port);
    const stream = send(await connected(harness), { ':path': `${P}/` });
    await once(stream, 'response'); // before the first event
    let got = '';
    stream.setEncoding('utf8').on('data', (chunk: string) => (got += chunk));
    for (let count = 1; count <= 3; count += 1) {
      sendNext();
      await until(`event ${count} arrived`, () => got.endsWith(`data: ${count}\n\n`));
    }
    expect(got).toBe('data: 1\n\ndata: 2\n\ndata: 3\n\n');
    stream.close(NGHTTP2_CANCEL);
  });

  /** Writes at `/endless` until back-pressure, and counts. */
  function endless(harness: Harness): () => number {
    let written = 0;
    serveInMemory(harness, (req, res) => {
      if (req.url !== '/endless') return void res.end('short');
      const piece = Buffer.alloc(16_384);
      const fill = (): void => {
        while (!res.destroyed) {
          written += piece.length;
          if (!res.write(piece)) return void res.once('drain', fill);
        }
      };
      fill();
    });
    return () => written;
  }

  test('applies a stalled stream’s back-pressure to its instance only', async () => {
    const harness = await gateway();
    const written = endless(harness);
    const session = await connected(harness);
    const slow = send(session, { ':path': `${P}/endless` });
    slow.pause();
    const bytes = await stableValue(written);
    expect(bytes).toBeLessThan(512 << 10); // includes the client's window and buffer
    for (let count = 0; count < 5; count += 1) expect(await ask(session, `${P}/`)).toMatchObject({ body: 'short' });
    slow.on('data', () => {});
    slow.resume();
    await until('the transfer resumes', () => written() > bytes + (8 << 20));
    slow.close(NGHTTP2_CANCEL);
  });

  test('applies back-pressure of a stalled connection with large windows, and detects its end', async () => {
    const harness = await gateway();
    const written = endless(harness);
    const client = await raw.rawClient(harness);
    client.socket.write(raw.frame(raw.SETTINGS, 0, 0, Buffer.concat([Buffer.from([0, 4]), raw.uint32(0x7fffffff)])));
    client.socket.write(raw.frame(raw.WINDOW_UPDATE, 0, 0, raw.uint32(0x7fff0000)));
    await until('settings are exchanged', () =>
      client.frames.some(({ type, flags }) => type === raw.SETTINGS && flags === 1),
    );
    client.socket.pause();
    client.socket.write(raw.frame(raw.HEADERS, raw.END_HEADERS | raw.END_STREAM, 1, raw.get(`${P}/endless`)));
    // Mostly in the kernel buffers of the connection.
    expect(await stableValue(written)).toBeLessThan(16 << 20);
    client.socket.destroy();
    await until('the end of the connection is detected', () => harness.began.every(({ done }) => done));
  });

  test('buffers one window of a stalled upload, without blocking others', async () => {
    const harness = await gateway();
    serveInMemory(harness, (req, res) => {
      if (req.url !== '/stalls') req.pipe(res);
    });
    const session = await connected(harness);
    const upload = (): { stream: ClientHttp2Stream; sent: () => number } => {
      const stream = send(session, { ':method': 'POST', ':path': `${P}/stalls` }, false);
      let sent = 0;
      const feed = (): void => {
        while (!stream.destroyed) {
          sent += 16_384;
          if (!stream.write(Buffer.alloc(16_384))) return void stream.once('drain', feed);
        }
      };
      feed();
      return { stream, sent: () => sent };
    };
    // Together larger than the connection window.
    const stalled = Array.from({ length: 8 }, upload);
    for (const { sent } of stalled) expect(await stableValue(sent)).toBeLessThan(768 << 10);
    const other = send(session, { ':method': 'POST', ':path': `${P}/` }, false);
    other.end('y'.repeat(500_000));
    expect((await heard(other)).body).toHaveLength(500_000);
    for (const { stream } of stalled) stream.close(NGHTTP2_CANCEL);
  });

  test('delivers an early response, and stops the upload after a while', async () => {
    const inside = await serve((_req, res) => res.writeHead(413).end('too large'));
    const harness = await gatewayTo(inside.port);
    const stream = send(await connected(harness), { ':method': 'POST', ':path': `${P}/` }, false);
    stream.write(Buffer.alloc(100_000));
    expect(await heard(stream)).toMatchObject({ status: 413, body: 'too large', rstCode: NGHTTP2_NO_ERROR });
    await until('the request has ended', () => harness.began.every(({ done }) => done));
  });
});

describe('disconnects are detected', () => {
  test.each(['GET', 'HEAD'])('a reset %s aborts its upstream request only', async (method) => {
    const left: string[] = [];
    const inside = await serve((req, res) => {
      if (req.url === '/short') return void res.end('ok');
      res.once('close', () => left.push(req.url ?? ''));
      if (req.url !== '/before' && method === 'GET') res.write('beginning');
    });
    const harness = await gatewayTo(inside.port);
    const session = await connected(harness);
    const open = ['/before', '/within', '/stays'].map((path) =>
      send(session, { ':method': method, ':path': `${P}${path}` }),
    );
    const answered = open.slice(1).map((stream) => once(stream, 'response').catch(ignore));
    await until('the instance has all requests', () => harness.dialled.size === 3);
    if (method === 'GET') await Promise.all(answered);
    open[0]?.close(NGHTTP2_CANCEL);
    open[1]?.close(NGHTTP2_CANCEL);
    await until('two upstream requests are aborted', () => left.length === 2);
    expect(left.toSorted()).toEqual(['/before', '/within']);
    expect(await ask(session, `${P}/short`)).toMatchObject({ body: 'ok' });
    expect(left).toHaveLength(2);
    session.destroy();
    await until('the third request ended with its connection', () => left.length === 3);
    await until('all requests have ended', () => harness.began.every(({ done }) => done));
  });

  test.each([
    ['with CANCEL', NGHTTP2_CANCEL],
    ['with NO_ERROR', NGHTTP2_NO_ERROR],
  ])('an upload that is reset %s never looks whole', async (_how, code) => {
    let received = 0;
    let how = '';
    const inside = await serve((req) => {
      req.on('data', (chunk: Buffer) => (received += chunk.length));
      req.on('end', () => (how = 'whole'));
      req.on('error', () => {});
      req.once('close', () => (how ||= 'aborted'));
    });
    const client = await raw.rawClient(await gatewayTo(inside.port));
    const fields = raw.block([
      [':method', 'POST'],
      [':scheme', 'https'],
      [':path', `${P}/`],
      [':authority', 'h'],
    ]);
    client.socket.write(raw.frame(raw.HEADERS, raw.END_HEADERS, 1, fields));
    client.socket.write(raw.frame(raw.DATA, 0, 1, Buffer.from('a part')));
    await until('a part of the upload has arrived', () => received === 6);
    client.socket.write(raw.frame(raw.RST_STREAM, 0, 1, raw.uint32(code)));
    await until('the upload has ended', () => how !== '');
    expect(how).toBe('aborted');
  });

  test.each([
    ['a length', 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this'],
    ['chunks', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nonly \r\n5\r\nth'],
  ])('an instance that dies within a body with %s resets the stream, and no other', async (_what, bytes) => {
    const inside = await serveTcp((socket) => {
      socket.once('data', (chunk) => {
        const short = String(chunk).startsWith('GET /short ');
        socket.end(short ? 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok' : bytes);
      });
    });
    const harness = await gatewayTo(inside.port);
    const session = await connected(harness);
    const reported = await ask(session, `${P}/`);
    expect(reported).toMatchObject({ status: 200, whole: false, rstCode: constants.NGHTTP2_INTERNAL_ERROR });
    expect(await ask(session, `${P}/short`)).toMatchObject({ status: 200, body: 'ok', whole: true });
    const client = await raw.rawClient(harness);
    client.socket.write(raw.frame(raw.HEADERS, raw.END_HEADERS | raw.END_STREAM, 1, raw.get(`${P}/`)));
    await until('the stream is reset', () => raw.resetCodeOf(client, 1) !== null);
    expect(client.frames.filter(({ type, flags }) => type === raw.DATA && flags & raw.END_STREAM)).toEqual([]);
  });

  test.each([
    ['nothing', ''],
    ['half a head', 'HTTP/1.1 200 OK\r\nContent-Le'],
    ['a status that HTTP does not know', 'HTTP/1.1 777 Odd\r\nContent-Length: 0\r\n\r\n'],
  ])('an instance that dies after %s makes a 502', async (_what, bytes) => {
    const inside = await serveTcp((socket) => socket.once('data', () => socket.end(bytes)));
    const harness = await gatewayTo(inside.port);
    const reported = await ask(await connected(harness), `${P}/`);
    expect(reported).toMatchObject({ status: 502, headers: { 'x-error-code': 'unavailable' } });
  });

  test('aborts a reset upload whose instance does not read', async () => {
    const harness = await gateway();
    serveInMemory(harness, () => {});
    const client = await raw.rawClient(harness);
    const fields = raw.block([
      [':method', 'POST'],
      [':scheme', 'https'],
      [':path', `${P}/`],
      [':authority', 'h'],
    ]);
    client.socket.write(raw.frame(raw.HEADERS, raw.END_HEADERS, 1, fields));
    await until('the window update has arrived', () => client.frames.some(({ type }) => type === raw.WINDOW_UPDATE));
    for (let count = 0; count < 15; count += 1) client.socket.write(raw.frame(raw.DATA, 0, 1, Buffer.alloc(16_384)));
    await until('the request has begun', () => harness.began.length === 1);
    client.socket.write(raw.frame(raw.RST_STREAM, 0, 1, raw.uint32(NGHTTP2_NO_ERROR)));
    await until('the request has ended', () => harness.began.every(({ done }) => done));
    expect(raw.resetCodeOf(client, 1)).toBe(null);
  });

  test('cuts only the streams whose access is revoked', async () => {
    const inside = await serve((_req, res) => void res.write('beginning'));
    const harness = await gateway({ revocationMs: 20 });
    harness.add(A, { owner: ALICE, publicPorts: [81], ports: { 80: inside.port, 81: inside.port } });
    harness.sessions.set('secret', ALICE);
    const session = await connected(harness);
    const cookie = { cookie: '__Host-berth_gateway=secret', 'sec-fetch-site': 'none' };
    const own = send(session, { ':path': `${P}/`, ...cookie });
    const all = send(session, { ':path': `/forward/${A}/81/` });
    await Promise.all([once(own, 'response'), once(all, 'response')]);
    const reported = heard(own);
    harness.sessions.delete('secret');
    expect(await reported).toMatchObject({ whole: false, rstCode: constants.NGHTTP2_INTERNAL_ERROR });
    expect(all.closed).toBe(false);
    all.close(NGHTTP2_CANCEL);
  });
});

const goawayOf = (client: raw.RawClient): number | null =>
  client.frames.findLast(({ type }) => type === raw.GOAWAY)?.payload.readUInt32BE(4) ?? null;

describe('a stop', () => {
  test('sends GOAWAY, finishes running requests, and accepts no more', async () => {
    let finish: () => void = () => {};
    const inside = await serve((_req, res) => {
      res.write('be');
      finish = (): void => void res.end('gun');
    });
    const harness = await gatewayTo(inside.port);
    const [session, idle] = [await connected(harness), await connected(harness)];
    const stream = send(session, { ':path': `${P}/` });
    await once(stream, 'response');
    const reported = heard(stream);
    const goaways: number[] = [];
    for (const one of [session, idle]) one.on('goaway', (code) => goaways.push(code));
    const stopped = harness.gateway.stop();
    await until('both connections received GOAWAY', () => goaways.length === 2);
    expect(goaways).toEqual([NGHTTP2_NO_ERROR, NGHTTP2_NO_ERROR]);
    await until('the idle one is closed', () => idle.destroyed);
    finish();
    expect(await reported).toMatchObject({ body: 'begun', whole: true });
    await stopped;
  });

  test('cuts running requests after the grace period, visibly incomplete', async () => {
    const inside = await serve((_req, res) => void res.write('beginning'));
    const harness = await gatewayTo(inside.port, { stopGraceMs: 50 });
    const client = await raw.rawClient(harness);
    client.socket.write(raw.frame(raw.HEADERS, raw.END_HEADERS | raw.END_STREAM, 1, raw.get(`${P}/`)));
    await until('the request has begun', () => client.frames.some(({ type }) => type === raw.DATA));
    // The client never closes its side.
    await harness.gateway.stop();
    await until('the connection is closed', () => client.closed);
    expect(goawayOf(client)).toBe(constants.NGHTTP2_INTERNAL_ERROR);
    expect(client.frames.filter(({ type, flags }) => type === raw.DATA && flags & raw.END_STREAM)).toEqual([]);
  });
});

describe('limits', () => {
  test('refuses excess concurrent streams as retryable', async () => {
    const waiting: (() => void)[] = [];
    const inside = await serve((_req, res) => void waiting.push(() => res.end('ok')));
    const harness = await gatewayTo(inside.port, { streams: 3 });
    const client = await raw.rawClient(harness);
    for (const stream of [1, 3, 5, 7]) {
      client.socket.write(raw.frame(raw.HEADERS, raw.END_HEADERS | raw.END_STREAM, stream, raw.get(`${P}/`)));
    }
    await until('the excess stream is refused', () => raw.resetCodeOf(client, 7) === NGHTTP2_REFUSED_STREAM);
    await until('the instance has three requests', () => waiting.length === 3);
    for (const end of waiting.splice(0)) end();
    await until(
      'they are answered',
      () => client.frames.filter(({ flags, type }) => type === raw.DATA && flags & raw.END_STREAM).length === 3,
    );
    client.socket.write(raw.frame(raw.HEADERS, raw.END_HEADERS | raw.END_STREAM, 9, raw.get(`${P}/`)));
    await until('the next stream is admitted', () => waiting.length === 1);
    expect(harness.began).toHaveLength(4);
    waiting[0]?.();
  });

  test.each([true, false])('headers larger than the limit are refused (settings acknowledged: %s)', async (polite) => {
    let reached = 0;
    const inside = await serve((_req, res) => {
      reached += 1;
      res.end();
    });
    const harness = await gatewayTo(inside.port, { maxHeaderBytes: 8_192 });
    const client = await raw.rawClient(harness, polite);
    await until('settings came', () => client.frames.some(({ type }) => type === raw.SETTINGS));
    const send = (stream: number, count: number): void => {
      const fields = raw.get(
        `${P}/`,
        Array.from({ length: count }, (_, at) => [`x-${at}`, 'x'.repeat(100)] as const),
      );
      for (let at = 0; at < fields.length; at += 4_000) {
        const last = at + 4_000 >= fields.length;
        const type = at === 0 ? raw.HEADERS : raw.CONTINUATION;
        const flags = (last ? raw.END_HEADERS : 0) | (at === 0 ? raw.END_STREAM : 0);
        client.socket.write(raw.frame(type, flags, stream, fields.subarray(at, at + 4_000)));
      }
    };
    send(1, 50);
    await until('smaller headers pass', () => reached === 1);
    send(3, 70);
    await until('it is refused', () => client.frames.some(({ stream }) => stream === 3) || client.closed);
    await until('the connection is answered on', () => {
      client.socket.write(raw.frame(raw.PING, 0, 0, Buffer.alloc(8)));
      return client.frames.some(({ type }) => type === raw.PING);
    });
    expect(reached).toBe(1);
    expect(raw.resetCodeOf(client, 3)).toBe(null);
  });

  test('disconnects a client that opens and resets repeatedly', async () => {
    const inside = await serve(() => {});
    const harness = await gatewayTo(inside.port);
    const client = await raw.rawClient(harness);
    for (let stream = 1; stream < 8_000 && !client.closed; stream += 2) {
      client.socket.write(raw.frame(raw.HEADERS, raw.END_HEADERS | raw.END_STREAM, stream, raw.get(`${P}/`)));
      client.socket.write(raw.frame(raw.RST_STREAM, 0, stream, raw.uint32(NGHTTP2_CANCEL)));
      if (stream % 200 === 1) await new Promise((resolve) => setImmediate(resolve));
    }
    await until('the connection is closed', () => client.closed);
    expect(goawayOf(client)).toBe(constants.NGHTTP2_INTERNAL_ERROR);
    expect(harness.began.length).toBeGreaterThan(500);
    expect(harness.dials).toBeLessThan(2_000);
    await until(
      'all its requests and upstream connections have ended',
      () => harness.dialled.size === 0 && harness.began.every(({ done }) => done),
    );
  });

  test.each([
    ['SETTINGS', raw.frame(raw.SETTINGS, 0, 0)],
    ['PINGs', raw.frame(raw.PING, 0, 0, Buffer.alloc(8))],
  ])('stops reading from a client that sends %s and reads no acknowledgement', async (_what, one) => {
    const { socket } = await raw.rawClient(await gateway());
    socket.pause();
    const many = Buffer.concat(Array.from({ length: 1_000 }, () => one));
    let bytes = 0;
    let enough = false;
    const flood = (): void => {
      while (!enough && !socket.destroyed) {
        bytes += many.length;
        if (!socket.write(many)) return void socket.once('drain', flood);
      }
    };
    flood();
    expect(await stableValue(() => bytes)).toBeLessThan(32 << 20);
    enough = true;
  });

  test('disconnects endless CONTINUATION', async () => {
    const client = await raw.rawClient(await gateway());
    client.socket.write(raw.frame(raw.HEADERS, raw.END_STREAM, 1, raw.get('/')));
    for (let count = 0; count < 20; count += 1) client.socket.write(raw.frame(raw.CONTINUATION, 0, 1, Buffer.alloc(0)));
    await until('the connection is closed', () => client.closed);
    expect(goawayOf(client)).not.toBe(NGHTTP2_NO_ERROR);
  });

  test('closes a connection without requests at the head timeout, later at the idle timeout', async () => {
    const inside = await serve((_req, res) => void setTimeout(() => res.end('late'), 400));
    const harness = await gatewayTo(inside.port, { headMs: 200, idleClientMs: 100 });
    const silent = connectTls({
      port: harness.port,
      host: '127.0.0.1',
      rejectUnauthorized: false,
      ALPNProtocols: ['h2'],
    });
    const since = performance.now();
    await once(silent.resume(), 'close');
    expect(performance.now() - since).toBeGreaterThan(150);
    const half = await raw.rawClient(harness);
    half.socket.write(raw.frame(raw.HEADERS, raw.END_STREAM, 1, raw.get(`${P}/`)));
    // A PING is not a request.
    const pings = setInterval(() => half.socket.write(raw.frame(raw.PING, 0, 0, Buffer.alloc(8))), 50);
    onCleanup(async () => clearInterval(pings));
    await until('the connection is closed', () => half.closed);
    const session = await connected(harness);
    // Requests have no deadline.
    for (let count = 0; count < 2; count += 1)
      expect(await ask(session, `${P}/`)).toMatchObject({ body: 'late', whole: true });
    await until('the idle session is closed', () => session.destroyed);
  });
});
