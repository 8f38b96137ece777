/** The whole program with a cluster as a region: from a launch to an empty namespace. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { longTest } from '../../fixtures/long-test.ts';
import { until } from '../../fixtures/server-process.ts';
import { fastStorageClass, storageClass } from '../cluster/config.ts';
import { NAMESPACE, startClusterServer, type ClusterServer } from './cluster-server.ts';

let scene: ClusterServer;
let untouched: string[];

beforeAll(async () => {
  scene = await startClusterServer({ image: 'busybox', addons: ['storage'], reach: 'portForward' });
  untouched = await scene.objects();
});
afterAll(() => scene?.stop());

longTest('a volume of each type has the storage class of its pool', async () => {
  const { admin: client, region, cluster } = scene;
  const types = ['filesystem', 'highspeedstorage'] as const;
  const made = await Promise.all(
    types.map(async (type) => {
      const { volume } = await client.createVolume({ name: type, sizeGB: 1, region, volumeType: type });
      return { mountPath: `/mnt/${type}`, remoteStorageName: type, remoteStorageId: volume.id, type };
    }),
  );
  const instanceId = await scene.launch(client, { remoteStorages: made });
  await scene.reaches(client, instanceId, 'Running');
  const command = ['sh', '-c', 'for type in filesystem highspeedstorage; do echo $type >/mnt/$type/mark; done'];
  expect(await client.exec({ instanceId, command })).toMatchObject({ exitCode: 0 });
  const classes = 'jsonpath={range .items[*]}{.spec.storageClassName}{" "}{.status.phase}{"\\n"}{end}';
  const claims = await cluster.kubectl(['get', 'pvc', '-n', NAMESPACE, '-l', 'berth.kind=volume', '-o', classes]);
  expect(claims.trim().split('\n').toSorted()).toEqual(
    [`${storageClass} Bound`, `${fastStorageClass} Bound`].toSorted(),
  );
  await client.terminate({ instanceId });
  await scene.reaches(client, instanceId, 'Cleaned');
  for (const { remoteStorageId } of made) await client.deleteVolume({ id: remoteStorageId });
  await until(scene.objects, (left) => left.join() === untouched.join());
});

longTest('an instance keeps its disks over a stop, serves a port, and leaves nothing after its end', async () => {
  const { admin: client, region, server } = scene;
  const { volume } = await client.createVolume({ name: 'kept', sizeGB: 1, region, volumeType: 'filesystem' });
  const mount = { mountPath: '/mnt/kept', remoteStorageName: 'kept', remoteStorageId: volume.id, type: 'filesystem' };
  const instanceId = await scene.launch(client, {
    remoteStorages: [mount],
    nodePorts: [8000],
    environment: { GREETING: 'good morning' },
    initScript: 'echo "$GREETING" >/root/greeting',
    startCommand: 'httpd -f -p 8000 -h /mnt/kept',
  });
  await scene.reaches(client, instanceId, 'Running');
  const inside = async (script: string): Promise<string> => {
    const { stdout, stderr, exitCode } = await client.exec({ instanceId, command: ['sh', '-c', script] });
    return exitCode === 0 ? stdout : `${exitCode}: ${stderr}`;
  };
  await until(
    () => client.getInstance({ instanceId }),
    ({ instance }) => instance.instanceRuntimeInfo.message.startsWith('the init script exited with code 0'),
  );
  expect(await inside('hostname; cat /root/greeting')).toBe(`${instanceId}-0\ngood morning\n`);
  await inside('for folder in /root /root/dataDisk /root/sharedDisk /mnt/kept; do echo here >$folder/mark; done; sync');
  const forwarded = `${server.gatewayUrl}/forward/${instanceId}/8000/mark`;
  await until(
    async () => (await fetch(forwarded)).text(),
    (text) => text === 'here\n',
  );

  await client.stop({ instanceId });
  await scene.reaches(client, instanceId, 'Stopped');
  expect((await fetch(forwarded)).status).toBe(503);
  await client.start({ instanceId });
  await scene.reaches(client, instanceId, 'Running');
  expect(await inside('cd /; ls root/mark root/dataDisk/mark root/sharedDisk/mark mnt/kept/mark 2>&1 | sort')).toBe(
    'ls: root/mark: No such file or directory\nmnt/kept/mark\nroot/dataDisk/mark\nroot/sharedDisk/mark\n',
  );

  await client.terminate({ instanceId });
  await scene.reaches(client, instanceId, 'Cleaned');
  await client.deleteVolume({ id: volume.id });
  await until(scene.objects, (left) => left.join() === untouched.join());
  const { quotas } = await client.listQuotas();
  expect(quotas.filter(({ used }) => (used ?? 0) > 0).map(({ name }) => name)).toEqual(['sshKeys']);
  const { periods } = await client.listUsagePeriods({ pager: { currentPage: 1, pageSize: 50 } });
  expect(periods.length).toBeGreaterThan(1);
  expect(periods.filter(({ untilUnixMs }) => untilUnixMs === null)).toEqual([]);
});

test('refuses what a cluster cannot do with its reason, before anything is made', async () => {
  const { admin: client, region } = scene;
  const listed = (await client.listRegions()).regions.find(({ regionId }) => regionId === region);
  expect(listed?.capabilities).toMatchObject({
    keepsRootDisk: false,
    whyNoRootDisk: expect.stringContaining('ends with the Pod'),
    saveImage: false,
    dockerInside: false,
    gpus: false,
  });
  const huge = await scene.createType({ name: 'huge', cpuCores: 1_000 });
  await expect(scene.launch(client, { instanceTypeId: huge })).rejects.toThrow(/fits on no host of region cluster/);
  const gpu = await scene.createType({ name: 'gpu', gpuNum: 1, gpuName: 'A100' });
  await expect(scene.launch(client, { instanceTypeId: gpu })).rejects.toThrow(
    /gpu \(1 CPU cores, 1 GB of memory, a root disk of \d+ GB and 1 GPU \(A100\)\) fits on no host.* and no GPU/,
  );
  const withDocker = {
    extraDataDiskSizeDB: 0,
    enableCommonData: false,
    enableDocker: true,
    dockerStorageSize: 0,
    initScript: '',
  };
  await expect(scene.launch(client, { instanceConfiguration: withDocker })).rejects.toThrow(/privileged sidecar/);
  const instanceId = await scene.launch(client);
  await scene.reaches(client, instanceId, 'Running');
  await expect(client.archive({ instanceId })).rejects.toThrow(/cannot save instances as images: .*registry/);
  await expect(client.saveImage({ instanceId, name: 'saved' })).rejects.toThrow(/cannot save instances as images/);
  await client.terminate({ instanceId });
  await scene.reaches(client, instanceId, 'Cleaned');
  await until(scene.objects, (left) => left.join() === untouched.join());
});
