/** The API and its pages below a path, whether the proxy in front passes the path or strips it. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ADMIN_PASSWORD } from './control-fixture.ts';
import { startApi, startEdge, type BareApi, type TestApi } from './harness.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'berth-console-'));
let wired: TestApi;
let api: BareApi;
beforeAll(async () => {
  writeFileSync(
    path.join(folder, 'index.html'),
    '<link href="./icon.svg"><script src="./console-assets/index.js"></script><a href="//elsewhere.test/">',
  );
  mkdirSync(path.join(folder, 'console-assets'));
  for (const file of ['icon.svg', 'passkey-login.js', 'console-assets/index.js'])
    writeFileSync(path.join(folder, file), '<svg/>');
  wired = await startApi();
  api = await startEdge(wired.wired.control, {
    prefix: '/berth',
    ownOrigins: ['https://example.org'],
    hosts: ['example.org'],
    consoleFolder: folder,
  });
});
afterAll(async () => {
  await api.stop();
  await wired.stop();
  rmSync(folder, { recursive: true });
});

const form = (at: string, fields: Record<string, string>) =>
  api.send(at, {
    method: 'POST',
    body: new URLSearchParams(fields).toString(),
    headers: { 'content-type': 'application/x-www-form-urlencoded', origin: 'https://example.org' },
  });

test.each(['/berth/instances/x', '/instances/x', '/berth/', '/berth'])(
  'loads the files of the console at %s',
  async (at) => {
    const { status, text } = await api.send(at);
    expect(status).toBe(200);
    expect(text).toBe(
      '<link href="/berth/icon.svg"><script src="/berth/console-assets/index.js"></script><a href="//elsewhere.test/">',
    );
    expect((await api.send('/berth/icon.svg')).text).toBe('<svg/>');
  },
);

const OWN =
  '/api /volumes/berth /login /register /password /healthz /readyz /icon.svg /console-assets /.berth /passkey-login.js/x';
test.each(OWN.split(' '))('refuses %s, which Berth serves itself', async (prefix) => {
  const start = () => startEdge(wired.wired.control, { prefix, consoleFolder: folder });
  await expect(start()).rejects.toThrow(/^BERTH_API_URL: must have a path that Berth does not serve itself/);
});

test('leads the login and its cookie below the path', async () => {
  const page = await api.send('/berth/login?to=/volumes');
  expect(page.text).toContain('<form method="post" action="/berth/login">');
  const done = await form('/berth/login', { to: '/volumes', username: 'admin', password: ADMIN_PASSWORD });
  expect([done.status, done.headers['location']]).toEqual([303, '/berth/volumes']);
  expect(done.headers['set-cookie']).toEqual([
    expect.stringMatching(/^AccessToken=[\w.-]+; Path=\/berth\/; Max-Age=86400; HttpOnly; SameSite=Lax$/),
  ]);
  const cookie = String(done.headers['set-cookie']).split(';')[0] ?? '';
  const out = await api.post('/user/logout', {}, { headers: { cookie, origin: 'https://example.org' } });
  expect(out.headers['set-cookie']).toEqual([expect.stringMatching(/^AccessToken=; Path=\/berth\/; Max-Age=0/)]);
});

test('clears cookies of other programs where they are', async () => {
  const cleared = await api.send('/berth/.berth/cookies', {
    method: 'POST',
    headers: {
      cookie: 'a=1; AccessToken=x',
      origin: 'https://example.org',
      'content-type': 'application/x-www-form-urlencoded',
    },
  });
  expect(cleared.headers['set-cookie']).toEqual(['a=; Path=/; Max-Age=0', 'AccessToken=; Path=/berth/; Max-Age=0']);
  expect(cleared.text).toContain('<a href="/berth/">');
});

test('answers what Node refuses by a page whose button is below the path', async () => {
  const text = await new Promise<string>((resolve, reject) => {
    const head = `GET /berth/ HTTP/1.1\r\nHost: x\r\nAccept: text/html\r\nCookie: a=${'v'.repeat(62_000)}\r\n\r\n`;
    const socket = connect(api.port, '127.0.0.1', () => socket.write(head));
    let got = '';
    socket.on('data', (bytes) => void (got += bytes.toString()));
    socket.on('end', () => resolve(got)).on('error', reject);
  });
  expect(text).toContain('action="/berth/.berth/cookies"');
});

test('names the path in the API document', async () => {
  expect((await api.send('/berth/api/openapi.json')).json).toMatchObject({ servers: [{ url: '/berth/api' }] });
});
