/** Disks in image files under real containers: full, expanded, and removed. Needs root. */
import { execFile } from 'node:child_process';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { InstanceObject } from '../../../src/contract/compute/instance.ts';
import type { AnswerOf } from '../../../src/contract/routes.ts';
import { instanceId } from '../../../src/domain/kernel/ids.ts';
import { containerName, labels } from '../../../src/engines/labels.ts';
import { listMountPoints } from '../../../src/storage/image-file/image-mounts.ts';
import { bannerOfSshd } from '../engines/docker-fixture.ts';
import { longTest } from '../../fixtures/long-test.ts';
import { shell } from './container-shell.ts';
import { hastened, startInside, type ServerInside } from './in-process-server.ts';
import { docker, until } from '../../fixtures/server-process.ts';

const run = promisify(execFile);
const GB = 1024 ** 3;

let inside: ServerInside;
let imageId: string;
let region: string;
beforeAll(async () => {
  inside = await startInside({
    nodePorts: '32000-32049',
    limits: { stopGraceMs: 1_000, engineRetryMs: 200 },
    time: hastened,
    settings: { BERTH_POOL: 'engine=image-file,size=10000', BERTH_SHARED_DISK_GB: '1' },
  });
  region = inside.server.example.region;
  imageId = await inside.offerTiny({ 'bin/sshd': bannerOfSshd });
});
afterAll(async () => {
  await inside?.stop();
});

type Shown = AnswerOf<'getInstance'>['disks'][number];

async function volume(name: string): Promise<string> {
  const made = await inside.client.createVolume({ name, sizeGB: 1, region, volumeType: 'filesystem' });
  return made.volume.id;
}

const mounting = (...ids: string[]) =>
  ids.map((remoteStorageId, at) => ({
    mountPath: `/root/v${at}`,
    remoteStorageName: remoteStorageId,
    remoteStorageId,
    type: 'filesystem',
  }));

async function running(...volumes: string[]): Promise<string> {
  const id = await inside.launch({ imageId, remoteStorages: mounting(...volumes) });
  await inside.sees(id, { status: 'Running' });
  return id;
}

async function diskOf(id: string, mountPath: string): Promise<Shown> {
  const { disks } = await inside.client.getInstance({ instanceId: id });
  const found = disks.find((disk) => disk.mountPath === mountPath);
  if (!found) throw new Error(`${id} shows no disk on ${mountPath}`);
  return found;
}

const gone = async (...volumes: string[]): Promise<void> => {
  for (const id of volumes) await inside.client.deleteVolume({ id });
  await until(
    () => readdir(join(inside.folder, 'disks/volume')),
    (names) => volumes.every((id) => !names.some((name) => name.endsWith(id))),
  );
};

const mountsHere = async (): Promise<string[]> =>
  [...(await listMountPoints())].filter((point) => point.startsWith(inside.folder));

async function loopsHere(): Promise<string[]> {
  const { stdout } = await run('losetup', ['--list', '--noheadings', '--output', 'BACK-FILE']);
  return stdout.split('\n').filter((line) => line.startsWith(inside.folder));
}

const NO_SPACE = /No space left on device/;
const fill = (id: string, folder: string): Promise<unknown> =>
  expect(shell(id, `cat /dev/zero >${folder}/full`)).rejects.toThrow(NO_SPACE);

test('a full volume fails only its own writes, reports it within seconds, and its instance starts again', async () => {
  const [full, other] = [await volume('full'), await volume('other')];
  const [one, two] = [await running(full, other), await running(full)];
  await shell(one, 'mkdir -p /root/v0/deep/inner && echo seen >/root/v0/from-one');
  expect(await shell(two, 'cat /root/v0/from-one')).toBe('seen\n');
  await fill(two, '/root/v0/deep/inner');
  await expect(shell(one, 'head -c 1000000 /dev/zero >/root/v0/more')).rejects.toThrow(NO_SPACE);
  for (const folder of ['/root/v1', '/root/dataDisk', '/root/sharedDisk', '/root'])
    await shell(one, `head -c 1000000 /dev/zero >${folder}/fine && sync`);
  await fill(one, '/root/sharedDisk');

  const full100 = await until(
    () => diskOf(one, '/root/v0'),
    ({ biggest, percent }) => percent >= 99 && biggest.length > 0,
  );
  const size = Number((await shell(one, 'du -sk /root/v0')).split('\t')[0]) * 1024;
  expect(Math.abs(full100.usageGB * GB - size)).toBeLessThan(0.01 * size);
  expect(full100).toMatchObject({ disk: 'volume', id: full, sizeGB: 1, sizeLimit: 'hard' });
  expect(full100.biggest[0]?.path).toBe('deep/inner');
  const { volumeList } = await inside.client.listVolumes({ pager: { currentPage: 1, pageSize: 10 } });
  expect(volumeList.find(({ id }) => id === full)?.usageGB).toBeCloseTo(full100.usageGB, 2);

  const says = [
    /volume on \/root\/v0 is \d+ % full; its largest paths are \/root\/v0\/deep\/inner/,
    /the shared disk is \d+ % full; its largest paths are \/root\/sharedDisk\/full/,
  ];
  const saysSo = ({ instanceRuntimeInfo: now }: InstanceObject): boolean =>
    says.every((text) => text.test(now.message));
  await until(() => inside.sees(one, {}), saysSo);
  await inside.client.stop({ instanceId: one });
  await inside.sees(one, { status: 'Stopped' });
  await inside.client.start({ instanceId: one });
  expect(saysSo(await inside.sees(one, { status: 'Running' }))).toBe(true);
  await shell(one, 'rm /root/sharedDisk/full');
  await inside.removeAll(one, two);
  await gone(full, other);
});

/** Fills the disk, expands it by 1 GB under a writer, and returns its largest size. */
async function growsUnderAWriter(
  id: string,
  folder: string,
  expand: (sizeGB: number) => Promise<unknown>,
): Promise<number> {
  const { sizeGB } = await diskOf(id, folder);
  // fallocate takes the space without writing a byte.
  await shell(id, `fallocate -l ${Math.floor((sizeGB - 0.2) * GB)} ${folder}/taken`);
  const writing = shell(
    id,
    `cd ${folder}; i=0; while [ $i -lt 60 ]; do until head -c 10000000 /dev/zero 2>/dev/null >f$i; do sleep 0.1; done; i=$((i+1)); done; echo done`,
  );
  await until(
    () => diskOf(id, folder),
    ({ percent }) => percent >= 95,
  );
  await expand(sizeGB + 1);
  expect(await writing).toBe('done\n');
  const now = await until(
    () => diskOf(id, folder),
    ({ percent }) => percent < 95,
  );
  expect(now.sizeGB).toBe(sizeGB + 1);
  return sizeGB;
}

test('a full data disk is expanded under a writer, without a stop of its instance', async () => {
  const id = await running();
  const sizeGB = await growsUnderAWriter(id, '/root/dataDisk', (dataDiskGB) =>
    inside.client.expandDisk({ instanceId: id, dataDiskGB }),
  );
  const { instanceRuntimeInfo } = await inside.sees(id, { status: 'Running', message: '' });
  expect(instanceRuntimeInfo.instanceDiskAmountInfo.dataDiskAmountGi).toBe(sizeGB + 1);
  // The file system goes on to prepare what was added: both show the same once it is done.
  await until(
    async () => {
      const { instanceDiskUsageInfo } = (await inside.sees(id, { status: 'Running' })).instanceRuntimeInfo;
      return [instanceDiskUsageInfo.dataDiskUsedGi, (await diskOf(id, '/root/dataDisk')).usageGB];
    },
    ([listed, measured]) => listed === measured,
  );
  await inside.removeAll(id);
});

longTest('expands a full volume for all instances that mount it', async () => {
  const grown = await volume('grown');
  const [one, two] = [await running(grown), await running(grown)];
  await growsUnderAWriter(one, '/root/v0', (sizeGB) => inside.client.expandVolume({ id: grown, sizeGB }));
  expect(await shell(two, 'head -c 100000000 /dev/zero >/root/v0/of-two && sync && echo written')).toBe('written\n');
  await inside.removeAll(one, two);
  await gone(grown);
});

test('unmounts disks of stopped instances, mounts them again at start, and mounts common data read-only', async () => {
  const mounted = await volume('kept');
  const { client } = inside;
  const { instanceId: id } = await client.launch({
    name: 'with common data',
    ...inside.server.example,
    imageId,
    billing: { chargeMode: 'perHour', duration: 1 },
    remoteStorages: mounting(mounted),
    nodePorts: [],
    instanceConfiguration: { enableCommonData: true, enableDocker: false, initScript: '' },
  });
  await inside.sees(id, { status: 'Running' });
  await writeFile(join(inside.folder, 'common/set'), 'a set\n');
  expect(await shell(id, 'cat /root/commonData/set')).toBe('a set\n');
  await expect(shell(id, 'echo x >/root/commonData/set')).rejects.toThrow(/Read-only file system/);
  await shell(id, 'echo kept >/root/v0/file && echo data >/root/dataDisk/file && sync');
  await inside.client.stop({ instanceId: id });
  await inside.sees(id, { status: 'Stopped' });
  await until(
    async () => [...(await mountsHere()), ...(await loopsHere())],
    (found) => found.length === 0,
  );
  await inside.client.start({ instanceId: id });
  await inside.sees(id, { status: 'Running' });
  expect(await shell(id, 'cat /root/v0/file /root/dataDisk/file')).toBe('kept\ndata\n');
  await inside.removeAll(id);
  await gone(mounted);
});

test('either the launch or the deletion of its volumes wins, and nothing leaks', async () => {
  const launched: string[] = [];
  const left: string[] = [];
  for (let round = 0; round < 6; round++) {
    const id = await volume(`raced ${round}`);
    const [launch, removal] = await Promise.allSettled([
      inside.launch({ imageId, remoteStorages: mounting(id) }),
      inside.client.deleteVolume({ id }),
    ]);
    expect([launch.status, removal.status].toSorted()).toEqual(['fulfilled', 'rejected']);
    if (launch.status === 'fulfilled') launched.push(launch.value);
    if (removal.status === 'rejected') left.push(id);
  }
  await inside.removeAll(...launched);
  await gone(...left);
  await until(
    async () => [...(await mountsHere()), ...(await loopsHere())],
    (found) => found.length === 0,
  );
  expect(await readdir(join(inside.folder, 'disks/volume'))).toEqual([]);
  expect(await readdir(join(inside.folder, 'disks/data'))).toEqual([]);
  expect(await readFile('/proc/self/mountinfo', 'utf8')).not.toContain(inside.folder);
});

test('a container that is removed or pruned is RootDiskLost, until a new root disk is asked for', async () => {
  const id = await running();
  const agree = async (): Promise<void> => {
    await expect(inside.client.start({ instanceId: id })).rejects.toMatchObject({
      status: 409,
      message: expect.stringMatching(/Send "newRootDisk": true to start from the image/),
    });
    await inside.client.start({ instanceId: id, newRootDisk: true });
    await inside.sees(id, { status: 'Running', diagnosisReason: '' });
    expect(await shell(id, 'ls /root')).not.toContain('kept');
  };
  await shell(id, 'touch /root/kept /root/dataDisk/saved');
  await docker.getContainer(containerName(instanceId(id))).remove({ force: true });
  const said = await inside.givenUp(id, { status: 'StartingFailed', reason: 'RootDiskLost', hadRun: true });
  expect(said).toMatch(/removed outside of Berth/);
  await agree();
  await shell(id, 'touch /root/kept');
  await inside.client.stop({ instanceId: id });
  await inside.sees(id, { status: 'Stopped' });
  const filters = JSON.stringify({ label: [`${labels.id}=${id}`] });
  expect((await docker.pruneContainers({ filters })).ContainersDeleted).toHaveLength(1);
  await inside.sees(id, { status: 'Stopped', diagnosisReason: 'RootDiskLost' });
  await agree();
  expect(await shell(id, 'ls /root/dataDisk')).toContain('saved');
  await inside.removeAll(id);
});
