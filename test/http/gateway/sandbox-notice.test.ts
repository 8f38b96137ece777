/** Pages that are shown in a sandbox say so, with what to do instead; nothing else is changed. */
import { gunzipSync, gzipSync } from 'node:zlib';
import type { OutgoingHttpHeaders } from 'node:http';
import { expect, test } from 'vitest';
import { ALICE, ask, idOf, keyOf, MALLORY, serve, start, type HarnessOptions } from './harness.ts';

const A = idOf('a');
const PAGE = '<!doctype html><title>app</title><div id="root"></div>';
const BROWSER = { accept: 'text/html,*/*', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };
const WORDS = 'Shown in a sandbox.';

interface Setting extends HarnessOptions {
  answers?: OutgoingHttpHeaders;
  status?: number;
  body?: string | Buffer;
  nodePort?: string;
}

async function app({ answers = {}, status = 200, body = PAGE, nodePort, ...more }: Setting = {}) {
  const { port } = await serve((req, res) => {
    const isGzip = req.headers['accept-encoding'] === 'gzip';
    const sent = isGzip ? gzipSync(body) : body;
    if (isGzip) res.setHeader('content-encoding', 'gzip');
    res.writeHead(status, { 'content-type': 'text/html; charset=utf-8', 'content-length': sent.length, ...answers });
    res.end(sent);
  });
  const made = await start({ portDomain: 'ports.test', apiUrl: 'http://127.0.0.1:8080', ...more });
  const nodePorts = new Map(nodePort === undefined ? [] : [[80, nodePort]]);
  made.add(A, {
    owner: ALICE,
    access: { 80: 'public', 81: 'signedIn' },
    ports: { 80: port, 81: port },
    route: { nodePorts },
  });
  made.sessions.set('session-a', ALICE);
  made.shares.set('good', { instanceId: A, port: 82, expiresAtMs: Date.now() + 3_600_000 });
  made.instances.get(A)?.ports.set(82, port);
  return made;
}

const at = (port: number): string => `/forward/${A}/${port}/`;

test.each<[string, number, Record<string, string>]>([
  ['a stranger', 80, {}],
  ['another account', 81, { 'x-api-key': keyOf(MALLORY) }],
  ['a holder of a link', 82, { 'x-berth-share': 'good' }],
])('%s reads at the end of the page what to do', async (_who, port, headers) => {
  const made = await app();
  const got = await ask(made, at(port), { headers: { ...BROWSER, ...headers, 'accept-encoding': 'gzip' } });
  expect(got.body).toMatch(new RegExp(`^${PAGE}\n<div [^]*${WORDS}[^]*BERTH_DOMAIN[^]*</div>\n$`));
  expect(got.body).toContain('http://127.0.0.1:8080/login?to=');
  expect(got.headers['content-length']).toBeUndefined();
});

test('the page without Sec-Fetch headers, as over plain HTTP, has it, too', async () => {
  expect((await ask(await app(), at(80), { headers: { accept: 'text/html' } })).body).toContain(WORDS);
});

test('a failure of the app has it, too', async () => {
  const got = await ask(await app({ status: 500 }), at(80), { headers: BROWSER });
  expect([got.status, got.body]).toEqual([500, expect.stringContaining(WORDS)]);
});

test.each<[string, Record<string, string>]>([
  ['a program', { accept: '*/*' }],
  ['the owner', { ...BROWSER, 'x-api-key': keyOf(ALICE) }],
  ['a fetch of a page', { ...BROWSER, 'sec-fetch-mode': 'cors', 'sec-fetch-dest': 'empty' }],
  ['a frame', { ...BROWSER, 'sec-fetch-dest': 'iframe' }],
  ['a fetch without Sec-Fetch headers', { accept: 'text/html', origin: 'null' }],
])('%s gets the bytes of the instance', async (_who, headers) => {
  const got = await ask(await app(), at(80), { headers });
  expect([got.body, got.headers['content-length']]).toEqual([PAGE, String(PAGE.length)]);
});

test('a port’s own host has no sandbox and no notice', async () => {
  const got = await ask(await app(), '/', { headers: { ...BROWSER, host: `80-${A}.ports.test` } });
  expect(got.body).toBe(PAGE);
});

test('compression that nobody asked for is passed on as it is', async () => {
  const packed = gzipSync(PAGE);
  const { port } = await serve((_req, res) =>
    res.writeHead(200, { 'content-type': 'text/html', 'content-encoding': 'gzip' }).end(packed),
  );
  const made = await app();
  made.instances.get(A)?.ports.set(80, port);
  const response = await fetch(`${made.origin}${at(80)}`, { headers: BROWSER });
  expect(await response.text()).toBe(gunzipSync(packed).toString());
});

test.each<[string, Setting]>([
  ['data', { answers: { 'content-type': 'application/json' } }],
  ['a part of a page', { status: 206, answers: { 'content-range': 'bytes 0-1/9' } }],
  ['a download', { answers: { 'content-disposition': 'attachment; filename="x.html"' } }],
  ['UTF-16', { answers: { 'content-type': 'text/html; charset=utf-16le' } }],
])('%s stays as it is', async (_what, setting) => {
  expect((await ask(await app(setting), at(80), { headers: BROWSER })).body).toBe(PAGE);
});

test('HEAD keeps the length of the instance', async () => {
  const got = await ask(await app(), at(80), { method: 'HEAD', headers: BROWSER });
  expect([got.body, got.headers['content-length']]).toEqual(['', String(PAGE.length)]);
});

test.each([
  ['names the node port', { nodePort: '192.0.2.1:30001', apiUrl: 'http://api.test' }, true],
  ['names a loopback node port to this machine', { nodePort: '127.0.0.2:30001' }, true],
  ['names none on the host of the API, which would get the login', { nodePort: '127.0.0.1:30001' }, false],
  ['names none without one', {}, false],
])('the notice %s', async (_what, setting: Setting, names) => {
  const { body } = await ask(await app(setting), at(80), { headers: BROWSER });
  expect(body.includes(`<a href="http://${setting.nodePort}/">`)).toBe(names);
  expect(body.includes('ask its owner for the address')).toBe(setting.nodePort !== undefined);
});

test('the notice names no loopback node port to visitors elsewhere', async () => {
  const made = await app({ nodePort: '127.0.0.2:30001', apiUrl: 'http://api.test' });
  const { body } = await ask(made, at(80), { headers: { ...BROWSER, host: 'gw.test' } });
  expect(body).not.toContain('127.0.0.2');
});
