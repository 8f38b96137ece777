/** TLS downstream: pages, WebSockets, and certificate renewal at run time. */
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { get } from 'node:https';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { generate } from 'selfsigned';
import { afterEach, beforeEach, expect, test } from 'vitest';
import WebSocket, { WebSocketServer } from 'ws';
import { openTlsFiles, type TlsFiles, type TlsPair } from '../../../src/edge/tls-files.ts';
import { ALICE, echoHead, idOf, onCleanup, seenBy, serve, start, type Harness } from './harness.ts';
import { tls as bare } from './http2-client.ts';

const A = idOf('a');
const DOMAIN = 'gpu.test';

async function pairFor(name: string): Promise<TlsPair> {
  const made = await generate([{ name: 'commonName', value: name }], { keyType: 'ec' });
  return { cert: made.cert, key: made.private };
}

let folder: string;
const logged: string[] = [];
const log = {
  info: (_: object, text: string) => void logged.push(text),
  error: (_: object, text: string) => void logged.push(text),
};
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'berth-tls-'));
  logged.length = 0;
});
afterEach(() => rm(folder, { recursive: true }));

async function write({ cert, key }: Partial<TlsPair>): Promise<void> {
  if (cert !== undefined) await writeFile(join(folder, 'cert'), cert);
  if (key !== undefined) await writeFile(join(folder, 'key'), key);
}

const open = (): Promise<TlsFiles> => openTlsFiles({ cert: join(folder, 'cert'), key: join(folder, 'key') }, log, 20);

async function gateway(): Promise<Harness> {
  await write(await pairFor('first.test'));
  const tls = await open();
  onCleanup(async () => tls.stop());
  const harness = await start({ tls, portDomain: (port) => `${DOMAIN}:${port}` });
  return harness;
}

/** Common name of the presented certificate. */
async function shown(port: number): Promise<string> {
  const socket: TLSSocket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false });
  await once(socket, 'secureConnect');
  const { subject } = socket.getPeerCertificate();
  socket.destroy();
  return String(subject.CN);
}

test('serves a port over TLS at its host, and forwards the protocol', async () => {
  const harness = await gateway();
  const inside = await serve(echoHead);
  harness.add(A, { owner: ALICE, publicPorts: [80], ports: { 80: inside.port } });
  const host = `80-${A}.${DOMAIN}:${harness.port}`;
  const body = await new Promise<string>((resolve, reject) => {
    get({ port: harness.port, host: '127.0.0.1', path: '/x', headers: { host }, rejectUnauthorized: false }, (res) => {
      let text = '';
      res.on('data', (chunk: Buffer) => (text += chunk.toString())).on('end', () => resolve(text));
    }).on('error', reject);
  });
  expect(seenBy({ body } as Parameters<typeof seenBy>[0])).toMatchObject({
    url: '/x',
    headers: { 'x-forwarded-proto': 'https', forwarded: expect.stringContaining('proto=https') },
  });
});

test('keeps WebSockets open at a renewal, and presents the new certificate to later connections', async () => {
  const harness = await gateway();
  const server = new WebSocketServer({ port: 0 });
  onCleanup(async () => server.close());
  server.on('connection', (socket) => socket.on('message', (text: Buffer) => socket.send(`echo ${text.toString()}`)));
  const address = server.address();
  const inside = typeof address === 'object' && address ? address.port : 0;
  harness.add(A, { publicPorts: [80], ports: { 80: inside } });
  const socket = new WebSocket(`wss://127.0.0.1:${harness.port}/forward/${A}/80/`, { rejectUnauthorized: false });
  await once(socket, 'open');
  expect(await shown(harness.port)).toBe('first.test');

  const second = await pairFor('second.test');
  // A renewal writes one file first; the pair does not match meanwhile.
  await write({ cert: second.cert });
  await expect.poll(() => logged).toContain('the certificate is unusable; the previous one stays active');
  expect(await shown(harness.port)).toBe('first.test');
  await write({ key: '' });
  await expect.poll(() => logged.length).toBeGreaterThan(1);
  expect(await shown(harness.port)).toBe('first.test');
  await write({ key: second.key });
  await expect.poll(() => shown(harness.port)).toBe('second.test');
  socket.send('there');
  const [text] = await once(socket, 'message');
  expect(String(text)).toBe('echo there');
  socket.close();
});

test('refuses missing, invalid or mismatched certificate files at start', async () => {
  await expect(open()).rejects.toThrow(/ENOENT.*cert/);
  const [one, other] = [await pairFor('one.test'), await pairFor('other.test')];
  await write({ cert: 'nothing', key: one.key });
  await expect(open()).rejects.toThrow();
  await write({ cert: one.cert, key: other.key });
  await expect(open()).rejects.toThrow('the key does not belong to the certificate');
  // A file during its write.
  await write({ cert: one.cert, key: '' });
  await expect(open()).rejects.toThrow();
});

/** Silent clients, and clients that stop during the handshake. */
async function silent(port: number): Promise<{ closed: () => number }> {
  let closed = 0;
  const sockets = ['', '\x16\x03\x01\x02\x00\x01'].map((text) => {
    const socket = connect(port, '127.0.0.1').on('error', () => {});
    socket.resume().once('close', () => (closed += 1));
    socket.write(text, 'latin1');
    return socket;
  });
  onCleanup(async () => {
    for (const socket of sockets) socket.destroy();
  });
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  return { closed: () => closed };
}

test('closes a connection without a handshake at the deadline', async () => {
  const { port } = await start({ tls: bare, limits: { headMs: 100 } });
  const { closed } = await silent(port);
  await expect.poll(closed).toBe(2);
});

test('stops despite a connection without a handshake', async () => {
  const { gateway, port } = await start({ tls: bare });
  const { closed } = await silent(port);
  // Later connections have finished the handshake, so these were accepted.
  await shown(port);
  await gateway.stop();
  await expect.poll(closed).toBe(2);
});
