/**
 * Library peers: `http` is http-proxy-3 as documented, with keep-alive; `net` pipes bytes without
 * HTTP.
 */
import { Agent, createServer } from 'node:http';
import { connect, createServer as createTcpServer, type Server } from 'node:net';
import { createProxyServer } from 'http-proxy-3';
import { z } from 'zod';
import { answerAsks, settingsOf } from '../lib/child.ts';

const { kind, to } = settingsOf(z.object({ kind: z.enum(['http', 'net']), to: z.number() }));

function httpProxy(): Server {
  const agent = new Agent({ keepAlive: true });
  const proxy = createProxyServer({ target: `http://127.0.0.1:${to}`, agent });
  proxy.on('error', (_error, _request, response) => response?.destroy());
  return createServer((request, response) => proxy.web(request, response));
}

const pipe = (): Server =>
  createTcpServer({ noDelay: true }, (client) => {
    const inside = connect({ host: '127.0.0.1', port: to, noDelay: true });
    client.on('error', () => inside.destroy());
    inside.on('error', () => client.destroy());
    client.pipe(inside).pipe(client);
  });

const server = kind === 'http' ? httpProxy() : pipe();
await new Promise<void>((resolve) => server.listen({ port: 0, host: '127.0.0.1', backlog: 1_024 }, resolve));
const address = server.address();
const port = typeof address === 'object' && address ? address.port : 0;

answerAsks(
  async () => ({ port }),
  async () => process.exit(0),
);
