/**
 * GPUs by Dynamic Resource Allocation: slices of a driver whose devices no hardware is behind,
 * allocated by the scheduler and prepared by the driver, which the kubelet calls.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { until } from '../../fixtures/server-process.ts';
import { deviceDriver, nodeName } from '../cluster/config.ts';
import { NAMESPACE, startClusterServer, type ClusterServer } from './cluster-server.ts';

const attribute = (name: string): string => `device.attributes["${deviceDriver}"].${name}`;
const MODEL = 'Example H200';
const deviceClaims = [
  {
    deviceClass: deviceDriver,
    selector: `${attribute('type')} == "gpu" && device.capacity["${deviceDriver}"].memory.compareTo(quantity("100Gi")) > 0`,
    modelAttribute: `${deviceDriver}/productName`,
  },
  {
    deviceClass: deviceDriver,
    selector: `${attribute('type')} == "mig" && ${attribute('profile')} == "1g.18gb"`,
    modelAttribute: `${deviceDriver}/productName`,
    part: { name: 'MIG 1g.18gb', kind: 'mig' as const },
  },
];

const device = (name: string, type: string, memory: string, more: object = {}): object => ({
  name,
  attributes: { type: { string: type }, productName: { string: MODEL }, ...more },
  capacity: { memory: { value: memory } },
});
const slice = {
  apiVersion: 'resource.k8s.io/v1',
  kind: 'ResourceSlice',
  metadata: { name: 'devices-of-node' },
  spec: {
    driver: deviceDriver,
    nodeName,
    pool: { name: nodeName, generation: 1, resourceSliceCount: 1 },
    devices: [
      device('gpu-0', 'gpu', '141Gi'),
      device('gpu-1', 'gpu', '141Gi'),
      device('small', 'gpu', '80Gi'),
      device('part', 'mig', '18Gi', { profile: { string: '1g.18gb' } }),
    ],
  },
};
const deviceClass = {
  apiVersion: 'resource.k8s.io/v1',
  kind: 'DeviceClass',
  metadata: { name: deviceDriver },
  spec: { selectors: [{ cel: { expression: `device.driver == "${deviceDriver}"` } }] },
};

let scene: ClusterServer;
beforeAll(async () => {
  scene = await startClusterServer({
    image: 'busybox',
    addons: ['storage', 'devices'],
    reach: 'portForward',
    kubernetes: { deviceClaims },
    prepare: ({ apply }) => apply(deviceClass, slice),
  });
});
afterAll(() => scene?.stop());

const devicesOf = async (instanceId: string): Promise<string> => {
  const results = '{.status.allocation.devices.results[*].device}';
  const owner = `berth.id=${instanceId}`;
  return scene.cluster.kubectl([
    'get',
    'resourceclaims',
    '-n',
    NAMESPACE,
    '-l',
    owner,
    '-o',
    `jsonpath={range .items[*]}${results}{end}`,
  ]);
};
const claims = (): Promise<string> => scene.cluster.kubectl(['get', 'resourceclaims', '-n', NAMESPACE, '-o', 'name']);

test('a type names a model or a part of one, and gets devices of that kind alone', async () => {
  const { admin: client } = scene;
  const [two, part] = [
    await scene.createType({ name: 'two', gpuNum: 2, gpuName: MODEL }),
    await scene.createType({ name: 'part', gpuNum: 1, gpuName: `${MODEL} MIG 1g.18gb` }),
  ];
  const whole = await scene.launch(client, { instanceTypeId: two });
  const sliced = await scene.launch(client, { instanceTypeId: part });
  await scene.reaches(client, whole, 'Running');
  await scene.reaches(client, sliced, 'Running');
  expect((await devicesOf(whole)).split(' ').toSorted()).toEqual(['gpu-0', 'gpu-1']);
  expect(await devicesOf(sliced)).toBe('part');
  await expect(scene.launch(client, { instanceTypeId: part })).rejects.toThrow(/short of 1 GPU/);

  await client.stop({ instanceId: whole });
  await scene.reaches(client, whole, 'Stopped');
  // A stopped instance holds no device.
  await until(claims, (names) => names.split('\n').filter(Boolean).length === 1);
  await client.start({ instanceId: whole });
  await scene.reaches(client, whole, 'Running');
  expect((await devicesOf(whole)).split(' ')).toHaveLength(2);
  for (const instanceId of [whole, sliced]) {
    await client.terminate({ instanceId });
    await scene.reaches(client, instanceId, 'Cleaned');
  }
  await until(
    () => scene.objects(),
    (objects) => !objects.some((name) => name.includes('resource')),
  );
});
