/** The API's connection limit, under half-sent requests of one address. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { generate } from 'selfsigned';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { ApiOptions } from '../../../src/edge/http/api.ts';
import {
  askFrom,
  flood,
  HALF_A_HANDSHAKE,
  HALF_A_HEAD,
  type Flood,
  type FloodOptions,
} from '../../fixtures/client-addresses.ts';
import { fakeControl, GOOD_TOKEN } from './fake-control.ts';
import { startEdge, type BareApi } from './harness.ts';

const LIMIT = 20;
const FLOOD = 200;
const FLOODER = '127.0.0.3';
const OTHER = '127.0.0.2';
const LIST = '/api/resource/user/instance/list';

let pair: { cert: string; key: string };
beforeAll(async () => {
  const made = await generate([{ name: 'commonName', value: 'api.test' }], { keyType: 'ec' });
  pair = { cert: made.cert, key: made.private };
});

async function started(isTls: boolean, more: Partial<ApiOptions> = {}): Promise<BareApi> {
  const tls = isTls ? { tls: { first: pair, follow: () => {} } } : {};
  const control = fakeControl({ catalog: { families: async () => [] } });
  const api = await startEdge(control, { connections: LIMIT, ...tls, ...more });
  onTestFinished(() => api.stop());
  return api;
}

async function flooded({ port }: BareApi, options: Partial<FloodOptions> = {}): Promise<Flood> {
  const clients = await flood({ port, count: FLOOD, address: FLOODER, ...options });
  onTestFinished(() => clients.close());
  return clients;
}

const reports = ({ logged }: BareApi) => logged.filter(({ text }) => text.includes('limit of client connections'));

/** A connection that has sent one request, and is kept alive. */
async function keptAlive(api: BareApi, address: string, headers: string) {
  const socket = connect({ port: api.port, host: '127.0.0.1', localAddress: address });
  onTestFinished(() => void socket.destroy());
  socket.on('error', () => {}).write(`POST ${LIST} HTTP/1.1\r\nHost: 127.0.0.1\r\n${headers}Content-Length: 0\r\n\r\n`);
  await once(socket, 'data');
  return socket;
}

describe.each([
  ['plain HTTP', false, HALF_A_HEAD],
  ['TLS', true, HALF_A_HANDSHAKE],
])('over %s', (_, isTls, text) => {
  test('answers other addresses, and the same one, under a flood of half-sent requests', async () => {
    const api = await started(isTls);
    const clients = await flooded(api, { text });
    await expect.poll(() => clients.open()).toBeLessThanOrEqual(LIMIT / 2);
    for (const address of [OTHER, FLOODER]) {
      const answers = Array.from({ length: 3 }, () => askFrom({ port: api.port, address, path: '/healthz', isTls }));
      for (const { status } of await Promise.all(answers)) expect(status).toBe(200);
    }
    await expect.poll(() => clients.open()).toBeLessThan(LIMIT / 2);
    expect(reports(api)).toHaveLength(1);
  });
});

test('answers addresses without a connection when many addresses have filled the listener', async () => {
  const api = await started(false);
  for (let host = 1; host <= LIMIT; host += 1) await flooded(api, { count: LIMIT, address: `127.0.3.${host}` });
  await expect.poll(() => api.connections()).toBe(LIMIT);
  const answer = await askFrom({ port: api.port, address: OTHER, path: '/healthz' });
  expect(answer.status).toBe(200);
  expect(reports(api)).toHaveLength(1);
});

test('keeps connections with a login, and closes the others for new ones', async () => {
  const api = await started(false);
  const authorization = `Authorization: Bearer ${GOOD_TOKEN}\r\n`;
  const loggedIn = await keptAlive(api, FLOODER, authorization);
  const anonymous = await keptAlive(api, FLOODER, '');
  await flooded(api);
  await expect.poll(() => anonymous.closed).toBe(true);
  loggedIn.write(`POST ${LIST} HTTP/1.1\r\nHost: 127.0.0.1\r\n${authorization}Content-Length: 0\r\n\r\n`);
  const [answer] = await once(loggedIn, 'data');
  expect(String(answer)).toMatch(/^HTTP\/1\.1 200 /);
});

test('answers 503 with Retry-After where only connections with a login are open', async () => {
  const api = await started(false, { connections: 2 });
  await keptAlive(api, OTHER, `Authorization: Bearer ${GOOD_TOKEN}\r\n`);
  const { status, headers, text } = await askFrom({ port: api.port, address: OTHER, path: '/healthz' });
  expect(status).toBe(503);
  expect(headers).toMatchObject({ 'retry-after': '5', connection: 'close', 'x-error-code': 'unavailable' });
  expect(text).toContain('as many client connections as it allows, in total or from your address');
  const elsewhere = await askFrom({ port: api.port, address: FLOODER, path: '/healthz' });
  expect(elsewhere.status).toBe(200);
});

test('an account with many addresses or a proxy leaves a place for others', async () => {
  const headers = `Authorization: Bearer ${GOOD_TOKEN}\r\n`;
  const direct = await started(false);
  for (let host = 1; host <= LIMIT; host += 1) await keptAlive(direct, `127.0.3.${host}`, headers);
  expect((await askFrom({ port: direct.port, address: OTHER, path: '/healthz' })).status).toBe(200);
  const behind = await started(false, { trustedProxies: [FLOODER] });
  for (let count = 1; count <= LIMIT; count += 1) await keptAlive(behind, FLOODER, headers);
  for (const address of [OTHER, FLOODER])
    expect((await askFrom({ port: behind.port, address, path: '/healthz' })).status).toBe(200);
});

test('a trusted proxy may hold all connections', async () => {
  const api = await started(false, { trustedProxies: ['127.0.0.0/30'] });
  const clients = await flooded(api);
  await expect.poll(() => clients.open()).toBe(LIMIT);
});

test('reports a flood in one line, with the largest address', async () => {
  const api = await started(false);
  await flooded(api);
  await askFrom({ port: api.port, address: OTHER, path: '/healthz' });
  expect(reports(api)).toEqual([
    {
      level: 'warn',
      facts: {
        listener: 'API',
        limit: LIMIT,
        open: LIMIT / 2,
        refused: 0,
        closed: 1,
        largest: { address: FLOODER, connections: LIMIT / 2 },
      },
      text: expect.stringContaining('the API has reached its limit of client connections'),
    },
  ]);
});
