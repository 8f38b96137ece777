/**
 * `kill -9` of the server and of an instance during writes: disks are mounted again with all synced
 * data. Needs root.
 */
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { instanceId as asInstanceId } from '../../../src/domain/kernel/ids.ts';
import { containerName } from '../../../src/engines/labels.ts';
import { offerImage, thisMachine } from '../../../src/main/first-run.ts';
import { listMountPoints } from '../../../src/storage/image-file/image-mounts.ts';
import { openStore } from '../../../src/store/open.ts';
import { bannerOfSshd, importBusybox } from '../engines/docker-fixture.ts';
import { shell } from './container-shell.ts';
import {
  docker,
  login,
  startServerProcess,
  until,
  type Client,
  type ServerProcess,
} from '../../fixtures/server-process.ts';

const imageRef = `berth.local/disk-kill:${randomUUID()}`;
const pager = { currentPage: 1, pageSize: 10 };
let server: ServerProcess;
let client: Client;
let imageId = '';

beforeAll(async () => {
  const scratch = await mkdtemp(join(tmpdir(), 'berth-disk-kill-'));
  await importBusybox(docker, imageRef, scratch, { 'bin/sshd': bannerOfSshd });
  await rm(scratch, { recursive: true });
  server = await startServerProcess({
    nodePorts: '32050-32069',
    settings: { BERTH_POOL: 'engine=image-file,size=10000', BERTH_SHARED_DISK_GB: '1' },
    prepare: async (folder) => {
      const store = await openStore({ file: join(folder, 'berth.db'), log: pino({ level: 'silent' }) });
      const image = { key: 'kill', name: 'kill', ref: imageRef, tags: [], architecture: thisMachine().architecture };
      imageId = await offerImage(store, image, { nowMs: Date.now(), uuid: randomUUID });
      await store.stop();
    },
  });
  ({ client } = await login(server));
});
afterAll(async () => {
  await server?.stop();
  await docker.getImage(imageRef).remove({ force: true });
});

async function isRunning(id: string): Promise<void> {
  await until(
    async () => (await client.listInstances({ pager })).instances.find((one) => one.instanceMetadata.instanceId === id),
    (one) => one?.instanceRuntimeInfo.status === 'Running' && one.instanceRuntimeInfo.healthy,
  );
}

/** Writes files of random bytes without end; `sums` gets each name and checksum after its fsync. */
const WRITER = `
cd $1; i=0
while :; do
  i=$((i+1)); head -c 300000 /dev/urandom | dd of=$2.$i conv=fsync && md5sum $2.$i | dd of=sums oflag=append conv=notrunc,fsync
done`;

test('synced data survives repeated kills of server and instance during writes', async () => {
  const { instanceInfos } = await client.catalog();
  const regionInfo = instanceInfos[0]?.regionInfos[0];
  const region = regionInfo?.regionId ?? '';
  const { volume } = await client.createVolume({ name: 'kill', sizeGB: 1, region, volumeType: 'filesystem' });
  const { instanceId } = await client.launch({
    name: 'kill',
    imageId,
    region,
    instanceTypeId: regionInfo?.instanceTypeInfos[0]?.instanceTypeId ?? '',
    billing: { chargeMode: 'perHour', duration: 1 },
    remoteStorages: [
      { mountPath: '/root/v', remoteStorageName: 'kill', remoteStorageId: volume.id, type: 'filesystem' },
    ],
    nodePorts: [],
    instanceConfiguration: { enableCommonData: false, enableDocker: false, initScript: '' },
  });
  await isRunning(instanceId);
  const container = docker.getContainer(containerName(asInstanceId(instanceId)));
  const folders = ['/root/v', '/root/dataDisk', '/root/sharedDisk'];
  let synced = 0;
  for (let round = 0; round < 3; round++) {
    for (const folder of folders)
      await shell(instanceId, `cat >/tmp/w <<'END'\n${WRITER}\nEND\nsh /tmp/w ${folder} r${round} >/dev/null 2>&1 &`);
    const written = async (): Promise<number> =>
      Number(await shell(instanceId, `cat ${folders.map((folder) => `${folder}/sums`).join(' ')} 2>/dev/null | wc -l`));
    const before = synced;
    await until(written, (count) => count >= before + 15);
    const { StartedAt: startedAt } = (await container.inspect()).State;
    if (round !== 1) await server.kill('SIGKILL');
    await container.kill({ signal: 'SIGKILL' });
    if (round !== 1) await server.start();
    await until(
      async () => (await container.inspect()).State,
      ({ Running, StartedAt }) => Running && StartedAt !== startedAt,
    );
    await isRunning(instanceId);
    synced = await written();
    expect(synced).toBeGreaterThanOrEqual(before + 15);
    for (const folder of folders)
      expect(await shell(instanceId, `cd ${folder} && md5sum -c sums | grep -vc ': OK$' || true`)).toBe('0\n');
  }
  const points = [...(await listMountPoints())].filter((point) => point.startsWith(server.folder));
  expect(points).toHaveLength(folders.length);

  await client.terminate({ instanceId });
  await client.deleteVolume({ id: volume.id });
  await until(
    async () => [...(await listMountPoints())].filter((point) => point.startsWith(server.folder)),
    (left) => left.every((point) => point.includes('/shared/')),
  );
});
