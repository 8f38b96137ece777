/** Images by way of a real daemon and a registry of our own. */
import { once } from 'node:events';
import net, { type AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EngineFault } from '../../src/domain/engine-fault.ts';
import { listedRef, splitRef } from '../../src/engines/docker/refs.ts';
import { registryFault } from '../../src/engines/docker/registry-faults.ts';
import { makeTransferProgress } from '../../src/engines/docker/transfers.ts';
import type { ImageProgress } from '../../src/engines/contract.ts';
import { deadline, expectFault, makeSubject, until, untilStopped } from './conformance/subject.ts';
import { makeDockerFixture, type DockerFixture } from './docker-fixture.ts';
import { makeRegistry, type Registry } from './docker-registry.ts';

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
    const told: ImageProgress[] = [];
    await fixture.engine.ensureImage(ref, (progress) => told.push(progress), signal);
    return told;
  };

  it('an aborted pull is a fault worth another try, at once, and the next one has the image', async () => {
    registry.mood = 'holding';
    const abort = new AbortController();
    const told: ImageProgress[] = [];
    const pulling = fixture.engine.ensureImage(registry.imageRef, (progress) => told.push(progress), abort.signal);
    const refused = expectFault(pulling, 'unreachable');
    await until('bytes move', async () => told.length > 0);
    abort.abort();
    expect((await refused).retry).toBe(true);
    registry.mood = 'well';
    await pull(registry.imageRef);
    await fixture.docker.getImage(registry.imageRef).inspect();
  });

  it('tells bytes that only grow, up to the size of the layers; and nothing of an image that is there', async () => {
    await fixture.docker.getImage(registry.imageRef).remove({ force: true });
    const told: ImageProgress[] = [];
    await fixture.make().ensureImage(registry.imageRef, (progress) => told.push(progress), deadline());
    expect(told.at(-1)).toMatchObject({ done: registry.layerBytes, total: registry.layerBytes });
    for (const [index, { done, total }] of told.entries()) {
      expect(done).toBeLessThanOrEqual(total);
      expect(done).toBeGreaterThanOrEqual(told[index - 1]?.done ?? 0);
    }
    expect(await pull(registry.imageRef)).toEqual([]);
  });

  it('says what is unknown, what is denied, and what can not be reached', async () => {
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

  it('an image that was removed behind our back is missed at the launch, and had again after', async () => {
    await pull(registry.imageRef);
    await fixture.docker.getImage(registry.imageRef).remove({ force: true });
    expect(await pull(registry.imageRef), 'it is believed to be there').toEqual([]);
    const subject = makeSubject(fixture);
    try {
      const spec = subject.spec({ imageRef: registry.imageRef });
      await expectFault(subject.ensure(spec), 'not_found');
      expect((await pull(registry.imageRef)).length).toBeGreaterThan(0);
      await subject.ensure(spec);
      const { exitCode } = await untilStopped(subject, spec.id);
      expect(exitCode, 'it has no shell').toBe(127);
      expect(await fixture.engine.logs(spec.id, 'console', 5, deadline())).toEqual([
        expect.stringContaining('/bin/sh'),
      ]);
    } finally {
      await subject.clear();
    }
  });

  it('a ref of a recipe goes to whoever builds, once, and its failure is passed on', async () => {
    const asked: string[] = [];
    const engine = fixture.make({
      buildLocalImage: async (ref, onProgress) => {
        asked.push(ref);
        onProgress({ text: 'Building', done: 1, total: 2, unit: 'steps' });
        if (ref.includes('broken')) throw new EngineFault('rejected', 'the recipe is broken', { retry: false });
      },
    });
    const told: ImageProgress[] = [];
    await engine.ensureImage('berth.local/some:1', (progress) => told.push(progress), deadline());
    await engine.ensureImage('berth.local/some:1', (progress) => told.push(progress), deadline());
    expect(asked).toEqual(['berth.local/some:1']);
    expect(told).toEqual([{ text: 'Building', done: 1, total: 2, unit: 'steps' }]);
    const fault = await expectFault(
      engine.ensureImage('berth.local/broken:1', () => {}, deadline()),
      'rejected',
    );
    expect(fault.message).toBe('the recipe is broken');
  });
});

describe('what a pull says', () => {
  it('bytes are summed over layers, and none is counted beyond its size', () => {
    const told: ImageProgress[] = [];
    const add = makeTransferProgress((progress) => told.push(progress));
    add({ status: 'Pulling from tiny', id: '1' });
    add({ status: 'Already exists', id: 'x' });
    add({ status: 'Downloading', id: 'a', progressDetail: { current: 10, total: 100 } });
    add({ status: 'Downloading', id: 'b', progressDetail: { current: 5, total: 50 } });
    add({ status: 'Downloading', id: 'a', progressDetail: { current: 5, total: 100 } });
    add({ status: 'Download complete', id: 'b' });
    add({ status: 'Download complete', id: 'a' });
    add({ status: 'Extracting', id: 'a', progressDetail: { current: 1, total: 100 } });
    expect(told.map(({ done, total }) => [done, total])).toEqual([
      [10, 100],
      [15, 150],
      [60, 150],
      [150, 150],
    ]);
    expect(told.at(-1)?.text).toBe('Unpacking');
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
    ['something nobody has ever seen', 'unreachable'],
  ])('"%s" is %s', (sentence, kind) => {
    const answer = Object.assign(new Error('server error'), { statusCode: 500, json: { message: sentence } });
    expect(registryFault('x:9', answer)).toMatchObject({ kind, message: expect.stringContaining('x:9') });
  });

  it('a ref without a tag means its latest, never all', () => {
    expect(splitRef('debian')).toEqual({ repository: 'debian', tag: 'latest' });
    expect(splitRef('localhost:5000/debian')).toEqual({ repository: 'localhost:5000/debian', tag: 'latest' });
    expect(splitRef('localhost:5000/debian:12')).toEqual({ repository: 'localhost:5000/debian', tag: '12' });
    expect(splitRef('a/b@sha256:00')).toEqual({ repository: 'a/b', tag: 'sha256:00' });
  });
});
