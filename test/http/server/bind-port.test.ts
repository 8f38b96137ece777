/** A port bound before its server is built. */
import { createServer, type Server } from 'node:http';
import { once } from 'node:events';
import { expect, onTestFinished, test } from 'vitest';
import { bindPort } from '../../../src/main/bind-port.ts';

const anyPort = { host: '127.0.0.1', port: 0 };

async function handOver(server: Server, bound: Awaited<ReturnType<typeof bindPort>>): Promise<void> {
  server.listen(bound.server);
  onTestFinished(() => void server.close());
  await once(server, 'listening');
}

test('answers 503 with Retry-After until the server takes over, then lets it answer', async () => {
  const bound = await bindPort(anyPort, { isTls: false });
  const url = `http://127.0.0.1:${bound.port}/`;
  const early = await fetch(url, { method: 'POST', body: 'x'.repeat(100_000) });
  expect([early.status, early.headers.get('retry-after')]).toEqual([503, '1']);
  expect(await early.text()).toBe('Berth is starting: try again in a moment.\n');
  const server = createServer((_, response) => response.end('here'));
  await handOver(server, bound);
  expect(server.address()).toMatchObject({ port: bound.port });
  expect(await (await fetch(url, { headers: { connection: 'close' } })).text()).toBe('here');
  server.close();
  await once(server, 'close');
  await expect(fetch(url)).rejects.toThrow();
});

test('closes early TLS connections unanswered', async () => {
  const bound = await bindPort(anyPort, { isTls: true });
  onTestFinished(() => bound.close());
  await expect(fetch(`http://127.0.0.1:${bound.port}/`)).rejects.toThrow();
});

test('refuses a port in use', async () => {
  const bound = await bindPort(anyPort, { isTls: false });
  onTestFinished(() => bound.close());
  await expect(bindPort({ ...anyPort, port: bound.port }, { isTls: false })).rejects.toMatchObject({
    code: 'EADDRINUSE',
  });
});
