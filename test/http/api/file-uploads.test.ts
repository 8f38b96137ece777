/** Transfers that do not complete: cut, refused, stalled, racing, or with a deleted volume. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { lstat, readdir, readFile, truncate, writeFile } from 'node:fs/promises';
import { get, request } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { atLevel } from '../../fixtures/level.ts';
import { Refusal } from '../../../src/domain/kernel/refusal.ts';
import { fakeControl, GOOD_TOKEN } from './fake-control.ts';
import {
  ALICE,
  ALICES,
  BOB,
  BOBS,
  expectNothingLeft,
  filesFixture,
  expectRefused,
  fileUrl,
  head,
  startFilesFixture,
} from './files-fixture.ts';
import { startEdge } from './harness.ts';

const { api, folder, ask } = filesFixture();

describe('an upload', () => {
  test('leaves the previous file and nothing else when it is cut midway, by length or chunks', async () => {
    await ask('PUT', 'kept', { body: 'before' });
    const names = await readdir(folder());
    for (const length of ['Content-Length: 1000000', 'Transfer-Encoding: chunked']) {
      const text = length.startsWith('T') ? `10000\r\n${'a'.repeat(0x10000)}\r\n` : 'a'.repeat(500_000);
      for (const path of ['kept', 'never']) {
        const socket = connect(api().port, '127.0.0.1');
        socket.on('error', () => {});
        socket.write(head('PUT', path, length) + text);
        await expect.poll(async () => (await api().uploadsLeft(ALICES)).length).toBe(1);
        socket.resetAndDestroy();
        await expect.poll(() => api().uploadsLeft(ALICES)).toEqual([]);
      }
    }
    expect(await readdir(folder())).toEqual(names);
    expect((await ask('GET', 'kept')).text).toBe('before');
    expect(api().logged.filter(({ level }) => level === 'error')).toEqual([]);
  });

  test('is refused when it does not fit: by its length before the first byte, by its bytes at the limit', async () => {
    const announced = await api().exchange(
      head('PUT', 'huge', `Content-Length: ${2 * 2 ** 30 + 1}`, 'Connection: close'),
    );
    expect(announced).toMatch(/^HTTP\/1\.1 507 /);
    expect(announced).toMatch(/size of the volume, 2147483648.*delete files, or use a larger volume/);
    const volume = api().volumes.get(ALICES);
    if (!volume) throw new Error('no volume');
    api().volumes.set(ALICES, { ...volume, sizeGB: 1 / 1024 });
    const chunk = Buffer.concat([Buffer.from('40000\r\n'), Buffer.alloc(0x40000), Buffer.from('\r\n')]);
    const passing = await api().exchange(
      head('PUT', 'huge', 'Transfer-Encoding: chunked', 'Connection: close'),
      ...Array.from({ length: 6 }, () => chunk),
      '0\r\n\r\n',
    );
    api().volumes.set(ALICES, volume);
    expect(passing).toMatch(/^HTTP\/1\.1 507 /);
    expect(passing).toMatch(/X-Error-Code: volume_full/i);
    expect(await readdir(folder())).not.toContain('huge');
  });

  test('gets its answer when refused midway, although the client keeps sending for a while', async () => {
    const reply = await new Promise<number>((resolve, reject) => {
      const asked = request({
        port: api().port,
        host: '127.0.0.1',
        method: 'PUT',
        path: fileUrl('no/such/folder'),
        headers: { authorization: `Bearer ${ALICE}` },
      });
      asked.on('response', (response) => resolve(response.resume().statusCode ?? 0));
      asked.on('error', reject);
      const send = (left: number): void => {
        if (left === 0) asked.end();
        else asked.write(Buffer.alloc(2 ** 18), () => send(left - 1));
      };
      send(200);
    });
    expect(reply).toBe(404);
  });

  test('does not delay a stopping server after its refusal', async () => {
    // Drops no unread upload after a while: a server that waited for one would never stop.
    vi.useFakeTimers({ toFake: ['setInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    const other = await startFilesFixture();
    const [unknown, unauthenticated] = [
      head('PUT', 'no/such/folder', 'Content-Length: 9'),
      `PUT ${fileUrl('x')} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n`,
    ];
    const answered = [unknown, unauthenticated].map((bytes) => {
      const socket = connect(other.port, '127.0.0.1').on('error', () => {});
      socket.write(`${bytes}half`);
      return once(socket, 'data').then(([piece]: Buffer[]) => String(piece).slice(0, 12));
    });
    expect(await Promise.all(answered)).toEqual(['HTTP/1.1 404', 'HTTP/1.1 401']);
    await other.stop();
  });

  test('may take longer than a JSON body', async () => {
    const hasty = await startFilesFixture({ bodyTimeoutMs: 200 });
    try {
      const slow = hasty.exchange(
        `POST /api/storage/files/list HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${ALICE}\r\nContent-Length: 10\r\n\r\n{`,
      );
      const upload = new Promise<number>((resolve, reject) => {
        const asked = request({
          port: hasty.port,
          host: '127.0.0.1',
          method: 'PUT',
          path: fileUrl('slow'),
          headers: { authorization: `Bearer ${ALICE}` },
        });
        asked.on('response', (response) => resolve(response.resume().statusCode ?? 0));
        asked.on('error', reject);
        asked.write('first');
        void slow.then(() => setTimeout(() => asked.end('second'), 300));
      });
      expect(await slow).toMatch(/^HTTP\/1\.1 408 /);
      expect(await upload).toBe(201);
      expect(await readFile(join(hasty.folderOf(ALICES), 'slow'), 'utf8')).toBe('firstsecond');
    } finally {
      await hasty.stop();
    }
  });

  test('is cut off when it stalls, as is a download whose reader stalls', async () => {
    const hasty = await startFilesFixture({ fileStalledMs: 300 });
    try {
      await writeFile(join(hasty.folderOf(ALICES), 'large'), '');
      await truncate(join(hasty.folderOf(ALICES), 'large'), 2 ** 30);
      const closed = [head('PUT', 'stalls', 'Content-Length: 9') + 'a', head('GET', 'large')].map((bytes) => {
        const socket = connect(hasty.port, '127.0.0.1').on('error', () => {});
        socket.pause().write(bytes);
        return socket;
      });
      await expect.poll(() => hasty.uses.inUse({ kind: 'volume', id: ALICES })).toBe(true);
      await expect.poll(() => hasty.connections()).toBe(0);
      await expectNothingLeft(hasty);
      expect(await readdir(hasty.folderOf(ALICES))).toEqual(['large']);
      for (const socket of closed) socket.destroy();
    } finally {
      await hasty.stop();
    }
  });

  test('waits for a slow disk, as does a delete', async () => {
    const slow = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 500));
    const edge = await startEdge(
      fakeControl({
        files: {
          async write(_caller, _path, { source }) {
            let sizeBytes = 0;
            for await (const piece of source(new AbortController().signal)) {
              sizeBytes += piece.length;
              await slow();
            }
            return { sizeBytes, modifiedAtMs: 0, version: 'v', created: true };
          },
          delete: slow,
        },
      }),
      { fileStalledMs: 100 },
    );
    const asked = { token: GOOD_TOKEN, body: 'bytes' };
    expect((await edge.send(fileUrl('f'), { ...asked, method: 'PUT' })).json).toMatchObject({ sizeBytes: 5 });
    expect((await edge.send(fileUrl('f'), { ...asked, method: 'DELETE' })).status).toBe(204);
    await edge.stop();
  });

  test('leaves one complete file when two go to one path concurrently', async () => {
    const [one, two] = [randomBytes(3_000_000), randomBytes(3_000_000)];
    await Promise.all([one, two, one, two].map((body) => ask('PUT', 'raced', { body })));
    const now = await readFile(join(folder(), 'raced'));
    expect(now.equals(one) || now.equals(two)).toBe(true);
  });

  test('and a download of hundreds of megabytes take a few megabytes of memory', async () => {
    const size = atLevel({ short: 2 ** 28, long: 2 ** 30 });
    await writeFile(join(folder(), 'sparse'), '');
    await truncate(join(folder(), 'sparse'), size);
    const before = process.memoryUsage().rss;
    let most = 0;
    const watch = setInterval(() => (most = Math.max(most, process.memoryUsage().rss)), 20);
    // Pipes a download into an upload: neither side buffers the file.
    const written = await new Promise<unknown>((resolve, reject) => {
      const headers = { authorization: `Bearer ${ALICE}` };
      get(api().origin + fileUrl('sparse'), { headers }, (source) => {
        const asked = request({
          port: api().port,
          host: '127.0.0.1',
          method: 'PUT',
          path: fileUrl('copy'),
          headers: { ...headers, 'content-length': String(size) },
        });
        asked.on('response', (response) => {
          response.resume();
          resolve(response.statusCode);
        });
        asked.on('error', reject);
        source.pipe(asked);
      }).on('error', reject);
    });
    clearInterval(watch);
    expect(written).toBe(201);
    expect((await lstat(join(folder(), 'copy'))).size).toBe(size);
    expect((most - before) / 2 ** 20).toBeLessThan(150);
    await ask('DELETE', 'copy');
    await ask('DELETE', 'sparse');
  }, 600_000);
});

describe('a volume', () => {
  test('serves no files unless Bound, and the refusal names the fix', async () => {
    const volume = api().volumes.get(BOBS);
    if (!volume) throw new Error('no volume');
    const words = { Pending: /when it is Bound/, Terminating: /being deleted/, Lost: /when the operator/ };
    for (const [status, said] of Object.entries(words)) {
      api().volumes.set(BOBS, {
        ...volume,
        status: status === 'Pending' ? 'Pending' : status === 'Lost' ? 'Lost' : 'Terminating',
      });
      const reply = await api().send(fileUrl('secret', BOBS), { token: BOB });
      expectRefused(reply, 409, 'not_now');
      expect(reply.json).toMatchObject({ message: expect.stringMatching(said) });
    }
    api().volumes.set(BOBS, volume);
  });

  test('cuts only its own transfers when it is deleted', async () => {
    await ask('PUT', 'digits', { body: '0123456789' });
    const upload = connect(api().port, '127.0.0.1');
    const closed = new Promise((resolve) => upload.on('error', () => {}).on('close', resolve));
    upload.write(`${head('PUT', 'unfinished', 'Content-Length: 1000000')}abc`);
    await truncate(join(folder(), 'digits'), 500 * 2 ** 20);
    const download = await new Promise<{ ended: Promise<string> }>((resolve, reject) => {
      const asked = get(
        api().origin + fileUrl('digits'),
        { headers: { authorization: `Bearer ${ALICE}` } },
        (response) => {
          // The client never reads: the server waits for free socket buffer.
          const ended = new Promise<string>((done) => {
            response.on('error', () => done('cut'));
            response.on('end', () => done('whole'));
          });
          resolve({
            ended: Promise.race([ended, new Promise<string>((done) => asked.on('close', () => done('cut')))]),
          });
          setTimeout(() => response.resume(), 500);
        },
      );
      asked.on('error', reject);
    });
    await expect.poll(async () => (await api().uploadsLeft(ALICES)).length).toBe(1);
    expect(api().uses.inUse({ kind: 'volume', id: ALICES })).toBe(true);
    await api().uses.abort({ kind: 'volume', id: BOBS }, new Error('another one'));
    expect(api().uses.inUse({ kind: 'volume', id: ALICES })).toBe(true);
    await api().uses.abort({ kind: 'volume', id: ALICES }, new Refusal('not_now', 'it is being deleted'));
    expect(api().uses.inUse({ kind: 'volume', id: ALICES })).toBe(false);
    expect(await api().uploadsLeft(ALICES)).toEqual([]);
    await closed;
    expect(await download.ended).toBe('cut');
    expect(await readdir(folder())).not.toContain('unfinished');
    expect(api().logged.filter(({ level }) => level === 'error')).toEqual([]);
  });

  test('serves eight requests of an account at once; the ninth waits, without delaying other accounts', async () => {
    await ask('PUT', 'digits', { body: '0123456789' });
    await writeFile(join(api().folderOf(BOBS), 'secret'), 'of bob');
    const sockets = Array.from({ length: 8 }, (_, n) => {
      const socket = connect(api().port, '127.0.0.1').on('error', () => {});
      socket.write(`${head('PUT', `busy-${n}`, 'Content-Length: 10')}abc`);
      return socket;
    });
    await expect.poll(async () => (await api().uploadsLeft(ALICES)).length).toBe(8);
    const ninth = await ask('GET', 'digits');
    expectRefused(ninth, 429, 'too_many_requests');
    expect(ninth.headers['retry-after']).toBe('2');
    expect((await api().send(fileUrl('secret', BOBS), { token: BOB })).text).toBe('of bob');
    for (const socket of sockets) socket.destroy();
    await expect.poll(() => api().uses.inUse({ kind: 'volume', id: ALICES })).toBe(false);
    expect((await ask('HEAD', 'digits')).status).toBe(200);
  });
});
