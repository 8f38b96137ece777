/** Images on a real daemon, with a registry of the test. */
import { once } from 'node:events';
import http from 'node:http';
import net, { type AddressInfo } from 'node:net';
import path from 'node:path';
import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EngineFault } from '../../../src/domain/regions/engine-fault.ts';
import { listedRef, splitRef } from '../../../src/engines/docker/image/refs.ts';
import { registryFault } from '../../../src/engines/docker/image/registry-faults.ts';
import { makeTransferProgress } from '../../../src/engines/docker/image/transfers.ts';
import type { ImageProgress } from '../../../src/engines/contract.ts';
import { deadline, expectFault, makeSubject, until, untilStopped } from '../../conformance/subject.ts';
import { makeDockerFixture, type DockerFixture } from './docker-fixture.ts';
import { makeRegistry, type Registry } from './docker-registry.ts';

const notThere = (error: unknown): void => {
  if (!(error instanceof Error && 'statusCode' in error && error.statusCode === 404)) throw error;
};

describe('pulls', () => {
  let fixture: DockerFixture;
  let registry: Registry;
  beforeAll(async () => {
    [fixture, registry] = await Promise.all([makeDockerFixture(), makeRegistry()]);
  });
  afterAll(async () => {
    await fixture?.docker
      .getImage(registry.imageRef)
      .remove({ force: true })
      .catch(() => {});
    await registry?.stop();
    await fixture?.stop();
  });
  const pull = async (ref: string, signal = deadline()): Promise<ImageProgress[]> => {
    const reported: ImageProgress[] = [];
    await fixture.engine.ensureImage(ref, (progress) => reported.push(progress), signal);
    return reported;
  };

  it('fails an aborted pull at once with a retryable fault, and the next pull succeeds', async () => {
    registry.mood = 'holding';
    const abort = new AbortController();
    const reported: ImageProgress[] = [];
    const pulling = fixture.engine.ensureImage(registry.imageRef, (progress) => reported.push(progress), abort.signal);
    const refused = expectFault(pulling, 'unreachable');
    await until('bytes move', async () => reported.length > 0);
    abort.abort();
    expect((await refused).retry).toBe(true);
    registry.mood = 'well';
    await pull(registry.imageRef);
    await fixture.docker.getImage(registry.imageRef).inspect();
  });

  it('reports bytes that never decrease, up to the size of the layers, and none for a present image', async () => {
    await fixture.docker.getImage(registry.imageRef).remove({ force: true });
    const reported: ImageProgress[] = [];
    await fixture.make().ensureImage(registry.imageRef, (progress) => reported.push(progress), deadline());
    expect(reported.at(-1)).toMatchObject({ done: registry.layerBytes, total: registry.layerBytes });
    for (const [index, { done, total }] of reported.entries()) {
      expect(done).toBeLessThanOrEqual(total);
      expect(done).toBeGreaterThanOrEqual(reported[index - 1]?.done ?? 0);
    }
    expect(await pull(registry.imageRef)).toEqual([]);
  });

  it('distinguishes missing, denied and unreachable images', async () => {
    const unknown = await expectFault(pull(`${registry.address}/tiny:2`), 'not_found');
    expect(unknown.message).toContain(`${registry.address}/tiny:2`);
    await expectFault(pull(`${registry.address}/nothing:1`), 'not_found');
    const denied = await expectFault(pull(`${registry.address}/secret:1`), 'denied');
    expect(denied.retry).toBe(false);
    const server = net.createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    const away = await expectFault(pull(`127.0.0.1:${port}/tiny:1`), 'unreachable');
    expect(away.retry).toBe(true);
    await expectFault(pull('Not A Name'), 'rejected');
  });

  it('checks an image without a download, and names the architectures when none is of the host', async () => {
    await fixture.docker.getImage(registry.imageRef).remove({ force: true }).catch(notThere);
    const { digest } = (await fixture.engine.checkImage(registry.imageRef, deadline())) || expect.fail();
    expect(digest).toMatch(/^sha256:[0-9a-f]{64}$/);
    await expectFault(fixture.engine.checkImage(`${registry.address}/tiny:2`, deadline()), 'not_found');
    await expectFault(fixture.engine.checkImage(`${registry.address}/secret:1`, deadline()), 'denied');
    registry.mood = 'failing';
    const away = await expectFault(fixture.engine.checkImage(registry.imageRef, deadline()), 'unreachable');
    expect(away.reason).toBe('registryAway');
    registry.mood = 'silent';
    const slow = AbortSignal.timeout(300);
    await expectFault(fixture.engine.checkImage(registry.imageRef, slow), 'unreachable');
    registry.mood = 'well';
    await registry.renew('s390x');
    const unfit = await expectFault(fixture.engine.checkImage(registry.imageRef, deadline()), 'rejected');
    expect(unfit).toMatchObject({ reason: 'imageUnfit', retry: false });
    expect(unfit.message).toMatch(/the image is for s390x, and the host for \w+; choose an image/);
    await expect(fixture.docker.getImage(registry.imageRef).inspect()).rejects.toMatchObject({ statusCode: 404 });
    await registry.renew();
    await pull(registry.imageRef);
  });

  it.each([
    ['failing', 'unreachable', true, 'registryAway'],
    ['denying', 'denied', false, 'imageDenied'],
    ['cuttingShort', 'unreachable', true, 'registryAway'],
    ['babbling', 'rejected', true, 'imageUnfit'],
    ['forging', 'rejected', true, 'imageUnfit'],
  ] as const)(
    'a registry that is %s makes it %s, and the next pull has the image',
    async (mood, kind, retry, reason) => {
      await registry.renew();
      await fixture.docker.getImage(registry.imageRef).remove({ force: true }).catch(notThere);
      const engine = fixture.make();
      const have = (): Promise<void> => engine.ensureImage(registry.imageRef, () => {}, deadline());
      registry.mood = mood;
      try {
        const fault = await expectFault(have(), kind);
        expect(fault).toMatchObject({ retry, reason });
        expect(fault.message).toContain(registry.imageRef);
      } finally {
        registry.mood = 'well';
      }
      await have();
    },
  );

  it('fails a pull from a silent registry at the deadline', async () => {
    await registry.renew();
    await fixture.docker.getImage(registry.imageRef).remove({ force: true }).catch(notThere);
    const engine = fixture.make();
    registry.mood = 'silent';
    try {
      const call = engine.ensureImage(registry.imageRef, () => {}, AbortSignal.timeout(300));
      expect((await expectFault(call, 'unreachable')).retry).toBe(true);
    } finally {
      registry.mood = 'well';
    }
  });

  it('stops the download of an aborted pull', async () => {
    await registry.renew();
    await fixture.docker.getImage(registry.imageRef).remove({ force: true }).catch(notThere);
    registry.mood = 'trickling';
    const abort = new AbortController();
    const refused = expectFault(
      fixture.make().ensureImage(registry.imageRef, () => {}, abort.signal),
      'unreachable',
    );
    await until('a layer is on its way', async () => registry.sending() === 1);
    abort.abort();
    await refused;
    registry.mood = 'well';
    await until('the registry sees the engine hang up', async () => registry.hungUp() === 1);
    await expect(fixture.docker.getImage(registry.imageRef).inspect()).rejects.toMatchObject({ statusCode: 404 });
  });

  it('resumes a layer after a cut connection, and its bytes never decrease', async () => {
    await registry.renew();
    await fixture.docker.getImage(registry.imageRef).remove({ force: true }).catch(notThere);
    registry.mood = 'cutting';
    const reported: ImageProgress[] = [];
    const tell = (progress: ImageProgress): void => {
      reported.push(progress);
      registry.mood = 'well';
    };
    await fixture.make().ensureImage(registry.imageRef, tell, deadline());
    expect(reported.at(-1)).toMatchObject({ done: registry.layerBytes, total: registry.layerBytes });
    for (const [index, { done }] of reported.entries())
      expect(done).toBeGreaterThanOrEqual(reported[index - 1]?.done ?? 0);
  });

  it('fails a pull whose stream ends without the image', async () => {
    const hollow = http.createServer((request, response) => {
      const pulls = request.method === 'POST';
      response.writeHead(pulls ? 200 : 404, { 'content-type': 'application/json' });
      response.end(pulls ? '{"status":"Pulling fs layer","id":"a"}\n' : '{"message":"No such image: x"}');
    });
    const socketPath = path.join(await fixture.hostFolder(), 'engine.sock');
    hollow.listen(socketPath);
    await once(hollow, 'listening');
    try {
      const engine = fixture.make({ endpoint: { socketPath } });
      const fault = await expectFault(
        engine.ensureImage('some/image:1', () => {}, deadline()),
        'unreachable',
      );
      expect(fault).toMatchObject({ retry: true, reason: undefined });
    } finally {
      hollow.closeAllConnections();
      await new Promise((resolve) => hollow.close(resolve));
    }
  });

  it('passes credentials in a header, and never in a fault', async () => {
    const asked: http.IncomingMessage[] = [];
    const echoing = http.createServer((request, response) => {
      asked.push(request);
      response.writeHead(request.method === 'POST' ? 500 : 404, { 'content-type': 'application/json' });
      response.end('{"message":"No such image: unauthorized: incorrect username or password"}');
    });
    const socketPath = path.join(await fixture.hostFolder(), 'engine.sock');
    echoing.listen(socketPath);
    await once(echoing, 'listening');
    try {
      const engine = fixture.make({ endpoint: { socketPath } });
      const given = { username: 'berth', secret: 'hush-hush' };
      const calls = [
        () => engine.ensureImage('r.example/a/b:1', () => {}, deadline(), given),
        () => engine.pushImage('r.example/a/b:1', () => {}, deadline(), given),
      ];
      for (const call of calls) {
        const fault = await expectFault(call(), 'denied');
        expect(fault.reason).toBe('imageDenied');
        const all = inspect(fault, { depth: Infinity, showHidden: true });
        expect(all).not.toContain(given.secret);
        expect(all).not.toContain(Buffer.from(given.secret).toString('base64').slice(0, 8));
      }
      const posts = asked.filter(({ method }) => method === 'POST');
      expect(posts).toHaveLength(2);
      for (const { url, headers } of posts) {
        expect(url).not.toContain(given.secret);
        const header = Buffer.from(String(headers['x-registry-auth']), 'base64url').toString();
        expect(JSON.parse(header)).toEqual({ username: 'berth', password: given.secret, serveraddress: 'r.example' });
      }
    } finally {
      echoing.closeAllConnections();
      await new Promise((resolve) => echoing.close(resolve));
    }
  });

  it('reports an externally removed image at the launch, and pulls it again', async () => {
    await pull(registry.imageRef);
    await fixture.docker.getImage(registry.imageRef).remove({ force: true });
    expect(await pull(registry.imageRef), 'the cache says present').toEqual([]);
    const subject = makeSubject(fixture);
    try {
      const spec = subject.spec({ imageRef: registry.imageRef });
      await expectFault(subject.ensure(spec), 'not_found');
      expect((await pull(registry.imageRef)).length).toBeGreaterThan(0);
      await subject.ensure(spec);
      const { exitCode } = await untilStopped(subject, spec.id);
      expect(exitCode, 'it has no shell').toBe(127);
      expect(
        await Array.fromAsync(
          await fixture.engine.logs(spec.id, 'console', { tail: 5 }, deadline()),
          ({ text }) => text,
        ),
      ).toEqual([expect.stringContaining('/bin/sh')]);
    } finally {
      await subject.clear();
    }
  });

  it('builds the ref of a recipe once, and passes its failure on', async () => {
    const asked: string[] = [];
    const engine = fixture.make({
      buildLocalImage: async (ref, onProgress) => {
        asked.push(ref);
        onProgress({ text: 'Building', done: 1, total: 2, unit: 'steps' });
        if (ref.includes('broken')) throw new EngineFault('rejected', 'the recipe is broken', { retry: false });
      },
    });
    const reported: ImageProgress[] = [];
    await engine.ensureImage('berth.local/some:1', (progress) => reported.push(progress), deadline());
    await engine.ensureImage('berth.local/some:1', (progress) => reported.push(progress), deadline());
    expect(asked).toEqual(['berth.local/some:1']);
    expect(reported).toEqual([{ text: 'Building', done: 1, total: 2, unit: 'steps' }]);
    const fault = await expectFault(
      engine.ensureImage('berth.local/broken:1', () => {}, deadline()),
      'rejected',
    );
    expect(fault.message).toBe('the recipe is broken');
  });
});

describe('progress and faults of transfers', () => {
  it('sums bytes over layers, none beyond its size', () => {
    const reported: ImageProgress[] = [];
    const add = makeTransferProgress((progress) => reported.push(progress));
    add({ status: 'Pulling from tiny', id: '1' });
    add({ status: 'Already exists', id: 'x' });
    add({ status: 'Downloading', id: 'a', progressDetail: { current: 10, total: 100 } });
    add({ status: 'Downloading', id: 'b', progressDetail: { current: 5, total: 50 } });
    add({ status: 'Downloading', id: 'a', progressDetail: { current: 5, total: 100 } });
    add({ status: 'Download complete', id: 'b' });
    add({ status: 'Download complete', id: 'a' });
    add({ status: 'Extracting', id: 'a', progressDetail: { current: 1, total: 100 } });
    expect(reported.map(({ done, total }) => [done, total])).toEqual([
      [10, 100],
      [15, 150],
      [60, 150],
      [150, 150],
    ]);
    expect(reported.at(-1)?.text).toBe('Unpacking');
    expect(() => add({ error: 'unexpected EOF' })).toThrow('unexpected EOF');
  });

  it.each([
    ['manifest for x:9 not found: manifest unknown: manifest unknown', 'not_found'],
    ['pull access denied for x, repository does not exist or may require docker login', 'denied'],
    ['Get "https://r.example/v2/": dial tcp: lookup r.example: no such host', 'unreachable'],
    [
      'Get "https://r.example/v2/": net/http: request canceled (Client.Timeout exceeded while awaiting headers)',
      'unreachable',
    ],
    ['unauthorized: authentication required', 'denied'],
    ['toomanyrequests: You have reached your pull rate limit', 'unreachable'],
    ['no matching manifest for linux/arm64/v8 in the manifest list entries', 'rejected'],
    ['write /var/lib/docker/tmp/x: no space left on device', 'no_capacity'],
    ['write /var/lib/docker/tmp/x: disk quota exceeded', 'no_capacity'],
    ['manifest for x:9 not found: manifest unknown: manifest unknown', 'not_found'],
    ['something nobody has ever seen', 'unreachable'],
  ])('"%s" is %s', (sentence, kind) => {
    const answer = Object.assign(new Error('server error'), { statusCode: 500, json: { message: sentence } });
    expect(registryFault('x:9', answer)).toMatchObject({ kind, message: expect.stringContaining('x:9') });
  });

  it('ignores an image name that reads like a fault', () => {
    const ref = 'r.example/tools/denied-tls:404';
    const sentence = `manifest for ${ref} not found: manifest unknown`;
    const answer = Object.assign(new Error('server error'), { statusCode: 404, json: { message: sentence } });
    expect(registryFault(ref, answer)).toMatchObject({ kind: 'not_found', reason: 'imageMissing' });
  });

  it('attributes an error in the stream to the registry, and a broken connection to the engine', () => {
    const add = makeTransferProgress(() => {});
    const midst = (error: string): unknown => {
      try {
        add({ errorDetail: { message: error }, error });
      } catch (thrown) {
        return thrown;
      }
      return expect.fail('it was not thrown');
    };
    for (const [sentence, kind, reason] of [
      ['unexpected EOF', 'unreachable', 'registryAway'],
      ['received unexpected HTTP status: 500 Internal Server Error', 'unreachable', 'registryAway'],
      ['unauthorized: authentication required', 'denied', 'imageDenied'],
      ['tag does not exist: r.example/x:9', 'not_found', 'imageMissing'],
      ['failed to register layer: ApplyLayer exit status 1: no space left on device', 'no_capacity', 'diskFull'],
    ]) {
      expect(registryFault('r.example/x:9', midst(sentence ?? ''))).toMatchObject({ kind, reason });
    }
    const reset = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
    expect(registryFault('r.example/x:9', reset)).toMatchObject({ kind: 'unreachable', reason: undefined });
  });

  it('counts an upload like a download, without decrease when a size is lowered', () => {
    const reported: ImageProgress[] = [];
    const add = makeTransferProgress((progress) => reported.push(progress));
    add({ status: 'Preparing', id: 'a', progressDetail: {} });
    add({ status: 'Layer already exists', id: 'x' });
    add({ status: 'Pushing', id: 'a', progressDetail: { current: 60, total: 100 } });
    add({ status: 'Pushing', id: 'a', progressDetail: { current: 90, total: 80 } });
    add({ status: 'Pushed', id: 'a' });
    expect(reported).toEqual([
      { text: 'Uploading', done: 60, total: 100, unit: 'bytes' },
      { text: 'Uploading', done: 90, total: 100, unit: 'bytes' },
      { text: 'Uploading', done: 100, total: 100, unit: 'bytes' },
    ]);
  });

  it('reads a ref without tag as its latest', () => {
    expect(splitRef('debian')).toEqual({ repository: 'debian', tag: 'latest' });
    expect(splitRef('localhost:5000/debian')).toEqual({ repository: 'localhost:5000/debian', tag: 'latest' });
    expect(splitRef('localhost:5000/debian:12')).toEqual({ repository: 'localhost:5000/debian', tag: '12' });
    expect(splitRef('a/b@sha256:00')).toEqual({ repository: 'a/b', tag: 'sha256:00' });
    expect(['debian', 'docker.io/library/debian:12', 'ghcr.io/a/b'].map(listedRef)).toEqual([
      'debian:latest',
      'debian:12',
      'ghcr.io/a/b:latest',
    ]);
  });
});
