/**
 * Files of a volume over real connections: upload, stat, download in whole and by range, and never
 * as a page of the API's origin.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, truncate, writeFile } from 'node:fs/promises';
import { get } from 'node:http';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { makeClient } from '../../../src/contract/client.ts';
import { ALICE, ALICES, filesFixture, expectRefused, fileUrl } from './files-fixture.ts';

const { api, folder, ask } = filesFixture();

describe('a file', () => {
  test('is uploaded, listed, downloaded and deleted', async () => {
    const bytes = randomBytes(300_000);
    expect(
      (await api().post('/storage/files/createFolder', { id: ALICES, path: 'a/b' }, { token: ALICE })).json,
    ).toEqual({});
    const made = await ask('PUT', 'a/b/c%20d', { body: bytes });
    expect([made.status, made.json]).toEqual([201, { sizeBytes: 300_000, modifiedAtUnixMs: expect.any(Number) }]);
    const listed = await api().post('/storage/files/list', { id: ALICES, path: 'a/b' }, { token: ALICE });
    expect(listed.json).toEqual({
      files: [
        {
          name: 'c d',
          reachable: true,
          kind: 'file',
          sizeBytes: 300_000,
          modifiedAtUnixMs: expect.any(Number),
          mode: '0644',
        },
      ],
      next: null,
    });
    const got = await fetch(`${api().origin}${fileUrl('a/b/c%20d')}`, {
      headers: { authorization: `Bearer ${ALICE}` },
    });
    expect(got.status).toBe(200);
    expect(Buffer.from(await got.arrayBuffer()).equals(bytes)).toBe(true);
    expect(got.headers.get('etag')).toBe(made.headers.etag);
    const again = await ask('PUT', 'a/b/c%20d', { body: 'other' });
    expect(again.status).toBe(200);
    expect(again.headers.etag).not.toBe(made.headers.etag);
    expectRefused(await ask('DELETE', 'a'), 409, 'in_use');
    expect((await ask('DELETE', 'a/b/c%20d')).status).toBe(204);
    expectRefused(await ask('DELETE', 'a?recursive=yes'), 400, 'field_value');
    expect((await ask('DELETE', 'a?recursive=true')).status).toBe(204);
    expectRefused(await ask('DELETE', 'a'), 404, 'not_found');
    expectRefused(await ask('GET', 'a/b'), 404, 'not_found');
  });

  test('may be empty, sent in chunks, or have an encoded slash in its path', async () => {
    expect((await ask('PUT', 'empty')).json).toMatchObject({ sizeBytes: 0 });
    expect((await ask('GET', 'empty')).headers['content-length']).toBe('0');
    expectRefused(await ask('GET', 'empty', { headers: { range: 'bytes=0-' } }), 416, 'range_not_satisfiable');
    const chunked = await ask('PUT', 'chunked', {
      body: 'in chunks',
      headers: { 'transfer-encoding': 'chunked', 'content-type': 'multipart/form-data; boundary=x' },
    });
    expect(chunked.json).toMatchObject({ sizeBytes: 9 });
    for (const type of ['json', 'application/json', ''])
      expect((await ask('PUT', 'typed', { body: '{', headers: { 'content-type': type } })).json).toMatchObject({
        sizeBytes: 1,
      });
    await mkdir(join(folder(), 'sub'), { recursive: true });
    expect((await ask('PUT', 'sub%2ffile', { body: 'x' })).status).toBe(201);
    expect((await ask('GET', 'sub/file')).text).toBe('x');
  });

  test('honors If-None-Match and If-Match on upload and download', async () => {
    const onlyNew = { 'if-none-match': '*' };
    const { headers } = await ask('PUT', 'once', { body: 'first', headers: onlyNew });
    expectRefused(await ask('PUT', 'once', { body: 'second', headers: onlyNew }), 412, 'precondition_failed');
    const etag = headers.etag ?? '';
    const same = await ask('GET', 'once', { headers: { 'if-none-match': `"x", W/${etag}` } });
    expect([same.status, same.text, same.headers.etag]).toEqual([304, '', etag]);
    expect((await ask('GET', 'once', { headers: { 'if-none-match': '"x"' } })).text).toBe('first');
    expectRefused(await ask('GET', 'once', { headers: { 'if-match': '"x"' } }), 412, 'precondition_failed');
    expect((await ask('GET', 'once', { headers: { 'if-match': etag } })).status).toBe(200);
    const wrongs: [string, string][] = [
      ['if-none-match', etag],
      ['if-match', etag],
      ['content-range', 'bytes 0-4/5'],
      ['content-encoding', 'gzip'],
    ];
    for (const wrong of wrongs)
      expectRefused(
        await ask('PUT', 'once', { body: 'other', headers: Object.fromEntries([wrong]) }),
        400,
        'field_value',
      );
    expect((await ask('GET', 'once')).text).toBe('first');
  });

  test('never runs as a page of this origin', async () => {
    const name = `x"%0d%0aSet-Cookie: a=b; é.html`;
    await ask('PUT', encodeURI(name).replaceAll('%25', '%'), { body: '<script>alert(1)</script>' });
    const { headers } = await ask('GET', encodeURI(name).replaceAll('%25', '%'));
    expect(headers).toMatchObject({
      'content-type': 'application/octet-stream',
      'content-security-policy': "default-src 'none'; sandbox",
      'cross-origin-resource-policy': 'same-origin',
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store',
      'content-disposition': `attachment; filename="x___Set-Cookie: a=b; _.html"; filename*=UTF-8''x%22%0D%0ASet-Cookie%3A%20a%3Db%3B%20%C3%A9.html`,
    });
    expect(headers['set-cookie']).toBeUndefined();
  });

  test('cuts its download, without a regular end, when it shrinks meanwhile', async () => {
    await writeFile(join(folder(), 'shrinks'), '');
    await truncate(join(folder(), 'shrinks'), 200 * 2 ** 20);
    const cut = new Promise<number>((resolve, reject) => {
      const asked = get(
        api().origin + fileUrl('shrinks'),
        { headers: { authorization: `Bearer ${ALICE}` } },
        (response) => {
          let bytes = 0;
          response.once('data', () => void truncate(join(folder(), 'shrinks'), 10));
          response.on('data', (piece: Buffer) => (bytes += piece.length));
          response.on('end', () => reject(new Error('the download looked complete')));
          response.on('error', () => resolve(bytes));
        },
      );
      asked.on('error', reject);
    });
    expect(await cut).toBeLessThan(200 * 2 ** 20);
  });
});

test('is served by every file method of the client', async () => {
  const client = makeClient({ baseUrl: api().baseUrl, credential: { kind: 'token', token: ALICE } });
  await client.createFolder({ id: ALICES, path: 'by client/é' });
  await client.uploadFile(ALICES, 'by client/é/50%.txt', 'in one piece', { onlyNew: true });
  await expect(client.uploadFile(ALICES, 'by client/é/50%.txt', 'x', { onlyNew: true })).rejects.toMatchObject({
    code: 'precondition_failed',
    status: 412,
  });
  const listed = await client.listFiles({ id: ALICES, path: 'by client/é' });
  expect(listed.files.map(({ name }) => name)).toEqual(['50%.txt']);
  const whole = await client.downloadFile(ALICES, 'by client/é/50%.txt');
  expect(await whole.text()).toBe('in one piece');
  const rest = await client.downloadFile(ALICES, 'by client/é/50%.txt', {
    from: 7,
    ifSame: whole.headers.get('etag') ?? '',
  });
  expect([rest.status, await rest.text()]).toEqual([206, 'piece']);
  const streamed = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(Buffer.from('streamed'));
      controller.close();
    },
  });
  await client.uploadFile(ALICES, 'by client/é/50%.txt', streamed);
  expect(await (await client.downloadFile(ALICES, 'by client/é/50%.txt')).text()).toBe('streamed');
  await expect(client.deleteFile(ALICES, 'by client')).rejects.toMatchObject({ code: 'in_use' });
  await client.deleteFile(ALICES, 'by client', { recursive: true });
  await expect(client.downloadFile(ALICES, 'by client')).rejects.toMatchObject({ code: 'not_found' });
});

describe('a part of a file', () => {
  const TEXT = '0123456789';
  let etag: string;
  beforeAll(async () => {
    etag = String((await ask('PUT', 'digits', { body: TEXT })).headers.etag);
  });
  const part = (range: string, more: Record<string, string> = {}) =>
    ask('GET', 'digits', { headers: { range, ...more } });

  test.each([
    ['bytes=0-0', '0', '0-0'],
    ['bytes=3-5', '345', '3-5'],
    ['bytes=7-', '789', '7-9'],
    ['bytes=-4', '6789', '6-9'],
    ['bytes=-100', TEXT, '0-9'],
    ['bytes=5-100', '56789', '5-9'],
    ['Bytes=9-9 ', '9', '9-9'],
  ])('%s returns the range', async (range, text, reported) => {
    const reply = await part(range);
    expect([reply.status, reply.text]).toEqual([206, text]);
    expect(reply.headers).toMatchObject({
      'content-range': `bytes ${reported}/10`,
      'content-length': String(text.length),
      etag,
    });
  });

  test.each(['bytes=10-', 'bytes=10-20', 'bytes=-0', 'bytes=999999999999999-'])(
    "%s is outside: refused with the file's length",
    async (range) => {
      const reply = await part(range);
      expectRefused(reply, 416, 'range_not_satisfiable');
      expect(reply.headers['content-range']).toBe('bytes */10');
    },
  );

  test.each([
    'bytes=5-3',
    'bytes=a-b',
    'bytes=-',
    'items=0-1',
    'bytes=0-1,3-4',
    'bytes=0x1-2',
    `bytes=${'9'.repeat(400)}-`,
  ])('%s is no valid range: returns the whole file', async (range) => {
    const reply = await part(range);
    expect([reply.status, reply.text]).toEqual([200, TEXT]);
  });

  test('resumes an unchanged file only', async () => {
    expect((await part('bytes=5-', { 'if-range': etag })).text).toBe('56789');
    for (const other of ['"other"', `W/${etag}`, new Date().toUTCString()])
      expect((await part('bytes=5-', { 'if-range': other })).text).toBe(TEXT);
  });

  test('HEAD returns the headers without a body, and ignores ranges', async () => {
    const reply = await ask('HEAD', 'digits', { headers: { range: 'bytes=3-5' } });
    expect([reply.status, reply.text]).toEqual([200, '']);
    expect(reply.headers).toMatchObject({ 'content-length': '10', 'accept-ranges': 'bytes', etag });
    expect((await ask('HEAD', 'nothing')).status).toBe(404);
  });

  test('resumes a cut download', async () => {
    const bytes = randomBytes(8 * 2 ** 20);
    await ask('PUT', 'large', { body: bytes });
    const first = await new Promise<Buffer>((resolve, reject) => {
      const got: Buffer[] = [];
      const asked = get(
        api().origin + fileUrl('large'),
        { headers: { authorization: `Bearer ${ALICE}` } },
        (response) => {
          response.on('data', (piece: Buffer) => {
            got.push(piece);
            if (Buffer.concat(got).length > 2 ** 20) asked.destroy();
          });
          response.on('close', () => resolve(Buffer.concat(got)));
        },
      );
      asked.on('error', reject);
    }).catch(() => Buffer.alloc(0));
    expect(first.length).toBeGreaterThan(2 ** 20);
    expect(first.length).toBeLessThan(bytes.length);
    const rest = await fetch(api().origin + fileUrl('large'), {
      headers: { authorization: `Bearer ${ALICE}`, range: `bytes=${first.length}-` },
    });
    expect(Buffer.concat([first, Buffer.from(await rest.arrayBuffer())]).equals(bytes)).toBe(true);
    await expect.poll(() => api().connections()).toBeLessThan(3);
    expect(api().logged.filter(({ text }) => text.includes('was aborted'))).toHaveLength(1);
  });
});
