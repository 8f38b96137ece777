/**
 * Connection limit: open connections continue, excess ones get an error, and new ones are accepted
 * once there is capacity.
 */
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { expect, test } from 'vitest';
import { connectionsOf } from '../../../src/main/open-files.ts';
import { ask, idOf, onCleanup, sendRaw, serve, start, until } from './harness.ts';
import type { Harness } from './harness.ts';
import { ask as askHttp2, connected, tls } from './http2-client.ts';

const A = idOf('a');
const PATH = `/forward/${A}/80/`;
const LIMIT = 5;
/** Same as in `connection-limit.ts`. */
const EXCESS_CONNECTIONS = 64;

function destroyAll(sockets: readonly Socket[]): void {
  for (const socket of sockets) socket.destroy();
}

async function full(more: Parameters<typeof start>[0] = {}): Promise<{ harness: Harness; openSockets: Socket[] }> {
  const inside = await serve((_req, res) => res.end('ok'));
  const harness = await start({ limits: { connections: LIMIT }, ...more });
  harness.add(A, { publicPorts: [80], ports: { 80: inside.port } });
  const openSockets = Array.from({ length: LIMIT }, () => connect(harness.port, '127.0.0.1').on('error', () => {}));
  onCleanup(async () => destroyAll(openSockets));
  await Promise.all(openSockets.map((socket) => new Promise((resolve) => socket.once('connect', resolve))));
  return { harness, openSockets };
}

const warnings = ({ logged }: Harness): number =>
  logged.filter(({ text }) => text.includes('limit of client connections and refuses new ones')).length;

test('refuses requests and WebSockets above the limit, and keeps earlier ones', async () => {
  const { harness, openSockets } = await full();
  for (let count = 0; count < 3; count += 1) {
    const answered = await ask(harness, PATH);
    expect(answered).toMatchObject({ status: 503, headers: { 'retry-after': '5', connection: 'close' } });
    expect(answered.body).toContain('as many client connections as it allows');
  }
  const upgrade = `GET ${PATH} HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`;
  expect(await sendRaw(harness, upgrade)).toMatch(/^HTTP\/1\.1 503 /);
  expect(warnings(harness)).toBe(1);
  const [first] = openSockets;
  let got = '';
  first?.on('data', (chunk: Buffer) => (got += chunk.toString()));
  first?.write(`GET ${PATH} HTTP/1.1\r\nHost: h\r\n\r\n`);
  await until('the response has arrived', () => got.endsWith('ok'));
  openSockets[1]?.destroy();
  await expect.poll(async () => (await ask(harness, PATH)).status).toBe(200);
});

test('over TLS as well', async () => {
  const { harness } = await full({ tls });
  const session = await connected(harness);
  expect(await askHttp2(session, PATH)).toMatchObject({ status: 503 });
});

test('closes silent excess connections soon, and further ones at once', async () => {
  const { harness, openSockets } = await full();
  const late = Array.from({ length: EXCESS_CONNECTIONS + 20 }, () =>
    connect(harness.port, '127.0.0.1').on('error', () => {}),
  );
  onCleanup(async () => destroyAll(late));
  let closed = 0;
  for (const socket of late) socket.resume().once('close', () => (closed += 1));
  await until('connections beyond the limit are closed', () => closed >= 20);
  await until('all of them are closed', () => closed === late.length);
  expect(openSockets.every((socket) => !socket.destroyed && socket.readyState === 'open')).toBe(true);
  expect(warnings(harness)).toBe(1);
  // TLS handshakes of excess connections are cut soon, too.
  const slow = (await full({ tls })).harness;
  const silent = connect(slow.port, '127.0.0.1');
  await new Promise((resolve) => silent.resume().once('close', resolve));
  const spoken = connectTls({ port: slow.port, host: '127.0.0.1', rejectUnauthorized: false });
  await new Promise((resolve) =>
    spoken
      .on('error', () => {})
      .resume()
      .once('close', resolve),
  );
});

test.each([
  [256, 72],
  [1_024, 288],
  [4_096, 1_152],
  [20_000, 7_116],
  [1_048_576, 519_680],
  [10, 1],
])('derives the connection limit from %i open files: %i', (files, connections) => {
  expect(connectionsOf(files)).toBe(connections);
});

test('counts TLS connections at accept, not after the handshake', async () => {
  const { harness, openSockets } = await full({ tls });
  const next = connect(harness.port, '127.0.0.1').on('error', () => {});
  onCleanup(async () => void next.destroy());
  await until('the gateway has logged an excess connection', () => warnings(harness) === 1);
  const [first] = openSockets;
  if (first === undefined) throw new Error('no connection arrived');
  const spoken = connectTls({ socket: first, rejectUnauthorized: false });
  let got = '';
  spoken.on('data', (chunk: Buffer) => (got += chunk.toString())).on('error', () => {});
  spoken.write(`GET ${PATH} HTTP/1.1\r\nHost: h\r\n\r\n`);
  await until('the response has arrived', () => got.includes('\r\n\r\n'));
  expect(got).toMatch(/^HTTP\/1\.1 200 /);
});
