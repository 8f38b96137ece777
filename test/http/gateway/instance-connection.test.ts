/** Upstream connections are reused only if earlier traffic cannot be mistaken for a response. */
import type { Socket } from 'node:net';
import { expect, test } from 'vitest';
import { ask, idOf, sendRaw, serveTcp, start, until, type Harness } from './harness.ts';

const A = idOf('a');
const P = `/forward/${A}/80`;

/**
 * An instance with custom behaviour per request, given the connection's number and the received
 * text.
 */
async function instance(onRequest: (socket: Socket, connection: number, text: string) => void): Promise<Harness> {
  let count = 0;
  const { port } = await serveTcp((socket) => {
    const connection = ++count;
    socket.on('data', (text) => onRequest(socket, connection, text.toString('latin1')));
  });
  // Long timeouts: nothing closes during the test.
  const harness = await start({ limits: { idleConnectionMs: 60_000, idlePoolMs: 60_000 } });
  harness.add(A, { publicPorts: [80], ports: { 80: port } });
  return harness;
}

const answer = (text: string, more = ''): string =>
  `HTTP/1.1 200 OK\r\n${more}Content-Length: ${text.length}\r\n\r\n${text}`;

test.each([
  ['sends no Keep-Alive', '', ['1', '1', '1']],
  ['keeps the connection for a minute', 'Keep-Alive: timeout=60\r\n', ['1', '1', '1']],
  ['keeps the connection for two seconds', 'Keep-Alive: timeout=2\r\n', ['1', '2', '3']],
  ['closes the connection', 'Connection: close\r\n', ['1', '2', '3']],
])('an instance that %s', async (_what, header, connections) => {
  const harness = await instance((socket, connection) => socket.write(answer(String(connection), header)));
  const seen: string[] = [];
  for (let count = 0; count < 3; count += 1) seen.push((await ask(harness, `${P}/`)).body);
  expect(seen).toEqual(connections);
});

test('retries an idempotent request when an idle connection closes', async () => {
  let requests = 0;
  const harness = await instance((socket, connection, text) => {
    requests += 1;
    // The second request on each connection finds it closed.
    if (text.includes('second')) socket.resetAndDestroy();
    else socket.write(answer(String(connection)));
  });
  expect((await ask(harness, `${P}/first`)).body).toBe('1');
  const get = await ask(harness, `${P}/second`);
  expect([get.status, requests]).toEqual([502, 3]); // a single retry
  expect((await ask(harness, `${P}/first`)).body).toBe('3');
  expect((await ask(harness, `${P}/second`, { method: 'POST' })).status).toBe(502);
  expect(requests).toBe(5);
  expect((await ask(harness, `${P}/first`)).body).toBe('4');
  const headers = { 'content-length': '1' };
  expect((await ask(harness, `${P}/second`, { headers, body: 'x' })).status).toBe(502);
  expect(requests).toBe(7);
});

test('does not reuse a connection answered before the end of its request', async () => {
  const harness = await instance((socket, connection, text) => {
    if (text.startsWith('POST') || text.startsWith('GET')) socket.write(answer(String(connection)));
  });
  const upload = `POST ${P}/ HTTP/1.1\r\nHost: h\r\nContent-Length: 40\r\nConnection: close\r\n\r\nGET /inner HTTP/1.1`;
  const asked = sendRaw(harness, upload);
  await until('the upstream connection is closed', () => harness.dials === 1 && harness.dialled.size === 0);
  expect((await ask(harness, `${P}/`)).body).toBe('2');
  expect(await asked).toMatch(/^HTTP\/1\.1 200 OK[^]*\r\n\r\n1$/);
});

test('closes an idle connection that receives data', async () => {
  const harness = await instance((socket, connection) => {
    socket.write(answer(String(connection)));
    setTimeout(() => socket.write(answer('nobody asked')), 20);
  });
  expect((await ask(harness, `${P}/`)).body).toBe('1');
  await until('the upstream connection is closed', () => harness.dialled.size === 0);
  expect((await ask(harness, `${P}/`)).body).toBe('2');
});

test('forwards a body of unknown length in chunks, and marks an empty one', async () => {
  const seen: string[] = [];
  const harness = await instance((socket, _connection, text) => {
    seen.push(text);
    if (text.endsWith('\r\n\r\n')) socket.write(answer('ok'));
  });
  const chunked = `POST ${P}/ HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n`;
  await sendRaw(harness, chunked);
  expect(seen.join('')).toMatch(
    /^POST \/ HTTP\/1\.1\r\n[^]*Transfer-Encoding: chunked\r\n[^]*\r\n\r\n3\r\nabc\r\n0\r\n\r\n$/,
  );
  seen.length = 0;
  await sendRaw(harness, `POST ${P}/ HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n`);
  expect(seen.join('')).toContain('\r\nContent-Length: 0\r\n');
});
