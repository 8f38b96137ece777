/** Archive, start and save of root disks on a real engine, stored locally and in a registry. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Limits } from '../../../src/domain/compute/instance-states.ts';
import { credentials, startDebianRegistries, type DebianRegistries } from '../engines/debian-registry.ts';
import { hasContainer, namesUnder, shell } from './container-shell.ts';
import { startInside, type ServerInside } from './in-process-server.ts';
import { until } from '../../fixtures/server-process.ts';

const limits = { maxAttempts: 3, backOffBaseMs: 300, engineRetryMs: 200, stopGraceMs: 1_000 } satisfies Partial<Limits>;
const pager = { currentPage: 1, pageSize: 100 };

const sshPortOf = async (inside: ServerInside, id: string): Promise<number> =>
  (await inside.row(id)).nodePorts.find(({ port }) => port === 22)?.nodePort ?? 0;

async function launchWithFiles(inside: ServerInside, imageId: string): Promise<string> {
  const id = await inside.launch({ imageId, initScript: 'echo begun >>/root/begun\n' });
  await inside.sees(id, { status: 'Running' });
  await until(
    () => shell(id, 'cat /root/begun').catch(String),
    (text) => text === 'begun\n',
  );
  await shell(id, 'echo root >/root/kept; echo other >/opt-kept; echo data >/root/dataDisk/kept; sync');
  return id;
}

async function archive(inside: ServerInside, id: string): Promise<string> {
  const port = await sshPortOf(inside, id);
  await inside.client.archive({ instanceId: id });
  const { instanceRuntimeInfo, instanceSpecInfo } = await inside.sees(id, { status: 'Archived', phase: 'Archived' });
  expect(instanceRuntimeInfo).toMatchObject({ healthy: false, diagnosisReason: '' });
  expect(instanceSpecInfo.nodePorts.every(({ nodePort }) => nodePort === 0)).toBe(true);
  expect(await hasContainer(id)).toBe(false);
  expect(await sshPortOf(inside, id)).toBe(port);
  return (await inside.row(id)).archive?.ref ?? '';
}

async function startAgain(inside: ServerInside, id: string): Promise<void> {
  const port = await sshPortOf(inside, id);
  await inside.client.start({ instanceId: id });
  await inside.sees(id, { status: 'Running' }, 60_000);
  expect(await sshPortOf(inside, id)).toBe(port);
}

describe('an archive in the engine’s image store', () => {
  let inside: ServerInside;
  let imageId: string;
  beforeAll(async () => {
    inside = await startInside({ nodePorts: '31500-31539', limits });
    imageId = await inside.offerTiny();
  });
  afterAll(() => inside?.stop());

  test('files of the root disk survive archive and start, and the next archive replaces the first', async () => {
    const id = await launchWithFiles(inside, imageId);
    const before = (await inside.counted()).used;
    const first = await archive(inside, id);
    expect(first).toMatch(/^berth\.local\/archive\//);
    expect((await inside.counted()).used).toMatchObject({ cpuMilli: 0, memoryMiB: 0, nodePorts: before.nodePorts });
    expect(await namesUnder(`berth.local/archive/${id}`)).toEqual([first]);

    await startAgain(inside, id);
    expect(await shell(id, 'cat /root/kept /opt-kept /root/dataDisk/kept')).toBe('root\nother\ndata\n');
    // Not a first start: the init script is not run again.
    expect(await shell(id, 'cat /root/begun; hostname')).toBe(`begun\n${id}-0\n`);
    await shell(id, 'echo later >/root/kept');
    const second = await archive(inside, id);
    expect(second).not.toBe(first);
    expect(await namesUnder(`berth.local/archive/${id}`)).toEqual([second]);
    await startAgain(inside, id);
    expect(await shell(id, 'cat /root/kept')).toBe('later\n');
    await inside.removeAll(id);
    expect(await namesUnder(`berth.local/archive/${id}`)).toEqual([]);
  });

  test('terminates an Archived instance with its image and disks', async () => {
    const id = await launchWithFiles(inside, imageId);
    await archive(inside, id);
    await inside.removeAll(id);
    expect(await namesUnder(`berth.local/archive/${id}`)).toEqual([]);
  });

  test('saves a running instance as an image, whose launch is a first start with its files', async () => {
    const { client } = inside;
    const id = await launchWithFiles(inside, imageId);
    const saved = await client.saveImage({ instanceId: id, name: 'mine' });
    const listed = async () => (await client.listImages({ pager })).images.find((one) => one.imageId === saved.imageId);
    const ready = await until(listed, (image) => image?.state === 'Ready');
    expect(ready?.sizeBytes).toBeGreaterThan(0);
    expect((await inside.sees(id, {})).instanceRuntimeInfo.status).toBe('Running');

    const second = await inside.launch({ imageId: saved.imageId, initScript: 'echo begun >>/root/begun\n' });
    await inside.sees(second, { status: 'Running' });
    // The image holds the files of the root disk only, and its first start is a first start.
    await until(
      () => shell(second, 'cat /root/begun'),
      (text) => text === 'begun\nbegun\n',
    );
    expect(await shell(second, 'cat /root/kept /opt-kept; ls /root/dataDisk; hostname')).toBe(
      `root\nother\n${second}-0\n`,
    );
    await expect(client.deleteImage({ imageId: saved.imageId })).rejects.toMatchObject({
      status: 409,
      message: expect.stringContaining(second),
    });
    await inside.removeAll(second);
    await client.deleteImage({ imageId: saved.imageId });
    await until(
      () => namesUnder('berth.local/saved/'),
      (names) => names.length === 0,
    );
    await inside.removeAll(id);
  });
});

describe('an archive in the operator’s registry', () => {
  let registries: DebianRegistries;
  let inside: ServerInside;
  let imageId: string;
  let prefix: string;
  beforeAll(async () => {
    registries = await startDebianRegistries();
    prefix = `${registries.closed}/kept`;
    inside = await startInside({
      nodePorts: '31540-31579',
      limits,
      settings: {
        BERTH_ARCHIVE_REGISTRY: prefix,
        BERTH_ARCHIVE_REGISTRY_USERNAME: credentials.username,
        BERTH_ARCHIVE_REGISTRY_PASSWORD: credentials.secret,
      },
    });
    imageId = await inside.offerTiny();
  });
  afterAll(async () => {
    await inside?.stop();
    await registries?.stop();
  });

  const tagsAt = async (ref: string): Promise<string[]> => {
    const [, repository = ''] = /^[^/]+\/(.+):[^:]+$/.exec(ref) ?? [];
    const authorization = `Basic ${Buffer.from(`${credentials.username}:${credentials.secret}`).toString('base64')}`;
    const answer = await fetch(`http://${registries.closed}/v2/${repository}/tags/list`, {
      headers: { authorization },
    });
    const { tags }: { tags?: string[] } = JSON.parse(await answer.text());
    return tags ?? [];
  };

  test('files of the root disk survive archive and start; in between nothing is on the host', async () => {
    const id = await launchWithFiles(inside, imageId);
    const ref = await archive(inside, id);
    expect(ref.startsWith(`${prefix}/archive/${id}:`)).toBe(true);
    expect(await tagsAt(ref)).toEqual([ref.slice(ref.lastIndexOf(':') + 1)]);
    expect(await namesUnder(`${prefix}/`)).toEqual([]);
    await startAgain(inside, id);
    expect(await shell(id, 'cat /root/kept /opt-kept /root/dataDisk/kept')).toBe('root\nother\ndata\n');
    await inside.removeAll(id);
    expect(await namesUnder(`${prefix}/`)).toEqual([]);
  });

  test('pushes a saved image to the registry and launches from it', async () => {
    const { client } = inside;
    const id = await launchWithFiles(inside, imageId);
    const saved = await client.saveImage({ instanceId: id, name: 'mine' });
    const listed = async () => (await client.listImages({ pager })).images.find((one) => one.imageId === saved.imageId);
    const ready = await until(listed, (image) => image?.state === 'Ready');
    expect(ready?.ref).toBe(`${prefix}/saved/${saved.imageId}:1`);
    expect(await namesUnder(`${prefix}/`)).toEqual([]);
    const second = await inside.launch({ imageId: saved.imageId });
    await inside.sees(second, { status: 'Running' });
    expect(await shell(second, 'cat /root/kept')).toBe('root\n');
    await inside.removeAll(second);
    await client.deleteImage({ imageId: saved.imageId });
    await until(
      () => namesUnder(`${prefix}/`),
      (names) => names.length === 0,
    );
    await inside.removeAll(id);
  });
});
