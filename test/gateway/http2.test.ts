/** HTTP/2 towards clients: what holds for a request of HTTP/1.1 holds for a stream, and one stream is no matter of the others. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { RequestListener } from 'node:http';
import { connect, constants } from 'node:http2';
import type { ClientHttp2Session, ClientHttp2Stream, IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http2';
import { get as getOverTls } from 'node:https';
import { connect as connectTls } from 'node:tls';
import { duplexPair } from 'node:stream';
import { promisify } from 'node:util';
import { generate } from 'selfsigned';
import { beforeAll, describe, expect, test } from 'vitest';
import WebSocket, { WebSocketServer } from 'ws';
import type { GatewayLimits, GatewayNeeds } from '../../src/edge/gateway/gateway.ts';
import { ALICE, MALLORY, echoHead, idOf, jwtOf, onCleanup, serve, serveTcp, start, until } from './harness.ts';
import type { Harness } from './harness.ts';
import * as raw from './http2-frames.ts';

const A = idOf('a');
const ignore = (): void => {};
const P = `/forward/${A}/80`;
const { NGHTTP2_CANCEL, NGHTTP2_NO_ERROR, NGHTTP2_PROTOCOL_ERROR, NGHTTP2_REFUSED_STREAM } = constants;

let pair: { cert: string; key: string };
beforeAll(async () => {
  const made = await generate([{ name: 'commonName', value: 'gw.test' }], { keyType: 'ec' });
  pair = { cert: made.cert, key: made.private };
});

async function gateway(limits: Partial<GatewayLimits> = {}, more: Partial<GatewayNeeds> = {}): Promise<Harness> {
  return start({ tls: { first: pair, follow: () => {} }, limits, ...more });
}

async function gatewayTo(port: number, limits: Partial<GatewayLimits> = {}): Promise<Harness> {
  const harness = await gateway(limits);
  harness.add(A, { publicPorts: [80], ports: { 80: port } });
  return harness;
}

async function connected(harness: Harness, settings: object = {}): Promise<ClientHttp2Session> {
  const session = connect(`https://127.0.0.1:${harness.port}`, { rejectUnauthorized: false, settings });
  session.on('error', () => {});
  onCleanup(async () => session.destroy());
  await once(session, 'connect');
  return session;
}

interface Told {
  status: number;
  headers: IncomingHttpHeaders;
  raw: string[];
  body: string;
  trailers: IncomingHttpHeaders;
  information: IncomingHttpHeaders[];
  /** Whether all of it came, by the client's reckoning. */
  whole: boolean;
  rstCode: number | undefined;
}

function send(session: ClientHttp2Session, headers: OutgoingHttpHeaders | string[], ended = true): ClientHttp2Stream {
  const stream = session.request(headers, { endStream: ended });
  stream.on('error', () => {});
  return stream;
}

async function heard(stream: ClientHttp2Stream): Promise<Told> {
  const told: Told = {
    status: 0,
    headers: {},
    raw: [],
    body: '',
    trailers: {},
    information: [],
    whole: false,
    rstCode: undefined,
  };
  stream.on('headers', (headers) => told.information.push(headers));
  stream.on('response', (headers, _flags, rawHeaders) => {
    told.status = Number(headers[':status']);
    told.headers = headers;
    told.raw = rawHeaders;
  });
  stream.on('trailers', (trailers) => (told.trailers = trailers));
  const chunks: Buffer[] = [];
  stream.on('data', (chunk: Buffer) => chunks.push(chunk));
  stream.on('end', () => (told.whole = true));
  await new Promise((resolve) => stream.once('close', resolve));
  told.body = Buffer.concat(chunks).toString();
  told.rstCode = stream.rstCode;
  return told;
}

async function ask(session: ClientHttp2Session, path: string, headers: OutgoingHttpHeaders = {}): Promise<Told> {
  return heard(send(session, { ':path': path, ':authority': 'gw.test', ...headers }));
}

const valuesOf = (list: readonly string[], name: string): (string | undefined)[] =>
  list.flatMap((one, at) => (at % 2 === 0 && one.toLowerCase() === name ? [list[at + 1]] : []));

const rawSeen = (body: string): string[] => {
  const seen: unknown = JSON.parse(body);
  const list = typeof seen === 'object' && seen !== null && 'rawHeaders' in seen ? seen.rawHeaders : [];
  return Array.isArray(list) ? list.map(String) : [];
};

describe('the protocol is chosen with TLS', () => {
  test('on one port: HTTP/2, HTTP/1.1 for who asks for that or for nothing, and WebSockets by HTTP/1.1', async () => {
    const inside = await serve((_req, res) => res.end('ok'));
    const harness = await gatewayTo(inside.port);
    for (const [offered, chosen] of [
      [['h2', 'http/1.1'], 'h2'],
      [['http/1.1'], 'http/1.1'],
      [undefined, false],
    ] as const) {
      const offer = offered === undefined ? {} : { ALPNProtocols: [...offered] };
      const socket = connectTls({ port: harness.port, host: '127.0.0.1', rejectUnauthorized: false, ...offer });
      await once(socket, 'secureConnect');
      expect(socket.alpnProtocol).toBe(chosen);
      socket.destroy();
    }
    const status = await new Promise((resolve, reject) =>
      getOverTls({ port: harness.port, host: '127.0.0.1', path: `${P}/`, rejectUnauthorized: false }, (res) => {
        res.resume().on('end', () => resolve(res.statusCode));
      }).on('error', reject),
    );
    expect(status).toBe(200);
    const session = await connected(harness);
    await until('its settings came', () => session.remoteSettings.maxHeaderListSize === 32_768);
    expect(session.remoteSettings).toMatchObject({
      enableConnectProtocol: false,
      maxConcurrentStreams: 128,
      initialWindowSize: 262_144,
    });
    expect(await ask(session, `${P}/`)).toMatchObject({ status: 200, body: 'ok', whole: true });

    const server = new WebSocketServer({ port: 0 });
    onCleanup(async () => server.close());
    server.on('connection', (socket) => socket.on('message', (bytes) => socket.send(bytes)));
    const address = server.address();
    harness.instances.get(A)?.ports.set(80, typeof address === 'object' && address ? address.port : 0);
    const socket = new WebSocket(`wss://127.0.0.1:${harness.port}${P}/ws`, { rejectUnauthorized: false });
    await once(socket, 'open');
    socket.send('there');
    expect(String((await once(socket, 'message'))[0])).toBe('there');
    socket.close();
  });

  const curl = promisify(execFile);
  test('curl --http2 gets a page and sends a body (skipped where there is no curl with HTTP/2)', async ({ skip }) => {
    const version = await curl('curl', ['--version']).then(
      ({ stdout }) => stdout,
      () => '',
    );
    skip(!/^Features:.*\bHTTP2\b/m.test(version));
    const inside = await serve((req, res) => req.pipe(res));
    const harness = await gatewayTo(inside.port);
    const sent = 'x'.repeat(100_000);
    const { stdout } = await curl('curl', [
      '-ks',
      '--http2',
      '-w',
      '%{http_version} %{http_code}',
      '-d',
      sent,
      `https://127.0.0.1:${harness.port}${P}/`,
    ]);
    expect(stdout).toBe(`${sent}2 200`);
  });
});

describe('a request reaches the instance, and its response the client', () => {
  test('method, path, headers and body go in, and what came of the way is told', async () => {
    const inside = await serve((req, res) => {
      const chunks: Buffer[] = [];
      req.on('data', (chunk: Buffer) => chunks.push(chunk));
      req.on('end', () => {
        res.writeHead(418, 'Short and stout', { 'X-From': 'inside', 'x-latin': 'caf\u00e9' });
        res.end(
          JSON.stringify({
            method: req.method,
            url: req.url,
            headers: req.headers,
            got: String(Buffer.concat(chunks)),
          }),
        );
      });
    });
    const harness = await gatewayTo(inside.port);
    const stream = send(
      await connected(harness),
      { ':method': 'PUT', ':path': `${P}/a%2Fb?c=d`, ':authority': 'gw.test:81', 'x-custom': 'caf\u00e9' },
      false,
    );
    stream.end('the body');
    const told = await heard(stream);
    expect(told).toMatchObject({ status: 418, whole: true, headers: { 'x-from': 'inside', 'x-latin': 'caf\u00e9' } });
    expect(JSON.parse(told.body)).toMatchObject({
      method: 'PUT',
      url: '/a%2Fb?c=d',
      got: 'the body',
      headers: {
        host: 'gw.test:81',
        'x-custom': 'caf\u00e9',
        // Its length was not told beforehand.
        'transfer-encoding': 'chunked',
        'x-forwarded-for': '127.0.0.1',
        'x-forwarded-proto': 'https',
        'x-forwarded-host': 'gw.test:81',
        forwarded: 'for=127.0.0.1;host="gw.test:81";proto=https',
      },
    });
    const sized = send(await connected(harness), { ':method': 'POST', ':path': `${P}/`, 'content-length': 4 }, false);
    sized.end('four');
    expect(JSON.parse((await heard(sized)).body)).toMatchObject({ got: 'four', headers: { 'content-length': '4' } });
    const none = JSON.parse((await ask(await connected(harness), `${P}/`)).body);
    expect(none.headers).not.toHaveProperty('transfer-encoding');
  });

  test('a port has its host, and one connection serves many hosts', async () => {
    const inside = await serve(echoHead);
    const harness = await gateway({}, { portDomain: () => 'gpu.test' });
    harness.add(A, { publicPorts: [80, 81], ports: { 80: inside.port } });
    const session = await connected(harness);
    const told = await ask(session, '/x', { ':authority': `80-${A}.gpu.test` });
    expect(JSON.parse(told.body)).toMatchObject({ url: '/x', headers: { host: `80-${A}.gpu.test` } });
    expect(await ask(session, '/x', { ':authority': `81-${A}.gpu.test` })).toMatchObject({ status: 503 });
    expect(await ask(session, '/x', { ':authority': 'other.test' })).toMatchObject({ status: 404 });
  });

  test('a private port is for its owner, by credential or by a session in crumbs of the cookie', async () => {
    const inside = await serve(echoHead);
    const harness = await gateway();
    harness.add(A, { owner: ALICE, ports: { 80: inside.port } });
    harness.sessions.set('secret', ALICE);
    const session = await connected(harness);
    expect(await ask(session, `${P}/`)).toMatchObject({ status: 401 });
    expect(await ask(session, `${P}/`, { authorization: `Bearer ${jwtOf(MALLORY)}` })).toMatchObject({ status: 404 });
    expect(await ask(session, `${P}/`, { authorization: `Bearer ${jwtOf(ALICE)}` })).toMatchObject({ status: 200 });
    const told = await ask(session, `${P}/`, {
      cookie: ['mine=1', '__Host-berth_gateway=secret', 'yours=2'],
      'sec-fetch-site': 'same-origin',
    });
    expect(told).toMatchObject({ status: 200 });
    expect(valuesOf(rawSeen(told.body), 'cookie')).toEqual(['mine=1; yours=2']);
    const elsewhere = await ask(session, `${P}/`, {
      cookie: '__Host-berth_gateway=secret',
      origin: 'https://evil.test',
    });
    expect(elsewhere).toMatchObject({ status: 403 });
  });

  test('what came apart goes on apart, both ways, also where once would be right', async () => {
    const inside = await serve((req, res) => {
      const seen = JSON.stringify(valuesOf(req.rawHeaders, 'x-many'));
      res.writeHead(200, [
        ['Set-Cookie', 'a=1'],
        ['Set-Cookie', 'b=2'],
        ['ETag', '"1"'],
        ['etag', '"2"'],
        ['X-Many', seen],
        ['Content-Type', 'text/plain'],
        ['Content-Type', 'text/html'],
      ]);
      res.end();
    });
    const harness = await gatewayTo(inside.port);
    const { status, raw: list } = await ask(await connected(harness), `${P}/`, { 'x-many': ['one', 'two'] });
    expect(status).toBe(200);
    expect(valuesOf(list, 'set-cookie')).toEqual([`a=1; Path=${P}/`, `b=2; Path=${P}/`]);
    expect(valuesOf(list, 'etag')).toEqual(['"1"', '"2"']);
    expect(valuesOf(list, 'content-type')).toEqual(['text/plain', 'text/html']);
    expect(valuesOf(list, 'x-many')).toEqual(['["one","two"]']);
  });

  test('headers of one connection stay on it, outward too', async () => {
    const inside = await serveTcp((socket) =>
      socket.once('data', () =>
        socket.end(
          'HTTP/1.1 200 OK\r\nConnection: X-Inner, close\r\nX-Inner: 1\r\nKeep-Alive: timeout=9\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n' +
            'Proxy-Connection: close\r\nTE: gzip\r\nX-Stays: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
        ),
      ),
    );
    const harness = await gatewayTo(inside.port);
    const told = await ask(await connected(harness), `${P}/`);
    expect(told).toMatchObject({ status: 200, body: 'ok', whole: true, headers: { 'x-stays': '1' } });
    const hops = /^(x-inner|connection|keep-alive|upgrade|http2-settings|proxy-connection|te|transfer-encoding)$/;
    expect(Object.keys(told.headers).filter((name) => hops.test(name))).toEqual([]);
  });

  test('trailers, early hints, HEAD, 204 and 304', async () => {
    const inside = await serve((req, res) => {
      if (req.url === '/204') return void res.writeHead(204).end();
      if (req.url === '/304') return void res.writeHead(304, { etag: '"x"' }).end();
      if (req.method === 'HEAD') return void res.writeHead(200, { 'content-length': 5 }).end();
      res.writeEarlyHints({ link: ['</a.css>; rel=preload; as=style', '</b.css>; rel=preload; as=style'] });
      res.writeHead(200, { trailer: 'x-sum, set-cookie' });
      res.write('body');
      res.addTrailers({ 'x-sum': 'abc', 'set-cookie': 'AccessToken=evil', 'http2-settings': 'AAA' });
      res.end();
    });
    const harness = await gatewayTo(inside.port);
    const session = await connected(harness);
    const told = await ask(session, `${P}/`);
    expect(told).toMatchObject({ status: 200, body: 'body', whole: true });
    expect(Object.entries(told.trailers)).toEqual([['x-sum', 'abc']]);
    expect(told.information.map(({ ':status': status, link }) => [status, link])).toEqual([
      [103, '</a.css>; rel=preload; as=style, </b.css>; rel=preload; as=style'],
    ]);
    const head = await ask(session, `${P}/`, { ':method': 'HEAD' });
    expect(head).toMatchObject({ status: 200, body: '', whole: true, headers: { 'content-length': '5' } });
    expect(await ask(session, `${P}/204`)).toMatchObject({ status: 204, body: '', whole: true });
    expect(await ask(session, `${P}/304`)).toMatchObject({ status: 304, body: '', headers: { etag: '"x"' } });
    expect(await ask(session, P, { ':method': 'HEAD' })).toMatchObject({ status: 307, body: '' });
    await until('all are done', () => harness.began.every(({ done }) => done));
  });

  test('who waits for 100 Continue is told to go on only when let in, and of expectations knows no other', async () => {
    const inside = await serve((req, res) => req.pipe(res));
    const harness = await gatewayTo(inside.port);
    const session = await connected(harness);
    const posted = (port: number): ClientHttp2Stream =>
      send(
        session,
        { ':method': 'POST', ':path': `/forward/${A}/${port}/`, expect: '100-continue', 'content-length': 4 },
        false,
      );
    const stream = posted(80);
    stream.once('continue', () => stream.end('ping'));
    expect(await heard(stream)).toMatchObject({ status: 200, body: 'ping' });
    const refused = posted(81);
    let told = false;
    refused.once('continue', () => (told = true));
    refused.once('response', () => refused.close());
    expect(await heard(refused)).toMatchObject({ status: 401 });
    expect(told).toBe(false);
    expect(await ask(session, `${P}/`, { expect: '200-ok' })).toMatchObject({ status: 417 });
  });
});

describe('what can be read in two ways is refused, and reaches no instance', () => {
  const AUTHORITY = [':authority', 'gw.test'] as const;
  const head = (...more: (readonly [string, string])[]): Buffer =>
    raw.block([[':method', 'GET'], [':scheme', 'https'], [':path', `${P}/`], ...more]);
  const LENGTH = ['content-length', '5'] as const;

  test.each([
    ['a connection header', head(AUTHORITY, ['connection', 'x-hop'], ['x-hop', '1']), 'reset'],
    ['keep-alive', head(AUTHORITY, ['keep-alive', '300']), 'reset'],
    ['an encoding', head(AUTHORITY, ['transfer-encoding', 'chunked']), 'reset'],
    ['an upgrade', head(AUTHORITY, ['upgrade', 'websocket']), 'reset'],
    ['te of more than trailers', head(AUTHORITY, ['te', 'gzip']), 'reset'],
    ['a name in capitals', head(AUTHORITY, ['X-Up', '1']), 'reset'],
    ['a length without a body', head(AUTHORITY, LENGTH), 'reset'],
    ['two lengths', head(AUTHORITY, LENGTH, LENGTH), 'reset'],
    ['two authorities', head(AUTHORITY, AUTHORITY), 'reset'],
    ['an unknown pseudo-header', head(AUTHORITY, [':other', '1']), 'reset'],
    ['a pseudo-header after others', head(['x-a', '1'], AUTHORITY), 'reset'],
    ['no host at all', head(), 'reset'],
    [
      'extended CONNECT',
      raw.block([
        [':method', 'CONNECT'],
        [':protocol', 'websocket'],
        [':scheme', 'https'],
        [':path', `${P}/`],
        AUTHORITY,
      ]),
      'reset',
    ],
    ['an empty host', head(['host', '']), 'reset or 400'],
    ['two hosts', head(['host', 'a'], ['host', 'a']), 'reset or 400'],
    ['a host that is not the authority', head(AUTHORITY, ['host', 'other.test']), '400'],
    ['a user in the authority', head([':authority', 'me@gw.test']), 'reset or 400'],
    ['CONNECT', raw.block([[':method', 'CONNECT'], AUTHORITY]), '400'],
    ['TRACE', raw.block([[':method', 'TRACE'], [':scheme', 'https'], [':path', `${P}/`], AUTHORITY]), '400'],
    [
      'an unknown method',
      raw.block([[':method', 'SMUGGLE'], [':scheme', 'https'], [':path', `${P}/`], AUTHORITY]),
      '400',
    ],
    ['the asterisk form', raw.block([[':method', 'OPTIONS'], [':scheme', 'https'], [':path', '*'], AUTHORITY]), '400'],
    [
      'an absolute path',
      raw.block([[':method', 'GET'], [':scheme', 'https'], [':path', `https://gw.test${P}/`], AUTHORITY]),
      'reset or 400',
    ],
    ['dots', raw.block([[':method', 'GET'], [':scheme', 'https'], [':path', `${P}/../81/`], AUTHORITY]), '400'],
    ['two authorizations', head(AUTHORITY, ['authorization', 'a'], ['authorization', 'b']), '400'],
    ['two origins', head(AUTHORITY, ['origin', 'a'], ['origin', 'b']), '400'],
  ])('%s', async (_what, fields, how) => {
    let reached = 0;
    const inside = await serve((_req, res) => {
      reached += 1;
      res.end();
    });
    const harness = await gatewayTo(inside.port);
    const client = await raw.rawClient(harness);
    client.socket.write(raw.frame(raw.HEADERS, raw.END_HEADERS | raw.END_STREAM, 1, fields));
    const answered = (): string => {
      if (raw.resetCodeOf(client, 1) === NGHTTP2_PROTOCOL_ERROR) return 'reset';
      const first = client.frames.find(({ type, stream }) => type === raw.HEADERS && stream === 1);
      // The status is the first field; 400 is in the static table, at 12.
      return first?.payload[0] === 0x80 + 12 ? '400' : '';
    };
    await until('it was refused', () => answered() !== '');
    expect(how.split(' or ')).toContain(answered());
    // The connection is none the worse.
    client.socket.write(raw.frame(raw.HEADERS, raw.END_HEADERS | raw.END_STREAM, 3, raw.get('/nothing')));
    await until('the next one is answered', () => client.frames.some(({ stream }) => stream === 3));
    expect([reached, harness.dials]).toEqual([0, 0]);
  });

  test('a host that is the authority, in whatever case, is told once', async () => {
    const inside = await serve(echoHead);
    const harness = await gatewayTo(inside.port);
    const told = await ask(await connected(harness), `${P}/`, { host: 'GW.test' });
    expect(valuesOf(rawSeen(told.body), 'host')).toEqual(['gw.test']);
    const alone = await raw.rawClient(harness);
    alone.socket.write(raw.frame(raw.HEADERS, raw.END_HEADERS | raw.END_STREAM, 1, head(['host', 'gw.test'])));
    await until('it is answered', () =>
      alone.frames.some(({ type, flags }) => type === raw.DATA && flags & raw.END_STREAM),
    );
    const body = Buffer.concat(alone.frames.filter(({ type }) => type === raw.DATA).map(({ payload }) => payload));
    expect(valuesOf(rawSeen(String(body)), 'host')).toEqual(['gw.test']);
  });

  test('what a header may not hold does not reach the instance', async () => {
    const inside = await serve(echoHead);
    const client = await raw.rawClient(await gatewayTo(inside.port));
    const fields = head(AUTHORITY, ['x-a', '1\r\nx-smuggled: 1'], ['x-b', '1\0'], ['x c', '1'], ['x-kept', '1']);
    client.socket.write(raw.frame(raw.HEADERS, raw.END_HEADERS | raw.END_STREAM, 1, fields));
    await until('it is answered', () =>
      client.frames.some(({ type, flags }) => type === raw.RST_STREAM || (type === raw.DATA && flags & raw.END_STREAM)),
    );
    const body = Buffer.concat(client.frames.filter(({ type }) => type === raw.DATA).map(({ payload }) => payload));
    expect(String(body)).not.toMatch(/smuggled|x-b|x c/);
  });
});

/** An instance without sockets of the system between, so that what was written is what the gateway and its client hold. */
function serveInMemory(harness: Harness, listener: RequestListener): void {
  const server = createServer(listener);
  harness.add(A, { publicPorts: [80] }).streams.set(80, () => {
    const [ours, theirs] = duplexPair();
    server.emit('connection', theirs);
    return ours;
  });
}

async function standsStill(value: () => number): Promise<number> {
  let last = -1;
  let still = 0;
  await until('it stands still', () => {
    still = value() > 0 && value() === last ? still + 1 : 0;
    last = value();
    return still > 40;
  });
  return last;
}

describe('bodies flow, and each stream for itself', () => {
  test('64 MB go in and come out unchanged', async () => {
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

  test('events arrive one by one, as they are sent', async () => {
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

  /** Sends at `/endless` until it is full, and counts. */
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

  test('a reader of one stream that does not read stops its instance, and no other stream', async () => {
    const harness = await gateway();
    const written = endless(harness);
    const session = await connected(harness);
    const slow = send(session, { ':path': `${P}/endless` });
    slow.pause();
    const bytes = await standsStill(written);
    expect(bytes).toBeLessThan(512 << 10); // the client's window and buffer among it
    for (let count = 0; count < 5; count += 1) expect(await ask(session, `${P}/`)).toMatchObject({ body: 'short' });
    slow.on('data', () => {});
    slow.resume();
    await until('it goes on', () => written() > bytes + (8 << 20));
    slow.close(NGHTTP2_CANCEL);
  });

  test('a client with wide windows that reads nothing of its connection stops its instance, too, and is missed when it leaves', async () => {
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
    // Mostly in the two buffers that the system gives the connection.
    expect(await standsStill(written)).toBeLessThan(16 << 20);
    client.socket.destroy();
    await until('it is missed', () => harness.began.every(({ done }) => done));
  });

  test('an upload that its instance does not read holds one window, and stops no other', async () => {
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
    // More of them than the window of the connection would let through.
    const stalled = Array.from({ length: 8 }, upload);
    for (const { sent } of stalled) expect(await standsStill(sent)).toBeLessThan(768 << 10);
    const other = send(session, { ':method': 'POST', ':path': `${P}/` }, false);
    other.end('y'.repeat(500_000));
    expect((await heard(other)).body).toHaveLength(500_000);
    for (const { stream } of stalled) stream.close(NGHTTP2_CANCEL);
  });

  test('an answer before the end of the upload arrives, and the upload is stopped after a while', async () => {
    const inside = await serve((_req, res) => res.writeHead(413).end('too large'));
    const harness = await gatewayTo(inside.port);
    const stream = send(await connected(harness), { ':method': 'POST', ':path': `${P}/` }, false);
    stream.write(Buffer.alloc(100_000));
    expect(await heard(stream)).toMatchObject({ status: 413, body: 'too large', rstCode: NGHTTP2_NO_ERROR });
    await until('it is done', () => harness.began.every(({ done }) => done));
  });
});

describe('who leaves is missed', () => {
  test.each(['GET', 'HEAD'])('a %s that is reset aborts the request inside, and only that one', async (method) => {
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
    await until('all are inside', () => harness.dialled.size === 3);
    if (method === 'GET') await Promise.all(answered);
    open[0]?.close(NGHTTP2_CANCEL);
    open[1]?.close(NGHTTP2_CANCEL);
    await until('two were aborted', () => left.length === 2);
    expect(left.toSorted()).toEqual(['/before', '/within']);
    expect(await ask(session, `${P}/short`)).toMatchObject({ body: 'ok' });
    expect(left).toHaveLength(2);
    session.destroy();
    await until('the third went with its connection', () => left.length === 3);
    await until('all are done', () => harness.began.every(({ done }) => done));
  });

  test.each([
    ['as it is done', NGHTTP2_CANCEL],
    ['as if all were well', NGHTTP2_NO_ERROR],
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
    await until('a part is inside', () => received === 6);
    client.socket.write(raw.frame(raw.RST_STREAM, 0, 1, raw.uint32(code)));
    await until('it ended', () => how !== '');
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
    const told = await ask(session, `${P}/`);
    expect(told).toMatchObject({ status: 200, whole: false, rstCode: constants.NGHTTP2_INTERNAL_ERROR });
    expect(await ask(session, `${P}/short`)).toMatchObject({ status: 200, body: 'ok', whole: true });
    const client = await raw.rawClient(harness);
    client.socket.write(raw.frame(raw.HEADERS, raw.END_HEADERS | raw.END_STREAM, 1, raw.get(`${P}/`)));
    await until('it is reset', () => raw.resetCodeOf(client, 1) !== null);
    expect(client.frames.filter(({ type, flags }) => type === raw.DATA && flags & raw.END_STREAM)).toEqual([]);
  });

  test.each([
    ['nothing', ''],
    ['half a head', 'HTTP/1.1 200 OK\r\nContent-Le'],
    ['a status that HTTP does not know', 'HTTP/1.1 777 Odd\r\nContent-Length: 0\r\n\r\n'],
  ])('an instance that dies after %s makes a 502', async (_what, bytes) => {
    const inside = await serveTcp((socket) => socket.once('data', () => socket.end(bytes)));
    const harness = await gatewayTo(inside.port);
    const told = await ask(await connected(harness), `${P}/`);
    expect(told).toMatchObject({ status: 502, headers: { 'x-error-code': 'unavailable' } });
  });

  test('an upload that is reset while its instance does not read is given up', async () => {
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
    await until('the window is widened', () => client.frames.some(({ type }) => type === raw.WINDOW_UPDATE));
    for (let count = 0; count < 15; count += 1) client.socket.write(raw.frame(raw.DATA, 0, 1, Buffer.alloc(16_384)));
    await until('it is under way', () => harness.began.length === 1);
    client.socket.write(raw.frame(raw.RST_STREAM, 0, 1, raw.uint32(NGHTTP2_NO_ERROR)));
    await until('it is done', () => harness.began.every(({ done }) => done));
    expect(raw.resetCodeOf(client, 1)).toBe(null);
  });

  test('who is not let in any more is cut off, and nobody else on the connection', async () => {
    const inside = await serve((_req, res) => void res.write('beginning'));
    const harness = await gateway({ revocationMs: 20 });
    harness.add(A, { owner: ALICE, publicPorts: [81], ports: { 80: inside.port, 81: inside.port } });
    harness.sessions.set('secret', ALICE);
    const session = await connected(harness);
    const cookie = { cookie: '__Host-berth_gateway=secret', 'sec-fetch-site': 'none' };
    const own = send(session, { ':path': `${P}/`, ...cookie });
    const all = send(session, { ':path': `/forward/${A}/81/` });
    await Promise.all([once(own, 'response'), once(all, 'response')]);
    const told = heard(own);
    harness.sessions.delete('secret');
    expect(await told).toMatchObject({ whole: false, rstCode: constants.NGHTTP2_INTERNAL_ERROR });
    expect(all.closed).toBe(false);
    all.close(NGHTTP2_CANCEL);
  });
});

const goawayOf = (client: raw.RawClient): number | null =>
  client.frames.findLast(({ type }) => type === raw.GOAWAY)?.payload.readUInt32BE(4) ?? null;

describe('a stop', () => {
  test('says so, lets what runs end, and takes no more', async () => {
    let finish: () => void = () => {};
    const inside = await serve((_req, res) => {
      res.write('be');
      finish = (): void => void res.end('gun');
    });
    const harness = await gatewayTo(inside.port);
    const [session, idle] = [await connected(harness), await connected(harness)];
    const stream = send(session, { ':path': `${P}/` });
    await once(stream, 'response');
    const told = heard(stream);
    const goaways: number[] = [];
    for (const one of [session, idle]) one.on('goaway', (code) => goaways.push(code));
    const stopped = harness.gateway.stop();
    await until('both are told', () => goaways.length === 2);
    expect(goaways).toEqual([NGHTTP2_NO_ERROR, NGHTTP2_NO_ERROR]);
    await until('the idle one is closed', () => idle.destroyed);
    finish();
    expect(await told).toMatchObject({ body: 'begun', whole: true });
    await stopped;
  });

  test('cuts what still runs after the grace, and that does not look whole', async () => {
    const inside = await serve((_req, res) => void res.write('beginning'));
    const harness = await gatewayTo(inside.port, { stopGraceMs: 50 });
    const client = await raw.rawClient(harness);
    client.socket.write(raw.frame(raw.HEADERS, raw.END_HEADERS | raw.END_STREAM, 1, raw.get(`${P}/`)));
    await until('it is under way', () => client.frames.some(({ type }) => type === raw.DATA));
    // This client never closes its side.
    await harness.gateway.stop();
    await until('the end is seen', () => client.closed);
    expect(goawayOf(client)).toBe(constants.NGHTTP2_INTERNAL_ERROR);
    expect(client.frames.filter(({ type, flags }) => type === raw.DATA && flags & raw.END_STREAM)).toEqual([]);
  });
});

describe('limits', () => {
  test('more requests at once than one connection may have are refused, and can be sent again', async () => {
    const waiting: (() => void)[] = [];
    const inside = await serve((_req, res) => void waiting.push(() => res.end('ok')));
    const harness = await gatewayTo(inside.port, { streams: 3 });
    const client = await raw.rawClient(harness);
    for (const stream of [1, 3, 5, 7]) {
      client.socket.write(raw.frame(raw.HEADERS, raw.END_HEADERS | raw.END_STREAM, stream, raw.get(`${P}/`)));
    }
    await until('the last is refused', () => raw.resetCodeOf(client, 7) === NGHTTP2_REFUSED_STREAM);
    await until('three are inside', () => waiting.length === 3);
    for (const end of waiting.splice(0)) end();
    await until(
      'they are answered',
      () => client.frames.filter(({ flags, type }) => type === raw.DATA && flags & raw.END_STREAM).length === 3,
    );
    client.socket.write(raw.frame(raw.HEADERS, raw.END_HEADERS | raw.END_STREAM, 9, raw.get(`${P}/`)));
    await until('another is let in', () => waiting.length === 1);
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
    await until('what is below it passes', () => reached === 1);
    send(3, 70);
    await until('it is refused', () => client.frames.some(({ stream }) => stream === 3) || client.closed);
    await until('the connection is answered on', () => {
      client.socket.write(raw.frame(raw.PING, 0, 0, Buffer.alloc(8)));
      return client.frames.some(({ type }) => type === raw.PING);
    });
    expect(reached).toBe(1);
    expect(raw.resetCodeOf(client, 3)).toBe(polite ? constants.NGHTTP2_ENHANCE_YOUR_CALM : null);
  });

  test('who opens and resets again and again is shown out', async () => {
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
    await until('nothing of it is left', () => harness.dialled.size === 0 && harness.began.every(({ done }) => done));
  });

  test.each([
    ['SETTINGS', raw.frame(raw.SETTINGS, 0, 0)],
    ['PINGs', raw.frame(raw.PING, 0, 0, Buffer.alloc(8))],
  ])('who sends %s and reads no acknowledgement is listened to no longer', async (_what, one) => {
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
    expect(await standsStill(() => bytes)).toBeLessThan(32 << 20);
    enough = true;
  });

  test('CONTINUATION without end is shown out', async () => {
    const client = await raw.rawClient(await gateway());
    client.socket.write(raw.frame(raw.HEADERS, raw.END_STREAM, 1, raw.get('/')));
    for (let count = 0; count < 20; count += 1) client.socket.write(raw.frame(raw.CONTINUATION, 0, 1, Buffer.alloc(0)));
    await until('the connection is closed', () => client.closed);
    expect(goawayOf(client)).not.toBe(NGHTTP2_NO_ERROR);
  });

  test('a connection without a request is closed, the first in the time of a head, later ones in that of idleness', async () => {
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
    // PINGs are no requests.
    const pings = setInterval(() => half.socket.write(raw.frame(raw.PING, 0, 0, Buffer.alloc(8))), 50);
    onCleanup(async () => clearInterval(pings));
    await until('it is closed', () => half.closed);
    const session = await connected(harness);
    // A request takes as long as it takes.
    for (let count = 0; count < 2; count += 1)
      expect(await ask(session, `${P}/`)).toMatchObject({ body: 'late', whole: true });
    await until('it is closed after it', () => session.destroyed);
  });
});
