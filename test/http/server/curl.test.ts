/** What people type with curl in a hurry: answered where that is safe, else with a remedy. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeClient } from '../../../src/contract/client.ts';
import { CHECK_PATHS } from '../../../src/contract/proxy-check.ts';
import { PASSWORD, startServerProcess, type ServerProcess } from '../../fixtures/server-process.ts';

const run = promisify(execFile);
let server: ServerProcess;
let token = '';
let key = '';
beforeAll(async () => {
  server = await startServerProcess({ nodePorts: '30830-30839', settings: { BERTH_ENGINE: 'simulated' } });
  const baseUrl = `${server.apiUrl}/api`;
  ({ accessToken: token } = await makeClient({ baseUrl }).login({ username: 'admin', password: PASSWORD }));
  const client = makeClient({ baseUrl, credential: { kind: 'token', token } });
  key = (await client.createApiKey({ name: 'curl' })).key.fullKey;
});
afterAll(() => server.stop());

const JSON_TYPE = ['-H', 'content-type: application/json'];
const PAGE = ['-d', '{"pager":{"currentPage":1,"pageSize":10}}'];
const LIST = [...JSON_TYPE, ...PAGE];

/** Arguments, path, status, and what the head or the body says. */
const forms: [title: string, args: string[], path: string, status: number, says: string][] = [
  ['two slashes', LIST, '//api//instance/list', 200, '"instances":[]'],
  ['a final slash', LIST, '/api/instance/list/', 200, '"instances":[]'],
  ['a path in capital letters', LIST, '/API/Instance/List', 404, 'did you mean /api/instance/list?'],
  ['the path without /api', LIST, '/instance/list', 404, 'did you mean /api/instance/list?'],
  [
    'a number as text',
    [...JSON_TYPE, '-d', '{"pager":{"currentPage":"1","pageSize":10}}'],
    '/api/instance/list',
    400,
    'x-error-hint: send 1 without quotation marks',
  ],
  ['-d without a content type', PAGE, '/api/instance/list', 400, 'content-type: application/json'],
  ['-X POST without a body', ['-X', 'POST'], '/api/user/info', 200, '"username":"admin"'],
  ['-X POST without a needed body', ['-X', 'POST'], '/api/instance/list', 400, 'the body is empty, and field'],
  ['GET of a route that is posted to', [], '/api/instance/list', 405, 'allow: POST'],
  ['--http1.0', ['--http1.0', ...LIST], '/api/instance/list', 200, '"instances":[]'],
  ['--http2', ['--http2', ...LIST], '/api/instance/list', 200, '"instances":[]'],
  ['--http2-prior-knowledge', ['--http2-prior-knowledge', ...LIST], '/api/instance/list', 200, '"instances":[]'],
  ['Expect: 100-continue', ['-H', 'Expect: 100-continue', ...LIST], '/api/instance/list', 200, 'HTTP/1.1 100 '],
  ['chunks', ['-H', 'Transfer-Encoding: chunked', ...LIST], '/api/instance/list', 200, '"instances":[]'],
  ['-I', ['-I'], '/api/balance', 200, 'content-length: '],
  ['-I of a route that is posted to', ['-I'], '/api/instance/list', 405, 'allow: POST'],
  ['-X OPTIONS', ['-X', 'OPTIONS'], '/api/instance/list', 405, 'this path takes POST'],
  ['--compressed', ['--compressed'], '/api/openapi.json', 200, '{"openapi":"3.'],
];

async function curl(args: readonly string[], url: string): Promise<{ status: number; said: string }> {
  const all = ['--silent', '--show-error', '--include', '--max-time', '60', '-w', '\n%{http_code}', ...args, url];
  const { stdout } = await run('curl', all, { maxBuffer: 16 * 1024 * 1024 });
  return { status: Number(stdout.slice(-3)), said: stdout };
}

test.each(forms)('%s', async (_title, args, path, status, says) => {
  const answer = await curl(['-H', `Authorization: Bearer ${token}`, ...args], server.apiUrl + path);
  expect(answer).toEqual({ status, said: expect.stringContaining(says) });
});

test('takes a key as bearer, and says where a token belongs', async () => {
  const url = `${server.apiUrl}/api/balance`;
  expect((await curl(['-H', `Authorization: Bearer ${key}`], url)).status).toBe(200);
  const swapped = await curl(['-H', `X-API-Key: ${token}`], url);
  expect([swapped.status, swapped.said]).toEqual([401, expect.stringContaining('Authorization: Bearer <token>')]);
});

test('the gateway answers --http2-prior-knowledge, too', async () => {
  const answer = await curl(['--http2-prior-knowledge'], server.gatewayUrl + CHECK_PATHS.request);
  expect(answer.status).toBe(200);
});
