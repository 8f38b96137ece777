/** Programs that listen on loopback only: the owner's, after a setting that says so. */
import { expect, test } from 'vitest';
import type { PortAccess } from '../../../src/domain/access/port-access.ts';
import { ALICE, ask, idOf, keyOf, MALLORY, serve, start } from './harness.ts';

const A = idOf('a');
const PATH = `/forward/${A}/80/`;
const OWNER = { 'x-api-key': keyOf(ALICE) };

async function app(access: PortAccess) {
  const { port } = await serve((_req, res) => res.end('on loopback'));
  const made = await start({ portDomain: 'ports.test' });
  const instance = made.add(A, { owner: ALICE, access: { 80: access } });
  instance.onLoopback.set(80, port);
  made.shares.set('good', { instanceId: A, port: 80, expiresAtMs: Date.now() + 3_600_000 });
  const set = (next: PortAccess): void => void (instance.route.access = new Map([[80, next]]));
  return { made, instance, set };
}

test('the owner reaches it with the access loopback, by path and by host', async () => {
  const { made } = await app('loopback');
  expect((await ask(made, PATH, { headers: OWNER })).body).toBe('on loopback');
  expect((await ask(made, '/', { headers: { ...OWNER, host: `80-${A}.ports.test` } })).body).toBe('on loopback');
});

test('reaches a program on all addresses without loopback', async () => {
  const { made, instance } = await app('loopback');
  const { port } = await serve((_req, res) => res.end('on all'));
  instance.ports.set(80, port);
  expect((await ask(made, PATH, { headers: OWNER })).body).toBe('on all');
  expect(made.loopbackDials).toBe(0);
});

test.each<[string, Record<string, string>, number]>([
  ['a stranger', {}, 401],
  ['another account', { 'x-api-key': keyOf(MALLORY) }, 404],
  ['a holder of a link', { 'x-berth-share': 'good' }, 401],
])('%s does not', async (_who, headers, status) => {
  const { made } = await app('loopback');
  expect((await ask(made, PATH, { headers })).status).toBe(status);
  expect(made.loopbackDials).toBe(0);
});

test('a connection to loopback serves nobody after the port was opened to all', async () => {
  const { made, set } = await app('loopback');
  expect((await ask(made, PATH, { headers: OWNER })).status).toBe(200);
  set('public');
  const got = await ask(made, PATH);
  expect([got.status, got.body]).toEqual([503, expect.stringContaining('nothing listens on port 80')]);
});

test('the owner reads where it listens, with the way to open it', async () => {
  const { made } = await app('owner');
  const page = await ask(made, PATH, { headers: { ...OWNER, accept: 'text/html' } });
  expect(page.status).toBe(503);
  expect(page.body).toContain('only on 127.0.0.1 or ::1');
  expect(page.body).toContain(`http://console.test:8080/instances/${A}?tab=ports&amp;loopback=80`);
  expect((await ask(made, PATH, { headers: OWNER })).body).toContain('access \\"loopback\\"');
});

test('others do not learn that it listens', async () => {
  const { made } = await app('public');
  expect((await ask(made, PATH)).body).toContain('nothing listens on port 80');
  expect(made.loopbackDials).toBe(0);
});

test('a port where nothing listens at all says so to the owner', async () => {
  const { made, instance } = await app('owner');
  instance.onLoopback.clear();
  expect((await ask(made, PATH, { headers: OWNER })).body).toContain('nothing listens on port 80');
});
