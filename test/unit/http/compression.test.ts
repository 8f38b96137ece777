import fastify from 'fastify';
import { gunzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { expectLinear } from '../../fixtures/linear.ts';
import { accepts, encodeBody } from '../../../src/edge/http/compression.ts';

test.each([
  ['gzip', true],
  ['br, GZIP', true],
  ['x-gzip', true],
  ['gzip;q=0.5, br', true],
  ['gzip ; q=1.000', true],
  ['*', true],
  ['*;q=0.1', true],
  ['gzip, *;q=0', true],
  ['gzip;q=0', false],
  ['gzip;q=0.0, *', false],
  ['*;q=0', false],
  ['br, deflate', false],
  ['gzipped', false],
  ['gzip;q=x', false],
  ['', false],
])('%s accepts gzip: %s', (header, accepted) => {
  expect(accepts(header, 'gzip')).toBe(accepted);
});

test('reads a header of many spaces in linear time', () => {
  expectLinear((length) => expect(accepts(`gzip${' '.repeat(length)}x`, 'gzip')).toBe(false));
});

test('compresses a cached page once, and a short body never', async () => {
  const app = fastify();
  const page = Buffer.from(JSON.stringify({ items: Array.from({ length: 2_000 }, (_, n) => ({ name: `item ${n}` })) }));
  const sent: unknown[] = [];
  app.get('/page', async (request, reply) => {
    sent.push(await encodeBody(request, reply, page));
    return sent.at(-1);
  });
  app.get('/short', (request, reply) => encodeBody(request, reply, '{}'));
  const headers = { 'accept-encoding': 'gzip' };
  const [first] = await Promise.all([1, 2].map(() => app.inject({ url: '/page', headers })));
  expect(sent[0]).toBe(sent[1]);
  expect(first?.headers['content-encoding']).toBe('gzip');
  expect(gunzipSync(first?.rawPayload ?? '').equals(page)).toBe(true);
  expect((await app.inject({ url: '/page' })).rawPayload.equals(page)).toBe(true);
  const short = await app.inject({ url: '/short', headers });
  expect([short.headers['content-encoding'], short.payload]).toEqual([undefined, '{}']);
});
