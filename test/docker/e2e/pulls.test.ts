/**
 * Pulls as the owner sees them: from Debian's registry, through a proxy that can be cut, and from a
 * faulty registry.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, test, type TestContext } from 'vitest';
import type { Limits } from '../../../src/domain/compute/instance-states.ts';
import { startDebianRegistries, type DebianRegistries } from '../engines/debian-registry.ts';
import { importBusybox } from '../engines/docker-fixture.ts';
import { makeRegistry, type Registry } from '../engines/docker-registry.ts';
import { docker, until } from '../../fixtures/server-process.ts';
import { startInside, type ServerInside } from './in-process-server.ts';
import { makeWire, type End, type Wire } from './fault-proxy.ts';

/** Random bytes, which do not compress. */
const IMAGE_BYTES = 6_000_000;
const common = {
  backOffBaseMs: 300,
  backOffMaxMs: 1_000,
  engineRetryMs: 200,
  stopGraceMs: 1_000,
} satisfies Partial<Limits>;

let registries: DebianRegistries;
/** Two servers: the first waits as long as a pull takes, the second has a short deadline. */
let patient: ServerInside;
let hasty: ServerInside;
let folder: string;
/** Removed once no container needs them. */
const pulled: string[] = [];
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'berth-pulls-'));
  registries = await startDebianRegistries();
  patient = await startInside({ nodePorts: '31800-31849', limits: common });
  hasty = await startInside({
    nodePorts: '31850-31899',
    // Long enough to observe each transient reason on a busy machine.
    limits: { ...common, imageDeadlineMs: 10_000, maxAttempts: 2 },
  });
});
afterAll(async () => {
  await patient?.stop();
  await hasty?.stop();
  await Promise.all(pulled.map(dropImage));
  await registries?.stop();
  await rm(folder, { recursive: true, force: true });
});

type After = TestContext['onTestFinished'];

const endOf = (address: string): End => ({ host: '127.0.0.1', port: Number(address.split(':')[1]) });

interface Published {
  ref: string;
  imageId: string;
  wire: Wire;
}

const dropImage = (ref: string): Promise<unknown> => docker.getImage(ref).remove({ force: true }).catch(ignoreMissing);

/** A never pulled image in the real registry, behind a proxy of its own. */
async function published(inside: ServerInside, onTestFinished: After): Promise<Published> {
  const wire = await makeWire({ at: { host: '127.0.0.1', port: 0 }, to: endOf(registries.open) });
  onTestFinished(() => wire.down());
  const ref = `127.0.0.1:${wire.port}/tiny:1`;
  pulled.push(ref);
  await importBusybox(docker, ref, folder, { '/noise': { content: randomBytes(IMAGE_BYTES), mode: 0o644 } });
  const said = await text(
    await docker.getImage(ref).push({ authconfig: { username: '', password: '', serveraddress: '' } }),
  );
  if (said.includes('"error"')) throw new Error(said);
  await docker.getImage(ref).remove({ force: true });
  return { ref, wire, imageId: await inside.offer(ref) };
}

async function ill(mood: Registry['mood'], onTestFinished: After): Promise<Registry> {
  const registry = await makeRegistry();
  onTestFinished(() => registry.stop());
  registry.mood = mood;
  return registry;
}

function ignoreMissing(error: unknown): void {
  if (!(error instanceof Error && 'statusCode' in error && error.statusCode === 404)) throw error;
}

describe('a faulty registry', () => {
  test.concurrent(
    'a registry that answers 500: BackOff with the cause, then recovery',
    async ({ expect, onTestFinished }) => {
      const { imageId, wire } = await published(patient, onTestFinished);
      wire.leadTo(endOf((await ill('failing', onTestFinished)).address));
      const id = await patient.launch({ imageId });
      const { instanceRuntimeInfo: now } = await patient.sees(id, { diagnosisReason: 'BackOff' });
      expect(now).toMatchObject({ status: 'Starting', phase: 'DownloadImage' });
      expect(now.diagnosisMessage).toMatch(/the registry is unreachable or failing \(.*(500|out of order)/);
      expect((await patient.row(id)).holdsCapacity).toBe(true);
      wire.leadTo(endOf(registries.open));
      await patient.sees(id, { status: 'Running', diagnosisReason: '' });
      await patient.removeAll(id);
    },
  );

  test.concurrent('a registry that refuses connections: BackOff, then recovery', async ({ expect, onTestFinished }) => {
    const { imageId, wire } = await published(patient, onTestFinished);
    await wire.down();
    const id = await patient.launch({ imageId });
    const { instanceRuntimeInfo: now } = await patient.sees(id, { status: 'Starting', diagnosisReason: 'BackOff' });
    expect(now.diagnosisMessage).toMatch(/connection refused/);
    await wire.up();
    await patient.sees(id, { status: 'Running', diagnosisReason: '' });
    await patient.removeAll(id);
  });

  test.concurrent('a registry that never answers: ImageFailed at the deadline', async ({ expect, onTestFinished }) => {
    const { imageRef } = await ill('silent', onTestFinished);
    const id = await hasty.launch({ imageId: await hasty.offer(imageRef) });
    const message = 'waiting for the first bytes of the image';
    await hasty.sees(id, { status: 'Initializing', phase: 'DownloadImage', diagnosisReason: '', message });
    const said = await hasty.givenUp(id, { status: 'StartingFailed', reason: 'ImageFailed' });
    expect(said).toBe('the image was not ready after 10 s');
    await hasty.removeAll(id);
  });

  test.concurrent('a registry that requires credentials: BackOff, then ImageDenied', async ({ expect }) => {
    const id = await hasty.launch({ imageId: await hasty.offer(`${registries.closed}/secret:1`) });
    await hasty.sees(id, { status: 'Starting', phase: 'DownloadImage', diagnosisReason: 'BackOff' });
    const said = await hasty.givenUp(id, { status: 'StartingFailed', reason: 'ImageDenied' });
    expect(said).toMatch(/does not exist, or needs other credentials/);
    await hasty.removeAll(id);
  });

  test.concurrent('an unknown image and an invalid name: BackOff, then ImageFailed', async ({ expect }) => {
    const missing = await hasty.launch({ imageId: await hasty.offer(`${registries.open}/nothing:1`) });
    const local = await hasty.launch({ imageId: await hasty.offer('berth.local/nothing:1') });
    await hasty.sees(missing, { status: 'Starting', phase: 'DownloadImage', diagnosisReason: 'BackOff' });
    const said = await Promise.all(
      [missing, local].map((id) => hasty.givenUp(id, { status: 'StartingFailed', reason: 'ImageFailed' })),
    );
    expect(said[0]).toMatch(/the image does not exist; check its name and tag/);
    expect(said[1]).toMatch(/launch with the current image/);
    await hasty.removeAll(missing, local);
  });

  test.concurrent(
    'an image for another architecture: ImageFailed with that cause',
    async ({ expect, onTestFinished }) => {
      const { ref } = await published(hasty, onTestFinished);
      const manifests = `http://${ref.replace('/tiny:1', '/v2/tiny/manifests')}`;
      const one = 'application/vnd.docker.distribution.manifest.v2+json';
      const many = 'application/vnd.docker.distribution.manifest.list.v2+json';
      const found = await fetch(`${manifests}/1`, { headers: { accept: one } });
      const size = (await found.arrayBuffer()).byteLength;
      const platform = { architecture: 's390x', os: 'linux' };
      const listed = { mediaType: one, size, digest: found.headers.get('docker-content-digest'), platform };
      const body = JSON.stringify({ schemaVersion: 2, mediaType: many, manifests: [listed] });
      const put = await fetch(`${manifests}/foreign`, { method: 'PUT', headers: { 'content-type': many }, body });
      expect(put.status).toBe(201);
      const id = await hasty.launch({ imageId: await hasty.offer(ref.replace(/1$/, 'foreign')) });
      const said = await hasty.givenUp(id, { status: 'StartingFailed', reason: 'ImageFailed' });
      expect(said).toMatch(/not for the host's processor architecture; choose an image for this architecture/);
      await hasty.removeAll(id);
    },
  );

  test.concurrent('an image removed from the host is pulled again', async ({ expect, onTestFinished }) => {
    const { ref, imageId, wire } = await published(patient, onTestFinished);
    const first = await patient.launch({ imageId });
    await patient.sees(first, { status: 'Running' });
    await patient.client.stop({ instanceId: first });
    await patient.sees(first, { status: 'Stopped' });
    await dropImage(ref);
    await wire.down();
    const second = await patient.launch({ imageId });
    const { instanceRuntimeInfo: now } = await patient.sees(second, { diagnosisReason: 'BackOff' });
    expect(now.diagnosisMessage).not.toBe('');
    await wire.up();
    await patient.sees(second, { status: 'Running', diagnosisReason: '' });
    await patient.client.start({ instanceId: first });
    await patient.sees(first, { status: 'Running', diagnosisReason: '' });
    await patient.removeAll(first, second);
  });
});

/** Sequential: the engine downloads three layers at once over all pulls. */
describe('a download', () => {
  test('PullingImage reports bytes done and total, and never decreases', async ({ expect, onTestFinished }) => {
    const { imageId, wire } = await published(patient, onTestFinished);
    wire.flow({ kind: 'slow' });
    const id = await patient.launch({ imageId });
    const seen: { status: string; phase: string; message: string }[] = [];
    await until(
      async () => {
        const { instanceRuntimeInfo: now } = await patient.sees(id, {});
        seen.push({ status: now.status, phase: now.phase, message: now.message });
        return now.status;
      },
      (status) => status === 'Running',
    );
    const pulling = seen.filter(({ status }) => status === 'PullingImage');
    expect(pulling.every(({ phase }) => phase === 'DownloadImage')).toBe(true);
    const amounts = pulling.flatMap(({ message }) => {
      const said = /^Downloading (\d+\.\d) of (\d+\.\d) MB$/.exec(message);
      return said ? [{ done: Number(said[1]), total: Number(said[2]) }] : [];
    });
    expect(new Set(amounts.map(({ done }) => done)).size).toBeGreaterThan(2);
    expect(amounts).toEqual(amounts.toSorted((a, b) => a.done - b.done));
    expect(amounts.every(({ done, total }) => done <= total && total >= IMAGE_BYTES / 1e6)).toBe(true);
    const image = (await patient.row(id)).operation.stages.find(({ name }) => name === 'Image');
    expect(image?.progress).toMatchObject({ unit: 'bytes', done: image?.progress?.total });
    expect(image?.progress?.done).toBeGreaterThan(IMAGE_BYTES);
    expect((await patient.story(id)).filter((one) => one.startsWith('PullingImage'))).toEqual([
      'PullingImage/DownloadImage/',
    ]);
    await patient.removeAll(id);
  });

  test.for(['held', 'cut'] as const)(
    'a %s stream: ImageFailed at the deadline, and the next start pulls again',
    async (kind, { expect, onTestFinished }) => {
      const { imageId, wire } = await published(hasty, onTestFinished);
      wire.flow({ kind, afterBytes: IMAGE_BYTES / 2 });
      const id = await hasty.launch({ imageId });
      const said = await hasty.givenUp(id, { status: 'StartingFailed', reason: 'ImageFailed' });
      expect(said).toBe('the image was not ready after 10 s');
      expect(await hasty.story(id)).toContain('PullingImage/DownloadImage/');
      wire.flow({ kind: 'through' });
      await hasty.client.start({ instanceId: id });
      await hasty.sees(id, { status: 'Running', diagnosisReason: '' });
      await hasty.removeAll(id);
    },
  );

  test('terminate aborts a pull', async ({ expect, onTestFinished }) => {
    const { imageId, wire } = await published(patient, onTestFinished);
    // The engine notices an abort only while bytes arrive.
    wire.flow({ kind: 'slow' });
    const id = await patient.launch({ imageId });
    await patient.sees(id, { status: 'PullingImage' });
    expect(wire.open()).toBeGreaterThan(0);
    await patient.removeAll(id);
    await until(
      async () => wire.open(),
      (open) => open === 0,
    );
    expect(wire.carried()).toBeLessThan(IMAGE_BYTES);
  });
});
