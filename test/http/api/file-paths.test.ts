/** Only the caller's own files are reachable, whatever the path, body or credential. */
import { link, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { ALICE, ALICES, BOB, BOBS, filesFixture, expectRefused, fileUrl } from './files-fixture.ts';

const { api, folder, ask } = filesFixture();

describe('only the caller’s own files are reachable', () => {
  const FORMS: [string, number][] = [
    ['..', 400],
    ['../../../../../etc/passwd', 400],
    ['%2e%2e/%2e%2e/etc/passwd', 400],
    ['%2e%2e%2f%2e%2e%2fetc%2fpasswd', 400],
    ['..%2f..%2fetc/passwd', 400],
    ['a/../../x', 400],
    ['.', 400],
    ['/etc/passwd', 400],
    ['%2fetc%2fpasswd', 400],
    ['//etc/passwd', 400],
    ['', 400],
    ['a%00b', 400],
    ['n'.repeat(256), 400],
    ['a/'.repeat(2100) + 'a', 400],
    ['..%5c..%5cetc%5cpasswd', 404],
    ['%252e%252e%252fetc', 404],
    ['%c0%ae%c0%ae/etc/passwd', 404],
    ['%c0%af', 404],
    ['%ed%a0%80', 404],
    ['%zz', 404],
    ['link', 409],
    ['out/passwd', 409],
    ['dangling', 409],
    ['loop', 409],
  ];
  beforeAll(async () => {
    await symlink('/etc/passwd', join(folder(), 'link'));
    await symlink('/etc', join(folder(), 'out'));
    await symlink('nowhere', join(folder(), 'dangling'));
    await symlink('loop', join(folder(), 'loop'));
  });

  test.each(FORMS)('by the path %j', async (path, status) => {
    const before = await readdir(folder());
    for (const method of ['GET', 'HEAD']) expect((await ask(method, path)).status, method).toBe(status);
    const put = await ask('PUT', path, { body: 'x' });
    // An odd but valid name is accepted.
    if (status === 404 && put.status === 201) expect((await ask('DELETE', path)).status).toBe(204);
    else expect(put.status).toBe(status);
    if (status !== 409) expect((await ask('DELETE', path)).status).toBe(status);
    expect(await readdir(folder())).toEqual(before);
  });

  test('by an invalid volume id', async () => {
    for (const volume of ['%00', 'a%00', '%0a'])
      for (const method of ['GET', 'PUT', 'DELETE']) {
        const more = method === 'PUT' ? { body: 'x' } : {};
        const reply = await api().send(fileUrl('x', volume), { token: ALICE, method, ...more });
        expectRefused(reply, 404, 'not_found');
      }
  });

  test('by the paths of bodies', async () => {
    for (const route of ['list', 'createFolder']) {
      for (const path of ['..', '../x', '/etc', 'a//b', 'a/', 'a\0b', '\ud800', 'n'.repeat(256), 'x/'.repeat(2100)])
        expectRefused(
          await api().post(`/storage/files/${route}`, { id: ALICES, path }, { token: ALICE }),
          400,
          'field_value',
        );
      expectRefused(
        await api().post(`/storage/files/${route}`, { id: ALICES, path: 'out/x' }, { token: ALICE }),
        409,
        'not_now',
      );
    }
    const wrong = [{ limit: 0 }, { limit: 1001 }, { limit: 1.5 }, { after: 'no cursor!' }];
    for (const more of wrong)
      expectRefused(
        await api().post('/storage/files/list', { id: ALICES, path: '', ...more }, { token: ALICE }),
        400,
        'field_value',
      );
  });

  test('a hard link is a file of the volume', async () => {
    await ask('PUT', 'linked', { body: 'both' });
    await link(join(folder(), 'linked'), join(folder(), 'other-name'));
    expect((await ask('GET', 'other-name')).text).toBe('both');
  });

  test('answers for another account’s volume as for an unknown one, without mounting it', async () => {
    await writeFile(join(api().folderOf(BOBS), 'secret'), 'of bob');
    const opened = api().opened();
    for (const [token, volume] of [
      [ALICE, BOBS],
      [BOB, 'never-was'],
    ] as const) {
      for (const method of ['GET', 'HEAD', 'PUT', 'DELETE']) {
        const reply = await api().send(fileUrl('secret', volume), { method, token });
        expect(reply.status).toBe(404);
        if (method !== 'HEAD')
          expect(reply.json).toMatchObject({
            message: `volume ${volume} not found; POST /api/storage/volume/list lists yours`,
          });
      }
      for (const route of ['list', 'createFolder'])
        expectRefused(
          await api().post(`/storage/files/${route}`, { id: volume, path: '' }, { token }),
          404,
          'not_found',
        );
    }
    expect(api().opened()).toBe(opened);
    expect(await readFile(join(api().folderOf(BOBS), 'secret'), 'utf8')).toBe('of bob');
  });

  test('refuses a caller without a login, and a foreign page with the cookie, before reading the body', async () => {
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const unauthenticated = await api().send(fileUrl('digits'), { method });
      expectRefused(unauthenticated, 401, 'not_logged_in');
      expect(unauthenticated.json).toMatchObject({ code: -1 });
      const cookie = { cookie: `AccessToken=${ALICE}`, origin: 'http://evil.test' };
      expectRefused(await api().send(fileUrl('digits'), { method, headers: cookie }), 403, 'forbidden');
      const own = await api().send(fileUrl('by-cookie'), {
        method,
        headers: { cookie: `AccessToken=${ALICE}`, origin: api().origin },
      });
      expect([201, 204, 404]).toContain(own.status);
    }
    const waiting = await api().exchange(
      `PUT ${fileUrl('x')} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1000000\r\n\r\n`,
    );
    expect(waiting).toMatch(/^HTTP\/1\.1 401 /);
  });

  test('answers other methods with the allowed ones', async () => {
    const reply = await ask('POST', 'digits');
    expect([reply.status, reply.headers.allow]).toEqual([405, 'GET, HEAD, PUT, DELETE']);
  });
});
