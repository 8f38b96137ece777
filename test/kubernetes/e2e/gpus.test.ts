/**
 * GPUs of a cluster: the node offers an extended resource that no device is behind, which the
 * scheduler counts like any other.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { until } from '../../fixtures/server-process.ts';
import { nodeName } from '../cluster/config.ts';
import { NAMESPACE, startClusterServer, type ClusterServer } from './cluster-server.ts';

const gpus = {
  resource: 'nvidia.com/gpu',
  nameLabel: 'nvidia.com/gpu.product',
  parts: [{ resource: 'nvidia.com/mig-1g.5gb', name: 'MIG 1g.5gb', kind: 'mig' as const }],
};
const MIG = 'nvidia.com/mig-1g.5gb';
const MODEL = 'NVIDIA-L4';

let scene: ClusterServer;
beforeAll(async () => {
  scene = await startClusterServer({
    image: 'busybox',
    addons: ['storage'],
    reach: 'portForward',
    kubernetes: { gpus },
  });
  const { kubectl } = scene.cluster;
  await kubectl(['label', 'node', nodeName, `${gpus.nameLabel}=${MODEL}`]);
  const offer = JSON.stringify({ status: { capacity: { [gpus.resource]: '2', [MIG]: '1' } } });
  await kubectl(['patch', 'node', nodeName, '--subresource=status', '--type=merge', '-p', offer]);
});
afterAll(() => scene?.stop());

const gpusOfRegion = async (): Promise<unknown> =>
  (await scene.admin.listRegions()).regions.find(({ regionId }) => regionId === scene.region)?.capabilities.gpus;

const limitOf = (instanceId: string, resource: string): Promise<string> => {
  const got = `{.spec.nodeName} {.spec.containers[0].resources.limits.${resource.replaceAll('.', '\\.')}}`;
  return scene.cluster.kubectl(['get', 'pod', `${instanceId}-0`, '-n', NAMESPACE, '-o', `jsonpath=${got}`]);
};

test('instances get parts of cards as the resource of their type, and no more than there are', async () => {
  const { admin: client } = scene;
  await until(gpusOfRegion, (has) => has === true);
  const part = await scene.createType({ name: 'part', gpuNum: 1, gpuName: `${MODEL} MIG 1g.5gb` });
  const instanceId = await scene.launch(client, { instanceTypeId: part });
  await scene.reaches(client, instanceId, 'Running');
  expect(await limitOf(instanceId, MIG)).toBe(`${nodeName} 1`);
  expect(await limitOf(instanceId, gpus.resource)).toBe(`${nodeName} `);
  await expect(scene.launch(client, { instanceTypeId: part })).rejects.toThrow(/short of 1 GPU/);
  await client.terminate({ instanceId });
  await scene.reaches(client, instanceId, 'Cleaned');
});

test('instances of a type run on its nodes alone, with its priority', async () => {
  const { admin: client, cluster } = scene;
  const wall = { key: 'tier', value: 'gold', effect: 'NoSchedule' as const };
  await cluster.kubectl(['create', 'priorityclass', 'gold', '--value=1000']);
  await cluster.kubectl(['label', 'node', nodeName, 'tier=gold']);
  await cluster.kubectl(['taint', 'node', nodeName, 'tier=gold:NoSchedule']);
  try {
    const placement = { nodeSelector: { tier: 'gold' }, tolerations: [wall], priorityClass: 'gold' };
    const [gold, other] = await Promise.all([
      scene.createType({ name: 'gold', placement }),
      scene.createType({ name: 'silver', placement: { nodeSelector: { tier: 'silver' }, tolerations: [wall] } }),
    ]);
    const instanceId = await scene.launch(client, { instanceTypeId: gold });
    await scene.reaches(client, instanceId, 'Running');
    const output = ['-o', 'jsonpath={.spec.priorityClassName} {.spec.priority}'];
    expect(await cluster.kubectl(['get', 'pod', `${instanceId}-0`, '-n', NAMESPACE, ...output])).toBe('gold 1000');
    const nowhere = await scene.launch(client, { instanceTypeId: other });
    const { instance } = await until(
      () => client.getInstance({ instanceId: nowhere }),
      (one) => one.instance.instanceRuntimeInfo.diagnosisReason === 'NoCapacity',
    );
    expect(instance.instanceRuntimeInfo.diagnosisMessage).toMatch(
      /no node of the cluster has room .*node affinity\/selector/,
    );
    await Promise.all([instanceId, nowhere].map((one) => client.terminate({ instanceId: one })));
    await scene.reaches(client, instanceId, 'Cleaned');
    // No type of another region has nodes.
    const { types } = await client.listTypes({ pager: { currentPage: 1, pageSize: 100 } });
    const type = types.find(({ regionId }) => regionId !== scene.region);
    if (type === undefined) throw new Error('the own region has no type');
    const refused = client.updateType({ instanceTypeId: type.instanceTypeId, version: type.version, placement });
    await expect(refused).rejects.toThrow(
      /field "placement" chooses nodes of a cluster, but region .* is none \(simulated\)/,
    );
  } finally {
    await cluster.kubectl(['taint', 'node', nodeName, 'tier-']);
  }
});

test('instances get the GPUs of their type on a node with the model, and no more than there are', async () => {
  const { admin: client } = scene;
  await until(gpusOfRegion, (has) => has === true);
  const [one, two, other] = await Promise.all([
    scene.createType({ name: 'one', gpuNum: 1, gpuName: MODEL }),
    scene.createType({ name: 'two', gpuNum: 2, gpuName: MODEL }),
    scene.createType({ name: 'other', gpuNum: 1, gpuName: 'A100' }),
  ]);
  await expect(scene.launch(client, { instanceTypeId: other })).rejects.toThrow(/1 GPU \(A100\)\) fits on no host/);

  const instanceId = await scene.launch(client, { instanceTypeId: one });
  await scene.reaches(client, instanceId, 'Running');
  expect(await limitOf(instanceId, gpus.resource)).toBe(`${nodeName} 1`);
  await expect(scene.launch(client, { instanceTypeId: two })).rejects.toThrow(/short of 1 GPU/);

  await client.terminate({ instanceId });
  await scene.reaches(client, instanceId, 'Cleaned');
  const both = await scene.launch(client, { instanceTypeId: two });
  await scene.reaches(client, both, 'Running');
  // One without GPUs runs beside them, and sees none.
  const without = await scene.launch(client);
  await scene.reaches(client, without, 'Running');
  const command = ['sh', '-c', 'echo $NVIDIA_VISIBLE_DEVICES'];
  expect(await client.exec({ instanceId: without, command })).toMatchObject({ stdout: 'void\n' });
  expect(await client.exec({ instanceId: both, command })).toMatchObject({ stdout: '\n' });
});
