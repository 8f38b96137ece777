/**
 * Each named bad input gets exactly its committed reply, so that a change of behavior is a visible
 * diff (`vitest run -u`).
 */
import { mkdir, utimes, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { errorKinds } from '../../../src/edge/http/status.ts';
import { badInputs } from './bad-inputs.ts';
import { ALICES, startFilesFixture, type FilesFixture } from './files-fixture.ts';
import type { TestApi } from './harness.ts';
import { startApi } from './harness.ts';
import { DATED, HOST, PAGE, rawRequests, WIDE_FOLDER, type RawRequest } from './raw-requests.ts';

let api: TestApi;
let raw: FilesFixture;
beforeAll(async () => {
  api = await startApi();
  // Refused bodies take from the rate, too.
  await api.admin.client.setQuotas({ limits: { requestsPerSecond: 1_000_000 } });
  raw = await startFilesFixture({ hosts: [HOST], corsOrigins: [PAGE], bodyTimeoutMs: 300 });
  const folder = raw.folderOf(ALICES);
  await writeFile(join(folder, DATED.path), 'x');
  const at = new Date(DATED.modifiedAt);
  await utimes(join(folder, DATED.path), at, at);
  for (const path of ['empty', WIDE_FOLDER.path]) await mkdir(join(folder, path));
  for (let n = 0; n < WIDE_FOLDER.files; n += 1) await writeFile(join(folder, WIDE_FOLDER.path, `file-${n}`), '');
});
afterAll(async () => {
  await api.stop();
  await raw.stop();
});

const UUID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;
/** Other capabilities and the free space of a region have tests of their own. */
const REGION = /^\{"regions":.*?("dockerInside":\w+).*("whyNoDocker":"[^"]*").*$/;
/** Replaces random ids; ids of the test catalog stay. */
const steady = (text: string): string =>
  text
    .replace(UUID, (id) => (id.startsWith('5a3f9d0e') || id.startsWith('00000000') ? id : '<uuid>'))
    .replace(REGION, '{"regions":[{"capabilities":{$1,$2}}]}');

test('each named bad input gets its pinned reply, and none is a server error', async () => {
  const replies = { ...(await repliesToBodies()), ...(await repliesToRawRequests()) };
  expect(Object.keys(replies)).toHaveLength(badInputs.length + rawRequests.length);
  await expect(`${JSON.stringify(replies, null, 2)}\n`).toMatchFileSnapshot('../../expected/bad-inputs.json');
});

async function repliesToBodies(): Promise<Record<string, string>> {
  const { token } = await api.newAccount();
  const replies: Record<string, string> = {};
  for (const { name, route, body } of badInputs) {
    const reply = await api.post(route, body, route === '/user/login' ? {} : { token });
    const code = reply.headers['x-error-code'];
    expect(reply.status, `${name}: ${reply.text}`).toBeLessThan(500);
    expect(reply.json, name).toBeTypeOf('object');
    // Zod's own messages never come out, and each code is in the table.
    expect(reply.text).not.toMatch(/Invalid|expected|received|Too (big|small)|ZodError/);
    if (reply.status !== 200) expect(Object.keys(errorKinds)).toContain(code);
    const about = reply.status === 200 ? steady(reply.text) : messagesOf(steady(reply.text)).join();
    replies[`${route} ${name}`] = `${reply.status} ${code ?? '-'} ${about}`;
  }
  return replies;
}

/** Errors of every layer have a message, a code and a request id. */
async function repliesToRawRequests(): Promise<Record<string, string>> {
  const replies: Record<string, string> = {};
  for (const request of rawRequests) {
    const reply = parsed(await exchange(request));
    if (reply.status >= 400) {
      expect(Object.keys(errorKinds), request.name).toContain(reply.headers['x-error-code']);
      expect(reply.headers['x-request-id'], request.name).toMatch(/./);
      if (!request.head.startsWith('HEAD '))
        expect(JSON.parse(reply.body), request.name).toMatchObject({ message: expect.stringMatching(/./) });
    }
    const isFile = 'last-modified' in reply.headers;
    expect(reply.headers['content-security-policy'], request.name).toBe(isFile ? FILE_POLICY : API_POLICY);
    replies[`raw ${request.name}`] = shown(request, reply);
  }
  return replies;
}

test('the server still serves after all bad inputs', async () => {
  const { client } = await api.newAccount();
  expect((await client.listInstances({ pager: { currentPage: 1, pageSize: 1 } })).pager.totalEntries).toBe(0);
  expect([...api.logged, ...raw.logged].filter(({ level }) => level === 'error')).toEqual([]);
});

/** Returns all bytes until the server closes. */
function exchange({ head, body }: RawRequest): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    let rest = body;
    const socket = connect(raw.port, '127.0.0.1', () => socket.write(head, 'latin1'));
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1');
      if (rest === undefined || !text.startsWith('HTTP/1.1 100 ')) return;
      socket.write(rest);
      rest = undefined;
    });
    // A server that refuses a body before reading all of it resets the connection.
    socket.on('error', (error) => (text === '' ? reject(error) : undefined));
    socket.on('close', () => resolve(text));
  });
}

interface RawReply {
  /** Of all answers to the request. */
  statuses: string[];
  /** Of the last answer. */
  status: number;
  headers: Record<string, string>;
  body: string;
}

function parsed(text: string): RawReply {
  const statuses = [...text.matchAll(/^HTTP\/1\.1 (\d{3}) /gm)].map(([, status = '']) => status);
  const last = text.slice(text.lastIndexOf('HTTP/1.1 '));
  const [head = '', body = ''] = last.split(/\r\n\r\n([^]*)/);
  const headers = head
    .split('\r\n')
    .slice(1)
    .map((line): [string, string] => [line.split(':', 1)[0]?.toLowerCase() ?? '', line.replace(/^[^:]*:\s*/, '')]);
  return { statuses, status: Number(statuses.at(-1)), headers: Object.fromEntries(headers), body };
}

const API_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const FILE_POLICY = "default-src 'none'; sandbox";

/** Headers that requests of a kind are about. */
const SHOWN_HEADERS: Record<string, RegExp> = {
  condition: /^(etag|last-modified)$/,
  encoding: /^(vary|content-encoding)$/,
  method: /^allow$/,
  origin: /^(vary|access-control-allow-.*)$/,
  preflight: /^(vary|access-control-.*)$/,
};

const SHOWN_CHARACTERS = 400;

/** The message of a refusal, else a short body. */
function messagesOf(text: string): string[] {
  const body: unknown = /^\{.*\}$/s.test(text) ? JSON.parse(text) : null;
  const message = body !== null && typeof body === 'object' && 'message' in body ? String(body.message) : text;
  return message === '' || message.length > SHOWN_CHARACTERS ? [] : [message.replace(/UnixMs":\d+/, 'UnixMs":<now>')];
}

/** A line of the table: without the tags of bodies that change with the code. */
function shown({ name }: RawRequest, { statuses, headers, body }: RawReply): string {
  const kind = SHOWN_HEADERS[name.split(':', 1)[0] ?? ''];
  const listed = Object.entries(headers)
    .filter(([header]) => kind?.test(header))
    .map(([header, value]) => `${header}: ${header === 'etag' ? '<etag>' : value}`);
  const about = [...listed.toSorted(), ...('content-encoding' in headers ? [] : messagesOf(body))];
  return [statuses.join(' then '), headers['x-error-code'] ?? '-', about.join(' | ')].join(' ').trim();
}
