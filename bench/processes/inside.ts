/**
 * Upstream for streams and upgrades: `…/bytes/<count>` returns bytes, request bodies are counted,
 * upgrades are echoed.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { answerAsks } from '../lib/child.ts';

const CHUNK = Buffer.alloc(65_536, 'x');
const ACCEPTED = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';

let sentBytes = 0;

function pour(response: ServerResponse, bytes: number): void {
  response.writeHead(200, { 'content-length': bytes });
  let left = bytes;
  const more = (): void => {
    while (left > 0) {
      const chunk = left < CHUNK.length ? CHUNK.subarray(0, left) : CHUNK;
      left -= chunk.length;
      sentBytes += chunk.length;
      if (!response.write(chunk)) return void response.once('drain', more);
    }
    response.end();
  };
  more();
}

function count(request: IncomingMessage, response: ServerResponse): void {
  let bytes = 0;
  request.on('data', (chunk: Buffer) => (bytes += chunk.length));
  request.on('end', () => response.end(String(bytes)));
}

const server = createServer((request, response) => {
  response.on('error', () => {});
  const asked = /\/bytes\/(\d+)$/.exec(request.url ?? '')?.[1];
  if (asked === undefined) count(request, response);
  else pour(response, Number(asked));
});
server.on('upgrade', (_request, socket: Duplex, first: Buffer) => {
  socket.on('error', () => socket.destroy());
  socket.write(ACCEPTED);
  if (first.length > 0) socket.write(first);
  socket.pipe(socket);
});
await new Promise<void>((resolve) => server.listen({ port: 0, host: '127.0.0.1', backlog: 4_096 }, resolve));
const address = server.address();
const port = typeof address === 'object' && address ? address.port : 0;

answerAsks(
  async () => ({ port, sentBytes }),
  async () => process.exit(0),
);
