/** Ambiguous requests on raw sockets are refused and never reach an instance. */
import { describe, expect, test } from 'vitest';
import { ask, idOf, sendRaw, serve, serveTcp, start } from './harness.ts';

const A = idOf('a');
const B = idOf('b');
const P = `/forward/${A}/80`;

const body = 'GET /secret HTTP/1.1\r\nHost: h\r\n\r\n';
const close = 'Connection: close\r\n';

const refused: [string, string][] = [
  [
    'both lengths',
    `POST ${P}/ HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${body}`,
  ],
  [
    'both lengths, in reverse order',
    `POST ${P}/ HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n`,
  ],
  ['two lengths', `POST ${P}/ HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab`],
  ['two equal lengths', `POST ${P}/ HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab`],
  ['a length in a list', `POST ${P}/ HTTP/1.1\r\nHost: h\r\nContent-Length: 2, 2\r\n\r\nab`],
  ['a signed length', `POST ${P}/ HTTP/1.1\r\nHost: h\r\nContent-Length: +2\r\n\r\nab`],
  ['a length in hex', `POST ${P}/ HTTP/1.1\r\nHost: h\r\nContent-Length: 0x2\r\n\r\nab`],
  ['a length below zero', `POST ${P}/ HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\nab`],
  ['an unknown encoding', `POST ${P}/ HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n${close}\r\n0\r\n\r\n`],
  ['two encodings', `POST ${P}/ HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n${close}\r\n0\r\n\r\n`],
  [
    'chunked twice',
    `POST ${P}/ HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n${close}\r\n0\r\n\r\n`,
  ],
  [
    'identity after chunked',
    `POST ${P}/ HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, identity\r\n${close}\r\n0\r\n\r\n`,
  ],
  [
    'an encoding with a vertical tab',
    `POST ${P}/ HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\x0bchunked\r\n${close}\r\n0\r\n\r\n`,
  ],
  ['an encoding of HTTP/1.0', `POST ${P}/ HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
  ['a space before the colon', `POST ${P}/ HTTP/1.1\r\nHost: h\r\nContent-Length : 5\r\n\r\nhello`],
  [
    'a space before the colon of the encoding',
    `POST ${P}/ HTTP/1.1\r\nHost: h\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n`,
  ],
  ['a folded header', `GET ${P}/ HTTP/1.1\r\nHost: h\r\nX-A: 1\r\n Content-Length: 5\r\n${close}\r\n`],
  ['a bare line feed in a header', `GET ${P}/ HTTP/1.1\r\nHost: h\r\nX-A: 1\nX-B: 2\r\n${close}\r\n`],
  ['a bare carriage return in a header', `GET ${P}/ HTTP/1.1\r\nHost: h\r\nX-A: 1\rX-B: 2\r\n${close}\r\n`],
  ['a NUL in a header', `GET ${P}/ HTTP/1.1\r\nHost: h\r\nX-A: 1\x002\r\n${close}\r\n`],
  ['no host', `GET ${P}/ HTTP/1.1\r\n${close}\r\n`],
  ['two hosts', `GET ${P}/ HTTP/1.1\r\nHost: h\r\nHost: other\r\n${close}\r\n`],
  ['an invalid host', `GET ${P}/ HTTP/1.1\r\nHost: h"; x\r\n${close}\r\n`],
  ['a host with a path', `GET ${P}/ HTTP/1.1\r\nHost: h/../x\r\n${close}\r\n`],
  ['two authorizations', `GET ${P}/ HTTP/1.1\r\nHost: h\r\nAuthorization: a\r\nAuthorization: b\r\n${close}\r\n`],
  ['two origins', `GET ${P}/ HTTP/1.1\r\nHost: h\r\nOrigin: a\r\nOrigin: b\r\n${close}\r\n`],
  ['the absolute form', `GET http://h${P}/ HTTP/1.1\r\nHost: h\r\n${close}\r\n`],
  ['the absolute form of another host', `GET http://other${P}/ HTTP/1.1\r\nHost: h\r\n${close}\r\n`],
  ['the asterisk form', `OPTIONS * HTTP/1.1\r\nHost: h\r\n${close}\r\n`],
  ['the authority form', `CONNECT ${A}:80 HTTP/1.1\r\nHost: h\r\n${close}\r\n`],
  ['CONNECT of a path', `CONNECT ${P}/ HTTP/1.1\r\nHost: h\r\n${close}\r\n`],
  ['TRACE', `TRACE ${P}/ HTTP/1.1\r\nHost: h\r\n${close}\r\n`],
  ['an unknown method', `SMUGGLE ${P}/ HTTP/1.1\r\nHost: h\r\n${close}\r\n`],
  ['another version', `GET ${P}/ HTTP/1.2\r\nHost: h\r\n${close}\r\n`],
  ['two spaces and a path', `GET  ${P}/ HTTP/1.1 x\r\nHost: h\r\n${close}\r\n`],
  ['dots to another instance', `GET ${P}/../../${B}/80/ HTTP/1.1\r\nHost: h\r\n${close}\r\n`],
  ['encoded dots', `GET ${P}/%2e%2e/%2E./${B}/80/ HTTP/1.1\r\nHost: h\r\n${close}\r\n`],
  ['a backslash', `GET ${P}\\..\\${B}\\80\\ HTTP/1.1\r\nHost: h\r\n${close}\r\n`],
  ['an unknown expectation', `POST ${P}/ HTTP/1.1\r\nHost: h\r\nExpect: 200-ok\r\nContent-Length: 0\r\n${close}\r\n`],
  [
    'headers beyond the limit',
    `GET ${P}/ HTTP/1.1\r\nHost: h\r\n${`X-Long: ${'x'.repeat(1_000)}\r\n`.repeat(40)}${close}\r\n`,
  ],
  ['bytes that are not HTTP', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
];

test.each(refused)('%s', async (_name, text) => {
  let reached = 0;
  const inside = await serve((_req, res) => {
    reached += 1;
    res.end('inside');
  });
  const harness = await start();
  for (const id of [A, B]) harness.add(id, { publicPorts: [80], ports: { 80: inside.port } });
  const answer = await sendRaw(harness, text);
  expect(answer).toMatch(/^HTTP\/1\.1 (400|405|417|431|404) /);
  expect(answer).toMatch(/\r\nX-Error-Code: \w+\r\n/);
  expect(answer).not.toContain('inside');
  // The fake body did not arrive as a second request.
  expect(reached).toBe(0);
});

test('asks a client that begins with HTTP/2 for HTTP/1.1, and reads nothing behind', async () => {
  let reached = 0;
  const inside = await serve((_req, res) => res.end(String((reached += 1))));
  const harness = await start();
  harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
  const behind = `GET ${P}/ HTTP/1.1\r\nHost: h\r\n\r\n`;
  const answer = await sendRaw(harness, `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${behind}`);
  // SETTINGS, then RST_STREAM of the first stream by HTTP_1_1_REQUIRED.
  expect(answer).toBe('\0\0\0\x04\0\0\0\0\0\0\0\x04\x03\0\0\0\0\x01\0\0\0\x0d');
  expect(reached).toBe(0);
});

test('answers the requests in front of a malformed one, then refuses that one', async () => {
  const inside = await serve((_req, res) => setTimeout(() => res.end('inside'), 20));
  const harness = await start();
  harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
  const good = `GET ${P}/ HTTP/1.1\r\nHost: h\r\n\r\n`;
  const answer = await sendRaw(harness, `${good}${good}hello\r\n\r\n`);
  expect(answer.match(/HTTP\/1\.1 \d{3}|inside/g)).toEqual([
    'HTTP/1.1 200',
    'inside',
    'HTTP/1.1 200',
    'inside',
    'HTTP/1.1 400',
  ]);
});

describe('well-formed requests pass unambiguously', () => {
  test('forwards a chunked body with extensions and trailers as one body', async () => {
    const heads: string[] = [];
    const inside = await serve((req, res) => {
      heads.push(req.rawHeaders.join('|'));
      req.pipe(res);
    });
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const text = `POST ${P}/ HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n${close}\r\n5;a=b\r\nhello\r\n0\r\nX-T: 1\r\n\r\n`;
    expect(await sendRaw(harness, text)).toMatch(/^HTTP\/1\.1 200 OK\r\n[^]*hello/);
    expect(heads).toHaveLength(1);
    expect(heads[0]).not.toMatch(/trailer|content-length/i);
  });

  test('forwards a body that looks like a request as a body', async () => {
    const inside = await serve((req, res) => req.pipe(res));
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    expect(
      await ask(harness, `${P}/`, { method: 'GET', headers: { 'content-length': String(body.length) }, body }),
    ).toMatchObject({ body });
    expect(
      await ask(harness, `${P}/`, { method: 'DELETE', headers: { 'content-length': String(body.length) }, body }),
    ).toMatchObject({ body });
  });

  test('preserves non-ASCII header bytes both ways', async () => {
    let got = '';
    const inside = await serveTcp((socket) =>
      socket.once('data', (head) => {
        got = head.toString('latin1');
        socket.end(Buffer.from('HTTP/1.1 200 OK\r\nX-Back: \xe9\xff\r\nContent-Length: 0\r\n\r\n', 'latin1'));
      }),
    );
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    const answer = await sendRaw(harness, `GET ${P}/ HTTP/1.1\r\nHost: h\r\nX-There: \xe9\xff\r\n${close}\r\n`);
    expect(got).toMatch(/X-There: \xe9\xff\r\n/);
    expect(answer).toContain('X-Back: \xe9\xff\r\n');
  });

  test('never sends a surplus response to the next client', async () => {
    const inside = await serveTcp((socket) => {
      socket.on('data', (head) => {
        const url = head.toString('latin1').split(' ')[1];
        const one = (text: string): string => `HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text}`;
        socket.write(url === '/twice' ? one('first') + one('second') : one(`right ${url}`));
      });
    });
    const harness = await start();
    harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
    for (let round = 0; round < 5; round += 1) {
      expect((await ask(harness, `${P}/twice`)).body).toBe('first');
      expect((await ask(harness, `${P}/${round}`)).body).toBe(`right /${round}`);
    }
  });
});
