import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { GatewayRoute } from '../../../src/control/index.ts';
import { ALICE, ask, idOf, jwtOf, MALLORY, onCleanup, serve, start } from './harness.ts';

const A = idOf('a');
const IMAGE = 'berth.local/notebook:1';
const ZEROS = '/notebook/notebook-00000000-0000-0000-0000-000000000000/';
const PAGE = `<!doctype html><script id="jupyter-config-data">{"baseUrl":"${ZEROS}"}</script><body><a href="${ZEROS}lab"></a></body>`;
const STARTING = { running: false, status: 'Starting', startingImage: IMAGE };
const browser = { accept: 'text/html', authorization: `Bearer ${jwtOf(ALICE)}` };
const program = { authorization: `Bearer ${jwtOf(ALICE)}` };

async function withPage(route: Partial<GatewayRoute>) {
  const folder = await mkdtemp(join(tmpdir(), 'berth-page-'));
  onCleanup(() => rm(folder, { recursive: true }));
  await mkdir(join(folder, 'versions/1'), { recursive: true });
  await writeFile(join(folder, 'versions/1/image'), IMAGE);
  await writeFile(join(folder, 'versions/1/page.html'), PAGE);
  const harness = await start({ toolsFolder: folder, limits: { notebookPatienceMs: 100 } });
  const instance = harness.add(A, { route });
  const page = (path = '', headers: Record<string, string> = browser) =>
    ask(harness, `/notebook/${A}/${path}`, { headers });
  return { harness, instance, page };
}

test('the owner of a launch gets the page of its image before the notebook answers', async () => {
  const { page } = await withPage(STARTING);
  const { status, headers, body } = await page();
  expect(status).toBe(200);
  expect(headers).toMatchObject({
    'content-type': 'text/html; charset=utf-8',
    'cache-control': 'no-store',
    'content-security-policy': "frame-ancestors 'self'",
  });
  expect(headers['permissions-policy'], 'a notebook may use a camera').toBeUndefined();
  expect(body).toContain(`{"baseUrl":"/notebook/${A}/"}`);
  expect(body).not.toContain(ZEROS);
  expect(body).toMatch(/<script>[^]*history\.replaceState[^]*<\/script><\/body>$/);
});

test('the page of an image answers no other address, method or person', async () => {
  const { harness, instance, page } = await withPage(STARTING);
  expect(await page('lab')).toMatchObject({ status: 503, body: expect.stringContaining('The instance is starting') });
  expect((await page('?reset')).status).toBe(503);
  expect((await page('', { ...browser, authorization: `Bearer ${jwtOf(MALLORY)}` })).status).toBe(404);
  expect((await page('', { accept: 'text/html' })).status).toBe(401);
  expect((await ask(harness, `/forward/${A}/8888/`, { headers: browser })).status).toBe(503);
  for (const change of [{ startingImage: 'berth.local/notebook:2' }, { startingImage: undefined }]) {
    Object.assign(instance.route, change);
    expect((await page()).status, JSON.stringify(change)).toBe(503);
  }
});

test('a request of the page waits until the instance runs', async () => {
  const { harness, instance, page } = await withPage(STARTING);
  instance.ports.set(8888, (await serve((_req, res) => res.end('answered'))).port);
  let isAnswered = false;
  const asked = page('api/kernels', program).finally(() => (isAnswered = true));
  await sleep(200);
  expect(isAnswered).toBe(false);
  expect(harness.dials).toBe(0);
  Object.assign(instance.route, { running: true, status: 'Running', startingImage: undefined });
  expect(await asked).toMatchObject({ status: 200, body: 'answered' });
});

test('a request that waits is refused once the start fails, or the access ends', async () => {
  const { harness, instance, page } = await withPage(STARTING);
  const failing = page('api/kernels', program);
  await sleep(100);
  Object.assign(instance.route, { status: 'StartingFailed', startingImage: undefined });
  expect((await failing).status).toBe(503);
  Object.assign(instance.route, STARTING);
  const revoked = page('api/kernels', program);
  await sleep(100);
  harness.instances.delete(A);
  expect((await revoked).status).toBe(404);
});

test('a running notebook that listens answers with its own page', async () => {
  const { instance, page } = await withPage({ startingImage: IMAGE });
  expect((await page()).status, 'it does not listen yet').toBe(200);
  instance.ports.set(8888, (await serve((_req, res) => res.end('its own'))).port);
  expect((await page('lab')).body).toBe('its own');
  instance.route.startingImage = undefined;
  expect((await page()).body).toBe('its own');
});
