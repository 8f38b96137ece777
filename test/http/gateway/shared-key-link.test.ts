/** A link over TCP: both sides prove that they have its key before the first byte of HTTP. */
import { once } from 'node:events';
import { request } from 'node:http';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { WebSocket } from 'ws';
import { z } from 'zod';
import { connectLink, type SharedKeyAddress } from '../../../src/edge/link/link-address.ts';
import { makeLinkClient } from '../../../src/edge/link/link-client.ts';
import { serveLinkAt } from '../../../src/edge/link/link-server.ts';

const keyOf = (name: string): Uint8Array => Buffer.alloc(32, name);
const answered = z.object({ url: z.string() });

async function freePort(): Promise<number> {
  const server = createServer();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function served(key = keyOf('right')) {
  const address: SharedKeyAddress = { host: '127.0.0.1', port: await freePort(), key };
  const requests: string[] = [];
  const refused: object[] = [];
  const link = await serveLinkAt({
    address,
    async answer(req) {
      requests.push(req.url ?? '');
      return { url: req.url };
    },
    async upgrade(req, socket) {
      requests.push(`upgrade ${req.url}`);
      socket.end('HTTP/1.1 418 I am a teapot\r\nContent-Length: 0\r\n\r\n');
    },
    log: { error: (fields: object) => void refused.push(fields) },
  });
  onTestFinished(() => link.stop());
  return { address, requests, refused };
}

function client(address: SharedKeyAddress) {
  const made = makeLinkClient({ address, headers: {}, timeoutMs: 5_000, away: 'away' });
  onTestFinished(() => made.stop());
  return made;
}

/** What a connection receives until it ends, and how it ended. */
async function received(socket: Socket): Promise<string> {
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  const error = await new Promise<Error | null>((resolve) => {
    socket.once('error', resolve).once('close', () => resolve(null));
  });
  return `${Buffer.concat(chunks).toString('latin1')}${error === null ? '' : (error as NodeJS.ErrnoException).code}`;
}

test('carries questions, streams and upgrades between sides with one key, encrypted', async () => {
  const { address, requests } = await served();
  const { ask, open } = client(address);
  expect(await ask('question', {}, answered)).toEqual({ url: '/question' });
  const stream = await open('/routes', AbortSignal.timeout(5_000));
  expect(stream.statusCode).toBe(200);
  stream.destroy();
  const socket = new WebSocket('ws://berth.invalid/attach', { createConnection: () => connectLink(address) });
  const [, reply] = await once(socket, 'unexpected-response');
  expect(reply.statusCode).toBe(418);
  expect(requests).toEqual(['/question', '/routes', 'upgrade /attach']);

  const tls = connectLink(address);
  onTestFinished(() => void tls.destroy());
  await once(tls, 'secureConnect');
  expect(tls).toMatchObject({ encrypted: true });
});

test('reads nothing of a client that lacks the key, and reports the first in a row', async () => {
  const { address, requests, refused } = await served();
  await expect(client({ ...address, key: keyOf('wrong') }).ask('question', {}, answered)).rejects.toMatchObject({
    code: 'unavailable',
  });
  await expect.poll(() => refused).toEqual([{ code: expect.any(String), remoteAddress: '127.0.0.1' }]);
  // Without a key, with the identity of another, and without TLS.
  const { host, port } = address;
  const withoutKey = connectTls({ host, port, rejectUnauthorized: false });
  expect(await received(withoutKey)).toMatch(/^E/);
  const plain = connect({ host, port });
  plain.write('POST /question HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}');
  expect(await received(plain)).not.toContain('HTTP/1.1 200');
  expect(requests).toEqual([]);
  expect(refused).toHaveLength(1);
  expect(await client(address).ask('question', {}, answered)).toEqual({ url: '/question' });
});

test('sends nothing to a server that lacks the key', async () => {
  const other = await served(keyOf('theirs'));
  const asked = client({ ...other.address, key: keyOf('ours') });
  await expect(asked.ask('secret', {}, answered)).rejects.toMatchObject({ code: 'unavailable' });
  expect(other.requests).toEqual([]);

  const heard: Buffer[] = [];
  const plain = createServer((socket) => socket.on('error', () => {}).on('data', (bytes: Buffer) => heard.push(bytes)));
  onTestFinished(() => void plain.close());
  await once(plain.listen(0, '127.0.0.1'), 'listening');
  const { port } = plain.address() as AddressInfo;
  const req = request({
    path: '/secret',
    createConnection: () => connectLink({ host: '127.0.0.1', port, key: keyOf('ours') }),
  });
  req.on('error', () => {}).end();
  await expect.poll(() => Buffer.concat(heard).length).toBeGreaterThan(0);
  req.destroy();
  expect(Buffer.concat(heard).toString('latin1')).not.toContain('secret');
});
