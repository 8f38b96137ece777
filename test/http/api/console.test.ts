/** The web console as the API serves it: places, files, policies, and a server without it. */
import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { brotliCompressSync, brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib';
import { request, type IncomingMessage } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { consolePlaces } from '../../../src/contract/console-places.ts';
import { fakeControl } from './fake-control.ts';
import { startEdge, type BareApi, type Reply } from './harness.ts';

const SCRIPT = 'console.log(1);'.repeat(100);
const folder = mkdtempSync(path.join(tmpdir(), 'berth-console-'));
let api: BareApi;
beforeAll(async () => {
  mkdirSync(path.join(folder, 'console-assets'));
  writeFileSync(path.join(folder, 'index.html'), '<meta name="style-nonce" content="%STYLE_NONCE%">');
  writeFileSync(path.join(folder, 'console-assets', 'event-worker-1.js'), 'self.onconnect = () => {};');
  writeFileSync(path.join(folder, 'console-assets', 'index-a1.js'), SCRIPT);
  writeFileSync(path.join(folder, 'console-assets', 'index-a1.js.br'), brotliCompressSync(SCRIPT));
  writeFileSync(path.join(folder, 'console-assets', 'index-a1.js.gz'), gzipSync(SCRIPT));
  writeFileSync(path.join(folder, 'console-assets', 'index-a1.js.map'), '{"a map":"of the sources"}');
  writeFileSync(path.join(folder, 'icon.svg'), '<svg xmlns="http://www.w3.org/2000/svg"/>');
  api = await startEdge(fakeControl({}), {
    consoleFolder: folder,
    gatewayOrigin: 'https://gateway.example.org',
    portDomain: 'ports.example.org',
  });
});
afterAll(async () => {
  await api.stop();
  rmSync(folder, { recursive: true });
});

test('lets the worker of a page follow the events of the API, and nothing else', async () => {
  const { headers } = await fetch(`${api.origin}/console-assets/event-worker-1.js`);
  expect(headers.get('content-security-policy')?.split('; ')).toEqual(
    expect.arrayContaining(["default-src 'none'", "connect-src 'self'"]),
  );
});

test('gives each page a nonce of its own for the styles that scripts add', async () => {
  const pages = await Promise.all(
    ['/', '/instances/notebook-1'].map(async (place) => {
      const answer = await fetch(api.origin + place);
      const [, nonce] = /content="(.+)"/.exec(await answer.text()) ?? [];
      expect(answer.headers.get('content-security-policy')).toContain(`style-src 'self' 'nonce-${nonce}'`);
      return nonce;
    }),
  );
  expect(new Set(pages).size).toBe(pages.length);
});

const pageOf = (view: string): Promise<Reply> => api.send(view);

test('answers its page at each of its places and below, and nowhere else', async () => {
  for (const view of [
    '/',
    ...consolePlaces.flatMap((place) => [`/${place}`, `/${place}/x`, `/${place}/x/y?tab=logs`]),
  ]) {
    const { status, headers, text } = await pageOf(view);
    expect([view, status, headers['content-type']]).toEqual([view, 200, 'text/html; charset=utf-8']);
    expect(text).toContain('style-nonce');
    // A new build is seen at the next visit, and names its own files.
    expect(headers).toMatchObject({
      'cache-control': 'no-store',
      'x-frame-options': 'DENY',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'origin',
    });
  }
  for (const other of ['/instancesx', '/nowhere', '/index.html', '/Instances', '/console-assets', '/console-assets/'])
    expect([other, (await pageOf(other)).status]).toEqual([other, 404]);
});

test('lets the page of the health alone ask the gateway', async () => {
  const policyAt = async (at: string): Promise<string> => String((await pageOf(at)).headers['content-security-policy']);
  expect(await policyAt('/operator/health?check=true')).toContain(
    "connect-src 'self' https://gateway.example.org wss://gateway.example.org https://check.ports.example.org wss://check.ports.example.org;",
  );
  for (const at of ['/', '/operator', '/operator/fleet', '/operator/health/x'])
    expect([at, await policyAt(at)]).toEqual([at, expect.stringContaining("connect-src 'self';")]);
});

test('runs no script but its own files, and sends and loads nothing elsewhere', async () => {
  const { headers } = await pageOf('/');
  const policy = new Map(
    String(headers['content-security-policy'])
      .split('; ')
      .map((part): [string, string] => [part.split(' ')[0] ?? '', part.split(' ').slice(1).join(' ')]),
  );
  expect(policy.get('default-src')).toBe("'none'");
  expect(policy.get('script-src')).toBe("'self'");
  expect(policy.get('base-uri')).toBe("'none'");
  expect(policy.get('frame-ancestors')).toBe("'none'");
  for (const [name, sources] of policy)
    expect([name, sources]).not.toEqual([name, expect.stringMatching(/unsafe|\*|https?:|data:/)]);
});

describe('its files', () => {
  test('with a hash in their names are kept forever, the others for a day', async () => {
    const { headers } = await api.send('/console-assets/index-a1.js');
    expect(headers['cache-control']).toBe('public, max-age=31536000, immutable');
    const icon = await api.send('/icon.svg');
    expect(icon.headers).toMatchObject({ 'cache-control': 'public, max-age=86400', 'content-type': 'image/svg+xml' });
  });

  test.each([
    ['br, gzip', 'br'],
    ['gzip', 'gzip'],
    ['gzip;q=1.0, br;q=0', 'gzip'],
    ['identity', null],
    ['br;q=0, gzip;q=0', null],
  ])('are sent to who accepts %s as %s', async (accepted, coding) => {
    const { headers, text } = await raw('/console-assets/index-a1.js', accepted);
    expect([headers['content-encoding'] ?? null, headers['vary']]).toEqual([coding, 'Accept-Encoding']);
    expect(text).toBe(SCRIPT);
    expect(headers['content-type']).toBe('text/javascript; charset=utf-8');
  });

  test('that are not there are 404, maps and compressed copies of their own address too', async () => {
    const names = ['index-b2.js', 'index-a1.js.map', 'index-a1.js.br', '..%2findex.html', '../../package.json', '%00'];
    for (const name of names) expect([name, (await api.send(`/console-assets/${name}`)).status]).toEqual([name, 404]);
  });
});

test.each(['/', '/instances', '/instances/x', '/console-assets/index-a1.js', '/icon.svg'])(
  'refuses to change %s',
  async (at) => {
    for (const method of ['POST', 'PUT', 'DELETE'])
      expect(await api.send(at, { method })).toMatchObject({ status: 405, headers: { allow: 'GET, HEAD' } });
    expect(await api.send(at, { method: 'HEAD' })).toMatchObject({ status: 200, text: '' });
  },
);

test.each([
  ['a folder that is not there', path.join(folder, 'none')],
  ['a folder without a build', path.join(folder, 'console-assets')],
  ['no folder', null],
])('with %s, / names the API, and places of the console are 404', async (_name, consoleFolder) => {
  const bare = await startEdge(fakeControl({}), { consoleFolder });
  try {
    expect(await bare.send('/')).toMatchObject({ status: 200, text: expect.stringContaining('/api/openapi.json') });
    expect(await bare.send('/instances')).toMatchObject({ status: 404 });
  } finally {
    await bare.stop();
  }
});

/** The decoded body with the headers as sent, which fetch changes. */
async function raw(at: string, accepted: string) {
  const response = await new Promise<IncomingMessage>((resolve, reject) =>
    request({ host: '127.0.0.1', port: api.port, path: at, headers: { 'accept-encoding': accepted } }, resolve)
      .on('error', reject)
      .end(),
  );
  const bytes = Buffer.concat(await Array.fromAsync(response));
  const coding = response.headers['content-encoding'];
  const plain = coding === 'br' ? brotliDecompressSync(bytes) : coding === 'gzip' ? gunzipSync(bytes) : bytes;
  return { headers: response.headers, text: plain.toString('utf8') };
}
