import { request, type IncomingMessage } from 'node:http';
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import {
  ALICE,
  ask,
  echoHead,
  idOf,
  jwtOf,
  onCleanup,
  seenBy,
  sendRaw,
  serve,
  start,
  type Harness,
} from './harness.ts';

const A = idOf('a');
const BUILD = 'b'.repeat(32);
const SCRIPT = `console.log(${JSON.stringify('x'.repeat(300_000))});`;
const AT = `/.berth/lab/${BUILD}`;
const SECRET = 'of nobody';

interface Started {
  harness: Harness;
  folder: string;
  /** Moves the gateway's clock. */
  pass(ms: number): void;
}

async function withAssets(more: Parameters<typeof start>[0] = {}): Promise<Started> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-assets-'));
  onCleanup(() => rm(folder, { recursive: true }));
  const build = join(folder, 'versions/1/lab', BUILD);
  await mkdir(join(build, 'deeper'), { recursive: true });
  await writeFile(join(folder, 'secret.js'), SECRET);
  await writeFile(join(build, 'start.js'), SCRIPT);
  await writeFile(join(build, 'start.js.gz'), gzipSync(SCRIPT));
  await writeFile(join(build, 'font.woff2'), 'font');
  await writeFile(join(build, 'page.html'), SECRET);
  await writeFile(join(build, 'deeper/start.js'), SECRET);
  await mkdir(join(build, 'extensions/@some/one/static'), { recursive: true });
  await writeFile(join(build, 'extensions/@some/one/static/entry.js'), SCRIPT);
  await writeFile(join(build, 'extensions/@some/one/package.json'), SECRET);
  await symlink('../../../../secret.js', join(build, 'link.js'));
  let nowMs = 1_000_000;
  const harness = await start({ toolsFolder: folder, elapsed: () => nowMs, ...more });
  return { harness, folder, pass: (ms) => void (nowMs += ms) };
}

const bytes = async (harness: Harness, path: string, encoding: string) => {
  const answer = await fetch(`${harness.origin}${path}`, { headers: { 'accept-encoding': encoding } });
  return { answer, text: await answer.text() };
};

test('a script of JupyterLab is sent to anybody, compressed, and to be kept for a year', async () => {
  const { harness } = await withAssets();
  const { answer, text } = await bytes(harness, `${AT}/start.js?v=1`, 'br, gzip');
  expect(text).toBe(SCRIPT);
  expect(Object.fromEntries(answer.headers)).toMatchObject({
    'content-type': 'text/javascript; charset=utf-8',
    'content-encoding': 'gzip',
    'content-length': String(gzipSync(SCRIPT).length),
    'cache-control': 'public, max-age=31536000, immutable',
    etag: `"${BUILD}-gzip"`,
    vary: 'Accept-Encoding',
    'x-content-type-options': 'nosniff',
    'cross-origin-resource-policy': 'same-origin',
  });
  const plain = await ask(harness, `${AT}/start.js`, {
    headers: { 'accept-encoding': 'gzip;q=0', range: 'bytes=0-9' },
  });
  expect(plain.status, 'ranges are not offered').toBe(200);
  expect(plain.body).toBe(SCRIPT);
  expect(plain.headers).toMatchObject({ etag: `"${BUILD}"`, 'accept-ranges': 'none' });
  expect(plain.headers['content-encoding']).toBeUndefined();
  expect((await ask(harness, `${AT}/font.woff2`)).headers['content-type']).toBe('font/woff2');
  expect((await ask(harness, `${AT}/extensions/@some/one/static/entry.js`)).body).toBe(SCRIPT);
});

test('HEAD has no body, a known ETag gets 304, other methods 405', async () => {
  const { harness } = await withAssets();
  const head = await ask(harness, `${AT}/start.js`, { method: 'HEAD' });
  expect(head).toMatchObject({ status: 200, body: '', headers: { 'content-length': String(SCRIPT.length) } });
  for (const tag of [`"${BUILD}"`, `"other", W/"${BUILD}"`, '*'])
    expect(await ask(harness, `${AT}/start.js`, { headers: { 'if-none-match': tag } })).toMatchObject({
      status: 304,
      body: '',
      headers: { 'cache-control': 'public, max-age=31536000, immutable' },
    });
  // The tag of the other encoding.
  const changed = { 'if-none-match': `"${BUILD}"`, 'accept-encoding': 'gzip' };
  expect((await ask(harness, `${AT}/start.js`, { headers: changed })).status).toBe(200);
  expect(await ask(harness, `${AT}/start.js`, { method: 'POST', body: 'x' })).toMatchObject({
    status: 405,
    headers: { allow: 'GET, HEAD' },
  });
});

test('nothing but listed files of a build is found', async () => {
  const { harness, folder } = await withAssets();
  const strange = [
    '',
    '/',
    '/page.html',
    '/link.js',
    '/deeper/start.js',
    '/extensions/@some/one/package.json',
    '/start.js.gz',
    '/start.js/',
    '/none.js',
    '/__proto__',
  ].map((rest) => `${AT}${rest}`);
  for (const path of [...strange, '/.berth/lab/', '/.berth/lab', `/.berth/lab/${'c'.repeat(32)}/start.js`]) {
    const answer = await ask(harness, path);
    expect({ path, status: answer.status }).toEqual({ path, status: 404 });
    expect(answer.body).not.toContain(SECRET);
    expect(answer.headers['cache-control']).toBe('no-store');
  }
  for (const up of ['../../../../secret.js', '%2e%2e/%2e%2e/%2e%2e/%2e%2e/secret.js', '..\\secret.js'])
    expect(await sendRaw(harness, `GET ${AT}/${up} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)).toMatch(
      /^HTTP\/1.1 400 /,
    );
  const encoded = await ask(harness, `${AT}/..%2f..%2f..%2f..%2fsecret.js`);
  expect(encoded).toMatchObject({ status: 404 });
  // A name that is no build.
  await rename(join(folder, 'versions/1/lab', BUILD), join(folder, 'versions/1/lab/other'));
  expect((await ask(await start({ toolsFolder: folder }), '/.berth/lab/other/start.js')).status).toBe(404);
});

test('a notebook learns which builds the gateway has, and not from the client', async () => {
  const { harness, folder, pass } = await withAssets();
  const inside = await serve(echoHead);
  harness.add(A, { owner: ALICE, publicPorts: [80], ports: { 8888: inside.port, 80: inside.port } });
  const offered = async (path: string) => {
    const headers = { authorization: `Bearer ${jwtOf(ALICE)}`, 'x-berth-lab': 'of-the-client', x_berth_lab: 'too' };
    const seen = seenBy(await ask(harness, path, { headers })).headers;
    expect(seen['x_berth_lab']).toBeUndefined();
    return seen['x-berth-lab'];
  };
  await ask(harness, `${AT}/start.js`);
  expect(await offered(`/notebook/${A}/lab`)).toBe(BUILD);
  expect(await offered(`/forward/${A}/80/`), 'a port has its own paths').toBeUndefined();
  const next = 'd'.repeat(32);
  await mkdir(join(folder, 'versions/2/lab', next), { recursive: true });
  await rm(join(folder, 'versions/1'), { recursive: true });
  pass(5_000);
  await expect.poll(() => offered(`/notebook/${A}/lab`)).toBe(next);
  expect((await ask(harness, `${AT}/font.woff2`)).status, 'a removed version').toBe(404);
});

test("a port's own host has no scripts of the gateway, and without a folder nothing is offered", async () => {
  const { harness } = await withAssets({ portDomain: (port) => `gw.test:${port}` });
  const inside = await serve(echoHead);
  harness.add(A, { owner: ALICE, publicPorts: [80], ports: { 80: inside.port } });
  const host = `80-${A}.gw.test:${harness.port}`;
  expect((await ask(harness, `${AT}/start.js`, { headers: { host } })).status).toBe(404);
  const without = await start();
  without.add(A, { owner: ALICE, ports: { 8888: inside.port } });
  const seen = seenBy(
    await ask(without, `/notebook/${A}/lab`, { headers: { authorization: `Bearer ${jwtOf(ALICE)}` } }),
  );
  expect(seen.headers['x-berth-lab']).toBeUndefined();
  expect((await ask(without, `${AT}/start.js`)).status).toBe(404);
});

test('a client that does not read a script is disconnected', async () => {
  const { harness, folder } = await withAssets({ limits: { clientIdleMs: 200 }, elapsed: () => performance.now() });
  await writeFile(join(folder, 'versions/1/lab', BUILD, 'large.js'), 'x'.repeat(20_000_000));
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    request({ port: harness.port, host: '127.0.0.1', path: `${AT}/large.js`, agent: false }, resolve)
      .on('error', reject)
      .end();
  });
  response.on('error', () => {}).pause();
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  response.resume();
  await new Promise((resolve) => response.once('close', resolve));
  expect(response.complete).toBe(false);
});
