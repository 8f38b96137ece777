/**
 * A server with few file descriptors: excess clients of the gateway take none from API and store.
 */
import { connect } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { login, startServerProcess, until, type ServerProcess } from '../../fixtures/server-process.ts';

const FLOOD = 600;

let server: ServerProcess;
beforeAll(async () => {
  server = await startServerProcess({
    nodePorts: '32270-32279',
    settings: { BERTH_ENGINE: 'simulated' },
    openFiles: 256,
  });
});
afterAll(async () => {
  await server?.stop();
});

test('the API keeps serving under a flood of incomplete clients, and the gateway recovers', async () => {
  const port = Number(new URL(server.gatewayUrl).port);
  const sockets = Array.from({ length: FLOOD }, () => {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => {}).write('GET / HT');
    return socket;
  });
  const open = (): number => sockets.filter(({ closed }) => !closed).length;
  await until(
    async () => open(),
    // A quarter of the 256 files is spare, a quarter of the rest ssh's, and each client may need
    // one to an instance: 72.
    (count) => count <= 72,
  );
  expect(open()).toBeGreaterThan(64);
  const { client } = await login(server);
  expect((await client.listInstances({ pager: { currentPage: 1, pageSize: 10 } })).instances).toEqual([]);
  // A late client gets the refusal.
  const late = await fetch(`${server.gatewayUrl}/`);
  expect([late.status, late.headers.get('retry-after')]).toEqual([503, '5']);
  expect(await late.json()).toEqual({ message: expect.stringContaining('as many client connections as it allows') });
  expect(server.output()).toContain('limit of client connections and refuses new ones');
  for (const socket of sockets) socket.destroy();
  await until(
    () => fetch(`${server.gatewayUrl}/`).then(({ status }) => status),
    (status) => status === 404,
  );
});
