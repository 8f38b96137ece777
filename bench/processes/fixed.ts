/**
 * Peers on bare node:http: `fixed` sends one buffer (the calibrator of every round); `pipe` is a
 * minimal proxy.
 */
import { Agent, createServer, request as requestOf, type RequestListener } from 'node:http';
import { z } from 'zod';
import { answerAsks, settingsOf } from '../lib/child.ts';

const settings = settingsOf(z.union([z.object({ bytes: z.number() }), z.object({ pipeTo: z.number() })]));

const fixed = (bytes: number): RequestListener => {
  const body = Buffer.alloc(bytes, 'x');
  const head = { 'content-type': 'application/json; charset=utf-8', 'content-length': bytes };
  return (request, response) => {
    request.resume();
    response.writeHead(200, head).end(body);
  };
};

const pipe = (port: number): RequestListener => {
  const agent = new Agent({ keepAlive: true });
  return (request, response) => {
    const { method, url: path, headers } = request;
    const upstreamRequest = requestOf({ host: '127.0.0.1', port, agent, method, path, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    upstreamRequest.on('error', () => response.destroy());
    request.pipe(upstreamRequest);
  };
};

const server = createServer('bytes' in settings ? fixed(settings.bytes) : pipe(settings.pipeTo));
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
const address = server.address();
const port = typeof address === 'object' && address ? address.port : 0;

answerAsks(
  async (question) => (question === 'cpu' ? process.cpuUsage() : { port }),
  async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  },
);
