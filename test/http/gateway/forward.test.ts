import { Agent, createServer, request } from 'node:http';
import type { IncomingMessage } from 'node:http';
import { duplexPair } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { ask, echoHead, idOf, seenBy, sendRaw, serve, serveTcp, start } from './harness.ts';

const A = idOf('a');

describe('requests and responses are forwarded', () => {
  test('forwards path, method, headers and body; returns status, headers and body', async () => {
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

  test('replaces the client’s forwarding headers', async () => {
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

  test('uses the headers of a trusted proxy', async () => {
    const inside = await serve(echoHead);
    const harness = await start({ trustedProxies: ['127.0.0.0/8'] });
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

  test('uses Forwarded of a trusted proxy, unless it sends X-Forwarded-For as well', async () => {
    const inside = await serve(echoHead);
    const harness = await start({ trustedProxies: ['127.0.0.0/8'] });
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const forwarded = 'for="[2001:db8::7]:4711";proto=https;host=gateway.example';
    const ofClient = { 'X-Forwarded-Host': 'evil', 'X-Forwarded-Proto': 'http' };
    for (const headers of [
      { Forwarded: forwarded },
      { Forwarded: `x", proto=http;, ${forwarded}, `, ...ofClient },
      { Forwarded: ['proto=http', forwarded] },
    ])
      expect(seenBy(await ask(harness, `/forward/${A}/80/`, { headers })).headers).toMatchObject({
        'x-forwarded-for': '2001:db8::7, 127.0.0.1',
        'x-forwarded-proto': 'https',
        'x-forwarded-host': 'gateway.example',
      });
    const both = { Forwarded: forwarded, 'X-Forwarded-For': '6.6.6.6' };
    const own = seenBy(await ask(harness, `/forward/${A}/80/`, { headers: both }));
    expect(own.headers).toMatchObject({ 'x-forwarded-for': '6.6.6.6, 127.0.0.1', 'x-forwarded-proto': 'http' });
  });

  test('forwards all lines of a trusted proxy’s header in order, of which the last decides', async () => {
    const inside = await serve(echoHead);
    const harness = await start({ trustedProxies: ['127.0.0.0/8'] });
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const headers = { 'X-Forwarded-For': ['6.6.6.6', '192.0.2.7'], 'X-Forwarded-Proto': ['http', 'https'] };
    const seen = seenBy(await ask(harness, `/forward/${A}/80/`, { headers }));
    expect(seen.headers['x-forwarded-for']).toBe('6.6.6.6, 192.0.2.7, 127.0.0.1');
    expect(seen.headers['x-forwarded-proto']).toBe('https');
  });

  test('removes hop-by-hop headers and those named by Connection, both ways', async () => {
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

  test('keeps root redirects of an instance below its prefix', async () => {
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

  test('HEAD, 204 and 304 have no body and keep the connection usable', async () => {
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

  test('forwards trailers and early hints', async () => {
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

  test('sends 100 Continue to authorized clients only', async () => {
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

  test('accepts a response body that ends with the connection', async () => {
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

  test('works with any duplex stream of an engine', async () => {
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

  test('keeps connections alive on both sides', async () => {
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
