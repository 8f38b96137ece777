/** Changes of instances on a real engine: root disk, volumes, node ports and limits; `kill -9`. */
import { mkdtemp, rm } from 'node:fs/promises';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { instanceId } from '../../../src/domain/kernel/ids.ts';
import { containerName } from '../../../src/engines/labels.ts';
import { offerImage, thisMachine } from '../../../src/main/first-run.ts';
import { openStore } from '../../../src/store/open.ts';
import { atLevel } from '../../fixtures/level.ts';
import { makeRandom } from '../../fixtures/seeded-random.ts';
import {
  docker,
  login,
  startServerProcess,
  until,
  type Client,
  type ServerProcess,
} from '../../fixtures/server-process.ts';
import { bannerOfSshd, importBusybox } from '../engines/docker-fixture.ts';
import { namesUnder, shell } from './container-shell.ts';

const KILLS = atLevel({ short: 6, long: 12, soak: 60 });
const seed = process.env['BERTH_SEED'] ?? randomUUID().slice(0, 8);
const imageRef = `berth.local/change:${randomUUID()}`;

let server: ServerProcess;
let client: Client;
let launch: { imageId: string; region: string; types: { instanceTypeId: string }[] };
beforeAll(async () => {
  const scratch = await mkdtemp(join(tmpdir(), 'berth-change-'));
  await importBusybox(docker, imageRef, scratch, { '/usr/sbin/sshd': bannerOfSshd });
  await rm(scratch, { recursive: true });
  let imageId = '';
  const prepare = async (folder: string): Promise<void> => {
    const store = await openStore({ file: join(folder, 'berth.db'), log: pino({ level: 'silent' }) });
    const image = { key: 'change', name: 'change', ref: imageRef, tags: [], architecture: thisMachine().architecture };
    imageId = await offerImage(store, image, { nowMs: Date.now(), uuid: randomUUID });
    await store.stop();
  };
  server = await startServerProcess({ nodePorts: '32700-32739', prepare });
  ({ client } = await login(server));
  const region = (await client.catalog()).instanceInfos.find(({ gpuName }) => gpuName === '')?.regionInfos[0];
  if (!region) throw new Error('nothing is on offer');
  launch = { imageId, region: region.regionId, types: region.instanceTypeInfos };
});
afterAll(async () => {
  await server?.stop();
  await docker.getImage(imageRef).remove({ force: true });
});

const get = async (id: string) => (await client.getInstance({ instanceId: id })).instance;
const runs = (id: string) =>
  until(
    () => get(id),
    ({ instanceRuntimeInfo }) => instanceRuntimeInfo.status === 'Running' && instanceRuntimeInfo.phase === 'Ready',
  );
const portsOf = async (id: string) =>
  new Map((await get(id)).instanceSpecInfo.nodePorts.map(({ port, nodePort }) => [port, nodePort]));
const inspect = (id: string) => docker.getContainer(containerName(instanceId(id))).inspect();
const restart = async (id: string) => {
  await client.restart({ instanceId: id });
  await until(
    () => get(id),
    ({ instanceRuntimeInfo }) => instanceRuntimeInfo.status !== 'Restarting',
  );
  return runs(id);
};

async function launched(nodePorts: number[]): Promise<string> {
  const { instanceId: id } = await client.launch({
    name: 'change',
    imageId: launch.imageId,
    instanceTypeId: launch.types[0]?.instanceTypeId ?? '',
    region: launch.region,
    billing: { chargeMode: 'perHour', duration: 1 },
    remoteStorages: [],
    nodePorts,
    instanceConfiguration: { enableCommonData: false, enableDocker: false, initScript: '' },
  });
  await runs(id);
  return id;
}

test('a change of type alone keeps the container, and a change of volumes and ports keeps the root disk', async () => {
  const id = await launched([8000, 8001]);
  await shell(id, 'echo root >/root/kept; echo other >/opt-kept; echo data >/root/dataDisk/kept; sync');
  const [before, ports] = [await inspect(id), await portsOf(id)];
  await client.updateInstance({ instanceId: id, instanceTypeId: launch.types[1]?.instanceTypeId ?? '' });
  await restart(id);
  const resized = await inspect(id);
  const { cpu, memory } = (await get(id)).instanceSpecInfo.instanceTypeInfo;
  expect(resized.Id).toBe(before.Id);
  expect(resized.HostConfig).toMatchObject({ Memory: memory.amount * 2 ** 30, NanoCpus: cpu.amount * 1e9 });
  expect(resized.HostConfig.Memory).toBeGreaterThan(before.HostConfig.Memory ?? 0);
  expect(await shell(id, 'nproc')).toBe(`${cpu.amount}\n`);

  const { volume } = await client.createVolume({
    name: 'added',
    sizeGB: 1,
    region: launch.region,
    volumeType: 'filesystem',
  });
  const added = {
    mountPath: '/mnt/added',
    remoteStorageName: 'added',
    remoteStorageId: volume.id,
    type: 'filesystem',
  };
  await client.updateInstance({ instanceId: id, remoteStorages: [added], nodePorts: [8001, 9000] });
  await restart(id);
  expect((await inspect(id)).Id).not.toBe(before.Id);
  expect(await shell(id, 'cat /root/kept /opt-kept /root/dataDisk/kept; hostname')).toBe(
    `root\nother\ndata\n${id}-0\n`,
  );
  await shell(id, 'grep -q " /mnt/added " /proc/mounts && echo volume >/mnt/added/kept; sync');
  const after = await portsOf(id);
  expect([...after.keys()]).toEqual([22, 8001, 9000]);
  expect([after.get(22), after.get(8001)]).toEqual([ports.get(22), ports.get(8001)]);

  await client.updateInstance({ instanceId: id, remoteStorages: [] });
  await restart(id);
  expect(await shell(id, 'ls /mnt/added; cat /root/kept')).toBe('root\n');
  await client.archive({ instanceId: id });
  await until(
    () => get(id),
    ({ instanceRuntimeInfo }) => instanceRuntimeInfo.phase === 'Archived',
  );
  await client.start({ instanceId: id });
  await runs(id);
  expect(await portsOf(id)).toEqual(after);
  await client.terminate({ instanceId: id });
  await until(
    () => namesUnder(`berth.local/archive/${id}`),
    (names) => names.length === 0,
  );
  await client.deleteVolume({ id: volume.id });
});

test(`${KILLS} kills of the server in the middle of a change lose no file of the root disk (seed ${seed})`, async () => {
  const random = makeRandom(seed);
  const id = await launched([]);
  const ports = await portsOf(id);
  for (let round = 1; round <= KILLS; round++) {
    await shell(id, `echo ${round} >>/root/rounds; sync`);
    const nodePorts = round % 2 === 1 ? [8000] : [];
    await client.updateInstance({ instanceId: id, nodePorts });
    await client.restart({ instanceId: id });
    await sleep(random() * 2_500);
    await server.kill('SIGKILL');
    await server.start();
    ({ client } = await login(server));
    await runs(id);
    const rounds = Array.from({ length: round }, (_, index) => `${index + 1}\n`).join('');
    expect(await shell(id, 'cat /root/rounds')).toBe(rounds);
    expect([...(await portsOf(id)).keys()]).toEqual([22, ...nodePorts]);
    expect((await portsOf(id)).get(22)).toBe(ports.get(22));
    expect((await get(id)).pendingChanges).toBe(null);
  }
  await client.terminate({ instanceId: id });
  await until(
    () => namesUnder(`berth.local/archive/${id}`),
    (names) => names.length === 0,
  );
});
