import { createHash } from 'node:crypto';
import { Agent, createServer, request } from 'node:http';
import type { IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { duplexPair } from 'node:stream';
import { describe, expect, test } from 'vitest';
import {
  API_ORIGIN,
  ask,
  echoHead,
  idOf,
  onCleanup,
  seenBy,
  sendRaw,
  serve,
  serveTcp,
  start,
  until,
} from './harness.ts';

const A = idOf('a');

describe('a request reaches the instance, and its response the client', () => {
  test('path, method, headers and body go in; status, headers and body come out', async () => {
    const inside = await serve((req, res) => {
      const chunks: Buffer[] = [];
      req.on('data', (chunk: Buffer) => chunks.push(chunk));
      req.on('end', () => {
        res.writeHead(418, 'Short and stout', { 'x-from': 'inside', 'x-twice': ['a', 'b'] });
        res.end(`${req.method} ${req.url} ${req.headers['x-custom']} ${Buffer.concat(chunks).toString()}`);
      });
    });
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const answered = await ask(harness, `/forward/${A}/80/a%2Fb?c=d`, {
      method: 'PUT',
      headers: { 'X-Custom': 'mine' },
      body: 'the body',
    });
    expect(answered).toMatchObject({ status: 418, body: `PUT /a%2Fb?c=d mine the body` });
    expect(answered.headers).toMatchObject({ 'x-from': 'inside', 'x-twice': 'a, b' });
  });

  test('what the client says of the way is replaced by what the gateway saw', async () => {
    const inside = await serve(echoHead);
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const headers = {
      Host: 'gateway.test:81',
      'X-Forwarded-For': '6.6.6.6',
      'X-Forwarded-Proto': 'https',
      'X-Forwarded-Host': 'evil',
      'X-Forwarded-Prefix': '/evil',
      'X-Forwarded-User': 'root',
      X_Forwarded_For: '6.6.6.6',
      'X-Real-IP': '6.6.6.6',
      Forwarded: 'for=6.6.6.6',
    };
    const seen = seenBy(await ask(harness, `/forward/${A}/80/`, { headers }));
    expect(seen.headers).toMatchObject({
      host: 'gateway.test:81',
      'x-forwarded-for': '127.0.0.1',
      'x-forwarded-proto': 'http',
      'x-forwarded-host': 'gateway.test:81',
      'x-forwarded-prefix': `/forward/${A}/80`,
      forwarded: 'for=127.0.0.1;host="gateway.test:81";proto=http',
    });
    expect(JSON.stringify(seen)).not.toMatch(/6\.6\.6\.6|evil|root/);
  });

  test('a proxy that is trusted is believed', async () => {
    const inside = await serve(echoHead);
    const harness = await start({ trustForwarded: true });
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const headers = {
      'X-Forwarded-For': '6.6.6.6',
      'X-Forwarded-Proto': 'https',
      'X-Forwarded-Host': 'gateway.example',
    };
    const seen = seenBy(await ask(harness, `/forward/${A}/80/`, { headers }));
    expect(seen.headers).toMatchObject({
      'x-forwarded-for': '6.6.6.6, 127.0.0.1',
      'x-forwarded-proto': 'https',
      'x-forwarded-host': 'gateway.example',
    });
  });

  test('hop-by-hop headers and those that Connection names end at the gateway, both ways', async () => {
    let raw: string[] = [];
    const inside = await serveTcp((socket) => {
      socket.once('data', (head) => {
        raw = head.toString('latin1').toLowerCase().split('\r\n');
        socket.end(
          'HTTP/1.1 200 OK\r\nConnection: X-Inner, close\r\nX-Inner: 1\r\nKeep-Alive: timeout=9\r\nProxy-Authenticate: Basic\r\n' +
            'X-Stays: 1\r\nContent-Length: 2\r\n\r\nok',
        );
      });
    });
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const answer = await sendRaw(
      harness,
      `GET /forward/${A}/80/ HTTP/1.1\r\nHost: h\r\nConnection: X-Hop, close, Host\r\nX-Hop: 1\r\nKeep-Alive: 300\r\nTE: trailers\r\n` +
        'Proxy-Authorization: Basic eA==\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\nX-Kept: 1\r\n\r\n',
    );
    expect(raw).toContain('x-kept: 1');
    expect(raw).toContain('host: h');
    expect(raw.filter((line) => /^(x-hop|keep-alive|te|proxy-|upgrade|http2)/.test(line))).toEqual([]);
    expect(answer).toMatch(/x-stays: 1/i);
    expect(answer).not.toMatch(/x-inner|timeout=9|proxy-authenticate/i);
  });

  test('redirects, which an instance at /forward makes from the root, stay below its prefix', async () => {
    const locations: Record<string, string> = {
      '/a': '/login?x=1',
      '/b': `/forward/${A}/80/done`,
      '/c': 'https://elsewhere.test/x',
      '/d': '//elsewhere.test/x',
      '/e': 'next',
      '/f': 'http://gw.test/login',
    };
    const inside = await serve((req, res) => {
      res.writeHead(302, { location: locations[req.url ?? ''] }).end();
    });
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const got: Record<string, string | undefined> = {};
    for (const path of Object.keys(locations)) {
      got[path] = (await ask(harness, `/forward/${A}/80${path}`, { headers: { host: 'gw.test' } })).headers.location;
    }
    expect(got).toEqual({
      ...locations,
      '/a': `/forward/${A}/80/login?x=1`,
      '/f': `/forward/${A}/80/login`,
    });
  });

  test('HEAD, 204 and 304 have no body and leave the connection usable', async () => {
    const inside = await serve((req, res) => {
      if (req.url === '/204') res.writeHead(204).end();
      else if (req.url === '/304') res.writeHead(304, { etag: '"x"' }).end();
      else res.writeHead(200, { 'content-length': 5 }).end(req.method === 'HEAD' ? undefined : 'hello');
    });
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const one = (method: string, path: string, more = ''): string =>
      `${method} /forward/${A}/80${path} HTTP/1.1\r\nHost: h\r\n${more}\r\n`;
    const answer = await sendRaw(
      harness,
      one('HEAD', '/') + one('GET', '/204') + one('GET', '/304') + one('GET', '/', 'Connection: close\r\n'),
    );
    expect([...answer.matchAll(/^HTTP\/1\.1 (\d+)/gm)].map((match) => match[1])).toEqual(['200', '204', '304', '200']);
    expect([...answer.matchAll(/^content-length: (\d+)/gim)].map((match) => match[1])).toEqual(['5', '5']);
    expect(answer.endsWith('\r\n\r\nhello')).toBe(true);
    expect(answer.match(/hello/g)).toHaveLength(1);
  });

  test('trailers and early hints come through', async () => {
    const inside = await serve((_req, res) => {
      res.writeEarlyHints({ link: '</style.css>; rel=preload; as=style' });
      res.writeHead(200, { trailer: 'x-sum, set-cookie' });
      res.write('body');
      res.addTrailers({ 'x-sum': 'abc', 'set-cookie': 'AccessToken=evil' });
      res.end();
    });
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const answer = await sendRaw(harness, `GET /forward/${A}/80/ HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 103 [^]*style\.css[^]*HTTP\/1\.1 200/);
    expect(answer).toMatch(/0\r\nx-sum: abc\r\n\r\n$/i);
    expect(answer).not.toContain('evil');
  });

  test('who waits for 100 Continue is told to go on only when let in', async () => {
    const inside = await serve((req, res) => req.pipe(res));
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const head = (port: number): string =>
      `POST /forward/${A}/${port}/ HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n`;
    expect(await sendRaw(harness, `${head(80)}ping`)).toMatch(
      /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK[^]*ping/,
    );
    expect(await sendRaw(harness, head(81))).toMatch(/^HTTP\/1\.1 401 /);
  });

  test('an instance without HTTP/1.1 manners is understood: a body that ends with the connection', async () => {
    const inside = await serveTcp((socket) =>
      socket.once('data', () => socket.end('HTTP/1.0 200 OK\r\n\r\nall of it')),
    );
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    expect(await ask(harness, `/forward/${A}/80/`)).toMatchObject({ status: 200, body: 'all of it' });
    expect(await sendRaw(harness, `GET /forward/${A}/80/ HTTP/1.0\r\n\r\n`)).toMatch(
      /^HTTP\/1\.1 200 OK[^]*\r\n\r\nall of it$/,
    );
  });

  test('any stream that an engine hands out will do', async () => {
    const server = createServer((req, res) => req.pipe(res));
    const harness = await start();
    harness.add(A, { publicPorts: [80] }).streams.set(80, () => {
      const [ours, theirs] = duplexPair();
      server.emit('connection', theirs);
      return ours;
    });
    const body = 'x'.repeat(300_000);
    for (let round = 0; round < 3; round += 1) {
      expect((await ask(harness, `/forward/${A}/80/`, { method: 'POST', body })).body).toBe(body);
      expect(await ask(harness, `/forward/${A}/80/`)).toMatchObject({ status: 200, body: '' });
    }
  });

  test('connections are kept on both sides', async () => {
    const inside = await serve((_req, res) => res.end('ok'));
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const ports = new Set<number | undefined>();
    for (let round = 0; round < 20; round += 1) {
      const response = await new Promise<IncomingMessage>((resolve, reject) => {
        request({ port: harness.port, path: `/forward/${A}/80/`, agent }, resolve)
          .on('error', reject)
          .end();
      });
      ports.add(response.socket.localPort);
      await new Promise((resolve) => response.resume().once('end', resolve));
    }
    agent.destroy();
    expect(ports.size).toBe(1);
    expect(harness.dials).toBe(1);
  });
});

describe('bodies flow, whatever their size and pace', () => {
  test('events arrive one by one, as they are sent, in order', async () => {
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
    expect(response.headers['content-type']).toBe('text/event-stream'); // the head is there before the first event
    let got = '';
    response.setEncoding('utf8').on('data', (chunk: string) => (got += chunk));
    for (let count = 1; count <= 5; count += 1) {
      next[0]?.();
      await until(`event ${count} arrived`, () => got.endsWith(`data: ${count}\n\n`));
    }
    expect(got).toBe('data: 1\n\ndata: 2\n\ndata: 3\n\ndata: 4\n\ndata: 5\n\n');
    response.destroy();
  });

  test('200 MB go in and come out unchanged, through little memory', async () => {
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
    expect(peakBytes).toBeLessThan(48 << 20); // mostly in the buffers of eight sockets, which the system makes as large
  });

  test('a reader that does not read stops the instance, and a reading one lets it go on', async () => {
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
    let last = -1;
    let still = 0;
    await until('the instance stands still', () => {
      still = written > 0 && written === last ? still + 1 : 0;
      last = written;
      return still > 40;
    });
    expect(written).toBeLessThan(32 << 20); // what the sockets of the system hold
    client.resume();
    await until('all is written', () => written === 64 << 20);
    client.destroy();
  });

  test('an answer before the end of the upload arrives, and the upload is not swallowed for ever', async () => {
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

describe('who leaves is missed', () => {
  test('a client that leaves aborts the request inside, before and within the response', async () => {
    const left: string[] = [];
    const inside = await serve((req, res) => {
      res.once('close', () => left.push(req.url ?? ''));
      if (req.url === '/within') res.write('beginning');
    });
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const before = request({ port: harness.port, path: `/forward/${A}/80/before`, agent: false }).on('error', () => {});
    before.end();
    await until('it is inside', () => harness.dialled.size === 1);
    const within = request({ port: harness.port, path: `/forward/${A}/80/within`, agent: false }).on('error', () => {});
    within.end();
    await new Promise((resolve) => within.once('response', resolve));
    before.destroy();
    within.destroy();
    await until('both were aborted', () => left.length === 2);
    await until('no connection is left', () => harness.dialled.size === 0);
    expect(left.toSorted()).toEqual(['/before', '/within']);
  });

  test('a client that leaves within its upload aborts it', async () => {
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
    await until('a part is inside', () => received === 6);
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

describe('when nothing inside can answer, the gateway says why', () => {
  const browser = { headers: { accept: 'text/html,application/xhtml+xml' } };

  test('nothing listens on the port', async () => {
    const harness = await start();
    harness.add(A, { publicPorts: [80] });
    const forProgram = await ask(harness, `/forward/${A}/80/`);
    expect(forProgram).toMatchObject({
      status: 503,
      headers: { 'retry-after': '3', 'content-type': 'application/json; charset=utf-8' },
    });
    expect(JSON.parse(forProgram.body)).toEqual({ message: expect.stringContaining('port 80 does not listen yet') });
    const forPerson = await ask(harness, `/forward/${A}/80/`, browser);
    expect(forPerson.headers['content-type']).toBe('text/html; charset=utf-8');
    expect(forPerson.body).toContain('http-equiv="refresh"');
  });

  test('the instance starts: the page looks again by itself', async () => {
    const harness = await start();
    harness.add(A, { publicPorts: [80], route: { running: false, status: 'PullingImage' } });
    const answered = await ask(harness, `/forward/${A}/80/`, browser);
    expect(answered).toMatchObject({ status: 503, headers: { 'retry-after': '3', 'cache-control': 'no-store' } });
    expect(answered.body).toMatch(/PullingImage[^]*/);
    expect(answered.body).toContain('http-equiv="refresh"');
  });

  test('the instance is stopped: the page says what would help and does not look again', async () => {
    const harness = await start();
    harness.add(A, { publicPorts: [80], route: { running: false, status: 'Stopped' } });
    const answered = await ask(harness, `/forward/${A}/80/`, browser);
    expect(answered.status).toBe(503);
    expect(answered.headers['retry-after']).toBeUndefined();
    expect(answered.body).not.toContain('http-equiv="refresh"');
    expect(answered.body).toContain('start it');
  });

  test('an address that is no instance has a way out', async () => {
    const harness = await start();
    const answered = await ask(harness, '/', browser);
    expect(answered.status).toBe(404);
    expect(answered.body).toContain(`href="${API_ORIGIN}/"`);
  });

  test('a notebook that does not listen yet is waited for', async () => {
    const inside = await serve((_req, res) => res.end('the notebook'));
    const harness = await start();
    const instance = harness.add(A, {});
    harness.sessions.set('s', 'account-alice');
    const asked = ask(harness, `/notebook/${A}/lab`, { headers: { cookie: 'berth_gateway=s' } });
    await until('it was tried', () => harness.dials >= 2);
    instance.ports.set(8888, inside.port);
    expect(await asked).toMatchObject({ status: 200, body: 'the notebook' });
  });

  test('a notebook that never listens is waited for once, and not by each request', async () => {
    const harness = await start({ limits: { notebookPatienceMs: 300 } });
    harness.add(A, {});
    harness.sessions.set('s', 'account-alice');
    const headers = { cookie: 'berth_gateway=s' };
    expect(await ask(harness, `/notebook/${A}/lab`, { headers })).toMatchObject({ status: 503 });
    expect(harness.dials).toBeGreaterThan(1);
    const dialsBefore = harness.dials;
    expect(await ask(harness, `/notebook/${A}/lab`, { headers })).toMatchObject({ status: 503 });
    expect(harness.dials).toBe(dialsBefore + 1);
  });

  test('one request too many at once is turned away, and the place is given back', async () => {
    const waiting: (() => void)[] = [];
    const inside = await serve((_req, res) => void waiting.push(() => res.end('ok')));
    const harness = await start({ limits: { perPort: 2 } });
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const first = [ask(harness, `/forward/${A}/80/`), ask(harness, `/forward/${A}/80/`)];
    await until('two are inside', () => waiting.length === 2);
    expect(await ask(harness, `/forward/${A}/80/`)).toMatchObject({ status: 503, headers: { 'retry-after': '1' } });
    for (const end of waiting.splice(0)) end();
    expect((await Promise.all(first)).map(({ body }) => body)).toEqual(['ok', 'ok']);
    const next = ask(harness, `/forward/${A}/80/`);
    await until('the next is inside', () => waiting.length === 1);
    waiting[0]?.();
    expect(await next).toMatchObject({ status: 200 });
  });
});

describe('the gateway ends as it should', () => {
  test('idle connections to instances are closed after a while, and when the instance stops', async () => {
    const inside = await serve((_req, res) => res.end('ok'));
    const harness = await start({ limits: { idlePoolMs: 100, idleConnectionMs: 60_000 } });
    const instance = harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    await ask(harness, `/forward/${A}/80/`);
    await until('the idle connection is closed', () => harness.dialled.size === 0);

    const patient = await start({ limits: { idleConnectionMs: 60_000 } });
    patient.instances.set(A, instance);
    await ask(patient, `/forward/${A}/80/`);
    expect(patient.dialled.size).toBe(1);
    instance.route = { ...instance.route, running: false, status: 'Stopped' };
    await ask(patient, `/forward/${A}/80/`);
    await until('the connection to the stopped instance is closed', () => patient.dialled.size === 0);
  });

  test('stop lets a running request end and takes no new ones', async () => {
    const finish: (() => void)[] = [];
    const inside = await serve((_req, res) => {
      res.write('first half, ');
      finish.push(() => res.end('second half'));
    });
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const asked = ask(harness, `/forward/${A}/80/`);
    await until('it runs', () => finish.length === 1);
    const stopped = harness.gateway.stop();
    await expect(ask(harness, `/forward/${A}/80/`)).rejects.toThrow(/ECONNREFUSED/);
    finish[0]?.();
    expect(await asked).toMatchObject({ status: 200, body: 'first half, second half' });
    await stopped;
  });

  test('stop cuts what does not end within the grace', async () => {
    const inside = await serve((_req, res) => res.write('for ever'));
    const harness = await start({ limits: { stopGraceMs: 50 } });
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const asked = ask(harness, `/forward/${A}/80/`).catch((error: Error) => error.message);
    await until('it runs', () => harness.dialled.size === 1);
    await harness.gateway.stop();
    expect(await asked).toMatch(/aborted|hang up|ECONNRESET/);
    await until('nothing is connected inside', () => harness.dialled.size === 0);
  });

  test('a storm of resets leaves nothing behind', async () => {
    const inside = await serve((req, res) => {
      if (req.url === '/slow') res.write('x');
      else req.pipe(res);
    });
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const faults: unknown[] = [];
    const onFault = (error: unknown): void => void faults.push(error);
    process.on('unhandledRejection', onFault);
    onCleanup(async () => void process.off('unhandledRejection', onFault));
    const texts = [
      `GET /forward/${A}/80/slow HTTP/1.1\r\nHost: h\r\n\r\n`,
      `POST /forward/${A}/80/ HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\nsome`,
      `GET /forward/${A}/80/ HT`,
      '',
    ];
    let open = 0;
    for (let count = 0; count < 2_000; count += 1) {
      open += 1;
      const socket = connect(harness.port, '127.0.0.1');
      socket.on('error', () => {}).once('close', () => (open -= 1));
      socket.once('connect', () => {
        socket.write(texts[count % texts.length] ?? '');
        setTimeout(() => socket.resetAndDestroy(), count % 7);
      });
      if (count % 100 === 99) await until('few are open', () => open < 20);
    }
    await until('no connection inside is left', () => harness.dialled.size <= 1);
    expect(await ask(harness, `/forward/${A}/80/`, { method: 'POST', body: 'alive' })).toMatchObject({ body: 'alive' });
    expect(faults).toEqual([]);
  });
});
