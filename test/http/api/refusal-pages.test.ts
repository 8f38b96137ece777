/** Browsers with too many cookies, or at a name or path that is not the server's, get pages. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { fakeControl } from './fake-control.ts';
import { startEdge, type BareApi, type Reply } from './harness.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'berth-console-'));
let api: BareApi;
let bare: BareApi;
beforeAll(async () => {
  writeFileSync(path.join(folder, 'index.html'), '<title>the console</title>');
  api = await startEdge(fakeControl({}), { consoleFolder: folder });
  bare = await startEdge(fakeControl({}));
});
afterAll(async () => {
  await Promise.all([api.stop(), bare.stop()]);
  rmSync(folder, { recursive: true });
});

const BROWSER = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };
const jar = (cookies: number): string =>
  Array.from({ length: cookies }, (_, at) => `c${at}=${'v'.repeat(3_900)}`).join('; ');
const page = (at: string, headers: Record<string, string> = {}): Promise<Reply> =>
  api.send(at, { headers: { ...BROWSER, ...headers } });

function expectPage(reply: Reply, status: number, code: string): void {
  expect([reply.status, reply.headers['content-type'], reply.headers['x-error-code']]).toEqual([
    status,
    'text/html; charset=utf-8',
    code,
  ]);
  expect(reply.headers).toMatchObject({ 'cache-control': 'no-store', 'x-frame-options': 'DENY' });
}

test('reads eight large cookies, and answers more with a page whose button clears them', async () => {
  expect((await page('/', { cookie: jar(8) })).status).toBe(200);
  const sent = await api.send('/login', { method: 'POST', headers: { ...BROWSER, cookie: jar(9) } });
  expectPage(sent, 431, 'headers_too_large');
  const reply = await page('/instances', { cookie: jar(9), host: 'x:8080' });
  expectPage(reply, 431, 'headers_too_large');
  expect(reply.text).toContain('The cookies of x:8080 are larger than this server reads');
  const action = /<form method="post" action="([^"]+)">/.exec(reply.text)?.[1] ?? expect.fail('no form');
  const cleared = await api.send(action, {
    method: 'POST',
    headers: {
      cookie: `${jar(9)}; a b=1; =2`,
      host: 'x:8080',
      origin: 'http://x:8080',
      'content-type': 'application/x-www-form-urlencoded',
    },
  });
  expect(cleared.status).toBe(200);
  expect(cleared.headers['clear-site-data']).toBe('"cookies"');
  expect(await page(action)).toMatchObject({ status: 303, headers: { location: '/' } });
  expect(cleared.headers['set-cookie']).toEqual(Array.from({ length: 9 }, (_, at) => `c${at}=; Path=/; Max-Age=0`));
});

test('clears no cookies for a page of another site', async () => {
  const headers = { cookie: jar(1), 'content-type': 'application/x-www-form-urlencoded' };
  const others: Record<string, string>[] = [
    { origin: 'http://y' },
    { 'sec-fetch-site': 'cross-site' },
    { origin: 'null' },
  ];
  for (const other of others) {
    const reply = await api.send('/.berth/cookies', { method: 'POST', headers: { ...headers, ...other } });
    expect([reply.status, reply.headers['clear-site-data']]).toEqual([403, undefined]);
  }
});

test('answers programs with too many cookies by JSON', async () => {
  expect((await api.send('/api/balance', { headers: { cookie: jar(9) } })).json).toEqual({
    message: 'the headers are too large: at most 32 KiB are read',
  });
});

test('answers a head beyond what is parsed by a page where its start asks for one', async () => {
  const answerTo = (head: string): Promise<string> =>
    new Promise((resolve, reject) => {
      const socket = connect(api.port, '127.0.0.1', () => socket.write(head));
      let text = '';
      socket.on('data', (bytes) => void (text += bytes.toString()));
      socket.on('end', () => resolve(text)).on('error', reject);
    });
  const end = `Cookie: ${jar(17)}\r\n\r\n`;
  const shown = await answerTo(`GET / HTTP/1.1\r\nHost: x\r\nAccept: ${BROWSER.accept}\r\n${end}`);
  expect(shown).toMatch(/^HTTP\/1\.1 431 /);
  expect(shown).toMatch(/\r\ncontent-security-policy: [^\r]*form-action 'self'/);
  expect(shown).toContain('<form method="post" action="/.berth/cookies">');
  const json = await answerTo(`GET / HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n${end}`);
  expect(json.split('\r\n\r\n')[1]).toBe('{"message":"the headers are too large: at most 32 KiB are read"}');
});

test('answers a wrong name by a page with the setting, in the language of the browser', async () => {
  const reply = await page('/', { host: 'Berth.localtest.:80' });
  expectPage(reply, 421, 'misdirected');
  expect(reply.text).toContain('<code>BERTH_API_HOSTS=berth.localtest</code>');
  const translated = (await page('/', { host: 'berth.localtest', 'accept-language': 'zh-CN' })).text;
  expect(translated).toContain('未知的主机名');
  expect(translated).not.toMatch(/is not a name|operator/);
  for (const host of ['localhost.', 'X.:80', '127.0.0.1.']) expect((await page('/', { host })).status).toBe(200);
  expect((await api.send('/', { headers: { host: 'berth.localtest' } })).headers['content-type']).toMatch(/json/);
});

test('answers a path of nothing by the console, and one of the API by JSON', async () => {
  const reply = await page('/nowhere/at?all=1');
  expectPage(reply, 404, 'not_found');
  expect(reply.text).toContain('the console');
  for (const [at, from] of [
    ['/api/nowhere', api],
    ['/nowhere', bare],
  ] as const)
    expect((await from.send(at, { headers: BROWSER })).headers['content-type']).toMatch(/json/);
  expect((await api.send('/nowhere', { method: 'POST', headers: BROWSER })).headers['content-type']).toMatch(/json/);
});
