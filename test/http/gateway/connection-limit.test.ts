/**
 * Connection limit: connections in use continue, unused ones make way for new ones, and without
 * unused ones new ones get an error.
 */
import { once } from 'node:events';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { describe, expect, test } from 'vitest';
import { askFrom, flood, HALF_A_HANDSHAKE, HALF_A_HEAD } from '../../fixtures/client-addresses.ts';
import { ALICE, ask, idOf, jwtOf, MALLORY, onCleanup, sendRaw, serve, start, until } from './harness.ts';
import type { Harness } from './harness.ts';
import { ask as askHttp2, connected, tls } from './http2-client.ts';

const A = idOf('a');
const PATH = `/forward/${A}/80/`;
const HELD_PATH = `${PATH}held`;
const LIMIT = 5;
/** Twice the limit are open at most, since refused ones get an answer, too. */
const MAX_OPEN = 2 * LIMIT;
/** The tests' address may use the whole limit. */
const asProxy = { trustedProxies: ['127.0.0.1'] };

function destroyAll(sockets: readonly Socket[]): void {
  for (const socket of sockets) socket.destroy();
}

interface Served {
  harness: Harness;
  /** Answers the held requests. */
  release: () => void;
}

async function served(more: Parameters<typeof start>[0] = {}): Promise<Served> {
  const held = Promise.withResolvers<void>();
  const inside = await serve((req, res) => {
    if (req.url !== '/held') return void res.end('ok');
    void held.promise.then(() => res.end('ok'));
  });
  const harness = await start({ limits: { connections: LIMIT }, ...more });
  harness.add(A, { owner: ALICE, publicPorts: [80], ports: { 80: inside.port } });
  return { harness, release: held.resolve };
}

/** A gateway whose connections all have a request under way. */
async function full(more: Parameters<typeof start>[0] = {}): Promise<Served & { openSockets: Socket[] }> {
  const { harness, release } = await served({ ...asProxy, ...more });
  const openSockets = Array.from({ length: LIMIT }, () => {
    const socket = more.tls
      ? connectTls({ port: harness.port, host: '127.0.0.1', rejectUnauthorized: false })
      : connect(harness.port, '127.0.0.1');
    socket.on('error', () => {}).write(`GET ${HELD_PATH} HTTP/1.1\r\nHost: h\r\n\r\n`);
    return socket;
  });
  onCleanup(async () => destroyAll(openSockets));
  await until('all requests are under way', () => harness.began.length === LIMIT);
  return { harness, release, openSockets };
}

const reports = ({ logged }: Harness) =>
  logged.filter(({ text }) => text.includes('the gateway has reached its limit of client connections'));

test('refuses requests and WebSockets where all connections have a request, and keeps these', async () => {
  const { harness, release, openSockets } = await full();
  for (let count = 0; count < 3; count += 1) {
    const answered = await ask(harness, PATH);
    expect(answered).toMatchObject({ status: 503, headers: { 'retry-after': '5', connection: 'close' } });
    expect(answered.body).toContain('as many client connections as it allows');
  }
  const upgrade = `GET ${PATH} HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`;
  expect(await sendRaw(harness, upgrade)).toMatch(/^HTTP\/1\.1 503 /);
  expect(reports(harness)).toMatchObject([{ facts: { listener: 'gateway', limit: LIMIT, open: LIMIT, refused: 1 } }]);
  const answers = openSockets.map((socket) => once(socket, 'data'));
  release();
  for (const [answer] of await Promise.all(answers)) expect(String(answer)).toMatch(/^HTTP\/1\.1 200 /);
  expect((await ask(harness, PATH)).status).toBe(200);
});

test('refuses over TLS as well', async () => {
  const { harness } = await full({ tls });
  const session = await connected(harness);
  expect(await askHttp2(session, PATH)).toMatchObject({ status: 503 });
});

test('closes silent excess connections soon, and further ones at once', async () => {
  const { harness, openSockets } = await full();
  const late = Array.from({ length: MAX_OPEN + 20 }, () => connect(harness.port, '127.0.0.1').on('error', () => {}));
  onCleanup(async () => destroyAll(late));
  let closed = 0;
  for (const socket of late) socket.resume().once('close', () => (closed += 1));
  await until('connections beyond the limit are closed', () => closed >= 20);
  await until('all of them are closed', () => closed === late.length);
  expect(openSockets.every((socket) => !socket.destroyed && socket.readyState === 'open')).toBe(true);
  expect(reports(harness)).toHaveLength(1);
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

describe.each([
  ['plain HTTP', undefined, HALF_A_HEAD],
  ['TLS', tls, HALF_A_HANDSHAKE],
])('over %s', (_, certificates, text) => {
  test('answers other addresses, and the same one, under a flood of half-sent requests', async () => {
    const { harness } = await served({ tls: certificates });
    const clients = await flood({ port: harness.port, count: 100, address: '127.0.0.3', text });
    onCleanup(async () => clients.close());
    await until('one address has its share', () => clients.open() <= Math.ceil(LIMIT / 2));
    for (const address of ['127.0.0.2', '127.0.0.3', '127.0.0.2']) {
      const answer = await askFrom({ port: harness.port, address, path: PATH, isTls: certificates !== undefined });
      expect([answer.status, answer.text]).toEqual([200, 'ok']);
    }
    expect(reports(harness)).toHaveLength(1);
  });
});

test('closes unused connections of visitors for new ones, and keeps those with a login', async () => {
  const { harness } = await served(asProxy);
  const use = async (headers: string): Promise<Socket> => {
    const socket = connect(harness.port, '127.0.0.1').on('error', () => {});
    onCleanup(async () => void socket.destroy());
    socket.write(`GET ${PATH} HTTP/1.1\r\nHost: h\r\n${headers}\r\n`);
    await once(socket, 'data');
    return socket;
  };
  const visitor = await use('');
  harness.add(A, { owner: ALICE, ports: Object.fromEntries(harness.instances.get(A)?.ports ?? []) });
  const owner = await use(`Authorization: Bearer ${jwtOf(ALICE)}\r\n`);
  const clients = await flood({ port: harness.port, count: LIMIT + 5, address: '127.0.0.1' });
  onCleanup(async () => clients.close());
  await until('the visitor is disconnected', () => visitor.closed);
  await until('the rest is full', () => clients.open() === LIMIT - 1);
  owner.write(`GET ${PATH} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer ${jwtOf(ALICE)}\r\n\r\n`);
  const [answer] = await once(owner, 'data');
  expect(String(answer)).toMatch(/^HTTP\/1\.1 200 /);
});

test.each([
  ['a proxy', () => '127.0.0.1', asProxy],
  ['many addresses', (index: number) => `127.0.5.${index + 1}`, {}],
])('an account with requests under way through %s leaves a place for others', async (_, addressOf, more) => {
  const limits = { connections: 30 };
  const { harness } = await served({ limits, ...more });
  const B = idOf('b');
  harness.add(B, {
    owner: MALLORY,
    publicPorts: [80],
    ports: Object.fromEntries(harness.instances.get(A)?.ports ?? []),
  });
  const hold = (id: string, headers: string, address: string): Socket => {
    const socket = connect({ port: harness.port, host: '127.0.0.1', localAddress: address }).on('error', () => {});
    onCleanup(async () => void socket.destroy());
    socket.write(`GET /forward/${id}/80/held HTTP/1.1\r\nHost: h\r\n${headers}\r\n`);
    return socket;
  };
  const mine = hold(A, '', '127.0.0.1');
  await until('a request of a visitor is under way', () => harness.began.length === 1);
  for (let index = 0; index < 29; index += 1)
    hold(B, index % 2 === 0 ? '' : `Authorization: Bearer ${jwtOf(MALLORY)}\r\n`, addressOf(index));
  await until('all places are taken', () => harness.began.length === 30);
  for (const address of ['127.0.0.1', '127.0.0.2', '127.0.0.3'])
    expect((await askFrom({ port: harness.port, address, path: PATH })).status).toBe(200);
  expect(mine.closed).toBe(false);
});
