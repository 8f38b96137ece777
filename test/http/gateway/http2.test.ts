/** HTTP/2 downstream: a stream has the same guarantees as an HTTP/1.1 request. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:http2';
import type { ClientHttp2Stream } from 'node:http2';
import { get as getOverTls } from 'node:https';
import { connect as connectTls } from 'node:tls';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import WebSocket, { WebSocketServer } from 'ws';
import { ALICE, MALLORY, echoHead, jwtOf, onCleanup, serve, serveTcp, until } from './harness.ts';
import * as raw from './http2-frames.ts';
import { A, P, ask, connected, gateway, gatewayTo, heard, rawSeen, send, valuesOf } from './http2-client.ts';

const { NGHTTP2_PROTOCOL_ERROR } = constants;

describe('ALPN selects the protocol', () => {
  test('serves HTTP/2, HTTP/1.1 by request or default, and WebSockets by HTTP/1.1 on one port', async () => {
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
    await until('its settings came', () => session.remoteSettings.maxHeaderListSize === 61_440);
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
  test('works with curl --http2', async ({ skip }) => {
    const version = await curl('curl', ['--version']).then(
      ({ stdout }) => stdout,
      () => '',
    );
    skip(!/^Features:.*\bHTTP2\b/m.test(version), 'there is no curl with HTTP/2');
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

describe('requests and responses are forwarded', () => {
  test('forwards method, path, headers, body and forwarding headers', async () => {
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
    const reported = await heard(stream);
    expect(reported).toMatchObject({
      status: 418,
      whole: true,
      headers: { 'x-from': 'inside', 'x-latin': 'caf\u00e9' },
    });
    expect(JSON.parse(reported.body)).toMatchObject({
      method: 'PUT',
      url: '/a%2Fb?c=d',
      got: 'the body',
      headers: {
        host: 'gw.test:81',
        'x-custom': 'caf\u00e9',
        // Unknown length.
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

  test('serves several port hosts on one connection', async () => {
    const inside = await serve(echoHead);
    const harness = await gateway({}, { portDomain: 'gpu.test' });
    harness.add(A, { publicPorts: [80, 81], ports: { 80: inside.port } });
    const session = await connected(harness);
    const reported = await ask(session, '/x', { ':authority': `80-${A}.gpu.test` });
    expect(JSON.parse(reported.body)).toMatchObject({ url: '/x', headers: { host: `80-${A}.gpu.test` } });
    expect(await ask(session, '/x', { ':authority': `81-${A}.gpu.test` })).toMatchObject({ status: 503 });
    expect(await ask(session, '/x', { ':authority': 'other.test' })).toMatchObject({ status: 404 });
  });

  test('admits the owner by credential or by split cookie headers', async () => {
    const inside = await serve(echoHead);
    const harness = await gateway();
    harness.add(A, { owner: ALICE, ports: { 80: inside.port } });
    harness.sessions.set('secret', ALICE);
    const session = await connected(harness);
    expect(await ask(session, `${P}/`)).toMatchObject({ status: 401 });
    expect(await ask(session, `${P}/`, { authorization: `Bearer ${jwtOf(MALLORY)}` })).toMatchObject({ status: 404 });
    expect(await ask(session, `${P}/`, { authorization: `Bearer ${jwtOf(ALICE)}` })).toMatchObject({ status: 200 });
    const reported = await ask(session, `${P}/`, {
      cookie: ['mine=1', '__Host-berth_gateway=secret', 'yours=2'],
      'sec-fetch-site': 'same-origin',
    });
    expect(reported).toMatchObject({ status: 200 });
    expect(valuesOf(rawSeen(reported.body), 'cookie')).toEqual(['mine=1; yours=2']);
    const elsewhere = await ask(session, `${P}/`, {
      cookie: '__Host-berth_gateway=secret',
      origin: 'https://evil.test',
    });
    expect(elsewhere).toMatchObject({ status: 403 });
  });

  test('preserves repeated headers both ways', async () => {
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

  test('removes connection headers from responses', async () => {
    const inside = await serveTcp((socket) =>
      socket.once('data', () =>
        socket.end(
          'HTTP/1.1 200 OK\r\nConnection: X-Inner, close\r\nX-Inner: 1\r\nKeep-Alive: timeout=9\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n' +
            'Proxy-Connection: close\r\nTE: gzip\r\nX-Stays: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
        ),
      ),
    );
    const harness = await gatewayTo(inside.port);
    const reported = await ask(await connected(harness), `${P}/`);
    expect(reported).toMatchObject({ status: 200, body: 'ok', whole: true, headers: { 'x-stays': '1' } });
    const hops = /^(x-inner|connection|keep-alive|upgrade|http2-settings|proxy-connection|te|transfer-encoding)$/;
    expect(Object.keys(reported.headers).filter((name) => hops.test(name))).toEqual([]);
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
    const reported = await ask(session, `${P}/`);
    expect(reported).toMatchObject({ status: 200, body: 'body', whole: true });
    expect(Object.entries(reported.trailers)).toEqual([['x-sum', 'abc']]);
    expect(reported.information.map(({ ':status': status, link }) => [status, link])).toEqual([
      [103, '</a.css>; rel=preload; as=style, </b.css>; rel=preload; as=style'],
    ]);
    const head = await ask(session, `${P}/`, { ':method': 'HEAD' });
    expect(head).toMatchObject({ status: 200, body: '', whole: true, headers: { 'content-length': '5' } });
    expect(await ask(session, `${P}/204`)).toMatchObject({ status: 204, body: '', whole: true });
    expect(await ask(session, `${P}/304`)).toMatchObject({ status: 304, body: '', headers: { etag: '"x"' } });
    expect(await ask(session, P, { ':method': 'HEAD' })).toMatchObject({ status: 307, body: '' });
    await until('all requests have ended', () => harness.began.every(({ done }) => done));
  });

  test('sends 100 Continue to authorized clients only, and refuses other expectations', async () => {
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
    let reported = false;
    refused.once('continue', () => (reported = true));
    refused.once('response', () => refused.close());
    expect(await heard(refused)).toMatchObject({ status: 401 });
    expect(reported).toBe(false);
    expect(await ask(session, `${P}/`, { expect: '200-ok' })).toMatchObject({ status: 417 });
  });
});

describe('ambiguous requests are refused and reach no instance', () => {
  const AUTHORITY = [':authority', 'gw.test'] as const;
  const head = (...more: (readonly [string, string])[]): Buffer =>
    raw.block([[':method', 'GET'], [':scheme', 'https'], [':path', `${P}/`], ...more]);
  const LENGTH = ['content-length', '5'] as const;

  test.each([
    ['a connection header', head(AUTHORITY, ['connection', 'x-hop'], ['x-hop', '1']), 'reset'],
    ['keep-alive', head(AUTHORITY, ['keep-alive', '300']), 'reset'],
    ['an encoding', head(AUTHORITY, ['transfer-encoding', 'chunked']), 'reset'],
    ['an upgrade', head(AUTHORITY, ['upgrade', 'websocket']), 'reset'],
    ['TE other than trailers', head(AUTHORITY, ['te', 'gzip']), 'reset'],
    ['a header name in capitals', head(AUTHORITY, ['X-Up', '1']), 'reset'],
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
    ['a host that differs from the authority', head(AUTHORITY, ['host', 'other.test']), '400'],
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
      // The status is the first field; 400 is entry 12 of the static table.
      return first?.payload[0] === 0x80 + 12 ? '400' : '';
    };
    await until('the request is refused', () => answered() !== '');
    expect(how.split(' or ')).toContain(answered());
    // The connection survives.
    client.socket.write(raw.frame(raw.HEADERS, raw.END_HEADERS | raw.END_STREAM, 3, raw.get('/nothing')));
    await until('the next request is answered', () => client.frames.some(({ stream }) => stream === 3));
    expect([reached, harness.dials]).toEqual([0, 0]);
  });

  test('sends Host once when it equals the authority in any case', async () => {
    const inside = await serve(echoHead);
    const harness = await gatewayTo(inside.port);
    const reported = await ask(await connected(harness), `${P}/`, { host: 'GW.test' });
    expect(valuesOf(rawSeen(reported.body), 'host')).toEqual(['gw.test']);
    const alone = await raw.rawClient(harness);
    alone.socket.write(raw.frame(raw.HEADERS, raw.END_HEADERS | raw.END_STREAM, 1, head(['host', 'gw.test'])));
    await until('the request is answered', () =>
      alone.frames.some(({ type, flags }) => type === raw.DATA && flags & raw.END_STREAM),
    );
    const body = Buffer.concat(alone.frames.filter(({ type }) => type === raw.DATA).map(({ payload }) => payload));
    expect(valuesOf(rawSeen(String(body)), 'host')).toEqual(['gw.test']);
  });

  test('rejects invalid header values', async () => {
    const inside = await serve(echoHead);
    const client = await raw.rawClient(await gatewayTo(inside.port));
    const fields = head(AUTHORITY, ['x-a', '1\r\nx-smuggled: 1'], ['x-b', '1\0'], ['x c', '1'], ['x-kept', '1']);
    client.socket.write(raw.frame(raw.HEADERS, raw.END_HEADERS | raw.END_STREAM, 1, fields));
    await until('the request is answered', () =>
      client.frames.some(({ type, flags }) => type === raw.RST_STREAM || (type === raw.DATA && flags & raw.END_STREAM)),
    );
    const body = Buffer.concat(client.frames.filter(({ type }) => type === raw.DATA).map(({ payload }) => payload));
    expect(String(body)).not.toMatch(/smuggled|x-b|x c/);
  });
});
