/** Input of commands: its end over TLS, and what comes after the command. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import net, { type AddressInfo, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import tls, { type TLSSocket } from 'node:tls';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { inputOf } from '../../../src/docker/streams.ts';
import { makeTlsAuthority, type TlsAuthority } from '../../fixtures/tls-authority.ts';

let authority: TlsAuthority;
beforeAll(async () => {
  authority = await makeTlsAuthority();
});
afterAll(() => authority.stop());

const RECORDS = ['one ', 'two ', 'three '];

test('an input that ends while output arrives over TLS loses none of it', async () => {
  const server = await startServer();
  // All records arrive in one read, so the end comes while records are left.
  const port = await joinOutput(server, RECORDS.length);
  const socket = tls.connect({ host: '127.0.0.1', port, ca: authority.ca });
  onTestFinished(() => void socket.destroy());
  await once(socket, 'secureConnect');
  let output = '';
  socket.on('data', (chunk: Buffer) => {
    if (output === '') inputOf(socket, { ends: true }).end();
    output += chunk;
  });
  const ended = once(socket, 'end');
  socket.write('start');
  await ended;
  expect(output).toBe(`${RECORDS.join('')}end`);
});

test('input after the end of a command loses none of its output', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'input-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const bytes = 100_000;
  const closed = Promise.withResolvers<void>();
  const server = net.createServer((socket) => {
    socket.on('close', () => closed.resolve());
    socket.end(Buffer.alloc(bytes), () => socket.destroy());
  });
  onTestFinished(() => void server.close());
  await once(server.listen(join(folder, 'socket')), 'listening');
  const socket = net.connect(join(folder, 'socket'));
  await closed.promise;
  const input = inputOf(socket, { ends: true });
  await new Promise<void>((resolve) => void input.on('close', resolve).write('late'));
  let read = 0;
  for await (const chunk of socket) read += chunk.length;
  expect(read).toBe(bytes);
});

const portOf = (server: Server): number => (server.address() as AddressInfo).port;

/** Answers the first input with `RECORDS`, each a record of TLS, and its end with `end`. */
async function startServer(): Promise<number> {
  const { certFile, keyFile } = authority.server;
  const certificate = { cert: readFileSync(certFile), key: readFileSync(keyFile) };
  // Without tickets all of the server's later bytes are records of its output.
  const secure = { ...certificate, allowHalfOpen: true, maxVersion: 'TLSv1.2' as const };
  const server = tls.createServer(secure, (socket: TLSSocket) => {
    socket.on('error', () => {});
    socket.on('end', () => socket.end('end'));
    socket.on('data', () => writeRecords(socket, RECORDS));
  });
  onTestFinished(() => void server.close());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return portOf(server);
}

/** Writes that are under way at once would share a record. */
function writeRecords(socket: TLSSocket, [first, ...rest]: readonly string[]): void {
  if (first !== undefined) socket.write(first, () => writeRecords(socket, rest));
}

/** Forwards to `port`; what it sends after the first input, it holds until `records` came whole. */
async function joinOutput(port: number, records: number): Promise<number> {
  const proxy = net.createServer({ allowHalfOpen: true }, (client) => {
    const upstream = net.connect({ host: '127.0.0.1', port, allowHalfOpen: true });
    for (const socket of [client, upstream]) socket.on('error', () => {});
    client.pipe(upstream);
    let held = Buffer.alloc(0);
    upstream.on('data', (chunk: Buffer) => {
      held = Buffer.concat([held, chunk]);
      const found = applicationRecords(held);
      if (found > 0 && found < records) return;
      client.write(held);
      held = Buffer.alloc(0);
    });
    upstream.on('end', () => client.end(held));
    client.on('close', () => upstream.destroy());
  });
  onTestFinished(() => void proxy.close());
  await once(proxy.listen(0, '127.0.0.1'), 'listening');
  return portOf(proxy);
}

const APPLICATION_DATA = 23;
const HEADER_BYTES = 5;

function applicationRecords(bytes: Buffer): number {
  let count = 0;
  for (let at = 0; at + HEADER_BYTES <= bytes.length;) {
    const end = at + HEADER_BYTES + bytes.readUInt16BE(at + 3);
    if (bytes[at] === APPLICATION_DATA && end <= bytes.length) count += 1;
    at = end;
  }
  return count;
}
